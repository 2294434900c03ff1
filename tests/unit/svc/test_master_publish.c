/* What nodes publish, and which of two values of one key stays. */

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "masterrig.h"
#include "svc/mastercore.h"

#include "test.h"

enum {
	A = 1 << 1,
	B = 1 << 2,
	C = 1 << 3,
	STAYS = KV_VERDICT_STAYS,
	GOES = KV_VERDICT_GOES,
	OPEN = KV_VERDICT_OPEN,
};

static struct rignode a, b, c;
static struct rigpeer req;

static int
setup_three(void **state)
{
	rig_setup(state);
	rig_up(&a, "10.0.0.2", 52, 1);
	rig_up(&b, "10.0.0.3", 52, 2);
	rig_up(&c, "10.0.0.4", 52, 3);
	rig_requester(&req, "10.0.0.9");
	return 0;
}

/* ---- plain ---- */

static void
a_key_is_found_until_it_is_gone(void **state)
{
	(void)state;
	assert_false(rig_exists(&req, 1));
	assert_int_equal(rig_put(&a, 1, 10, 0), STAYS);
	assert_true(rig_exists(&req, 1));
	assert_int_equal(rig_owners(&req, 1), A);
	rig_gone(&a, 1, 10);
	assert_false(rig_exists(&req, 1));
	assert_int_equal(rig_owners(&req, 1), 0);
}

static void
replicas_share_their_id(void **state)
{
	(void)state;
	assert_int_equal(rig_put(&a, 1, 10, 0), STAYS);
	assert_int_equal(rig_put(&b, 1, 10, 0), STAYS);
	assert_int_equal(rig_owners(&req, 1), A | B);
	rig_gone(&a, 1, 10);
	assert_int_equal(rig_owners(&req, 1), B);
}

static void
gone_of_another_id_changes_nothing(void **state)
{
	(void)state;
	assert_int_equal(rig_put(&a, 1, 10, 0), STAYS);
	rig_gone(&a, 1, 11);
	rig_gone(&b, 1, 10);
	assert_int_equal(rig_owners(&req, 1), A);
}

static void
a_frame_is_taken_in_its_order(void **state)
{
	struct kv_publish_ent e[] = { rig_ent(1, 10, 0), rig_ent(2, 20, 0),
				      rig_ent(1, 10, 0) };
	struct wireframe *f;

	(void)state;
	f = rig_publish(&a, 0, e, 2, 1);
	assert_int_equal(f->tail[0], STAYS);
	assert_int_equal(f->tail[1], STAYS);
	wireframe_free(f);
	assert_false(rig_exists(&req, 1));
	assert_true(rig_exists(&req, 2));
}

static void
more_replicas_than_the_bound_go(void **state)
{
	static struct rignode more[KV_REPLICAS_MAX + 1];
	unsigned i;

	(void)state;
	for (i = 0; i <= KV_REPLICAS_MAX; i++) {
		rig_up(&more[i], "10.0.1.1", 100 + i, (uint8_t)(10 + i));
		assert_int_equal(rig_put(&more[i], 1, 10, 0),
				 i < KV_REPLICAS_MAX ? STAYS : GOES);
	}
}

/* As when a node on a pool file is killed time and again while it starts. */
static void
who_is_back_stands_before_those_without_a_session(void **state)
{
	static struct rignode old[KV_REPLICAS_MAX], back;
	unsigned i;

	(void)state;
	for (i = 0; i < KV_REPLICAS_MAX; i++) {
		rig_up(&old[i], "10.0.1.1", 100 + i, (uint8_t)(10 + i));
		assert_int_equal(rig_put(&old[i], 1, 10, 0), STAYS);
	}
	for (i = 0; i < KV_REPLICAS_MAX; i++)
		rig_close(&old[i].p);
	rig_up(&back, "10.0.1.1", 200, 20);
	assert_int_equal(rig_put(&back, 1, 10, 0), STAYS);
	assert_true(rig_exists(&req, 1));
}

static void
a_large_frame_is_done_in_slices(void **state)
{
	enum {
		N = 30000
	};
	static struct kv_publish_ent e[N];
	struct kv_publish p = { .added = kv_le32(N) };
	struct kv_publish g = { .gone = kv_le32(1) };
	unsigned i;

	(void)state;
	for (i = 0; i < N; i++)
		e[i] = rig_ent(i, 7, 0);
	rig_send(&a.p, KV_MSG_PUBLISH, &p, e, sizeof(e));
	/* What comes behind it waits for it. */
	rig_send(&a.p, KV_MSG_PUBLISH, &g, &e[N - 1], sizeof(e[1]));
	wireframe_free(rig_wait(&a.p, KV_MSG_PUBLISH_R));
	wireframe_free(rig_wait(&a.p, KV_MSG_PUBLISH_R));
	for (i = 0; i < N; i += 999)
		assert_true(rig_exists(&req, i));
	assert_false(rig_exists(&req, N - 1));
	assert_int_equal(rig_stat(&req, "master_key_count"), N - 1);
}

