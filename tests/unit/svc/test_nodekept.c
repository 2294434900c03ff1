/*
 * A node whose pool outlives it: what is there again after a crash and after
 * an end, and what is nobody's as long as somebody may still use it.
 */

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/status.h"
#include "wire/msg.h"

#include "noderig.h"
#include "test.h"

static uint64_t
stat(const char *name)
{
	return simnode_stat(&sim, name);
}

static int
get(struct simreq *r, const char *key, struct simgot *g)
{
	return simreq_get_one(r, key,
			      &(struct simget_opts){ .inline_max = 200 }, g);
}

/* The bytes of the first object's first extent, or of the pool. */
static uint8_t *
bytes_of(const struct simgot *g)
{
	return sim.pool + g->ext_off;
}

/* ---- what comes back ---- */

static void
values_come_back_after_a_crash(void **state)
{
	struct simreq r;
	struct simgot g;

	(void)state;
	simreq_open_unix(&r, &sim, 0);
	assert_int_equal(simreq_put_one(&r, "large", blob, 100000), KV_OK);
	assert_int_equal(simreq_put_inline(&r, "small", "hello"), KV_OK);
	assert_int_equal(simreq_put_inline(&r, "empty", ""), KV_OK);
	simreq_close(&r);
	simreq_open_tcp(&r, &sim);
	assert_int_equal(simreq_put_one(&r, "moved", blob + 7, 70000), KV_OK);
	simreq_close(&r);
	simnode_run(&sim, 10);
	noderig_crash(false);
	assert_int_equal(stat("adopted"), 4);
	assert_int_equal(stat("adopted_bytes"), 170005);
	assert_int_equal(stat("adopted_not"), 0);
	assert_int_equal(stat("keys"), 4);
	simreq_open_unix(&r, &sim, 0);
	assert_int_equal(get(&r, "large", &g), KV_OK);
	assert_int_equal(g.ext_len, 100000);
	assert_memory_equal(bytes_of(&g), blob, 100000);
	assert_int_equal(get(&r, "moved", &g), KV_OK);
	assert_memory_equal(bytes_of(&g), blob + 7, 70000);
	assert_int_equal(get(&r, "small", &g), KV_OK);
	assert_memory_equal(g.bytes, "hello", 5);
	assert_int_equal(get(&r, "empty", &g), KV_OK);
	assert_int_equal(g.size, 0);
	simreq_close(&r);
}

static void
masters_hear_of_them(void **state)
{
	struct kv_id pool = sim.masters[0].pool;
	struct simreq r;

	(void)state;
	assert_false(kv_id_is_zero(pool));
	simreq_open_unix(&r, &sim, 0);
	assert_int_equal(simreq_put_one(&r, "k", blob, 100000), KV_OK);
	simreq_close(&r);
	simnode_run(&sim, 10);
	noderig_crash(false);
	simnode_run(&sim, 1200);
	assert_int_equal(kv_node_sessions(sim.node), 1);
	assert_true(simnode_master_has(&sim, 0, "k"));
	assert_int_equal(sim.masters[0].joins, 2);
	assert_true(kv_id_is_equal(sim.masters[0].pool, pool));
}

static bool is_done;

static void
on_done(void *arg)
{
	(void)arg;
	is_done = true;
}

/* A put of which PUT_R has come, but not the sum of its value. */
static void
put_just_now(struct simreq *r, const char *key, uint64_t size)
{
	const struct kv_filled filled = { .count = kv_le32(1) };
	struct simput item = { .key = key, .size = size };
	uint64_t id = simreq_put(r, &item, 1, NULL);
	struct simgrant g;
	struct kv_le64 grant;

	assert_true(simreq_grant(r, id, 0, &g));
	memcpy(sim.pool + g.off, blob, size);
	grant = kv_le64(g.grant);
	wirepeer_send(&r->control, KV_MSG_FILLED, id, &filled, &grant,
		      sizeof(grant));
	simnet_run(sim.sn, sim.clock.ns + KV_NS_PER_MS / 2);
	assert_int_equal(simreq_put_status(r, id, 0), KV_OK);
}

