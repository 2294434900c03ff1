#include "xfer/rdmalink.h"

#include <string.h>

#include "railrig.h"
#include "test.h"

static int
teardown(void **state)
{
	(void)state;
	railrig_close();
	return 0;
}

static int
setup_one(void **state)
{
	const struct railrig_opts o = { .n = { 1, 1 } };

	(void)state;
	railrig_open(&o);
	railrig_connect();
	return 0;
}

static int
setup_four(void **state)
{
	const struct railrig_opts o = { .n = { 4, 4 } };

	(void)state;
	railrig_open(&o);
	railrig_connect();
	return 0;
}

static void
one_rail_moves_all_ways(void **state)
{
	int mover;

	(void)state;
	for (mover = 0; mover < 2; mover++) {
		railrig_move(mover, KV_RDMAXFER_WRITE, 0, 4096, 3 << 20);
		railrig_move(mover, KV_RDMAXFER_READ, 100, 4 << 20, 1 << 20);
		railrig_move(mover, KV_RDMAXFER_WRITE_ALONE, 7, 77, 1234567);
		railrig_move(mover, KV_RDMAXFER_WRITE, 0, 9, 1);
	}
}

static void
four_rails_move_four_times_as_much(void **state)
{
	struct railrig_move m;
	uint64_t begin;

	(void)state;
	assert_int_equal(kv_rdmalink_rails(railrig[0].l), 4);
	railrig_prepare(&m, 1, KV_RDMAXFER_WRITE, 0, 0, RAILRIG_BYTES);
	begin = railrig_now();
	railrig_start(&m);
	railrig_ms(10);
	assert_int_equal(m.end_done, 1);
	assert_int_equal(m.end_status, 0);
	assert_true(railrig_is_same(&m));
	/* 8 MiB at 4 * 12.5 bytes a nanosecond: 168 us. */
	assert_in_range(m.done_ns - begin, 150000, 195000);
}

#define ONE(f)  cmocka_unit_test_setup_teardown(f, setup_one, teardown)
#define FOUR(f) cmocka_unit_test_setup_teardown(f, setup_four, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		ONE(one_rail_moves_all_ways),
		FOUR(four_rails_move_four_times_as_much),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
