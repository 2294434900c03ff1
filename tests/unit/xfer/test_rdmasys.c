#include "xfer/rdmasys.h"

#include <stdlib.h>
#include <string.h>

#include "madetree.h"
#include "test.h"

#define DEVS  "/sys/class/infiniband/"
#define NODES "/sys/devices/system/node/"

static char root[MADETREE_BYTES];

static int
setup(void **state)
{
	(void)state;
	madetree_new(root);
	return 0;
}

static int
teardown(void **state)
{
	(void)state;
	madetree_free(root);
	return 0;
}

static void
devices_are_listed_as_people_count(void **state)
{
	static const char *const want[] = { "mlx5_0", "mlx5_2", "mlx5_10",
					    "rxe0" };
	struct kv_rdmasys_name *list;

	(void)state;
	assert_int_equal(kv_rdmasys_list(root, &list), 0);
	assert_null(list);
	assert_int_equal(kv_rdmasys_list(NULL, &list), 0);
	assert_null(list);
	madetree_put(root, DEVS "mlx5_10/node_type", "1: CA\n");
	madetree_put(root, DEVS "rxe0/node_type", "1: CA\n");
	madetree_put(root, DEVS "mlx5_2/node_type", "1: CA\n");
	madetree_put(root, DEVS "mlx5_0/node_type", "1: CA\n");
	assert_int_equal(kv_rdmasys_list(root, &list), 4);
	for (size_t i = 0; i < 4; i++)
		assert_string_equal(list[i].text, want[i]);
	free(list);
}

static const char *
pci(const char *device, const char *to)
{
	static char buf[16];
	char path[128];

	if (to) {
		snprintf(path, sizeof(path), DEVS "%s/device", device);
		madetree_link(root, path, to);
	}
	strcpy(buf, "?");
	kv_rdmasys_pci(root, device, buf, sizeof(buf));
	return buf;
}

static void
a_device_has_a_place(void **state)
{
	(void)state;
	assert_string_equal(pci("mlx5_0", "../../../0000:3b:00.0"),
			    "0000:3b:00.0");
	assert_string_equal(pci("mlx5_1", "../../../10000:01:00.1"),
			    "10000:01:00.1");
	assert_string_equal(pci("odd0", "../../../virtio0"), "");
	assert_string_equal(pci("odd1", "0000:3b:00.0.more"), "");
	assert_string_equal(pci("odd2", "0000000000000:3b:00.0"), "");
	assert_string_equal(pci("rxe0", NULL), "");
	madetree_put(root, DEVS "a/device/numa_node", "1\n");
	madetree_put(root, DEVS "b/device/numa_node", "-1\n");
	assert_int_equal(kv_rdmasys_numa(root, "a"), 1);
	assert_int_equal(kv_rdmasys_numa(root, "b"), -1);
	assert_int_equal(kv_rdmasys_numa(root, "c"), -1);
	assert_int_equal(kv_rdmasys_numa(NULL, "a"), -1);
}

/* Those of nodes that there are, one after the other. */
static void
nodes_have_distances(void **state)
{
	unsigned to[5];

	(void)state;
	madetree_put(root, NODES "node1/distance", "10 20 30\n");
	madetree_put(root, NODES "node3/distance", "21 10 31\n");
	madetree_put(root, NODES "node4/distance", "30 x\n");
	kv_rdmasys_distances(root, 3, to, 5);
	assert_memory_equal(to, ((unsigned[]){ 0, 21, 0, 10, 31 }), sizeof(to));
	kv_rdmasys_distances(root, 3, to, 4);
	assert_int_equal(to[3], 10);
	kv_rdmasys_distances(root, 4, to, 5);
	assert_memory_equal(to, ((unsigned[]){ 0, 30, 0, 0, 0 }), sizeof(to));
	kv_rdmasys_distances(root, 2, to, 5);
	assert_memory_equal(to, ((unsigned[]){ 0 }), sizeof(to[0]));
	kv_rdmasys_distances(NULL, 3, to, 5);
	assert_int_equal(to[3], 0);
}

static void
a_device_may_be_soft(void **state)
{
	(void)state;
	madetree_put(root, DEVS "rxe0/parent", "eth0\n");
	madetree_put(root, DEVS "mlx5_0/node_type", "1: CA\n");
	assert_true(kv_rdmasys_is_soft(root, "rxe0"));
	assert_false(kv_rdmasys_is_soft(root, "mlx5_0"));
	assert_false(kv_rdmasys_is_soft(root, "rxe1"));
	assert_false(kv_rdmasys_is_soft(NULL, "rxe0"));
}

