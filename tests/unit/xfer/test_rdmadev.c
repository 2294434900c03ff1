/* The list of devices, over a table of verbs and a tree of sysfs made up here.
 */
#include "xfer/rdmadev.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <stdlib.h>
#include <string.h>

#include "madetree.h"
#include "nth_fault.h"
#include "test.h"
#include "xfer/devlist.h"
#include "xfer/rdmaverbs.h"

#define DEVS      "/sys/class/infiniband/"
#define GIDS      4
#define FAKES_MAX 4

struct fake_gid {
	const char *ip; /* NULL: no entry */
	uint32_t type;
};

struct fake {
	struct ibv_device dev;
	struct ibv_context ctx;
	int open_error; /* errno; 0: opens */
	int query_error;
	uint8_t ports;
	struct ibv_port_attr port; /* of each */
	int port_error;
	struct fake_gid gids[GIDS];
};

static struct fake fakes[FAKES_MAX];
static int n_fakes;
static int list_error;
static unsigned opened, closed, listed;
static char root[MADETREE_BYTES];
static char err[512];
static struct kv_rdmadev *list;

static struct fake *
fake_of(struct ibv_context *ctx)
{
	return KV_CONTAINER_OF(ctx, struct fake, ctx);
}

static struct ibv_device **
fake_list(int *n)
{
	static struct ibv_device *devices[FAKES_MAX + 1];

	errno = list_error;
	if (list_error)
		return NULL;
	listed++;
	*n = n_fakes;
	for (int i = 0; i < n_fakes; i++)
		devices[i] = &fakes[i].dev;
	return devices;
}

static void
fake_free_list(struct ibv_device **devices)
{
	assert_non_null(devices);
	listed--;
}

static const char *
fake_name(struct ibv_device *dev)
{
	return dev->name;
}

static struct ibv_context *
fake_open(struct ibv_device *dev)
{
	struct fake *f = KV_CONTAINER_OF(dev, struct fake, dev);

	errno = f->open_error;
	if (f->open_error)
		return NULL;
	opened++;
	f->ctx.device = dev;
	return &f->ctx;
}

static int
fake_close(struct ibv_context *ctx)
{
	assert_non_null(ctx);
	closed++;
	return 0;
}

static int
fake_query(struct ibv_context *ctx, struct ibv_device_attr *attr)
{
	const struct fake *f = fake_of(ctx);

	*attr = (struct ibv_device_attr){
		.phys_port_cnt = f->ports,
		.max_mr_size = UINT64_C(1) << 40,
		.max_qp_wr = 32768,
		.max_cqe = 4194303,
		.max_sge = 30,
		.max_qp_rd_atom = 16,
		.max_qp_init_rd_atom = 17,
	};
	return f->query_error;
}

static int
fake_port(struct ibv_context *ctx, uint8_t port,
	  struct _compat_ibv_port_attr *attr)
{
	const struct fake *f = fake_of(ctx);

	assert_in_range(port, 1, f->ports);
	memcpy(attr, &f->port, sizeof(f->port));
	return f->port_error;
}

static int
fake_gid(struct ibv_context *ctx, uint8_t port, int index, union ibv_gid *gid)
{
	const struct fake *f = fake_of(ctx);

	(void)port;
	assert_in_range(index, 0, GIDS - 1);
	memset(gid, 0, sizeof(*gid));
	if (f->gids[index].ip)
		assert_int_equal(
			inet_pton(AF_INET6, f->gids[index].ip, gid->raw), 1);
	return 0;
}

static int
fake_gid_ex(struct ibv_context *ctx, uint32_t port, uint32_t index,
	    struct ibv_gid_entry *entry, uint32_t flags, size_t entry_bytes)
{
	const struct fake *f = fake_of(ctx);

	assert_int_equal(flags, 0);
	assert_int_equal(entry_bytes, sizeof(*entry));
	if (!f->gids[index].ip)
		return ENODATA;
	entry->gid_type = f->gids[index].type;
	return fake_gid(ctx, (uint8_t)port, (int)index, &entry->gid);
}

static struct kv_rdmaverbs verbs;

static int
setup(void **state)
{
	(void)state;
	verbs = (struct kv_rdmaverbs){
		.get_device_list = fake_list,
		.free_device_list = fake_free_list,
		.get_device_name = fake_name,
		.open_device = fake_open,
		.close_device = fake_close,
		.query_device = fake_query,
		.query_port = fake_port,
		.query_gid = fake_gid,
		.query_gid_ex = fake_gid_ex,
	};
	memset(fakes, 0, sizeof(fakes));
	n_fakes = list_error = 0;
	opened = closed = listed = 0;
	list = NULL;
	*err = '\0';
	madetree_new(root);
	return 0;
}

