/*
 * One LOOKUP: who has these keys, as far as the asking host can reach them. A
 * key that is confirmed to exist is marked as wanted at its owners, which then
 * let it go later than others.
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/attr.h"
#include "base/fault.h"
#include "base/num.h"
#include "base/status.h"
#include "net/answer.h"
#include "svc/mastercore.h"

enum {
	CHUNK = 512, /* keys whose memory is fetched together */
	AHEAD = 16,  /* of these, that are on their way */
	/* Marks that are remembered, so as not to be sent again; a newer one
	 * may take the place of an older. */
	SEEN = 1 << 16,
	WANTS_MAX = 16384, /* for one node in one tick */
};

#define NO_RECORD UINT16_MAX

struct kv_locate_seen {
	uint64_t key;
	uint64_t until;
};

int
kv_locate_init(struct kv_master *m)
{
	m->seen = KV_FAULT_POINT() ? NULL : calloc(SEEN, sizeof(*m->seen));
	return m->seen ? 0 : -ENOMEM;
}

void
kv_locate_fini(struct kv_master *m)
{
	free(m->seen);
}

/* ---- whom the asking host can reach ---- */

struct reach {
	bool some_not; /* else the bits mean nothing */
	uint64_t not [KV_NODES_MAX / 64];
};

/* is_last: what it reported counts for nothing. */
static void
reach_init(struct reach *r, struct kv_masterpeer *p, bool is_last)
{
	struct kv_master *m = p->m;
	struct kv_member *mb;
	unsigned at;

	r->some_not = false;
	memset(r->not, 0, sizeof(r->not ));
	if (m->n_reports == 0 && (p->is_local || m->n_loopback == 0))
		return;
	for (at = 0; (mb = kv_member_next(m, &at));) {
		if (kv_member_is_for(kv_member_now(mb), p) &&
		    (is_last ||
		     !kv_suspect_is_reported(kv_member_now(mb), &p->host)))
			continue;
		r->some_not = true;
		r->not [mb->slot / 64] |= UINT64_C(1) << mb->slot % 64;
	}
}

/* Leaves the owners that can be reached, each node once. */
static void
reach_only(const struct reach *r, struct kv_master *m, struct kv_dir_view *v)
{
	unsigned i, j, n = 0, slot;

	for (i = 0; i < v->n; i++) {
		slot = v->slots[i];
		if (r->not [slot / 64] >> slot % 64 & 1)
			continue;
		slot = kv_member_now(m->members[slot])->slot;
		for (j = 0; j < n && v->slots[j] != slot; j++)
			;
		v->slots[j] = (uint16_t)slot;
		n += j == n;
	}
	v->n = n;
}

/* Of an answer. Who is left out may be reached by the asking process, all the
 * same: over a connection that it has. */
static uint8_t
answer_flags(struct kv_master *m, const struct reach *r)
{
	uint8_t flags = kv_peermasters_flags(m);

	if (r->some_not || m->n_hidden > 0)
		flags |= KV_LOOKUP_HIDES;
	if (m->n_mute > 0)
		flags |= KV_LOOKUP_INCOMPLETE;
	return flags;
}

/* ---- marks ---- */

static struct kv_locate_seen *
seen_of(const struct kv_master *m, struct kv_hash h)
{
	return &m->seen[h.hi % SEEN];
}

/* Passes it on, unless that was done within half a grace. Where a node has too
 * many already the key's turn comes with the next question for it. */
