/* What nodes tell a master of other masters, and what it answers meanwhile. */

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "masterrig.h"
#include "svc/mastercore.h"

#include "test.h"

enum {
	A = 1 << 1,
	B = 1 << 2,
	SELF = 255, /* the master that is told */
	LACKS = KV_LOOKUP_LACKS,
	UNSURE = KV_LOOKUP_UNSURE,
	IDS_MAX = 8,
};

/* Another master, as a node tells of it. */
struct other {
	uint8_t boot;
	uint64_t stamp;
	uint64_t digest;
	unsigned nodes;
	bool is_listed;
	uint8_t ids[IDS_MAX]; /* first bytes of boot ids */
};

static struct rignode a, b;
static struct rigpeer req;
static struct kv_heartbeat_r answer; /* to the last heartbeat, */
static struct kv_le64 ids[IDS_MAX];  /* what it lists */

static struct kv_le64
short_id(uint8_t boot)
{
	struct kv_le64 id = { { boot } };

	return id;
}

static size_t
others_build(uint8_t *to, const struct other *o, unsigned n)
{
	struct kv_heartbeat_ent e;
	uint8_t *at = to;
	unsigned i, j;

	for (i = 0; i < n; i++) {
		e = (struct kv_heartbeat_ent){
			.boot = { { o[i].boot } },
			.stamp = kv_le64(o[i].stamp),
			.digest = kv_le64(o[i].digest),
			.nodes = kv_le32(o[i].nodes),
			.listed = kv_le32(o[i].is_listed ? o[i].nodes : 0),
		};
		if (o[i].boot == SELF)
			e.boot = *kv_master_boot(rig.m);
		memcpy(at, &e, sizeof(e));
		at += sizeof(e);
		for (j = 0; j < kv_get32(e.listed); j++) {
			struct kv_le64 id = short_id(o[i].ids[j]);

			memcpy(at, &id, sizeof(id));
			at += sizeof(id);
		}
	}
	return (size_t)(at - to);
}

static void
answer_take(struct wireframe *f)
{
	assert_true(f->tail_len <= sizeof(ids));
	memcpy(&answer, f->body, sizeof(answer));
	assert_int_equal(f->tail_len, kv_get32(answer.listed) * sizeof(ids[0]));
	memcpy(ids, f->tail, f->tail_len);
	wireframe_free(f);
}

/* A heartbeat that repeats the last stamp, and tells of others. */
static void
beat(struct rignode *n, const struct other *o, unsigned others)
{
	uint8_t tail[512];

	n->room.echo = answer.stamp;
	n->room.others = (uint8_t)others;
	answer_take(rig_ask(&n->p, KV_MSG_HEARTBEAT, &n->room, tail,
			    others_build(tail, o, others)));
}

static void
up(struct rignode *n, const char *host, uint8_t boot, uint8_t masters)
{
	rig_node(n, host, 52, boot);
	n->masters = masters;
	assert_int_equal(rig_join(n, NULL), 0);
	n->beats = false;
	wireframe_free(rig_publish(n, KV_PUBLISH_SYNC | KV_PUBLISH_SYNC_END,
				   NULL, 0, 0));
	answer.stamp = kv_le64(0);
	beat(n, NULL, 0);
	beat(n, NULL, 0);
}

static int
setup(void **state)
{
	rig_setup(state);
	rig_requester(&req, "10.0.0.9");
	up(&a, "10.0.0.2", 1, 2);
	return 0;
}

/* ---- what others have ---- */

static void
with_one_master_nothing_is_doubted(void **state)
{
	(void)state;
	rig_setup(state);
	rig_requester(&req, "10.0.0.9");
	assert_int_equal(rig_flags(&req), 0);
	up(&a, "10.0.0.2", 1, 1);
	assert_int_equal(rig_flags(&req), 0);
	assert_int_equal(kv_get32(answer.nodes), 0);
	rig_ms(5000);
	assert_int_equal(rig_flags(&req), 0);
	rig_kill(&a);
	rig_ms(5000);
	assert_int_equal(rig_flags(&req), 0);
}

static void
a_master_that_nobody_tells_of_is_missed(void **state)
{
	const struct other o = { 200, 1, 9, 1, true, { 1 } };

	(void)state;
	assert_int_equal(rig_flags(&req), UNSURE);
	beat(&a, &o, 1);
	assert_int_equal(rig_flags(&req), 0);
}

