/*
 * A master to which memory is refused, once at each place in turn: it goes on,
 * or ends what it cannot do, and nothing leaks. Peers here take what comes.
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "masterrig.h"
#include "nth_fault.h"
#include "svc/relay.h"

#include "test.h"

enum {
	NODES = 3,
	HEARD_MAX = 256,
	POINTS_MIN = 50,
	POINTS_MAX = 2000,
};

/* A node or a requester. Memory may be refused to it as well. */
struct actor {
	struct kv_net *net;
	struct kv_conn *c;
	uint64_t id;
	uint8_t boot;
	unsigned heard[HEARD_MAX]; /* by type */
};

static struct actor actors[NODES + 1];

static void
on_msg(struct kv_conn *c, const struct kv_msg *msg)
{
	struct actor *a = kv_conn_arg(c);

	a->heard[msg->type]++;
}

static void
hang_up(struct actor *a)
{
	struct kv_conn *c = a->c;

	a->c = NULL;
	kv_conn_close(c);
}

static void
on_close(struct kv_conn *c, int status)
{
	(void)status;
	hang_up(kv_conn_arg(c));
}

static const struct kv_conn_ops ops = {
	.on_msg = on_msg,
	.on_close = on_close,
};

static void
dialled(void *arg, struct kv_stream *s, int status)
{
	struct actor *a = arg;

	(void)status;
	if (s)
		a->c = kv_conn_new(rig.loop, s, &ops, a);
}

static void
say(struct actor *a, enum kv_msg_type type, const void *body, const void *tail,
    size_t tail_len)
{
	void *b = NULL, *t;

	if (a->c)
		b = kv_conn_begin_tail(a->c, type, ++a->id, 0, tail_len, &t);
	if (b) {
		if (body)
			memcpy(b, body, kv_msg_body_bytes(type));
		if (tail_len > 0)
			memcpy(t, tail, tail_len);
		kv_conn_end(a->c);
	}
	simnet_run(rig.sn, rig.clock.ns + 2 * KV_NS_PER_MS);
}

static void
enter(struct actor *a, enum kv_role role)
{
	struct kv_hello h = { .version_min = kv_le16(1),
			      .version_max = kv_le16(1),
			      .role = (uint8_t)role,
			      .boot = { { a->boot } } };

	a->net->connect(a->net, rig.loop, "tcp:" RIG_MASTER ":50051",
			rig.clock.ns + KV_NS_PER_S, dialled, a);
	simnet_run(rig.sn, rig.clock.ns + 2 * KV_NS_PER_MS);
	say(a, KV_MSG_HELLO, &h, NULL, 0);
}

static void
publish(struct actor *a, uint64_t random, unsigned n, unsigned flags)
{
	struct kv_publish_ent *e = calloc(n + 1, sizeof(*e));
	struct kv_publish p = { .added = kv_le32(n), .flags = (uint8_t)flags };
	unsigned i;

	assert_non_null(e);
	for (i = 0; i < n; i++)
		e[i] = rig_ent(i, random, 0);
	say(a, KV_MSG_PUBLISH, &p, e, n * sizeof(*e));
	free(e);
}

static void
all_kinds_of_work(void)
{
	struct kv_join j = { .addr_len = 3 };
	struct kv_lookup l = { .count = kv_le32(1) };
	struct kv_remove all = { .op = KV_REMOVE_ALL };
	struct kv_remove one = { .op = KV_REMOVE_KEYS, .count = kv_le32(1) };
	struct kv_query q = { .key_len = kv_le16(1) };
	struct kv_report down = { .boot = { { 1 } } };
	struct kv_id hash = rig_hash(1);
	struct actor *req = &actors[NODES];
	unsigned i;

	for (i = 0; i < NODES; i++) {
		enter(&actors[i], KV_ROLE_NODE);
		say(&actors[i], KV_MSG_JOIN, &j, ":52", 3);
		publish(&actors[i], i, i == 0 ? 1100 : 3, KV_PUBLISH_SYNC);
		publish(&actors[i], i, 1, KV_PUBLISH_SYNC_END);
	}
	enter(req, KV_ROLE_REQUESTER);
	say(req, KV_MSG_LOOKUP, &l, &hash, sizeof(hash));
	l.flags = KV_LOOKUP_EXIST;
	say(req, KV_MSG_LOOKUP, &l, &hash, sizeof(hash));
	say(req, KV_MSG_NODES, NULL, NULL, 0);
	say(req, KV_MSG_STATS, NULL, NULL, 0);
	say(req, KV_MSG_REPORT, &down, NULL, 0);
	say(req, KV_MSG_REMOVE, &all, NULL, 0);
	say(req, KV_MSG_REMOVE, &one, "\1\0x", 3);
	say(req, KV_MSG_KEYS, NULL, NULL, 0);
	say(req, KV_MSG_QUERY, &q, "x", 1);
	simnet_run(rig.sn, rig.clock.ns + 15 * KV_NS_PER_S);
}

