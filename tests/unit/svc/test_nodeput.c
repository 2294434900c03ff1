/* PUT at a node: what each flow and each fault of one ends with. */

#include "simnode.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/status.h"
#include "wire/msg.h"

#include "test.h"

static struct simnode sim;
static uint8_t blob[SIMNODE_POOL];

static int
open_with(unsigned masters, bool no_pages)
{
	const struct simnode_opts opts = { .masters = masters,
					   .no_pages = no_pages };

	for (size_t i = 0; i < sizeof(blob); i++)
		blob[i] = (uint8_t)(i * 31 + i / 251);
	simnode_open(&sim, &opts);
	for (unsigned i = 0; i < masters; i++)
		simnode_master_up(&sim, i);
	simnode_run(&sim, 50);
	assert_int_equal(kv_node_sessions(sim.node), masters);
	return 0;
}

static int
setup_alone(void **state)
{
	(void)state;
	return open_with(0, false);
}

static int
setup(void **state)
{
	(void)state;
	return open_with(1, false);
}

static int
setup_two(void **state)
{
	(void)state;
	return open_with(2, false);
}

static int
setup_empty(void **state)
{
	(void)state;
	return open_with(0, true);
}

static int
teardown(void **state)
{
	(void)state;
	simnode_close(&sim);
	return 0;
}

static uint64_t
free_bytes(void)
{
	return simnode_stat(&sim, "free_bytes");
}

/* As heartbeats tell it: read, or being written. */
static uint64_t
pinned_bytes(void)
{
	struct kv_heartbeat room;

	kv_node_room(sim.node, &room);
	return kv_get64(room.pinned_bytes);
}

/* ---- whole puts ---- */

static void
a_small_value_rides_in_the_message(void **state)
{
	struct simreq r;
	struct simgot g;

	(void)state;
	simreq_open_tcp(&r, &sim);
	assert_int_equal(simreq_put_inline(&r, "k", "hello"), KV_OK);
	assert_true(simnode_master_has(&sim, 0, "k"));
	assert_int_equal(
		simreq_get_one(&r, "k",
			       &(struct simget_opts){ .inline_max = 100 }, &g),
		KV_OK);
	assert_int_equal(g.how, KV_HOW_INLINE);
	assert_int_equal(g.size, 5);
	assert_int_equal(g.inline_len, 5);
	assert_memory_equal(g.bytes, "hello", 5);
	assert_int_equal(simnode_stat(&sim, "puts_ok"), 1);
	assert_int_equal(simnode_stat(&sim, "put_bytes"), 5);
	simreq_close(&r);
}

static void
a_process_of_this_host_fills_in_place(void **state)
{
	struct simreq r;
	struct simgot g;

	(void)state;
	simreq_open_unix(&r, &sim, 0);
	assert_int_equal(simreq_put_one(&r, "k", blob, 10000), KV_OK);
	assert_int_equal(simreq_get_one(&r, "k", NULL, &g), KV_OK);
	assert_int_equal(g.how, KV_HOW_EXTENTS);
	assert_int_equal(g.extents, 1);
	assert_int_equal(g.ext_len, 10000);
	assert_memory_equal(sim.pool + g.ext_off, blob, 10000);
	simreq_release(&r, g.pin);
	simreq_close(&r);
}

static void
bytes_come_on_a_data_connection(void **state)
{
	struct simreq r;
	struct simgot g;
	struct wireframe *f;

	(void)state;
	simreq_open_tcp(&r, &sim);
	assert_int_equal(simreq_put_one(&r, "k", blob, 100000), KV_OK);
	assert_int_equal(simreq_get_one(&r, "k", NULL, &g), KV_OK);
	assert_int_equal(g.how, KV_HOW_DATA);
	simnode_run(&sim, 5);
	f = wirepeer_take(&r.data, KV_MSG_DATA);
	assert_non_null(f);
	assert_int_equal(f->payload_len, 100000);
	assert_memory_equal(f->payload, blob, 100000);
	wireframe_free(f);
	assert_int_equal(simnode_stat(&sim, "pinned_bytes"), 0);
	simreq_close(&r);
}

static void
the_empty_value_needs_no_grant(void **state)
{
	struct simput items[] = {
		{ "a", 0, NULL },
		{ "b", 0, "" },
	};
	struct simreq r;
	struct simgot g;
	uint64_t id;

	(void)state;
	simreq_open_unix(&r, &sim, 0);
	id = simreq_put(&r, items, 2, NULL);
	simnode_run(&sim, 5);
	assert_int_equal(simreq_put_status(&r, id, 0), KV_OK);
	assert_int_equal(simreq_put_status(&r, id, 1), KV_OK);
	assert_int_equal(simreq_get_one(&r, "a", NULL, &g), KV_OK);
	assert_int_equal(g.size, 0);
	assert_int_equal(simreq_get_one(&r, "b", NULL, &g), KV_OK);
	simreq_close(&r);
}

static void
a_batch_is_answered_once_and_key_by_key(void **state)
{
	enum {
		N = 300
	};
	static char names[N][16];
	static struct simput items[N];
	struct simgrant g[N];
	struct simreq r;
	uint64_t id;

	(void)state;
	simreq_open_unix(&r, &sim, 0);
	for (int i = 0; i < N; i++) {
		snprintf(names[i], sizeof(names[i]), "k%d", i);
		items[i] = (struct simput){ names[i], 1000, NULL };
	}
	items[7].size = SIMNODE_POOL + 1;
	items[8].key = "";
	id = simreq_put(&r, items, N, NULL);
	assert_int_equal(wirepeer_count(&r.control, KV_MSG_GRANT_R), 1);
	for (int i = 0; i < N; i++)
		assert_int_equal(simreq_grant(&r, id, i, &g[i]),
				 i != 7 && i != 8);
	for (int i = 0; i < N; i++)
		if (i != 7 && i != 8 && i != 9)
			simreq_filled(&r, id, g[i].grant, false);
	assert_int_equal(simreq_put_status(&r, id, 0), -1);
	simreq_filled(&r, id, g[9].grant, true);
	simnode_run(&sim, 5);
	for (int i = 0; i < N; i++)
		assert_int_equal(simreq_put_status(&r, id, i),
				 i == 7   ? KV_ETOOBIG
				 : i == 8 ? KV_EINVALID
				 : i == 9 ? KV_ECANCELED
					  : KV_OK);
	assert_int_equal(wirepeer_count(&r.control, KV_MSG_PUT_R), 1);
	simreq_close(&r);
}

/* ---- the same key again ---- */

