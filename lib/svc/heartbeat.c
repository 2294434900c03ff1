/*
 * A heartbeat says that the node lives and what room it has, repeats the
 * master's last stamp, and names the other masters that the node has sessions
 * with, each with the nodes that it knows: so masters, which do not talk with
 * each other, learn when one of them lacks a node.
 */

#include <errno.h>
#include <string.h>

#include "base/attr.h"
#include "base/status.h"
#include "svc/putkey.h"
#include "svc/session.h"
#include "wire/msg.h"

/* Is it said on this session what that other one's master knows? */
static bool
is_told(const struct kv_session *s, const struct kv_session *other)
{
	return other->state == KV_SESSION_LIVE && other != s &&
	       other->digest_stamp != 0;
}

/* How many of its ids go along. */
static uint32_t
ids_to_list(const struct kv_session *s, const struct kv_session *other)
{
	const struct kv_session_told *told = &s->told[other->number];

	if (kv_id_is_equal(told->boot, other->boot) &&
	    told->digest == other->digest)
		return 0;
	return other->nodes;
}

static size_t
others_bytes(const struct kv_session *s)
{
	const struct kv_node *node = s->node;
	size_t bytes = 0;
	unsigned i;

	for (i = 0; i < node->n_sessions; i++)
		if (is_told(s, node->sessions[i]))
			bytes += sizeof(struct kv_heartbeat_ent) +
				 ids_to_list(s, node->sessions[i]) *
					 sizeof(struct kv_le64);
	return bytes;
}

/* Returns how many they are. */
static uint8_t
others_fill(struct kv_session *s, uint8_t *to)
{
	struct kv_node *node = s->node;
	struct kv_heartbeat_ent e;
	uint32_t listed;
	uint8_t n = 0;
	unsigned i;

	for (i = 0; i < node->n_sessions; i++) {
		const struct kv_session *o = node->sessions[i];

		if (!is_told(s, o))
			continue;
		listed = ids_to_list(s, o);
		e = (struct kv_heartbeat_ent){
			.boot = o->boot,
			.stamp = kv_le64(o->digest_stamp),
			.digest = kv_le64(o->digest),
			.nodes = kv_le32(o->nodes),
			.listed = kv_le32(listed),
		};
		memcpy(to, &e, sizeof(e));
		to += sizeof(e);
		if (listed > 0)
			memcpy(to, o->ids.data, o->ids.len);
		to += listed * sizeof(struct kv_le64);
		s->told[i].boot = o->boot;
		s->told[i].digest = o->digest;
		n++;
	}
	return n;
}

void
kv_heartbeat_send(struct kv_session *s)
{
	struct kv_heartbeat *h;
	uint8_t *tail;

	if (s->call.rpc)
		return;
	h = kv_session_begin(s, &s->call, KV_MSG_HEARTBEAT);
	if (!h)
		return;
	tail = kv_conn_tail(s->conn, others_bytes(s));
	if (!tail)
		return; /* the connection is lost, which is told */
	h = kv_conn_body(s->conn);
	kv_node_room(s->node, h);
	s->beat_ns = kv_loop_now(s->node->loop);
	s->told_keys = kv_get64(h->keys);
	s->told_ready = kv_get64(h->ready_bytes);
	s->is_hurried = false;
	h->echo = kv_le64(s->stamp);
	h->sessions = (uint8_t)kv_node_sessions(s->node);
	h->others = others_fill(s, tail);
	kv_rpc_end(&s->rpc);
}

bool
kv_heartbeat_take(struct kv_session *s, const struct kv_msg *msg)
{
	const struct kv_heartbeat_r *r = msg->body;
	uint32_t listed;
	const void *ids;
	struct kv_cut cut;

	if (msg->type != KV_MSG_HEARTBEAT_R)
		return false;
	listed = kv_get32(r->listed);
	kv_cut_init(&cut, msg);
	ids = kv_cut_array(&cut, listed, sizeof(struct kv_le64));
	if (!kv_cut_done(&cut) || (listed > 0 && listed != kv_get32(r->nodes)))
		return false;
	/* Not before the master gave the stamp. */
	s->heard_ns = kv_loop_refresh(s->node->loop);
	s->stamp = kv_get64(r->stamp);
	if (r->flags & KV_HEARTBEAT_AGAIN)
		memset(s->told, 0, sizeof(s->told));
	if (listed > 0 || kv_get32(r->nodes) == 0) {
		kv_bytes_reset(&s->ids);
		if (kv_bytes_append(&s->ids, ids, msg->tail_len) < 0)
			return false;
		s->digest = kv_get64(r->digest);
		s->nodes = kv_get32(r->nodes);
	} else if (s->digest != kv_get64(r->digest)) {
		return false;
	}
	s->digest_stamp = s->stamp;
	return true;
}

void
kv_heartbeat_start(struct kv_session *s, uint64_t stamp)
{
	kv_loop_timer_del(&s->hold);
	s->is_held = false;
	s->heard_ns = kv_loop_refresh(s->node->loop);
	s->told_keys = 0;
	s->told_ready = 0;
	s->is_hurried = false;
	s->stamp = stamp;
	s->digest = 0;
	s->digest_stamp = 0;
	s->nodes = 0;
	kv_bytes_reset(&s->ids);
	memset(s->told, 0, sizeof(s->told));
}

void
kv_heartbeat_fini(struct kv_session *s)
{
	kv_bytes_fini(&s->ids);
}

/* ---- without a master that was there ---- */

void
kv_heartbeat_let_go(struct kv_session *s)
{
	kv_loop_timer_del(&s->hold);
	s->is_held = false;
	kv_putkey_session_lost(s->node, s->number);
}

static void
hold_over(struct kv_timer *t)
{
	kv_heartbeat_let_go(KV_CONTAINER_OF(t, struct kv_session, hold));
}

void
kv_heartbeat_hold(struct kv_session *s)
{
	struct kv_loop *loop = s->node->loop;
	uint64_t until = s->heard_ns + KV_NODE_HOLD_MS * KV_NS_PER_MS;

	s->hold.fn = hold_over;
	s->is_held = s->node->n_sessions > 1 &&
		     s->node->phase != KV_NODE_STOPPED &&
		     kv_loop_now(loop) < until &&
		     kv_loop_timer_set(loop, &s->hold, until) == 0;
	if (!s->is_held)
		kv_putkey_session_lost(s->node, s->number);
}
