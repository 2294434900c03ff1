/* How a master gives nodes up, and when it does not. */

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "masterrig.h"
#include "svc/mastercore.h"

#include "test.h"

enum {
	A = 1 << 1,
	B = 1 << 2,
	STAYS = KV_VERDICT_STAYS,
	GOES = KV_VERDICT_GOES,
	OPEN = KV_VERDICT_OPEN,
	ALL = KV_PUBLISH_SYNC | KV_PUBLISH_SYNC_END,
};

static struct rignode a, b;
static struct rigpeer req;

static int
setup_two(void **state)
{
	rig_setup(state);
	rig_up(&a, "10.0.0.2", 52, 1);
	rig_up(&b, "10.0.0.3", 52, 2);
	rig_requester(&req, "10.0.0.9");
	return 0;
}

/* ---- the end ---- */

static void
a_silent_node_is_given_up_after_the_ttl(void **state)
{
	(void)state;
	rig_put(&a, 1, 10, 0);
	a.beats = false;
	rig_ms(9800);
	assert_true(rig_exists(&req, 1));
	rig_ms(900);
	assert_false(rig_exists(&req, 1));
	assert_int_equal(rig_state(&req, &a), 0);
	assert_int_equal(rig_state(&req, &b), KV_NODE_LIVE);
	assert_true(a.p.w.is_lost);
}

/* Then it may have been cut off itself, and they have all that they had. */
static void
a_master_that_hears_nobody_proves_no_miss(void **state)
{
	(void)state;
	rig_put(&a, 1, 10, 0);
	a.beats = false;
	rig_ms(3000);
	b.beats = false;
	rig_ms(7800);
	assert_int_equal(rig_stat(&req, "master_active_clients"), 1);
	assert_false(rig_is_incomplete(&req));
	rig_ms(30000);
	assert_int_equal(rig_stat(&req, "master_active_clients"), 0);
	assert_true(rig_is_incomplete(&req));
	rig_kill(&b);
	rig_up(&b, "10.0.0.3", 53, 2);
	assert_true(rig_is_incomplete(&req));
	rig_ms(9000);
	assert_true(rig_is_incomplete(&req));
	rig_ms(1100);
	assert_false(rig_is_incomplete(&req));
}

static void
a_killed_process_is_gone_at_once(void **state)
{
	(void)state;
	rig_put(&a, 1, 10, 0);
	rig_kill(&a);
	rig_ms(5);
	assert_false(rig_exists(&req, 1));
	assert_int_equal(rig_state(&req, &a), 0);
	assert_int_equal(rig_stat(&req, "kvpool_master_nodes_lost_total"), 1);
}

static void
another_process_at_the_address_means_gone(void **state)
{
	static struct rignode new;

	(void)state;
	rig_put(&a, 1, 10, 0);
	simnet_cut(rig.sn, "10.0.0.2", RIG_MASTER);
	rig_ms(10);
	rig_kill(&a);
	rig_listen(&new, "10.0.0.2", 52, 3);
	simnet_heal(rig.sn, "10.0.0.2", RIG_MASTER);
	rig_ms(10);
	assert_int_equal(new.probed, 1);
	assert_false(rig_exists(&req, 1));
	assert_int_equal(rig_state(&req, &a), 0);
}

static void
a_closed_port_alone_is_no_death(void **state)
{
	(void)state;
	rig_put(&a, 1, 10, 0);
	rig_unlisten(&a);
	rig_report(&req, &a, false);
	rig_ms(10);
	assert_int_equal(rig_state(&req, &a), KV_NODE_SUSPECT);
}

static void
a_broken_session_alone_is_no_death(void **state)
{
	(void)state;
	rig_put(&a, 1, 10, 0);
	rig_close(&a.p);
	rig_ms(50);
	assert_int_equal(a.probed, 1);
	assert_true(rig_exists(&req, 1));
	assert_int_equal(rig_state(&req, &a), KV_NODE_LIVE);
	rig_ms(9000);
	assert_true(rig_exists(&req, 1));
	rig_ms(2000);
	assert_false(rig_exists(&req, 1));
	assert_int_equal(rig_state(&req, &a), 0);
}

