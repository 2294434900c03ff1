#include "xfer/devlist.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include "test.h"
#include "xfer/mcenv.h"
#include "xfer/rdmadev.h"

static char err[512];

static void
a_name_that_means_nothing_is_told(void **state)
{
	const struct kv_rdmadev list[] = {
		{ .name = "mlx4_0", .port = 1 },
		{ .name = "mlx4_0", .port = 2 },
		{ .name = "mlx5_0", .port = 1 },
	};

	(void)state;
	assert_int_equal(kv_devlist_check("", list, 3, err, 512), 0);
	assert_int_equal(kv_devlist_check("auto", list, 3, err, 512), 0);
	assert_int_equal(kv_devlist_check("mlx5_*, mlx4_0", list, 3, err, 512),
			 0);
	assert_int_equal(kv_devlist_check("mlx5_0,rxe[01]", list, 3, err, 512),
			 -ENODEV);
	assert_string_equal(err, "no RDMA device is called 'rxe[01]'; there "
				 "are mlx4_0, mlx5_0");
	assert_int_equal(
		kv_devlist_check("eth0,mlx5_0,mlx5_1", list, 3, err, 512),
		-ENODEV);
	assert_string_equal(err, "no RDMA device is called 'eth0' or 'mlx5_1'; "
				 "there are mlx4_0, mlx5_0");
	assert_int_equal(kv_devlist_check("", NULL, 0, err, 512), 0);
	assert_int_equal(kv_devlist_check("auto", NULL, 0, err, 512), 0);
	assert_int_equal(kv_devlist_check("rxe0", NULL, 0, err, 512), -ENODEV);
	assert_string_equal(err, "no RDMA device is called 'rxe0'; there is "
				 "none at all");
}

static void
many_names_are_cut(void **state)
{
	static struct kv_rdmadev list[100];

	(void)state;
	for (int i = 0; i < 100; i++)
		snprintf(list[i].name, sizeof(list[i].name), "device_%d", i);
	assert_int_equal(kv_devlist_check("rxe0", list, 100, err, 512),
			 -ENODEV);
	assert_true(strlen(err) < 512);
	assert_non_null(strstr(err, "device_20"));
}

static void
devices_are_counted_not_ports(void **state)
{
	const struct kv_rdmadev list[] = {
		{ .name = "a", .port = 1 },
		{ .name = "a", .port = 2, .is_usable = true },
		{ .name = "b", .port = 1, .is_usable = true },
		{ .name = "b", .port = 2, .is_usable = true },
		{ .name = "c", .port = 1 },
	};

	(void)state;
	assert_int_equal(kv_devlist_usable(list, 5), 2);
	assert_int_equal(kv_devlist_usable(list, 1), 0);
	assert_int_equal(kv_devlist_usable(NULL, 0), 0);
}

static void
addresses_are_written_as_people_do(void **state)
{
	char buf[INET6_ADDRSTRLEN];
	struct in6_addr ip;

	(void)state;
	assert_int_equal(inet_pton(AF_INET6, "::ffff:10.77.0.1", &ip), 1);
	assert_string_equal(kv_devlist_ip(buf, sizeof(buf), &ip), "10.77.0.1");
	assert_int_equal(inet_pton(AF_INET6, "fd00::1", &ip), 1);
	assert_string_equal(kv_devlist_ip(buf, sizeof(buf), &ip), "fd00::1");
	assert_string_equal(kv_devlist_ip(buf, 4, &ip), "");
}

static void
is_marked(const struct kv_mcenv *m, const char *wanted, const char *first,
	  const char *second)
{
	struct kv_rdmadev list[] = {
		{ .name = "a",
		  .port = 1,
		  .is_usable = true,
		  .is_wanted = true },
		{ .name = "a", .port = 2, .why = "not in the list" },
	};

	kv_devlist_env(m, wanted, list, 2);
	assert_string_equal(list[0].why, first);
	assert_string_equal(list[1].why, second);
	assert_int_equal(list[0].is_usable, strncmp(first, "not", 3) != 0);
	assert_int_equal(list[0].is_wanted, list[0].is_usable);
}

static void
what_the_environment_leaves_out_is_marked(void **state)
{
	struct kv_mcenv m;

	(void)state;
	kv_mcenv_read(&m, NULL);
	is_marked(&m, NULL, "", "not in the list");
	m.gid_index = 3;
	is_marked(&m, "a", "MC_GID_INDEX: without the connection manager GID 3",
		  "not in the list");
	m.port = 2;
	is_marked(&m, "a", "not used: MC_IB_PORT is 2", "not in the list");
	m.port = 1;
	m.gid_index = -1;
	is_marked(&m, "", "", "not used: MC_IB_PORT is 1");
	strcpy(m.devices, "a:1");
	is_marked(&m, "", "",
		  "not used: not in MC_TE_FILTERS or MC_MS_FILTERS");
	is_marked(&m, "a", "", "not used: MC_IB_PORT is 1");
	m.is_tcp = true;
	is_marked(&m, "a", "not used: MC_FORCE_TCP is set",
		  "not used: MC_FORCE_TCP is set");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_name_that_means_nothing_is_told),
		cmocka_unit_test(many_names_are_cut),
		cmocka_unit_test(devices_are_counted_not_ports),
		cmocka_unit_test(what_the_environment_leaves_out_is_marked),
		cmocka_unit_test(addresses_are_written_as_people_do),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
