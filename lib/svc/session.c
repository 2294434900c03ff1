/*
 * Sessions of a node with its masters: dialled with back-off, dropped when the
 * master refuses, breaks off, or is silent while it owes an answer.
 */

#include "svc/session.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/attr.h"
#include "base/fault.h"
#include "base/num.h"
#include "base/status.h"
#include "net/hello.h"
#include "net/sock.h"
#include "svc/gentable.h"
#include "svc/putkey.h"
#include "wire/msg.h"

#define SILENT_NS      (KV_MASTER_SILENT_MS * KV_NS_PER_MS)
#define WATCH_NS       (100 * KV_NS_PER_MS)
#define LATE_NS        (WATCH_NS / 2) /* less is usual */
#define DIAL_NS        (2 * KV_NS_PER_S)
#define VERDICT_NS     (10 * KV_NS_PER_S)
#define BACKOFF_NS_MIN (100 * KV_NS_PER_MS)
#define BACKOFF_NS_MAX (1 * KV_NS_PER_S)
/* Where nobody listens: that is cheap to find out, and a master that was
 * started again is of use only when its nodes are there. */
#define BACKOFF_REFUSED_NS (250 * KV_NS_PER_MS)
/* Whether a master is silent is the watch's to say; this is for one that talks
 * but never answers the call. */
#define CALL_NS (10 * KV_NS_PER_S)
/* Between two heartbeats at least, however much changes. */
#define HURRY_NS (100 * KV_NS_PER_MS)

static const char *const state_names[] = {
	[KV_SESSION_WAITING] = "waiting",   [KV_SESSION_DIALING] = "dialing",
	[KV_SESSION_GREETING] = "greeting", [KV_SESSION_JOINING] = "joining",
	[KV_SESSION_LIVE] = "live",
};

static void
set_state(struct kv_session *s, enum kv_session_state next, const char *why)
{
	assert(next == KV_SESSION_WAITING || next == s->state + 1);
	kv_debug("session master=%s: %s -> %s (%s)", s->addr,
		 state_names[s->state], state_names[next], why);
	s->state = next;
}

/* Fails what is under way. The state is WAITING before anything is called. */
static void
session_close(struct kv_session *s, const char *why)
{
	bool was_live = s->state == KV_SESSION_LIVE;
	struct kv_conn *conn = s->conn;
	struct kv_nodepeer *peer = s->peer;

	set_state(s, KV_SESSION_WAITING, why);
	kv_loop_timer_del(&s->timer);
	kv_loop_timer_del(&s->watch);
	if (s->dial)
		s->node->net->cancel(s->node->net, s->dial);
	s->dial = NULL;
	s->conn = NULL;
	s->peer = NULL;
	if (peer)
		kv_nodepeer_free(peer);
	if (conn)
		kv_rpc_fail(&s->rpc, -ECONNRESET);
	kv_conn_close(conn);
	kv_publish_reset(s);
	s->missed = 0;
	if (was_live) {
		kv_nodegen_settle(s->node);
		kv_stats_add(&s->node->stats, KV_STAT_SESSIONS_LOST, 1);
		s->node->was_alone |= kv_node_sessions(s->node) == 0;
		kv_heartbeat_hold(s);
	}
}

static void session_dial(struct kv_timer *t);

/* Arms the timer; without memory for that the next turn tries again. */
static void
session_timer(struct kv_session *s, void (*fn)(struct kv_timer *t), uint64_t ns)
{
	struct kv_loop *loop = s->node->loop;

	s->timer.fn = fn;
	if (kv_loop_timer_set(loop, &s->timer, kv_loop_now(loop) + ns) < 0)
		kv_loop_defer(loop, &s->turn);
}

/* Between half of the back-off and all of it. */
static void
session_wait(struct kv_session *s)
{
	uint64_t half = s->backoff_ns / 2;

	s->backoff_ns = kv_min_u64(s->backoff_ns * 2, BACKOFF_NS_MAX);
	session_timer(s, session_dial,
		      half + kv_rng_below(&s->node->rng, half + 1));
}

void
kv_session_lost(struct kv_session *s, const char *why)
{
	kv_log_limited(&s->log, kv_loop_now(s->node->loop), KV_LOG_WARN,
		       "no session with master=%s: %s (trying again)", s->addr,
		       why);
	session_close(s, why);
	session_wait(s);
}

void
kv_session_rejoin(struct kv_node *node)
{
	struct kv_session *s;
	unsigned i;

	for (i = 0; i < node->n_sessions; i++) {
		s = node->sessions[i];
		if (s->state < KV_SESSION_JOINING)
			continue;
		session_close(s, "it is told another address");
		session_timer(s, session_dial, 0);
	}
}

/* ---- silence ---- */