static void
a_key_with_a_value_exists(void **state)
{
	struct simreq r;

	(void)state;
	simreq_open_tcp(&r, &sim);
	assert_int_equal(simreq_put_inline(&r, "k", "one"), KV_OK);
	assert_int_equal(simreq_put_inline(&r, "k", "two"), KV_EEXISTS);
	assert_int_equal(simnode_stat(&sim, "puts_exist"), 1);
	simreq_close(&r);
}

static void
the_first_of_two_equal_keys_wins(void **state)
{
	struct simput items[] = {
		{ "k", 3, "one" },
		{ "k", 3, "two" },
	};
	struct simreq r;
	struct simgot g;
	uint64_t id;

	(void)state;
	simreq_open_tcp(&r, &sim);
	id = simreq_put(&r, items, 2, NULL);
	simnode_run(&sim, 5);
	assert_int_equal(simreq_put_status(&r, id, 0), KV_OK);
	assert_int_equal(simreq_put_status(&r, id, 1), KV_EEXISTS);
	simreq_get_one(&r, "k", &(struct simget_opts){ .inline_max = 9 }, &g);
	assert_memory_equal(g.bytes, "one", 3);
	simreq_close(&r);
}

static void
a_second_put_waits_for_the_first(void **state)
{
	struct simput item = { "k", 1000, NULL };
	struct simreq a, b;
	struct simgrant g;
	uint64_t first, second;

	(void)state;
	simreq_open_unix(&a, &sim, 0);
	simreq_open_unix(&b, &sim, 0);
	first = simreq_put(&a, &item, 1, NULL);
	second = simreq_put(&b, &item, 1, NULL);
	assert_true(simreq_grant(&a, first, 0, &g));
	simnode_run(&sim, 100);
	assert_int_equal(simreq_put_status(&b, second, 0), -1);
	simreq_filled(&a, first, g.grant, false);
	simnode_run(&sim, 5);
	assert_int_equal(simreq_put_status(&a, first, 0), KV_OK);
	assert_int_equal(simreq_put_status(&b, second, 0), KV_EEXISTS);
	simreq_close(&a);
	simreq_close(&b);
}

static void
a_second_put_goes_on_when_the_first_fails(void **state)
{
	struct simput item = { "k", 1000, NULL };
	struct simput small = { "k", 3, "abc" };
	struct simreq a, b, c;
	struct simgrant g;
	struct simgot got;
	uint64_t first, second, third;

	(void)state;
	simreq_open_unix(&a, &sim, 0);
	simreq_open_unix(&b, &sim, 0);
	simreq_open_tcp(&c, &sim);
	first = simreq_put(&a, &item, 1, NULL);
	second = simreq_put(&b, &small, 1, NULL);
	third = simreq_put(&c, &item, 1, NULL);
	assert_true(simreq_grant(&a, first, 0, &g));
	simreq_filled(&a, first, g.grant, true);
	simnode_run(&sim, 5);
	assert_int_equal(simreq_put_status(&a, first, 0), KV_ECANCELED);
	assert_int_equal(simreq_put_status(&b, second, 0), KV_OK);
	assert_int_equal(simreq_put_status(&c, third, 0), KV_EEXISTS);
	simreq_get_one(&c, "k", &(struct simget_opts){ .inline_max = 9 }, &got);
	assert_memory_equal(got.bytes, "abc", 3);
	simreq_close(&a);
	simreq_close(&b);
	simreq_close(&c);
}

/* The answer of the first may have been lost on its way. */
static void
a_put_sent_again_is_the_same_put(void **state)
{
	struct simput items[] = {
		{ "k", 3, "abc" },
		{ "l", 1000, NULL },
		{ "k", 3, "xyz" },
	};
	struct simput_opts opts = { .random = 99 };
	struct simreq a, b;
	struct simgrant g;
	uint64_t first, second;

	(void)state;
	simreq_open_unix(&a, &sim, 0);
	simreq_open_unix(&b, &sim, 0);
	first = simreq_put(&a, items, 2, &opts);
	assert_true(simreq_grant(&a, first, 1, &g));
	second = simreq_put(&b, items, 3, &opts);
	simreq_filled(&a, first, g.grant, false);
	simnode_run(&sim, 5);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(simreq_put_status(&a, first, i), KV_OK);
		assert_int_equal(simreq_put_status(&b, second, i), KV_OK);
	}
	assert_int_equal(simreq_put_status(&b, second, 2), KV_EEXISTS);
	opts.random = 98;
	second = simreq_put(&b, items, 2, &opts);
	assert_int_equal(simreq_put_status(&b, second, 0), KV_EEXISTS);
	simreq_close(&a);
	simreq_close(&b);
}

static void
a_waiting_put_has_its_own_budget(void **state)
{
	struct simput item = { "k", 1000, NULL };
	struct simreq a, b;
	uint64_t first, second;

	(void)state;
	simreq_open_unix(&a, &sim, 0);
	simreq_open_unix(&b, &sim, 0);
	first = simreq_put(&a, &item, 1, NULL);
	second = simreq_put(&b, &item, 1,
			    &(struct simput_opts){ .budget_ms = 100 });
	simnode_run(&sim, 110);
	assert_int_equal(simreq_put_status(&b, second, 0), KV_ETIMEOUT);
	assert_int_equal(simreq_put_status(&a, first, 0), -1);
	simreq_close(&a);
	simreq_close(&b);
}

static void
upsert_replaces_an_older_version_only(void **state)
{
	struct simput one = { "k", 3, "one" }, two = { "k", 3, "two" };
	struct simput_opts up = { .flags = KV_PUT_UPSERT, .version = 2 };
	struct simreq r;
	struct simgot g;
	uint64_t id;

	(void)state;
	simreq_open_tcp(&r, &sim);
	assert_int_equal(simreq_put_inline(&r, "k", "one"), KV_OK);
	id = simreq_put(&r, &two, 1, &up);
	simnode_run(&sim, 5);
	assert_int_equal(simreq_put_status(&r, id, 0), KV_OK);
	simreq_get_one(&r, "k", &(struct simget_opts){ .inline_max = 9 }, &g);
	assert_memory_equal(g.bytes, "two", 3);
	id = simreq_put(&r, &one, 1, &up);
	simnode_run(&sim, 5);
	assert_int_equal(simreq_put_status(&r, id, 0), KV_EEXISTS);
	up.version = 1;
	id = simreq_put(&r, &one, 1, &up);
	simnode_run(&sim, 5);
	assert_int_equal(simreq_put_status(&r, id, 0), KV_EEXISTS);
	up = (struct simput_opts){ .version = 9 };
	id = simreq_put(&r, &one, 1, &up);
	simnode_run(&sim, 5);
	assert_int_equal(simreq_put_status(&r, id, 0), KV_EEXISTS);
	assert_int_equal(sim.masters[0].n_held, 1);
	simreq_close(&r);
}