static int
teardown(void **state)
{
	(void)state;
	free(list);
	madetree_free(root);
	assert_int_equal(opened, closed);
	assert_int_equal(listed, 0);
	return 0;
}

/* A device as RoCE NICs are, with an IP. */
static struct fake *
add_roce(const char *name)
{
	struct fake *f = &fakes[n_fakes++];

	strcpy(f->dev.name, name);
	f->dev.transport_type = IBV_TRANSPORT_IB;
	f->ports = 1;
	f->port = (struct ibv_port_attr){
		.state = IBV_PORT_ACTIVE,
		.active_mtu = IBV_MTU_4096,
		.gid_tbl_len = GIDS,
		.active_width = 2,
		.active_speed = 32,
		.phys_state = 5,
		.link_layer = IBV_LINK_LAYER_ETHERNET,
	};
	f->gids[0] = (struct fake_gid){ "fe80::1", IBV_GID_TYPE_ROCE_V1 };
	f->gids[1] = (struct fake_gid){ "fe80::1", IBV_GID_TYPE_ROCE_V2 };
	f->gids[2] =
		(struct fake_gid){ "::ffff:10.77.0.1", IBV_GID_TYPE_ROCE_V1 };
	f->gids[3] =
		(struct fake_gid){ "::ffff:10.77.0.1", IBV_GID_TYPE_ROCE_V2 };
	return f;
}

static struct fake *
add_ib(const char *name)
{
	struct fake *f = add_roce(name);

	f->port.link_layer = IBV_LINK_LAYER_INFINIBAND;
	f->port.lid = 7;
	memset(f->gids, 0, sizeof(f->gids));
	f->gids[0] = (struct fake_gid){ "fe80::2:c903:1", IBV_GID_TYPE_IB };
	return f;
}

/* The interfaces of this name space: eth0 and ib1, with two addresses each. */
static struct sockaddr_in v4[2], mask4;
static struct sockaddr_in6 v6[2], mask6;
static struct ifaddrs addrs[5];

static const struct ifaddrs *
addresses(void)
{
	char *const eth = (char[]){ "eth0" }, *const ib = (char[]){ "ib1" };
	static char names[2][IF_NAMESIZE];

	strcpy(names[0], eth);
	strcpy(names[1], ib);
	for (int i = 0; i < 2; i++) {
		v4[i].sin_family = AF_INET;
		v6[i].sin6_family = AF_INET6;
		addrs[2 * i] = (struct ifaddrs){
			.ifa_next = &addrs[2 * i + 1],
			.ifa_name = names[i],
			.ifa_addr = (void *)&v4[i],
			.ifa_netmask = (void *)&mask4,
		};
		addrs[2 * i + 1] = (struct ifaddrs){
			.ifa_next = &addrs[2 * i + 2],
			.ifa_name = names[i],
			.ifa_addr = (void *)&v6[i],
			.ifa_netmask = (void *)&mask6,
		};
	}
	/* One without an address, as getifaddrs() has them. */
	addrs[4] = (struct ifaddrs){ .ifa_name = names[1] };
	inet_pton(AF_INET, "255.255.254.0", &mask4.sin_addr);
	inet_pton(AF_INET6, "ffff:ffff:ffff:fff0::", &mask6.sin6_addr);
	inet_pton(AF_INET, "10.77.0.1", &v4[0].sin_addr);
	inet_pton(AF_INET6, "fe80::1", &v6[0].sin6_addr);
	inet_pton(AF_INET, "10.88.0.1", &v4[1].sin_addr);
	inet_pton(AF_INET6, "fd00::88", &v6[1].sin6_addr);
	return addrs;
}

static long
make_list(const char *wanted)
{
	const struct kv_rdmadev_opts o = {
		.wanted = wanted,
		.root = root,
		.verbs = &verbs,
		.addrs = addresses(),
	};

	free(list);
	return kv_rdmadev_list(&o, &list, err, sizeof(err));
}

static const char *
ip(const struct in6_addr *a)
{
	static char buf[INET6_ADDRSTRLEN];

	return kv_devlist_ip(buf, sizeof(buf), a);
}

/* ---- tests ---- */

