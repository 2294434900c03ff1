/*
 * KEYS: one page of one node's keys, a node after the other in the order of
 * their boot ids, so that a list neither repeats nor skips a node while others
 * come and go. QUERY: everything about one key, of all that hold it.
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/attr.h"
#include "base/num.h"
#include "base/status.h"
#include "svc/relaycore.h"

/* ---- KEYS ---- */

/* Whom to ask after this page. */
static struct kv_id
page_next(struct kv_master *m, struct kv_id node, uint64_t cursor)
{
	const struct kv_member *mb = kv_member_after(m, node);

	if (cursor != 0)
		return node;
	return mb ? mb->boot : (struct kv_id){ 0 };
}

static bool
page_build(struct kv_relay *r, const struct kv_keys_r *page,
	   const uint8_t *tail, size_t tail_len)
{
	struct kv_keys_r body = *page;

	body.node = r->node;
	body.next = page_next(r->m, r->node, kv_get64(page->cursor));
	kv_bytes_reset(&r->out);
	return kv_bytes_append(&r->out, &body, sizeof(body)) == 0 &&
	       kv_bytes_append(&r->out, tail, tail_len) == 0;
}

static int
keys_start(struct kv_relay *r, const struct kv_msg *msg)
{
	const struct kv_keys *k = msg->body;
	struct kv_relayleg *leg;
	struct kv_member *mb;
	const char *tenant;
	struct kv_cut cut;

	kv_cut_init(&cut, msg);
	tenant = kv_cut_take(&cut, k->tenant_len);
	kv_cut_take(&cut, kv_get16(k->pattern_len));
	if (!kv_cut_done(&cut))
		return -EPROTO;
	if (!kv_relay_may_ask(r, tenant, k->tenant_len))
		return KV_EDENIED;
	r->node = k->node;
	mb = kv_id_is_zero(k->node) ? kv_member_after(r->m, k->node)
				    : kv_member_find(r->m, k->node);
	if (!mb)
		return 0;
	r->node = mb->boot;
	leg = kv_relayleg_new(r, mb);
	if (!leg)
		return KV_ENOMEM;
	kv_relayleg_send(leg, mb, msg->body, msg->tail, msg->tail_len);
	return 0;
}

static enum kv_relayleg_next
keys_take(struct kv_relayleg *leg, const struct kv_msg *msg)
{
	struct kv_relay *r = leg->r;

	if (msg->type != KV_MSG_KEYS_R)
		return KV_RELAYLEG_AWAY;
	if (!page_build(r, msg->body, msg->tail, msg->tail_len))
		r->error = KV_ENOMEM;
	return KV_RELAYLEG_OVER;
}

/* Without a page: there is no node at all, or this one has none to give. */
static bool
keys_finish(struct kv_relay *r)
{
	struct kv_keys_r none = { .status = KV_OK };

	if (r->out.len > 0)
		return true;
	if (r->away.len > 0)
		none.status = KV_EUNREACHABLE;
	else if (!kv_id_is_zero(r->node))
		none.status = KV_EGONE;
	return page_build(r, &none, NULL, 0);
}

const struct kv_relay_kind kv_relayls_keys = {
	.start = keys_start,
	.take = keys_take,
	.finish = keys_finish,
};

/* ---- QUERY ---- */

/* While some node has two sessions the directory is incomplete, and all nodes
 * are asked: so here each owner stands for another node. */
static int
owners_ask(struct kv_relay *r, const struct kv_msg *msg, struct kv_hash h)
{
	struct kv_master *m = r->m;
	struct kv_relayleg *leg;
	struct kv_dir_view view;
	struct kv_member *mb;
	unsigned i;

	if (!kv_dir_find(m->dir, h, &view))
		view.n = 0;
	for (i = 0; i < view.n; i++) {
		mb = m->members[view.slots[i]];
		if (kv_relay_is_doubted(mb))
			continue;
		leg = kv_relayleg_new(r, mb);
		if (!leg)
			return KV_ENOMEM;
		kv_relayleg_send(leg, mb, msg->body, msg->tail, msg->tail_len);
	}
	return kv_relay_send_all(r, msg, true) ? 0 : KV_ENOMEM;
}

static int
query_start(struct kv_relay *r, const struct kv_msg *msg)
{
	const struct kv_query *q = msg->body;
	static const struct kv_query_r none;
	const char *tenant;
	const void *key;
	struct kv_cut cut;

	kv_cut_init(&cut, msg);
	tenant = kv_cut_take(&cut, q->tenant_len);
	key = kv_cut_take(&cut, kv_get16(q->key_len));
	if (!kv_cut_done(&cut) || q->flags & ~KV_QUERY_SUM)
		return -EPROTO;
	if (!kv_relay_may_ask(r, tenant, q->tenant_len))
		return KV_EDENIED;
	if (kv_bytes_append(&r->out, &none, sizeof(none)) < 0)
		return KV_ENOMEM;
	if (kv_member_is_incomplete(r->m))
		return kv_relay_send_all(r, msg, false) ? 0 : KV_ENOMEM;
	return owners_ask(r, msg,
			  kv_key_hash(kv_key_seed(tenant, q->tenant_len), key,
				      kv_get16(q->key_len)));
}

/* A replica, with the node's address and name. */
static bool
record_add(struct kv_relay *r, struct kv_member *mb,
	   const struct kv_query_rec *from)
{
	struct kv_query_rec rec = *from;
	bool has_addr = mb && kv_member_is_for(mb, r->p);

	rec.addr_len = has_addr ? mb->addr_len : 0;
	rec.name_len = mb ? mb->name_len : 0;
	if (r->out.len + sizeof(rec) + KV_MEMBER_RECORD_MAX > KV_TAIL_MAX)
		return true;
	r->records++;
	return kv_bytes_append(&r->out, &rec, sizeof(rec)) == 0 &&
	       kv_bytes_append(&r->out, mb ? mb->addr : "", rec.addr_len) ==
		       0 &&
	       kv_bytes_append(&r->out, mb ? mb->name : "", rec.name_len) == 0;
}

static enum kv_relayleg_next
query_take(struct kv_relayleg *leg, const struct kv_msg *msg)
{
	const struct kv_query_r *a = msg->body;
	struct kv_relay *r = leg->r;
	struct kv_member *mb = kv_member_find(r->m, leg->boot);
	const struct kv_query_rec *rec;
	struct kv_cut cut;
	uint32_t i;

	if (msg->type != KV_MSG_QUERY_R ||
	    (a->status != KV_OK && a->status != KV_EMISS))
		return KV_RELAYLEG_AWAY;
	kv_cut_init(&cut, msg);
	for (i = 0; i < kv_get32(a->count); i++) {
		rec = kv_cut_take(&cut, sizeof(*rec));
		if (!rec ||
		    !kv_cut_take(&cut, (size_t)rec->addr_len + rec->name_len))
			return KV_RELAYLEG_AWAY;
		if (!record_add(r, mb, rec))
			r->error = KV_ENOMEM;
	}
	return kv_cut_done(&cut) ? KV_RELAYLEG_OVER : KV_RELAYLEG_AWAY;
}

static bool
query_finish(struct kv_relay *r)
{
	struct kv_query_r *body = (void *)r->out.data;

	body->count = kv_le32(r->records);
	body->away = kv_le32((uint32_t)(r->away.len / sizeof(struct kv_id)));
	return true;
}

const struct kv_relay_kind kv_relayls_query = {
	.start = query_start,
	.take = query_take,
	.finish = query_finish,
};
