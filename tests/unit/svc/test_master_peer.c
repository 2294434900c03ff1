/* Who is let in by a master, and what it does with those who break the rules.
 */

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "base/log.h"
#include "masterrig.h"

#include "test.h"

static struct rignode a, b;
static struct rigpeer req, other;

/* ---- HELLO ---- */

static void
roles_of_a_master(void **state)
{
	(void)state;
	rig_dial(&req, "10.0.0.9");
	assert_int_equal(rig_hello(&req, KV_ROLE_PROBE), KV_EDENIED);
	rig_expect_dropped(&req);
	rig_dial(&req, "10.0.0.9");
	assert_int_equal(rig_hello(&req, KV_ROLE_DATA), KV_EDENIED);
	rig_expect_dropped(&req);
	rig_dial(&req, "10.0.0.9");
	assert_int_equal(rig_hello(&req, KV_ROLE_REQUESTER), 0);
	rig_dial(&other, "10.0.0.9");
	assert_int_equal(rig_hello(&other, KV_ROLE_NODE), 0);
}

static void
hello_without_boot_is_refused(void **state)
{
	(void)state;
	rig_dial(&req, "10.0.0.9");
	memset(&req.boot, 0, sizeof(req.boot));
	assert_int_equal(rig_hello(&req, KV_ROLE_REQUESTER), KV_EINVALID);
	rig_expect_dropped(&req);
}

static void
first_message_must_be_hello(void **state)
{
	struct wireframe *f;

	(void)state;
	rig_dial(&req, "10.0.0.9");
	f = NULL;
	rig_send(&req, KV_MSG_NODES, NULL, NULL, 0);
	f = rig_wait(&req, KV_MSG_HELLO_R);
	assert_int_equal(((struct kv_hello_r *)f->body)->status, KV_EPROTO);
	wireframe_free(f);
	rig_expect_dropped(&req);
}

static void
second_hello_breaks_the_protocol(void **state)
{
	struct kv_hello h = { .role = KV_ROLE_REQUESTER };

	(void)state;
	rig_requester(&req, "10.0.0.9");
	rig_send(&req, KV_MSG_HELLO, &h, NULL, 0);
	wireframe_free(rig_wait(&req, KV_MSG_ERROR_R));
	rig_expect_dropped(&req);
}

static void
silent_strangers_are_closed(void **state)
{
	(void)state;
	rig_dial(&req, "10.0.0.9");
	rig_ms(9900);
	assert_false(req.w.is_lost);
	rig_ms(200);
	assert_true(req.w.is_lost);
}

static void
no_more_connections_than_the_bound(void **state)
{
	const struct kv_master_opts o = { .conns_max = 2 };

	(void)state;
	rig_open(&o);
	rig_requester(&req, "10.0.0.9");
	rig_dial(&other, "10.0.0.9");
	rig_dial(&a.p, "10.0.0.9");
	rig_ms(5);
	assert_true(a.p.w.is_lost);
	assert_false(req.w.is_lost);
	assert_int_equal(rig_stat(&req, "kvpool_master_conns_refused_total"),
			 1);
	rig_close(&other);
	rig_ms(5);
	rig_dial(&b.p, "10.0.0.9");
	assert_int_equal(rig_hello(&b.p, KV_ROLE_REQUESTER), 0);
	rig_close(&a.p);
	rig_close(&b.p);
}

/* ---- garbage ---- */

static void
expect_dropped(struct rigpeer *p, enum kv_msg_type type, const void *body,
	       const void *tail, size_t tail_len)
{
	uint64_t id = rig_send(p, type, body, tail, tail_len);
	struct wireframe *f = rig_wait(p, KV_MSG_ERROR_R);

	assert_int_equal(f->id, id);
	assert_int_equal(((struct kv_error_r *)f->body)->status, KV_EPROTO);
	wireframe_free(f);
	rig_expect_dropped(p);
}

static void
requesters_must_not_speak_as_nodes(void **state)
{
	static const enum kv_msg_type types[] = {
		KV_MSG_JOIN,
		KV_MSG_HEARTBEAT,
		KV_MSG_PUBLISH,
		KV_MSG_LEAVE,
	};
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		rig_requester(&req, "10.0.0.9");
		expect_dropped(&req, types[i], NULL, NULL, 0);
	}
}

