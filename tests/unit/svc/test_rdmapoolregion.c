/* What a pool's owner hears of its registration, and when. */

#include "svc/poolregion.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "hcahost.h"
#include "test.h"

enum {
	BYTES = 1 << 20,
};

static struct kv_loop *loop; /* a real one: another thread posts to it */
static struct kv_mbox mbox;
static struct kv_rdma *rdma;
static struct kv_poolregion region;
static void *pool;
static unsigned done;
static bool is_complete;
static char logged[1024];

static void
on_log(void *arg, enum kv_log_level level, const char *msg)
{
	(void)arg;
	(void)level;
	snprintf(logged, sizeof(logged), "%s", msg);
}

static void
on_done(struct kv_poolregion *r, bool complete)
{
	assert_ptr_equal(r, &region);
	done++;
	is_complete = complete;
}

static int
setup(void **state)
{
	const struct kv_rdma_opts o = {
		.verbs = &hcahost_v,
		.addrs = hcahost_addrs,
	};
	char err[512] = "";

	(void)state;
	hcahost_open();
	kv_log_set_level(KV_LOG_INFO);
	kv_log_set_sink(on_log, NULL);
	rdma = kv_rdma_open(&o, err, sizeof(err));
	if (!rdma)
		fail_msg("%s", err);
	loop = kv_loop_new(NULL);
	assert_non_null(loop);
	assert_int_equal(kv_mbox_init(&mbox, loop), 0);
	pool = aligned_alloc(4096, BYTES);
	assert_non_null(pool);
	memset(&region, 0, sizeof(region));
	done = 0;
	is_complete = false;
	logged[0] = '\0';
	assert_int_equal(
		kv_poolregion_init(&region, rdma, pool, BYTES, &mbox, on_done),
		0);
	return 0;
}

static int
teardown(void **state)
{
	unsigned heard = done;

	(void)state;
	kv_poolregion_fini(&region);
	kv_poolregion_fini(&region);
	kv_mbox_fini(&mbox);
	assert_int_equal(done, heard);
	kv_loop_free(loop);
	free(pool);
	kv_rdma_close(rdma);
	hcahost_close();
	kv_log_set_sink(NULL, NULL);
	return 0;
}

static void
turn(void)
{
	for (int i = 0; !done; i++) {
		assert_true(i < 10000);
		kv_loop_turn(loop, kv_loop_now(loop) + KV_NS_PER_MS);
	}
}

static void
all_of_it_is_registered(void **state)
{
	(void)state;
	kv_poolregion_ready(&region, BYTES / 2, false);
	assert_int_equal(done, 0);
	kv_poolregion_ready(&region, BYTES, true);
	/* Whoever is told of pages twice tells twice. */
	kv_poolregion_ready(&region, BYTES, true);
	turn();
	assert_int_equal(done, 1);
	assert_true(is_complete);
	assert_true(kv_rdmaregion_is_complete(region.region));
	assert_non_null(strstr(logged, "served by RDMA bytes=\"1.0 MiB\" "
				       "ports=3 seconds="));
}

static void
a_pool_that_ends_early_is_registered(void **state)
{
	struct kv_rdmarange r[4];

	(void)state;
	kv_poolregion_ready(&region, BYTES / 4, false);
	kv_poolregion_ready(&region, BYTES / 2, true);
	turn();
	assert_true(is_complete);
	assert_non_null(strstr(logged, "bytes=\"512.0 KiB\""));
	assert_int_equal(kv_rdmaregion_near(region.region, 0, BYTES / 2, r,
					    kv_rdmaregion_near_max(
						    region.region, BYTES / 2)),
			 1);
}

static void
why_it_is_not_is_said(void **state)
{
	(void)state;
	hca_memlock(hcahost_host, BYTES / 2);
	kv_poolregion_ready(&region, BYTES, true);
	turn();
	assert_int_equal(done, 1);
	assert_false(is_complete);
	assert_non_null(strstr(logged, "the pool is not served by RDMA: "));
	assert_non_null(strstr(logged, "locked memory"));
}

/* Its word may be on its way: nobody hears it. */
static void
who_ends_hears_nothing(void **state)
{
	(void)state;
	kv_poolregion_ready(&region, BYTES, true);
	while (!kv_rdmaregion_is_complete(region.region))
		sched_yield();
	kv_poolregion_fini(&region);
	kv_loop_turn(loop, kv_loop_now(loop) + 10 * KV_NS_PER_MS);
	assert_int_equal(done, 0);
	/* What it may be told meanwhile. */
	kv_poolregion_ready(&region, BYTES, true);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		T(all_of_it_is_registered),
		T(a_pool_that_ends_early_is_registered),
		T(why_it_is_not_is_said),
		T(who_ends_hears_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
