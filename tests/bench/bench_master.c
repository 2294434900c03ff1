/*
 * A master under the worst that a cluster does to it: all nodes publish all
 * they have at once, and a node with millions of keys dies. Beside that one
 * requester asks for 100 keys at a time: how long does it wait?
 */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/hist.h"
#include "base/log.h"
#include "base/rng.h"
#include "base/str.h"
#include "event/loop.h"
#include "net/hello.h"
#include "net/rpc.h"
#include "net/sock.h"
#include "store/key.h"
#include "svc/master.h"

enum {
	NODES_MAX = 64,
	FRAME = 8192,     /* entries, as nodes send them */
	FRAMES_AHEAD = 2, /* of a sync */
	ASK = 100,
};

#define ASK_NS (10 * KV_NS_PER_MS)

struct peer {
	struct kv_conn *c;
	uint64_t keys, sent;
	unsigned unanswered;
	bool is_done;
	struct kv_id boot;
};

static struct kv_loop *loop;
static struct kv_net *net;
static char addr[128];
static struct peer nodes[NODES_MAX], asker;
static unsigned n_nodes, n_done;
static uint64_t asked_at, found, next_key;
static struct kv_hist waits;
static struct kv_timer ask_timer, beat_timer;
static pid_t pid;

static void
master_run(int out)
{
	struct kv_master_opts o = { .listen = { "tcp:127.0.0.1:0" } };
	char err[256];
	struct kv_master *m;

	kv_log_set_level(KV_LOG_ERR);
	o.loop = kv_loop_new(NULL);
	o.net = kv_sock_net_new();
	m = kv_master_new(&o, err, sizeof(err));
	if (!m || write(out, kv_master_bound(m, 0), 128) != 128)
		exit(1);
	kv_loop_run(o.loop);
	exit(0);
}

static struct kv_id
key(unsigned node, uint64_t i)
{
	uint64_t k[2] = { node, i };

	return kv_key_hash_build(kv_key_hash(0, k, sizeof(k)));
}

static void
publish(struct peer *p)
{
	unsigned node = (unsigned)(p - nodes), i, n;
	struct kv_publish_ent *e;
	struct kv_publish *b;
	void *tail;

	while (p->sent < p->keys && p->unanswered < FRAMES_AHEAD) {
		n = p->keys - p->sent < FRAME ? (unsigned)(p->keys - p->sent)
					      : FRAME;
		b = kv_conn_begin_tail(p->c, KV_MSG_PUBLISH, 2, 0,
				       n * sizeof(*e), &tail);
		if (!b)
			abort();
		for (i = 0, e = tail; i < n; i++, e++) {
			memset(e, 0, sizeof(*e));
			e->hash = key(node, p->sent + i);
			e->put_id.random = kv_le64(1);
		}
		p->sent += n;
		b->added = kv_le32(n);
		b->flags = KV_PUBLISH_SYNC;
		if (p->sent == p->keys)
			b->flags |= KV_PUBLISH_SYNC_END;
		kv_conn_end(p->c);
		p->unanswered++;
	}
	if (p->sent == p->keys && p->unanswered == 0 && !p->is_done) {
		p->is_done = true;
		n_done++;
	}
}

static void
ask(struct kv_timer *t)
{
	struct kv_lookup *l;
	struct kv_id *ids;
	void *tail;
	unsigned i;

	l = kv_conn_begin_tail(asker.c, KV_MSG_LOOKUP, 1, 0, ASK * sizeof(*ids),
			       &tail);
	if (!l)
		abort();
	ids = tail;
	for (i = 0; i < ASK; i++)
		ids[i] = key(0, next_key++ % nodes[0].keys);
	l->count = kv_le32(ASK);
	l->flags = KV_LOOKUP_EXIST;
	kv_conn_end(asker.c);
	kv_conn_flush(asker.c);
	asked_at = kv_loop_refresh(loop);
	(void)t;
}

static void
beat(struct kv_timer *t)
{
	unsigned i;

	for (i = 0; i < n_nodes; i++)
		if (nodes[i].c &&
		    kv_conn_begin(nodes[i].c, KV_MSG_HEARTBEAT, 3, 0))
			kv_conn_end(nodes[i].c);
	kv_loop_timer_set(loop, t, kv_loop_now(loop) + KV_NS_PER_S);
}

static void
on_msg(struct kv_conn *c, const struct kv_msg *msg)
{
	struct peer *p = kv_conn_arg(c);
	size_t i;

	if (msg->type == KV_MSG_PUBLISH_R) {
		p->unanswered--;
		publish(p);
	} else if (msg->type == KV_MSG_LOOKUP_R) {
		kv_hist_add(&waits, kv_loop_refresh(loop) - asked_at);
		for (i = 0, found = 0; i < msg->tail_len; i++)
			found += msg->tail[i];
		kv_loop_timer_set(loop, &ask_timer, asked_at + ASK_NS);
	}
}

static void
on_close(struct kv_conn *c, int status)
{
	(void)c;
	fprintf(stderr, "lost a connection: %s\n", strerror(-status));
	exit(1);
}

static const struct kv_conn_ops ops = { .on_msg = on_msg,
					.on_close = on_close };