/* 0: no fault was met; 1: and nothing is left of the list; 2: else. */
static int
list_with_fault(void)
{
	struct fake *f;
	long n;

	setup(NULL);
	f = add_roce("mlx5_0");
	f->gids[2].ip = f->gids[3].ip = NULL;
	add_ib("mlx4_0");
	madetree_put(root, DEVS "mlx5_0/device/net/eth0/mtu", "1500\n");
	madetree_put(root, DEVS "rxe0/node_type", "1: CA\n");
	n = make_list("mlx*");
	if (n == -ENOMEM && !list &&
	    strcmp(err, "out of memory; free some") == 0 && opened == closed) {
		teardown(NULL);
		return 1;
	}
	/* Without its interface, a port is listed all the same. */
	if (n != 3 || !list[1].port || list[1].is_usable)
		return 2;
	n = *list[1].netdev ? 0 : 1;
	teardown(NULL);
	return (int)n;
}

static void
a_list_without_memory_leaves_nothing(void **state)
{
	unsigned n = 0;
	int code;

	(void)state;
	do {
		code = nth_fault_run(++n, list_with_fault);
		assert_int_not_equal(code, 2);
	} while (code == 1);
	assert_int_equal(n, 7); /* two names, three entries, an interface */
}

static void
a_port_is_told_in_full(void **state)
{
	(void)state;
	add_roce("mlx5_0");
	madetree_put(root, DEVS "mlx5_0/device/numa_node", "1\n");
	madetree_link(root, DEVS "mlx5_1/device", "../../../0000:3b:00.1");
	assert_int_equal(make_list("mlx5_0"), 2); /* one is of sysfs only */
	assert_string_equal(list->name, "mlx5_0");
	assert_string_equal(list->pci, "");
	assert_int_equal(list->numa_node, 1);
	assert_int_equal(list->limits.mr_bytes_max, UINT64_C(1) << 40);
	assert_int_equal(list->limits.qp_wr_max, 32768);
	assert_int_equal(list->limits.cqe_max, 4194303);
	assert_int_equal(list->limits.sge_max, 30);
	assert_int_equal(list->limits.rd_atom_max, 16);
	assert_int_equal(list->limits.init_rd_atom_max, 17);
	assert_int_equal(list->port, 1);
	assert_string_equal(list->state, "active");
	assert_string_equal(list->layer, "Ethernet");
	assert_int_equal(list->mbit_per_s, 100000);
	assert_int_equal(list->mtu_bytes, 4096);
	assert_int_equal(list->gid_index, 3);
	assert_int_equal(list->local_gid_index, 1);
	assert_string_equal(ip(&list->gid), "10.77.0.1");
	assert_string_equal(list->netdev, "eth0");
	assert_int_equal(list->n_ips, 1);
	assert_string_equal(ip(&list->ips[0]), "10.77.0.1");
	assert_int_equal(list->ip_bits[0], 96 + 23);
	assert_true(list->is_wanted);
	assert_true(list->is_usable);
	assert_string_equal(list->why, "");
	assert_string_equal(list[1].pci, "0000:3b:00.1");
}

static void
an_address_without_a_mask_is_alone_in_its_network(void **state)
{
	const struct ifaddrs *a = addresses();
	struct ifaddrs one = *a;
	const struct kv_rdmadev_opts o = {
		.wanted = "",
		.verbs = &verbs,
		.addrs = &one,
	};

	(void)state;
	one.ifa_next = NULL;
	one.ifa_netmask = NULL;
	add_roce("mlx5_0");
	assert_int_equal(kv_rdmadev_list(&o, &list, err, sizeof(err)), 1);
	assert_int_equal(list->n_ips, 1);
	assert_int_equal(list->ip_bits[0], 128);
}

static void
sysfs_knows_speeds_that_verbs_do_not(void **state)
{
	(void)state;
	add_roce("mlx5_0");
	madetree_put(root, DEVS "mlx5_0/ports/1/rate", "800 Gb/sec (4X XDR)\n");
	assert_int_equal(make_list(""), 1);
	assert_int_equal(list->mbit_per_s, 800000);
}

static void
an_old_library_knows_no_types_of_gids(void **state)
{
	(void)state;
	verbs.query_gid_ex = NULL;
	add_roce("mlx5_0")->gids[3].ip = NULL;
	fakes[0].gids[0].ip = "::ffff:10.77.0.1";
	madetree_put(root, DEVS "mlx5_0/ports/1/gid_attrs/types/0",
		     "RoCE v2\n");
	assert_int_equal(make_list(""), 1);
	assert_int_equal(list->gid_index, 0);
	assert_true(list->is_usable);
}