static void
what_only_another_has_is_lacking(void **state)
{
	struct other o = { 200, 1, 9, 3, true, { 1, 2, 3 } };
	struct wireframe *f;

	(void)state;
	beat(&a, &o, 1);
	assert_int_equal(rig_flags(&req), LACKS);
	f = rig_ask(&req, KV_MSG_NODES, NULL, NULL, 0);
	assert_int_equal(((struct kv_nodes_r *)f->body)->flags, LACKS);
	assert_int_equal(kv_get32(((struct kv_nodes_r *)f->body)->lacking), 2);
	wireframe_free(f);
	assert_int_equal(rig_stat(&req, "kvpool_master_lacking_nodes"), 2);
	/* One of them joins here, the other one leaves there. */
	up(&b, "10.0.0.3", 2, 2);
	assert_int_equal(rig_flags(&req), LACKS);
	o = (struct other){ 200, 2, 10, 2, true, { 1, 2 } };
	beat(&b, &o, 1);
	assert_int_equal(rig_flags(&req), 0);
	/* That this master has more is not its affair. */
	o = (struct other){ 200, 3, 11, 0, true, { 0 } };
	beat(&b, &o, 1);
	assert_int_equal(rig_flags(&req), 0);
}

static unsigned
age(void)
{
	struct wireframe *f = rig_ask(&req, KV_MSG_NODES, NULL, NULL, 0);
	const struct kv_nodes_r *r = (void *)f->body;
	unsigned age_ms = kv_get32(r->age_ms);

	wireframe_free(f);
	return age_ms;
}

static void
it_says_how_long_it_has_run(void **state)
{
	unsigned before = age();

	(void)state;
	rig_ms(700);
	assert_in_range(age(), before + 700, before + 720);
}

static void
nodes_away_are_counted_in_answers(void **state)
{
	struct other o = { 200, 1, 9, 2, true, { 1, 3 } };
	struct kv_remove r = { .op = KV_REMOVE_ALL };
	struct kv_remove_r removed = { .status = KV_OK };
	struct wireframe *f;

	(void)state;
	beat(&a, &o, 1);
	rig_send(&req, KV_MSG_REMOVE, &r, NULL, 0);
	f = rig_wait(&a.p, KV_MSG_REMOVE);
	wirepeer_send(&a.p.w, KV_MSG_REMOVE_R, f->id, &removed, NULL, 0);
	wireframe_free(f);
	f = rig_wait(&req, KV_MSG_REMOVE_R);
	assert_int_equal(kv_get32(((struct kv_remove_r *)f->body)->away), 1);
	assert_int_equal(f->tail_len, sizeof(struct kv_id));
	assert_int_equal(f->tail[0], 3);
	wireframe_free(f);
}

static void
news_are_listed_once_and_asked_for_if_missed(void **state)
{
	struct other o = { 200, 1, 9, 2, false, { 1, 3 } };

	(void)state;
	/* Its digest alone says nothing. */
	beat(&a, &o, 1);
	assert_int_equal(rig_flags(&req), UNSURE);
	assert_int_equal(answer.flags, KV_HEARTBEAT_AGAIN);
	o.is_listed = true;
	beat(&a, &o, 1);
	assert_int_equal(answer.flags, 0);
	assert_int_equal(rig_flags(&req), LACKS);
	/* From then on it does. */
	o.is_listed = false;
	o.stamp = 2;
	beat(&a, &o, 1);
	assert_int_equal(answer.flags, 0);
	assert_int_equal(rig_flags(&req), LACKS);
	/* A word from before it changed counts no more. */
	o = (struct other){ 200, 1, 7, 1, true, { 1 } };
	beat(&a, &o, 1);
	assert_int_equal(rig_flags(&req), LACKS);
	/* Another master had its set listed by another node. */
	o = (struct other){ 200, 3, 7, 1, false, { 1 } };
	beat(&a, &o, 1);
	assert_int_equal(answer.flags, KV_HEARTBEAT_AGAIN);
	assert_int_equal(rig_flags(&req), UNSURE);
}

static void
a_master_without_news_is_forgotten(void **state)
{
	struct other o = { 200, 1, 9, 1, true, { 1 } };
	unsigned i;

	(void)state;
	beat(&a, &o, 1);
	for (i = 0; i < 3; i++) {
		rig_ms(200);
		beat(&a, &o, 1);
		assert_int_equal(rig_flags(&req), 0);
	}
	/* The node lives, but has not heard of it for as long. */
	rig_ms(200);
	beat(&a, &o, 1);
	assert_int_equal(rig_flags(&req), UNSURE);
	o.stamp = 2;
	beat(&a, &o, 1);
	assert_int_equal(rig_flags(&req), 0);
}