static void
rates_are_read(void **state)
{
	static const struct {
		const char *text;
		uint32_t mbit_per_s;
	} rates[] = {
		{ "100 Gb/sec (4X EDR)\n", 100000 },
		{ "2.5 Gb/sec (1X SDR)\n", 2500 },
		{ "800 Gb/sec (4X XDR)\n", 800000 },
		{ "100 Mb/sec\n", 0 },
		{ "-5 Gb/sec\n", 0 },
		{ "1e300 Gb/sec\n", 0 },
		{ "nan Gb/sec\n", 0 },
		{ "", 0 },
	};
	struct kv_rdmasys_port p = { root, "mlx5_0", 2, 2 };

	(void)state;
	assert_int_equal(kv_rdmasys_rate(&p), 0);
	for (size_t i = 0; i < sizeof(rates) / sizeof(*rates); i++) {
		madetree_put(root, DEVS "mlx5_0/ports/2/rate", "%s",
			     rates[i].text);
		assert_int_equal(kv_rdmasys_rate(&p), rates[i].mbit_per_s);
	}
	p.root = NULL;
	assert_int_equal(kv_rdmasys_rate(&p), 0);
}

static void
gids_have_a_type_and_an_interface(void **state)
{
	const struct kv_rdmasys_port p = { root, "mlx5_0", 1, 1 };
	char name[IF_NAMESIZE] = "?";

	(void)state;
	madetree_put(root, DEVS "mlx5_0/ports/1/gid_attrs/types/2",
		     "IB/RoCE v1\n");
	madetree_put(root, DEVS "mlx5_0/ports/1/gid_attrs/types/3",
		     "RoCE v2\n");
	madetree_put(root, DEVS "mlx5_0/ports/1/gid_attrs/ndevs/3", "eth2\n");
	madetree_put(root, DEVS "mlx5_0/ports/1/gid_attrs/ndevs/4",
		     "sixteen_letters_\n");
	madetree_put(root, DEVS "mlx5_0/ports/1/gid_attrs/ndevs/5", "\n");
	assert_false(kv_rdmasys_is_v2(&p, 1));
	assert_false(kv_rdmasys_is_v2(&p, 2));
	assert_true(kv_rdmasys_is_v2(&p, 3));
	assert_false(kv_rdmasys_gid_netdev(&p, 2, name));
	assert_false(kv_rdmasys_gid_netdev(&p, 4, name));
	assert_false(kv_rdmasys_gid_netdev(&p, 5, name));
	assert_string_equal(name, "?");
	assert_true(kv_rdmasys_gid_netdev(&p, 3, name));
	assert_string_equal(name, "eth2");
}

static void
ports_of_one_device_have_interfaces_of_their_own(void **state)
{
	struct kv_rdmasys_port p = { root, "mlx4_0", 1, 2 };
	char names[3][IF_NAMESIZE];

	(void)state;
	assert_int_equal(kv_rdmasys_netdevs(&p, names, 3), 0);
	madetree_put(root, DEVS "mlx4_0/device/net/ib0/dev_port", "0\n");
	madetree_put(root, DEVS "mlx4_0/device/net/ib1/dev_port", "1\n");
	madetree_put(root, DEVS "mlx4_0/device/net/ib1.8001/dev_port", "1\n");
	madetree_put(root, DEVS "mlx4_0/device/net/odd/mtu", "1500\n");
	assert_int_equal(kv_rdmasys_netdevs(&p, names, 3), 1);
	assert_string_equal(names[0], "ib0");
	p.port = 2;
	assert_int_equal(kv_rdmasys_netdevs(&p, names, 3), 2);
	assert_string_equal(names[0], "ib1");
	assert_string_equal(names[1], "ib1.8001");
	p.ports = p.port = 1;
	assert_int_equal(kv_rdmasys_netdevs(&p, names, 3), 3);
	p.root = NULL;
	assert_int_equal(kv_rdmasys_netdevs(&p, names, 3), 0);
}

int
main(void)
{
#define CASE(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
	const struct CMUnitTest tests[] = {
		CASE(devices_are_listed_as_people_count),
		CASE(a_device_has_a_place),
		CASE(nodes_have_distances),
		CASE(a_device_may_be_soft),
		CASE(rates_are_read),
		CASE(gids_have_a_type_and_an_interface),
		CASE(ports_of_one_device_have_interfaces_of_their_own),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
