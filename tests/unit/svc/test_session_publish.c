/* What a node publishes in its sessions with masters, and their words. */

#include <stdio.h>

#include "base/clock.h"
#include "base/status.h"
#include "wire/msg.h"

#include "noderig.h"
#include "test.h"

/* ---- what is published ---- */

static void
a_new_master_hears_of_everything(void **state)
{
	enum {
		N = 3000,
	};
	struct simmaster *m = &sim.masters[0];
	char key[16];
	struct simreq r;

	(void)state;
	simreq_open_tcp(&r, &sim);
	for (int i = 0; i < N; i++) {
		struct simput item = { key, 1, "x" };

		snprintf(key, sizeof(key), "k%d", i);
		simreq_put(&r, &item, 1, NULL);
	}
	simnode_run(&sim, 10);
	assert_int_equal(simnode_stat(&sim, "puts_unpublished"), N);
	noderig_join(0);
	assert_int_equal(m->n_held, N);
	assert_int_equal(m->sync_ends, 1);
	assert_true(simnode_master_has(&sim, 0, "k2999"));
	/* And again, after it has lost everything. */
	simnode_master_down(&sim, 0);
	simnode_run(&sim, 100);
	noderig_join(0);
	assert_int_equal(m->n_held, N);
	assert_true(simnode_stat(&sim, "synced") >= 2 * N);
	simreq_close(&r);
}

static void
the_sync_is_paced(void **state)
{
	enum {
		N = 4000,
	};
	struct simmaster *m = &sim.masters[0];
	static char names[N][16];
	static struct simput items[N];
	struct simreq r;
	int rounds = 0;

	(void)state;
	simreq_open_tcp(&r, &sim);
	for (int i = 0; i < N; i++) {
		snprintf(names[i], sizeof(names[i]), "k0-%d", i);
		items[i] = (struct simput){ names[i], 0, "" };
	}
	for (int b = 0; b < 5; b++) {
		for (int i = 0; i < N; i++)
			names[i][1] = (char)('0' + b);
		simreq_put(&r, items, N, NULL);
		simnode_run(&sim, 5);
	}
	assert_int_equal(simnode_stat(&sim, "keys"), 5 * N);
	m->by_hand = true;
	simnode_master_up(&sim, 0);
	simnode_run(&sim, 500);
	while (wirepeer_count(&m->peer, KV_MSG_PUBLISH)) {
		assert_in_range(wirepeer_count(&m->peer, KV_MSG_PUBLISH), 1, 2);
		simnode_master_verdict(&sim, 0, KV_VERDICT_STAYS);
		simnode_run(&sim, 5);
		rounds++;
	}
	assert_true(rounds >= 4);
	assert_int_equal(m->n_held, 5 * N);
	simreq_close(&r);
}

static void
what_comes_during_the_sync_is_not_missed(void **state)
{
	struct simmaster *m = &sim.masters[0];
	struct simreq r;

	(void)state;
	simreq_open_unix(&r, &sim, 0);
	assert_int_equal(simreq_put_one(&r, "early", blob, 1000), KV_OK);
	m->by_hand = true;
	simnode_master_up(&sim, 0);
	simnode_run(&sim, 500);
	assert_int_equal(wirepeer_count(&m->peer, KV_MSG_PUBLISH), 1);
	{
		struct simput item = { "late", 3, "abc" };
		uint64_t id = simreq_put(&r, &item, 1, NULL);

		simnode_run(&sim, 5);
		assert_int_equal(wirepeer_count(&m->peer, KV_MSG_PUBLISH), 2);
		m->by_hand = false;
		simnode_run(&sim, 5);
		assert_int_equal(simreq_put_status(&r, id, 0), KV_OK);
	}
	assert_true(simnode_master_has(&sim, 0, "early"));
	assert_true(simnode_master_has(&sim, 0, "late"));
	simreq_close(&r);
}