static void
there_is_a_bound_of_masters(void **state)
{
	struct other o[3];
	unsigned i, j;

	(void)state;
	for (i = 0; i < 30; i++) {
		for (j = 0; j < 3; j++)
			o[j] = (struct other){ (uint8_t)(100 + 3 * i + j),
					       1,
					       9,
					       2,
					       true,
					       { 1, 7 } };
		beat(&a, o, 3);
	}
	assert_int_equal(rig_stat(&req, "kvpool_master_others"),
			 KV_PEERMASTERS_MAX);
	assert_int_equal(rig_flags(&req), LACKS);
	/* It tells of this very master. */
	rig_ms(1000);
	o[0] = (struct other){ SELF, 1, 9, 1, true, { 99 } };
	beat(&a, o, 1);
	beat(&a, NULL, 0);
	assert_int_equal(rig_stat(&req, "kvpool_master_others"), 0);
}

/* ---- whom this one answers for ---- */

static void
a_node_is_fresh_as_long_as_it_repeats_stamps(void **state)
{
	const struct other o = { 200, 1, 9, 1, true, { 1 } };
	unsigned i;

	(void)state;
	beat(&a, &o, 1);
	assert_int_equal(rig_put(&a, 1, 10, 0), KV_VERDICT_STAYS);
	a.room.others = 0;
	for (i = 0; i < 3; i++) {
		rig_ms(200);
		rig_beat(&a); /* with an old one */
		wireframe_free(rig_wait(&a.p, KV_MSG_HEARTBEAT_R));
		assert_true(rig_exists(&req, 1));
	}
	rig_ms(200);
	rig_beat(&a);
	wireframe_free(rig_wait(&a.p, KV_MSG_HEARTBEAT_R));
	/* Nobody speaks for it now, so what it has is shown. */
	assert_int_equal(rig_flags(&req), LACKS | UNSURE);
	assert_true(rig_exists(&req, 1));
}

static void
a_node_that_another_master_hears_is_left_to_it(void **state)
{
	struct other o = { 200, 1, 9, 2, true, { 1, 2 } };
	unsigned i;

	(void)state;
	up(&b, "10.0.0.3", 2, 2);
	assert_int_equal(rig_put(&b, 1, 10, 0), KV_VERDICT_STAYS);
	for (i = 0; i < 5; i++) {
		o.stamp = i + 1;
		beat(&a, &o, 1);
		assert_int_equal(rig_flags(&req), i < 4 ? 0 : LACKS);
		assert_int_equal(rig_exists(&req, 1), i < 4);
		rig_ms(200);
	}
	assert_int_equal(rig_owners(&req, 1), 0);
	assert_int_equal(rig_state(&req, &b), KV_NODE_LIVE);
	assert_int_equal(rig_stat(&req, "kvpool_master_parted_nodes"), 1);
	/* It is heard of again. */
	beat(&b, NULL, 0);
	beat(&b, NULL, 0);
	assert_int_equal(rig_flags(&req), 0);
	assert_int_equal(rig_owners(&req, 1), B);
	assert_int_equal(rig_stat(&req, "kvpool_master_parted_nodes"), 0);
}

/* a tells of another master, b is silent until it is parted. */
static void
part(void)
{
	struct other o = { 200, 1, 9, 2, true, { 1, 2 } };
	unsigned i;

	up(&b, "10.0.0.3", 2, 2);
	assert_int_equal(rig_put(&b, 1, 10, 0), KV_VERDICT_STAYS);
	for (i = 0; i < 5; i++) {
		o.stamp = i + 1;
		beat(&a, &o, 1);
		rig_ms(i < 4 ? 200 : 1);
	}
	assert_int_equal(rig_flags(&req), LACKS);
	assert_false(rig_exists(&req, 1));
}

static void
what_it_has_is_judged_by_the_other_one(void **state)
{
	(void)state;
	part();
	assert_int_equal(rig_put(&a, 1, 20, 0), KV_VERDICT_STAYS);
	assert_int_equal(wirepeer_count(&b.p.w, KV_MSG_CHECK), 0);
	assert_int_equal(rig_owners(&req, 1), A);
	/* Here something of it is missing: it is to publish all anew. */
	rig_expect_dropped(&b.p);
}

