#include "base/fault.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/attr.h"

#include "test.h"

static char report_path[] = "/tmp/kv-test-fault-XXXXXX";
static char report[256];

/* Passes five points; the bits of the result say which of them were true. */
static int
pass_five(void)
{
	int i, hit = 0;

	for (i = 0; i < 5; i++)
		hit |= kv_fault_pass("five.c", 10 + i) << i;
	return hit;
}

/* In a child, because points are counted for the life of a process. */
static int
run(const char *fault, int (*body)(void))
{
	int status;
	FILE *f = fopen(report_path, "w");
	pid_t pid;

	assert_non_null(f);
	fclose(f);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		if (fault)
			setenv("KV_FAULT", fault, 1);
		else
			unsetenv("KV_FAULT");
		setenv("KV_FAULT_REPORT", report_path, 1);
		exit(body());
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	memset(report, 0, sizeof(report));
	f = fopen(report_path, "r");
	assert_non_null(f);
	report[fread(report, 1, sizeof(report) - 1, f)] = '\0';
	fclose(f);
	return WEXITSTATUS(status);
}

static void
the_nth_point_is_true_once(void **state)
{
	(void)state;
	assert_int_equal(run("1", pass_five), 1);
	assert_string_equal(report, "reached 1 at five.c:10\n");
	assert_int_equal(run("5", pass_five), 16);
	assert_string_equal(report, "reached 5 at five.c:14\n");
}

static void
too_few_points_are_reported(void **state)
{
	(void)state;
	assert_int_equal(run("6", pass_five), 0);
	assert_string_equal(report, "not reached 6 of 5\n");
}

static void
without_a_number_nothing_happens(void **state)
{
	(void)state;
	assert_int_equal(run(NULL, pass_five), 0);
	assert_string_equal(report, "");
}

static int
silent_pass(void)
{
	if (!freopen("/dev/null", "w", stderr))
		return 99;
	return pass_five();
}

static void
a_bad_number_is_refused(void **state)
{
	(void)state;
	assert_int_equal(run("0", silent_pass), EXIT_FAILURE);
	assert_int_equal(run("x", silent_pass), EXIT_FAILURE);
	assert_string_equal(report, "");
}

static void *
pass_1000(void *arg)
{
	long hit = 0;
	int i;

	(void)arg;
	for (i = 0; i < 1000; i++)
		hit += kv_fault_pass("t.c", 1);
	return (void *)hit;
}

static int
pass_in_threads(void)
{
	pthread_t t[4];
	void *hit;
	long sum = 0;
	size_t i;

	for (i = 0; i < KV_ARRAY_LEN(t); i++)
		pthread_create(&t[i], NULL, pass_1000, NULL);
	for (i = 0; i < KV_ARRAY_LEN(t); i++) {
		pthread_join(t[i], &hit);
		sum += (long)hit;
	}
	return (int)sum;
}

static void
threads_share_the_count(void **state)
{
	(void)state;
	assert_int_equal(run("4000", pass_in_threads), 1);
	assert_int_equal(run("4001", pass_in_threads), 0);
	assert_string_equal(report, "not reached 4001 of 4000\n");
}

static int
pass_macro(void)
{
	return KV_FAULT_POINT();
}

static void
the_macro_is_off_in_release(void **state)
{
	(void)state;
#ifdef KV_FAULTS
	assert_int_equal(run("1", pass_macro), 1);
#else
	assert_int_equal(run("1", pass_macro), 0);
#endif
}

static int
make_report(void **state)
{
	int fd = mkstemp(report_path);

	(void)state;
	return fd < 0 ? -1 : close(fd);
}

static int
remove_report(void **state)
{
	(void)state;
	return unlink(report_path);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_nth_point_is_true_once),
		cmocka_unit_test(too_few_points_are_reported),
		cmocka_unit_test(without_a_number_nothing_happens),
		cmocka_unit_test(a_bad_number_is_refused),
		cmocka_unit_test(threads_share_the_count),
		cmocka_unit_test(the_macro_is_off_in_release),
	};

	return cmocka_run_group_tests(tests, make_report, remove_report);
}
