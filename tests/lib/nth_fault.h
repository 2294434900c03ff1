#ifndef KV_TEST_NTH_FAULT_H
#define KV_TEST_NTH_FAULT_H

#include "base/fault.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test.h"

#ifdef KV_FAULTS
#define NTH_FAULT_IS_ON 1
#else
#define NTH_FAULT_IS_ON 0
#endif

/*
 * Entry of a test table for a test that calls nth_fault_run(): skipped, in
 * words that prove understands, in builds without fault points. (skip() of
 * cmocka 1.1.5 prints "not ok".) Such tests stand first: the points that the
 * parent has passed count in its children.
 */
#define nth_fault_test(fn)                                               \
	{                                                                \
		.name = NTH_FAULT_IS_ON ? #fn : #fn " # SKIP no faults", \
		.test_func = NTH_FAULT_IS_ON ? (fn) : nth_fault_none,    \
	}

static inline void
nth_fault_none(void **state)
{
	(void)state;
}

/*
 * Runs body in a child in which the n-th fault point fails, and returns the
 * child's exit code: what body returned.
 */
static inline int
nth_fault_run(unsigned n, int (*body)(void))
{
	char text[16];
	int status;
	pid_t pid;

	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		snprintf(text, sizeof(text), "%u", n);
		setenv("KV_FAULT", text, 1);
		exit(body());
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

#endif