/* ---- space ---- */

static void
old_values_leave_for_new_ones(void **state)
{
	char key[16];
	struct simreq r;

	(void)state;
	simreq_open_unix(&r, &sim, 0);
	for (int i = 0; i < 20; i++) {
		snprintf(key, sizeof(key), "k%d", i);
		assert_int_equal(simreq_put_one(&r, key, blob, 100 * 1024),
				 KV_OK);
	}
	assert_int_equal(simreq_get_one(&r, "k0", NULL, NULL), KV_EMISS);
	assert_int_equal(simreq_get_one(&r, "k19", NULL, NULL), KV_OK);
	assert_true(simnode_stat(&sim, "evicted_keys") >= 10);
	simnode_run(&sim, 5);
	assert_false(simnode_master_has(&sim, 0, "k0"));
	assert_true(simnode_master_has(&sim, 0, "k19"));
	assert_int_equal(sim.masters[0].n_held, simnode_stat(&sim, "keys"));
	simreq_close(&r);
}

static void
no_evict_says_that_there_is_no_room(void **state)
{
	struct simput item = { "b", SIMNODE_POOL / 2 + 1, NULL };
	struct simput_opts opts = { .flags = KV_PUT_NO_EVICT };
	struct simreq r;
	uint64_t id;

	(void)state;
	simreq_open_unix(&r, &sim, 0);
	assert_int_equal(simreq_put_one(&r, "a", blob, SIMNODE_POOL / 2),
			 KV_OK);
	id = simreq_put(&r, &item, 1, &opts);
	assert_int_equal(simreq_put_status(&r, id, 0), KV_ENOROOM);
	assert_int_equal(simreq_get_one(&r, "a", NULL, NULL), KV_OK);
	simreq_close(&r);
}

static void
a_pool_in_use_has_no_space(void **state)
{
	struct simput item = { "b", SIMNODE_POOL / 2 + 1, NULL };
	struct simreq r;
	struct simgot g;
	uint64_t id;

	(void)state;
	simreq_open_unix(&r, &sim, 0);
	assert_int_equal(simreq_put_one(&r, "a", blob, SIMNODE_POOL / 2),
			 KV_OK);
	assert_int_equal(simreq_get_one(&r, "a", NULL, &g), KV_OK);
	id = simreq_put(&r, &item, 1, NULL);
	assert_int_equal(simreq_put_status(&r, id, 0), KV_ENOSPACE);
	assert_int_equal(simnode_stat(&sim, "puts_no_space"), 1);
	simreq_release(&r, g.pin);
	assert_int_equal(simreq_put_one(&r, "b", blob, SIMNODE_POOL / 2 + 1),
			 KV_OK);
	simreq_close(&r);
}

static void
a_value_larger_than_the_pool_is_too_big(void **state)
{
	struct simput item = { "b", SIMNODE_POOL + 1, NULL };
	struct simreq r;
	uint64_t id;

	(void)state;
	simreq_open_unix(&r, &sim, 0);
	id = simreq_put(&r, &item, 1, NULL);
	assert_int_equal(simreq_put_status(&r, id, 0), KV_ETOOBIG);
	item.size = UINT64_MAX;
	id = simreq_put(&r, &item, 1, NULL);
	assert_int_equal(simreq_put_status(&r, id, 0), KV_ETOOBIG);
	assert_int_equal(simreq_put_one(&r, "c", blob, SIMNODE_POOL), KV_OK);
	simreq_close(&r);
}

static void
a_hard_pinned_value_stays(void **state)
{
	struct simput item = { "p", 3, "abc" };
	struct simreq r;
	uint64_t id;

	(void)state;
	simreq_open_unix(&r, &sim, 0);
	id = simreq_put(&r, &item, 1,
			&(struct simput_opts){ .flags = KV_PUT_HARD_PIN });
	simnode_run(&sim, 5);
	assert_int_equal(simreq_put_status(&r, id, 0), KV_OK);
	assert_int_equal(simreq_put_one(&r, "a", blob, SIMNODE_POOL - 4096),
			 KV_OK);
	assert_int_equal(simreq_put_one(&r, "b", blob, SIMNODE_POOL - 4096),
			 KV_OK);
	assert_int_equal(simreq_get_one(&r, "a", NULL, NULL), KV_EMISS);
	assert_int_equal(simreq_get_one(&r, "p", NULL, NULL), KV_OK);
	simreq_close(&r);
}

/* ---- pages ---- */

static void
a_put_waits_for_pages(void **state)
{
	struct simput items[] = {
		{ "a", 100000, NULL },
		{ "b", 5, "small" },
		{ "c", 100000, NULL },
	};
	struct simgrant g;
	struct simreq r;
	uint64_t id;

	(void)state;
	simreq_open_unix(&r, &sim, 0);
	id = simreq_put(&r, items, 3, NULL);
	assert_false(simreq_grant(&r, id, 0, &g));
	/* Not enough for the first, and nobody passes it. */
	assert_int_equal(kv_node_ready(sim.node, 0, 65536), 0);
	simnode_run(&sim, 2);
	assert_false(simreq_grant(&r, id, 0, &g));
	assert_int_equal(kv_node_ready(sim.node, 65536, 65536), 0);
	simnode_run(&sim, 2);
	assert_true(simreq_grant(&r, id, 0, &g));
	assert_false(simreq_grant(&r, id, 2, &g));
	simreq_filled(&r, id, g.grant, false);
	/* Nothing is evicted for want of pages that will come. */
	assert_int_equal(simreq_get_one(&r, "a", NULL, NULL), KV_OK);
	assert_int_equal(kv_node_ready(sim.node, 131072, 131072), 0);
	simnode_run(&sim, 2);
	assert_true(simreq_grant(&r, id, 2, &g));
	simreq_filled(&r, id, g.grant, false);
	for (int i = 0; i < 3; i++)
		assert_int_equal(simreq_put_status(&r, id, i), KV_OK);
	simreq_close(&r);
}

static void
waiting_for_pages_ends_with_the_budget(void **state)
{
	struct simput items[] = {
		{ "a", 100000, NULL },
		{ "b", 5, "small" },
	};
	struct simreq r;
	uint64_t id;

	(void)state;
	simreq_open_unix(&r, &sim, 0);
	id = simreq_put(&r, items, 2, &(struct simput_opts){ .budget_ms = 50 });
	simnode_run(&sim, 60);
	assert_int_equal(simreq_put_status(&r, id, 0), KV_ETIMEOUT);
	assert_int_equal(simreq_put_status(&r, id, 1), KV_ETIMEOUT);
	assert_int_equal(kv_node_ready(sim.node, 0, SIMNODE_POOL), 0);
	assert_int_equal(free_bytes(), SIMNODE_POOL);
	simreq_close(&r);
}

