/*
 * Puts and gets by RDMA of values in small parts, and of a little memory that
 * NICs do not know: they go through the ring. Every byte that comes is
 * compared, what lies between the parts too, and a get that is given up has
 * touched nothing at all.
 */
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "railcall.h"
#include "test.h"

enum {
	KIB = 1024,
	MIB = 1 << 20,
	PART = 4 * KIB,
};

static const struct kv_packring *
ring(void)
{
	return &far->hub.ranges.ring;
}

static void
put_parts(const char *name, size_t size, size_t cut, bool is_registered)
{
	uint64_t before = cluster_rdma_bytes(cl);
	struct railcall c;

	railcall_new_cut(&c, size, cut, is_registered);
	railcall_put(&c, name, 5 * KV_NS_PER_S);
	railcall_wait(&c);
	assert_int_equal(c.pitem.status, 0);
	assert_int_equal(cluster_rdma_bytes(cl) - before, size);
	railcall_free(&c);
}

static void
get_parts(const char *name, size_t size, size_t cut, bool is_registered)
{
	uint64_t before = cluster_rdma_bytes(cl);
	struct railcall c;

	railcall_new_cut(&c, size, cut, is_registered);
	railcall_get(&c, name, 5 * KV_NS_PER_S);
	railcall_wait(&c);
	assert_int_equal(c.gitem.status, 0);
	assert_int_equal(c.gitem.len, size);
	assert_int_equal(cluster_rdma_bytes(cl) - before, size);
	railcall_check(&c, name, 0, size);
	railcall_free(&c);
}

static void
values_in_parts(void **state)
{
	static const size_t sizes[] = { 65537, 100000, 300001, MIB + 1,
					2 * MIB };
	static const size_t cuts[] = { 100,          512,      PART,
				       16 * KIB - 1, 16 * KIB, 100000 };
	char name[16];

	(void)state;
	for (unsigned n_rails = 1; n_rails <= 2; n_rails++) {
		railcall_begin(n_rails, n_rails);
		for (unsigned i = 0; i < 60; i++) {
			size_t size = sizes[i % 5], cut = cuts[i / 5 % 6];

			if (size / cut >= RAILCALL_PARTS_MAX)
				continue;
			snprintf(name, sizeof(name), "%c%u", 'a' + i % 26, i);
			put_parts(name, size, cut, i < 30);
			get_parts(name, size, PART, false);
			get_parts(name, size, PART, true);
			get_parts(name, size, cut, i >= 30);
			assert_true(railcall_get_value(name, size, i % 2));
		}
		assert_true(kv_list_is_empty(&ring()->spans));
		railcall_end();
	}
}

/* The buffer has more room than the value has bytes. */
static void
what_is_behind_a_value_stays(void **state)
{
	struct railcall c;
	size_t size = 100 * KIB + 77;

	(void)state;
	railcall_begin(2, 3);
	railcall_give("k", size);
	for (unsigned reg = 0; reg < 2; reg++) {
		railcall_new_cut(&c, MIB, PART, reg);
		railcall_get(&c, "k", KV_NS_PER_S);
		railcall_wait(&c);
		assert_int_equal(c.gitem.status, 0);
		assert_int_equal(c.gitem.len, size);
		railcall_check(&c, "k", 0, size);
		for (size_t i = 2 * 25 * PART + 77; i < c.room; i++)
			assert_int_equal(c.bytes[i], 0x5a);
		railcall_free(&c);
	}
	assert_int_equal(cluster_rdma_bytes(cl), 2 * size);
	railcall_end();
}

static void
a_part_of_a_value_in_parts(void **state)
{
	struct railcall c;

	(void)state;
	railcall_begin(2, 4);
	railcall_give("k", 2 * MIB);
	railcall_new_cut(&c, MIB, PART, false);
	railcall_get(&c, "k", KV_NS_PER_S);
	c.gitem.is_part = 1;
	c.gitem.off = MIB - 1000;
	railcall_wait(&c);
	assert_int_equal(c.gitem.status, 0);
	railcall_check(&c, "k", MIB - 1000, MIB);
	railcall_free(&c);
	railcall_end();
}

/* ---- many at once ---- */