static void
watch_until(struct kv_session *s, uint64_t at)
{
	s->watch_ns = at;
	kv_loop_timer_set(s->node->loop, &s->watch, at);
}

/* A look that comes late says that this node did not run: the master is not
 * held to that time. */
static void
session_watch(struct kv_timer *t)
{
	struct kv_session *s = KV_CONTAINER_OF(t, struct kv_session, watch);
	uint64_t now = kv_loop_now(s->node->loop), due;

	if (kv_list_is_empty(&s->rpc.calls))
		return;
	s->busy_ns = kv_max_u64(s->answered_ns, s->busy_ns);
	if (now > s->watch_ns + LATE_NS)
		s->busy_ns += now - s->watch_ns;
	due = s->busy_ns + SILENT_NS;
	if (now >= due)
		kv_session_lost(s, "it is silent");
	else
		watch_until(s, kv_min_u64(due, now + WATCH_NS));
}

void *
kv_session_begin(struct kv_session *s, struct kv_call *call,
		 enum kv_msg_type type)
{
	uint64_t now = kv_loop_now(s->node->loop);

	if (kv_list_is_empty(&s->rpc.calls))
		s->busy_ns = now;
	if (!s->watch.loop)
		watch_until(s, now + WATCH_NS);
	return kv_rpc_begin(&s->rpc, call, type, now + CALL_NS);
}

/* ---- LIVE ---- */

static void session_beat(struct kv_timer *t);

/* Placement, and whoever asks the master, goes by the last heartbeat: the next
 * one comes early when that is not true any more. (Bytes change with keys.) */
static void
session_hurry(struct kv_session *s)
{
	const struct kv_node *node = s->node;
	uint64_t now = kv_loop_now(node->loop);
	uint64_t at = kv_max_u64(now, s->beat_ns + HURRY_NS);
	struct kv_index_stats st;

	if (s->state != KV_SESSION_LIVE || s->is_hurried || s->call.rpc ||
	    s->heartbeat_ns <= HURRY_NS)
		return;
	kv_index_stats(node->index, &st);
	if (s->told_keys == st.keys && s->told_ready == node->ready_bytes)
		return;
	s->is_hurried = true;
	session_timer(s, session_beat, at - now);
}

static void
beat_heard(struct kv_call *call, int status, const struct kv_msg *msg)
{
	struct kv_session *s = KV_CONTAINER_OF(call, struct kv_session, call);
	const struct kv_heartbeat_r *r;

	if (s->state == KV_SESSION_WAITING)
		return;
	if (status < 0 || !kv_heartbeat_take(s, msg)) {
		kv_session_lost(s, "no good answer to a heartbeat");
		return;
	}
	r = msg->body;
	if (r->status != KV_OK)
		kv_session_lost(s, kv_status_text(r->status));
	else
		session_hurry(s);
}

static void
session_beat(struct kv_timer *t)
{
	struct kv_session *s = KV_CONTAINER_OF(t, struct kv_session, timer);
	uint64_t now = kv_loop_now(s->node->loop);

	/* What was put before this session began was asked when it began. */
	if (now > s->live_ns + VERDICT_NS &&
	    kv_putkey_owes(s->node, s->number, now - VERDICT_NS)) {
		kv_session_lost(s, "it owes a verdict");
		return;
	}
	if (kv_nodegen_is_owed(s)) {
		kv_session_lost(s, "it owes removals");
		return;
	}
	session_timer(s, session_beat, s->heartbeat_ns);
	kv_heartbeat_send(s);
}

static bool
session_decide(struct kv_session *s, const struct kv_msg *msg)
{
	const struct kv_decide *m = msg->body;
	uint32_t i, n = kv_get32(m->count);
	const struct kv_decide_ent *e;
	struct kv_cut cut;

	kv_cut_init(&cut, msg);
	e = kv_cut_array(&cut, n, sizeof(*e));
	if (!kv_cut_done(&cut))
		return false;
	for (i = 0; i < n; i++) {
		kv_putkey_verdict(s->node, s->number, &e[i].hash, &e[i].put_id,
				  e[i].verdict);
		if (e[i].verdict == KV_VERDICT_STAYS)
			kv_putkey_doubt(s->node, &e[i].hash, &e[i].put_id,
					false);
	}
	return true;
}

static void
session_on_msg(struct kv_conn *c, const struct kv_msg *msg)
{
	struct kv_session *s = kv_conn_arg(c);
	bool is_good;

	if (kv_msg_is_answer(msg->type))
		s->answered_ns = kv_loop_now(s->node->loop);
	if (kv_rpc_take(&s->rpc, msg))
		return;
	if (s->state != KV_SESSION_LIVE)
		is_good = false;
	else if (msg->type == KV_MSG_DECIDE)
		is_good = session_decide(s, msg);
	else
		is_good = kv_nodepeer_dispatch(s->peer, msg);
	if (!is_good)
		kv_session_lost(s, "it sent a broken message");
}

