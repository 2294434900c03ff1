/*
 * REMOVE. Keys are removed where the directory knows them, and where it may not
 * know them (all nodes, while it is incomplete; doubted ones always). What a
 * node removed is a miss here before the answer leaves.
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/attr.h"
#include "base/fault.h"
#include "base/status.h"
#include "svc/gentable.h"
#include "svc/relaycore.h"

/* The keys of a question, while it is being passed on. */
struct plan {
	struct kv_relay *r;
	const struct kv_remove *body;
	const char *tenant;
	const struct kv_le16 *lens;
	const uint8_t *keys;
	struct kv_relayleg *legs[KV_NODES_MAX]; /* by slot */
};

/* A key's status from several nodes: what is not done counts most. */
static void
merge(struct kv_relay_key *k, uint8_t status)
{
	if (k->status == KV_EMISS || (k->status == KV_OK && status != KV_EMISS))
		k->status = status;
}

/* ---- asking ---- */

/* What the directory says of a key, and whom to ask for it. */
static bool
plan_key(struct plan *pl, uint32_t i, bool to_all)
{
	struct kv_relay_key *k = &pl->r->keys[i];
	struct kv_master *m = pl->r->m;
	struct kv_dir_view view;
	struct kv_member *mb;
	unsigned j;

	k->is_known = kv_dir_find(m->dir, k->hash, &view);
	if (!k->is_known)
		return true;
	k->id = view.id;
	for (j = 0; j < view.n && !to_all; j++) {
		mb = m->members[view.slots[j]];
		if (kv_relay_is_doubted(mb))
			continue;
		if (!pl->legs[mb->slot])
			pl->legs[mb->slot] = kv_relayleg_new(pl->r, mb);
		if (!pl->legs[mb->slot] ||
		    kv_bytes_append(&pl->legs[mb->slot]->index, &i, sizeof(i)) <
			    0)
			return false;
	}
	return true;
}

/* The part of the question for one node. */
static bool
part_send(struct plan *pl, struct kv_member *mb)
{
	struct kv_relayleg *leg = pl->legs[mb->slot];
	size_t n = leg->index.len / sizeof(uint32_t), j;
	struct kv_bytes *to = &pl->r->m->scratch;
	struct kv_remove body = *pl->body;
	uint32_t i;
	int rc;

	body.count = kv_le32((uint32_t)n);
	kv_bytes_reset(to);
	rc = kv_bytes_append(to, pl->tenant, body.tenant_len);
	for (j = 0; rc == 0 && j < n; j++) {
		memcpy(&i, leg->index.data + j * sizeof(i), sizeof(i));
		rc = kv_bytes_append(to, &pl->lens[i], sizeof(pl->lens[i]));
	}
	for (j = 0; rc == 0 && j < n; j++) {
		memcpy(&i, leg->index.data + j * sizeof(i), sizeof(i));
		rc = kv_bytes_append(to, pl->keys + pl->r->keys[i].off,
				     kv_get16(pl->lens[i]));
	}
	if (rc == 0)
		kv_relayleg_send(leg, mb, &body, to->data, to->len);
	return rc == 0;
}

static bool
parts_send(struct plan *pl)
{
	struct kv_master *m = pl->r->m;
	struct kv_member *mb;
	unsigned at;

	for (at = 0; (mb = kv_member_next(m, &at));)
		if (pl->legs[mb->slot] && !part_send(pl, mb))
			return false;
	return true;
}

/* What follows the tenant. False: malformed. */
static bool
rest_check(const struct kv_remove *body, struct kv_cut *cut)
{
	uint32_t i, n = kv_get32(body->count);
	const struct kv_le16 *lens;
	size_t bytes = 0;

	if (body->op == KV_REMOVE_KEYS) {
		lens = kv_cut_array(cut, n, sizeof(*lens));
		for (i = 0; lens && i < n; i++)
			bytes += kv_get16(lens[i]);
		kv_cut_take(cut, bytes);
	} else if (body->op == KV_REMOVE_REGEX) {
		kv_cut_take(cut, n);
	}
	return kv_cut_done(cut);
}

