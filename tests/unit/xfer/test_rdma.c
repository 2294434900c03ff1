#include "xfer/rdmacore.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "hcahost.h"
#include "madetree.h"
#include "nth_fault.h"
#include "test.h"

static struct kv_rdma *r;
static struct kv_mcenv env;
static char err[512], logged[512];

static void
on_log(void *arg, enum kv_log_level level, const char *msg)
{
	(void)arg;
	assert_int_equal(level, KV_LOG_WARN);
	snprintf(logged, sizeof(logged), "%s", msg);
}

/* What the process has, with a difference. */
static unsigned opened;
static unsigned refused; /* domains, from now on */
static int rd_atom, init_rd_atom;

static int
query(struct ibv_context *ctx, struct ibv_device_attr *attr)
{
	int rc = hcahost_real->query_device(ctx, attr);

	attr->max_qp_rd_atom = rd_atom;
	attr->max_qp_init_rd_atom = init_rd_atom;
	return rc;
}

static struct ibv_context *
open_counted(struct ibv_device *dev)
{
	opened++;
	return hcahost_real->open_device(dev);
}

/* Only what is to be used has a domain: so those that are listed pass. */
static struct ibv_pd *
alloc_or_not(struct ibv_context *ctx)
{
	if (!refused)
		return hcahost_real->alloc_pd(ctx);
	refused--;
	errno = EACCES;
	return NULL;
}

static int
setup(void **state)
{
	(void)state;
	hcahost_open();
	hcahost_v.query_device = query;
	hcahost_v.open_device = open_counted;
	hcahost_v.alloc_pd = alloc_or_not;
	opened = refused = 0;
	rd_atom = init_rd_atom = 16;
	r = NULL;
	*err = *logged = '\0';
	kv_mcenv_read(&env, NULL);
	kv_log_set_sink(on_log, NULL);
	return 0;
}

/* What was not given back is found here. */
static int
teardown(void **state)
{
	(void)state;
	kv_rdma_close(r);
	hcahost_close();
	kv_log_set_sink(NULL, NULL);
	return 0;
}

static char root[MADETREE_BYTES];

static bool
open_wanted(const char *wanted)
{
	const struct kv_rdma_opts o = {
		.wanted = wanted,
		.env = &env,
		.root = *root ? root : NULL,
		.verbs = &hcahost_v,
		.addrs = hcahost_addrs,
	};

	kv_rdma_close(r);
	errno = 0;
	r = kv_rdma_open(&o, err, sizeof(err));
	return r != NULL;
}

/* Nothing was opened, for that reason. */
static void
expect_none(const char *wanted, int want, const char *words)
{
	assert_false(open_wanted(wanted));
	assert_int_equal(errno, want);
	assert_string_equal(err, words);
}

static void
expect_port(unsigned number, const char *device, unsigned port)
{
	const struct kv_rdmadev *d = kv_rdma_port(r, number);

	assert_string_equal(d->name, device);
	assert_int_equal(d->port, port);
	assert_ptr_equal(r->ports[number], &r->nics[number]);
	assert_int_equal(r->nics[number].number, number);
	assert_int_equal(r->nics[number].port, port);
	assert_ptr_equal(r->nics[number].v, &hcahost_v);
	assert_string_equal(r->nics[number].ctx->device->name, device);
}

/* ---- tests ---- */

/* 0: no fault was met. 1: nothing was opened. 2: some ports were not. 3: that
 * was not tried. 4: wrong words. */
static int
open_with_fault(void)
{
	bool is_open;
	int code;

	setup(NULL);
	is_open = open_wanted(NULL);
	code = !is_open ? 1 : kv_rdma_ports(r) < 3 ? 2 : 0;
	if (code == 1 && strcmp(err, "out of memory; free some") != 0)
		code = 4;
	if (code == 2 && !strstr(logged, " cannot be opened: Cannot allocate "
					 "memory; see dmesg"))
		code = 4;
	teardown(NULL);
	return code;
}