static void
session_on_close(struct kv_conn *c, int status)
{
	struct kv_session *s = kv_conn_arg(c);
	const char *foreign = NULL;

	if (s->state == KV_SESSION_GREETING)
		foreign = kv_hello_why(status);
	kv_session_lost(s, foreign ? foreign : strerror(-status));
}

static void
session_on_drain(struct kv_conn *c)
{
	struct kv_session *s = kv_conn_arg(c);

	if (s->state == KV_SESSION_LIVE)
		kv_publish_turn(s);
}

static const struct kv_conn_ops session_ops = {
	.on_msg = session_on_msg,
	.on_close = session_on_close,
	.on_drain = session_on_drain,
};

/* ---- from the dial to JOIN_R ---- */

static void
session_begin(struct kv_session *s, const struct kv_join_r *r)
{
	uint32_t beat_ms = kv_get32(r->heartbeat_ms);

	set_state(s, KV_SESSION_LIVE, "joined");
	kv_stats_add(&s->node->stats, KV_STAT_SESSIONS_OPENED, 1);
	if (!s->was_live)
		kv_info("session with master=%s", s->addr);
	else
		kv_log_recovered(&s->log, KV_LOG_INFO,
				 "session with master=%s again", s->addr);
	s->was_live = true;
	s->backoff_ns = BACKOFF_NS_MIN;
	if (s->node->n_sessions > 1)
		beat_ms = (uint32_t)kv_min_u64(beat_ms, KV_NODE_BEAT_MS);
	s->heartbeat_ns = kv_max_u64(beat_ms, 10) * KV_NS_PER_MS;
	s->call.fn = beat_heard;
	session_timer(s, session_beat, s->heartbeat_ns);
	kv_heartbeat_start(s, kv_get64(r->stamp));
	kv_putkey_session_live(s->node, s->number);
}

static void
session_joined(struct kv_call *call, int status, const struct kv_msg *msg)
{
	struct kv_session *s = KV_CONTAINER_OF(call, struct kv_session, call);
	const struct kv_join_r *r;

	if (s->state == KV_SESSION_WAITING)
		return;
	if (status < 0 || msg->type != KV_MSG_JOIN_R) {
		kv_session_lost(s, "no answer to JOIN");
		return;
	}
	r = msg->body;
	if (r->status != KV_OK) {
		kv_session_lost(s, kv_status_text(r->status));
		return;
	}
	s->peer = kv_nodepeer_of_session(s->node, s->conn);
	if (!s->peer) {
		kv_session_lost(s, "out of memory");
		return;
	}
	session_begin(s, r);
	if (!kv_nodegen_joined(s, msg))
		kv_session_lost(s, "it sent a broken message");
}

static void
session_join(struct kv_session *s)
{
	struct kv_node *node = s->node;
	size_t name_len = kv_min_size(strlen(node->o.name), KV_NAME_BYTES_MAX);
	size_t addr_len = strlen(node->addr);
	const struct kv_generations *known = &node->gen.known;
	struct kv_join *j = NULL;
	char *tail = NULL;

	set_state(s, KV_SESSION_JOINING, "greeted");
	s->call.fn = session_joined;
	if (kv_session_begin(s, &s->call, KV_MSG_JOIN))
		tail = kv_conn_tail(s->conn, addr_len + name_len +
						     kv_gentable_bytes(known));
	if (tail)
		j = kv_conn_body(s->conn);
	if (!j) {
		kv_session_lost(s, "out of memory");
		return;
	}
	j->host = node->o.host;
	j->pool = kv_nodekept_pool(node);
	j->pool_bytes = kv_le64(node->pool_bytes);
	j->addr_len = (uint8_t)addr_len;
	j->name_len = (uint8_t)name_len;
	j->masters = (uint8_t)kv_session_masters(node);
	memcpy(tail, node->addr, addr_len);
	memcpy(tail + addr_len, node->o.name, name_len);
	j->generations = kv_le16((uint16_t)known->count);
	kv_gentable_write(known, tail + addr_len + name_len);
	kv_rpc_end(&s->rpc);
}

/* An earlier one with the same master, which was named twice. */
static struct kv_session *
twin_find(const struct kv_session *s)
{
	struct kv_session *t;
	unsigned i;

	for (i = 0; i < s->number; i++) {
		t = s->node->sessions[i];
		if (t->state >= KV_SESSION_JOINING &&
		    kv_id_is_equal(t->boot, s->boot))
			return t;
	}
	return NULL;
}