static bool is_done;

static void
done(void *arg)
{
	(void)arg;
	is_done = true;
}

/* Whatever happened, somebody who comes later is served; at the second try, if
 * the shortage came just now. */
static bool
is_alive(void)
{
	struct actor *a = &actors[NODES];
	unsigned i, before = a->heard[KV_MSG_NODES_R];

	for (i = 0; i < 2 && a->heard[KV_MSG_NODES_R] == before; i++) {
		hang_up(a);
		simnet_run(rig.sn, rig.clock.ns + KV_NS_PER_MS);
		enter(a, KV_ROLE_REQUESTER);
		say(a, KV_MSG_NODES, NULL, NULL, 0);
	}
	return a->heard[KV_MSG_NODES_R] > before;
}

static void
nothing(struct kv_timer *t)
{
	(void)t;
}

/* The simulated network arms timers and takes no failure: it shall not be the
 * one for whom the heap grows. */
static bool
make_room(struct kv_loop *loop)
{
	static struct kv_timer timers[256];
	bool is = true;
	unsigned i;

	for (i = 0; i < 256; i++) {
		timers[i].fn = nothing;
		is = kv_loop_timer_set(loop, &timers[i], 1) == 0 && is;
	}
	for (i = 0; i < 256; i++)
		kv_loop_timer_del(&timers[i]);
	return is;
}

static int
body(void)
{
	static const struct simnet_opts net = { .seed = 1 };
	struct kv_master_opts o = { .listen = { "tcp:" RIG_MASTER ":50051" } };
	char host[16], err[256];
	bool is = true;
	unsigned i;

	rig.clock = (struct kv_clock){ .is_virtual = true, .ns = 1 };
	rig.loop = kv_loop_new(&rig.clock);
	if (!rig.loop)
		return 0;
	if (!make_room(rig.loop)) {
		kv_loop_free(rig.loop);
		return 0;
	}
	rig.sn = simnet_new(rig.loop, &rig.clock, &net);
	o.loop = rig.loop;
	o.net = simnet_process(rig.sn, RIG_MASTER, 1);
	for (i = 0; i <= NODES; i++) {
		snprintf(host, sizeof(host), "10.0.0.%u", i + 2);
		actors[i].net = simnet_process(rig.sn, host, (pid_t)i + 2);
		actors[i].boot = (uint8_t)(i + 1);
	}
	rig.m = kv_master_new(&o, err, sizeof(err));
	if (rig.m) {
		all_kinds_of_work();
		is = is_alive();
		kv_master_stop(rig.m, done, NULL);
		simnet_run(rig.sn, rig.clock.ns + 5 * KV_NS_PER_S);
		is = is && is_done;
	}
	for (i = 0; i <= NODES; i++)
		hang_up(&actors[i]);
	kv_master_free(rig.m);
	simnet_run(rig.sn, rig.clock.ns + KV_NS_PER_S);
	simnet_free(rig.sn);
	kv_loop_free(rig.loop);
	return is ? 0 : 1;
}

/* Did the run pass fewer points than the one that was to fail? */
static bool
was_beyond(const char *report)
{
	char line[256] = "";
	FILE *f = fopen(report, "r");

	if (f && !fgets(line, sizeof(line), f))
		line[0] = '\0';
	if (f)
		fclose(f);
	unlink(report);
	return strncmp(line, "not", 3) == 0;
}

static void
each_shortage_of_memory_is_survived(void **state)
{
	char report[] = "/tmp/kv.faults.XXXXXX";
	int fd = mkstemp(report);
	unsigned n;

	(void)state;
	assert_true(fd >= 0);
	close(fd);
	setenv("KV_FAULT_REPORT", report, 1);
	for (n = 1; n < POINTS_MAX; n++) {
		if (nth_fault_run(n, body) != 0)
			fail_msg("fault %u", n);
		if (was_beyond(report))
			break;
	}
	assert_true(n > POINTS_MIN);
	assert_true(n < POINTS_MAX);
}

static void
hush(void *arg, enum kv_log_level level, const char *msg)
{
	(void)arg;
	(void)level;
	(void)msg;
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		nth_fault_test(each_shortage_of_memory_is_survived),
	};

	kv_log_set_sink(hush, NULL);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
