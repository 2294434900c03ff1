/* A node's sessions with masters: from the dial to heartbeats. */

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/status.h"
#include "wire/msg.h"

#include "noderig.h"
#include "test.h"

/* ---- from the dial to heartbeats ---- */

static void
it_joins_syncs_and_beats(void **state)
{
	struct simmaster *m = &sim.masters[0];

	(void)state;
	noderig_join(0);
	assert_int_equal(kv_node_sessions(sim.node), 1);
	assert_int_equal(m->hellos, 1);
	assert_int_equal(m->joins, 1);
	assert_int_equal(m->syncs, 1);
	assert_int_equal(m->sync_ends, 1);
	simnode_run(&sim, 3000);
	assert_in_range(m->beats, 3, 5);
	assert_int_equal(kv_get64(m->beat.pool_bytes), SIMNODE_POOL);
	assert_int_equal(kv_get64(m->beat.ready_bytes), SIMNODE_POOL);
	assert_int_equal(kv_get64(m->beat.free_bytes), SIMNODE_POOL);
	assert_int_equal(kv_get64(m->beat.keys), 0);
	assert_int_equal(kv_get64(m->beat.victim_age_ms), 0);
	assert_int_equal(simnode_stat(&sim, "sessions_opened"), 1);
	assert_int_equal(simnode_stat(&sim, "sessions_lost"), 0);
}

/* Where nobody listens it looks often. */
static void
a_master_that_is_started_is_found_at_once(void **state)
{
	unsigned i;

	(void)state;
	for (i = 0; i < 10; i++) {
		simnode_run(&sim, 3000 + 111 * i);
		assert_int_equal(kv_node_sessions(sim.node), 0);
		simnode_master_up(&sim, 0);
		simnode_run(&sim, 260);
		assert_int_equal(kv_node_sessions(sim.node), 1);
		simnode_master_down(&sim, 0);
	}
}

static void
what_changed_is_told_early(void **state)
{
	struct simmaster *m = &sim.masters[0];
	static char names[40][16];
	static struct simput items[40];
	struct simreq r;
	unsigned beats;

	(void)state;
	for (int i = 0; i < 40; i++) {
		snprintf(names[i], sizeof(names[i]), "k%02d", i);
		items[i] = (struct simput){ names[i], 0, "" };
	}
	noderig_join(0);
	simreq_open_unix(&r, &sim, 0);
	simnode_run(&sim, 150);
	beats = m->beats;
	assert_int_equal(simreq_put_one(&r, "first", "x", 1), KV_OK);
	simnode_run(&sim, 5);
	assert_int_equal(m->beats, beats + 1);
	assert_int_equal(kv_get64(m->beat.keys), 1);
	/* Not at once again. */
	simreq_put(&r, items, 40, NULL);
	simnode_run(&sim, 20);
	assert_int_equal(m->beats, beats + 1);
	simnode_run(&sim, 100);
	assert_int_equal(m->beats, beats + 2);
	assert_int_equal(kv_get64(m->beat.keys), 41);
	simnode_run(&sim, 500);
	assert_int_equal(m->beats, beats + 2);
	simreq_close(&r);
}

static void
join_tells_who_and_where(void **state)
{
	struct simmaster *m = &sim.masters[0];
	struct kv_hello_r hr = { .version = kv_le16(KV_WIRE_VERSION) };
	const struct kv_hello *h;
	const struct kv_join *j;
	struct wireframe *f;

	(void)state;
	m->is_mute = true;
	simnode_master_up(&sim, 0);
	simnode_run(&sim, 300);
	f = wirepeer_take(&m->peer, KV_MSG_HELLO);
	assert_non_null(f);
	h = (void *)f->body;
	assert_int_equal(h->role, KV_ROLE_NODE);
	assert_true(kv_id_is_equal(h->boot, *kv_node_boot(sim.node)));
	assert_int_equal(h->host.b[0], 9);
	wirepeer_send(&m->peer, KV_MSG_HELLO_R, f->id, &hr, NULL, 0);
	wireframe_free(f);
	simnode_run(&sim, 5);
	f = wirepeer_take(&m->peer, KV_MSG_JOIN);
	assert_non_null(f);
	j = (void *)f->body;
	assert_int_equal(kv_get64(j->pool_bytes), SIMNODE_POOL);
	assert_int_equal(j->host.b[0], 9);
	assert_int_equal(j->addr_len, 7);
	assert_int_equal(j->name_len, 1);
	assert_int_equal(f->tail_len, 8);
	assert_memory_equal(f->tail, "n:50052n", 8);
	wireframe_free(f);
}