static void
without_memory_there_is_less_or_nothing(void **state)
{
	unsigned n = 0, counts[4] = { 0 };
	int code;

	(void)state;
	do {
		code = nth_fault_run(++n, open_with_fault);
		assert_in_range(code, 0, 3);
		counts[code]++;
	} while (code);
	assert_int_equal(counts[1], 4); /* three entries, and all of it */
	assert_int_equal(counts[2], 4); /* context and domain of two devices */
}

static void
ports_of_a_device_share_it(void **state)
{
	(void)state;
	assert_true(open_wanted(NULL));
	assert_string_equal(logged, "");
	assert_int_equal(kv_rdma_ports(r), 3);
	expect_port(0, "mlx5_0", 1);
	expect_port(1, "mlx5_0", 2);
	expect_port(2, "mlx5_1", 1);
	assert_ptr_equal(r->v, &hcahost_v);
	assert_ptr_equal(r->nics[0].ctx, r->nics[1].ctx);
	assert_ptr_equal(r->nics[0].pd, r->nics[1].pd);
	assert_ptr_not_equal(r->nics[1].ctx, r->nics[2].ctx);
	assert_ptr_not_equal(r->nics[1].pd, r->nics[2].pd);
	assert_int_equal(opened, 2 + 2); /* listed, and used */
}

static void
the_list_says_which(void **state)
{
	(void)state;
	assert_true(open_wanted("mlx5_1*"));
	assert_int_equal(kv_rdma_ports(r), 1);
	expect_port(0, "mlx5_1", 1);
	assert_true(open_wanted("mlx5_0, auto"));
	assert_int_equal(kv_rdma_ports(r), 3);
	assert_string_equal(logged, "");
	assert_true(open_wanted("mlx5_7,mlx5_0"));
	assert_int_equal(kv_rdma_ports(r), 2);
	assert_string_equal(logged, "no RDMA device is called 'mlx5_7'; there "
				    "are mlx5_0, mlx5_1");
	expect_none("mlx5_7", ENODEV,
		    "no RDMA device is called 'mlx5_7'; there are mlx5_0, "
		    "mlx5_1");
}

static void
a_port_that_is_down_is_opened_with_the_others(void **state)
{
	struct kv_rdmadev dev;

	(void)state;
	hca_port_up(hcahost_ports[0], false);
	assert_true(open_wanted(NULL));
	assert_int_equal(kv_rdma_ports(r), 3);
	expect_port(0, "mlx5_0", 1);
	expect_port(1, "mlx5_0", 2);
	expect_port(2, "mlx5_1", 1);
	assert_false(r->devs[0].is_usable);
	assert_true(r->devs[0].is_awaited);
	assert_int_equal(r->watched.ports[0].is, KV_RDMAWATCH_DOWN);
	assert_int_equal(r->watched.ports[1].is, KV_RDMAWATCH_UP);
	assert_string_equal(logged, "");
	dev = r->devs[0];
	assert_false(kv_rdma_look(r, 0, &dev));
	assert_memory_equal(&dev, &r->devs[0], sizeof(dev));
	hca_port_up(hcahost_ports[0], true);
	assert_true(kv_rdma_look(r, 0, &dev));
	assert_true(dev.is_usable);
	assert_false(dev.is_awaited);
	assert_string_equal(dev.name, "mlx5_0");
	assert_string_equal(dev.state, "active");
	assert_int_equal(dev.limits.cqe_max, r->devs[0].limits.cqe_max);
	assert_int_equal(dev.n_ips, 1);
	assert_int_equal(dev.ips[0].s6_addr[15], 1);
}

/* Of who can wait. */
static void
all_may_be_down(void **state)
{
	struct kv_rdma_opts o = {
		.env = &env,
		.waits = true,
		.verbs = &hcahost_v,
		.addrs = hcahost_addrs,
	};

	(void)state;
	for (int i = 0; i < HCAHOST_PORTS; i++)
		hca_port_up(hcahost_ports[i], false);
	r = kv_rdma_open(&o, err, sizeof(err));
	assert_non_null(r);
	assert_int_equal(kv_rdma_ports(r), HCAHOST_PORTS);
	o.wanted = "mlx5_7";
	assert_null(kv_rdma_open(&o, err, sizeof(err)));
	assert_int_equal(errno, ENODEV);
}