static void
when_no_more_pages_come_the_rest_is_decided(void **state)
{
	struct simput items[] = {
		{ "a", 100000, NULL },
		{ "b", 60000, NULL },
	};
	struct simgrant g;
	struct simreq r;
	uint64_t id;

	(void)state;
	simreq_open_unix(&r, &sim, 0);
	assert_int_equal(kv_node_ready(sim.node, 0, 65536), 0);
	id = simreq_put(&r, items, 2, NULL);
	assert_false(simreq_grant(&r, id, 0, &g));
	kv_node_ready_end(sim.node);
	assert_int_equal(simnode_stat(&sim, "pool_bytes"), 65536);
	assert_int_equal(simnode_stat(&sim, "missing_bytes"),
			 SIMNODE_POOL - 65536);
	simnode_run(&sim, 2);
	assert_false(simreq_grant(&r, id, 0, &g));
	assert_true(simreq_grant(&r, id, 1, &g));
	simreq_filled(&r, id, g.grant, false);
	assert_int_equal(simreq_put_status(&r, id, 0), KV_ENOSPACE);
	assert_int_equal(simreq_put_status(&r, id, 1), KV_OK);
	/* And from then on values leave for others. */
	assert_int_equal(simreq_put_one(&r, "c", blob, 60000), KV_OK);
	assert_int_equal(simreq_get_one(&r, "b", NULL, NULL), KV_EMISS);
	simreq_close(&r);
}

/* ---- budgets, lost connections, quarantine ---- */

static void
an_expired_grant_stays_reserved_until_filled(void **state)
{
	struct simput item = { "k", 10000, NULL };
	struct simgrant g;
	struct simreq r;
	uint64_t id;

	(void)state;
	simreq_open_unix(&r, &sim, 0);
	id = simreq_put(&r, &item, 1, &(struct simput_opts){ .budget_ms = 50 });
	assert_true(simreq_grant(&r, id, 0, &g));
	simnode_run(&sim, 60);
	assert_int_equal(simreq_put_status(&r, id, 0), KV_ETIMEOUT);
	assert_int_equal(free_bytes(), SIMNODE_POOL - 10240);
	assert_int_equal(pinned_bytes(), 10240);
	/* The key itself is free. */
	assert_int_equal(simreq_put_inline(&r, "k", "other"), KV_OK);
	simreq_filled(&r, id, g.grant, false);
	assert_int_equal(free_bytes(), SIMNODE_POOL - 256);
	assert_int_equal(pinned_bytes(), 0);
	assert_int_equal(wirepeer_count(&r.control, KV_MSG_PUT_R), 2);
	/* Said twice it changes nothing. */
	simreq_filled(&r, id, g.grant, true);
	assert_int_equal(free_bytes(), SIMNODE_POOL - 256);
	simreq_close(&r);
}

/* Whatever the requester asks for. */
static void
a_grant_ends_within_an_hour(void **state)
{
	struct simput item = { "k", 10000, NULL };
	struct simgrant g;
	struct simreq r;
	uint64_t id;

	(void)state;
	simreq_open_unix(&r, &sim, 0);
	id = simreq_put(&r, &item, 1,
			&(struct simput_opts){ .budget_ms = UINT32_MAX });
	assert_true(simreq_grant(&r, id, 0, &g));
	simnode_run(&sim, KV_BUDGET_MS_MAX + 10);
	assert_int_equal(simreq_put_status(&r, id, 0), KV_ETIMEOUT);
	simreq_filled(&r, id, g.grant, true);
	assert_int_equal(free_bytes(), SIMNODE_POOL);
	simreq_close(&r);
}

static void
a_grant_given_up_comes_back(void **state)
{
	struct simput item = { "k", 10000, NULL };
	struct simgrant g;
	struct simreq r;
	uint64_t id;

	(void)state;
	simreq_open_unix(&r, &sim, 0);
	id = simreq_put(&r, &item, 1, NULL);
	assert_true(simreq_grant(&r, id, 0, &g));
	simreq_filled(&r, id, g.grant, true);
	assert_int_equal(simreq_put_status(&r, id, 0), KV_ECANCELED);
	assert_int_equal(free_bytes(), SIMNODE_POOL);
	simreq_close(&r);
}

static void
a_lost_connection_leaves_grants_to_their_process(void **state)
{
	struct simput item = { "k", 10000, NULL };
	struct simgrant g;
	struct simreq r, again;
	uint64_t id;

	(void)state;
	simreq_open_unix(&r, &sim, 0);
	id = simreq_put(&r, &item, 1, NULL);
	assert_true(simreq_grant(&r, id, 0, &g));
	simreq_close(&r);
	simnode_run(&sim, 2000);
	assert_true(free_bytes() < SIMNODE_POOL);
	assert_int_equal(simnode_stat(&sim, "grants"), 1);
	simreq_open_unix(&again, &sim, 0);
	simreq_filled(&again, id, g.grant, true); /* not its own */
	assert_true(free_bytes() < SIMNODE_POOL);
	simreq_close(&again);
	kv_node_process_exit(sim.node, again.pid);
	assert_true(free_bytes() < SIMNODE_POOL);
	kv_node_process_exit(sim.node, r.pid);
	assert_int_equal(free_bytes(), SIMNODE_POOL);
	assert_int_equal(simnode_stat(&sim, "processes_lost"), 1);
	assert_int_equal(simnode_stat(&sim, "processes"), 0);
}

/* After an answer was lost: the put is sent again. */
static void
a_put_sent_again_succeeds_again(void **state)
{
	struct simput item = { "k", 5, "value" };
	struct simput_opts first = { .random = 7 }, other = { .random = 8 };
	struct simreq r;
	uint64_t id;

	(void)state;
	simreq_open_unix(&r, &sim, 0);
	id = simreq_put(&r, &item, 1, &first);
	assert_int_equal(simreq_put_status(&r, id, 0), KV_OK);
	id = simreq_put(&r, &item, 1, &other);
	assert_int_equal(simreq_put_status(&r, id, 0), KV_EEXISTS);
	id = simreq_put(&r, &item, 1, &first);
	assert_int_equal(simreq_put_status(&r, id, 0), KV_OK);
	simreq_close(&r);
}