/* Lengths and places of the keys. False: malformed. */
static bool
keys_parse(struct plan *pl, struct kv_cut *cut)
{
	struct kv_relay *r = pl->r;
	uint64_t seed = kv_key_seed(pl->tenant, pl->body->tenant_len);
	size_t bytes = 0;
	uint32_t i;

	pl->lens = kv_cut_array(cut, r->count, sizeof(*pl->lens));
	for (i = 0; pl->lens && i < r->count; i++) {
		r->keys[i].off = (uint32_t)bytes;
		bytes += kv_get16(pl->lens[i]);
	}
	pl->keys = kv_cut_take(cut, bytes);
	if (!kv_cut_done(cut) || (!pl->lens && r->count > 0))
		return false;
	for (i = 0; i < r->count; i++) {
		r->keys[i].hash = kv_key_hash(seed, pl->keys + r->keys[i].off,
					      kv_get16(pl->lens[i]));
		r->keys[i].status = KV_EMISS;
	}
	return true;
}

static int
keys_start(struct plan *pl, const struct kv_msg *msg, struct kv_cut *cut)
{
	struct kv_relay *r = pl->r;
	struct kv_relay_key *keys;
	bool to_all = kv_member_is_incomplete(r->m);
	uint32_t i;

	r->count = kv_get32(pl->body->count);
	if (r->count > KV_BATCH_KEYS_MAX)
		return KV_EINVALID;
	keys = KV_FAULT_POINT() ? NULL : calloc(r->count + 1, sizeof(*keys));
	if (!keys)
		return KV_ENOMEM;
	r->keys = keys;
	if (!keys_parse(pl, cut))
		return -EPROTO;
	for (i = 0; i < r->count; i++)
		if (!plan_key(pl, i, to_all))
			return KV_ENOMEM;
	if (!parts_send(pl))
		return KV_ENOMEM;
	return kv_relay_send_all(r, msg, !to_all) ? 0 : KV_ENOMEM;
}

static const struct {
	enum kv_masterstat count, fails;
} stats[] = {
	[KV_REMOVE_KEYS] = { KV_MASTERSTAT_REMOVE, KV_MASTERSTAT_REMOVE_FAILS },
	[KV_REMOVE_REGEX] = { KV_MASTERSTAT_REMOVE_REGEX,
			      KV_MASTERSTAT_REMOVE_REGEX_FAILS },
	[KV_REMOVE_ALL] = { KV_MASTERSTAT_REMOVE_ALL,
			    KV_MASTERSTAT_REMOVE_ALL_FAILS },
};

/* Whoever is away is to be told of it later. */
static bool
record(struct kv_relay *r, const struct kv_msg *msg)
{
	if (kv_bytes_append(&r->tail, msg->tail, msg->tail_len) < 0)
		return false;
	return kv_pending_add_all(&r->m->pending, &r->asked, msg->tail,
				  msg->tail_len, &r->away) == 0;
}

/* Another master has asked its nodes. */
static int
record_only(struct kv_relay *r, const struct kv_msg *msg, const char *tenant)
{
	const struct kv_remove *body = msg->body;

	/* Nodes that have heard of that one need not be told. */
	r->asked.generation = body->generation;
	kv_missed_learn(r->m, tenant, body->tenant_len,
			kv_gentable_parse(&body->generation));
	return record(r, msg) ? 0 : KV_ENOMEM;
}

/*
 * The generation that a removal of all begins. Whoever asks names it, so that
 * it is one removal whichever masters come to it, and when; it must be above
 * what they know. False: it is not.
 */
static bool
all_begin(struct kv_relay *r, const struct kv_remove *body, const char *tenant)
{
	struct kv_generation g = kv_gentable_parse(&body->generation);
	struct kv_generation known =
		kv_missed_generation(r->m, tenant, body->tenant_len);

	if (g.number == 0)
		g = kv_missed_next(r->m, tenant, body->tenant_len);
	r->is_late = g.number > 0 && g.number <= known.number &&
		     !kv_generation_is_equal(g, known);
	r->generation = g;
	return !r->is_late;
}

/* As keys_start(), of patterns and all. */
static int
all_start(struct kv_relay *r, const struct kv_msg *msg, const char *tenant)
{
	struct kv_msg question = *msg;

	if (r->op == KV_REMOVE_ALL && !all_begin(r, msg->body, tenant))
		return kv_bytes_append(&r->tail, msg->tail, msg->tail_len) < 0
			       ? KV_ENOMEM
			       : 0; /* the answer names the tenant's */
	r->asked.generation = kv_gentable_build(r->generation);
	question.body = &r->asked;
	if (!record(r, &question) || !kv_relay_send_all(r, &question, false))
		return KV_ENOMEM;
	return 0;
}

