/* How nodes come to a master, and come back. */

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

/* ---- joining ---- */

static void
join_tells_the_terms(void **state)
{
	struct kv_join j = { .addr_len = 3, .name_len = 2 };
	struct wireframe *f;
	struct kv_join_r *r;

	(void)state;
	rig_node(&a, "10.0.0.2", 52, 1);
	f = rig_ask(&a.p, KV_MSG_JOIN, &j, ":52n1", 5);
	r = (void *)f->body;
	assert_int_equal(r->status, 0);
	assert_int_equal(kv_get32(r->heartbeat_ms), 1000);
	assert_int_equal(kv_get32(r->ttl_ms), 10000);
	wireframe_free(f);
	rig_requester(&req, "10.0.0.9");
	assert_int_equal(rig_state(&req, &a), KV_NODE_JOINING);
	wireframe_free(rig_publish(&a, ALL, NULL, 0, 0));
	assert_int_equal(rig_state(&req, &a), KV_NODE_LIVE);
}

static void
records_say_what_heartbeats_say(void **state)
{
	const struct kv_node_rec *rec;
	struct wireframe *f;

	(void)state;
	rig_up(&a, "10.0.0.2", 52, 1);
	rig_requester(&req, "10.0.0.9");
	a.room.pool_bytes = kv_le64(1000);
	a.room.ready_bytes = kv_le64(900);
	a.room.free_bytes = kv_le64(300);
	a.room.keys = kv_le64(17);
	a.room.evicted_keys = kv_le64(5);
	a.room.evicted_bytes = kv_le64(5000);
	a.room.put_fails = kv_le64(2);
	rig_beat(&a);
	wireframe_free(rig_wait(&a.p, KV_MSG_HEARTBEAT_R));
	rig_ms(30);
	f = rig_ask(&req, KV_MSG_NODES, NULL, NULL, 0);
	rec = (void *)f->tail;
	assert_int_equal(kv_get64(rec->pool_bytes), 1000);
	assert_int_equal(kv_get64(rec->free_bytes), 300);
	assert_int_equal(kv_get64(rec->keys), 17);
	assert_in_range(kv_get32(rec->heard_ms), 29, 40);
	assert_int_equal(rec->name_len, 3);
	assert_memory_equal(rec + 1, "10.0.0.2:52n01", 14);
	wireframe_free(f);
	assert_int_equal(rig_stat(&req, "master_allocated_bytes"), 600);
	assert_int_equal(rig_stat(&req, "master_total_capacity_bytes"), 1000);
	assert_int_equal(rig_stat(&req, "master_active_clients"), 1);
	assert_int_equal(rig_stat(&req, "master_evicted_key_count"), 5);
	assert_int_equal(
		rig_stat(&req,
			 "segment_allocated_bytes{segment=\"10.0.0.2:52\"}"),
		600);
	a.room.evicted_keys = kv_le64(7);
	rig_beat(&a);
	rig_ms(5);
	assert_int_equal(rig_stat(&req, "master_evicted_key_count"), 7);
}

static void
addr_is(const char *host, const char *told, const char *want)
{
	const struct kv_node_rec *rec;
	struct wireframe *f;

	rig_node(&a, host, 52, 1);
	if (!want) {
		assert_int_equal(rig_join(&a, told), KV_EINVALID);
		rig_kill(&a);
		return;
	}
	assert_int_equal(rig_join(&a, told), 0);
	f = rig_ask(&a.p, KV_MSG_NODES, NULL, NULL, 0);
	rec = (void *)f->tail;
	assert_int_equal(kv_get32(((struct kv_nodes_r *)f->body)->count), 1);
	assert_int_equal(rec->addr_len, strlen(want));
	assert_memory_equal(rec + 1, want, strlen(want));
	wireframe_free(f);
	rig_send(&a.p, KV_MSG_LEAVE, NULL, NULL, 0);
	rig_ms(2);
	rig_kill(&a);
}

static void
address_that_is_handed_out(void **state)
{
	char text[250];

	(void)state;
	addr_is("10.0.0.2", ":52", "10.0.0.2:52");
	addr_is("10.0.0.2", "0.0.0.0:52", "10.0.0.2:52");
	addr_is("10.0.0.2", "[::]:52", "10.0.0.2:52");
	addr_is("10.0.0.2", "127.0.1.1:52", "10.0.0.2:52");
	addr_is("10.0.0.2", "localhost:52", "10.0.0.2:52");
	addr_is("10.0.0.2", "node-7.example:52", "node-7.example:52");
	addr_is("10.0.0.2", "10.7.7.7:52", "10.7.7.7:52");
	addr_is("10.0.0.2", "[fd00::7]:52", "[fd00::7]:52");
	addr_is("127.0.0.1", ":52", "127.0.0.1:52");
	addr_is("127.0.0.1", "127.0.0.5:52", "127.0.0.5:52");
	addr_is("10.0.0.2", "", NULL);
	addr_is("10.0.0.2", "host", NULL);
	addr_is("10.0.0.2", "host:0", NULL);
	addr_is("10.0.0.2", "host:70000", NULL);
	addr_is("10.0.0.2", "unix:/tmp/x", NULL);
	memset(text, 'x', sizeof(text));
	snprintf(text + 200, 10, ":52");
	addr_is("10.0.0.2", text, NULL);
}