static void
a_turn_publishes_in_one_frame(void **state)
{
	enum {
		N = 100,
	};
	struct simmaster *m = &sim.masters[0];
	struct simput items[N];
	char names[N][16];
	unsigned before;
	struct simreq r;

	(void)state;
	noderig_join(0);
	before = m->publishes;
	simreq_open_tcp(&r, &sim);
	for (int i = 0; i < N; i++) {
		snprintf(names[i], sizeof(names[i]), "k%d", i);
		items[i] = (struct simput){ names[i], 1, "x" };
	}
	simreq_put(&r, items, N, NULL);
	simnode_run(&sim, 10);
	assert_int_equal(m->n_held, N);
	assert_int_equal(m->publishes, before + 1);
	simreq_close(&r);
}

static void
what_left_is_withdrawn(void **state)
{
	char key[16];
	struct simreq r;

	(void)state;
	noderig_join(0);
	simreq_open_unix(&r, &sim, 0);
	for (int i = 0; i < 30; i++) {
		snprintf(key, sizeof(key), "k%d", i);
		assert_int_equal(simreq_put_one(&r, key, blob, 300000), KV_OK);
	}
	simnode_run(&sim, 5);
	assert_int_equal(sim.masters[0].n_held, 3);
	assert_int_equal(simnode_stat(&sim, "withdrawn"), 27);
	simreq_close(&r);
}

/* Gone and back within one frame: it is there. */
static void
a_key_that_comes_back_at_once_is_not_withdrawn(void **state)
{
	struct simmaster *m = &sim.masters[0];
	struct kv_remove rm = { .op = KV_REMOVE_KEYS, .count = kv_le32(1) };
	struct simput item = { "k", 3, "abc" };
	struct simput_opts opts = { .random = 77 };
	struct simreq r;
	uint64_t id;

	(void)state;
	noderig_join(0);
	simreq_open_tcp(&r, &sim);
	simreq_put(&r, &item, 1, &opts);
	simnode_run(&sim, 5);
	assert_int_equal(m->n_held, 1);
	/* Both arrive in one turn. */
	wirepeer_send(&r.control, KV_MSG_REMOVE, 9, &rm, "\1\0k", 3);
	id = simreq_put(&r, &item, 1, &opts);
	simnode_run(&sim, 5);
	assert_int_equal(simreq_put_status(&r, id, 0), KV_OK);
	assert_true(simnode_master_has(&sim, 0, "k"));
	simreq_close(&r);
}

/* ---- what masters say ---- */

static void
a_copy_that_lost_is_dropped_at_the_sync(void **state)
{
	struct simreq r;

	(void)state;
	simreq_open_tcp(&r, &sim);
	assert_int_equal(simreq_put_inline(&r, "k", "abc"), KV_OK);
	sim.masters[0].verdict = KV_VERDICT_GOES;
	noderig_join(0);
	assert_int_equal(simreq_get_one(&r, "k", NULL, NULL), KV_EMISS);
	assert_int_equal(simnode_stat(&sim, "losers"), 1);
	simreq_close(&r);
}

static void
a_shown_copy_goes_when_a_master_says_so(void **state)
{
	struct simput item = { "k", 3, "abc" };
	struct simput_opts opts = { .random = 77 };
	struct simget_opts get = { .inline_max = 9 };
	struct simreq r;

	(void)state;
	noderig_join(0);
	noderig_join(1);
	simreq_open_tcp(&r, &sim);
	simreq_put(&r, &item, 1, &opts);
	simnode_run(&sim, 5);
	/* Of another value, or key: nothing happens. */
	simnode_master_decide(&sim, 0, "k", 78, KV_VERDICT_GOES);
	simnode_master_decide(&sim, 0, "x", 77, KV_VERDICT_GOES);
	simnode_master_decide(&sim, 0, "k", 77, KV_VERDICT_STAYS);
	simnode_master_decide(&sim, 1, "k", 77, KV_VERDICT_OPEN);
	simnode_run(&sim, 5);
	assert_int_equal(simreq_get_one(&r, "k", &get, NULL), KV_OK);
	simnode_master_decide(&sim, 1, "k", 77, KV_VERDICT_GOES);
	simnode_run(&sim, 5);
	assert_int_equal(simreq_get_one(&r, "k", &get, NULL), KV_EMISS);
	assert_false(simnode_master_has(&sim, 0, "k"));
	simreq_close(&r);
}

