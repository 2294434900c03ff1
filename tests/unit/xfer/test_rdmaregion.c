#include "xfer/rdmaregion.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "hcaregs.h"
#include "test.h"

/* The range is that part of the pool, by the keys of all ports. */
static void
expect_range(const struct kv_rdmarange *range, uint64_t off, uint64_t len)
{
	uint64_t addr = (uintptr_t)hcaregs.pool + off;

	assert_int_equal(range->addr, addr);
	assert_int_equal(range->len, len);
	assert_true(addr >= range->mem->addr &&
		    addr + len <= range->mem->addr + range->mem->len);
	for (unsigned i = 0; i < HCAHOST_PORTS; i++) {
		const struct ibv_mr *mr = hcaregs_mr_of(i / 2, addr);

		assert_non_null(mr);
		assert_int_equal(range->mem->keys[i], mr->lkey);
		assert_ptr_equal(mr->pd, hcaregs.r->nics[i].pd);
		assert_int_equal(range->mem->addr, (uintptr_t)mr->addr);
		assert_int_equal(range->mem->len, mr->length);
	}
}

/* ---- buffers ---- */

static void
expect_buffer(enum kv_rdmaregion_use use, unsigned access)
{
	const struct kv_rdmamem *far;
	struct kv_rdmarange near;

	hcaregs.n = 0;
	hcaregs.g = kv_rdmaregion_new(hcaregs.r, hcaregs.pool + 100, 5000, use);
	assert_non_null(hcaregs.g);
	assert_true(kv_rdmaregion_is_complete(hcaregs.g));
	assert_int_equal(hcaregs.n, 2); /* once a device */
	assert_int_equal(kv_rdmaregion_near(hcaregs.g, 4000, 1000, &near, 1),
			 1);
	expect_range(&near, 4100, 1000);
	far = kv_rdmaregion_far(hcaregs.g);
	assert_int_equal(far->addr, (uintptr_t)hcaregs.pool + 100);
	assert_int_equal(far->len, 5000);
	for (unsigned i = 0; i < HCAHOST_PORTS; i++)
		assert_int_equal(far->keys[i],
				 hcaregs_mr_of(i / 2, far->addr)->rkey);
	for (unsigned i = 0; i < hcaregs.n; i++)
		assert_int_equal(hcaregs.mrs[i].access,
				 access | IBV_ACCESS_RELAXED_ORDERING);
	kv_rdmaregion_free(hcaregs.g);
	hcaregs.g = NULL;
	assert_int_equal(hcaregs_count(), 0);
}