static void
a_process_settles_its_grants_on_another_connection(void **state)
{
	struct simput item = { "k", 10000, NULL };
	struct simreq r, other;
	struct simgrant g;
	uint64_t id;

	(void)state;
	simreq_open_unix(&r, &sim, 0);
	id = simreq_put(&r, &item, 1, NULL);
	assert_true(simreq_grant(&r, id, 0, &g));
	simreq_open_again(&other, &r);
	simreq_close(&r);
	assert_true(free_bytes() < SIMNODE_POOL);
	simreq_filled(&other, id, g.grant, false);
	assert_int_equal(free_bytes(), SIMNODE_POOL);
	assert_int_equal(simreq_get_one(&other, "k", NULL, NULL), KV_EMISS);
	simreq_close(&other);
}

static void
the_exit_of_a_process_frees_its_grants(void **state)
{
	struct simput items[] = {
		{ "a", 10000, NULL },
		{ "b", 10000, NULL },
	};
	struct simreq r, other;
	uint64_t id, second;

	(void)state;
	simreq_open_unix(&r, &sim, 0);
	simreq_open_unix(&other, &sim, 0);
	id = simreq_put(&r, items, 2, NULL);
	(void)id;
	second = simreq_put(&other, items, 1, NULL);
	kv_node_process_exit(sim.node, r.pid);
	simnode_run(&sim, 5);
	/* Who waited for it goes on. */
	{
		struct simgrant g;

		assert_true(simreq_grant(&other, second, 0, &g));
		simreq_filled(&other, second, g.grant, false);
	}
	simnode_run(&sim, 5);
	assert_int_equal(simreq_put_status(&other, second, 0), KV_OK);
	assert_int_equal(simnode_stat(&sim, "grants"), 0);
	assert_true(r.control.is_lost);
	simreq_close(&r);
	simreq_close(&other);
}

static void
bytes_that_stop_coming_cost_the_put(void **state)
{
	struct simput item = { "k", 10000, NULL };
	struct simgrant g;
	struct simreq r;
	uint64_t id;

	(void)state;
	simreq_open_tcp(&r, &sim);
	id = simreq_put(&r, &item, 1, &(struct simput_opts){ .budget_ms = 50 });
	assert_true(simreq_grant(&r, id, 0, &g));
	wirepeer_send_data(&r.data, g.grant, 0, blob, 5000);
	simnode_run(&sim, 60);
	assert_int_equal(simreq_put_status(&r, id, 0), KV_ETIMEOUT);
	assert_int_equal(free_bytes(), SIMNODE_POOL);
	/* Late bytes harm nobody. */
	wirepeer_send_data(&r.data, g.grant, 5000, blob, 5000);
	simnode_run(&sim, 5);
	assert_false(r.data.is_lost);
	assert_int_equal(simreq_put_one(&r, "k", blob, 10000), KV_OK);
	simreq_close(&r);
}

static void
a_data_grant_can_be_given_up(void **state)
{
	struct simput item = { "k", 10000, NULL };
	struct simgrant g;
	struct simreq r;
	uint64_t id;

	(void)state;
	simreq_open_tcp(&r, &sim);
	id = simreq_put(&r, &item, 1, NULL);
	assert_true(simreq_grant(&r, id, 0, &g));
	simreq_filled(&r, id, g.grant, false); /* means nothing here */
	assert_int_equal(simreq_put_status(&r, id, 0), -1);
	simreq_filled(&r, id, g.grant, true);
	simnode_run(&sim, 5);
	assert_int_equal(simreq_put_status(&r, id, 0), KV_ECANCELED);
	assert_int_equal(free_bytes(), SIMNODE_POOL);
	simreq_close(&r);
}

static void
a_lost_data_connection_fails_what_was_on_it(void **state)
{
	struct simput items[] = {
		{ "a", 10000, NULL },
		{ "b", 5, "small" },
	};
	struct simgrant g;
	struct simreq r;
	uint64_t id;

	(void)state;
	simreq_open_tcp(&r, &sim);
	id = simreq_put(&r, items, 2, NULL);
	assert_true(simreq_grant(&r, id, 0, &g));
	wirepeer_send_data(&r.data, g.grant, 0, blob, 5000);
	simnode_run(&sim, 2);
	wirepeer_close(&r.data);
	simnode_run(&sim, 5);
	assert_int_equal(simreq_put_status(&r, id, 0), KV_ECONNLOST);
	assert_int_equal(simreq_put_status(&r, id, 1), KV_OK);
	/* Without one there is no way for bytes. */
	id = simreq_put(&r, items, 1, NULL);
	simnode_run(&sim, 2);
	assert_int_equal(simreq_put_status(&r, id, 0), KV_ECONNLOST);
	assert_int_equal(free_bytes(), SIMNODE_POOL - 256);
	simreq_close(&r);
}

static void
a_lost_requester_leaves_nothing_behind(void **state)
{
	struct simput item = { "k", 10000, NULL };
	struct simgrant g;
	struct simreq r;
	uint64_t id;

	(void)state;
	simreq_open_tcp(&r, &sim);
	id = simreq_put(&r, &item, 1, NULL);
	assert_true(simreq_grant(&r, id, 0, &g));
	wirepeer_send_data(&r.data, g.grant, 0, blob, 5000);
	simnode_run(&sim, 2);
	simreq_close(&r);
	simnode_run(&sim, 5);
	assert_int_equal(free_bytes(), SIMNODE_POOL);
	assert_int_equal(simnode_stat(&sim, "connections"), 0);
	assert_int_equal(simnode_stat(&sim, "processes"), 0);
	assert_int_equal(simnode_stat(&sim, "grants"), 0);
}

static void
a_lost_requester_does_not_wait_for_itself(void **state)
{
	struct simput items[] = {
		{ "k", 10000, NULL },
		{ "x", SIMNODE_POOL, NULL },
	};
	struct simreq r;

	(void)state;
	simreq_open_unix(&r, &sim, 0);
	for (int i = 0; i < 5; i++)
		simreq_put(&r, items, 2, NULL);
	simreq_close(&r);
	simnode_run(&sim, 5);
	/* One grant is in quarantine; nothing was granted to the others. */
	assert_int_equal(simnode_stat(&sim, "grants"), 1);
	kv_node_process_exit(sim.node, r.pid);
	assert_int_equal(free_bytes(), SIMNODE_POOL);
	simreq_open_tcp(&r, &sim);
	for (int i = 0; i < 5; i++)
		simreq_put(&r, items, 2, NULL);
	simreq_close(&r);
	simnode_run(&sim, 5);
	assert_int_equal(free_bytes(), SIMNODE_POOL);
	assert_int_equal(simnode_stat(&sim, "processes"), 0);
}

/* ---- verdicts ---- */