static void
mark(struct kv_master *m, struct kv_hash h, const struct reach *r, uint64_t now)
{
	struct kv_locate_seen *s = seen_of(m, h);
	uint64_t before = m->n_wants;
	struct kv_id id = kv_key_hash_build(h);
	struct kv_dir_view view;
	struct kv_member *mb;
	unsigned i;

	if (s->key == h.lo && s->until > now)
		return;
	kv_dir_find(m->dir, h, &view);
	reach_only(r, m, &view);
	for (i = 0; i < view.n; i++) {
		mb = m->members[view.slots[i]];
		if (!mb->peer || mb->wants.len >= WANTS_MAX * sizeof(id))
			continue;
		/* It is a wish: without memory it is not passed on. */
		m->n_wants += kv_bytes_append(&mb->wants, &id, sizeof(id)) == 0;
	}
	if (m->n_wants > before)
		*s = (struct kv_locate_seen){ h.lo, now + m->o.grace_ns / 2 };
}

/* Every node has what it is sent in one tick. */
static bool
marks_are_full(const struct kv_master *m)
{
	return m->n_wants >= (uint64_t)m->n_members * WANTS_MAX;
}

/* Marks of n keys that were looked up. Where the last mark of a key would be
 * noted is most likely in no near cache: the half of all that a large existence
 * check cost its master. */
static void
mark_found(struct kv_master *m, const struct kv_hash *h, const uint8_t *found,
	   size_t n, const struct reach *r)
{
	uint64_t now = kv_master_now(m);
	size_t i;

	for (i = 0; i < n + AHEAD && !marks_are_full(m); i++) {
		if (i < n && found[i])
			__builtin_prefetch(seen_of(m, h[i]), 1);
		if (i >= AHEAD && found[i - AHEAD])
			mark(m, h[i - AHEAD], r, now);
	}
}

static void
wants_send(struct kv_member *mb)
{
	size_t n = mb->wants.len / sizeof(struct kv_id);
	struct kv_want *w;
	void *tail;

	if (n == 0 || !mb->peer || kv_conn_is_full(mb->peer->conn) ||
	    !(w = kv_conn_begin_tail(mb->peer->conn, KV_MSG_WANT, 0, 0,
				     mb->wants.len, &tail)))
		return;
	w->count = kv_le32((uint32_t)n);
	memcpy(tail, mb->wants.data, mb->wants.len);
	kv_conn_end(mb->peer->conn);
	kv_master_count(mb->m, KV_MASTERSTAT_WANTED, n);
}

void
kv_locate_tick(struct kv_master *m)
{
	struct kv_member *mb;
	unsigned at;

	for (at = 0; (mb = kv_member_next(m, &at));) {
		wants_send(mb);
		kv_bytes_reset(&mb->wants);
	}
	m->n_wants = 0;
}

/* ---- whether ---- */

static void
hashes_take(struct kv_hash *h, const struct kv_id *ids, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++)
		h[i] = kv_key_hash_parse(ids[i]);
}

/* Writes 1 or 0 for n keys; returns how many exist. */
static size_t
exist(struct kv_master *m, const struct reach *r, const struct kv_id *ids,
      size_t n, uint8_t *out)
{
	struct kv_hash h[CHUNK];
	struct kv_dir_view view;
	size_t i, found;

	assert(n > 0);
	hashes_take(h, ids, n);
	found = kv_dir_exist(m->dir, h, n, out);
	for (i = 0; i < n && r->some_not; i++) {
		if (!out[i])
			continue;
		kv_dir_find(m->dir, h[i], &view);
		reach_only(r, m, &view);
		out[i] = view.n > 0;
		found -= !out[i];
	}
	mark_found(m, h, out, n, r);
	return found;
}

static void
exist_answer(struct kv_masterpeer *p, const struct kv_msg *msg, size_t count)
{
	struct kv_master *m = p->m;
	const uint8_t *ids = msg->tail;
	struct kv_lookup_r *r;
	struct reach reach;
	size_t i, n, found = 0;
	void *out;

	r = kv_conn_begin_tail(p->conn, KV_MSG_LOOKUP_R, msg->id, 0, count,
			       &out);
	if (!r)
		return;
	reach_init(&reach, p, false);
	r->count = kv_le32((uint32_t)count);
	r->flags = answer_flags(m, &reach);
	for (i = 0; i < count; i += n) {
		n = kv_min_size(count - i, CHUNK);
		found += exist(m, &reach, (const struct kv_id *)ids + i, n,
			       (uint8_t *)out + i);
	}
	kv_conn_end(p->conn);
	kv_masterstats_op(m, KV_MASTERSTAT_EXIST_KEY, count, 0);
	kv_master_count(m, KV_MASTERSTAT_HITS, found);
}