/* Node b has another copy of a key: what CHECK says of that to node a. */
static uint8_t
check_flags(unsigned key, uint8_t is_shown)
{
	struct kv_publish_ent e = rig_ent(key, 3, 0);
	const struct kv_check_ent *c;
	struct wireframe *f;
	uint8_t flags;

	assert_int_equal(rig_put(&a, key, 2, 0), KV_VERDICT_STAYS);
	e.flags = is_shown;
	wireframe_free(rig_publish(&b, 0, &e, 1, 0));
	f = rig_wait(&a.p, KV_MSG_CHECK);
	assert_int_equal(f->tail_len, sizeof(*c));
	c = (const void *)f->tail;
	flags = c->flags;
	wireframe_free(f);
	return flags;
}

static void
who_is_asked_hears_of_the_other_copy(void **state)
{
	(void)state;
	up(&b, "10.0.0.3", 2, 2);
	assert_int_equal(check_flags(1, 0), 0);
	assert_int_equal(check_flags(2, KV_PUBLISH_SHOWN), KV_PUBLISH_SHOWN);
}

/* Puts at a what silent b has, while nobody tells of the other master: how long
 * a waits for the verdict, in ms; 0: for longer than a second. */
static unsigned
rival_ms(unsigned key, uint8_t sessions)
{
	struct wireframe *f;
	unsigned ms;

	b.room.sessions = sessions;
	beat(&b, NULL, 0);
	assert_int_equal(rig_put(&b, key, 10, 0), KV_VERDICT_STAYS);
	assert_int_equal(rig_put(&a, key, 20, 0), KV_VERDICT_OPEN);
	for (ms = 50; ms <= 1000; ms += 50) {
		rig_ms(50);
		beat(&a, NULL, 0);
		if (wirepeer_count(&a.p.w, KV_MSG_DECIDE) == 0)
			continue;
		f = rig_wait(&a.p, KV_MSG_DECIDE);
		assert_int_equal(((struct kv_decide_ent *)f->tail)->verdict,
				 KV_VERDICT_STAYS);
		wireframe_free(f);
		return ms;
	}
	return 0;
}

static void
one_that_may_have_another_master_is_not_waited_for(void **state)
{
	(void)state;
	up(&b, "10.0.0.3", 2, 2);
	assert_in_range(rival_ms(1, 2), 600, 800);
	assert_int_equal(rig_owners(&req, 1), A);
	rig_expect_dropped(&b.p);
}

static void
one_that_had_this_one_alone_is(void **state)
{
	(void)state;
	up(&b, "10.0.0.3", 2, 2);
	assert_int_equal(rival_ms(1, 1), 0);
}

static void
when_it_comes_back_nothing_old_is_shown(void **state)
{
	struct kv_publish_ent e = rig_ent(2, 30, 0);

	(void)state;
	part();
	rig_again(&b);
	assert_int_equal(rig_join(&b, NULL), 0);
	b.beats = false;
	assert_int_equal(rig_flags(&req) & KV_LOOKUP_INCOMPLETE,
			 KV_LOOKUP_INCOMPLETE);
	assert_false(rig_exists(&req, 1));
	wireframe_free(rig_publish(&b, KV_PUBLISH_SYNC | KV_PUBLISH_SYNC_END,
				   &e, 1, 0));
	assert_false(rig_exists(&req, 1));
	assert_true(rig_exists(&req, 2));
	assert_int_equal(rig_flags(&req), 0);
}

static void
a_suspect_node_is_left_to_others_too(void **state)
{
	struct other o = { 200, 1, 9, 2, true, { 1, 2 } };

	(void)state;
	up(&b, "10.0.0.3", 2, 2);
	b.is_frozen = true;
	rig_report(&req, &b, false);
	rig_ms(1100);
	assert_int_equal(rig_state(&req, &b), KV_NODE_SUSPECT);
	beat(&b, &o, 1);
	beat(&a, &o, 1);
	assert_int_equal(rig_flags(&req), LACKS | KV_LOOKUP_HIDES);
}