/* The ring has room for some of them; the others go as they can. */
static void
calls_share_the_ring(void **state)
{
	enum {
		CALLS = 12,
	};
	struct railcall *c = calloc(CALLS, sizeof(*c));
	char names[CALLS][8];
	bool was_full = false;

	(void)state;
	assert_non_null(c);
	railcall_begin(2, 5);
	railcall_put_value("first", MIB, true);
	for (unsigned turn = 0; turn < 6; turn++) {
		for (unsigned i = 0; i < CALLS; i++) {
			snprintf(names[i], sizeof(names[i]), "%c%u", 'a' + i,
				 turn / 2);
			railcall_new_cut(&c[i], MIB + 400 * KIB + i, PART,
					 i % 2);
			if (turn % 2)
				railcall_get(&c[i], names[i], KV_NS_PER_S);
			else
				railcall_put(&c[i], names[i], KV_NS_PER_S);
		}
		for (unsigned i = 0; i < CALLS; i++) {
			while (!c[i].is_done) {
				cluster_run(cl, 10 * KV_NS_PER_US);
				was_full |= !kv_list_is_empty(&ring()->spans);
			}
			if (turn % 2) {
				assert_int_equal(c[i].gitem.status, 0);
				railcall_check(&c[i], names[i], 0, c[i].size);
			} else {
				assert_int_equal(c[i].pitem.status, 0);
			}
			railcall_free(&c[i]);
		}
		assert_true(kv_list_is_empty(&ring()->spans));
	}
	assert_true(was_full);
	railcall_end();
	free(c);
}

/* ---- calls that are given up ---- */

static void
check_nothing_came(const struct railcall *c)
{
	for (size_t i = 0; i < c->room; i++)
		if (c->bytes[i] != 0x5a)
			fail_msg("byte %zu was touched", i);
}

static void
a_get_past_its_deadline_has_touched_nothing(void **state)
{
	size_t size = MIB + 500 * KIB;
	unsigned late = 0;
	struct railcall c;

	(void)state;
	railcall_begin(2, 6);
	railcall_give("k", size);
	get_parts("k", size, PART, false);
	for (unsigned i = 0; i < 30; i++) {
		railcall_new_cut(&c, size, PART, i % 2);
		railcall_get(&c, "k", (100 + 40 * i) * KV_NS_PER_US);
		while (!c.is_done)
			cluster_run(cl, KV_NS_PER_US);
		if (c.gitem.status == 0) {
			railcall_check(&c, "k", 0, size);
		} else {
			assert_int_equal(c.gitem.status, -KV_ETIMEOUT);
			check_nothing_came(&c);
		}
		assert_true(kv_list_is_empty(&ring()->spans));
		late += c.gitem.status != 0;
		railcall_check_untouched(&c);
		railcall_free(&c);
	}
	assert_in_range(late, 5, 29);
	get_parts("k", size, PART, false);
	railcall_end();
}

static void
a_put_past_its_deadline_is_of_its_own_bytes(void **state)
{
	size_t size = MIB + 500 * KIB;
	unsigned late = 0;
	char name[8], other[8];
	struct railcall c, g;

	(void)state;
	railcall_begin(2, 7);
	put_parts("first", size, PART, false);
	for (unsigned i = 0; i < 30; i++) {
		snprintf(name, sizeof(name), "k%u", i);
		railcall_new_cut(&c, size, PART, i % 2);
		railcall_put(&c, name, (100 + 40 * i) * KV_NS_PER_US);
		while (!c.is_done)
			cluster_run(cl, KV_NS_PER_US);
		if (c.pitem.status != 0)
			assert_int_equal(c.pitem.status, -KV_ETIMEOUT);
		memset(c.bytes, 0x33, c.room);
		/* The ring is used again at once, for other bytes. */
		snprintf(other, sizeof(other), "o%u", i);
		put_parts(other, size, PART, false);
		cluster_run(cl, KV_NS_PER_S);
		railcall_new_cut(&g, size, PART, true);
		railcall_get(&g, name, 5 * KV_NS_PER_S);
		railcall_wait(&g);
		if (g.gitem.status == 0)
			railcall_check(&g, name, 0, size);
		else
			assert_int_equal(c.pitem.status, -KV_ETIMEOUT);
		late += c.pitem.status != 0;
		railcall_free(&c);
		railcall_free(&g);
	}
	assert_in_range(late, 5, 29);
	railcall_end();
}

static void
an_owner_dies_meanwhile(void **state)
{
	size_t size = MIB + 500 * KIB;
	struct railcall c;

	(void)state;
	for (unsigned i = 0; i < 8; i++) {
		railcall_begin(2, 10 + i);
		railcall_give("k", size);
		get_parts("k", size, PART, false);
		railcall_new_cut(&c, size, PART, i % 2);
		if (i / 4)
			railcall_put(&c, "p", 5 * KV_NS_PER_S);
		else
			railcall_get(&c, "k", 5 * KV_NS_PER_S);
		cluster_run(cl, (20 + 20 * (i % 4)) * KV_NS_PER_US);
		assert_false(c.is_done);
		cluster_node_kill(cl, 0);
		assert_true(railcall_wait(&c) < 3 * KV_NS_PER_S);
		assert_true((i / 4 ? c.pitem.status : c.gitem.status) < 0);
		if (i / 4 == 0)
			check_nothing_came(&c);
		assert_true(kv_list_is_empty(&ring()->spans));
		railcall_check_untouched(&c);
		railcall_free(&c);
		railcall_end();
	}
}