static void
no_slot_is_left(void **state)
{
	const struct kv_master_opts o = { .slots = 2 };
	static struct rignode d;

	(void)state;
	rig_open(&o);
	rig_up(&a, "10.0.0.2", 52, 1);
	rig_up(&b, "10.0.0.3", 52, 2);
	rig_node(&d, "10.0.0.4", 52, 3);
	assert_int_equal(rig_join(&d, NULL), KV_EBUSY);
	rig_send(&a.p, KV_MSG_LEAVE, NULL, NULL, 0);
	rig_ms(5);
	assert_int_equal(rig_join(&d, NULL), 0);
}

/* ---- sync ---- */

static void
misses_prove_nothing_while_a_node_syncs(void **state)
{
	struct kv_publish_ent e = rig_ent(1, 10, 0);

	(void)state;
	assert_false(rig_is_incomplete(&req));
	rig_kill(&a);
	rig_node(&a, "10.0.0.2", 52, 1);
	rig_ms(5);
	assert_int_equal(rig_join(&a, NULL), 0);
	assert_true(rig_is_incomplete(&req));
	wireframe_free(rig_publish(&a, KV_PUBLISH_SYNC, &e, 1, 0));
	assert_true(rig_is_incomplete(&req));
	assert_true(rig_exists(&req, 1));
	wireframe_free(rig_publish(&a, ALL, NULL, 0, 0));
	assert_false(rig_is_incomplete(&req));
	assert_int_equal(rig_stat(&req, "kvpool_master_syncs_total"), 3);
}

static void
misses_prove_nothing_after_the_start(void **state)
{
	(void)state;
	rig_open(NULL);
	rig_up(&a, "10.0.0.2", 52, 1);
	rig_requester(&req, "10.0.0.9");
	assert_true(rig_is_incomplete(&req));
	rig_ms(9000);
	assert_true(rig_is_incomplete(&req));
	rig_ms(1100);
	assert_false(rig_is_incomplete(&req));
}

static void
a_sync_that_stalls_is_given_up(void **state)
{
	(void)state;
	rig_node(&a, "10.0.0.2", 52, 1);
	rig_join(&a, NULL);
	rig_requester(&req, "10.0.0.9");
	rig_ms(9000);
	assert_true(rig_is_incomplete(&req));
	rig_ms(1200);
	assert_false(rig_is_incomplete(&req));
	assert_true(a.p.w.is_lost);
}

static void
a_node_that_was_away_learns_what_it_lost(void **state)
{
	struct kv_publish_ent e[2] = { rig_ent(1, 10, 0), rig_ent(2, 10, 0) };
	struct wireframe *f;

	(void)state;
	rig_put(&a, 1, 10, 0);
	rig_put(&a, 2, 10, 0);
	rig_close(&a.p);
	rig_ms(5);
	assert_int_equal(rig_put(&b, 1, 20, 0), STAYS);
	assert_int_equal(rig_put(&b, 2, 20, 1), STAYS);
	rig_again(&a);
	assert_int_equal(rig_join(&a, NULL), 0);
	f = rig_publish(&a, ALL, e, 2, 0);
	assert_int_equal(f->tail[0], OPEN);
	assert_int_equal(f->tail[1], OPEN);
	wireframe_free(f);
	assert_int_equal(rig_confirm(&b, true), 2);
	f = rig_wait(&a.p, KV_MSG_DECIDE);
	assert_int_equal(kv_get32(((struct kv_decide *)f->body)->count), 2);
	wireframe_free(f);
	assert_int_equal(rig_owners(&req, 1), B);
	assert_int_equal(rig_owners(&req, 2), B);
}

/* ---- a new session of the same node ---- */

