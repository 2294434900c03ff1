#include "xfer/rdmaregion.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "hcaregs.h"
#include "nth_fault.h"
#include "test.h"

/* ---- what goes wrong ---- */

/* Both devices together may lock no more than that, which is all free again. */
static void
expect_failed(uint64_t locked)
{
	struct kv_rdmaregion *other;

	hcaregs_wait_told();
	assert_false(kv_rdmaregion_is_complete(hcaregs.g));
	assert_int_equal(hcaregs_count(), 0);
	other = kv_rdmaregion_new(hcaregs.r, hcaregs.pool, locked / 2,
				  KV_RDMAREGION_NEAR);
	assert_non_null(other);
	kv_rdmaregion_free(other);
}

static void
a_limit_of_locked_memory_is_told_in_numbers(void **state)
{
	static const char words[] =
		"2 RDMA devices want a pool of 508.0 KiB locked, 1016.0 KiB "
		"in all, but the limit of locked memory is 600.0 KiB; `ulimit "
		"-l unlimited`";

	(void)state;
	hcaregs_limit("614400");
	hca_memlock(hcahost_host, 614400);
	hcaregs_start();
	kv_rdmaregion_ready(hcaregs.g, HCAREGS_POOL, true);
	expect_failed(614400);
	assert_int_equal(hcaregs.status, -ENOMEM);
	assert_memory_equal(hcaregs.why, words, sizeof(words) - 1);
	assert_non_null(strstr(hcaregs.why, "containerd of the host"));
	assert_in_range(hcaregs.began, 600 / 64, 2 * HCAREGS_CHUNKS);
}

static void
a_device_that_registers_no_more_is_named(void **state)
{
	(void)state;
	hca_memlock(hcahost_host, 3 * HCAREGS_CHUNK);
	hcaregs_start();
	kv_rdmaregion_ready(hcaregs.g, HCAREGS_CHUNK, false);
	hcaregs_wait_began(2);
	kv_rdmaregion_ready(hcaregs.g, HCAREGS_POOL, true);
	expect_failed(3 * HCAREGS_CHUNK);
	assert_int_equal(hcaregs.status, -ENOMEM);
	assert_non_null(strstr(hcaregs.why, "mlx5_"));
	assert_non_null(strstr(hcaregs.why,
			       " of a pool of 508.0 KiB: Cannot allocate "
			       "memory; raise the limit of locked memory, or "
			       "take huge pages, or a smaller pool"));
}

static void
expect_words(int err, const char *words)
{
	hcaregs.fail_nth = hcaregs.began + 1;
	hcaregs.fail_err = err;
	hcaregs_start();
	kv_rdmaregion_ready(hcaregs.g, HCAREGS_POOL, true);
	expect_failed(8192);
	assert_int_equal(hcaregs.status, -err);
	assert_non_null(strstr(hcaregs.why, words));
	kv_rdmaregion_free(hcaregs.g);
	hcaregs.g = NULL;
}

static void
what_is_wrong_is_said(void **state)
{
	(void)state;
	expect_words(EFAULT, " registers no more than 0 B of a pool of 508.0 "
			     "KiB: Bad address; let a pool file lie on tmpfs "
			     "or hugetlbfs");
	expect_words(EPERM, ": Operation not permitted; see dmesg");
}

/* One device has registered more than the other when it fails. */
static void
one_device_fails_for_all(void **state)
{
	(void)state;
	hcaregs.gate = 2;
	hcaregs.fail_nth = 3;
	hcaregs.fail_err = EPERM;
	hcaregs_start();
	kv_rdmaregion_ready(hcaregs.g, HCAREGS_POOL, true);
	hcaregs_wait_began(4);
	assert_int_equal(hcaregs_count(), 2);
	assert_false(hcaregs_is_told());
	hcaregs_open_gate(UINT_MAX);
	expect_failed(8192);
	assert_int_equal(hcaregs.status, -EPERM);
	assert_in_range(hcaregs.began, 4, 2 * HCAREGS_CHUNKS);
}