/* What it was given since then was not published. */
static void
no_miss_is_sure_while_a_session_is_lost(void **state)
{
	(void)state;
	rig_ms(11000);
	assert_false(rig_is_incomplete(&req));
	rig_close(&a.p);
	rig_ms(50);
	assert_int_equal(rig_state(&req, &a), KV_NODE_LIVE);
	assert_true(rig_is_incomplete(&req));
	rig_again(&a);
	assert_int_equal(rig_join(&a, NULL), 0);
	assert_true(rig_is_incomplete(&req));
	wireframe_free(rig_publish(&a, ALL, NULL, 0, 0));
	assert_false(rig_is_incomplete(&req));
	/* Of one that cannot be reached nothing can be had. */
	rig_close(&a.p);
	a.is_frozen = true;
	rig_ms(1100);
	assert_int_equal(rig_state(&req, &a), KV_NODE_SUSPECT);
	assert_false(rig_is_incomplete(&req));
	a.is_frozen = false;
	rig_ms(1100);
	assert_int_equal(rig_state(&req, &a), KV_NODE_LIVE);
	assert_true(rig_is_incomplete(&req));
	/* Nor of one that is gone. */
	rig_ms(10000);
	assert_int_equal(rig_state(&req, &a), 0);
	assert_false(rig_is_incomplete(&req));
	rig_kill(&b);
	rig_ms(5);
	assert_false(rig_is_incomplete(&req));
	assert_int_equal(rig.m->n_mute, 0);
}

static void
a_lost_host_is_hidden_first(void **state)
{
	(void)state;
	rig_put(&a, 1, 10, 0);
	simnet_cut(rig.sn, "10.0.0.2", NULL);
	simnet_cut(rig.sn, NULL, "10.0.0.2");
	a.beats = false;
	rig_report(&req, &a, false);
	rig_ms(1100);
	assert_false(rig_exists(&req, 1));
	assert_int_equal(rig_state(&req, &a), KV_NODE_SUSPECT);
	rig_ms(9500);
	assert_int_equal(rig_state(&req, &a), 0);
}

static void
a_dead_nodes_keys_are_misses_while_it_is_swept(void **state)
{
	enum {
		N = 200000,
		FRAME = 20000
	};
	static struct kv_publish_ent e[FRAME];
	static struct rigpeer near;
	struct kv_lookup l = { .count = kv_le32(1), .flags = KV_LOOKUP_EXIST };
	struct wireframe *f;
	unsigned i, j, turns = 0;

	(void)state;
	for (i = 0; i < N; i += FRAME) {
		for (j = 0; j < FRAME; j++)
			e[j] = rig_ent(i + j, 10, 0);
		wireframe_free(rig_publish(&a, 0, e, FRAME, 0));
	}
	rig_put(&b, N + 1, 1, 0);
	rig_requester(&near, RIG_MASTER);
	rig_kill(&a);
	while (rig.m->n_members == 2) {
		rig.clock.ns = kv_loop_next(rig.loop);
		kv_loop_turn(rig.loop, 0);
	}
	/* A question in the middle of the sweep is answered, and well. */
	rig_send(&near, KV_MSG_LOOKUP, &l, e, sizeof(struct kv_id));
	while (wirepeer_count(&near.w, KV_MSG_LOOKUP_R) == 0) {
		rig.clock.ns = kv_loop_next(rig.loop);
		kv_loop_turn(rig.loop, 0);
		turns++;
	}
	assert_true(turns < 20);
	assert_false(kv_dir_slot_is_swept(rig.m->dir, 0));
	f = rig_wait(&near, KV_MSG_LOOKUP_R);
	assert_int_equal(f->tail[0], 0);
	wireframe_free(f);
	rig_ms(5);
	assert_true(kv_dir_slot_is_swept(rig.m->dir, 0));
	assert_int_equal(rig_stat(&near, "master_key_count"), 1);
}

/* ---- the master was frozen ---- */

static void
a_stop_of_the_master_kills_nobody(void **state)
{
	unsigned i;

	(void)state;
	rig_put(&a, 1, 10, 0);
	for (i = 0; i < 3; i++) {
		rig_stop(30000);
		assert_true(rig_exists(&req, 1));
		rig_ms(20000);
		assert_int_equal(rig_state(&req, &a), KV_NODE_LIVE);
		assert_int_equal(rig_state(&req, &b), KV_NODE_LIVE);
	}
	assert_in_range(rig_stat(&req, "kvpool_master_stopped_ms_total"), 89000,
			91000);
}