/* One turn of the loop, which is more than simnet lets one see. */
static void
turn(void)
{
	uint64_t next = kv_loop_next(rig.loop);

	if (next > rig.clock.ns)
		rig.clock.ns = next;
	kv_loop_turn(rig.loop, 0);
}

static void
others_are_served_between_slices(void **state)
{
	enum {
		N = 32000
	};
	static struct kv_publish_ent e[N];
	struct kv_publish p = { .added = kv_le32(N) };
	struct kv_lookup l = { .count = kv_le32(1), .flags = KV_LOOKUP_EXIST };
	static struct rigpeer near;
	unsigned i;

	(void)state;
	rig_requester(&near, RIG_MASTER);
	for (i = 0; i < N; i++)
		e[i] = rig_ent(i, 7, 0);
	rig_send(&a.p, KV_MSG_PUBLISH, &p, e, sizeof(e));
	rig_send(&b.p, KV_MSG_PUBLISH, &p, e, sizeof(e));
	while (kv_list_is_empty(&rig.m->jobs))
		turn();
	rig_send(&near, KV_MSG_LOOKUP, &l, e, sizeof(struct kv_id));
	while (wirepeer_count(&near.w, KV_MSG_LOOKUP_R) == 0)
		turn();
	assert_false(kv_list_is_empty(&rig.m->jobs));
	wireframe_free(rig_wait(&a.p, KV_MSG_PUBLISH_R));
	wireframe_free(rig_wait(&b.p, KV_MSG_PUBLISH_R));
	assert_int_equal(rig_owners(&req, N - 1), A | B);
}

static void
a_node_lost_in_the_middle_of_a_frame(void **state)
{
	enum {
		N = 30000
	};
	static struct kv_publish_ent e[N];
	struct kv_publish p = { .added = kv_le32(N) };
	unsigned i;

	(void)state;
	for (i = 0; i < N; i++)
		e[i] = rig_ent(i, 7, 0);
	rig_send(&a.p, KV_MSG_PUBLISH, &p, e, sizeof(e));
	rig_kill(&a);
	rig_ms(50);
	assert_int_equal(rig_owners(&req, 1), 0);
	assert_int_equal(rig_stat(&req, "master_key_count"), 0);
}

/* ---- two values ---- */

static void
the_first_stays_if_its_owner_confirms(void **state)
{
	(void)state;
	assert_int_equal(rig_put(&a, 1, 10, 0), STAYS);
	assert_int_equal(rig_put(&b, 1, 20, 0), OPEN);
	assert_int_equal(rig_owners(&req, 1), A);
	assert_int_equal(rig_confirm(&a, true), 1);
	assert_int_equal(rig_decided(&b, 1, 20), GOES);
	assert_int_equal(rig_owners(&req, 1), A);
	assert_int_equal(rig_decides(&a), 0);
}

static void
the_second_stays_if_the_first_is_gone(void **state)
{
	(void)state;
	assert_int_equal(rig_put(&a, 1, 10, 0), STAYS);
	assert_int_equal(rig_put(&b, 1, 20, 0), OPEN);
	rig_confirm(&a, false);
	assert_int_equal(rig_decided(&b, 1, 20), STAYS);
	assert_int_equal(rig_owners(&req, 1), B);
}

static void
all_owners_are_asked_in_turn(void **state)
{
	(void)state;
	rig_put(&a, 1, 10, 0);
	rig_put(&b, 1, 10, 0);
	assert_int_equal(rig_put(&c, 1, 30, 0), OPEN);
	rig_ms(5);
	if (wirepeer_count(&a.p.w, KV_MSG_CHECK) == 1) {
		rig_confirm(&a, false);
		rig_confirm(&b, true);
		assert_int_equal(rig_decided(&c, 1, 30), GOES);
		assert_int_equal(rig_owners(&req, 1), B);
	} else {
		rig_confirm(&b, false);
		rig_confirm(&a, true);
		assert_int_equal(rig_decided(&c, 1, 30), GOES);
		assert_int_equal(rig_owners(&req, 1), A);
	}
}