/* ---- devices that are dead ---- */

static void
wait_count(unsigned n)
{
	const struct timespec pause = { .tv_nsec = 1000 * 1000 };

	while (hcaregs_count() != n)
		nanosleep(&pause, NULL);
}

static void
others_do_without_a_removed_device(void **state)
{
	struct kv_rdmarange ranges[HCAREGS_CHUNKS + 1];
	const struct kv_rdmamem *mem;
	unsigned i, n;

	(void)state;
	hcaregs_start();
	kv_rdmaregion_ready(hcaregs.g, HCAREGS_CHUNK, false);
	wait_count(2);
	hca_dev_remove(hcahost_devs[1]);
	kv_rdmaregion_ready(hcaregs.g, HCAREGS_POOL, true);
	hcaregs_wait_told();
	assert_int_equal(hcaregs.status, 0);
	assert_true(kv_rdmaregion_is_complete(hcaregs.g));
	assert_int_equal(hcaregs_count(), HCAREGS_CHUNKS);
	n = kv_rdmaregion_near(hcaregs.g, 0, HCAREGS_POOL, ranges,
			       KV_ARRAY_LEN(ranges));
	assert_int_equal(n, HCAREGS_CHUNKS);
	for (i = 0; i < n; i++) {
		mem = ranges[i].mem;
		assert_true(mem->keys[0] != 0 && mem->keys[1] == mem->keys[0]);
		assert_int_equal(mem->keys[2], 0);
	}
}

static void
when_all_are_removed_it_fails(void **state)
{
	(void)state;
	hcaregs_start();
	kv_rdmaregion_ready(hcaregs.g, HCAREGS_CHUNK, false);
	wait_count(2);
	hca_dev_remove(hcahost_devs[0]);
	hca_dev_remove(hcahost_devs[1]);
	kv_rdmaregion_ready(hcaregs.g, HCAREGS_POOL, true);
	hcaregs_wait_told();
	assert_int_equal(hcaregs.status, -EIO);
	assert_memory_equal(hcaregs.why, "mlx5_", 5);
	assert_non_null(strstr(hcaregs.why, " registers no more than 64.0 KiB "
					    "of a pool of 508.0 KiB: "
					    "Input/output error; see dmesg"));
	assert_int_equal(hcaregs_count(), 0);
}

/* Whatever the other one says, which is alive. */
static void
a_dead_device_excuses_nobody(void **state)
{
	(void)state;
	hca_dev_remove(hcahost_devs[1]);
	hca_memlock(hcahost_host, 2 * HCAREGS_CHUNK);
	hcaregs_start();
	kv_rdmaregion_ready(hcaregs.g, HCAREGS_POOL, true);
	hcaregs_wait_told();
	assert_int_equal(hcaregs.status, -ENOMEM);
	assert_int_equal(hcaregs_count(), 0);
}

static void
buffers_do_without_one_as_well(void **state)
{
	const struct kv_rdmamem *far;

	(void)state;
	hca_dev_remove(hcahost_devs[0]);
	hcaregs.g = kv_rdmaregion_new(hcaregs.r, hcaregs.pool, 8192,
				      KV_RDMAREGION_FAR_WRITES);
	assert_non_null(hcaregs.g);
	assert_int_equal(hcaregs_count(), 1);
	far = kv_rdmaregion_far(hcaregs.g);
	assert_int_equal(far->keys[0], 0);
	assert_int_equal(far->keys[1], 0);
	assert_true(far->keys[2] != 0);
	hca_dev_remove(hcahost_devs[1]);
	errno = 0;
	assert_null(kv_rdmaregion_new(hcaregs.r, hcaregs.pool, 8192,
				      KV_RDMAREGION_NEAR));
	assert_int_equal(errno, EIO);
}

/* ---- the end ---- */

static void
freeing_ends_registrars_that_wait(void **state)
{
	(void)state;
	hcaregs_start();
	kv_rdmaregion_ready(hcaregs.g, 2 * HCAREGS_CHUNK, false);
	hcaregs_wait_began(4);
}