/* CHECK of one key against another copy; the answer. */
static uint8_t
check(unsigned master, const char *key, struct kv_put_id mine,
      struct kv_put_id rival, uint8_t flags)
{
	struct simmaster *m = &sim.masters[master];
	struct kv_check c = { .count = kv_le32(2) };
	struct kv_check_ent e[2] = { {
					     .hash = simnode_hash(key),
					     .put_id = mine,
					     .rival = rival,
					     .flags = flags,
				     },
				     { .hash = simnode_hash("no such") } };
	struct wireframe *f;
	uint8_t keeps;

	wirepeer_send(&m->peer, KV_MSG_CHECK, 5, &c, e, sizeof(e));
	simnode_run(&sim, 5);
	f = wirepeer_take(&m->peer, KV_MSG_CHECK_R);
	assert_non_null(f);
	assert_int_equal(f->id, 5);
	assert_int_equal(f->tail_len, 2);
	assert_int_equal(f->tail[1], 0);
	keeps = f->tail[0];
	wireframe_free(f);
	return keeps;
}

static struct kv_put_id
put_id(uint64_t random, uint32_t version)
{
	return (struct kv_put_id){ kv_le64(random), kv_le32(version) };
}

/* Against a copy of version, random number, shown or not. */
static const struct rival {
	uint32_t version;
	uint64_t random;
	uint8_t flags;
	bool hidden_keeps, shown_keeps;
} rivals[] = {
	{ 5, 78, 0, true, true },
	{ 5, 76, 0, false, true },
	{ 5, 78, KV_PUBLISH_SHOWN, false, true },
	{ 5, 76, KV_PUBLISH_SHOWN, false, false },
	{ 4, 76, KV_PUBLISH_SHOWN, true, true },
	{ 6, 78, 0, false, false },
};

static void
a_shown_copy_is_kept_against_worse_ones(void **state)
{
	struct simput item = { "k", 3, "abc" };
	struct simput_opts opts = { .random = 77, .version = 5 };
	struct simreq r;
	size_t i;

	(void)state;
	noderig_join(0);
	simreq_open_tcp(&r, &sim);
	for (i = 0; i < sizeof(rivals) / sizeof(rivals[0]); i++) {
		const struct rival *v = &rivals[i];

		simreq_put(&r, &item, 1, &opts);
		simnode_run(&sim, 5);
		assert_int_equal(check(0, "k", put_id(78, 5), put_id(1, 9), 0),
				 0);
		assert_int_equal(check(0, "k", put_id(77, 5),
				       put_id(v->random, v->version), v->flags),
				 v->shown_keeps);
		assert_int_equal(simreq_get_one(&r, "k", NULL, NULL),
				 v->shown_keeps ? KV_OK : KV_EMISS);
		assert_int_equal(simnode_master_has(&sim, 0, "k"),
				 v->shown_keeps);
	}
	simreq_close(&r);
}

/* Another master asks while this one has not answered yet. */
static void
a_hidden_copy_gives_way_to_better_ones(void **state)
{
	struct simput item = { "k", 3, "abc" };
	struct simput_opts opts = { .random = 77,
				    .version = 5,
				    .budget_ms = 10000 };
	struct simreq r;
	size_t i;

	(void)state;
	noderig_join(0);
	noderig_join(1);
	simreq_open_tcp(&r, &sim);
	for (i = 0; i < sizeof(rivals) / sizeof(rivals[0]); i++) {
		const struct rival *v = &rivals[i];
		char key[8];
		uint64_t id;

		snprintf(key, sizeof(key), "k%zu", i);
		item.key = key;
		sim.masters[0].by_hand = true;
		id = simreq_put(&r, &item, 1, &opts);
		simnode_run(&sim, 5);
		assert_int_equal(check(1, key, put_id(77, 5),
				       put_id(v->random, v->version), v->flags),
				 v->hidden_keeps);
		assert_int_equal(simreq_put_status(&r, id, 0),
				 v->hidden_keeps ? -1 : KV_EEXISTS);
		simnode_master_verdict(&sim, 0, KV_VERDICT_STAYS);
		sim.masters[0].by_hand = false;
		simnode_run(&sim, 5);
		assert_int_equal(simreq_put_status(&r, id, 0),
				 v->hidden_keeps ? KV_OK : KV_EEXISTS);
		assert_int_equal(simnode_master_has(&sim, 0, key),
				 v->hidden_keeps);
		assert_int_equal(simnode_master_has(&sim, 1, key),
				 v->hidden_keeps);
	}
	simreq_close(&r);
}