static void
an_end_waits_for_the_last_sums(void **state)
{
	struct simreq r;

	(void)state;
	simreq_open_unix(&r, &sim, 0);
	put_just_now(&r, "k", 500000);
	is_done = false;
	kv_node_stop(sim.node, on_done, NULL);
	assert_false(is_done);
	simnode_run(&sim, 20);
	assert_true(is_done);
	simreq_close(&r);
	noderig_crash(false);
	assert_int_equal(stat("adopted"), 1);
	assert_int_equal(stat("adopted_not"), 0);
}

static void
without_its_sum_a_value_is_dropped(void **state)
{
	struct simreq r;

	(void)state;
	simreq_open_unix(&r, &sim, 0);
	put_just_now(&r, "k", 500000);
	noderig_crash(false);
	assert_int_equal(stat("adopted"), 0);
	assert_int_equal(stat("adopted_not"), 1);
	assert_int_equal(stat("free_bytes"), SIMNODE_POOL);
	simreq_close(&r);
}

static void
what_was_removed_or_evicted_does_not(void **state)
{
	struct simreq r;
	struct simgot g;

	(void)state;
	simreq_open_unix(&r, &sim, 0);
	assert_int_equal(simreq_put_one(&r, "evicted", blob, 400000), KV_OK);
	assert_int_equal(simreq_put_one(&r, "stays", blob, 400000), KV_OK);
	assert_int_equal(get(&r, "stays", &g), KV_OK);
	simreq_release(&r, g.pin);
	assert_int_equal(simreq_put_one(&r, "last", blob + 1, 600000), KV_OK);
	assert_int_equal(get(&r, "evicted", &g), KV_EMISS);
	noderig_crash(false);
	simreq_close(&r);
	assert_int_equal(stat("adopted"), 2);
	simreq_open_unix(&r, &sim, 0);
	assert_int_equal(get(&r, "last", &g), KV_OK);
	assert_memory_equal(bytes_of(&g), blob + 1, 600000);
	simreq_close(&r);
}

/* ---- who attached before ---- */

static void
what_a_writer_fills_is_not_granted_again(void **state)
{
	struct simput item = { .key = "filling", .size = 300000 };
	struct simreq old, new;
	struct simgrant was, g;
	uint64_t id;

	(void)state;
	simreq_open_unix(&old, &sim, 0);
	id = simreq_put(&old, &item, 1, NULL);
	assert_true(simreq_grant(&old, id, 0, &was));
	noderig_crash(true);
	assert_int_equal(stat("held_bytes"), 300032);
	assert_int_equal(stat("free_bytes"), SIMNODE_POOL - 300032);
	simreq_open_unix(&new, &sim, 0);
	item.key = "too large";
	item.size = SIMNODE_POOL - 300032 + 1;
	id = simreq_put(&new, &item, 1, NULL);
	assert_int_equal(simreq_put_status(&new, id, 0), KV_ENOSPACE);
	item.size--;
	id = simreq_put(&new, &item, 1, NULL);
	assert_true(simreq_grant(&new, id, 0, &g));
	assert_int_equal(g.extents, 1);
	assert_true(g.off >= was.off + 300032 || was.off >= SIMNODE_POOL - 1);
	simreq_filled(&new, id, g.grant, true);
	simnode_run(&sim, 2000);
	assert_int_equal(stat("held_bytes"), 300032);
	assert_int_equal(sim.file.settled, 1);
	/* It has gone; the new one, of this life, has not. */
	sim.file.attached &= ~(UINT64_C(1) << 1);
	simnode_run(&sim, 1100);
	assert_int_equal(sim.file.settled, 2);
	assert_int_equal(stat("held_bytes"), 0);
	assert_int_equal(simreq_put_one(&new, "all", blob, SIMNODE_POOL),
			 KV_OK);
	simreq_close(&old);
	simreq_close(&new);
}