static void
the_address_of_another_name_space_comes_second(void **state)
{
	struct fake *f = add_roce("mlx5_0");

	(void)state;
	f->gids[1] =
		(struct fake_gid){ "::ffff:10.99.0.1", IBV_GID_TYPE_ROCE_V2 };
	assert_int_equal(make_list(""), 1);
	assert_int_equal(list->gid_index, 3);
	assert_int_equal(list->n_ips, 1);
	f->gids[2].ip = f->gids[3].ip = NULL;
	assert_int_equal(make_list(""), 1);
	assert_int_equal(list->gid_index, 1);
	assert_int_equal(list->n_ips, 0);
	assert_string_equal(list->netdev, "");
	assert_true(list->is_usable);
	assert_string_equal(list->why, "its IPs are of another network name "
				       "space: connected without the "
				       "connection manager");
}

static void
a_roce_port_without_ip_is_joined_by_its_gid(void **state)
{
	struct fake *f = add_roce("mlx5_0");

	(void)state;
	f->gids[2].ip = f->gids[3].ip = NULL;
	assert_int_equal(make_list(""), 1);
	assert_true(list->is_usable);
	assert_true(list->is_ethernet);
	assert_int_equal(list->gid_index, 1);
	assert_int_equal(list->local_gid_index, 1);
	assert_string_equal(list->why, "no IP on the port: connected without "
				       "the connection manager");
}

static void
a_roce_port_without_any_gid_is_not_usable(void **state)
{
	struct fake *f = add_roce("mlx5_0");

	(void)state;
	f->port.gid_tbl_len = 0;
	assert_int_equal(make_list(""), 1);
	assert_int_equal(list->gid_index, -1);
	assert_false(list->is_usable);
	assert_string_equal(list->why, "no IP on the port; ip addr add "
				       "ADDRESS/BITS dev DEV");
	madetree_put(root, DEVS "mlx5_0/device/net/eth7/mtu", "1500\n");
	assert_int_equal(make_list(""), 1);
	assert_string_equal(list->netdev, "eth7");
	madetree_put(root, DEVS "mlx5_0/ports/1/gid_attrs/ndevs/0", "eth8\n");
	assert_int_equal(make_list(""), 1);
	assert_string_equal(list->why, "no IP on the port, which is eth8; ip "
				       "addr add ADDRESS/BITS dev eth8");
}

static void
infiniband_has_its_ips_on_interfaces_of_its_own(void **state)
{
	(void)state;
	add_ib("mlx4_0")->ports = 2;
	madetree_put(root, DEVS "mlx4_0/device/net/ib0/dev_port", "0\n");
	madetree_put(root, DEVS "mlx4_0/device/net/ib1/dev_port", "1\n");
	assert_int_equal(make_list(""), 2);
	assert_int_equal(list[0].port, 1);
	assert_string_equal(list[0].layer, "InfiniBand");
	assert_int_equal(list[0].lid, 7);
	assert_int_equal(list[0].gid_index, 0);
	assert_string_equal(list[0].netdev, "ib0");
	assert_int_equal(list[0].n_ips, 0);
	assert_true(list[0].is_usable);
	assert_string_equal(list[0].why, "no IP on the port: connected "
					 "without the connection manager");
	assert_int_equal(list[1].port, 2);
	assert_string_equal(list[1].netdev, "ib1");
	assert_int_equal(list[1].n_ips, 2);
	assert_string_equal(ip(&list[1].ips[0]), "10.88.0.1");
	assert_string_equal(ip(&list[1].ips[1]), "fd00::88");
	assert_int_equal(list[1].ip_bits[0], 96 + 23);
	assert_int_equal(list[1].ip_bits[1], 60);
	assert_string_equal(list[1].why, "");
	assert_int_equal(kv_devlist_usable(list, 2), 1); /* one device */
}

static void
ports_that_do_not_work_say_why(void **state)
{
	struct fake *f = add_roce("mlx5_0");

	(void)state;
	f->port.state = IBV_PORT_DOWN;
	assert_int_equal(make_list(""), 1);
	assert_false(list->is_usable);
	assert_string_equal(list->state, "down");
	assert_string_equal(list->why, "port down; see to its link");
	f->port.state = IBV_PORT_ACTIVE;
	f->dev.transport_type = IBV_TRANSPORT_IWARP;
	assert_int_equal(make_list(""), 1);
	assert_false(list->is_usable);
	assert_non_null(strstr(list->why, "iWARP"));
	f->dev.transport_type = IBV_TRANSPORT_IB;
	f->port_error = EIO;
	assert_int_equal(make_list(""), 1);
	assert_false(list->is_usable);
	assert_string_equal(list->why, "port cannot be asked: Input/output "
				       "error; see dmesg");
	assert_int_equal(kv_devlist_usable(list, 1), 0);
}

