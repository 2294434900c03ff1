/* Rails that no connection manager connects: how they come up, and go. */
#include "xfer/rdmajoin.h"

#include <errno.h>
#include <string.h>

#include "base/log.h"
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

static unsigned
qps_up(int end)
{
	return (unsigned)__builtin_popcountll(railrig[end].l->up);
}

static unsigned
slots(int end)
{
	unsigned i, n = 0;

	for (i = 0; i < KV_RDMALINK_SLOTS; i++)
		n += railrig[end].l->slots[i] != NULL;
	return n;
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

/* So many are up at both ends, and work. */
static void
expect_rails(unsigned n)
{
	assert_int_equal(kv_rdmalink_rails(railrig[0].l), n);
	assert_int_equal(kv_rdmalink_rails(railrig[1].l), n);
	assert_int_equal(qps_up(0), 2 * n);
	assert_int_equal(qps_up(1), 2 * n);
	move_all();
}

/* Of any queue pair of that end. */
static struct ibv_qp_attr
attr_of(int end)
{
	const struct railrig_end *e = &railrig[end];
	const struct kv_rdmaslot *s = e->l->slots[__builtin_ctzll(e->l->up)];
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	assert_int_equal(e->v->query_qp(s->qp->qp, &attr, ~0, &init), 0);
	return attr;
}

static bool
is_joined(int end, unsigned rail)
{
	const struct kv_rdmalink *l = railrig[end].l;
	uint64_t bits = l->rails[rail].up;

	assert_true(bits);
	return l->slots[kv_rdmalink_pop(&bits)]->join != NULL;
}

/* ---- which ---- */

static void
ports_without_ip_are_joined(void **state)
{
	const struct railrig_opts o = { .n = { 1, 1 }, .no_ip = { 1, 1 } };
	struct in6_addr near, far;

	(void)state;
	railrig_open(&o);
	railrig_connect();
	expect_rails(1);
	/* Nobody can be dialled there. */
	assert_false(kv_rdmalink_path(railrig[0].l, &near, &far));
}

static void
one_side_without_ip_is_enough(void **state)
{
	const struct railrig_opts dialler = { .n = { 1, 1 }, .no_ip = { 1 } },
				  listener = { .n = { 1, 1 },
					       .no_ip = { 0, 1 } };

	(void)state;
	railrig_open(&dialler);
	railrig_connect();
	expect_rails(1);
	railrig_close();
	railrig_open(&listener);
	railrig_connect();
	expect_rails(1);
}

static void
rails_of_both_kinds_work_together(void **state)
{
	const struct railrig_opts o = { .n = { 2, 2 }, .no_ip = { 2, 2 } };
	struct in6_addr near, far;

	(void)state;
	railrig_open(&o);
	railrig_connect();
	expect_rails(2);
	assert_false(is_joined(0, 0));
	assert_true(is_joined(0, 1));
	assert_true(kv_rdmalink_path(railrig[0].l, &near, &far));
	assert_memory_equal(&near, &railrig[0].r.devs[0].ips[0], sizeof(near));
}

static void
ports_are_paired_by_place(void **state)
{
	const struct railrig_opts o = { .n = { 3, 3 }, .no_ip = { 7, 7 } };
	unsigned i;

	(void)state;
	railrig_open(&o);
	railrig_connect();
	expect_rails(3);
	for (i = 0; i < 3; i++)
		assert_int_equal(railrig[0].l->rails[i].far,
				 railrig[0].l->rails[i].near);
}

static void
ports_are_paired_by_trial(void **state)
{
	const struct railrig_opts o = { .n = { 3, 3 },
					.no_ip = { 7, 7 },
					.is_crossed = true };
	unsigned i;

	(void)state;
	railrig_open(&o);
	kv_rdmalink_tell(railrig[1].l);
	railrig_ms(20000);
	expect_rails(3);
	for (i = 0; i < 3; i++)
		assert_int_equal(railrig[0].l->rails[i].far, 2 - i);
}

static void
without_librdmacm_all_are_joined(void **state)
{
	struct railrig_opts o = { .n = { 2, 2 } };
	int i;

	(void)state;
	for (i = 1; i < 4; i++) {
		o.no_cm[0] = i & 1;
		o.no_cm[1] = i & 2;
		railrig_open(&o);
		railrig_connect();
		expect_rails(2);
		assert_true(is_joined(0, 0) && is_joined(1, 1));
		if (i < 3)
			railrig_close();
	}
}

static int
nowhere(struct rdma_cm_id *id, struct sockaddr *src, struct sockaddr *dst,
	int timeout_ms)
{
	(void)id;
	(void)src;
	(void)dst;
	(void)timeout_ms;
	errno = ENODEV;
	return -1;
}

static void
what_the_connection_manager_cannot_do_is_joined(void **state)
{
	const struct railrig_opts o = { .n = { 2, 2 } };

	(void)state;
	railrig_open(&o);
	railrig[0].calls.resolve_addr = nowhere;
	railrig_connect();
	expect_rails(2);
	assert_true(is_joined(0, 0) && is_joined(1, 0));
}

static void
one_failure_of_the_connection_manager_is_enough(void **state)
{
	const struct railrig_opts o = { .n = { 1, 1 } };

	(void)state;
	railrig_open(&o);
	hca_fail_cm(railrig[0].host, RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT,
		    NULL, 0);
	railrig_connect();
	expect_rails(1);
}

static int
no_gid(struct ibv_context *ctx, uint8_t port, int index, union ibv_gid *gid)
{
	(void)ctx;
	(void)port;
	(void)index;
	(void)gid;
	errno = EIO;
	return -1;
}

/* Whichever works, however late. */
static void
the_ways_alternate(void **state)
{
	const struct railrig_opts o = { .n = { 1, 1 } };
	struct railrig_end *e = &railrig[0];

	(void)state;
	railrig_open(&o);
	e->calls.resolve_addr = nowhere;
	e->calls.query_gid = no_gid;
	kv_rdmalink_tell(railrig[1].l);
	railrig_ms(5000);
	assert_int_equal(kv_rdmalink_rails(e->l), 0);
	assert_string_equal(kv_rdmalink_why(e->l),
			    "dev0 port 1 to 10.0.0.2: the port has no such "
			    "GID");
	e->calls.resolve_addr = e->v->resolve_addr;
	railrig_ms(10000);
	expect_rails(1);
	assert_false(is_joined(0, 0));
	railrig_close();

	railrig_open(&o);
	e->calls.resolve_addr = nowhere;
	e->calls.query_gid = no_gid;
	kv_rdmalink_tell(railrig[1].l);
	railrig_ms(5000);
	e->calls.query_gid = e->v->query_gid;
	railrig_ms(10000);
	expect_rails(1);
	assert_true(is_joined(0, 0));
}

/* ---- the ways of packets ---- */

static void
infiniband_goes_by_lid(void **state)
{
	const struct railrig_opts o = { .n = { 1, 1 },
					.no_ip = { 1, 1 },
					.infiniband = { 1, 1 } };
	struct ibv_qp_attr a;

	(void)state;
	railrig_open(&o);
	railrig_connect();
	expect_rails(1);
	a = attr_of(0);
	assert_false(a.ah_attr.is_global);
	assert_int_equal(a.ah_attr.dlid, 2);
	assert_int_equal(attr_of(1).ah_attr.dlid, 1);
	assert_int_equal(a.path_mtu, IBV_MTU_4096);
	assert_int_equal(a.max_rd_atomic, 16);
	assert_int_equal(a.max_dest_rd_atomic, 16);
	assert_int_equal(a.timeout, KV_RDMAQP_ACK_TIMEOUT);
	assert_int_equal(a.retry_cnt, KV_RDMAQP_RETRIES);
	assert_int_equal(a.rnr_retry, KV_RDMAQP_RNR_RETRIES);
	assert_int_equal(a.min_rnr_timer, KV_RDMAQP_RNR_TIMER);
}

static void
another_subnet_is_reached_by_gid(void **state)
{
	const struct railrig_opts o = { .n = { 1, 1 },
					.no_ip = { 1, 1 },
					.infiniband = { 1, 1 },
					.subnet = { 1, 2 } };

	(void)state;
	railrig_open(&o);
	railrig_connect();
	expect_rails(1);
	assert_true(attr_of(0).ah_attr.is_global);
	assert_true(attr_of(1).ah_attr.is_global);
}

static void
the_environment_has_its_way(void **state)
{
	const struct railrig_opts o = { .n = { 1, 1 },
					.no_ip = { 1, 1 },
					.pkeys = 4 };
	struct ibv_qp_attr a;
	int i;

	(void)state;
	railrig_open(&o);
	for (i = 0; i < 2; i++) {
		railrig[i].r.nics[0].service_level = 3;
		railrig[i].r.nics[0].traffic_class = 106;
		railrig[i].r.nics[0].pkey_index = 2;
		railrig[i].r.nics[0].gid_index = 0;
		railrig[i].r.nics[0].local_gid_index = 0;
		railrig[i].r.nics[0].mtu = i ? IBV_MTU_1024 : IBV_MTU_2048;
		railrig[i].r.nics[0].initiates = 4;
	}
	railrig_connect();
	expect_rails(1);
	for (i = 0; i < 2; i++) {
		a = attr_of(i);
		assert_int_equal(a.ah_attr.sl, 3);
		assert_int_equal(a.ah_attr.grh.traffic_class, 106);
		assert_int_equal(a.pkey_index, 2);
		assert_int_equal(a.ah_attr.grh.sgid_index, 0);
		assert_int_equal(a.path_mtu, IBV_MTU_1024);
		assert_int_equal(a.max_rd_atomic, 4);
		assert_int_equal(a.max_dest_rd_atomic, 4);
	}
}

static char logged[512];
static unsigned n_logged;

static void
on_log(void *arg, enum kv_log_level level, const char *msg)
{
	(void)arg;
	if (level != KV_LOG_INFO)
		return;
	n_logged++;
	snprintf(logged, sizeof(logged), "%s", msg);
}

/* Also of what the connection manager connects. */
static void
the_smaller_mtu_is_used_and_named_once(void **state)
{
	struct railrig_opts o = { .n = { 2, 2 },
				  .mtu = { IBV_MTU_1024, IBV_MTU_4096 },
				  .no_ip = { 2, 2 } };

	(void)state;
	n_logged = 0;
	kv_log_set_sink(on_log, NULL);
	railrig_open(&o);
	kv_log_set_level(KV_LOG_INFO);
	railrig_connect();
	expect_rails(2);
	kv_log_set_sink(NULL, NULL);
	assert_int_equal(n_logged, 1);
	assert_string_equal(logged,
			    "rdma: dev0 port 1 to 10.0.0.2: an MTU of 1024 "
			    "here, of 4096 there: the smaller one is used");
	assert_int_equal(attr_of(0).path_mtu, IBV_MTU_1024);
	assert_int_equal(attr_of(1).path_mtu, IBV_MTU_1024);
	railrig_close();

	/* Of either side's environment. */
	o = (struct railrig_opts){ .n = { 1, 1 } };
	railrig_open(&o);
	railrig[0].r.nics[0].mtu = IBV_MTU_512;
	railrig_connect();
	expect_rails(1);
	assert_int_equal(attr_of(0).path_mtu, IBV_MTU_512);
	assert_int_equal(attr_of(1).path_mtu, IBV_MTU_512);
	railrig_close();
	railrig_open(&o);
	railrig[1].r.nics[0].mtu = IBV_MTU_256;
	railrig_connect();
	expect_rails(1);
	assert_int_equal(attr_of(0).path_mtu, IBV_MTU_256);
	assert_int_equal(attr_of(1).path_mtu, IBV_MTU_256);
}

static void
link_layers_are_not_mixed(void **state)
{
	struct railrig_opts o = { .n = { 1, 1 }, .infiniband = { 1, 0 } };
	const struct kv_rdmalink *l;

	(void)state;
	railrig_open(&o);
	kv_rdmalink_tell(railrig[1].l);
	railrig_ms(1);
	l = railrig[0].l;
	assert_int_equal(railrig[0].n_settled, 1);
	assert_int_equal(l->next_qp, 0);
	assert_string_equal(kv_rdmalink_why(l),
			    "dev0 port 1 to 10.0.0.2: InfiniBand here, "
			    "Ethernet there");
	railrig_close();

	/* Port 0 of this side can reach port 1 of that one only. */
	o = (struct railrig_opts){ .n = { 2, 2 },
				   .infiniband = { 1, 2 },
				   .no_ip = { 1, 2 },
				   .is_flat = true };
	railrig_open(&o);
	railrig_connect();
	expect_rails(2);
	assert_int_equal(railrig[0].l->rails[0].far, 1);
	assert_int_equal(railrig[0].l->rails[1].far, 0);
}

/* ---- its end ---- */

/* What the other side does not know of is not kept there. */
static void
one_that_is_lost_is_made_anew(void **state)
{
	const struct railrig_opts o = { .n = { 1, 1 }, .no_ip = { 1, 1 } };
	const struct hca_fault f = { .status = IBV_WC_GENERAL_ERR, .nth = 1 };
	int end;

	(void)state;
	railrig_open(&o);
	railrig_connect();
	for (end = 0; end < 2; end++) {
		hca_fail_wr(railrig[end].ports[0], &f);
		railrig_move(end, KV_RDMAXFER_WRITE, 0, 0, 1 << 20);
		railrig_ms(500);
		assert_int_equal(slots(0), 2);
		assert_int_equal(slots(1), 2);
		expect_rails(1);
	}
	assert_int_equal(railrig[0].l->next_qp, 4);
}

static void
the_end_of_a_link_is_told(void **state)
{
	const struct railrig_opts o = { .n = { 1, 1 }, .no_ip = { 1, 1 } };

	(void)state;
	railrig_open(&o);
	railrig_connect();
	kv_rdmalink_free(kv_steal_ptr(&railrig[0].l));
	railrig_ms(1);
	assert_int_equal(slots(1), 0);
}

static void
a_cut_rail_comes_back(void **state)
{
	const struct railrig_opts o = { .n = { 2, 2 }, .no_ip = { 3, 3 } };
	struct railrig_move m;

	(void)state;
	railrig_open(&o);
	railrig_connect();
	hca_cut(railrig[0].ports[0], NULL, true);
	railrig_prepare(&m, 0, KV_RDMAXFER_WRITE, 0, 0, 6 << 20);
	railrig_start(&m);
	railrig_ms(3000);
	assert_int_equal(m.status, 0);
	assert_true(railrig_is_same(&m));
	/* The ends can be told; and yet there is no way. */
	assert_int_equal(kv_rdmalink_rails(railrig[0].l), 1);
	assert_int_equal(kv_rdmalink_rails(railrig[1].l), 1);
	hca_cut(railrig[0].ports[0], NULL, false);
	railrig_ms(10000);
	expect_rails(2);
}

#define TEST(f) cmocka_unit_test_teardown(f, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(ports_without_ip_are_joined),
		TEST(one_side_without_ip_is_enough),
		TEST(rails_of_both_kinds_work_together),
		TEST(ports_are_paired_by_place),
		TEST(ports_are_paired_by_trial),
		TEST(without_librdmacm_all_are_joined),
		TEST(what_the_connection_manager_cannot_do_is_joined),
		TEST(one_failure_of_the_connection_manager_is_enough),
		TEST(the_ways_alternate),
		TEST(infiniband_goes_by_lid),
		TEST(another_subnet_is_reached_by_gid),
		TEST(the_environment_has_its_way),
		TEST(the_smaller_mtu_is_used_and_named_once),
		TEST(link_layers_are_not_mixed),
		TEST(one_that_is_lost_is_made_anew),
		TEST(the_end_of_a_link_is_told),
		TEST(a_cut_rail_comes_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