static int
remove_start(struct kv_relay *r, const struct kv_msg *msg)
{
	struct plan pl = { .r = r, .body = &r->asked };
	const struct kv_remove *body = msg->body;
	struct kv_cut cut, rest;

	r->op = body->op;
	r->asked = *body;
	r->asked.flags = body->flags & KV_REMOVE_FORCE;
	r->asked.generation = kv_gentable_build((struct kv_generation){ 0 });
	kv_cut_init(&cut, msg);
	pl.tenant = kv_cut_take(&cut, body->tenant_len);
	if (r->op < KV_REMOVE_KEYS || r->op > KV_REMOVE_ALL ||
	    body->flags & ~(KV_REMOVE_FORCE | KV_REMOVE_RECORD) || cut.bad)
		return -EPROTO;
	rest = cut;
	if (!rest_check(body, &rest))
		return -EPROTO;
	kv_master_count(r->m, stats[r->op].count, 1);
	if (!kv_relay_may_ask(r, pl.tenant, body->tenant_len))
		return KV_EDENIED;
	if (body->flags & KV_REMOVE_RECORD)
		return record_only(r, msg, pl.tenant);
	if (r->op != KV_REMOVE_KEYS)
		return all_start(r, msg, pl.tenant);
	return record(r, msg) ? keys_start(&pl, msg, &cut) : KV_ENOMEM;
}

/* ---- answers ---- */

/* Keys that the leg asked for. */
static size_t
leg_count(const struct kv_relayleg *leg)
{
	size_t n = leg->index.len / sizeof(uint32_t);

	return n > 0 ? n : leg->r->count;
}

static struct kv_relay_key *
leg_key(const struct kv_relayleg *leg, size_t j)
{
	uint32_t i = (uint32_t)j;

	if (leg->index.len > 0)
		memcpy(&i, leg->index.data + j * sizeof(i), sizeof(i));
	return &leg->r->keys[i];
}

/*
 * The node let keys go that this master cannot name. It says which soon after:
 * all of it has come when a PING was answered and nothing came meanwhile.
 */
static enum kv_relayleg_next
settle(struct kv_relayleg *leg, struct kv_member *mb)
{
	if (!mb || !mb->peer)
		return KV_RELAYLEG_OVER;
	leg->is_settling = true;
	leg->withdrawn = mb->withdrawn;
	if (!kv_rpc_begin(&mb->rpc, &leg->call, KV_MSG_PING, leg->deadline_ns))
		return KV_RELAYLEG_OVER;
	kv_rpc_end(&mb->rpc);
	return KV_RELAYLEG_GOES_ON;
}

/* What the node published until now is from before the removal. */
static void
forget(struct kv_member *mb, struct kv_relay_key *k)
{
	struct kv_dir_view view;

	if (!k->is_known) {
		if (!kv_dir_find(mb->m->dir, k->hash, &view))
			return;
		k->id = view.id;
	}
	kv_member_forget(mb, k->hash, k->id);
}

static enum kv_relayleg_next
keys_take(struct kv_relayleg *leg, struct kv_member *mb,
	  const struct kv_msg *msg)
{
	const struct kv_remove_r *a = msg->body;
	struct kv_relay_key *k;
	size_t j;

	if (kv_get32(a->count) != leg_count(leg) ||
	    msg->tail_len != leg_count(leg))
		return KV_RELAYLEG_AWAY;
	for (j = 0; j < leg_count(leg); j++) {
		k = leg_key(leg, j);
		merge(k, msg->tail[j]);
		if (msg->tail[j] == KV_OK && mb)
			forget(mb, k);
	}
	return KV_RELAYLEG_OVER;
}

/* A node knows of another removal. */
static void
late(struct kv_relay *r, struct kv_generation known)
{
	r->is_late = true;
	kv_missed_learn(r->m, (const char *)r->tail.data, r->asked.tenant_len,
			known);
}

