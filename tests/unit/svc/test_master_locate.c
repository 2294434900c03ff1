/* Who has a key, for whom, and what a confirmed key sets off. */

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "masterrig.h"
#include "svc/mastercore.h"

#include "test.h"

enum {
	A = 1 << 1,
	B = 1 << 2,
};

static struct rignode a, b;
static struct rigpeer req, other;

static int
setup_two(void **state)
{
	rig_setup(state);
	rig_up(&a, "10.0.0.2", 52, 1);
	rig_up(&b, "10.0.0.3", 52, 2);
	rig_requester(&req, "10.0.0.9");
	rig_requester(&other, "10.0.0.8");
	return 0;
}

/* ---- batches ---- */

static void
an_empty_question_has_an_empty_answer(void **state)
{
	struct kv_lookup l = { .count = kv_le32(0) };
	struct wireframe *f;

	(void)state;
	f = rig_ask(&req, KV_MSG_LOOKUP, &l, NULL, 0);
	assert_int_equal(f->tail_len, 0);
	wireframe_free(f);
	l.flags = KV_LOOKUP_EXIST;
	f = rig_ask(&req, KV_MSG_LOOKUP, &l, NULL, 0);
	assert_int_equal(f->tail_len, 0);
	wireframe_free(f);
}

enum {
	MANY = 65500
};
static struct kv_publish_ent ents[KV_BATCH_KEYS_MAX];
static struct kv_id ids[MANY];

/* Every third key is on A, every fifth on B. */
static void
fill(unsigned n)
{
	unsigned i, m;

	for (i = 0, m = 0; i < n; i++) {
		if (i % 3 == 0)
			ents[m++] = rig_ent(i, 1, 0);
		if (m == KV_BATCH_KEYS_MAX || i == n - 1) {
			wireframe_free(rig_publish(&a, 0, ents, m, 0));
			m = 0;
		}
	}
	for (i = 0, m = 0; i < n; i++) {
		if (i % 5 == 0)
			ents[m++] = rig_ent(i, 1, 0);
		if (m == KV_BATCH_KEYS_MAX || i == n - 1) {
			wireframe_free(rig_publish(&b, 0, ents, m, 0));
			m = 0;
		}
		ids[i] = rig_hash(i);
	}
}

static void
a_frame_full_of_keys(void **state)
{
	struct kv_lookup l = { .count = kv_le32(MANY),
			       .flags = KV_LOOKUP_EXIST };
	struct wireframe *f;
	unsigned i;

	(void)state;
	fill(MANY);
	f = rig_ask(&req, KV_MSG_LOOKUP, &l, ids, sizeof(ids));
	assert_int_equal(f->tail_len, MANY);
	for (i = 0; i < MANY; i++)
		assert_int_equal(f->tail[i], i % 3 == 0 || i % 5 == 0);
	wireframe_free(f);
}

static void
owners_in_the_order_of_the_keys(void **state)
{
	struct kv_lookup l = { .count = kv_le32(MANY) };
	const struct kv_le16 *index;
	const struct kv_node_rec *rec;
	struct kv_lookup_r *r;
	struct wireframe *f;
	unsigned i, j, at = 0, bits, of[2];
	size_t off;

	(void)state;
	fill(MANY);
	f = rig_ask(&req, KV_MSG_LOOKUP, &l, ids, sizeof(ids));
	r = (void *)f->body;
	assert_int_equal(kv_get16(r->nodes), 2);
	for (i = 0, off = MANY; i < MANY; i++)
		off += f->tail[i] * sizeof(*index);
	for (i = 0; i < 2; i++) {
		rec = (void *)(f->tail + off);
		of[i] = 1u << rec->boot.b[0];
		off += sizeof(*rec) + rec->addr_len + rec->name_len;
	}
	assert_int_equal(off, f->tail_len);
	index = (void *)(f->tail + MANY);
	for (i = 0; i < MANY; i++) {
		for (j = 0, bits = 0; j < f->tail[i]; j++)
			bits |= of[kv_get16(index[at++])];
		assert_int_equal(bits,
				 (i % 3 == 0 ? A : 0) | (i % 5 == 0 ? B : 0));
	}
	wireframe_free(f);
	assert_int_equal(rig_stat(&req, "total_get_nums_"), MANY);
	assert_int_equal(rig_stat(&req, "valid_get_nums_"), MANY * 7 / 15 + 1);
}