static void
nodes_must_not_speak_as_requesters(void **state)
{
	struct kv_remove all = { .op = KV_REMOVE_ALL };

	(void)state;
	rig_up(&a, "10.0.0.2", 52, 1);
	expect_dropped(&a.p, KV_MSG_REMOVE, &all, NULL, 0);
}

static void
messages_for_a_node_are_refused(void **state)
{
	(void)state;
	rig_requester(&req, "10.0.0.9");
	expect_dropped(&req, KV_MSG_PUT, NULL, NULL, 0);
	rig_requester(&req, "10.0.0.9");
	expect_dropped(&req, KV_MSG_ATTACH, NULL, NULL, 0);
}

static void
answers_that_nobody_asked_for(void **state)
{
	struct kv_check_r r = { .count = kv_le32(0) };

	(void)state;
	rig_up(&a, "10.0.0.2", 52, 1);
	wirepeer_send(&a.p.w, KV_MSG_CHECK_R, 77, &r, NULL, 0);
	rig_ms(5);
	assert_false(a.p.w.is_lost);
	rig_requester(&req, "10.0.0.9");
	expect_dropped(&req, KV_MSG_CHECK_R, &r, NULL, 0);
}

static void
node_messages_before_join(void **state)
{
	struct kv_publish_ent e = rig_ent(1, 1, 0);
	struct kv_publish p = { .added = kv_le32(1) };

	(void)state;
	rig_node(&a, "10.0.0.2", 52, 1);
	expect_dropped(&a.p, KV_MSG_PUBLISH, &p, &e, sizeof(e));
	rig_node(&b, "10.0.0.2", 53, 2);
	expect_dropped(&b.p, KV_MSG_HEARTBEAT, NULL, NULL, 0);
	rig_kill(&b);
	rig_node(&b, "10.0.0.2", 53, 2);
	expect_dropped(&b.p, KV_MSG_LEAVE, NULL, NULL, 0);
}

static void
two_joins_on_one_connection(void **state)
{
	struct kv_join j = { .addr_len = 3 };

	(void)state;
	rig_up(&a, "10.0.0.2", 52, 1);
	expect_dropped(&a.p, KV_MSG_JOIN, &j, ":52", 3);
}

static void
counts_that_do_not_match_the_tail(void **state)
{
	struct kv_publish_ent e[2] = { rig_ent(1, 1, 0), rig_ent(2, 1, 0) };
	struct kv_publish p = { .added = kv_le32(1) };
	struct kv_lookup l = { .count = kv_le32(UINT32_MAX) };

	(void)state;
	rig_requester(&req, "10.0.0.9");
	rig_up(&a, "10.0.0.2", 52, 1);
	expect_dropped(&a.p, KV_MSG_PUBLISH, &p, e, sizeof(e));
	assert_false(rig_exists(&req, 1));

	rig_up(&b, "10.0.0.3", 52, 2);
	p.added = kv_le32(UINT32_MAX);
	p.gone = kv_le32(UINT32_MAX);
	expect_dropped(&b.p, KV_MSG_PUBLISH, &p, e, sizeof(e));

	expect_dropped(&req, KV_MSG_LOOKUP, &l, e, sizeof(e));
	rig_requester(&req, "10.0.0.9");
	l.count = kv_le32(1);
	expect_dropped(&req, KV_MSG_LOOKUP, &l, e, 15);
	rig_requester(&req, "10.0.0.9");
	expect_dropped(&req, KV_MSG_LOOKUP, &l, e, 17);
}

static void
flags_that_do_not_exist(void **state)
{
	struct kv_lookup l = { .flags = 2 };
	struct kv_publish p = { .flags = 4 };

	(void)state;
	rig_requester(&req, "10.0.0.9");
	expect_dropped(&req, KV_MSG_LOOKUP, &l, NULL, 0);
	rig_up(&a, "10.0.0.2", 52, 1);
	expect_dropped(&a.p, KV_MSG_PUBLISH, &p, NULL, 0);
}