static void
a_master_that_was_stopped_answers_for_nobody(void **state)
{
	struct other o = { 200, 1, 9, 1, true, { 1 } };

	(void)state;
	beat(&a, &o, 1);
	assert_int_equal(rig_flags(&req), 0);
	rig_stop(5000);
	assert_int_equal(rig_flags(&req), LACKS | UNSURE);
	o.stamp = 2;
	beat(&a, &o, 1);
	beat(&a, &o, 1);
	assert_int_equal(rig_flags(&req), 0);
}

static void
a_master_that_lost_all_its_nodes_is_not_sure(void **state)
{
	(void)state;
	rig_send(&a.p, KV_MSG_LEAVE, NULL, NULL, 0);
	rig_ms(1);
	assert_int_equal(rig_flags(&req), LACKS | UNSURE);
}

/* ---- the answer ---- */

static void
the_answer_lists_nodes_when_they_changed(void **state)
{
	uint64_t digest;

	(void)state;
	answer.stamp = kv_le64(0);
	beat(&a, NULL, 0);
	assert_true(kv_get64(answer.stamp) > 0);
	assert_int_equal(kv_get32(answer.nodes), 1);
	assert_int_equal(kv_get32(answer.listed), 0);
	digest = kv_get64(answer.digest);
	assert_true(digest != 0);
	up(&b, "10.0.0.3", 2, 2);
	/* b heard of both at once. */
	assert_int_equal(kv_get32(answer.nodes), 2);
	assert_int_equal(kv_get32(answer.listed), 0);
	beat(&a, NULL, 0);
	assert_int_equal(kv_get32(answer.nodes), 2);
	assert_int_equal(kv_get32(answer.listed), 2);
	assert_memory_equal(&ids[0], &(struct kv_le64){ { 1 } }, 8);
	assert_memory_equal(&ids[1], &(struct kv_le64){ { 2 } }, 8);
	assert_true(kv_get64(answer.digest) != digest);
	rig_kill(&b);
	rig_ms(50);
	beat(&a, NULL, 0);
	assert_int_equal(kv_get32(answer.listed), 1);
	assert_int_equal(kv_get64(answer.digest), digest);
}

static void
broken_words_end_the_session(void **state)
{
	const struct other o = { 200, 1, 9, 2, true, { 1, 2 } };
	static struct rignode bad[4];
	uint8_t tail[512];
	size_t len;
	unsigned i;

	(void)state;
	for (i = 0; i < 4; i++) {
		up(&bad[i], "10.0.0.4", (uint8_t)(50 + i), 2);
		bad[i].room.others = 1;
		len = others_build(tail, &o, 1);
		if (i == 0)
			len--; /* cut off */
		else if (i == 1)
			tail[36]--; /* half a list, and something behind it */
		else if (i == 2)
			tail[39] = 0xff; /* a very long list */
		else
			bad[i].room.others = KV_MASTERS_MAX;
		rig_send(&bad[i].p, KV_MSG_HEARTBEAT, &bad[i].room, tail, len);
		rig_expect_dropped(&bad[i].p);
		rig_kill(&bad[i]);
	}
	assert_int_equal(rig_stat(&req, "kvpool_master_messages_bad_total"), 4);
}

#define TWO(f) cmocka_unit_test_setup_teardown(f, setup, rig_teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(with_one_master_nothing_is_doubted,
					  rig_teardown),
		TWO(a_master_that_nobody_tells_of_is_missed),
		TWO(what_only_another_has_is_lacking),
		TWO(it_says_how_long_it_has_run),
		TWO(nodes_away_are_counted_in_answers),
		TWO(news_are_listed_once_and_asked_for_if_missed),
		TWO(a_master_without_news_is_forgotten),
		TWO(there_is_a_bound_of_masters),
		TWO(a_node_is_fresh_as_long_as_it_repeats_stamps),
		TWO(a_node_that_another_master_hears_is_left_to_it),
		TWO(what_it_has_is_judged_by_the_other_one),
		TWO(who_is_asked_hears_of_the_other_copy),
		TWO(one_that_may_have_another_master_is_not_waited_for),
		TWO(one_that_had_this_one_alone_is),
		TWO(when_it_comes_back_nothing_old_is_shown),
		TWO(a_suspect_node_is_left_to_others_too),
		TWO(a_master_that_was_stopped_answers_for_nobody),
		TWO(a_master_that_lost_all_its_nodes_is_not_sure),
		TWO(the_answer_lists_nodes_when_they_changed),
		TWO(broken_words_end_the_session),
	};

	kv_log_set_level(KV_LOG_ERR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