/* ---- who ---- */

/* An answer under construction. Owners of all keys are collected before they
 * are copied to where they belong, behind the numbers of them. */
struct owners {
	struct kv_master *m;
	unsigned max;                  /* owners of one key */
	uint16_t record[KV_NODES_MAX]; /* of a slot */
	uint16_t slots[KV_NODES_MAX];  /* in the order of their records */
	unsigned n;
	struct reach reach;
	struct reach last;
	size_t record_bytes;
	size_t found;
	uint8_t flags; /* of the answer */
};

static unsigned
record_of(struct owners *o, unsigned slot)
{
	if (o->record[slot] == NO_RECORD) {
		o->record[slot] = (uint16_t)o->n;
		o->slots[o->n++] = (uint16_t)slot;
		o->record_bytes += kv_member_record_bytes(o->m->members[slot]);
	}
	return o->record[slot];
}

/* Those that the asking host can reach. Where there are none those that it has
 * reported are as good: who reported them need not be who asks, and may have
 * reached them since. */
static void
owners_of(const struct owners *o, struct kv_hash h, struct kv_dir_view *view)
{
	view->n = 0;
	kv_dir_find(o->m->dir, h, view);
	reach_only(&o->reach, o->m, view);
	if (view->n > 0 || !o->reach.some_not)
		return;
	kv_dir_find(o->m->dir, h, view);
	reach_only(&o->last, o->m, view);
}

/* Appends what is known of n keys: numbers to `counts`, owners to scratch. */
static void
owners_find(struct owners *o, const struct kv_id *ids, size_t n,
	    uint8_t *counts)
{
	struct kv_bytes *to = &o->m->scratch;
	struct kv_hash h[CHUNK];
	struct kv_dir_view view;
	struct kv_le16 index;
	size_t i;
	unsigned j;

	hashes_take(h, ids, n);
	for (i = 0; i < n; i++)
		kv_dir_prefetch_word(o->m->dir, h[i]);
	for (i = 0; i < n && i < AHEAD; i++)
		kv_dir_prefetch(o->m->dir, h[i]);
	for (i = 0; i < n; i++) {
		if (i + AHEAD < n)
			kv_dir_prefetch(o->m->dir, h[i + AHEAD]);
		owners_of(o, h[i], &view);
		counts[i] = (uint8_t)kv_min_size(view.n, o->max);
		o->found += counts[i] > 0;
		for (j = 0; j < counts[i]; j++) {
			index = kv_le16((uint16_t)record_of(o, view.slots[j]));
			memcpy(to->data + to->len, &index, sizeof(index));
			to->len += sizeof(index);
		}
	}
}

/* Numbers and owners are in scratch. */
static void
owners_answer(struct kv_masterpeer *p, uint64_t id, const struct owners *o,
	      size_t count)
{
	const struct kv_bytes *from = &o->m->scratch;
	struct kv_lookup_r *r;
	uint8_t *to;
	void *tail;
	unsigned i;

	r = kv_conn_begin_tail(p->conn, KV_MSG_LOOKUP_R, id, 0,
			       from->len + o->record_bytes, &tail);
	if (!r)
		return;
	r->count = kv_le32((uint32_t)count);
	r->nodes = kv_le16((uint16_t)o->n);
	r->flags = o->flags;
	to = tail;
	if (from->len > 0)
		memcpy(to, from->data, from->len);
	to += from->len;
	for (i = 0; i < o->n; i++)
		to += kv_member_record(o->m->members[o->slots[i]], to);
	kv_conn_end(p->conn);
}