static void
hidden_until_the_master_has_said(void **state)
{
	struct simput item = { "k", 3, "abc" };
	struct simreq r;
	uint64_t id;

	(void)state;
	sim.masters[0].by_hand = true;
	simreq_open_tcp(&r, &sim);
	id = simreq_put(&r, &item, 1, NULL);
	simnode_run(&sim, 20);
	assert_int_equal(simreq_put_status(&r, id, 0), -1);
	/* The verdict may be on its way: for a moment one had better ask
	 * again, but nobody is let in. */
	assert_int_equal(simreq_get_one(&r, "k", NULL, NULL), KV_EBUSY);
	assert_int_equal(simreq_get_one(&r, "k",
					&(struct simget_opts){
						.flags = KV_GET_ZERO_COPY },
					NULL),
			 KV_EMISS);
	simnode_run(&sim, 250);
	assert_int_equal(simreq_get_one(&r, "k", NULL, NULL), KV_EMISS);
	simnode_master_verdict(&sim, 0, KV_VERDICT_STAYS);
	simnode_run(&sim, 5);
	assert_int_equal(simreq_put_status(&r, id, 0), KV_OK);
	assert_int_equal(simreq_get_one(&r, "k", NULL, NULL), KV_OK);
	simreq_close(&r);
}

static void
a_loser_goes_and_exists(void **state)
{
	struct simreq r;

	(void)state;
	sim.masters[0].verdict = KV_VERDICT_GOES;
	simreq_open_tcp(&r, &sim);
	assert_int_equal(simreq_put_inline(&r, "k", "abc"), KV_EEXISTS);
	assert_int_equal(simreq_get_one(&r, "k", NULL, NULL), KV_EMISS);
	assert_int_equal(free_bytes(), SIMNODE_POOL);
	assert_int_equal(simnode_stat(&sim, "losers"), 1);
	simreq_close(&r);
}

static void
an_open_verdict_is_decided_later(void **state)
{
	struct simput items[] = {
		{ "a", 3, "abc" },
		{ "b", 3, "abc" },
	};
	struct simput_opts opts = { .random = 55 };
	struct simreq r;
	uint64_t id;

	(void)state;
	sim.masters[0].verdict = KV_VERDICT_OPEN;
	simreq_open_tcp(&r, &sim);
	id = simreq_put(&r, items, 2, &opts);
	simnode_run(&sim, 50);
	assert_int_equal(simreq_put_status(&r, id, 0), -1);
	/* Of another put of the key: not this one. */
	simnode_master_decide(&sim, 0, "a", 54, KV_VERDICT_GOES);
	simnode_master_decide(&sim, 0, "a", 55, KV_VERDICT_STAYS);
	simnode_master_decide(&sim, 0, "b", 55, KV_VERDICT_GOES);
	simnode_run(&sim, 5);
	assert_int_equal(simreq_put_status(&r, id, 0), KV_OK);
	assert_int_equal(simreq_put_status(&r, id, 1), KV_EEXISTS);
	simreq_close(&r);
}

static void
a_put_past_its_budget_may_still_be_shown(void **state)
{
	struct simput item = { "k", 3, "abc" };
	struct simput_opts opts = { .budget_ms = 50, .random = 55 };
	struct simgot g;
	struct simreq r;
	uint64_t id;

	(void)state;
	sim.masters[0].verdict = KV_VERDICT_OPEN;
	simreq_open_tcp(&r, &sim);
	id = simreq_put(&r, &item, 1, &opts);
	simnode_run(&sim, 60);
	assert_int_equal(simreq_put_status(&r, id, 0), KV_ETIMEOUT);
	assert_int_equal(simreq_get_one(&r, "k", NULL, NULL), KV_EBUSY);
	simnode_master_decide(&sim, 0, "k", 55, KV_VERDICT_STAYS);
	simnode_run(&sim, 5);
	assert_int_equal(
		simreq_get_one(&r, "k",
			       &(struct simget_opts){ .inline_max = 9 }, &g),
		KV_OK);
	assert_memory_equal(g.bytes, "abc", 3);
	simreq_close(&r);
}

static void
without_a_master_it_is_shown_at_once(void **state)
{
	struct simreq r;

	(void)state;
	simreq_open_tcp(&r, &sim);
	assert_int_equal(simreq_put_inline(&r, "k", "abc"), KV_OK);
	assert_int_equal(simnode_stat(&sim, "puts_unpublished"), 1);
	simreq_close(&r);
}

static void
a_lost_master_decides_nothing(void **state)
{
	struct simput item = { "k", 3, "abc" };
	struct simreq r;
	uint64_t id;

	(void)state;
	sim.masters[0].by_hand = true;
	simreq_open_tcp(&r, &sim);
	id = simreq_put(&r, &item, 1, NULL);
	simnode_run(&sim, 10);
	simnode_master_down(&sim, 0);
	simnode_run(&sim, 10);
	assert_int_equal(simreq_put_status(&r, id, 0), KV_OK);
	assert_int_equal(simnode_stat(&sim, "puts_unpublished"), 1);
	/* It hears of it when it is back. */
	sim.masters[0].by_hand = false;
	simnode_master_up(&sim, 0);
	simnode_run(&sim, 2000);
	assert_true(simnode_master_has(&sim, 0, "k"));
	simreq_close(&r);
}

static void
a_silent_master_is_not_waited_for(void **state)
{
	struct simput item = { "k", 3, "abc" };
	struct simput_opts opts = { .budget_ms = 10000 };
	struct simreq r;
	uint64_t id;

	(void)state;
	simreq_open_tcp(&r, &sim);
	sim.masters[0].is_mute = true;
	id = simreq_put(&r, &item, 1, &opts);
	simnode_run(&sim, 900);
	assert_int_equal(simreq_put_status(&r, id, 0), -1);
	simnode_run(&sim, 500);
	assert_int_equal(simreq_put_status(&r, id, 0), KV_OK);
	assert_int_equal(simnode_stat(&sim, "sessions_lost"), 1);
	simreq_close(&r);
}

static void
the_word_of_one_master_against_it_is_enough(void **state)
{
	struct simput item = { "k", 3, "abc" };
	struct simreq r;
	unsigned i;

	(void)state;
	simreq_open_tcp(&r, &sim);
	for (i = 0; i < 2; i++) {
		uint64_t id;

		sim.masters[i].verdict = KV_VERDICT_GOES;
		sim.masters[1 - i].by_hand = true;
		id = simreq_put(&r, &item, 1, NULL);
		simnode_run(&sim, 20);
		/* Nobody waits for the other one. */
		assert_int_equal(simreq_put_status(&r, id, 0), KV_EEXISTS);
		simnode_master_verdict(&sim, 1 - i, KV_VERDICT_STAYS);
		sim.masters[i].verdict = KV_VERDICT_STAYS;
		sim.masters[1 - i].by_hand = false;
		simnode_run(&sim, 5);
		assert_int_equal(simreq_get_one(&r, "k", NULL, NULL), KV_EMISS);
		assert_false(simnode_master_has(&sim, 1 - i, "k"));
	}
	simreq_close(&r);
}

