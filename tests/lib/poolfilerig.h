#ifndef KV_TEST_POOLFILERIG_H
#define KV_TEST_POOLFILERIG_H

/* A pool in a file, in a file system of its own where that is allowed. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "svc/poolfile.h"

#define MIB        (UINT64_C(1) << 20)
#define POOL_BYTES (4 * MIB)

extern char pool_folder[64], pool_path[96], pool_index_path[96];
extern char pool_err[512]; /* what the last try to open it said */
extern bool pool_is_mounted;

/* Fixtures of cmocka. */
int poolfilerig_setup(void **state);
int poolfilerig_teardown(void **state);
#define POOLFILERIG_TEST(fn)                                   \
	cmocka_unit_test_setup_teardown(fn, poolfilerig_setup, \
					poolfilerig_teardown)

int poolfilerig_try(uint64_t bytes, struct kv_poolfile **p);
struct kv_poolfile *poolfilerig_open(uint64_t bytes);
/* UINT64_MAX: there is no such file. */
uint64_t poolfilerig_size(const char *name);
/* Makes the file if there is none. */
void poolfilerig_write(const char *name, off_t off, const void *bytes,
		       size_t n);

#endif