static enum ibv_transport_type transport;

static struct ibv_context *
open_other(struct ibv_device *dev)
{
	struct ibv_context *ctx = hcahost_real->open_device(dev);

	ctx->device->transport_type = transport;
	return ctx;
}

/* Not those that never will be usable. */
static void
what_cannot_be_used_is_left_out(void **state)
{
	const struct kv_rdma_opts o = {
		.env = &env,
		.waits = true,
		.verbs = &hcahost_v,
		.addrs = hcahost_addrs,
	};

	(void)state;
	transport = IBV_TRANSPORT_IWARP;
	hcahost_v.open_device = open_other;
	hca_port_up(hcahost_ports[0], false);
	assert_null(kv_rdma_open(&o, err, sizeof(err)));
	assert_int_equal(errno, ENODEV);
}

static void
of_none_the_most_promising_is_told(void **state)
{
	const char down[] = " port 1: port down: it is disabled; `ip link set "
			    "DEV up` on its network interface";
	char words[256];

	(void)state;
	for (int i = 0; i < 3; i++)
		hca_port_up(hcahost_ports[i], false);
	snprintf(words, sizeof(words), "mlx5_0%s", down);
	expect_none(NULL, ENODEV, words);
	snprintf(words, sizeof(words), "mlx5_1%s", down);
	expect_none("mlx5_1", ENODEV, words);
}

static int
no_gid(struct ibv_context *ctx, uint32_t port, uint32_t index,
       struct ibv_gid_entry *entry, uint32_t flags, size_t bytes)
{
	(void)ctx;
	(void)port;
	(void)index;
	(void)entry;
	(void)flags;
	(void)bytes;
	return ENODATA;
}

static void
an_active_port_is_more_promising_than_one_that_is_down(void **state)
{
	const struct hca_port_opts p = { 0 };

	(void)state;
	hcahost_v.query_gid_ex = no_gid;
	for (int i = 0; i < 3; i++)
		hca_port_up(hcahost_ports[i], false);
	hca_port_add(hcahost_devs[1], &p);
	expect_none(NULL, ENODEV,
		    "mlx5_1 port 2: no IP on the port; ip addr add "
		    "ADDRESS/BITS dev DEV");
}

static void
no_device_at_all(void **state)
{
	(void)state;
	hca_dev_remove(hcahost_devs[0]);
	hca_dev_remove(hcahost_devs[1]);
	expect_none(NULL, ENODEV,
		    "this machine has no RDMA device; is its driver loaded?");
	expect_none("auto", ENODEV,
		    "this machine has no RDMA device; is its driver loaded?");
	expect_none("mlx5_0", ENODEV,
		    "no RDMA device is called 'mlx5_0'; there is none at all");
}

static void
one_that_does_not_open_is_left_out(void **state)
{
	const char words[] = "mlx5_0 cannot be opened: Permission denied; see "
			     "dmesg";

	(void)state;
	refused = 2; /* each of its ports tries */
	assert_true(open_wanted(NULL));
	assert_int_equal(kv_rdma_ports(r), 1);
	expect_port(0, "mlx5_1", 1);
	assert_string_equal(logged, words);
	refused = 2;
	expect_none("mlx5_0", ENODEV, words);
}

/* It goes as soon as it was listed. */
static int
close_and_remove(struct ibv_context *ctx)
{
	bool goes = strcmp(ctx->device->name, "mlx5_1") == 0;
	int rc = hcahost_real->close_device(ctx);

	if (goes)
		hca_dev_remove(hcahost_devs[1]);
	return rc;
}

static void
a_device_that_goes_meanwhile_is_left_out(void **state)
{
	(void)state;
	hcahost_v.close_device = close_and_remove;
	expect_none("mlx5_1", ENODEV,
		    "mlx5_1 cannot be opened: No such device; see dmesg");
}

static void
a_device_that_goes_later_is_given_back(void **state)
{
	(void)state;
	assert_true(open_wanted(NULL));
	hca_dev_remove(hcahost_devs[0]);
	hca_port_up(hcahost_ports[2], false);
	hca_run(hcahost_hca, hcahost_clock.ns + KV_NS_PER_S);
	assert_int_equal(kv_rdma_ports(r), 3);
}

