/*
 * Connections of a master: who is let in, the table that says which messages
 * each kind of peer may send, and how much of a turn each one may take.
 */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/attr.h"
#include "base/fault.h"
#include "base/num.h"
#include "base/status.h"
#include "net/addr.h"
#include "net/answer.h"
#include "net/hello.h"
#include "net/stream.h"
#include "svc/gentable.h"
#include "svc/mastercore.h"
#include "svc/relay.h"

/* So long a refused peer has to read why. */
#define REFUSED_NS (1 * KV_NS_PER_S)
/* Keys of one connection in a turn, about: half a millisecond. */
#define SHARE_KEYS 8192

/* ---- shares ---- */

void
kv_masterpeer_pause(struct kv_masterpeer *p, unsigned why, bool pause)
{
	unsigned before = p->paused;

	p->paused = pause ? before | why : before & ~why;
	if (!before != !p->paused)
		kv_conn_pause(p->conn, p->paused != 0);
}

void
kv_masterpeer_charge(struct kv_masterpeer *p, size_t keys)
{
	p->spent += keys;
	if (p->spent < SHARE_KEYS || !kv_list_is_empty(&p->rest))
		return;
	kv_masterpeer_pause(p, KV_MASTERPEER_PAUSE_REST, true);
	kv_list_add_tail(&p->m->resting, &p->rest);
	kv_loop_defer(p->m->loop, &p->m->rest);
}

void
kv_masterpeer_rested(struct kv_defer *d)
{
	struct kv_master *m = KV_CONTAINER_OF(d, struct kv_master, rest);
	struct kv_masterpeer *p;

	while ((p = KV_LIST_FIRST(&m->resting, struct kv_masterpeer, rest))) {
		kv_list_del(&p->rest);
		p->spent = 0;
		kv_masterpeer_pause(p, KV_MASTERPEER_PAUSE_REST, false);
	}
}

/* ---- connections ---- */

/* Nothing is asked of it, and nothing done for it, any more. */
static void
peer_end(struct kv_masterpeer *p)
{
	kv_loop_timer_del(&p->timer);
	kv_list_del(&p->rest);
	kv_intake_peer_lost(p);
	kv_relay_peer_lost(p);
	if (p->member)
		kv_member_lost(p->member);
}

void
kv_masterpeer_drop(struct kv_masterpeer *p)
{
	struct kv_master *m = p->m;

	peer_end(p);
	kv_list_del(&p->link);
	m->n_peers--;
	kv_conn_close(p->conn);
	free(p);
}

static void
peer_late(struct kv_timer *t)
{
	kv_masterpeer_drop(KV_CONTAINER_OF(t, struct kv_masterpeer, timer));
}

/* It said what it must not, or was refused: once the answer left, it goes. */
static void
peer_refuse(struct kv_masterpeer *p)
{
	struct kv_master *m = p->m;

	peer_end(p);
	p->from = KV_MASTERPEER_REFUSED;
	kv_conn_flush(p->conn);
	/* Without memory for the timer it goes when the other side closes. */
	(void)kv_loop_timer_set(m->loop, &p->timer,
				kv_loop_now(m->loop) + REFUSED_NS);
}

static void
hello_refuse(struct kv_masterpeer *p, uint64_t id, int status, const char *text)
{
	struct kv_master *m = p->m;

	kv_master_count(m, KV_MASTERSTAT_CONNS_REFUSED, 1);
	kv_log_limited(&m->bad_log, kv_loop_now(m->loop), KV_LOG_WARN,
		       "refused a connection from=%s reason=\"%s\"", p->addr,
		       text);
	kv_hello_answer(p->conn, id, status, text, &m->boot, 0);
	peer_refuse(p);
}