static void
buffers_are_registered_at_once(void **state)
{
	(void)state;
	expect_buffer(KV_RDMAREGION_NEAR, IBV_ACCESS_LOCAL_WRITE);
	expect_buffer(KV_RDMAREGION_FAR_READS,
		      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
	expect_buffer(KV_RDMAREGION_FAR_WRITES,
		      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ |
			      IBV_ACCESS_REMOTE_WRITE);
}

/* Buffers and pools alike. */
static void
memory_knows_what_is_distant(void **state)
{
	struct kv_rdmarange near;
	unsigned i;
	int node;

	(void)state;
	memset(hcaregs.pool, 1, HCAREGS_POOL);
	node = kv_rdmanuma_node(hcaregs.pool, HCAREGS_POOL);
	if (node < 0)
		skip(); /* the kernel does not say */
	hcaregs.r->numa.distant[node] = hcaregs.r->numa.any = 4;
	hcaregs.g = kv_rdmaregion_new(hcaregs.r, hcaregs.pool, 5000,
				      KV_RDMAREGION_NEAR);
	assert_non_null(hcaregs.g);
	assert_int_equal(kv_rdmaregion_near(hcaregs.g, 0, 1, &near, 1), 1);
	assert_int_equal(near.mem->distant, 4);
	kv_rdmaregion_free(hcaregs.g);
	hcaregs_start();
	hcaregs_complete();
	for (i = 0; i < HCAREGS_CHUNKS; i++) {
		assert_int_equal(kv_rdmaregion_near(hcaregs.g,
						    i * HCAREGS_CHUNK, 1, &near,
						    1),
				 1);
		assert_int_equal(near.mem->distant, 4);
	}
}

static void
expect_refused(int err)
{
	errno = 0;
	assert_null(kv_rdmaregion_new(hcaregs.r, hcaregs.pool, 8192,
				      KV_RDMAREGION_NEAR));
	assert_int_equal(errno, err);
	assert_int_equal(hcaregs_count(), 0);
}

static void
a_buffer_that_is_refused_leaves_nothing(void **state)
{
	(void)state;
	hca_memlock(hcahost_host, 8192);
	expect_refused(ENOMEM); /* two devices want it locked */
	hca_memlock(hcahost_host, UINT64_MAX);
	hcaregs.fail_nth = hcaregs.began + 2;
	hcaregs.fail_err = EFAULT;
	expect_refused(EFAULT);
	errno = 0;
	assert_null(kv_rdmaregion_new(hcaregs.r, hcaregs.pool, 0,
				      KV_RDMAREGION_NEAR));
	assert_int_equal(errno, EINVAL);
}

static void
an_old_library_knows_no_relaxed_ordering(void **state)
{
	(void)state;
	hcahost_v.reg_mr_iova2 = NULL;
	hcahost_v.reg_mr = hcahost_real->reg_mr;
	hcahost_v.dereg_mr = hcahost_real->dereg_mr;
	hcaregs.g = kv_rdmaregion_new(hcaregs.r, hcaregs.pool, 8192,
				      KV_RDMAREGION_FAR_READS);
	assert_non_null(hcaregs.g);
	assert_int_not_equal(kv_rdmaregion_far(hcaregs.g)->keys[2], 0);
}

/* ---- pools ---- */

static void
a_pool_is_registered_as_it_comes_to_be_there(void **state)
{
	(void)state;
	hcaregs_start();
	kv_rdmaregion_ready(hcaregs.g, HCAREGS_CHUNK - 1, false);
	kv_rdmaregion_ready(hcaregs.g, HCAREGS_CHUNK, false);
	hcaregs_wait_began(2);
	kv_rdmaregion_ready(hcaregs.g, 3 * HCAREGS_CHUNK + 4096, false);
	hcaregs_wait_began(6);
	kv_rdmaregion_ready(hcaregs.g, HCAREGS_POOL, false);
	hcaregs_wait_began(2 * HCAREGS_CHUNKS);
	assert_false(kv_rdmaregion_is_complete(hcaregs.g));
	assert_false(hcaregs_is_told());
	kv_rdmaregion_ready(hcaregs.g, HCAREGS_POOL, true);
	hcaregs_wait_told();
	assert_int_equal(hcaregs.status, 0);
	assert_string_equal(hcaregs.why, "");
	assert_true(kv_rdmaregion_is_complete(hcaregs.g));
	assert_int_equal(hcaregs.began, 2 * HCAREGS_CHUNKS);
	for (unsigned i = 0; i < hcaregs.n; i++)
		assert_int_equal(hcaregs.mrs[i].access,
				 IBV_ACCESS_LOCAL_WRITE |
					 IBV_ACCESS_RELAXED_ORDERING);
}

static void
nothing_is_registered_before_it_is_there(void **state)
{
	const struct timespec pause = { .tv_nsec = 20 * 1000 * 1000 };

	(void)state;
	hcaregs_start();
	kv_rdmaregion_ready(hcaregs.g, 2 * HCAREGS_CHUNK - 1, false);
	hcaregs_wait_began(2);
	nanosleep(&pause, NULL);
	assert_int_equal(hcaregs_count(), 2);
	assert_non_null(hcaregs_mr_of(0, (uintptr_t)hcaregs.pool));
	assert_non_null(hcaregs_mr_of(1, (uintptr_t)hcaregs.pool));
}

static void
ranges_are_cut_at_the_ends_of_chunks(void **state)
{
	struct kv_rdmarange out[HCAREGS_CHUNKS];

	(void)state;
	hcaregs_complete();
	assert_int_equal(
		kv_rdmaregion_near(hcaregs.g, 0, HCAREGS_CHUNK, out, 1), 1);
	expect_range(out, 0, HCAREGS_CHUNK);
	assert_int_equal(
		kv_rdmaregion_near(hcaregs.g, HCAREGS_CHUNK - 1, 1, out, 1), 1);
	expect_range(out, HCAREGS_CHUNK - 1, 1);
	assert_int_equal(
		kv_rdmaregion_near(hcaregs.g, HCAREGS_CHUNK - 1, 2, out, 2), 2);
	expect_range(&out[0], HCAREGS_CHUNK - 1, 1);
	expect_range(&out[1], HCAREGS_CHUNK, 1);
	assert_int_equal(
		kv_rdmaregion_near(hcaregs.g, HCAREGS_CHUNK - 1, 2, out, 1), 0);
	assert_int_equal(
		kv_rdmaregion_near(hcaregs.g, HCAREGS_CHUNK, 1, out, 0), 0);
	assert_int_equal(kv_rdmaregion_near(hcaregs.g, 100, 3 * HCAREGS_CHUNK,
					    out, HCAREGS_CHUNKS),
			 4);
	expect_range(&out[0], 100, HCAREGS_CHUNK - 100);
	expect_range(&out[1], HCAREGS_CHUNK, HCAREGS_CHUNK);
	expect_range(&out[2], 2 * HCAREGS_CHUNK, HCAREGS_CHUNK);
	expect_range(&out[3], 3 * HCAREGS_CHUNK, 100);
	assert_int_equal(kv_rdmaregion_near(hcaregs.g, 0, HCAREGS_POOL, out,
					    HCAREGS_CHUNKS),
			 HCAREGS_CHUNKS);
	expect_range(&out[HCAREGS_CHUNKS - 1],
		     HCAREGS_POOL - HCAREGS_CHUNK + 4096, HCAREGS_CHUNK - 4096);
	assert_int_equal(
		kv_rdmaregion_near(hcaregs.g, HCAREGS_POOL - 1, 1, out, 1), 1);
	expect_range(out, HCAREGS_POOL - 1, 1);
}

/* Wherever they begin. */
static void
so_many_ranges_are_enough(void **state)
{
	struct kv_rdmarange out[HCAREGS_CHUNKS + 2];
	const uint64_t bytes[] = { 1,
				   2,
				   HCAREGS_CHUNK,
				   HCAREGS_CHUNK + 1,
				   2 * HCAREGS_CHUNK,
				   2 * HCAREGS_CHUNK + 2 };
	uint64_t off;

	(void)state;
	hcaregs_complete();
	for (unsigned i = 0; i < sizeof(bytes) / sizeof(bytes[0]); i++) {
		unsigned max = kv_rdmaregion_near_max(hcaregs.g, bytes[i]);

		assert_true(max <= HCAREGS_CHUNKS + 2);
		for (off = HCAREGS_CHUNK - 2; off < HCAREGS_CHUNK + 2; off++)
			assert_true(kv_rdmaregion_near(hcaregs.g, off, bytes[i],
						       out, max) > 0);
	}
}

static void
devices_register_at_a_time_and_each_one_chunk(void **state)
{
	(void)state;
	hcaregs.both = true;
	hcaregs_complete();
	assert_int_equal(hcaregs.inside_max[0], 1);
	assert_int_equal(hcaregs.inside_max[1], 1);
}

/* Faulting in has failed there. */
static void
a_pool_may_end_sooner(void **state)
{
	struct kv_rdmarange out[4];

	(void)state;
	hcaregs_start();
	kv_rdmaregion_ready(hcaregs.g, 2 * HCAREGS_CHUNK, false);
	kv_rdmaregion_ready(hcaregs.g, 2 * HCAREGS_CHUNK + 8192, true);
	hcaregs_wait_told();
	assert_int_equal(hcaregs.status, 0);
	assert_int_equal(hcaregs_count(), 6);
	assert_int_equal(kv_rdmaregion_near(hcaregs.g, 0,
					    2 * HCAREGS_CHUNK + 8192, out, 4),
			 3);
	expect_range(&out[2], 2 * HCAREGS_CHUNK, 8192);
}

static void
an_empty_pool_is_complete(void **state)
{
	(void)state;
	hcaregs_start();
	kv_rdmaregion_ready(hcaregs.g, 0, true);
	hcaregs_wait_told();
	assert_int_equal(hcaregs.status, 0);
	assert_true(kv_rdmaregion_is_complete(hcaregs.g));
	assert_int_equal(hcaregs_count(), 0);
}

int
main(void)
{
#define CASE(fn) \
	cmocka_unit_test_setup_teardown(fn, hcaregs_setup, hcaregs_teardown)
	const struct CMUnitTest tests[] = {
		CASE(buffers_are_registered_at_once),
		CASE(memory_knows_what_is_distant),
		CASE(a_buffer_that_is_refused_leaves_nothing),
		CASE(an_old_library_knows_no_relaxed_ordering),
		CASE(a_pool_is_registered_as_it_comes_to_be_there),
		CASE(nothing_is_registered_before_it_is_there),
		CASE(ranges_are_cut_at_the_ends_of_chunks),
		CASE(so_many_ranges_are_enough),
		CASE(devices_register_at_a_time_and_each_one_chunk),
		CASE(a_pool_may_end_sooner),
		CASE(an_empty_pool_is_complete),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