static void
after_a_violation_nothing_is_heard(void **state)
{
	struct kv_publish_ent e = rig_ent(5, 1, 0);
	struct kv_publish p = { .added = kv_le32(1) };

	(void)state;
	rig_requester(&req, "10.0.0.9");
	rig_up(&a, "10.0.0.2", 52, 1);
	rig_send(&a.p, KV_MSG_JOIN, NULL, NULL, 0);
	rig_send(&a.p, KV_MSG_PUBLISH, &p, &e, sizeof(e));
	rig_ms(5);
	assert_false(rig_exists(&req, 5));
	assert_int_equal(rig_stat(&req, "kvpool_master_messages_bad_total"), 1);
}

/* ---- the rest ---- */

static void
ping_is_answered_to_both(void **state)
{
	struct kv_ping ping = { .stamp = kv_le64(4711) };
	struct wireframe *f;

	(void)state;
	rig_requester(&req, "10.0.0.9");
	f = rig_ask(&req, KV_MSG_PING, &ping, NULL, 0);
	assert_int_equal(kv_get64(((struct kv_ping *)f->body)->stamp), 4711);
	wireframe_free(f);
	rig_node(&a, "10.0.0.2", 52, 1);
	wireframe_free(rig_ask(&a.p, KV_MSG_PING, &ping, NULL, 0));
}

/* A requester that asks and never reads is not read from either, so that what
 * is queued for it stays bounded. */
static void
who_does_not_read_is_not_heard(void **state)
{
	enum {
		KEYS = 65000,
		ASKS = 400
	};
	static struct kv_id ids[KEYS];
	struct kv_lookup l = { .count = kv_le32(KEYS),
			       .flags = KV_LOOKUP_EXIST };
	uint64_t asked, answered;
	unsigned i;

	(void)state;
	rig_requester(&req, "10.0.0.9");
	rig_requester(&other, "10.0.0.8");
	kv_conn_pause(req.w.c, true);
	for (i = 0; i < ASKS; i++) {
		rig_send(&req, KV_MSG_LOOKUP, &l, ids, sizeof(ids));
		rig_ms(1);
		if (kv_conn_is_full(req.w.c))
			break;
	}
	assert_true(i < ASKS);
	rig_ms(200);
	asked = rig_stat(&other, "master_batch_exist_key_requests_total");
	assert_true(asked > 10);
	assert_true(asked < 150);
	kv_conn_pause(req.w.c, false);
	rig_ms(2000);
	answered = rig_stat(&other, "master_batch_exist_key_requests_total");
	assert_true(answered > asked);
	assert_int_equal(wirepeer_count(&req.w, KV_MSG_LOOKUP_R), answered);
}

static bool stopped;

static void
has_stopped(void *arg)
{
	(void)arg;
	stopped = true;
}

static void
stop_closes_everything(void **state)
{
	(void)state;
	rig_up(&a, "10.0.0.2", 52, 1);
	rig_requester(&req, "10.0.0.9");
	stopped = false;
	kv_master_stop(rig.m, has_stopped, NULL);
	assert_false(stopped);
	rig_ms(5);
	assert_true(stopped);
	assert_true(req.w.is_lost);
	assert_true(a.p.w.is_lost);
	assert_int_equal(a.probed, 0);
}

static void
stop_waits_for_answers(void **state)
{
	struct kv_remove all = { .op = KV_REMOVE_ALL };
	struct wireframe *f;

	(void)state;
	rig_up(&a, "10.0.0.2", 52, 1);
	rig_requester(&req, "10.0.0.9");
	rig_send(&req, KV_MSG_REMOVE, &all, NULL, 0);
	rig_ms(5);
	stopped = false;
	kv_master_stop(rig.m, has_stopped, NULL);
	rig_ms(1000);
	assert_false(stopped);
	rig_ms(2000);
	assert_true(stopped);
	f = wirepeer_take(&req.w, KV_MSG_REMOVE_R);
	assert_non_null(f);
	assert_int_equal(kv_get32(((struct kv_remove_r *)f->body)->away), 1);
	wireframe_free(f);
}