static void
bytes_that_a_thread_moves_are_nobodys(void **state)
{
	struct simput item = { .key = "filling", .size = 300000 };
	struct simreq old;
	struct simgrant was;
	uint64_t id;

	(void)state;
	simreq_open_tcp(&old, &sim);
	id = simreq_put(&old, &item, 1, NULL);
	assert_true(simreq_grant(&old, id, 0, &was));
	noderig_crash(true);
	assert_int_equal(stat("held_bytes"), 0);
	assert_int_equal(stat("free_bytes"), SIMNODE_POOL);
	simreq_close(&old);
}

static void
check_view(bool by_crash)
{
	struct simreq old, new;
	struct simgot g, h;

	simreq_open_unix(&old, &sim, 0);
	assert_int_equal(simreq_put_one(&old, "viewed", blob, 300000), KV_OK);
	assert_int_equal(simreq_put_one(&old, "other", blob, 300000), KV_OK);
	assert_int_equal(get(&old, "viewed", &g), KV_OK);
	if (!by_crash) {
		is_done = false;
		kv_node_stop(sim.node, on_done, NULL);
		simnode_run(&sim, 50);
		assert_true(is_done);
	}
	noderig_crash(true);
	simreq_open_unix(&new, &sim, 0);
	assert_int_equal(stat("pinned_bytes"), 300032);
	/* It is served, and does not leave. */
	assert_int_equal(get(&new, "viewed", &h), KV_OK);
	assert_int_equal(h.ext_off, g.ext_off);
	simreq_release(&new, h.pin);
	assert_int_equal(simreq_put_one(&new, "more", blob, 700000), KV_OK);
	assert_int_equal(get(&new, "other", &h), KV_EMISS);
	assert_memory_equal(bytes_of(&g), blob, 300000);
	assert_int_equal(simreq_put_one(&new, "much", blob, 800000),
			 KV_ENOSPACE);
	/* Pins of another life name nothing. */
	simreq_release(&new, g.pin);
	simnode_run(&sim, 1500);
	assert_int_equal(stat("pinned_bytes"), 300032);
	sim.file.attached &= ~(UINT64_C(1) << 1);
	simnode_run(&sim, 1100);
	assert_int_equal(stat("pinned_bytes"), 0);
	assert_int_equal(simreq_put_one(&new, "much", blob, 800000), KV_OK);
	simreq_close(&old);
	simreq_close(&new);
}

static void
what_a_reader_views_does_not_leave(void **state)
{
	(void)state;
	check_view(true);
}

static void
nor_when_the_node_ended_well(void **state)
{
	(void)state;
	check_view(false);
}

/* ---- pages, and a full index ---- */

static void
what_is_there_is_served_before_all_pages_are(void **state)
{
	struct simput item = { .key = "new", .size = 1000 };
	struct simgrant grant;
	struct simreq r;
	struct simgot g;
	uint64_t id;

	(void)state;
	simreq_open_unix(&r, &sim, 0);
	assert_int_equal(simreq_put_one(&r, "k", blob, 100000), KV_OK);
	simreq_close(&r);
	simnode_crash(&sim);
	sim.file.attached = 0;
	simnode_restart(&sim);
	simreq_open_unix(&r, &sim, 0);
	assert_int_equal(get(&r, "k", &g), KV_OK);
	id = simreq_put(&r, &item, 1, NULL);
	assert_false(simreq_grant(&r, id, 0, &grant));
	assert_int_equal(stat("free_bytes"), 0);
	assert_int_equal(kv_node_ready(sim.node, 0, SIMNODE_POOL), 0);
	simnode_run(&sim, 3);
	assert_true(simreq_grant(&r, id, 0, &grant));
	simreq_filled(&r, id, grant.grant, true);
	simreq_close(&r);
}