static void
a_host_that_means_another_is_told_no_more(void **state)
{
	struct simmaster *m = &sim.masters[0];

	(void)state;
	noderig_join(0);
	assert_string_equal(kv_node_addr(sim.node), "n:50052");
	kv_node_forget_host(sim.node);
	assert_string_equal(kv_node_addr(sim.node), ":50052");
	assert_int_equal(kv_node_sessions(sim.node), 0);
	simnode_run(&sim, 100);
	assert_int_equal(m->joins, 2);
	assert_int_equal(kv_node_sessions(sim.node), 1);
	kv_node_forget_host(sim.node);
	simnode_run(&sim, 100);
	assert_int_equal(m->joins, 2);
}

static void
a_master_that_is_not_there_is_waited_for(void **state)
{
	(void)state;
	simnode_run(&sim, 5000);
	assert_int_equal(kv_node_sessions(sim.node), 0);
	noderig_join(0);
	assert_int_equal(kv_node_sessions(sim.node), 1);
}

static void
a_refusing_master_is_asked_again(void **state)
{
	struct simmaster *m = &sim.masters[0];

	(void)state;
	m->refuse = KV_EBUSY;
	simnode_master_up(&sim, 0);
	simnode_run(&sim, 4000);
	assert_int_equal(kv_node_sessions(sim.node), 0);
	assert_true(m->joins >= 2);
	/* At most one dial in half a second, once the back-off has grown. */
	assert_true(m->joins <= 10);
	m->refuse = KV_OK;
	simnode_run(&sim, 1200);
	assert_int_equal(kv_node_sessions(sim.node), 1);
}

static void
a_mute_master_is_given_up_and_dialled_again(void **state)
{
	struct simmaster *m = &sim.masters[0];

	(void)state;
	m->is_mute = true;
	simnode_master_up(&sim, 0);
	simnode_run(&sim, 3000);
	assert_int_equal(kv_node_sessions(sim.node), 0);
	m->is_mute = false;
	simnode_run(&sim, 3000);
	assert_int_equal(kv_node_sessions(sim.node), 1);
}

static void
a_silent_master_is_dropped_after_a_second(void **state)
{
	struct simmaster *m = &sim.masters[0];

	(void)state;
	noderig_join(0);
	m->is_mute = true;
	/* A heartbeat within a second, and less without an answer. */
	simnode_run(&sim, 650);
	assert_int_equal(kv_node_sessions(sim.node), 1);
	simnode_run(&sim, 1100);
	assert_int_equal(kv_node_sessions(sim.node), 0);
	assert_int_equal(simnode_stat(&sim, "sessions_lost"), 1);
}

static void
a_cut_master_is_dropped_and_found_again(void **state)
{
	(void)state;
	noderig_join(0);
	simnet_cut(sim.sn, "n", "m0");
	simnet_cut(sim.sn, "m0", "n");
	simnode_run(&sim, 3000);
	assert_int_equal(kv_node_sessions(sim.node), 0);
	simnet_heal(sim.sn, "n", "m0");
	simnet_heal(sim.sn, "m0", "n");
	simnode_run(&sim, 5000);
	assert_int_equal(kv_node_sessions(sim.node), 1);
}

static void
a_master_that_owes_a_verdict_is_dropped(void **state)
{
	struct simput item = { "k", 3, "abc" };
	struct simreq r;
	uint64_t id;

	(void)state;
	noderig_join(0);
	sim.masters[0].verdict = KV_VERDICT_OPEN;
	simreq_open_tcp(&r, &sim);
	id = simreq_put(&r, &item, 1,
			&(struct simput_opts){ .budget_ms = 60000 });
	simnode_run(&sim, 9000);
	assert_int_equal(simreq_put_status(&r, id, 0), -1);
	simnode_run(&sim, 3000);
	/* It talks, but it never decides: as if it were not there. */
	assert_int_equal(simreq_put_status(&r, id, 0), KV_OK);
	simreq_close(&r);
}