/* Is the one key that the master was told of said to be shown? */
static bool
is_vouched(unsigned master)
{
	const struct simmaster *m = &sim.masters[master];

	assert_int_equal(m->n_held, 1);
	return m->held[0].flags & KV_PUBLISH_SHOWN;
}

/* Others may have put its keys meanwhile, with success. */
static void
a_node_that_was_alone_vouches_for_nothing(void **state)
{
	struct simput item = { "k", 3, "abc" };
	struct simput_opts opts = { .random = 77, .version = 5 };
	struct simreq r;

	(void)state;
	noderig_join(0);
	simreq_open_tcp(&r, &sim);
	simreq_put(&r, &item, 1, &opts);
	simnode_run(&sim, 5);
	/* To one that comes later it does. */
	noderig_join(1);
	assert_true(is_vouched(1));
	simnode_master_down(&sim, 0);
	simnode_master_up(&sim, 0);
	simnode_run(&sim, 300);
	assert_true(is_vouched(0));
	simnode_master_down(&sim, 0);
	simnode_master_down(&sim, 1);
	simnode_run(&sim, 300);
	sim.masters[0].by_hand = true;
	simnode_master_up(&sim, 0);
	simnode_run(&sim, 300);
	/* All is told, but not answered. */
	assert_int_equal(check(0, "k", put_id(77, 5), put_id(78, 5), 0), 1);
	simnode_master_verdict(&sim, 0, KV_VERDICT_STAYS);
	simnode_run(&sim, 5);
	assert_false(is_vouched(0));
	assert_int_equal(
		check(0, "k", put_id(77, 5), put_id(78, 5), KV_PUBLISH_SHOWN),
		1);
	sim.masters[0].by_hand = false;
	simnode_master_down(&sim, 0);
	simnode_run(&sim, 300);
	sim.masters[0].by_hand = true;
	simnode_master_up(&sim, 0);
	simnode_run(&sim, 300);
	assert_int_equal(
		check(0, "k", put_id(77, 5), put_id(78, 5), KV_PUBLISH_SHOWN),
		0);
	assert_int_equal(simreq_get_one(&r, "k", NULL, NULL), KV_EMISS);
	simreq_close(&r);
}

#define WITH(start, f) cmocka_unit_test_setup_teardown(f, start, noderig_close)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		WITH(noderig_one_down, a_new_master_hears_of_everything),
		WITH(noderig_one_down, the_sync_is_paced),
		WITH(noderig_one_down,
		     what_comes_during_the_sync_is_not_missed),
		WITH(noderig_one_down, a_turn_publishes_in_one_frame),
		WITH(noderig_one_down, what_left_is_withdrawn),
		WITH(noderig_one_down,
		     a_key_that_comes_back_at_once_is_not_withdrawn),
		WITH(noderig_one_down, a_copy_that_lost_is_dropped_at_the_sync),
		WITH(noderig_two_down, a_shown_copy_goes_when_a_master_says_so),
		WITH(noderig_one_down, a_shown_copy_is_kept_against_worse_ones),
		WITH(noderig_two_down, a_hidden_copy_gives_way_to_better_ones),
		WITH(noderig_two_down,
		     a_node_that_was_alone_vouches_for_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
