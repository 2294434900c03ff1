#include "mem/ahead.h"

#include <pthread.h>
#include <time.h>
#include <unistd.h>

#include "mem/seg.h"
#include "resident.h"
#include "test.h"

#define MIB   (UINT64_C(1) << 20)
#define BLOCK KV_AHEAD_BLOCK_BYTES
#define BYTES (256 * MIB)

static struct kv_seg *pool, *seg;
static struct kv_ahead *ahead;

static int
setup(void **state)
{
	const struct kv_seg_opts o = { .bytes = BYTES };
	char err[256];

	(void)state;
	assert_int_equal(kv_seg_open(&o, &pool, err, sizeof(err)), 0);
	assert_int_equal(kv_seg_populate(pool, 0, BYTES), 0);
	return 0;
}

static int
teardown(void **state)
{
	(void)state;
	kv_seg_close(pool);
	return 0;
}

static int
attach(void **state)
{
	const struct kv_seg_attach_opts o = { .bytes = BYTES, .sealed = true };
	char err[256];

	(void)state;
	assert_int_equal(kv_seg_attach(kv_seg_fd(pool, true), &o, &seg, err,
				       sizeof(err)),
			 0);
	ahead = kv_ahead_new(seg);
	assert_non_null(ahead);
	return 0;
}

static int
detach(void **state)
{
	(void)state;
	kv_ahead_free(ahead);
	kv_seg_close(seg);
	return 0;
}

static uint64_t
blocks(void)
{
	return resident_bytes(seg->base, BYTES) / BLOCK;
}

static void
use(uint64_t block, uint64_t n, uint64_t ready)
{
	kv_ahead_use(ahead, block * BLOCK, n * BLOCK, ready);
}

/* A thread enters them: in time, and then no more. */
static void
assert_reaches(uint64_t n)
{
	const struct timespec pause = { .tv_nsec = 1000000 };
	unsigned i;

	for (i = 0; i < 30000 && blocks() < n; i++)
		nanosleep(&pause, NULL);
	for (i = 0; i < 20; i++)
		nanosleep(&pause, NULL);
	assert_int_equal(blocks(), n);
}

static void
test_row(void **state)
{
	(void)state;
	use(0, 1, BYTES);
	use(1, 1, BYTES);
	use(2, 1, BYTES);
	assert_int_equal(blocks(), 3);
	use(3, 1, BYTES);
	assert_reaches(68);
	use(35, 1, BYTES); /* enough lies before it */
	assert_reaches(68);
	use(36, 1, BYTES);
	assert_reaches(101);
	use(80, 2, BYTES);
	assert_reaches(128);
	use(0, 128, BYTES);
	assert_int_equal(blocks(), 128);
}

/* Nothing that its owner did not fault in yet, unless it is used. */
static void
test_ready(void **state)
{
	(void)state;
	use(0, 8, 20 * MIB);
	assert_reaches(10);
	use(8, 4, 20 * MIB);
	assert_reaches(12);
	use(12, 1, 60 * MIB);
	assert_reaches(30);
	use(30, 1, UINT64_MAX);
	assert_reaches(95);
}

static void
test_scattered(void **state)
{
	uint64_t i;

	(void)state;
	for (i = 0; i < 32; i++)
		use(4 * i, 3, BYTES);
	assert_reaches(96);
}

static void
test_descending(void **state)
{
	uint64_t i;

	(void)state;
	for (i = 64; i-- > 0;)
		use(i, 1, BYTES);
	assert_reaches(64);
}

/* Parts of blocks: what lies in one is entered with the first. */
static void
test_small(void **state)
{
	uint64_t i;

	(void)state;
	for (i = 0; i < 3 * BLOCK; i += BLOCK / 4)
		kv_ahead_use(ahead, i, BLOCK / 4, BYTES);
	assert_int_equal(blocks(), 3);
	kv_ahead_use(ahead, 4 * BLOCK - 1, 2, 0);
	assert_int_equal(blocks(), 5);
}

/* It is given up while the thread is at work. */
static void
test_given_up(void **state)
{
	int i;

	for (i = 0; i < 50; i++) {
		use(0, 8, BYTES);
		detach(state);
		attach(state);
	}
}

static void *
use_all(void *arg)
{
	uint64_t i, at = *(uint64_t *)arg;

	for (i = 0; i < BYTES / BLOCK; i++)
		use((at + i) % (BYTES / BLOCK), 1, BYTES);
	return NULL;
}

static void
test_threads(void **state)
{
	static uint64_t from[4] = { 0, 0, 30, 90 };
	pthread_t threads[4];
	int i;

	(void)state;
	for (i = 0; i < 4; i++)
		assert_int_equal(
			pthread_create(&threads[i], NULL, use_all, &from[i]),
			0);
	for (i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(blocks(), 128);
}

#define WITH_MAPPING(f) cmocka_unit_test_setup_teardown(f, attach, detach)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_MAPPING(test_row),       WITH_MAPPING(test_ready),
		WITH_MAPPING(test_scattered), WITH_MAPPING(test_descending),
		WITH_MAPPING(test_small),     WITH_MAPPING(test_given_up),
		WITH_MAPPING(test_threads),
	};

	return cmocka_run_group_tests_name("mem/ahead", tests, setup, teardown);
}
