/*
 * The part of a question that one node is asked. It ends with an answer, or the
 * node is away: it has no session, breaks off, or is silent.
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/attr.h"
#include "base/fault.h"
#include "base/num.h"
#include "base/status.h"
#include "svc/relaycore.h"

#define LEG_NS (2 * KV_NS_PER_S)

void
kv_relayleg_free(struct kv_relayleg *leg)
{
	kv_rpc_cancel(&leg->call);
	kv_list_del(&leg->link);
	kv_bytes_fini(&leg->index);
	free(leg);
}

void
kv_relayleg_end(struct kv_relayleg *leg)
{
	struct kv_relay *r = leg->r;

	kv_relayleg_free(leg);
	if (r->is_asked && kv_list_is_empty(&r->legs))
		kv_loop_defer(r->m->loop, &r->end);
}

static void
leg_away(struct kv_relayleg *leg)
{
	struct kv_relay *r = leg->r;

	if (kv_bytes_append(&r->away, &leg->boot, sizeof(leg->boot)) < 0)
		r->error = KV_ENOMEM;
	if (r->kind->away)
		r->kind->away(leg);
}

/* What the question is to blame for every node would say; else the node is. */
static bool
error_take(struct kv_relay *r, const struct kv_msg *msg)
{
	const struct kv_error_r *e = msg->body;
	size_t len = kv_min_size(kv_get32(e->text_len), msg->tail_len);

	if (e->status != KV_EINVALID && e->status != KV_EDENIED)
		return false;
	r->error = e->status;
	len = kv_min_size(len, sizeof(r->text) - 1);
	memcpy(r->text, msg->tail, len);
	r->text[len] = '\0';
	return true;
}

static enum kv_relayleg_next
answer_take(struct kv_relayleg *leg, const struct kv_msg *msg)
{
	struct kv_relay *r = leg->r;

	if (msg->type == KV_MSG_ERROR_R)
		return error_take(r, msg) ? KV_RELAYLEG_OVER : KV_RELAYLEG_AWAY;
	if (msg->type != r->type + 128 && msg->type != KV_MSG_PING_R)
		return KV_RELAYLEG_AWAY;
	return r->kind->take(leg, msg);
}

static void
leg_answered(struct kv_call *call, int status, const struct kv_msg *msg)
{
	struct kv_relayleg *leg =
		KV_CONTAINER_OF(call, struct kv_relayleg, call);
	enum kv_relayleg_next next = KV_RELAYLEG_AWAY;
	struct kv_member *mb = NULL;

	if (status == -ETIMEDOUT)
		mb = kv_member_find(leg->r->m, leg->boot);
	if (mb)
		kv_suspect_probe(mb);
	if (status == 0)
		next = answer_take(leg, msg);
	else if (leg->is_settling)
		next = KV_RELAYLEG_OVER;
	if (next == KV_RELAYLEG_GOES_ON)
		return;
	if (next == KV_RELAYLEG_AWAY)
		leg_away(leg);
	kv_relayleg_end(leg);
}

struct kv_relayleg *
kv_relayleg_new(struct kv_relay *r, const struct kv_member *mb)
{
	struct kv_relayleg *leg =
		KV_FAULT_POINT() ? NULL : calloc(1, sizeof(*leg));

	if (!leg)
		return NULL;
	leg->r = r;
	leg->boot = mb->boot;
	leg->store = kv_missed_store(mb);
	leg->call.fn = leg_answered;
	kv_list_add_tail(&r->legs, &leg->link);
	return leg;
}

void
kv_relayleg_send(struct kv_relayleg *leg, struct kv_member *mb,
		 const void *body, const void *tail, size_t tail_len)
{
	struct kv_relay *r = leg->r;
	size_t body_bytes = kv_msg_body_bytes(r->type);
	uint8_t *to;

	kv_master_count(r->m, KV_MASTERSTAT_RELAYS, 1);
	leg->deadline_ns = kv_loop_now(r->m->loop) + LEG_NS;
	if (!mb->peer ||
	    !kv_rpc_begin(&mb->rpc, &leg->call, r->type, leg->deadline_ns)) {
		leg_away(leg);
		kv_relayleg_end(leg);
		return;
	}
	to = kv_conn_tail(mb->peer->conn, tail_len);
	if (!to)
		return; /* the call fails with the connection */
	if (tail_len > 0)
		memcpy(to, tail, tail_len);
	memcpy(kv_conn_body(mb->peer->conn), body, body_bytes);
	kv_rpc_end(&mb->rpc);
}
