/* What devices say of themselves, in the middle of transfers. */
#include "xfer/rdmalink.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "railrig.h"
#include "test.h"
#include "xfer/rdmalinkcore.h"

enum {
	BIG = 6 << 20,
	SOON_MS = 20, /* far less than a time-out of the device */
};

static struct railrig_move m;
static char logged[1024];

static void
on_log(void *arg, enum kv_log_level level, const char *msg)
{
	size_t n = strlen(logged);

	(void)arg;
	if (level <= KV_LOG_INFO)
		snprintf(logged + n, sizeof(logged) - n, "%s\n", msg);
}

static int
setup(unsigned n)
{
	const struct railrig_opts o = { .n = { n, n }, .piece_bytes = 16384 };

	logged[0] = '\0';
	kv_log_set_sink(on_log, NULL);
	kv_log_set_level(KV_LOG_INFO);
	railrig_open(&o);
	railrig_connect();
	return 0;
}

static int
setup_one(void **state)
{
	(void)state;
	return setup(1);
}

static int
setup_two(void **state)
{
	(void)state;
	return setup(2);
}

static int
teardown(void **state)
{
	(void)state;
	railrig_close();
	kv_log_set_sink(NULL, NULL);
	return 0;
}

static void
begin(int mover, enum kv_rdmaxfer_kind kind)
{
	railrig_prepare(&m, mover, kind, 0, 0, BIG);
	railrig_start(&m);
	railrig_us(50);
	assert_int_equal(m.done, 0);
}

static void
expect_well(unsigned ms)
{
	railrig_ms(ms);
	assert_int_equal(m.done, 1);
	assert_int_equal(m.status, 0);
	if (m.x.kind == KV_RDMAXFER_WRITE) {
		assert_int_equal(m.end_done, 1);
		assert_int_equal(m.end_status, 0);
	}
	assert_true(railrig_is_same(&m));
}

static void
expect_rails(unsigned n)
{
	assert_int_equal(kv_rdmalink_rails(railrig[0].l), n);
	assert_int_equal(kv_rdmalink_rails(railrig[1].l), n);
}

static const enum kv_rdmaxfer_kind kinds[] = {
	KV_RDMAXFER_READ,
	KV_RDMAXFER_WRITE,
	KV_RDMAXFER_WRITE_ALONE,
};

/* ---- ports ---- */

static void
a_port_goes_down(int end, int mover, unsigned ms)
{
	unsigned i;

	for (i = 0; i < KV_ARRAY_LEN(kinds); i++) {
		begin(mover, kinds[i]);
		hca_port_up(railrig[end].ports[0], false);
		expect_well(ms);
		expect_rails(1);
		hca_port_up(railrig[end].ports[0], true);
		railrig_ms(SOON_MS);
		expect_rails(2);
	}
}

static void
a_port_that_goes_down_costs_milliseconds(void **state)
{
	(void)state;
	a_port_goes_down(1, 1, SOON_MS);
}

static void
the_other_side_is_told(void **state)
{
	(void)state;
	a_port_goes_down(1, 0, SOON_MS);
}

static void
of_who_dials_it_is_told_as_well(void **state)
{
	(void)state;
	a_port_goes_down(0, 0, SOON_MS);
	a_port_goes_down(0, 1, SOON_MS);
}

static void
and_is_told_once(void **state)
{
	(void)state;
	hca_port_up(railrig[0].ports[0], false);
	railrig_ms(SOON_MS);
	assert_string_equal(kv_rdmalink_why(railrig[0].l),
			    "dev0 port 1 to 10.0.0.2: the port is down");
	hca_port_up(railrig[0].ports[0], true);
	railrig_ms(SOON_MS);
	assert_string_equal(logged, "rdma: port 1 of dev0 is down\n"
				    "rdma: port 1 of dev0 is up again\n");
}

