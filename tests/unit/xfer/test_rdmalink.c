#include "xfer/rdmalink.h"

#include <string.h>

#include "base/rng.h"
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

static int
setup(unsigned n)
{
	const struct railrig_opts o = { .n = { n, n } };

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
setup_four(void **state)
{
	(void)state;
	return setup(4);
}

static const enum kv_rdmaxfer_kind kinds[] = {
	KV_RDMAXFER_READ,
	KV_RDMAXFER_WRITE,
	KV_RDMAXFER_WRITE_ALONE,
};

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
		railrig_move(mover, KV_RDMAXFER_WRITE_ALONE, 3, 4, 5);
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

static void
slow_rails_take_their_part(void **state)
{
	const struct railrig_opts o = {
		.n = { 4, 4 },
		.gbps = { 100, 50, 25, 25 },
	};
	struct railrig_move m;
	uint64_t begin;

	(void)state;
	railrig_open(&o);
	railrig_connect();
	railrig_prepare(&m, 0, KV_RDMAXFER_READ, 0, 0, RAILRIG_BYTES);
	begin = railrig_now();
	railrig_start(&m);
	railrig_ms(10);
	assert_int_equal(m.done, 1);
	assert_true(railrig_is_same(&m));
	/* At 25 bytes a nanosecond: 336 us. */
	assert_in_range(m.done_ns - begin, 330000, 400000);
}

/* One far piece takes as many requests as its near pieces need. */
static void
many_pieces_are_one_transfer(void **state)
{
	struct railrig_move m;
	uint64_t at = 0;
	unsigned i, k;

	(void)state;
	for (k = 0; k < KV_ARRAY_LEN(kinds); k++) {
		railrig_prepare(&m, 0, kinds[k], 0, 0, 40 * 5000);
		for (i = 0, at = 0; i < 40; i++, at += 10000)
			m.near[i] = (struct kv_rdmarange){
				(uintptr_t)railrig[0].buf + at, 5000,
				&railrig[0].mr.near
			};
		for (i = 0; i < 3; i++)
			m.far[i] = (struct kv_rdmarange){
				(uintptr_t)railrig[1].buf + i * 999999,
				i == 1 ? 0 : 100000, &railrig[1].mr.far
			};
		railrig_start(&m);
		railrig_ms(10);
		assert_int_equal(m.done, 1);
		assert_int_equal(m.status, 0);
		assert_true(railrig_is_same(&m));
	}
}

static void
many_transfers_go_side_by_side(void **state)
{
	static struct railrig_move m[300];
	unsigned i;

	(void)state;
	for (i = 0; i < 300; i++) {
		railrig_prepare(&m[i], i % 2, kinds[i % 3], i * 8192,
				(5 << 20) + i * 8192, 4000 + i);
		/* Nobody writes what another one reads. */
		if (i % 2) {
			m[i].near[0].addr += 3 << 20;
			m[i].far[0].addr -= 3 << 20;
		}
		railrig_start(&m[i]);
	}
	railrig_ms(20);
	for (i = 0; i < 300; i++) {
		assert_int_equal(m[i].done, 1);
		assert_int_equal(m[i].status, 0);
		if (kinds[i % 3] == KV_RDMAXFER_WRITE)
			assert_int_equal(m[i].end_done, 1);
	}
}

/* ---- keys ---- */

static void
memory_without_a_key_goes_by_other_rails(void **state)
{
	struct kv_rdmamem far = railrig[1].mr.far, near = railrig[0].mr.near;
	struct railrig_move m;
	unsigned k;

	(void)state;
	far.keys[0] = far.keys[3] = 0;
	near.keys[1] = 0;
	for (k = 0; k < KV_ARRAY_LEN(kinds); k++) {
		railrig_prepare(&m, 0, kinds[k], 0, 0, 4 << 20);
		m.far[0].mem = &far;
		m.near[0].mem = &near;
		railrig_start(&m);
		railrig_ms(10);
		assert_int_equal(m.done, 1);
		assert_int_equal(m.status, 0);
		assert_true(railrig_is_same(&m));
	}
}

static void
without_any_key_it_is_forbidden(void **state)
{
	struct kv_rdmamem far = railrig[1].mr.far;
	struct railrig_move m, other;
	unsigned k;

	(void)state;
	memset(far.keys, 0, sizeof(far.keys));
	for (k = 0; k < KV_ARRAY_LEN(kinds); k++) {
		railrig_prepare(&m, 0, kinds[k], 0, 0, 4 << 20);
		m.far[0].mem = &far;
		railrig_start(&m);
		railrig_prepare(&other, 0, kinds[k], 0, 0, 4 << 20);
		railrig_start(&other);
		railrig_ms(10);
		assert_int_equal(m.done, 1);
		assert_int_equal(m.status, -EACCES);
		if (kinds[k] == KV_RDMAXFER_WRITE)
			assert_int_equal(m.end_status, -EIO);
		assert_int_equal(other.done, 1);
		assert_int_equal(other.status, 0);
	}
}

/* What can go by one rail only lets others by. */
static void
who_is_choosy_holds_nobody_up(void **state)
{
	struct kv_rdmamem far = railrig[1].mr.far;
	struct railrig_move m, other;

	(void)state;
	far.keys[1] = far.keys[2] = far.keys[3] = 0;
	railrig_prepare(&m, 0, KV_RDMAXFER_READ, 0, 0, RAILRIG_BYTES);
	m.far[0].mem = &far;
	railrig_start(&m);
	railrig_prepare(&other, 0, KV_RDMAXFER_WRITE, 0, 0, 1 << 20);
	railrig_start(&other);
	railrig_ms(10);
	assert_int_equal(m.status, 0);
	assert_int_equal(other.status, 0);
	assert_true(other.done_ns < m.done_ns - 400000);
}

/* ---- no rails ---- */

static void
without_rails_nothing_moves(void **state)
{
	const struct railrig_opts o = { .n = { 1, 1 } };
	struct railrig_move m;
	unsigned k;

	(void)state;
	railrig_open(&o);
	for (k = 0; k < KV_ARRAY_LEN(kinds); k++) {
		railrig_prepare(&m, 0, kinds[k], 0, 0, 4096);
		railrig_start(&m);
		assert_int_equal(m.done, 0);
		railrig_ms(1);
		assert_int_equal(m.done, 1);
		assert_int_equal(m.status, -EHOSTUNREACH);
		if (kinds[k] == KV_RDMAXFER_WRITE)
			assert_int_equal(m.end_status, -EIO);
	}
	/* Rails that come later have all they need. */
	railrig_connect();
	railrig_move(0, KV_RDMAXFER_WRITE, 0, 0, 1 << 20);
}

/* Of a connection that takes nothing for now. */
static void
what_cannot_be_told_waits(void **state)
{
	const struct railrig_opts o = { .n = { 1, 1 } };
	struct railrig_move m;
	size_t n;
	void *tail;

	(void)state;
	railrig_open(&o);
	simnet_cut(railrig_net, "a", "b");
	while (!kv_conn_is_full(railrig[0].c)) {
		n = 100000;
		assert_non_null(kv_conn_begin_tail(
			railrig[0].c, KV_MSG_QPFENCE_R, 99, 0, n, &tail));
		memset(tail, 0, n);
		kv_conn_end(railrig[0].c);
	}
	railrig_prepare(&m, 0, KV_RDMAXFER_WRITE, 0, 0, 4096);
	railrig_start(&m);
	railrig_ms(1000);
	assert_int_equal(m.done, 0);
	simnet_heal(railrig_net, "a", "b");
	railrig_ms(1000);
	assert_int_equal(m.done, 1);
	assert_int_equal(m.status, -EHOSTUNREACH);
	assert_int_equal(m.end_status, -EIO);
}

/* ---- distant ports ---- */

/* Which of the mover's ports had a part of it. */
static unsigned
moved_by(int mover, enum kv_rdmaxfer_kind kind, uint64_t bytes)
{
	const struct kv_rdmalink *l = railrig[mover].l;
	struct railrig_move m;
	unsigned ports = 0;
	uint64_t bits;

	railrig_prepare(&m, mover, kind, 0, 0, bytes);
	railrig_start(&m);
	railrig_ms(10);
	assert_int_equal(m.done, 1);
	assert_int_equal(m.status, 0);
	assert_true(railrig_is_same(&m));
	for (bits = m.x.qps; bits;)
		ports |= 1u << l->slots[kv_rdmalink_pop(&bits)]->rail->near;
	return ports;
}

static void
small_transfers_stay_near(void **state)
{
	unsigned k;
	int mover;

	(void)state;
	for (mover = 0; mover < 2; mover++) {
		railrig_move(mover, KV_RDMAXFER_READ, 0, 0, RAILRIG_BYTES);
		railrig[mover].mr.near.distant = 1 << 0 | 1 << 3;
		for (k = 0; k < KV_ARRAY_LEN(kinds); k++) {
			assert_int_equal(moved_by(mover, kinds[k], 200000),
					 1 << 1 | 1 << 2);
			assert_int_equal(
				moved_by(mover, kinds[k], RAILRIG_BYTES), 15);
		}
	}
}

static void
without_near_ports_distant_ones_move_all(void **state)
{
	unsigned k;

	(void)state;
	railrig_move(1, KV_RDMAXFER_READ, 0, 0, RAILRIG_BYTES);
	railrig[1].mr.near.distant = 1 << 0 | 1 << 3;
	hca_port_up(railrig[1].ports[1], false);
	hca_port_up(railrig[1].ports[2], false);
	railrig_ms(1);
	assert_int_equal(kv_rdmalink_rails(railrig[1].l), 2);
	for (k = 0; k < KV_ARRAY_LEN(kinds); k++)
		assert_int_equal(moved_by(1, kinds[k], 200000),
				 1 << 0 | 1 << 3);
}

/* When the near port has gone while it is at it, too. */
static void
what_a_near_port_loses_goes_by_distant_ones(void **state)
{
	struct railrig_move m;
	unsigned k;

	(void)state;
	railrig_move(1, KV_RDMAXFER_READ, 0, 0, RAILRIG_BYTES);
	railrig[1].mr.near.distant = 1 << 0 | 1 << 1 | 1 << 2;
	for (k = 0; k < KV_ARRAY_LEN(kinds); k++) {
		railrig_prepare(&m, 1, kinds[k], 0, 0, 100000);
		railrig_start(&m);
		railrig_us(3);
		assert_int_equal(m.done, 0);
		hca_port_up(railrig[1].ports[3], false);
		railrig_ms(10);
		assert_int_equal(m.done, 1);
		assert_int_equal(m.status, 0);
		assert_true(railrig_is_same(&m));
		hca_port_up(railrig[1].ports[3], true);
		railrig_ms(1000);
		assert_int_equal(kv_rdmalink_rails(railrig[1].l), 4);
	}
}

static void
a_slot_costs_little(void **state)
{
	(void)state;
	assert_true(sizeof(struct kv_rdmaslot) +
			    KV_RDMALINK_DEPTH * sizeof(struct kv_rdmaslice) <
		    24 << 10);
}

#define ANY(f)  cmocka_unit_test_teardown(f, teardown)
#define ONE(f)  cmocka_unit_test_setup_teardown(f, setup_one, teardown)
#define FOUR(f) cmocka_unit_test_setup_teardown(f, setup_four, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		ONE(one_rail_moves_all_ways),
		FOUR(four_rails_move_four_times_as_much),
		ANY(slow_rails_take_their_part),
		FOUR(many_pieces_are_one_transfer),
		FOUR(many_transfers_go_side_by_side),
		FOUR(memory_without_a_key_goes_by_other_rails),
		FOUR(without_any_key_it_is_forbidden),
		FOUR(who_is_choosy_holds_nobody_up),
		FOUR(small_transfers_stay_near),
		FOUR(without_near_ports_distant_ones_move_all),
		FOUR(what_a_near_port_loses_goes_by_distant_ones),
		ANY(without_rails_nothing_moves),
		ANY(what_cannot_be_told_waits),
		cmocka_unit_test(a_slot_costs_little),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