static void *
open_later(void *arg)
{
	const struct timespec pause = { .tv_nsec = 200 * 1000 * 1000 };

	(void)arg;
	nanosleep(&pause, NULL);
	hcaregs_open_gate(UINT_MAX);
	return NULL;
}

static void
freeing_waits_for_the_chunks_under_way_only(void **state)
{
	pthread_t thread;

	(void)state;
	hcaregs.gate = 4;
	hcaregs_start();
	kv_rdmaregion_ready(hcaregs.g, HCAREGS_POOL, true);
	hcaregs_wait_began(6);
	pthread_create(&thread, NULL, open_later, NULL);
	kv_rdmaregion_free(hcaregs.g);
	hcaregs.g = NULL;
	pthread_join(thread, NULL);
	assert_int_equal(hcaregs.began, 6);
	assert_int_equal(hcaregs_count(), 0);
	assert_false(hcaregs_is_told());
}

static void
nothing_is_freed(void **state)
{
	(void)state;
	kv_rdmaregion_free(NULL);
}

/* ---- faults ---- */

/* 0: none was met. 1: there was no region. 2: it said so later. 3: the fault
 * came before. 4: wrong. */
static int
pool_with_fault(void)
{
	int code = 1;

	hcaregs_setup(NULL);
	errno = 0;
	hcaregs.g = hcaregs_pool_new();
	if (!hcaregs.g && errno != ENOMEM && errno != EAGAIN)
		return 4;
	if (hcaregs.g) {
		kv_rdmaregion_ready(hcaregs.g, HCAREGS_POOL, true);
		hcaregs_wait_told();
		code = hcaregs.status == 0         ? 0
		       : hcaregs.status == -ENOMEM ? 2
						   : 4;
	}
	hcaregs_teardown(NULL);
	return code;
}

static int
buffer_with_fault(void)
{
	int code;

	hcaregs_setup(NULL);
	errno = 0;
	hcaregs.g = kv_rdmaregion_new(hcaregs.r, hcaregs.pool, 8192,
				      KV_RDMAREGION_NEAR);
	code = hcaregs.g ? 0 : errno == ENOMEM ? 1 : 4;
	hcaregs_teardown(NULL);
	return code;
}

static void
with_faults(int (*body)(void), unsigned counts[5])
{
	unsigned n = 0;
	int code;

	do {
		code = nth_fault_run(++n, body);
		assert_in_range(code, 0, 3);
		counts[code]++;
	} while (code);
}

static void
a_pool_without_memory_leaves_nothing(void **state)
{
	unsigned counts[5] = { 0 };

	(void)state;
	with_faults(pool_with_fault, counts);
	assert_int_equal(counts[1], 4); /* region, hcaregs.pool, two threads */
	assert_int_equal(counts[2], 2 * HCAREGS_CHUNKS);
}

static void
a_buffer_without_memory_leaves_nothing(void **state)
{
	unsigned counts[5] = { 0 };

	(void)state;
	with_faults(buffer_with_fault, counts);
	assert_int_equal(counts[1], 3);
}

int
main(void)
{
#define CASE(fn) \
	cmocka_unit_test_setup_teardown(fn, hcaregs_setup, hcaregs_teardown)
	const struct CMUnitTest tests[] = {
		nth_fault_test(a_pool_without_memory_leaves_nothing),
		nth_fault_test(a_buffer_without_memory_leaves_nothing),
		CASE(a_limit_of_locked_memory_is_told_in_numbers),
		CASE(a_device_that_registers_no_more_is_named),
		CASE(what_is_wrong_is_said),
		CASE(one_device_fails_for_all),
		CASE(others_do_without_a_removed_device),
		CASE(when_all_are_removed_it_fails),
		CASE(a_dead_device_excuses_nobody),
		CASE(buffers_do_without_one_as_well),
		CASE(freeing_ends_registrars_that_wait),
		CASE(freeing_waits_for_the_chunks_under_way_only),
		cmocka_unit_test(nothing_is_freed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
