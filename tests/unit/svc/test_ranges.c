/* Registered memory, whose NICs are this test. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/attr.h"
#include "kvpool.h"
#include "svc/ranges.h"
#include "test.h"
#include "xfer/rdmaregion.h"

struct kv_rdmaregion {
	int nothing;
};

static _Atomic unsigned n_regions;
static int refused;

unsigned
kv_rdma_ports(const struct kv_rdma *r)
{
	(void)r;
	return 1;
}

struct kv_rdmaregion *
kv_rdmaregion_new(struct kv_rdma *r, void *addr, size_t bytes,
		  enum kv_rdmaregion_use use)
{
	assert_non_null(r);
	assert_non_null(addr);
	assert_true(bytes > 0);
	assert_int_equal(use, KV_RDMAREGION_FAR_WRITES);
	errno = refused;
	if (refused)
		return NULL;
	n_regions++;
	return calloc(1, sizeof(struct kv_rdmaregion));
}

void
kv_rdmaregion_free(struct kv_rdmaregion *g)
{
	n_regions -= g != NULL;
	free(g);
}

static struct kv_ranges r;
static char memory[1000];

static int
setup(void **state)
{
	(void)state;
	n_regions = 0;
	refused = 0;
	kv_ranges_init(&r, (struct kv_rdma *)(void *)&r);
	return 0;
}

static int
teardown(void **state)
{
	(void)state;
	kv_ranges_fini(&r);
	assert_int_equal(n_regions, 0);
	return 0;
}

/* Whether NICs know all of it. */
static bool
knows(size_t at, size_t len)
{
	struct kv_range *x = kv_ranges_use(&r, memory + at, len);

	if (x)
		kv_ranges_unuse(&r, x);
	return x != NULL;
}

static void
ranges_do_not_overlap(void **state)
{
	(void)state;
	assert_int_equal(kv_ranges_add(&r, memory + 200, 100), 0);
	assert_int_equal(kv_ranges_add(&r, memory + 100, 101), -KV_EINVALID);
	assert_int_equal(kv_ranges_add(&r, memory + 299, 1), -KV_EINVALID);
	assert_int_equal(kv_ranges_add(&r, memory + 200, 99), -KV_EINVALID);
	assert_int_equal(kv_ranges_add(&r, memory, 1000), -KV_EINVALID);
	assert_int_equal(kv_ranges_add(&r, memory + 100, 100), 0);
	assert_int_equal(kv_ranges_add(&r, memory + 300, 100), 0);
	assert_int_equal(kv_ranges_add(&r, memory + 700, 100), 0);
	assert_int_equal(kv_ranges_add(&r, memory + 500, 100), 0);
	assert_true(knows(100, 100));
	assert_true(knows(550, 50));
	assert_true(knows(799, 1));
	assert_false(knows(199, 2));
	assert_false(knows(99, 1));
	assert_false(knows(400, 1));
	assert_false(knows(800, 1));
	assert_int_equal(kv_ranges_del(&r, memory + 500), 0);
	assert_false(knows(500, 1));
	assert_true(knows(700, 100));
	assert_int_equal(n_regions, 4);
}

static void
repeats_count(void **state)
{
	(void)state;
	assert_int_equal(kv_ranges_add(&r, memory, 10), 0);
	assert_int_equal(kv_ranges_add(&r, memory, 10), 0);
	assert_int_equal(n_regions, 1);
	assert_int_equal(kv_ranges_del(&r, memory + 1), -KV_EINVALID);
	assert_int_equal(kv_ranges_del(&r, memory), 0);
	assert_true(knows(0, 10));
	assert_int_equal(kv_ranges_del(&r, memory), 0);
	assert_false(knows(0, 10));
	assert_int_equal(n_regions, 0);
	assert_int_equal(kv_ranges_del(&r, memory), -KV_EINVALID);
}

static void
it_is_registered_where_nics_refuse_it(void **state)
{
	(void)state;
	kv_log_set_level(KV_LOG_ERR);
	refused = EFAULT;
	assert_int_equal(kv_ranges_add(&r, memory, 10), 0);
	assert_false(knows(0, 10));
	assert_false(kv_ranges_is_full(&r));
	refused = ENOMEM;
	assert_int_equal(kv_ranges_add(&r, memory + 10, 10), 0);
	assert_true(kv_ranges_is_full(&r));
	assert_int_equal(kv_ranges_del(&r, memory), 0);
	assert_int_equal(kv_ranges_add(&r, memory + 20, 10), 0);
	assert_int_equal(kv_ranges_del(&r, memory + 10), 0);
}

static void
without_nics_it_counts_all_the_same(void **state)
{
	(void)state;
	kv_ranges_fini(&r);
	kv_ranges_init(&r, NULL);
	assert_int_equal(kv_ranges_add(&r, memory, 10), 0);
	assert_int_equal(kv_ranges_add(&r, memory + 5, 10), -KV_EINVALID);
	assert_false(knows(0, 10));
	assert_int_equal(kv_ranges_del(&r, memory), 0);
}

/* ---- threads ---- */

static int gone; /* atomic */

static void *
dels(void *arg)
{
	assert_int_equal(kv_ranges_del(&r, arg), 0);
	__atomic_store_n(&gone, 1, __ATOMIC_SEQ_CST);
	return NULL;
}

static void *
adds(void *arg)
{
	assert_int_equal(kv_ranges_add(&r, arg, 10), 0);
	return NULL;
}

static void
who_uses_it_is_waited_for(void **state)
{
	struct kv_range *x;
	pthread_t t, again;

	(void)state;
	gone = 0;
	assert_int_equal(kv_ranges_add(&r, memory, 10), 0);
	x = kv_ranges_use(&r, memory, 10);
	assert_non_null(x);
	assert_int_equal(pthread_create(&t, NULL, dels, memory), 0);
	while (knows(0, 10)) /* until the other thread waits */
		usleep(1000);
	usleep(20000);
	assert_int_equal(__atomic_load_n(&gone, __ATOMIC_SEQ_CST), 0);
	assert_int_equal(n_regions, 1);
	/* Who registers it now does so after that. */
	assert_int_equal(pthread_create(&again, NULL, adds, memory), 0);
	usleep(20000);
	assert_false(knows(0, 10));
	kv_ranges_unuse(&r, x);
	pthread_join(t, NULL);
	pthread_join(again, NULL);
	assert_int_equal(gone, 1);
	assert_true(knows(0, 10));
}

int
main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(ranges_do_not_overlap),
		TEST(repeats_count),
		TEST(it_is_registered_where_nics_refuse_it),
		TEST(without_nics_it_counts_all_the_same),
		TEST(who_uses_it_is_waited_for),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