/* It is asked anew, and has the same time for that: however old the put is. */
static void
a_new_session_has_time_for_old_puts(void **state)
{
	struct simput item = { "k", 3, "abc" };
	struct simreq r;
	unsigned joins;
	uint64_t id;

	(void)state;
	noderig_join(0);
	noderig_join(1);
	sim.masters[0].verdict = KV_VERDICT_OPEN;
	simreq_open_tcp(&r, &sim);
	id = simreq_put(
		&r, &item, 1,
		&(struct simput_opts){ .random = 77, .budget_ms = 60000 });
	joins = sim.masters[0].joins;
	simnode_run(&sim, 9000);
	assert_int_equal(sim.masters[0].joins, joins);
	simnode_run(&sim, 2000);
	assert_int_equal(sim.masters[0].joins, ++joins);
	simnode_run(&sim, 5000);
	assert_int_equal(sim.masters[0].joins, joins);
	assert_int_equal(simnode_stat(&sim, "hidden_keys"), 1);
	simnode_master_decide(&sim, 0, "k", 77, KV_VERDICT_STAYS);
	simnode_run(&sim, 5);
	assert_int_equal(simreq_put_status(&r, id, 0), KV_OK);
	simreq_close(&r);
}

static void
a_broken_answer_ends_the_session(void **state)
{
	struct simmaster *m = &sim.masters[0];
	struct kv_publish_r r = { .count = kv_le32(7) };
	struct simput item = { "k", 3, "abc" };
	struct simreq q;
	struct wireframe *f;
	uint64_t id;

	(void)state;
	noderig_join(0);
	m->by_hand = true;
	simreq_open_tcp(&q, &sim);
	id = simreq_put(&q, &item, 1, NULL);
	simnode_run(&sim, 5);
	f = wirepeer_take(&m->peer, KV_MSG_PUBLISH);
	assert_non_null(f);
	wirepeer_send(&m->peer, KV_MSG_PUBLISH_R, f->id, &r, "1234567", 7);
	wireframe_free(f);
	simnode_run(&sim, 5);
	assert_int_equal(kv_node_sessions(sim.node), 0);
	assert_int_equal(simreq_put_status(&q, id, 0), KV_OK);
	simreq_close(&q);
}

static void
a_message_that_masters_do_not_send_ends_the_session(void **state)
{
	(void)state;
	noderig_join(0);
	wirepeer_send(&sim.masters[0].peer, KV_MSG_ATTACH, 1, NULL, NULL, 0);
	simnode_run(&sim, 5);
	assert_int_equal(kv_node_sessions(sim.node), 0);
	simnode_run(&sim, 1000);
	assert_int_equal(kv_node_sessions(sim.node), 1);
}

/* ---- heartbeats, of several masters ---- */

static const struct kv_heartbeat_ent *
told(unsigned master)
{
	return (const void *)sim.masters[master].told;
}

static void
what_others_know_is_told(void **state)
{
	struct simmaster *m = sim.masters;

	(void)state;
	m[1].beat_r.nodes = m[1].beat_r.listed = kv_le32(2);
	m[1].beat_r.digest = kv_le64(99);
	m[1].ids[0] = kv_le64(7);
	m[1].ids[1] = kv_le64(8);
	noderig_join(0);
	simnode_run(&sim, 1000);
	assert_in_range(m[0].beats, 12, 16);
	assert_int_equal(m[0].beat.others, 0);
	assert_int_equal(m[0].beat.sessions, 1);
	assert_int_equal(kv_get64(m[0].beat.echo), m[0].beats);
	simnode_master_up(&sim, 1);
	while (m[0].beat.others == 0)
		simnode_run(&sim, 1);
	assert_int_equal(m[0].beat.sessions, 2);
	assert_int_equal(m[0].told_len, sizeof(*told(0)) + 16);
	assert_int_equal(told(0)->boot.b[0], 201);
	assert_int_equal(kv_get64(told(0)->digest), 99);
	assert_int_equal(kv_get32(told(0)->nodes), 2);
	assert_int_equal(kv_get32(told(0)->listed), 2);
	assert_memory_equal(told(0) + 1, m[1].ids, 16);
	/* Once, until there are others. */
	simnode_run(&sim, 300);
	assert_int_equal(m[0].told_len, sizeof(*told(0)));
	assert_int_equal(kv_get32(told(0)->listed), 0);
	assert_in_range(kv_get64(told(0)->stamp), m[1].beats, m[1].beats + 1);
	m[1].beat_r.digest = kv_le64(100);
	simnode_run(&sim, 600);
	assert_int_equal(kv_get64(told(0)->digest), 100);
	/* Or when it is asked for again. */
	m[0].beat_r.flags = KV_HEARTBEAT_AGAIN;
	simnode_run(&sim, 600);
	assert_int_equal(m[0].told_len, sizeof(*told(0)) + 16);
	/* It is gone. */
	simnode_master_down(&sim, 1);
	simnode_run(&sim, 300);
	assert_int_equal(m[0].beat.others, 0);
	assert_int_equal(m[0].beat.sessions, 1);
}