static void
three_values_of_one_key(void **state)
{
	(void)state;
	assert_int_equal(rig_put(&a, 1, 10, 0), STAYS);
	assert_int_equal(rig_put(&b, 1, 20, 0), OPEN);
	assert_int_equal(rig_put(&c, 1, 30, 0), OPEN);
	/* Both wait for A; B is first, then C meets B's value. */
	rig_ms(2);
	rig_confirm(&a, false);
	if (wirepeer_count(&a.p.w, KV_MSG_CHECK) > 0)
		rig_confirm(&a, false);
	assert_int_equal(rig_decided(&b, 1, 20), STAYS);
	rig_confirm(&b, true);
	assert_int_equal(rig_decided(&c, 1, 30), GOES);
	assert_int_equal(rig_owners(&req, 1), B);
}

static void
keys_of_one_turn_are_checked_together(void **state)
{
	enum {
		N = 200
	};
	struct kv_publish_ent e[N];
	struct wireframe *f;
	unsigned i;

	(void)state;
	for (i = 0; i < N; i++)
		e[i] = rig_ent(i, 10, 0);
	wireframe_free(rig_publish(&a, 0, e, N, 0));
	for (i = 0; i < N; i++)
		e[i] = rig_ent(i, 20, 0);
	f = rig_publish(&b, 0, e, N, 0);
	for (i = 0; i < N; i++)
		assert_int_equal(f->tail[i], OPEN);
	wireframe_free(f);
	assert_int_equal(rig_confirm(&a, true), N);
	f = rig_wait(&b.p, KV_MSG_DECIDE);
	assert_int_equal(kv_get32(((struct kv_decide *)f->body)->count), N);
	wireframe_free(f);
}

static void
a_higher_version_wins_at_once(void **state)
{
	(void)state;
	assert_int_equal(rig_put(&a, 1, 10, 0), STAYS);
	assert_int_equal(rig_put(&b, 1, 10, 0), STAYS);
	assert_int_equal(rig_put(&c, 1, 30, 1), STAYS);
	assert_int_equal(rig_owners(&req, 1), C);
	assert_int_equal(rig_decided(&a, 1, 10), GOES);
	assert_int_equal(rig_decided(&b, 1, 10), GOES);
	assert_int_equal(wirepeer_count(&a.p.w, KV_MSG_CHECK), 0);
}

static void
a_lower_version_is_checked_too(void **state)
{
	(void)state;
	assert_int_equal(rig_put(&a, 1, 10, 5), STAYS);
	assert_int_equal(rig_put(&b, 1, 20, 4), OPEN);
	rig_confirm(&a, true);
	assert_int_equal(rig_decided(&b, 1, 20), GOES);
	assert_int_equal(rig_put(&c, 1, 30, 4), OPEN);
	rig_confirm(&a, false);
	assert_int_equal(rig_decided(&c, 1, 30), STAYS);
	assert_int_equal(rig_owners(&req, 1), C);
}

static void
same_version_and_another_version_meet_in_any_order(void **state)
{
	(void)state;
	assert_int_equal(rig_put(&a, 1, 10, 2), STAYS);
	assert_int_equal(rig_put(&b, 1, 20, 2), OPEN);
	/* The upsert comes while A is being asked. */
	assert_int_equal(rig_put(&c, 1, 30, 3), STAYS);
	assert_int_equal(rig_decided(&a, 1, 10), GOES);
	rig_confirm(&a, false);
	/* B's copy meets C's now. */
	rig_confirm(&c, true);
	assert_int_equal(rig_decided(&b, 1, 20), GOES);
	assert_int_equal(rig_owners(&req, 1), C);
}

static void
a_nodes_own_later_word_needs_no_check(void **state)
{
	(void)state;
	assert_int_equal(rig_put(&a, 1, 10, 0), STAYS);
	assert_int_equal(rig_put(&a, 1, 11, 0), STAYS);
	assert_int_equal(rig_owners(&req, 1), A);
	rig_gone(&a, 1, 10);
	assert_int_equal(rig_owners(&req, 1), A);
	rig_gone(&a, 1, 11);
	assert_int_equal(rig_owners(&req, 1), 0);
}