/* With as many replicas of so many keys as there can be, the answer still has
 * to fit in a frame. */
static void
owners_of_very_many_keys_fit_in_a_frame(void **state)
{
	static struct rignode more[KV_REPLICAS_MAX];
	struct kv_lookup l = { .count = kv_le32(MANY) };
	struct wireframe *f;
	unsigned i, j, n;

	(void)state;
	for (i = 0; i < MANY; i++)
		ids[i] = rig_hash(i);
	for (j = 0; j < KV_REPLICAS_MAX; j++) {
		rig_up(&more[j], "10.0.1.1", 100 + j, (uint8_t)(10 + j));
		for (i = 0, n = 0; i < MANY; i++) {
			ents[n++] = rig_ent(i, 1, 0);
			if (n < KV_BATCH_KEYS_MAX && i < MANY - 1)
				continue;
			wireframe_free(rig_publish(&more[j], 0, ents, n, 0));
			n = 0;
		}
	}
	f = rig_ask(&req, KV_MSG_LOOKUP, &l, ids, sizeof(ids));
	for (i = 0; i < MANY; i++)
		assert_in_range(f->tail[i], 4, KV_REPLICAS_MAX);
	wireframe_free(f);
	assert_int_equal(rig_owners(&req, 5) >> 10, 0xff);
}

/* One connection does not get more than its share of a turn. */
static void
who_asks_much_waits_for_others(void **state)
{
	enum {
		KEYS = 500,
		ASKS = 64,
		SHARE = 8192 / KEYS + 1
	};
	struct kv_lookup l = { .count = kv_le32(KEYS),
			       .flags = KV_LOOKUP_EXIST };
	const uint64_t *done;
	uint64_t before;
	unsigned i;

	(void)state;
	done = &rig.m->stats[KV_MASTERSTAT_EXIST_KEY_BATCHES];
	for (i = 0; i < ASKS; i++)
		rig_send(&req, KV_MSG_LOOKUP, &l, ids,
			 KEYS * sizeof(struct kv_id));
	while (*done < ASKS) {
		before = *done;
		if (kv_loop_next(rig.loop) > rig.clock.ns)
			rig.clock.ns = kv_loop_next(rig.loop);
		kv_loop_turn(rig.loop, 0);
		assert_in_range(*done - before, 0, SHARE);
	}
}

/* ---- reports ---- */

static void
a_report_holds_for_its_host(void **state)
{
	static struct rigpeer same;

	(void)state;
	rig_requester(&same, "10.0.0.9");
	rig_put(&a, 1, 10, 0);
	rig_put(&a, 2, 10, 0);
	rig_put(&b, 2, 10, 0);
	rig_report(&req, &a, false);
	assert_false(rig_exists(&req, 1));
	assert_int_equal(rig_owners(&req, 2), B);
	assert_true(rig_exists(&req, 2));
	assert_false(rig_exists(&same, 1));
	assert_true(rig_exists(&other, 1));
	assert_int_equal(rig_owners(&other, 2), A | B);
}

/* Another process of that host may have reached it since. */
static void
who_is_reported_is_named_where_nobody_else_is(void **state)
{
	(void)state;
	rig_put(&a, 1, 10, 0);
	rig_put(&a, 2, 10, 0);
	rig_put(&b, 2, 10, 0);
	rig_report(&req, &a, false);
	assert_int_equal(rig_owners(&req, 1), A);
	assert_true(rig_hides(&req));
	rig_report(&req, &b, false);
	assert_int_equal(rig_owners(&req, 2), A | B);
	assert_false(rig_exists(&req, 2));
	/* One that the master cannot reach either is not. */
	a.is_frozen = true;
	rig_ms(5000);
	rig_report(&req, &a, false);
	rig_ms(2000);
	assert_int_equal(rig_owners(&req, 1), 0);
	assert_int_equal(rig_owners(&req, 2), B);
}

