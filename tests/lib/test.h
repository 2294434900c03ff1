#ifndef KV_TEST_H
#define KV_TEST_H

/* cmocka.h needs these before it; clang-format would sort them after. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

/* Bounds on time are multiplied by it: how much slower this flavour may be. */
#if defined(__SANITIZE_THREAD__)
#define KV_TEST_SLOWER 10
#elif defined(__SANITIZE_ADDRESS__)
#define KV_TEST_SLOWER 4
#else
#define KV_TEST_SLOWER 1
#endif

/*
 * cmocka 1.1.5 reports a skipped test as "not ok", which prove counts as a
 * failure. So it returns from the test, and says on stderr that it did.
 */
#undef skip
#define skip()                                              \
	do {                                                \
		fprintf(stderr, "%s: skipped\n", __func__); \
		return;                                     \
	} while (0)

#endif