static void
session_greeted(struct kv_call *call, int status, const struct kv_msg *msg)
{
	struct kv_session *s = KV_CONTAINER_OF(call, struct kv_session, call);
	struct kv_hello_result r;

	if (s->state == KV_SESSION_WAITING)
		return;
	if (status < 0) {
		kv_session_lost(s, "no answer to HELLO");
		return;
	}
	status = kv_hello_parse(msg, &r);
	if (status != KV_OK) {
		kv_session_lost(s, r.text[0] ? r.text : kv_status_text(status));
		return;
	}
	/* Its last life is over, and nobody answers for this node there. */
	if (s->is_held && !kv_id_is_equal(s->boot, r.boot))
		kv_heartbeat_let_go(s);
	s->boot = r.boot;
	s->is_twin = twin_find(s) != NULL;
	if (s->is_twin)
		kv_session_lost(s, "it is the same as an earlier one");
	else
		session_join(s);
}

static void
session_dialed(void *arg, struct kv_stream *stream, int status)
{
	struct kv_session *s = arg;
	struct kv_node *node = s->node;
	struct kv_hello_opts hello = {
		.role = KV_ROLE_NODE,
		.boot = &node->boot,
		.host = &node->o.host,
		.name = node->o.name,
	};

	s->dial = NULL;
	if (status == -ECONNREFUSED) {
		s->backoff_ns = kv_min_u64(s->backoff_ns, BACKOFF_REFUSED_NS);
		if (s->is_held)
			kv_heartbeat_let_go(s); /* its process is gone */
	}
	if (!stream) {
		kv_session_lost(s, kv_sock_error_text(status));
		return;
	}
	s->conn = kv_conn_new(node->loop, stream, &session_ops, s);
	if (!s->conn) {
		kv_session_lost(s, "out of memory");
		return;
	}
	kv_rpc_init(&s->rpc, s->conn);
	set_state(s, KV_SESSION_GREETING, "connected");
	s->call.fn = session_greeted;
	if (!kv_session_begin(s, &s->call, KV_MSG_HELLO) ||
	    !kv_hello_build(s->conn, &hello)) {
		kv_session_lost(s, "out of memory");
		return;
	}
	kv_rpc_end(&s->rpc);
}

static void
session_dial(struct kv_timer *t)
{
	struct kv_session *s = KV_CONTAINER_OF(t, struct kv_session, timer);
	struct kv_node *node = s->node;

	set_state(s, KV_SESSION_DIALING, "due");
	s->dial = node->net->connect(node->net, node->loop, s->addr,
				     kv_loop_now(node->loop) + DIAL_NS,
				     session_dialed, s);
	if (!s->dial)
		kv_session_lost(s, "out of memory");
}

/* ---- start and end ---- */

static void
session_turn(struct kv_defer *d)
{
	struct kv_session *s = KV_CONTAINER_OF(d, struct kv_session, turn);

	if (s->is_broken)
		kv_session_lost(s, "it cannot be told everything");
	else if (s->state == KV_SESSION_LIVE)
		kv_publish_turn(s);
	session_hurry(s);
	if (s->state == KV_SESSION_LIVE && !s->timer.loop)
		session_timer(s, session_beat, s->heartbeat_ns);
	else if (s->state == KV_SESSION_WAITING && !s->timer.loop)
		session_wait(s);
}

int
kv_session_open_all(struct kv_node *node)
{
	struct kv_session *s;
	int rc;

	node->was_alone = true;
	for (; node->n_sessions < KV_MASTERS_MAX; node->n_sessions++) {
		if (!node->o.masters[node->n_sessions])
			break;
		s = KV_FAULT_POINT() ? NULL : calloc(1, sizeof(*s));
		if (!s)
			return -ENOMEM;
		s->node = node;
		s->number = node->n_sessions;
		s->addr = node->o.masters[node->n_sessions];
		s->backoff_ns = BACKOFF_NS_MIN;
		s->watch.fn = session_watch;
		s->turn.fn = session_turn;
		s->timer.fn = session_dial;
		rc = kv_loop_timer_set(node->loop, &s->timer,
				       kv_loop_now(node->loop));
		if (rc < 0) {
			free(s);
			return rc;
		}
		node->sessions[node->n_sessions] = s;
	}
	return 0;
}

void
kv_session_close_all(struct kv_node *node)
{
	unsigned i, n = node->n_sessions;

	for (i = 0; i < n; i++) {
		session_close(node->sessions[i], "the node ends");
		kv_heartbeat_let_go(node->sessions[i]);
	}
	node->n_sessions = 0;
	for (i = 0; i < n; i++) {
		kv_publish_fini(node->sessions[i]);
		kv_heartbeat_fini(node->sessions[i]);
		free(node->sessions[i]);
		node->sessions[i] = NULL;
	}
}