/* Who has a connection to the node may ask it, then. */
static void
answers_say_that_somebody_is_left_out(void **state)
{
	(void)state;
	assert_false(rig_hides(&req));
	rig_report(&req, &a, false);
	rig_ms(5);
	assert_true(rig_hides(&req));
	assert_false(rig_hides(&other));
	rig_report(&req, &a, true);
	rig_ms(5);
	assert_false(rig_hides(&req));
	a.is_frozen = true;
	rig_report(&req, &a, false);
	rig_ms(6000);
	assert_int_equal(rig_state(&req, &a), KV_NODE_SUSPECT);
	assert_true(rig_hides(&req));
	assert_true(rig_hides(&other));
}

static void
a_report_ends_after_five_seconds(void **state)
{
	(void)state;
	rig_put(&a, 1, 10, 0);
	rig_report(&req, &a, false);
	rig_ms(3000);
	rig_report(&req, &a, false);
	rig_ms(4900);
	assert_false(rig_exists(&req, 1));
	rig_ms(200);
	assert_true(rig_exists(&req, 1));
}

static void
a_report_is_taken_back(void **state)
{
	(void)state;
	rig_put(&a, 1, 10, 0);
	rig_report(&req, &a, false);
	rig_report(&other, &a, true);
	assert_false(rig_exists(&req, 1));
	rig_report(&req, &a, true);
	assert_true(rig_exists(&req, 1));
}

static void
reports_about_strangers_are_dropped(void **state)
{
	static struct rignode nobody;

	(void)state;
	nobody.p.boot.b[0] = 99;
	rig_report(&req, &nobody, false);
	assert_int_equal(rig.m->n_reports, 0);
}

static void
a_new_session_does_not_end_a_report(void **state)
{
	(void)state;
	rig_put(&a, 1, 10, 0);
	rig_report(&req, &a, false);
	rig_again(&a);
	rig_join(&a, NULL);
	assert_false(rig_exists(&req, 1));
	assert_true(rig_exists(&other, 1));
}

/* ---- probes ---- */

static void
a_report_that_is_not_confirmed_hides_nothing(void **state)
{
	unsigned i;

	(void)state;
	rig_put(&a, 1, 10, 0);
	for (i = 0; i < 20; i++) {
		rig_report(&req, &a, false);
		rig_ms(49);
	}
	/* 20 reports in a second: a probe every half second. */
	assert_in_range(a.probed, 2, 3);
	assert_true(rig_exists(&other, 1));
	assert_int_equal(rig_state(&other, &a), KV_NODE_LIVE);
}

static void
a_node_that_fails_the_probe_is_hidden_from_all(void **state)
{
	(void)state;
	rig_put(&a, 1, 10, 0);
	a.is_frozen = true;
	rig_report(&req, &a, false);
	rig_ms(900);
	assert_true(rig_exists(&other, 1));
	rig_ms(200);
	assert_false(rig_exists(&other, 1));
	assert_int_equal(rig_state(&other, &a), KV_NODE_SUSPECT);
	assert_int_equal(rig_stat(&other, "kvpool_master_hidden_nodes"), 1);
	a.is_frozen = false;
	rig_ms(600);
	assert_true(rig_exists(&other, 1));
	assert_int_equal(rig_state(&other, &a), KV_NODE_LIVE);
}

static void
probes_of_a_suspect_back_off(void **state)
{
	unsigned before;

	(void)state;
	a.is_frozen = true;
	rig_report(&req, &a, false);
	rig_ms(1100);
	before = a.probed;
	rig_ms(30000);
	/* After 0.5, 1, 2, 4, 5, 5, ... seconds and one for each try. */
	assert_in_range(a.probed - before, 5, 8);
	a.is_frozen = false;
	rig_ms(5100);
	assert_int_equal(rig_state(&other, &a), KV_NODE_LIVE);
}

static void
a_good_report_of_a_suspect_is_checked_soon(void **state)
{
	(void)state;
	a.is_frozen = true;
	rig_report(&req, &a, false);
	rig_ms(15000);
	a.is_frozen = false;
	assert_int_equal(rig_state(&other, &a), KV_NODE_SUSPECT);
	rig_report(&other, &a, true);
	rig_ms(1600);
	assert_int_equal(rig_state(&other, &a), KV_NODE_LIVE);
}