static enum kv_relayleg_next
remove_take(struct kv_relayleg *leg, const struct kv_msg *msg)
{
	const struct kv_remove_r *a = msg->body;
	struct kv_relay *r = leg->r;
	struct kv_member *mb = kv_member_find(r->m, leg->boot);

	if (leg->is_settling)
		return mb && mb->withdrawn != leg->withdrawn ? settle(leg, mb)
							     : KV_RELAYLEG_OVER;
	if (msg->type == KV_MSG_REMOVE_R && a->status == KV_EBUSY) {
		late(r, kv_gentable_parse(&a->generation));
		return KV_RELAYLEG_OVER;
	}
	if (msg->type != KV_MSG_REMOVE_R || a->status != KV_OK)
		return KV_RELAYLEG_AWAY;
	if (r->op == KV_REMOVE_KEYS)
		return keys_take(leg, mb, msg);
	r->removed += kv_get64(a->removed);
	r->kept += kv_get32(a->kept);
	r->undecided += kv_get64(a->undecided);
	return kv_get64(a->removed) > 0 ? settle(leg, mb) : KV_RELAYLEG_OVER;
}

static bool
is_owner(const struct kv_member *mb, const struct kv_relay_key *k)
{
	struct kv_dir_view view;
	unsigned i;

	if (!k->is_known || !kv_dir_find(mb->m->dir, k->hash, &view))
		return false;
	for (i = 0; i < view.n; i++)
		if (view.slots[i] == mb->slot)
			return true;
	return false;
}

/*
 * It may still remove the keys, whenever it comes to read the question: so what
 * it has of them counts no more against a later put.
 */
static void
remove_away(struct kv_relayleg *leg)
{
	struct kv_member *mb = kv_member_find(leg->r->m, leg->boot);
	struct kv_relay_key *k;
	size_t j;

	if (kv_missed_add(leg->r->m, leg->store, leg->boot, &leg->r->asked,
			  leg->r->tail.data, leg->r->tail.len) < 0)
		leg->r->error = KV_ENOMEM;
	for (j = 0; j < leg_count(leg); j++) {
		k = leg_key(leg, j);
		if (leg->index.len > 0 || (mb && is_owner(mb, k)))
			merge(k, KV_EUNREACHABLE);
		if (mb && k->is_known)
			kv_member_forget(mb, k->hash, k->id);
	}
}

/* Nothing of the tenant is left, anywhere: what comes back from somewhere is
 * older than this. A removal that kept something has not such an end, and one
 * that is not forced must not reach what nodes that are away would keep. */
static struct kv_generation
generation_begin(struct kv_relay *r)
{
	const char *tenant = (const char *)r->tail.data;
	bool is_forced = r->asked.flags & KV_REMOVE_FORCE;

	if (r->op != KV_REMOVE_ALL)
		return (struct kv_generation){ 0 };
	if (!r->is_late && (is_forced || (r->kept == 0 && r->away.len == 0)))
		kv_missed_learn(r->m, tenant, r->asked.tenant_len,
				r->generation);
	return kv_missed_generation(r->m, tenant, r->asked.tenant_len);
}

static bool
remove_finish(struct kv_relay *r)
{
	struct kv_remove_r body = {
		.status = r->is_late ? KV_EBUSY : KV_OK,
		.flags = kv_peermasters_flags(r->m),
		.count = kv_le32(r->count),
		.away = kv_le32((uint32_t)(r->away.len / sizeof(struct kv_id))),
	};
	uint32_t i;
	uint8_t *to;

	for (i = 0; i < r->count; i++) {
		r->removed += r->keys[i].status == KV_OK;
		r->kept += r->keys[i].status == KV_EBUSY;
	}
	body.removed = kv_le64(r->removed);
	body.kept = kv_le32(r->kept);
	body.undecided = kv_le64(r->undecided);
	body.generation = kv_gentable_build(generation_begin(r));
	if (r->away.len > 0)
		kv_master_count(r->m, stats[r->op].fails, 1);
	to = kv_bytes_reserve(&r->out, sizeof(body) + r->count + r->away.len);
	if (!to)
		return false;
	r->out.len = sizeof(body) + r->count + r->away.len;
	memcpy(to, &body, sizeof(body));
	to += sizeof(body);
	for (i = 0; i < r->count; i++)
		*to++ = r->keys[i].status;
	if (r->away.len > 0)
		memcpy(to, r->away.data, r->away.len);
	return true;
}

const struct kv_relay_kind kv_relayrm_kind = {
	.start = remove_start,
	.take = remove_take,
	.away = remove_away,
	.finish = remove_finish,
};