static void
a_put_is_not_over_before_every_master_knows(void **state)
{
	struct simput item = { "k", 3, "abc" };
	struct simreq r;
	uint64_t id;

	(void)state;
	sim.masters[1].by_hand = true;
	simreq_open_tcp(&r, &sim);
	id = simreq_put(&r, &item, 1, NULL);
	simnode_run(&sim, 20);
	assert_true(simnode_master_has(&sim, 0, "k"));
	assert_int_equal(simreq_put_status(&r, id, 0), -1);
	simnode_master_verdict(&sim, 1, KV_VERDICT_STAYS);
	simnode_run(&sim, 5);
	assert_int_equal(simreq_put_status(&r, id, 0), KV_OK);
	simreq_close(&r);
}

static void
a_master_that_ended_is_not_waited_for(void **state)
{
	struct simput item = { "k", 3, "abc" };
	struct simput_opts opts = { .budget_ms = 10000 };
	struct simreq r;
	uint64_t id;

	(void)state;
	sim.masters[0].by_hand = true;
	simreq_open_tcp(&r, &sim);
	id = simreq_put(&r, &item, 1, &opts);
	simnode_run(&sim, 20);
	simnode_master_down(&sim, 0);
	/* It is dialled again, and refuses: its process is gone. */
	simnode_run(&sim, 110);
	assert_int_equal(simreq_put_status(&r, id, 0), KV_OK);
	assert_int_equal(simnode_stat(&sim, "puts_unpublished"), 0);
	simreq_close(&r);
}

/* It may be that only this connection broke: it still answers for this node. */
static void
a_master_that_may_live_is_waited_for(void **state)
{
	struct simput item = { "k", 3, "abc" };
	struct simput late = { "l", 3, "abc" };
	struct simput_opts opts = { .budget_ms = 10000 };
	struct simreq r;
	uint64_t id, id2;

	(void)state;
	simnode_run(&sim, 300);
	sim.masters[0].by_hand = true;
	simreq_open_tcp(&r, &sim);
	id = simreq_put(&r, &item, 1, &opts);
	simnet_cut(sim.sn, "n", "m0");
	simnet_cut(sim.sn, "m0", "n");
	simnet_reset(sim.sn, "n", "m0");
	simnode_run(&sim, 20);
	assert_int_equal(kv_node_sessions(sim.node), 1);
	id2 = simreq_put(&r, &late, 1, &opts);
	simnode_run(&sim, 600);
	assert_int_equal(simreq_put_status(&r, id, 0), -1);
	assert_int_equal(simreq_put_status(&r, id2, 0), -1);
	simnode_run(&sim, 400);
	assert_int_equal(simreq_put_status(&r, id, 0), KV_OK);
	assert_int_equal(simreq_put_status(&r, id2, 0), KV_OK);
	assert_int_equal(simnode_stat(&sim, "puts_unpublished"), 0);
	simreq_close(&r);
}

static void
one_that_is_another_process_is_not_waited_for(void **state)
{
	struct simput item = { "k", 3, "abc" };
	struct simput_opts opts = { .budget_ms = 10000 };
	struct simreq r;
	uint64_t id;

	(void)state;
	sim.masters[0].by_hand = true;
	simreq_open_tcp(&r, &sim);
	id = simreq_put(&r, &item, 1, &opts);
	simnode_master_down(&sim, 0);
	sim.masters[0].boot = 77;
	sim.masters[0].refuse = KV_EBUSY; /* it has no room for this node */
	simnode_master_up(&sim, 0);
	simnode_run(&sim, 110);
	assert_int_equal(simreq_put_status(&r, id, 0), KV_OK);
	simreq_close(&r);
}

static void
one_that_comes_back_is_told_again(void **state)
{
	struct simput item = { "k", 3, "abc" };
	struct simput_opts opts = { .budget_ms = 10000 };
	struct simreq r;
	uint64_t id;

	(void)state;
	sim.masters[0].by_hand = true;
	simreq_open_tcp(&r, &sim);
	id = simreq_put(&r, &item, 1, &opts);
	simnet_reset(sim.sn, "n", "m0");
	simnode_run(&sim, 110);
	assert_int_equal(kv_node_sessions(sim.node), 2);
	assert_int_equal(simreq_put_status(&r, id, 0), -1);
	sim.masters[0].by_hand = false;
	simnode_run(&sim, 5);
	assert_int_equal(simreq_put_status(&r, id, 0), KV_OK);
	assert_true(simnode_master_has(&sim, 0, "k"));
	simreq_close(&r);
}

static void
a_master_that_joins_meanwhile_hears_of_it(void **state)
{
	struct simput item = { "k", 3, "abc" };
	struct simreq r;
	uint64_t id;

	(void)state;
	simnode_master_down(&sim, 1);
	simnode_run(&sim, 10);
	sim.masters[0].by_hand = true;
	simreq_open_tcp(&r, &sim);
	id = simreq_put(&r, &item, 1,
			&(struct simput_opts){ .budget_ms = 10000 });
	simnode_run(&sim, 10);
	simnode_master_up(&sim, 1);
	simnode_run(&sim, 1200);
	/* Master 0 was silent for too long meanwhile and is back, too. */
	sim.masters[0].by_hand = false;
	simnode_run(&sim, 2000);
	assert_int_equal(simreq_put_status(&r, id, 0), KV_OK);
	assert_true(simnode_master_has(&sim, 1, "k"));
	assert_true(simnode_master_has(&sim, 0, "k"));
	simreq_close(&r);
}

/* ---- what is refused ---- */

static void
mapped_mode_needs_an_attachment(void **state)
{
	struct simput item = { "k", 10, NULL };
	struct simreq r;
	uint64_t id, token;

	(void)state;
	simreq_open_tcp(&r, &sim);
	token = r.data_token;
	r.data_token = 0; /* now it asks for the mapping */
	id = simreq_put(&r, &item, 1, NULL);
	assert_int_equal(simreq_put_refusal(&r, id), KV_EDENIED);
	r.data_token = token;
	simreq_close(&r);
}