static void
second_stop_does_not_wait(void **state)
{
	struct kv_remove all = { .op = KV_REMOVE_ALL };

	(void)state;
	rig_up(&a, "10.0.0.2", 52, 1);
	rig_requester(&req, "10.0.0.9");
	rig_send(&req, KV_MSG_REMOVE, &all, NULL, 0);
	rig_ms(5);
	stopped = false;
	kv_master_stop(rig.m, has_stopped, NULL);
	rig_ms(5);
	assert_false(stopped);
	kv_master_stop(rig.m, has_stopped, NULL);
	rig_ms(5);
	assert_true(stopped);
	assert_true(req.w.is_lost);
	assert_int_equal(wirepeer_count(&req.w, KV_MSG_REMOVE_R), 1);
}

static void
port_in_use_is_one_line(void **state)
{
	struct kv_master_opts o = { .loop = rig.loop, .net = rig.net };
	char err[256] = "";

	(void)state;
	o.listen[0] = "tcp:" RIG_MASTER ":50051";
	assert_null(kv_master_new(&o, err, sizeof(err)));
	assert_int_equal(errno, EADDRINUSE);
	assert_non_null(strstr(err, "50051"));
	assert_null(strchr(err, '\n'));
}

static unsigned lines;

static void
count_line(void *arg, enum kv_log_level level, const char *msg)
{
	(void)arg;
	(void)level;
	(void)msg;
	lines++;
}

static void
probes_of_the_port_make_no_noise(void **state)
{
	unsigned i;

	(void)state;
	lines = 0;
	kv_log_set_level(KV_LOG_INFO);
	kv_log_set_sink(count_line, NULL);
	for (i = 0; i < 20; i++) {
		rig_dial(&req, "10.0.0.9");
		rig_close(&req);
		rig_ms(10);
	}
	kv_log_set_sink(NULL, NULL);
	kv_log_set_level(KV_LOG_ERR);
	assert_int_equal(lines, 0);
}

static void
a_flood_of_strangers_makes_few_lines(void **state)
{
	unsigned i;

	(void)state;
	lines = 0;
	kv_log_set_level(KV_LOG_WARN);
	kv_log_set_sink(count_line, NULL);
	for (i = 0; i < 50; i++) {
		rig_dial(&req, "10.0.0.9");
		rig_send(&req, KV_MSG_NODES, NULL, NULL, 0);
		rig_ms(1);
		rig_close(&req);
		rig_ms(10);
	}
	kv_log_set_sink(NULL, NULL);
	kv_log_set_level(KV_LOG_ERR);
	assert_true(lines >= 1);
	assert_true(lines <= 2);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		RIG_TEST(roles_of_a_master),
		RIG_TEST(hello_without_boot_is_refused),
		RIG_TEST(first_message_must_be_hello),
		RIG_TEST(second_hello_breaks_the_protocol),
		RIG_TEST(silent_strangers_are_closed),
		cmocka_unit_test_teardown(no_more_connections_than_the_bound,
					  rig_teardown),
		RIG_TEST(requesters_must_not_speak_as_nodes),
		RIG_TEST(nodes_must_not_speak_as_requesters),
		RIG_TEST(messages_for_a_node_are_refused),
		RIG_TEST(answers_that_nobody_asked_for),
		RIG_TEST(node_messages_before_join),
		RIG_TEST(two_joins_on_one_connection),
		RIG_TEST(counts_that_do_not_match_the_tail),
		RIG_TEST(flags_that_do_not_exist),
		RIG_TEST(after_a_violation_nothing_is_heard),
		RIG_TEST(ping_is_answered_to_both),
		RIG_TEST(who_does_not_read_is_not_heard),
		RIG_TEST(stop_closes_everything),
		RIG_TEST(stop_waits_for_answers),
		RIG_TEST(second_stop_does_not_wait),
		RIG_TEST(port_in_use_is_one_line),
		RIG_TEST(probes_of_the_port_make_no_noise),
		RIG_TEST(a_flood_of_strangers_makes_few_lines),
	};

	kv_log_set_level(KV_LOG_ERR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