static void
time_before_a_stop_counts(void **state)
{
	(void)state;
	rig_put(&a, 1, 10, 0);
	a.beats = false;
	rig_ms(6000);
	rig_stop(30000);
	rig_ms(3500);
	assert_true(rig_exists(&req, 1));
	rig_ms(1500);
	assert_false(rig_exists(&req, 1));
}

static void
a_probe_that_slept_proves_nothing(void **state)
{
	(void)state;
	a.is_frozen = true;
	rig_report(&req, &a, false);
	rig_ms(5);
	assert_int_equal(a.probed, 1);
	a.is_frozen = false;
	rig_stop(30000);
	assert_int_equal(rig_state(&req, &a), KV_NODE_LIVE);
	rig_ms(2000);
	assert_int_equal(a.probed, 2);
	assert_int_equal(rig_state(&req, &a), KV_NODE_LIVE);
	assert_int_equal(rig_stat(&req, "kvpool_master_suspected_total"), 0);
}

static char line[512];
static unsigned lines;

static void
keep_line(void *arg, enum kv_log_level level, const char *msg)
{
	(void)arg;
	(void)level;
	snprintf(line, sizeof(line), "%s", msg);
	lines++;
}

static void
a_stop_is_one_line(void **state)
{
	(void)state;
	lines = 0;
	kv_log_set_level(KV_LOG_WARN);
	kv_log_set_sink(keep_line, NULL);
	rig_stop(30000);
	rig_ms(1000);
	kv_log_set_sink(NULL, NULL);
	kv_log_set_level(KV_LOG_ERR);
	assert_int_equal(lines, 1);
	assert_non_null(strstr(line, "stopped for 30 s"));
}

/* Joins from another host with the address of a; how many lines that gives. */
static unsigned
join_as_a(void)
{
	rig_node(&b, "10.0.0.3", 52, 2);
	lines = 0;
	kv_log_set_level(KV_LOG_WARN);
	kv_log_set_sink(keep_line, NULL);
	assert_int_equal(rig_join(&b, "10.0.0.2:52"), 0);
	kv_log_set_sink(NULL, NULL);
	kv_log_set_level(KV_LOG_ERR);
	return lines;
}

static void
two_nodes_of_one_address_are_told(void **state)
{
	(void)state;
	rig_up(&a, "10.0.0.2", 52, 1);
	rig_requester(&req, "10.0.0.9");
	assert_int_equal(join_as_a(), 1);
	assert_non_null(strstr(line, "two nodes have addr=10.0.0.2:52,"));
	assert_non_null(strstr(line, "name=\"n01\" and name=\"n02\""));
	/* They stay, but one of them is not found there. */
	wireframe_free(rig_publish(&b, ALL, NULL, 0, 0));
	rig_put(&a, 1, 10, 0);
	rig_put(&b, 2, 10, 0);
	rig_report(&req, &b, false);
	rig_ms(10);
	assert_int_equal(rig_state(&req, &a), KV_NODE_LIVE);
	assert_int_equal(rig_state(&req, &b), KV_NODE_SUSPECT);
	assert_true(rig_exists(&req, 1));
	assert_false(rig_exists(&req, 2));
}

/* Its host lost power, and nobody has told the master. */
static void
the_last_life_of_a_node_is_no_other_node(void **state)
{
	(void)state;
	rig_up(&a, "10.0.0.2", 52, 1);
	a.beats = false;
	rig_ms(3000);
	assert_int_equal(join_as_a(), 0);
}

#define TWO(f) cmocka_unit_test_setup_teardown(f, setup_two, rig_teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TWO(a_silent_node_is_given_up_after_the_ttl),
		TWO(a_master_that_hears_nobody_proves_no_miss),
		TWO(a_killed_process_is_gone_at_once),
		TWO(another_process_at_the_address_means_gone),
		TWO(a_closed_port_alone_is_no_death),
		TWO(a_broken_session_alone_is_no_death),
		TWO(no_miss_is_sure_while_a_session_is_lost),
		TWO(a_lost_host_is_hidden_first),
		TWO(a_dead_nodes_keys_are_misses_while_it_is_swept),
		TWO(a_stop_of_the_master_kills_nobody),
		TWO(time_before_a_stop_counts),
		TWO(a_probe_that_slept_proves_nothing),
		TWO(a_stop_is_one_line),
		RIG_TEST(two_nodes_of_one_address_are_told),
		RIG_TEST(the_last_life_of_a_node_is_no_other_node),
	};

	kv_log_set_level(KV_LOG_ERR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