static void
an_empty_or_huge_batch_is_invalid(void **state)
{
	static struct simput items[KV_BATCH_KEYS_MAX + 1];
	struct simreq r;
	uint64_t id;

	(void)state;
	simreq_open_tcp(&r, &sim);
	id = simreq_put(&r, items, 0, NULL);
	assert_int_equal(simreq_put_refusal(&r, id), KV_EINVALID);
	for (int i = 0; i <= KV_BATCH_KEYS_MAX; i++)
		items[i] = (struct simput){ "k", 0, "" };
	id = simreq_put(&r, items, KV_BATCH_KEYS_MAX + 1, NULL);
	assert_int_equal(simreq_put_refusal(&r, id), KV_EINVALID);
	id = simreq_put(&r, items, KV_BATCH_KEYS_MAX, NULL);
	simnode_run(&sim, 5);
	assert_int_equal(simreq_put_status(&r, id, 0), KV_OK);
	assert_int_equal(simreq_put_status(&r, id, KV_BATCH_KEYS_MAX - 1),
			 KV_EEXISTS);
	simreq_close(&r);
}

static void
too_many_requests_at_once_are_busy(void **state)
{
	struct simput item = { "k", 10, NULL };
	struct simreq r;
	uint64_t id;

	(void)state;
	simreq_open_unix(&r, &sim, 0);
	for (int i = 0; i < KV_PEER_REQUESTS_MAX; i++)
		simreq_put(&r, &item, 1,
			   &(struct simput_opts){ .budget_ms = 100000 });
	id = simreq_put(&r, &item, 1, NULL);
	assert_int_equal(simreq_put_refusal(&r, id), KV_EBUSY);
	assert_int_equal(simnode_stat(&sim, "requests_busy"), 1);
	simreq_close(&r);
}

static void
a_broken_put_ends_the_connection(void **state)
{
	struct kv_put m = { .count = kv_le32(1), .mode = KV_MODE_DATA };
	struct kv_put_ent e = { .size = kv_le64(10), .key_len = kv_le16(5) };
	const struct {
		struct kv_put_ent e;
		size_t n;
		uint32_t count;
	} bad[] = {
		{ e, sizeof(e) - 1, 1 },      { e, sizeof(e), 1 },
		{ e, sizeof(e) + 4, 1 },      { e, sizeof(e) + 6, 1 },
		{ e, sizeof(e), UINT32_MAX }, { e, sizeof(e) + 5, 2 },
	};
	char tail[64];
	struct simreq r;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		simreq_open_tcp(&r, &sim);
		memset(tail, 'k', sizeof(tail));
		memcpy(tail, &bad[i].e, sizeof(e));
		m.count = kv_le32(bad[i].count);
		wirepeer_send(&r.control, KV_MSG_PUT, 1, &m, tail, bad[i].n);
		simnode_run(&sim, 5);
		assert_true(r.control.is_lost);
		assert_true(r.data.is_lost);
		simreq_close(&r);
	}
	/* An inline value longer than may be. */
	simreq_open_tcp(&r, &sim);
	m.count = kv_le32(1);
	e.flags = KV_ENT_INLINE;
	e.size = kv_le64(KV_INLINE_BYTES_MAX + 1);
	memcpy(blob, &e, sizeof(e));
	wirepeer_send(&r.control, KV_MSG_PUT, 1, &m, blob,
		      sizeof(e) + 5 + KV_INLINE_BYTES_MAX + 1);
	simnode_run(&sim, 10);
	assert_true(r.control.is_lost);
	simreq_close(&r);
	assert_int_equal(simnode_stat(&sim, "requests_bad"), 7);
}

#define WITH(start, f) cmocka_unit_test_setup_teardown(f, start, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		WITH(setup, a_small_value_rides_in_the_message),
		WITH(setup, a_process_of_this_host_fills_in_place),
		WITH(setup, bytes_come_on_a_data_connection),
		WITH(setup, the_empty_value_needs_no_grant),
		WITH(setup, a_batch_is_answered_once_and_key_by_key),
		WITH(setup, a_key_with_a_value_exists),
		WITH(setup, the_first_of_two_equal_keys_wins),
		WITH(setup, a_second_put_waits_for_the_first),
		WITH(setup, a_second_put_goes_on_when_the_first_fails),
		WITH(setup, a_put_sent_again_is_the_same_put),
		WITH(setup_alone, a_put_sent_again_is_the_same_put),
		WITH(setup_alone, the_first_of_two_equal_keys_wins),
		WITH(setup, a_waiting_put_has_its_own_budget),
		WITH(setup, upsert_replaces_an_older_version_only),
		WITH(setup, old_values_leave_for_new_ones),
		WITH(setup, no_evict_says_that_there_is_no_room),
		WITH(setup, a_pool_in_use_has_no_space),
		WITH(setup, a_value_larger_than_the_pool_is_too_big),
		WITH(setup, a_hard_pinned_value_stays),
		WITH(setup_empty, a_put_waits_for_pages),
		WITH(setup_empty, waiting_for_pages_ends_with_the_budget),
		WITH(setup_empty, when_no_more_pages_come_the_rest_is_decided),
		WITH(setup, an_expired_grant_stays_reserved_until_filled),
		WITH(setup, a_grant_ends_within_an_hour),
		WITH(setup, a_grant_given_up_comes_back),
		WITH(setup, a_lost_connection_leaves_grants_to_their_process),
		WITH(setup, a_put_sent_again_succeeds_again),
		WITH(setup, a_process_settles_its_grants_on_another_connection),
		WITH(setup, the_exit_of_a_process_frees_its_grants),
		WITH(setup, bytes_that_stop_coming_cost_the_put),
		WITH(setup, a_data_grant_can_be_given_up),
		WITH(setup, a_lost_data_connection_fails_what_was_on_it),
		WITH(setup, a_lost_requester_leaves_nothing_behind),
		WITH(setup, a_lost_requester_does_not_wait_for_itself),
		WITH(setup, hidden_until_the_master_has_said),
		WITH(setup, a_loser_goes_and_exists),
		WITH(setup, an_open_verdict_is_decided_later),
		WITH(setup, a_put_past_its_budget_may_still_be_shown),
		WITH(setup_alone, without_a_master_it_is_shown_at_once),
		WITH(setup, a_lost_master_decides_nothing),
		WITH(setup, a_silent_master_is_not_waited_for),
		WITH(setup_two, the_word_of_one_master_against_it_is_enough),
		WITH(setup_two, a_put_is_not_over_before_every_master_knows),
		WITH(setup_two, a_master_that_ended_is_not_waited_for),
		WITH(setup_two, a_master_that_may_live_is_waited_for),
		WITH(setup_two, one_that_is_another_process_is_not_waited_for),
		WITH(setup_two, one_that_comes_back_is_told_again),
		WITH(setup_two, a_master_that_joins_meanwhile_hears_of_it),
		WITH(setup, mapped_mode_needs_an_attachment),
		WITH(setup, an_empty_or_huge_batch_is_invalid),
		WITH(setup, too_many_requests_at_once_are_busy),
		WITH(setup, a_broken_put_ends_the_connection),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