#define DEVS  "/sys/class/infiniband/"
#define NODES "/sys/devices/system/node/"

/* One device at each of two nodes, the first with two ports. */
static void
ports_are_distant_from_other_nodes(void **state)
{
	(void)state;
	madetree_new(root);
	madetree_put(root, DEVS "mlx5_0/device/numa_node", "0\n");
	madetree_put(root, DEVS "mlx5_1/device/numa_node", "1\n");
	madetree_put(root, NODES "node0/distance", "10 21\n");
	madetree_put(root, NODES "node1/distance", "21 10\n");
	assert_true(open_wanted(NULL));
	assert_int_equal(kv_rdma_ports(r), 3);
	assert_int_equal(r->numa.distant[0], 4);
	assert_int_equal(r->numa.distant[1], 3);
	madetree_free(root);
	*root = '\0';
	assert_true(open_wanted(NULL));
	assert_int_equal(r->numa.any, 0);
}

static void
reads_at_a_time_are_as_many_as_the_device_says(void **state)
{
	(void)state;
	rd_atom = 16;
	init_rd_atom = 4;
	assert_true(open_wanted("mlx5_1"));
	assert_int_equal(r->nics[0].responds, 16);
	assert_int_equal(r->nics[0].initiates, 4);
	rd_atom = 1000;
	init_rd_atom = 0;
	assert_true(open_wanted("mlx5_1"));
	assert_int_equal(r->nics[0].responds, 255);
	assert_int_equal(r->nics[0].initiates, 1);
	rd_atom = -1;
	init_rd_atom = 256;
	assert_true(open_wanted("mlx5_1"));
	assert_int_equal(r->nics[0].responds, 1);
	assert_int_equal(r->nics[0].initiates, 255);
}

static void
ports_beyond_the_bound_are_left_out(void **state)
{
	static char texts[KV_RDMA_PORTS_MAX][16];
	static struct sockaddr_in sins[KV_RDMA_PORTS_MAX];
	static struct ifaddrs addrs[KV_RDMA_PORTS_MAX];
	struct ifaddrs *first = hcahost_addrs;
	struct kv_rdma_opts o = { .verbs = &hcahost_v };

	(void)state;
	for (unsigned i = 0; i < KV_RDMA_PORTS_MAX; i++) {
		const struct hca_port_opts p = { .ip = texts[i] };

		snprintf(texts[i], sizeof(texts[i]), "10.1.%u.1", i);
		hcahost_addr(&addrs[i], &sins[i], texts[i], first);
		first = &addrs[i];
		hca_port_add(hcahost_devs[1], &p);
	}
	o.addrs = first;
	r = kv_rdma_open(&o, err, sizeof(err));
	assert_non_null(r);
	assert_int_equal(kv_rdma_ports(r), KV_RDMA_PORTS_MAX);
	expect_port(KV_RDMA_PORTS_MAX - 1, "mlx5_1", KV_RDMA_PORTS_MAX - 2);
}

/* Those that are down leave room for those that are not. */
static void
ports_that_are_up_come_first(void **state)
{
	struct kv_rdma_opts o = { .env = &env, .verbs = &hcahost_v };
	unsigned up = 0;

	(void)state;
	for (unsigned i = 0; i < KV_RDMA_PORTS_MAX; i++) {
		const struct hca_port_opts p = { .infiniband = true };

		hca_port_up(hca_port_add(hcahost_devs[0], &p), i >= 14);
	}
	o.addrs = hcahost_addrs;
	r = kv_rdma_open(&o, err, sizeof(err));
	assert_non_null(r);
	assert_int_equal(kv_rdma_ports(r), KV_RDMA_PORTS_MAX);
	for (unsigned i = 0; i < KV_RDMA_PORTS_MAX; i++)
		up += r->devs[i].is_usable;
	assert_int_equal(up, HCAHOST_PORTS + KV_RDMA_PORTS_MAX - 14);
	expect_port(KV_RDMA_PORTS_MAX - 1, "mlx5_1", 1);
}