static void
a_silent_owner_is_asked_again(void **state)
{
	(void)state;
	rig_put(&a, 1, 10, 0);
	assert_int_equal(rig_put(&b, 1, 20, 0), OPEN);
	rig_ms(1200);
	assert_int_equal(rig_decides(&b), 0);
	assert_int_equal(a.probed, 1);
	assert_int_equal(wirepeer_count(&a.p.w, KV_MSG_CHECK), 2);
	wireframe_free(rig_wait(&a.p, KV_MSG_CHECK));
	rig_confirm(&a, true);
	assert_int_equal(rig_decided(&b, 1, 20), GOES);
	assert_int_equal(rig_owners(&req, 1), A);
	/* That is forgotten. */
	assert_int_equal(rig_put(&b, 1, 30, 0), OPEN);
	rig_ms(1200);
	wireframe_free(rig_wait(&a.p, KV_MSG_CHECK));
	rig_confirm(&a, true);
	assert_int_equal(rig_decided(&b, 1, 30), GOES);
}

static void
an_owner_that_stays_silent_holds_nothing(void **state)
{
	(void)state;
	rig_put(&a, 1, 10, 0);
	assert_int_equal(rig_put(&b, 1, 20, 0), OPEN);
	rig_ms(2100);
	assert_int_equal(rig_decides(&b), 0);
	/* It answers probes all the while. */
	assert_int_equal(rig_decided(&b, 1, 20), STAYS);
	assert_int_equal(rig_owners(&req, 1), B);
	rig_expect_dropped(&a.p);
}

static void
a_frozen_owner_holds_nothing(void **state)
{
	(void)state;
	rig_put(&a, 1, 10, 0);
	a.is_frozen = true;
	assert_int_equal(rig_put(&b, 1, 20, 0), OPEN);
	rig_ms(2100);
	assert_int_equal(rig_decided(&b, 1, 20), STAYS);
	assert_int_equal(rig_owners(&req, 1), B);
	rig_expect_dropped(&a.p);
}

static void
a_silent_owner_that_is_suspect_is_not(void **state)
{
	(void)state;
	rig_put(&a, 1, 10, 0);
	a.is_frozen = true;
	rig_report(&req, &a, false);
	rig_ms(1100);
	assert_int_equal(rig_state(&req, &a), KV_NODE_SUSPECT);
	assert_int_equal(rig_put(&b, 1, 20, 0), OPEN);
	rig_ms(1100);
	assert_int_equal(rig_decided(&b, 1, 20), STAYS);
	assert_int_equal(rig_owners(&req, 1), B);
	/* When it wakes up it publishes anew: one of the two is to go. */
	rig_expect_dropped(&a.p);
}

static void
an_owner_whose_session_breaks_confirms_nothing(void **state)
{
	(void)state;
	rig_put(&a, 1, 10, 0);
	assert_int_equal(rig_put(&b, 1, 20, 0), OPEN);
	rig_ms(5);
	a.is_frozen = true; /* else it would be gone, not lost */
	rig_close(&a.p);
	assert_int_equal(rig_decided(&b, 1, 20), STAYS);
	assert_int_equal(rig_owners(&req, 1), B);
}

static void
an_owner_without_session_is_not_asked(void **state)
{
	(void)state;
	rig_put(&a, 1, 10, 0);
	rig_close(&a.p);
	rig_ms(5);
	assert_int_equal(rig_owners(&req, 1), A);
	assert_int_equal(rig_put(&b, 1, 20, 0), STAYS);
	assert_int_equal(rig_owners(&req, 1), B);
}

static void
a_bad_answer_to_check_is_none(void **state)
{
	struct kv_check_r r = { .count = kv_le32(2) };
	struct wireframe *f;

	(void)state;
	rig_put(&a, 1, 10, 0);
	assert_int_equal(rig_put(&b, 1, 20, 0), OPEN);
	f = rig_wait(&a.p, KV_MSG_CHECK);
	wirepeer_send(&a.p.w, KV_MSG_CHECK_R, f->id, &r, "\0\0", 2);
	wireframe_free(f);
	assert_int_equal(rig_decided(&b, 1, 20), STAYS);
	rig_expect_dropped(&a.p);
}

static void
a_claimant_that_lets_go_claims_no_more(void **state)
{
	(void)state;
	rig_put(&a, 1, 10, 0);
	assert_int_equal(rig_put(&b, 1, 20, 0), OPEN);
	rig_gone(&b, 1, 20);
	rig_confirm(&a, false);
	assert_int_equal(rig_decides(&b), 0);
	/* Nobody asked A's place, so it is as it was. */
	assert_int_equal(rig_owners(&req, 1), A);
}