static void
a_hidden_node_that_comes_back_is_shown(void **state)
{
	(void)state;
	rig_put(&a, 1, 10, 0);
	a.is_frozen = true;
	rig_report(&req, &a, false);
	rig_ms(1100);
	assert_false(rig_exists(&other, 1));
	a.is_frozen = false;
	rig_again(&a);
	rig_join(&a, NULL);
	assert_true(rig_exists(&other, 1));
	assert_int_equal(rig_stat(&other, "kvpool_master_hidden_nodes"), 0);
}

/* ---- loopback ---- */

static void
loopback_addresses_stay_at_home(void **state)
{
	static struct rigpeer home;

	(void)state;
	/* A node and a requester that reach the master by its loopback. */
	rig_up(&a, "127.0.0.1", 60, 1);
	rig_requester(&home, "127.0.0.1");
	rig_requester(&req, "10.0.0.9");
	rig_put(&a, 1, 10, 0);
	assert_int_equal(rig_owners(&home, 1), A);
	assert_true(rig_exists(&home, 1));
	assert_int_equal(rig_state(&home, &a), KV_NODE_LIVE);
	assert_int_equal(rig_owners(&req, 1), 0);
	assert_false(rig_exists(&req, 1));
	assert_int_equal(rig_state(&req, &a), 0);
}

static void
loopback_addresses_are_for_the_same_host(void **state)
{
	static struct rigpeer same;

	(void)state;
	rig_up(&a, "127.0.0.1", 60, 1);
	rig_put(&a, 1, 10, 0);
	/* It came by another address, but is on the node's host. */
	rig_dial(&same, "10.0.0.9");
	same.host = a.p.host;
	assert_int_equal(rig_hello(&same, KV_ROLE_REQUESTER), 0);
	assert_int_equal(rig_owners(&same, 1), A);
}

static unsigned lines;
static char line[512];

static void
keep_line(void *arg, enum kv_log_level level, const char *msg)
{
	(void)arg;
	(void)level;
	strncpy(line, msg, sizeof(line) - 1);
	lines++;
}

static void
a_withheld_address_is_one_line(void **state)
{
	unsigned i;

	(void)state;
	rig_up(&a, "127.0.0.1", 60, 1);
	rig_requester(&req, "10.0.0.9");
	lines = 0;
	kv_log_set_level(KV_LOG_WARN);
	kv_log_set_sink(keep_line, NULL);
	for (i = 0; i < 50; i++)
		rig_state(&req, &a);
	kv_log_set_sink(NULL, NULL);
	kv_log_set_level(KV_LOG_ERR);
	assert_int_equal(lines, 1);
	assert_non_null(strstr(line, "--host"));
	assert_non_null(strstr(line, "127.0.0.1:60"));
}

/* ---- wanted ---- */

static unsigned
wants(struct rignode *n)
{
	struct wireframe *f;
	unsigned count = 0;

	while ((f = wirepeer_take(&n->p.w, KV_MSG_WANT))) {
		count += kv_get32(((struct kv_want *)f->body)->count);
		assert_int_equal(f->tail_len % sizeof(struct kv_id), 0);
		wireframe_free(f);
	}
	return count;
}

static void
a_confirmed_key_is_wanted_at_all_owners(void **state)
{
	(void)state;
	rig_put(&a, 1, 10, 0);
	rig_put(&b, 1, 10, 0);
	rig_put(&b, 2, 10, 0);
	rig_exists(&req, 1);
	rig_exists(&req, 3);
	rig_ms(110);
	assert_int_equal(wants(&a), 1);
	assert_int_equal(wants(&b), 1);
	/* Reading it is no wish. */
	rig_owners(&req, 2);
	rig_ms(110);
	assert_int_equal(wants(&b), 0);
}