static void
a_bad_answer_to_a_heartbeat_ends_the_session(void **state)
{
	static const struct kv_heartbeat_r bad[] = {
		/* Some of its nodes; nodes that it had not listed. */
		{ .nodes = { { 3 } }, .listed = { { 2 } } },
		{ .nodes = { { 3 } }, .digest = { { 5 } } },
		{ .status = KV_ECLOSED },
	};
	size_t i;

	(void)state;
	simnode_master_up(&sim, 0);
	for (i = 0; i < 3; i++) {
		memset(&sim.masters[0].beat_r, 0,
		       sizeof(sim.masters[0].beat_r));
		simnode_run(&sim, 1500);
		assert_int_equal(kv_node_sessions(sim.node), 1);
		sim.masters[0].beat_r = bad[i];
		while (simnode_stat(&sim, "sessions_lost") == i)
			simnode_run(&sim, 1);
	}
}

/* It may have answered long ago, or not have been asked. */
static void
time_in_which_the_node_stood_still_does_not_count(void **state)
{
	(void)state;
	sim.masters[0].is_mute = true;
	simnode_run(&sim, 250);
	sim.clock.ns += 2 * KV_NS_PER_S;
	simnode_run(&sim, 350);
	assert_int_equal(kv_node_sessions(sim.node), 2);
	simnode_run(&sim, 350);
	assert_int_equal(kv_node_sessions(sim.node), 1);
}

/* What it asks for itself is no answer. */
static void
a_master_that_only_talks_is_silent(void **state)
{
	struct kv_want w = { .count = kv_le32(0) };
	unsigned i;

	(void)state;
	noderig_join(0);
	noderig_join(1);
	simnet_cut(sim.sn, "n", "m0");
	for (i = 0; i < 10; i++) {
		assert_true(i > 6 || kv_node_sessions(sim.node) == 2);
		if (sim.masters[0].has_peer)
			wirepeer_send(&sim.masters[0].peer, KV_MSG_WANT, 0, &w,
				      NULL, 0);
		simnode_run(&sim, 100);
	}
	assert_int_equal(kv_node_sessions(sim.node), 1);
	simnet_heal(sim.sn, "n", "m0");
}

static void
a_master_that_is_named_twice_has_one_session(void **state)
{
	(void)state;
	sim.masters[1].boot = sim.masters[0].boot;
	noderig_join(0);
	simnode_master_up(&sim, 1);
	simnode_run(&sim, 3000);
	assert_int_equal(kv_node_sessions(sim.node), 1);
	assert_int_equal(sim.masters[0].joins, 1);
	assert_int_equal(sim.masters[1].joins, 0);
	/* The other one is tried when this one fails. */
	simnode_master_down(&sim, 0);
	simnode_run(&sim, 1500);
	assert_int_equal(kv_node_sessions(sim.node), 1);
	assert_int_equal(sim.masters[1].joins, 1);
}

static void
wanted_keys_leave_after_others(void **state)
{
	struct simmaster *m = &sim.masters[0];
	struct kv_want w = { .count = kv_le32(2) };
	struct kv_id ids[2];
	struct simreq r;

	(void)state;
	noderig_join(0);
	simreq_open_unix(&r, &sim, 0);
	assert_int_equal(simreq_put_one(&r, "old", blob, 300000), KV_OK);
	assert_int_equal(simreq_put_one(&r, "new", blob, 300000), KV_OK);
	ids[0] = simnode_hash("old");
	ids[1] = simnode_hash("x");
	wirepeer_send(&m->peer, KV_MSG_WANT, 0, &w, ids, sizeof(ids));
	simnode_run(&sim, 5);
	assert_int_equal(simreq_put_one(&r, "next", blob, 600000), KV_OK);
	assert_int_equal(simreq_get_one(&r, "new", NULL, NULL), KV_EMISS);
	assert_int_equal(simreq_get_one(&r, "old", NULL, NULL), KV_OK);
	simreq_close(&r);
}