static int
peer_hello(struct kv_masterpeer *p, const struct kv_msg *msg)
{
	struct kv_master *m = p->m;
	struct kv_hello_reply reply = { .boot = &m->boot };
	char text[KV_HELLO_TEXT_BYTES];
	struct kv_hello_in in;
	int status;

	status = kv_hello_check(msg, &m->boot, &in, text);
	if (status == KV_OK && in.role != KV_ROLE_REQUESTER &&
	    in.role != KV_ROLE_NODE) {
		status = KV_EDENIED;
		snprintf(text, sizeof(text),
			 "this is a master: it talks to "
			 "nodes and requesters");
	}
	if (status == KV_OK && kv_id_is_zero(in.boot)) {
		status = KV_EINVALID;
		snprintf(text, sizeof(text), "HELLO names no boot id");
	}
	if (status == KV_OK && m->phase != KV_MASTER_RUNNING) {
		status = KV_ECLOSED;
		snprintf(text, sizeof(text), "this master is stopping");
	}
	if (status != KV_OK) {
		hello_refuse(p, msg->id, status, text);
		return 0;
	}
	kv_loop_timer_del(&p->timer);
	p->from = in.role == KV_ROLE_NODE ? KV_MASTERPEER_NODE
					  : KV_MASTERPEER_REQUESTER;
	p->boot = in.boot;
	p->host = kv_id_is_zero(in.host) ? in.boot : in.host;
	p->tenant_len = in.tenant_len;
	memcpy(p->tenant, in.tenant, in.tenant_len);
	memcpy(p->name, in.name, in.name_len);
	if (p->from == KV_MASTERPEER_REQUESTER)
		kv_missed_learn(m, p->tenant, p->tenant_len,
				kv_gentable_parse(&in.generation));
	reply.token = kv_rng_u64(&m->rng);
	reply.generation = kv_gentable_build(
		kv_missed_generation(m, p->tenant, p->tenant_len));
	kv_hello_welcome(p->conn, msg->id, &reply);
	return 0;
}

static int
peer_ping(struct kv_masterpeer *p, const struct kv_msg *msg)
{
	kv_answer_ping(p->conn, msg);
	return 0;
}

static int
peer_stats(struct kv_masterpeer *p, const struct kv_msg *msg)
{
	struct kv_bytes *text = &p->m->scratch;
	size_t len;
	void *tail;

	kv_bytes_reset(text);
	if (kv_masterstats_text(p->m, text) < 0) {
		kv_answer_error(p->conn, msg->id, KV_ENOMEM, NULL);
		return 0;
	}
	len = kv_min_size(text->len, KV_TAIL_MAX);
	if (!kv_conn_begin_tail(p->conn, KV_MSG_STATS_R, msg->id, 0, len,
				&tail))
		return 0;
	memcpy(tail, text->data, len);
	kv_conn_end(p->conn);
	return 0;
}

enum {
	ANYBODY = KV_MASTERPEER_REQUESTER | KV_MASTERPEER_NODE,
};

/* Each returns 0, or -EPROTO for what that peer must not send. */
static const struct {
	unsigned from;
	int (*fn)(struct kv_masterpeer *p, const struct kv_msg *msg);
} table[] = {
	[KV_MSG_PING] = { ANYBODY, peer_ping },
	[KV_MSG_LOOKUP] = { ANYBODY, kv_locate_msg },
	[KV_MSG_NODES] = { ANYBODY, kv_locate_nodes },
	[KV_MSG_REPORT] = { ANYBODY, kv_suspect_report },
	[KV_MSG_JOIN] = { KV_MASTERPEER_NODE, kv_member_join },
	[KV_MSG_HEARTBEAT] = { KV_MASTERPEER_NODE, kv_member_heartbeat },
	[KV_MSG_PUBLISH] = { KV_MASTERPEER_NODE, kv_intake_msg },
	[KV_MSG_GENERATION] = { KV_MASTERPEER_NODE, kv_missed_msg },
	[KV_MSG_LEAVE] = { KV_MASTERPEER_NODE, kv_member_leave },
	[KV_MSG_REMOVE] = { KV_MASTERPEER_REQUESTER, kv_relay_msg },
	[KV_MSG_KEYS] = { KV_MASTERPEER_REQUESTER, kv_relay_msg },
	[KV_MSG_QUERY] = { KV_MASTERPEER_REQUESTER, kv_relay_msg },
	[KV_MSG_STATS] = { KV_MASTERPEER_REQUESTER, peer_stats },
};