static void
dialled(void *arg, struct kv_stream *s, int status)
{
	struct peer *p = arg;

	if (!s) {
		fprintf(stderr, "cannot connect: %s\n", strerror(-status));
		exit(1);
	}
	p->c = kv_conn_new(loop, s, &ops, p);
}

static void
enter(struct peer *p, enum kv_role role, uint8_t boot)
{
	struct kv_hello_opts h = { .role = role, .boot = &p->boot };

	p->boot.b[0] = boot;
	net->connect(net, loop, addr, kv_loop_now(loop) + KV_NS_PER_S, dialled,
		     p);
	while (!p->c)
		kv_loop_turn(loop, kv_loop_now(loop) + KV_NS_PER_MS);
	if (!kv_conn_begin(p->c, KV_MSG_HELLO, 1, 0) ||
	    !kv_hello_build(p->c, &h))
		abort();
	kv_conn_end(p->c);
}

static void
join(struct peer *p)
{
	struct kv_join *j;
	void *tail;

	/* A port where nobody listens: when the session breaks it is dead. */
	j = kv_conn_begin_tail(p->c, KV_MSG_JOIN, 1, 0, 2, &tail);
	if (!j)
		abort();
	j->addr_len = 2;
	memcpy(tail, ":1", 2);
	kv_conn_end(p->c);
}

/* Seconds of processor time that the master has used. */
static double
master_cpu(void)
{
	clockid_t clock;
	struct timespec ts = { 0 };

	if (clock_getcpuclockid(pid, &clock) == 0)
		clock_gettime(clock, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static void
report(const char *what, double seconds)
{
	static double before;
	double cpu = master_cpu();

	printf("%-22s %5.2f s (master's CPU %5.2f)  exist of %d keys: "
	       "%4" PRIu64 " calls, p50 %.2f ms, p99 %.2f ms, max %.2f ms\n",
	       what, seconds, cpu - before, ASK, kv_hist_count(&waits),
	       (double)kv_hist_percentile(&waits, 50) / 1e6,
	       (double)kv_hist_percentile(&waits, 99) / 1e6,
	       (double)kv_hist_max(&waits) / 1e6);
	before = cpu;
	kv_hist_init(&waits);
}

static double
run_for(bool (*is_over)(void), uint64_t max_ns)
{
	uint64_t start = kv_loop_refresh(loop);

	while (!is_over() && kv_loop_now(loop) - start < max_ns)
		kv_loop_turn(loop, kv_loop_now(loop) + KV_NS_PER_MS);
	return (double)(kv_loop_now(loop) - start) / 1e9;
}

static bool
never(void)
{
	return false;
}

static bool
all_published(void)
{
	return n_done == n_nodes;
}

static bool
none_found(void)
{
	return found == 0;
}

int
main(int argc, char **argv)
{
	uint64_t keys = 100000, big = 2000000, count = 24, i;
	double seconds;
	int pipes[2];

	if ((argc > 1 && kv_str_u64(argv[1], 1, NODES_MAX, &count) < 0) ||
	    (argc > 2 && kv_str_u64(argv[2], 1, 1u << 24, &keys) < 0) ||
	    (argc > 3 && kv_str_u64(argv[3], 1, 1u << 26, &big) < 0)) {
		fprintf(stderr, "usage: bench_master [NODES [KEYS [BIG]]]\n");
		return 64;
	}
	n_nodes = (unsigned)count;
	if (pipe(pipes) < 0)
		return 71;
	pid = fork();
	if (pid == 0)
		master_run(pipes[1]);
	if (pid < 0 || read(pipes[0], addr, 128) != 128)
		return 71;
	loop = kv_loop_new(NULL);
	net = kv_sock_net_new();
	ask_timer.fn = ask;
	enter(&asker, KV_ROLE_REQUESTER, 1);
	for (i = 0; i < count; i++) {
		enter(&nodes[i], KV_ROLE_NODE, (uint8_t)(i + 2));
		join(&nodes[i]);
		nodes[i].keys = i == 0 ? big : keys;
	}
	printf("master, %u nodes, %" PRIu64 " keys each, one %" PRIu64 "\n",
	       n_nodes, keys, big);
	ask(NULL);
	beat_timer.fn = beat;
	beat(&beat_timer);
	run_for(never, KV_NS_PER_S);
	report("idle", 1);
	for (i = 1; i < count; i++)
		publish(&nodes[i]);
	n_done++; /* the big one comes later */
	seconds = run_for(all_published, 60 * KV_NS_PER_S);
	report("all publish", seconds);
	n_done--;
	publish(&nodes[0]);
	seconds = run_for(all_published, 60 * KV_NS_PER_S);
	report("the big one publishes", seconds);
	run_for(never, KV_NS_PER_S / 20);
	printf("found %" PRIu64 " of %d\n", found, ASK);
	kv_conn_close(nodes[0].c);
	nodes[0].c = NULL;
	seconds = run_for(none_found, 10 * KV_NS_PER_S);
	report("it dies", seconds);
	run_for(never, 2 * KV_NS_PER_S);
	report("it is swept", 2);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	return found == 0 ? 0 : 1;
}