/* What was there a moment ago is never missed for lack of an answer. */
static void
a_claimant_takes_the_place_of_what_is_gone(void **state)
{
	struct kv_publish_ent e = rig_ent(1, 30, 0);

	(void)state;
	rig_put(&a, 1, 10, 0);
	assert_int_equal(rig_put(&b, 1, 20, 0), OPEN);
	e.flags = KV_PUBLISH_SHOWN;
	wireframe_free(rig_publish(&c, 0, &e, 1, 0));
	rig_gone(&a, 1, 10);
	assert_int_equal(rig_owners(&req, 1), C);
	assert_int_equal(rig_decided(&c, 1, 30), STAYS);
	rig_confirm(&a, false);
	/* The other one is judged anew. */
	rig_confirm(&c, true);
	assert_int_equal(rig_decided(&b, 1, 20), GOES);
	assert_int_equal(rig_owners(&req, 1), C);
	assert_int_equal(rig_decides(&c), 0);
}

static void
a_claimant_that_is_lost_claims_no_more(void **state)
{
	(void)state;
	rig_put(&a, 1, 10, 0);
	assert_int_equal(rig_put(&b, 1, 20, 0), OPEN);
	rig_ms(5);
	rig_kill(&b);
	rig_ms(5);
	rig_confirm(&a, false);
	rig_ms(5);
	assert_int_equal(rig_owners(&req, 1), A);
	assert_int_equal(rig_state(&req, &b), 0);
}

/* ---- leaving ---- */

static void
leaving_is_at_once(void **state)
{
	struct wireframe *f;

	(void)state;
	rig_put(&a, 1, 10, 0);
	a.beats = false;
	rig_send(&a.p, KV_MSG_LEAVE, NULL, NULL, 0);
	rig_ms(1);
	assert_int_equal(rig_state(&req, &a), 0);
	assert_false(rig_exists(&req, 1));
	/* It may still be draining. */
	assert_null(rig_publish(&a, 0, NULL, 0, 0));
	f = rig_ask(&a.p, KV_MSG_HEARTBEAT, NULL, NULL, 0);
	assert_int_equal(((struct kv_heartbeat_r *)f->body)->status,
			 KV_ECLOSED);
	wireframe_free(f);
	assert_int_equal(a.probed, 0);
}

static void
leaving_decides_what_it_was_asked(void **state)
{
	(void)state;
	rig_put(&a, 1, 10, 0);
	assert_int_equal(rig_put(&b, 1, 20, 0), OPEN);
	rig_ms(5);
	rig_send(&a.p, KV_MSG_LEAVE, NULL, NULL, 0);
	assert_int_equal(rig_decided(&b, 1, 20), STAYS);
	assert_int_equal(rig_owners(&req, 1), B);
}

#define THREE(f) cmocka_unit_test_setup_teardown(f, setup_three, rig_teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		THREE(a_key_is_found_until_it_is_gone),
		THREE(replicas_share_their_id),
		THREE(gone_of_another_id_changes_nothing),
		THREE(a_frame_is_taken_in_its_order),
		THREE(more_replicas_than_the_bound_go),
		THREE(who_is_back_stands_before_those_without_a_session),
		THREE(a_large_frame_is_done_in_slices),
		THREE(others_are_served_between_slices),
		THREE(a_node_lost_in_the_middle_of_a_frame),
		THREE(the_first_stays_if_its_owner_confirms),
		THREE(the_second_stays_if_the_first_is_gone),
		THREE(all_owners_are_asked_in_turn),
		THREE(three_values_of_one_key),
		THREE(keys_of_one_turn_are_checked_together),
		THREE(a_higher_version_wins_at_once),
		THREE(a_lower_version_is_checked_too),
		THREE(same_version_and_another_version_meet_in_any_order),
		THREE(a_nodes_own_later_word_needs_no_check),
		THREE(a_silent_owner_is_asked_again),
		THREE(an_owner_that_stays_silent_holds_nothing),
		THREE(a_frozen_owner_holds_nothing),
		THREE(a_silent_owner_that_is_suspect_is_not),
		THREE(an_owner_whose_session_breaks_confirms_nothing),
		THREE(an_owner_without_session_is_not_asked),
		THREE(a_bad_answer_to_check_is_none),
		THREE(a_claimant_that_lets_go_claims_no_more),
		THREE(a_claimant_takes_the_place_of_what_is_gone),
		THREE(a_claimant_that_is_lost_claims_no_more),
		THREE(leaving_is_at_once),
		THREE(leaving_decides_what_it_was_asked),
	};

	kv_log_set_level(KV_LOG_ERR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