static void
the_old_session_shows_until_the_new_one_synced(void **state)
{
	struct kv_publish_ent e = rig_ent(2, 10, 0);

	(void)state;
	rig_put(&a, 1, 10, 0);
	rig_put(&a, 2, 10, 0);
	rig_again(&a);
	assert_int_equal(rig_owners(&req, 1), A);
	assert_int_equal(rig_join(&a, NULL), 0);
	assert_int_equal(rig_owners(&req, 1), A);
	wireframe_free(rig_publish(&a, KV_PUBLISH_SYNC, &e, 1, 0));
	/* Both know the second key: it is one node all the same. */
	assert_int_equal(rig_owners(&req, 2), A);
	assert_int_equal(rig_stat(&req, "master_active_clients"), 2);
	wireframe_free(rig_publish(&a, ALL, NULL, 0, 0));
	assert_int_equal(rig_owners(&req, 1), 0);
	assert_int_equal(rig_owners(&req, 2), A);
	assert_int_equal(rig_stat(&req, "master_key_count"), 1);
}

static void
the_new_session_replaces_one_that_still_stands(void **state)
{
	static struct rignode again;

	(void)state;
	rig_put(&a, 1, 10, 0);
	rig_node(&again, "10.0.0.2", 53, 1);
	assert_int_equal(rig_join(&again, NULL), 0);
	rig_ms(5);
	assert_true(a.p.w.is_lost);
	assert_int_equal(rig_owners(&req, 1), A);
	assert_int_equal(rig_stat(&req, "master_active_clients"), 2);
	wireframe_free(rig_publish(&again, ALL, NULL, 0, 0));
	assert_int_equal(rig_owners(&req, 1), 0);
}

static void
a_session_replaced_in_the_middle_of_its_sync(void **state)
{
	struct kv_publish_ent e = rig_ent(3, 10, 0);
	unsigned i;

	(void)state;
	rig_put(&a, 1, 10, 0);
	for (i = 0; i < 5; i++) {
		rig_again(&a);
		assert_int_equal(rig_join(&a, NULL), 0);
		wireframe_free(rig_publish(&a, KV_PUBLISH_SYNC, &e, 1, 0));
		assert_int_equal(rig_owners(&req, 1), A);
		assert_int_equal(rig_owners(&req, 3), A);
	}
	wireframe_free(rig_publish(&a, ALL, NULL, 0, 0));
	assert_int_equal(rig_owners(&req, 1), 0);
	assert_int_equal(rig_owners(&req, 3), A);
	assert_false(rig_is_incomplete(&req));
	assert_int_equal(rig_stat(&req, "master_active_clients"), 2);
}

static void
what_goes_while_syncing_is_gone_in_both(void **state)
{
	(void)state;
	rig_put(&a, 1, 10, 0);
	rig_again(&a);
	rig_join(&a, NULL);
	rig_gone(&a, 1, 10);
	assert_int_equal(rig_owners(&req, 1), 0);
}

static void
another_value_while_syncing_needs_no_check(void **state)
{
	(void)state;
	rig_put(&a, 1, 10, 0);
	rig_again(&a);
	rig_join(&a, NULL);
	assert_int_equal(rig_put(&a, 1, 11, 0), STAYS);
	assert_int_equal(rig_owners(&req, 1), A);
	wireframe_free(rig_publish(&a, ALL, NULL, 0, 0));
	assert_int_equal(rig_owners(&req, 1), A);
}

static void
the_new_session_confirms_for_the_old(void **state)
{
	(void)state;
	rig_put(&a, 1, 10, 0);
	assert_int_equal(rig_put(&b, 1, 20, 0), OPEN);
	rig_ms(2);
	{
		static struct rignode again;

		rig_node(&again, "10.0.0.2", 53, 1);
		assert_int_equal(rig_join(&again, NULL), 0);
		rig_confirm(&again, true);
	}
	assert_int_equal(rig_decided(&b, 1, 20), GOES);
	assert_int_equal(rig_owners(&req, 1), A);
}

#define TWO(f) cmocka_unit_test_setup_teardown(f, setup_two, rig_teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		RIG_TEST(join_tells_the_terms),
		RIG_TEST(records_say_what_heartbeats_say),
		RIG_TEST(address_that_is_handed_out),
		cmocka_unit_test_teardown(no_slot_is_left, rig_teardown),
		TWO(misses_prove_nothing_while_a_node_syncs),
		cmocka_unit_test_teardown(misses_prove_nothing_after_the_start,
					  rig_teardown),
		RIG_TEST(a_sync_that_stalls_is_given_up),
		TWO(a_node_that_was_away_learns_what_it_lost),
		TWO(the_old_session_shows_until_the_new_one_synced),
		TWO(the_new_session_replaces_one_that_still_stands),
		TWO(a_session_replaced_in_the_middle_of_its_sync),
		TWO(what_goes_while_syncing_is_gone_in_both),
		TWO(another_value_while_syncing_needs_no_check),
		TWO(the_new_session_confirms_for_the_old),
	};

	kv_log_set_level(KV_LOG_ERR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