/* ---- requests that are lost ---- */

/* The owner may have heard of it and be at it while it is asked again: it must
 * not find what is packed for others meanwhile. */
static void
a_put_that_is_asked_again_is_of_its_own_bytes(void **state)
{
	enum {
		LOST = 2,
		CALLS = 6,
	};
	const struct railcall_opts o = {
		.rails = { .seed = 8, .rails = 2, .gbps = 1 },
		.pool_bytes = 256 << 20,
	};
	struct railcall *c = calloc(CALLS, sizeof(*c));
	size_t size = MIB + 500 * KIB;
	char names[CALLS][8];
	unsigned lost = 0, fenced = 0;

	(void)state;
	assert_non_null(c);
	railcall_begin_with(&o);
	put_parts("first", size, PART, false);
	for (unsigned i = 0; i < 20; i++) {
		cluster_run(cl, KV_NS_PER_S);
		lost += kv_link_fast_use(railcall_link());
		for (unsigned k = 0; k < CALLS; k++) {
			snprintf(names[k], sizeof(names[k]), "%c%u", 'k' + k,
				 i);
			railcall_new_cut(&c[k], size, PART, i % 2);
			railcall_put(&c[k], names[k], 5 * KV_NS_PER_S);
			if (k != LOST - 1)
				continue;
			cluster_run(cl, (100 + 300 * i) * KV_NS_PER_US);
			kv_link_fast_fail(railcall_link(), -KV_ETIMEOUT);
			cluster_run(cl, KV_NS_PER_US);
			fenced += kv_link_rails(railcall_link()) == 0;
		}
		for (unsigned k = 0; k < CALLS; k++) {
			railcall_wait(&c[k]);
			assert_int_equal(c[k].pitem.status, 0);
			railcall_free(&c[k]);
		}
		for (unsigned k = 0; k < CALLS; k++)
			railcall_get_value(names[k], size, true);
		assert_true(kv_list_is_empty(&ring()->spans));
	}
	assert_in_range(lost, 15, 20);
	assert_int_equal(fenced, lost);
	railcall_end();
	free(c);
}

/* ---- rails that fail ---- */

static void
rails_are_cut_meanwhile(void **state)
{
	size_t size = MIB + 500 * KIB;
	struct railcall c;
	char name[8];

	(void)state;
	railcall_begin(2, 20);
	railcall_give("k", size);
	get_parts("k", size, PART, false);
	for (unsigned i = 0; i < 24; i++) {
		snprintf(name, sizeof(name), "k%u", i);
		railcall_new_cut(&c, size, PART, i % 2);
		if (i / 2 % 2)
			railcall_put(&c, name, 5 * KV_NS_PER_S);
		else
			railcall_get(&c, "k", 5 * KV_NS_PER_S);
		cluster_run(cl, (10 + 8 * i) * KV_NS_PER_US);
		railcall_cut(0, i % 3 ? 1 : 2, true);
		railcall_wait(&c);
		railcall_cut(0, 2, false);
		if (i / 2 % 2) {
			assert_int_equal(c.pitem.status, 0);
			memset(c.bytes, 0x33, c.room);
			railcall_get_value(name, size, true);
		} else {
			assert_int_equal(c.gitem.status, 0);
			railcall_check(&c, "k", 0, size);
		}
		assert_true(kv_list_is_empty(&ring()->spans));
		railcall_free(&c);
		cluster_run(cl, 8 * KV_NS_PER_S);
	}
	railcall_end();
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(values_in_parts),
		cmocka_unit_test(what_is_behind_a_value_stays),
		cmocka_unit_test(a_part_of_a_value_in_parts),
		cmocka_unit_test(calls_share_the_ring),
		cmocka_unit_test(a_get_past_its_deadline_has_touched_nothing),
		cmocka_unit_test(a_put_past_its_deadline_is_of_its_own_bytes),
		cmocka_unit_test(an_owner_dies_meanwhile),
		cmocka_unit_test(a_put_that_is_asked_again_is_of_its_own_bytes),
		cmocka_unit_test(rails_are_cut_meanwhile),
	};

	if (getenv("SIM_TEST"))
		cmocka_set_test_filter(getenv("SIM_TEST"));
	return cmocka_run_group_tests(tests, NULL, NULL);
}
