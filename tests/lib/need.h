#ifndef KV_TEST_NEED_H
#define KV_TEST_NEED_H

#include "test.h"

static inline void
need_none(void **state)
{
	(void)state;
}

/*
 * Entry of a test table for a test that this machine may not allow: run when
 * `can`, else skipped in words that prove understands. (skip() of cmocka 1.1.5
 * prints "not ok".)
 */
#define need_test(can, why, fn, setup, teardown)                              \
	{                                                                     \
		.name = (can) ? #fn : #fn " # SKIP needs " why,               \
		.test_func = (can) ? (fn) : need_none, .setup_func = (setup), \
		.teardown_func = (teardown)                                   \
	}

#endif