static void
an_index_that_cannot_grow_evicts(void **state)
{
	enum {
		SLOTS = 4096 - KV_RECORD_SLOT_MIN
	};
	struct simput item = { .key = "x", .size = 0 };
	const struct simput_opts gently = { .flags = KV_PUT_NO_EVICT };
	const struct simput_opts hard = { .flags = KV_PUT_HARD_PIN };
	struct simreq r;
	char key[16];
	uint64_t id;
	int i;

	(void)state;
	sim.file.index_max = 1 << 20;
	simreq_open_unix(&r, &sim, 0);
	for (i = 0; i < SLOTS; i++) {
		snprintf(key, sizeof(key), "k%d", i);
		item.key = key;
		simreq_put(&r, &item, 1, NULL);
	}
	simnode_run(&sim, 10);
	assert_int_equal(stat("keys"), SLOTS);
	item.key = "gently";
	id = simreq_put(&r, &item, 1, &gently);
	assert_int_equal(simreq_put_status(&r, id, 0), KV_ENOROOM);
	for (i = 0; i < SLOTS; i++) {
		snprintf(key, sizeof(key), "h%d", i);
		item.key = key;
		simreq_put(&r, &item, 1, &hard);
	}
	simnode_run(&sim, 10);
	assert_int_equal(stat("keys"), SLOTS);
	assert_int_equal(stat("evicted_keys"), SLOTS);
	assert_int_equal(simreq_put_one(&r, "x", blob, 1000), KV_ENOSPACE);
	assert_int_equal(stat("free_bytes"), SIMNODE_POOL);
	simreq_close(&r);
}

/* One that waits for another put of its key, as the node ends. */
static void
nothing_begins_at_the_end(void **state)
{
	const struct simput item = { "k", 1000, NULL };
	const struct simput_opts opts = { .budget_ms = 5000 };
	struct simreq a, b;
	uint8_t *before = malloc(SIMPOOL_INDEX_MAX);

	(void)state;
	assert_non_null(before);
	simreq_open_unix(&a, &sim, 0);
	simreq_open_unix(&b, &sim, 0);
	simreq_put(&a, &item, 1, &opts);
	simreq_put(&b, &item, 1, &opts);
	memcpy(before, sim.file.index, SIMPOOL_INDEX_MAX);
	kv_node_free(sim.node);
	sim.node = NULL;
	assert_int_equal(memcmp(before, sim.file.index, SIMPOOL_INDEX_MAX), 0);
	simpool_end(&sim.file);
	free(before);
	simreq_close(&a);
	simreq_close(&b);
	sim.file.attached = 0;
	simnode_restart(&sim);
}

int
main(void)
{
#define TEST(fn, setup) \
	cmocka_unit_test_setup_teardown(fn, setup, noderig_close)
	const struct CMUnitTest tests[] = {
		TEST(values_come_back_after_a_crash, noderig_kept_alone),
		TEST(masters_hear_of_them, noderig_kept_one),
		TEST(an_end_waits_for_the_last_sums, noderig_kept_alone),
		TEST(without_its_sum_a_value_is_dropped, noderig_kept_alone),
		TEST(what_was_removed_or_evicted_does_not, noderig_kept_alone),
		TEST(what_a_writer_fills_is_not_granted_again,
		     noderig_kept_alone),
		TEST(bytes_that_a_thread_moves_are_nobodys, noderig_kept_alone),
		TEST(what_a_reader_views_does_not_leave, noderig_kept_alone),
		TEST(nor_when_the_node_ended_well, noderig_kept_alone),
		TEST(what_is_there_is_served_before_all_pages_are,
		     noderig_kept_alone),
		TEST(an_index_that_cannot_grow_evicts, noderig_kept_alone),
		TEST(nothing_begins_at_the_end, noderig_kept_alone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