static void
broken_words_of_a_master_end_its_session(void **state)
{
	static const enum kv_msg_type types[] = { KV_MSG_DECIDE, KV_MSG_CHECK,
						  KV_MSG_WANT };

	(void)state;
	simnode_master_up(&sim, 0);
	for (int i = 0; i < 3; i++) {
		struct kv_want count = { .count = kv_le32(2) };

		simnode_run(&sim, 1500);
		assert_int_equal(kv_node_sessions(sim.node), 1);
		wirepeer_send(&sim.masters[0].peer, types[i], 1, &count, "abc",
			      3);
		simnode_run(&sim, 5);
		assert_int_equal(kv_node_sessions(sim.node), 0);
	}
}

static void
a_master_can_ask_what_a_requester_can(void **state)
{
	struct simmaster *m = &sim.masters[0];
	struct kv_remove rm = { .op = KV_REMOVE_KEYS, .count = kv_le32(1) };
	struct simreq r;

	(void)state;
	noderig_join(0);
	simreq_open_tcp(&r, &sim);
	assert_int_equal(simreq_put_inline(&r, "k", "abc"), KV_OK);
	wirepeer_send(&m->peer, KV_MSG_REMOVE, 5, &rm, "\1\0k", 3);
	wirepeer_send(&m->peer, KV_MSG_STATS, 6, NULL, NULL, 0);
	wirepeer_send(&m->peer, KV_MSG_PING, 7, NULL, NULL, 0);
	simnode_run(&sim, 5);
	assert_int_equal(wirepeer_count(&m->peer, KV_MSG_REMOVE_R), 1);
	assert_int_equal(wirepeer_count(&m->peer, KV_MSG_STATS_R), 1);
	assert_int_equal(wirepeer_count(&m->peer, KV_MSG_PING_R), 1);
	assert_false(simnode_master_has(&sim, 0, "k"));
	simreq_close(&r);
}

#define WITH(start, f) cmocka_unit_test_setup_teardown(f, start, noderig_close)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		WITH(noderig_one_down, it_joins_syncs_and_beats),
		WITH(noderig_one_down,
		     a_master_that_is_started_is_found_at_once),
		WITH(noderig_one_down, what_changed_is_told_early),
		WITH(noderig_one_down, join_tells_who_and_where),
		WITH(noderig_one_down,
		     a_host_that_means_another_is_told_no_more),
		WITH(noderig_one_down,
		     a_master_that_is_not_there_is_waited_for),
		WITH(noderig_one_down, a_refusing_master_is_asked_again),
		WITH(noderig_one_down,
		     a_mute_master_is_given_up_and_dialled_again),
		WITH(noderig_one_down,
		     a_silent_master_is_dropped_after_a_second),
		WITH(noderig_one_down, a_cut_master_is_dropped_and_found_again),
		WITH(noderig_one_down, a_master_that_owes_a_verdict_is_dropped),
		WITH(noderig_two_down, a_new_session_has_time_for_old_puts),
		WITH(noderig_one_down, a_broken_answer_ends_the_session),
		WITH(noderig_one_down,
		     a_message_that_masters_do_not_send_ends_the_session),
		WITH(noderig_two_down, what_others_know_is_told),
		WITH(noderig_two_down,
		     a_bad_answer_to_a_heartbeat_ends_the_session),
		WITH(noderig_two,
		     time_in_which_the_node_stood_still_does_not_count),
		WITH(noderig_two_down, a_master_that_only_talks_is_silent),
		WITH(noderig_two_down,
		     a_master_that_is_named_twice_has_one_session),
		WITH(noderig_one_down, wanted_keys_leave_after_others),
		WITH(noderig_one_down,
		     broken_words_of_a_master_end_its_session),
		WITH(noderig_one_down, a_master_can_ask_what_a_requester_can),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