static void
the_only_port_goes_and_comes(void **state)
{
	unsigned side;

	(void)state;
	for (side = 0; side < 2; side++) {
		begin(0, KV_RDMAXFER_WRITE_ALONE);
		hca_port_up(railrig[side].ports[0], false);
		railrig_ms(SOON_MS);
		assert_int_equal(m.done, 1);
		assert_int_equal(m.status, -EHOSTUNREACH);
		railrig_ms(5000);
		expect_rails(0);
		hca_port_up(railrig[side].ports[0], true);
		railrig_ms(SOON_MS);
		expect_rails(1);
		railrig_move(0, KV_RDMAXFER_READ, 0, 0, BIG);
		railrig_move(1, KV_RDMAXFER_WRITE, 0, 0, BIG);
	}
}

/* What does not last is no news. */
static void
a_port_that_flaps_is_left_alone(void **state)
{
	unsigned dialled = railrig[0].l->next_qp;

	(void)state;
	begin(0, KV_RDMAXFER_READ);
	hca_port_up(railrig[0].ports[1], false);
	hca_port_up(railrig[0].ports[1], true);
	railrig_ms(SOON_MS);
	expect_well(1500);
	expect_rails(2);
	assert_string_equal(logged, "");
	assert_int_equal(railrig[0].l->next_qp, dialled);
}

static void
a_port_that_is_down_is_not_told(void **state)
{
	struct kv_rail_rec recs[KV_RAILS_MAX];

	(void)state;
	hca_port_up(railrig[1].ports[1], false);
	railrig_ms(SOON_MS);
	assert_int_equal(kv_rdmaloop_rails(railrig[1].rl, recs), 1);
	assert_int_equal(recs[0].number, 0);
	assert_int_equal(railrig[0].l->n_recs, 1);
	hca_port_up(railrig[1].ports[1], true);
	railrig_ms(SOON_MS);
	assert_int_equal(kv_rdmaloop_rails(railrig[1].rl, recs), 2);
	assert_int_equal(railrig[0].l->n_recs, 2);
}

/* ---- ports that are down when they are opened ---- */

static const struct railrig_opts downs[] = {
	{ .n = { 2, 2 }, .piece_bytes = 16384, .down = { 1, 0 } },
	{ .n = { 2, 2 }, .piece_bytes = 16384, .down = { 0, 1 } },
	{ .n = { 2, 2 }, .piece_bytes = 16384, .down = { 2, 2 } },
	{ .n = { 2, 2 }, .piece_bytes = 16384, .down = { 3, 0 } },
	{ .n = { 2, 2 }, .piece_bytes = 16384, .down = { 0, 3 } },
	{ .n = { 1, 1 }, .piece_bytes = 16384, .down = { 1, 1 } },
	{ .n = { 2, 2 }, .down = { 3, 3 }, .no_ip = { 3, 3 } },
	{ .n = { 2, 2 },
	  .down = { 2, 2 },
	  .infiniband = { 3, 3 },
	  .no_ip = { 3, 3 } },
};

static unsigned
up_of(const struct railrig_opts *o)
{
	unsigned gone = (o->down[0] | o->down[1]) & ((1u << o->n[0]) - 1);

	return o->n[0] - (unsigned)__builtin_popcount(gone);
}

static void
all_up(const struct railrig_opts *o, bool mute)
{
	unsigned i;
	int end;

	for (end = 0; end < 2; end++)
		for (i = 0; i < o->n[end]; i++) {
			hca_dev_mute(railrig[end].devs[i], mute);
			hca_port_up(railrig[end].ports[i], true);
		}
}