/* Of a key with many owners, in a frame with very many keys, only some are
 * named: the answer must fit in a frame. */
static unsigned
owners_max(const struct kv_master *m, size_t count)
{
	size_t room = KV_TAIL_MAX - m->n_members * KV_MEMBER_RECORD_MAX;

	return (unsigned)kv_min_size(KV_REPLICAS_MAX,
				     (room / kv_max_size(count, 1) - 1) /
					     sizeof(struct kv_le16));
}

static void
who_answer(struct kv_masterpeer *p, const struct kv_msg *msg, size_t count)
{
	struct kv_master *m = p->m;
	struct owners o = { .m = m, .max = owners_max(m, count) };
	const uint8_t *ids = msg->tail;
	size_t i, n;

	kv_bytes_reset(&m->scratch);
	if (!kv_bytes_reserve(&m->scratch,
			      count * (1 + o.max * sizeof(struct kv_le16)))) {
		kv_answer_error(p->conn, msg->id, KV_ENOMEM, NULL);
		return;
	}
	m->scratch.len = count;
	memset(o.record, 0xff, sizeof(o.record));
	reach_init(&o.reach, p, false);
	reach_init(&o.last, p, true);
	o.flags = answer_flags(m, &o.reach);
	for (i = 0; i < count; i += n) {
		n = kv_min_size(count - i, CHUNK);
		owners_find(&o, (const struct kv_id *)ids + i, n,
			    m->scratch.data + i);
	}
	owners_answer(p, msg->id, &o, count);
	kv_masterstats_op(m, KV_MASTERSTAT_GET_REPLICA_LIST, count,
			  count - o.found);
	kv_master_count(m, KV_MASTERSTAT_GETS, count);
	kv_master_count(m, KV_MASTERSTAT_GETS_VALID, o.found);
	kv_master_count(m, KV_MASTERSTAT_HITS, o.found);
}

int
kv_locate_msg(struct kv_masterpeer *p, const struct kv_msg *msg)
{
	const struct kv_lookup *l = msg->body;
	size_t count = kv_get32(l->count);
	struct kv_cut cut;

	kv_cut_init(&cut, msg);
	kv_cut_array(&cut, count, sizeof(struct kv_id));
	if (!kv_cut_done(&cut) || l->flags & ~KV_LOOKUP_EXIST)
		return -EPROTO;
	if (l->flags & KV_LOOKUP_EXIST)
		exist_answer(p, msg, count);
	else
		who_answer(p, msg, count);
	kv_masterpeer_charge(p, count);
	return 0;
}

/* ---- all nodes ---- */

int
kv_locate_nodes(struct kv_masterpeer *p, const struct kv_msg *msg)
{
	struct kv_master *m = p->m;
	struct kv_bytes *to = &m->scratch;
	struct kv_nodes_r *r;
	unsigned count;
	uint8_t flags;
	void *tail;

	kv_bytes_reset(to);
	flags = kv_peermasters_flags(m);
	if (kv_member_records(m, p, to, &count) < 0) {
		kv_answer_error(p->conn, msg->id, KV_ENOMEM, NULL);
		return 0;
	}
	r = kv_conn_begin_tail(p->conn, KV_MSG_NODES_R, msg->id, 0, to->len,
			       &tail);
	if (!r)
		return 0;
	r->flags = flags;
	r->count = kv_le32(count);
	r->master_keys = kv_le64(kv_dir_keys(m->dir));
	r->lacking = kv_le32(kv_peermasters_lacking(m));
	r->age_ms = kv_le32((uint32_t)kv_min_u64(
		(kv_master_now(m) - m->started) / KV_NS_PER_MS, UINT32_MAX));
	if (to->len > 0)
		memcpy(tail, to->data, to->len);
	kv_conn_end(p->conn);
	return 0;
}