static void
verbs_are_enough_without_a_connection_manager(void **state)
{
	(void)state;
	hcahost_v.create_event_channel = NULL;
	assert_true(open_wanted(NULL));
	assert_int_equal(kv_rdma_ports(r), HCAHOST_PORTS);
}

static void
nothing_is_closed(void **state)
{
	(void)state;
	kv_rdma_close(NULL);
}

static void
the_environment_may_say_which(void **state)
{
	(void)state;
	snprintf(env.devices, sizeof(env.devices), "%s", "none");
	assert_false(open_wanted(NULL));
	assert_false(open_wanted(""));
	assert_true(open_wanted("*"));
	env.devices[0] = '\0';
	env.port = 2;
	assert_true(open_wanted(NULL));
	for (unsigned i = 0; i < kv_rdma_ports(r); i++)
		assert_int_equal(kv_rdma_port(r, i)->port, 2);
	env.port = 5;
	snprintf(err, sizeof(err), "what was there before");
	expect_none(NULL, ENODEV, "no device has a port 5; unset MC_IB_PORT");
	env.port = 2;
	hca_port_up(hcahost_ports[1], false);
	expect_none(NULL, ENODEV,
		    "mlx5_0 port 2: port down: it is disabled; `ip link set "
		    "DEV up` on its network interface");
	env.port = 0;
	env.is_tcp = true;
	expect_none(NULL, ENODEV, "MC_FORCE_TCP is set; unset it");
}

/* Opens with that wish beside the environment's. */
static void
open_tuned(unsigned qps, uint64_t slice_bytes)
{
	const struct kv_rdma_opts o = {
		.env = &env,
		.qps = qps,
		.slice_bytes = slice_bytes,
		.verbs = &hcahost_v,
		.addrs = hcahost_addrs,
	};

	kv_rdma_close(r);
	r = kv_rdma_open(&o, err, sizeof(err));
	assert_non_null(r);
}

static void
who_opens_it_says_more_than_the_environment(void **state)
{
	(void)state;
	env.qps = 3;
	env.slice_bytes = 128 << 10;
	open_tuned(0, 0);
	assert_int_equal(r->env.qps, 3);
	assert_int_equal(r->env.slice_bytes, 128 << 10);
	open_tuned(1, 4 << 20);
	assert_int_equal(r->env.qps, 1);
	assert_int_equal(r->env.slice_bytes, 4 << 20);
	/* Of engines, whose callers nobody has checked. */
	open_tuned(9, 1);
	assert_int_equal(r->env.qps, KV_MCENV_QPS_MAX);
	assert_int_equal(r->env.slice_bytes, KV_MCENV_SLICE_BYTES_MIN);
	open_tuned(0, UINT64_MAX);
	assert_int_equal(r->env.qps, 3);
	assert_int_equal(r->env.slice_bytes, KV_MCENV_SLICE_BYTES_MAX);
}

int
main(void)
{
#define CASE(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
	const struct CMUnitTest tests[] = {
		nth_fault_test(without_memory_there_is_less_or_nothing),
		CASE(ports_of_a_device_share_it),
		CASE(the_list_says_which),
		CASE(a_port_that_is_down_is_opened_with_the_others),
		CASE(all_may_be_down),
		CASE(what_cannot_be_used_is_left_out),
		CASE(of_none_the_most_promising_is_told),
		CASE(an_active_port_is_more_promising_than_one_that_is_down),
		CASE(no_device_at_all),
		CASE(one_that_does_not_open_is_left_out),
		CASE(a_device_that_goes_meanwhile_is_left_out),
		CASE(a_device_that_goes_later_is_given_back),
		CASE(ports_are_distant_from_other_nodes),
		CASE(reads_at_a_time_are_as_many_as_the_device_says),
		CASE(ports_beyond_the_bound_are_left_out),
		CASE(ports_that_are_up_come_first),
		CASE(verbs_are_enough_without_a_connection_manager),
		cmocka_unit_test(nothing_is_closed),
		CASE(the_environment_may_say_which),
		CASE(who_opens_it_says_more_than_the_environment),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