static void
peer_bad(struct kv_masterpeer *p, const struct kv_msg *msg)
{
	struct kv_master *m = p->m;

	kv_master_count(m, KV_MASTERSTAT_MESSAGES_BAD, 1);
	kv_log_limited(&m->bad_log, kv_loop_now(m->loop), KV_LOG_WARN,
		       "dropped a connection that broke the protocol from=%s "
		       "name=\"%s\" message=%s",
		       p->addr, p->name, kv_msg_name(msg->type));
	kv_answer_error(p->conn, msg->id, KV_EPROTO, NULL);
	peer_refuse(p);
}

static void
on_msg(struct kv_conn *c, const struct kv_msg *msg)
{
	struct kv_masterpeer *p = kv_conn_arg(c);

	if (p->from == KV_MASTERPEER_REFUSED)
		return;
	if (p->from == KV_MASTERPEER_STRANGER) {
		(void)peer_hello(p, msg);
		return;
	}
	if (p->member && kv_rpc_take(&p->member->rpc, msg))
		return;
	if (msg->type >= KV_ARRAY_LEN(table) ||
	    !(table[msg->type].from & p->from) ||
	    table[msg->type].fn(p, msg) < 0)
		peer_bad(p, msg);
	else if (kv_conn_is_full(c))
		kv_masterpeer_pause(p, KV_MASTERPEER_PAUSE_FULL, true);
}

static void
on_drain(struct kv_conn *c)
{
	kv_masterpeer_pause(kv_conn_arg(c), KV_MASTERPEER_PAUSE_FULL, false);
}

static void
on_close(struct kv_conn *c, int status)
{
	struct kv_masterpeer *p = kv_conn_arg(c);

	if (status == -EPROTO || status == -EPROTONOSUPPORT)
		kv_log_limited(&p->m->bad_log, kv_loop_now(p->m->loop),
			       KV_LOG_WARN,
			       "dropped a connection that does not speak this "
			       "protocol from=%s",
			       p->addr);
	kv_masterpeer_drop(p);
}

static const struct kv_conn_ops ops = {
	.on_msg = on_msg,
	.on_close = on_close,
	.on_drain = on_drain,
};

static void
peer_init(struct kv_masterpeer *p, struct kv_master *m,
	  const struct kv_peer *who)
{
	char err[KV_ADDR_ERROR_BYTES];
	struct kv_addr addr;

	p->m = m;
	kv_list_init(&p->rest);
	kv_list_init(&p->relays);
	p->timer.fn = peer_late;
	snprintf(p->addr, sizeof(p->addr), "%s", who->addr);
	p->is_local = who->is_unix || (kv_addr_parse(who->addr, 0, &addr, err,
						     sizeof(err)) == 0 &&
				       kv_addr_is_loopback(&addr));
	kv_list_add_tail(&m->peers, &p->link);
	m->n_peers++;
	kv_master_count(m, KV_MASTERSTAT_CONNS_ACCEPTED, 1);
}

void
kv_masterpeer_accepted(void *arg, struct kv_stream *s,
		       const struct kv_peer *who)
{
	struct kv_master *m = arg;
	struct kv_masterpeer *p;

	if (m->n_peers >= m->o.conns_max) {
		kv_master_count(m, KV_MASTERSTAT_CONNS_REFUSED, 1);
		kv_log_limited(&m->full_log, kv_loop_now(m->loop), KV_LOG_WARN,
			       "closed a connection from=%s: %u are open, "
			       "which is the bound",
			       who->addr, m->n_peers);
		s->ops->close(s);
		return;
	}
	p = KV_FAULT_POINT() ? NULL : calloc(1, sizeof(*p));
	if (!p) {
		s->ops->close(s);
		return;
	}
	p->conn = kv_conn_new(m->loop, s, &ops, p);
	if (!p->conn) {
		free(p);
		return;
	}
	peer_init(p, m, who);
	if (kv_loop_timer_set(m->loop, &p->timer,
			      kv_loop_now(m->loop) + KV_HELLO_WAIT_NS) < 0)
		kv_masterpeer_drop(p);
}