static void
comes_up(const struct railrig_opts *o, bool mute)
{
	struct kv_rail_rec recs[KV_RAILS_MAX];
	unsigned up = up_of(o);

	railrig_open(o);
	kv_rdmalink_tell(railrig[1].l);
	railrig_ms(600);
	assert_true(kv_rdmalink_is_settled(railrig[0].l));
	expect_rails(up);
	if (o->down[1] == 3)
		assert_int_equal(kv_rdmaloop_rails(railrig[1].rl, recs), 0);
	if (up)
		railrig_move(0, KV_RDMAXFER_READ, 0, 0, BIG);
	all_up(o, mute);
	railrig_ms(mute ? 5100 : SOON_MS);
	expect_rails(o->n[0]);
	railrig_move(0, KV_RDMAXFER_WRITE_ALONE, 0, 0, BIG);
	railrig_move(1, KV_RDMAXFER_WRITE, 0, 0, BIG);
	railrig_close();
}

static void
a_port_comes_up_later(void **state)
{
	unsigned i;

	(void)state;
	for (i = 0; i < KV_ARRAY_LEN(downs); i++)
		comes_up(&downs[i], false);
}

static void
and_its_device_does_not_say_so(void **state)
{
	unsigned i;

	(void)state;
	for (i = 0; i < KV_ARRAY_LEN(downs); i++)
		comes_up(&downs[i], true);
}

static void
until_then_it_is_not_dialled(void **state)
{
	(void)state;
	railrig_open(&downs[3]);
	kv_rdmalink_tell(railrig[1].l);
	railrig_ms(1);
	assert_true(kv_rdmalink_is_settled(railrig[0].l));
	railrig_ms(20000);
	assert_int_equal(railrig[0].l->next_qp, 0);
	assert_string_equal(kv_rdmalink_why(railrig[0].l),
			    "dev0 port 1 to 10.0.0.2: the port is down");
	railrig_close();
}

/* Up without a GID is not yet up; and then with another address. */
static void
its_address_is_read_when_it_has_one(void **state)
{
	struct kv_rail_rec recs[KV_RAILS_MAX];

	(void)state;
	railrig_open(&downs[1]);
	kv_rdmalink_tell(railrig[1].l);
	hca_port_bare(railrig[1].ports[0]);
	hca_port_up(railrig[1].ports[0], true);
	railrig_ms(6000);
	expect_rails(1);
	assert_int_equal(kv_rdmaloop_rails(railrig[1].rl, recs), 1);
	inet_pton(AF_INET, "10.0.0.77", &railrig[1].ips[0].sin_addr);
	hca_port_address(railrig[1].ports[0], "10.0.0.77");
	railrig_ms(SOON_MS);
	expect_rails(2);
	assert_int_equal(kv_rdmaloop_rails(railrig[1].rl, recs), 2);
	assert_int_equal(recs[0].ip[15], 77);
	railrig_move(0, KV_RDMAXFER_READ, 0, 0, BIG);
	/* And has another one, while it is used. */
	inet_pton(AF_INET, "10.0.0.78", &railrig[1].ips[0].sin_addr);
	hca_port_address(railrig[1].ports[0], "10.0.0.78");
	railrig_ms(SOON_MS);
	assert_int_equal(kv_rdmaloop_rails(railrig[1].rl, recs), 2);
	assert_int_equal(recs[0].ip[15], 78);
	railrig_ms(1000);
	expect_rails(2);
	railrig_move(1, KV_RDMAXFER_READ, 0, 0, BIG);
	railrig_close();
}

/* ---- devices ---- */

static void
a_device_that_goes_costs_milliseconds(void **state)
{
	struct kv_rail_rec recs[KV_RAILS_MAX];

	(void)state;
	begin(0, KV_RDMAXFER_READ);
	hca_dev_remove(railrig[0].devs[1]);
	expect_well(SOON_MS);
	begin(1, KV_RDMAXFER_WRITE);
	hca_dev_remove(railrig[1].devs[1]);
	expect_well(SOON_MS);
	expect_rails(1);
	assert_int_equal(kv_rdmaloop_rails(railrig[1].rl, recs), 1);
	assert_string_equal(logged,
			    "rdma: port 1 of dev1 is not used any more: the "
			    "device has failed, or was removed; see dmesg\n"
			    "rdma: port 1 of dev1 is not used any more: the "
			    "device has failed, or was removed; see dmesg\n");
}