static void
devices_that_do_not_open_say_why(void **state)
{
	struct fake *f = add_roce("mlx5_0");

	(void)state;
	f->open_error = EACCES;
	assert_int_equal(make_list(""), 1);
	assert_int_equal(list->port, 0);
	assert_false(list->is_usable);
	assert_string_equal(list->why,
			    "cannot be opened: Permission denied; give this "
			    "user or container /dev/infiniband");
	f->open_error = EIO;
	assert_int_equal(make_list(""), 1);
	assert_string_equal(list->why, "cannot be opened: Input/output error; "
				       "see dmesg");
	f->open_error = 0;
	f->query_error = ENODEV;
	assert_int_equal(make_list(""), 1);
	assert_string_equal(list->why, "cannot be opened: No such device; see "
				       "dmesg");
}

static void
what_is_not_wanted_is_not_opened(void **state)
{
	(void)state;
	add_roce("mlx5_10");
	add_roce("mlx5_2");
	add_roce("rxe0");
	assert_int_equal(make_list("mlx5_*"), 3);
	assert_string_equal(list[0].name, "mlx5_2"); /* as people count */
	assert_string_equal(list[1].name, "mlx5_10");
	assert_string_equal(list[2].name, "rxe0");
	assert_int_equal(opened, 2);
	assert_true(list[1].is_wanted);
	assert_false(list[2].is_wanted);
	assert_false(list[2].is_usable);
	assert_string_equal(list[2].why, "not in the list of devices");
	assert_int_equal(kv_devlist_usable(list, 3), 2);
	assert_int_equal(make_list("auto"), 3);
	assert_int_equal(kv_devlist_usable(list, 3), 3);
}

static void
a_device_without_driver_is_told(void **state)
{
	(void)state;
	add_roce("mlx5_0");
	madetree_put(root, DEVS "mlx5_0/node_type", "1: CA\n");
	madetree_put(root, DEVS "erdma_0/node_type", "1: CA\n");
	madetree_put(root, DEVS "erdma_1/node_type", "1: CA\n");
	assert_int_equal(make_list("mlx5_0,erdma_0"), 3);
	assert_string_equal(list[0].name, "erdma_0");
	assert_false(list[0].is_usable);
	assert_non_null(strstr(list[0].why, "; apt install ibverbs-providers"));
	assert_string_equal(list[1].why, "not in the list of devices");
	assert_true(list[2].is_usable);
}

static void
verbs_that_fail_are_quoted(void **state)
{
	(void)state;
	list_error = EPERM;
	assert_int_equal(make_list(""), -EPERM);
	assert_null(list);
	assert_string_equal(err, "cannot list RDMA devices: Operation not "
				 "permitted; see dmesg");
	/* The kernel has no verbs for programs. */
	list_error = ENOSYS;
	assert_int_equal(make_list(""), 0);
	assert_null(list);
	madetree_put(root, DEVS "mlx5_0/node_type", "1: CA\n");
	assert_int_equal(make_list(""), 1);
	assert_non_null(strstr(list->why, "; modprobe ib_uverbs"));
}

static void
without_a_device_no_library_is_looked_for(void **state)
{
	const struct kv_rdmadev_opts o = { .wanted = "", .root = root };

	(void)state;
	assert_int_equal(kv_rdmadev_list(&o, &list, err, sizeof(err)), 0);
	assert_null(list);
	assert_string_equal(err, "");
}

int
main(void)
{
#define CASE(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
	const struct CMUnitTest tests[] = {
		nth_fault_test(a_list_without_memory_leaves_nothing),
		CASE(a_port_is_told_in_full),
		CASE(an_address_without_a_mask_is_alone_in_its_network),
		CASE(sysfs_knows_speeds_that_verbs_do_not),
		CASE(an_old_library_knows_no_types_of_gids),
		CASE(the_address_of_another_name_space_comes_second),
		CASE(a_roce_port_without_ip_is_joined_by_its_gid),
		CASE(a_roce_port_without_any_gid_is_not_usable),
		CASE(infiniband_has_its_ips_on_interfaces_of_its_own),
		CASE(ports_that_do_not_work_say_why),
		CASE(devices_that_do_not_open_say_why),
		CASE(what_is_not_wanted_is_not_opened),
		CASE(a_device_without_driver_is_told),
		CASE(verbs_that_fail_are_quoted),
		CASE(without_a_device_no_library_is_looked_for),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
