/* Rails that no connection manager connects. */
#include "xfer/rdmajoin.h"

#include <string.h>

#include "railrig.h"
#include "test.h"
#include "xfer/rdmalinkcore.h"

static int
teardown(void **state)
{
	(void)state;
	railrig_close();
	return 0;
}

/* All kinds of transfers, by either side. */
static void
move_all(void)
{
	int i;

	for (i = 0; i < 2; i++) {
		railrig_move(i, KV_RDMAXFER_READ, 0, 1 << 20, 3 << 20);
		railrig_move(i, KV_RDMAXFER_WRITE, 0, 0, 3 << 20);
		railrig_move(i, KV_RDMAXFER_WRITE_ALONE, 1 << 20, 0, 1 << 20);
	}
}

static void
ports_without_ip_are_joined(void **state)
{
	const struct railrig_opts o = { .n = { 1, 1 }, .no_ip = { 1, 1 } };
	struct in6_addr near, far;

	(void)state;
	railrig_open(&o);
	railrig_connect();
	assert_int_equal(kv_rdmalink_rails(railrig[0].l), 1);
	assert_int_equal(__builtin_popcountll(railrig[0].l->up), 2);
	assert_int_equal(__builtin_popcountll(railrig[1].l->up), 2);
	/* Nobody can be dialled there. */
	assert_false(kv_rdmalink_path(railrig[0].l, &near, &far));
	move_all();
}

#define TEST(f) cmocka_unit_test_teardown(f, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(ports_without_ip_are_joined),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