/* It was gone before, which was not read yet. */
static void
a_loop_does_without_a_dead_device(void **state)
{
	struct kv_rail_rec recs[KV_RAILS_MAX];
	struct kv_rdmaloop *rl;

	(void)state;
	hca_dev_remove(railrig[1].devs[0]);
	rl = kv_rdmaloop_new(&railrig[1].r, railrig_loop, true);
	assert_non_null(rl);
	assert_int_equal(kv_rdmaloop_rails(rl, recs), 1);
	assert_int_equal(recs[0].number, 1);
	kv_rdmaloop_free(rl);
	kv_rdmamr_give_up(&railrig[1].mr);
	assert_int_equal(kv_rdmamr_register(&railrig[1].mr, railrig[1].r.ports,
					    2, railrig[1].buf, 4096,
					    KV_RDMAREGION_FAR_WRITES),
			 0);
	assert_int_equal(railrig[1].mr.far.keys[0], 0);
	assert_true(railrig[1].mr.far.keys[1] != 0);
}

/* It says nothing, and answers nothing. */
static int
get_nothing(struct ibv_context *ctx, struct ibv_async_event *e)
{
	(void)ctx;
	(void)e;
	errno = EIO;
	return -1;
}

static void
one_that_does_not_even_say_so_is_gone(void **state)
{
	struct kv_rdmaverbs v = *railrig[0].v;

	(void)state;
	v.get_async_event = get_nothing;
	railrig[0].r.v = &v;
	begin(0, KV_RDMAXFER_WRITE);
	hca_port_up(railrig[0].ports[0], false);
	expect_well(SOON_MS);
	expect_rails(1);
	assert_true(railrig[0].rl->is_gone[0]);
	railrig[0].r.v = railrig[0].v;
}

/* ---- queues ---- */

static void
a_queue_that_is_lost_is_not_waited_for(void **state)
{
	(void)state;
	begin(0, KV_RDMAXFER_WRITE);
	hca_cq_lose(railrig[0].rl->cqs[0]->cq);
	expect_well(SOON_MS);
	assert_int_equal(kv_rdmalink_rails(railrig[0].l), 1);
	assert_true(railrig[0].rl->cqs[0]->is_lost);
	assert_false(railrig[0].rl->cqs[1]->is_lost);
	assert_string_equal(logged,
			    "rdma: the completion queue of dev0 is lost\n");
}

static void
nor_is_one_of_receives(void **state)
{
	(void)state;
	begin(1, KV_RDMAXFER_READ);
	hca_srq_lose(railrig[1].rl->cqs[1]->srq);
	expect_well(SOON_MS);
	assert_int_equal(kv_rdmalink_rails(railrig[1].l), 1);
	assert_true(railrig[1].rl->cqs[1]->is_lost);
}

#define WITH_TWO(fn) cmocka_unit_test_setup_teardown(fn, setup_two, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_TWO(a_port_that_goes_down_costs_milliseconds),
		WITH_TWO(the_other_side_is_told),
		WITH_TWO(of_who_dials_it_is_told_as_well),
		WITH_TWO(and_is_told_once),
		cmocka_unit_test_setup_teardown(the_only_port_goes_and_comes,
						setup_one, teardown),
		WITH_TWO(a_port_that_flaps_is_left_alone),
		WITH_TWO(a_port_that_is_down_is_not_told),
		cmocka_unit_test(a_port_comes_up_later),
		cmocka_unit_test(and_its_device_does_not_say_so),
		cmocka_unit_test(until_then_it_is_not_dialled),
		cmocka_unit_test(its_address_is_read_when_it_has_one),
		WITH_TWO(a_device_that_goes_costs_milliseconds),
		WITH_TWO(a_loop_does_without_a_dead_device),
		WITH_TWO(one_that_does_not_even_say_so_is_gone),
		WITH_TWO(a_queue_that_is_lost_is_not_waited_for),
		WITH_TWO(nor_is_one_of_receives),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