static void
wishes_go_out_once_in_half_a_grace(void **state)
{
	unsigned i;

	(void)state;
	rig_put(&a, 1, 10, 0);
	for (i = 0; i < 24; i++) {
		rig_exists(&req, 1);
		rig_exists(&other, 1);
		rig_ms(100);
	}
	assert_int_equal(wants(&a), 1);
	rig_ms(200);
	rig_exists(&req, 1);
	rig_ms(110);
	assert_int_equal(wants(&a), 1);
}

static void
wishes_are_bounded(void **state)
{
	struct kv_lookup l = { .count = kv_le32(MANY),
			       .flags = KV_LOOKUP_EXIST };

	(void)state;
	fill(MANY);
	wireframe_free(rig_ask(&req, KV_MSG_LOOKUP, &l, ids, sizeof(ids)));
	rig_ms(110);
	assert_int_equal(wants(&a), 16384);
	assert_in_range(wants(&b), MANY / 5 * 9 / 10, MANY / 5 + 1);
	/* Those that found no room are not taken for told. */
	wireframe_free(rig_ask(&req, KV_MSG_LOOKUP, &l, ids, sizeof(ids)));
	rig_ms(110);
	assert_in_range(wants(&a), MANY / 3 - 16384 - MANY / 15, 16383);
	assert_in_range(wants(&b), 0, MANY / 5 / 2);
}

/* Not even asked for are they when nobody has room. */
static void
wishes_of_all_nodes_are_bounded(void **state)
{
	struct kv_lookup l = { .count = kv_le32(MANY),
			       .flags = KV_LOOKUP_EXIST };

	(void)state;
	fill(MANY);
	rig_send(&b.p, KV_MSG_LEAVE, NULL, NULL, 0);
	rig_ms(1);
	wireframe_free(rig_ask(&req, KV_MSG_LOOKUP, &l, ids, sizeof(ids)));
	wireframe_free(rig_ask(&req, KV_MSG_LOOKUP, &l, ids, sizeof(ids)));
	rig_ms(110);
	assert_int_equal(wants(&a), 16384);
	wireframe_free(rig_ask(&req, KV_MSG_LOOKUP, &l, ids, sizeof(ids)));
	rig_ms(110);
	assert_in_range(wants(&a), MANY / 3 - 16384, 16383);
}

static void
who_cannot_reach_a_node_wishes_nothing_of_it(void **state)
{
	(void)state;
	rig_put(&a, 1, 10, 0);
	rig_put(&b, 1, 10, 0);
	rig_report(&req, &a, false);
	assert_true(rig_exists(&req, 1));
	rig_ms(110);
	assert_int_equal(wants(&a), 0);
	assert_int_equal(wants(&b), 1);
}

#define TWO(f) cmocka_unit_test_setup_teardown(f, setup_two, rig_teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TWO(an_empty_question_has_an_empty_answer),
		TWO(a_frame_full_of_keys),
		TWO(owners_in_the_order_of_the_keys),
		TWO(owners_of_very_many_keys_fit_in_a_frame),
		TWO(who_asks_much_waits_for_others),
		TWO(a_report_holds_for_its_host),
		TWO(who_is_reported_is_named_where_nobody_else_is),
		TWO(answers_say_that_somebody_is_left_out),
		TWO(a_report_ends_after_five_seconds),
		TWO(a_report_is_taken_back),
		TWO(reports_about_strangers_are_dropped),
		TWO(a_new_session_does_not_end_a_report),
		TWO(a_report_that_is_not_confirmed_hides_nothing),
		TWO(a_node_that_fails_the_probe_is_hidden_from_all),
		TWO(probes_of_a_suspect_back_off),
		TWO(a_good_report_of_a_suspect_is_checked_soon),
		TWO(a_hidden_node_that_comes_back_is_shown),
		RIG_TEST(loopback_addresses_stay_at_home),
		RIG_TEST(loopback_addresses_are_for_the_same_host),
		RIG_TEST(a_withheld_address_is_one_line),
		TWO(a_confirmed_key_is_wanted_at_all_owners),
		TWO(wishes_go_out_once_in_half_a_grace),
		TWO(wishes_are_bounded),
		TWO(wishes_of_all_nodes_are_bounded),
		TWO(who_cannot_reach_a_node_wishes_nothing_of_it),
	};

	kv_log_set_level(KV_LOG_ERR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
