/*
 * What nodes tell of other masters, and when a miss of this one proves nothing.
 *
 * A node is fresh as long as its last heartbeat repeated a stamp of this master
 * that is not older than KV_MASTER_WORD_MS. The node has heard that stamp later
 * than it was given, and does nothing without this master for a longer time
 * after it: so this master knows all that a fresh node's puts were confirmed
 * for. (No clock is compared with another one.)
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/attr.h"
#include "base/fault.h"
#include "base/num.h"
#include "base/status.h"
#include "svc/mastercore.h"

#define WORD_NS (KV_MASTER_WORD_MS * KV_NS_PER_MS)

/* ---- sets of nodes ---- */

/* As the wire has it. */
static uint64_t
short_id(const struct kv_id *boot)
{
	struct kv_le64 le;

	memcpy(&le, boot, sizeof(le));
	return kv_get64(le);
}

static size_t
set_count(const struct kv_bytes *set)
{
	return set->len / sizeof(uint64_t);
}

static const uint64_t *
set_ids(const struct kv_bytes *set)
{
	return (const void *)set->data;
}

static int
compare(const void *a, const void *b)
{
	uint64_t x, y;

	memcpy(&x, a, sizeof(x));
	memcpy(&y, b, sizeof(y));
	return (x > y) - (x < y);
}

static void
set_sort(struct kv_bytes *set)
{
	if (set->len > 0)
		qsort(set->data, set_count(set), sizeof(uint64_t), compare);
}

static bool
set_has(const struct kv_bytes *set, uint64_t id)
{
	return set->len > 0 && bsearch(&id, set->data, set_count(set),
				       sizeof(id), compare) != NULL;
}

/* ---- what follows ---- */

bool
kv_peermasters_is_fresh(const struct kv_member *mb)
{
	return !mb->is_hidden && !mb->is_deaf &&
	       kv_loop_now(mb->m->loop) < mb->fresh_until;
}

/* Those of which nothing new was told for too long count no more. (They are not
 * forgotten: else an old word would be news.) */
static void
others_count(struct kv_master *m)
{
	struct kv_peermasters *k = &m->others;
	uint64_t now = kv_loop_now(m->loop), until;
	struct kv_peermaster *o;
	unsigned i;

	k->known = 0;
	for (i = 0; i < k->n; i++) {
		o = &k->of[i];
		until = o->told + WORD_NS;
		o->is_known = o->is_listed && now < until;
		k->known += o->is_known;
		if (o->is_known)
			k->until = kv_min_u64(k->until, until);
	}
}

/* 0 or -ENOMEM. */
static int
mine_find(struct kv_master *m)
{
	struct kv_peermasters *k = &m->others;
	unsigned at, masters = 0;
	struct kv_member *mb;
	uint64_t id;

	kv_bytes_reset(&k->mine);
	k->digest = 0;
	k->silent = 0;
	for (at = 0; (mb = kv_member_next(m, &at));) {
		if (mb->heir)
			continue;
		masters = (unsigned)kv_max_u64(masters, mb->masters);
		if (!kv_peermasters_is_fresh(mb)) {
			k->silent++;
			continue;
		}
		k->until = kv_min_u64(k->until, mb->fresh_until);
		k->digest ^= kv_key_hash(0, &mb->boot, sizeof(mb->boot)).lo;
		id = short_id(&mb->boot);
		if (kv_bytes_append(&k->mine, &id, sizeof(id)) < 0)
			return -ENOMEM;
	}
	if (masters > 0)
		k->told_of = masters;
	set_sort(&k->mine);
	return 0;
}

static int
theirs_find(struct kv_master *m)
{
	struct kv_peermasters *k = &m->others;
	const uint64_t *id;
	size_t i, n = 0;
	unsigned j;

	kv_bytes_reset(&k->theirs);
	kv_bytes_reset(&k->lacking);
	for (j = 0; j < k->n; j++)
		if (k->of[j].is_known &&
		    kv_bytes_append(&k->theirs, k->of[j].ids.data,
				    k->of[j].ids.len) < 0)
			return -ENOMEM;
	set_sort(&k->theirs);
	id = set_ids(&k->theirs);
	n = set_count(&k->theirs);
	for (i = 0; i < n; i++)
		if ((i == 0 || id[i] != id[i - 1]) &&
		    !set_has(&k->mine, id[i]) &&
		    kv_bytes_append(&k->lacking, &id[i], sizeof(id[i])) < 0)
			return -ENOMEM;
	return 0;
}

static void
members_part(struct kv_master *m)
{
	struct kv_peermasters *k = &m->others;
	struct kv_member *mb;
	bool is_parted;
	unsigned at;

	k->parted = 0;
	for (at = 0; (mb = kv_member_next(m, &at));) {
		if (mb->heir)
			continue;
		is_parted = set_has(&k->lacking, short_id(&mb->boot));
		k->parted += is_parted;
		if (mb->is_parted == is_parted)
			continue;
		mb->is_parted = is_parted;
		kv_member_show(mb);
		kv_debug("node %s: %s", mb->addr,
			 is_parted ? "another master speaks for it"
				   : "this master speaks for it");
	}
}

static void
refresh(struct kv_master *m)
{
	struct kv_peermasters *k = &m->others;

	k->until = UINT64_MAX;
	others_count(m);
	if (mine_find(m) < 0 || theirs_find(m) < 0) {
		/* Without memory nothing is sure; the next one looks again. */
		k->flags = KV_LOOKUP_UNSURE;
		k->until = 0;
		return;
	}
	members_part(m);
	k->flags = 0;
	/* There are masters of which nobody says what they know. */
	if (k->known + 1 < k->told_of)
		k->flags |= KV_LOOKUP_UNSURE;
	/* They may hear of those that this one does not hear of. Who hears no
	 * node at all is likely to be cut off. */
	if (k->lacking.len > 0 || (k->flags && k->silent > 0) ||
	    (k->mine.len == 0 && k->told_of > 1))
		k->flags |= KV_LOOKUP_LACKS;
}

/* This turn may have begun long before the question came: what counts is
 * whether nodes do without this master by now. */
static struct kv_peermasters *
refreshed(struct kv_master *m)
{
	uint64_t now = m->others.told_of > 1 ? kv_loop_refresh(m->loop)
					     : kv_loop_now(m->loop);

	if (now >= m->others.until)
		refresh(m);
	return &m->others;
}

uint8_t
kv_peermasters_flags(struct kv_master *m)
{
	uint8_t flags = refreshed(m)->flags;

	return flags | (kv_member_is_incomplete(m) ? KV_LOOKUP_INCOMPLETE : 0);
}

unsigned
kv_peermasters_lacking(struct kv_master *m)
{
	return (unsigned)set_count(&refreshed(m)->lacking);
}

static bool
is_member(const struct kv_master *m, uint64_t id)
{
	struct kv_member *mb;
	unsigned at;

	for (at = 0; (mb = kv_member_next(m, &at));)
		if (!mb->heir && short_id(&mb->boot) == id)
			return true;
	return false;
}

unsigned
kv_peermasters_absent(struct kv_master *m, uint64_t *ids, unsigned max)
{
	const struct kv_bytes *lacking = &refreshed(m)->lacking;
	size_t i, n = set_count(lacking);
	unsigned found = 0;

	for (i = 0; i < n && found < max; i++)
		if (!is_member(m, set_ids(lacking)[i]))
			ids[found++] = set_ids(lacking)[i];
	return found;
}

bool
kv_peermasters_is_apart(const struct kv_member *mb)
{
	const struct kv_master *m = mb->m;

	return mb->is_parted ||
	       (mb->room.sessions > 1 && m->others.flags & KV_LOOKUP_UNSURE &&
		kv_loop_now(m->loop) >= mb->fresh_until);
}

void
kv_peermasters_changed(struct kv_master *m)
{
	m->others.until = 0;
}

/* ---- what is told ---- */

struct told {
	const struct kv_heartbeat_ent *ent;
	const struct kv_le64 *ids;
};

/* The entry of this master; when there are too many, in place of the one that
 * is silent for longest. */
static struct kv_peermaster *
other_make(struct kv_peermasters *k, const struct kv_id *boot)
{
	struct kv_peermaster *o = &k->of[0];
	unsigned i;

	for (i = 0; i < k->n; i++)
		if (kv_id_is_equal(k->of[i].boot, *boot))
			return &k->of[i];
	for (i = 1; i < k->n; i++)
		if (k->of[i].told < o->told)
			o = &k->of[i];
	if (k->n < KV_PEERMASTERS_MAX)
		o = &k->of[k->n++];
	kv_bytes_fini(&o->ids);
	*o = (struct kv_peermaster){ .boot = *boot };
	return o;
}

static void
other_list(struct kv_peermaster *o, const struct told *t)
{
	uint32_t i, n = kv_get32(t->ent->listed);
	uint64_t id;

	kv_bytes_reset(&o->ids);
	o->is_listed = true;
	for (i = 0; i < n; i++) {
		id = kv_get64(t->ids[i]);
		o->is_listed &= kv_bytes_append(&o->ids, &id, sizeof(id)) == 0;
	}
	set_sort(&o->ids);
}

/* False: its nodes are to be listed again. */
static bool
other_told(struct kv_master *m, const struct told *t)
{
	const struct kv_heartbeat_ent *e = t->ent;
	uint64_t stamp = kv_get64(e->stamp), digest = kv_get64(e->digest);
	bool is_whole = kv_get32(e->listed) == kv_get32(e->nodes);
	struct kv_peermaster *o;

	if (kv_id_is_equal(e->boot, m->boot))
		return true;
	o = other_make(&m->others, &e->boot);
	if (stamp > o->stamp) {
		o->stamp = stamp;
		o->told = kv_loop_now(m->loop);
		o->is_listed &= o->digest == digest;
		o->digest = digest;
		if (!o->is_listed || !o->is_known)
			kv_peermasters_changed(m);
	}
	if (!o->is_listed && o->digest == digest && is_whole) {
		other_list(o, t);
		kv_peermasters_changed(m);
	}
	return o->is_listed || o->digest != digest;
}

/* The entries of a heartbeat. -EPROTO: broken. */
static int
told_parse(const struct kv_msg *msg, struct told *t)
{
	const struct kv_heartbeat *h = msg->body;
	struct kv_cut cut;
	uint32_t listed;
	unsigned i;

	if (h->others >= KV_MASTERS_MAX)
		return -EPROTO;
	kv_cut_init(&cut, msg);
	for (i = 0; i < h->others; i++) {
		t[i].ent = kv_cut_take(&cut, sizeof(*t[i].ent));
		if (!t[i].ent)
			return -EPROTO;
		listed = kv_get32(t[i].ent->listed);
		t[i].ids = kv_cut_array(&cut, listed, sizeof(*t[i].ids));
		if (listed > 0 && listed != kv_get32(t[i].ent->nodes))
			return -EPROTO;
	}
	return kv_cut_done(&cut) ? 0 : -EPROTO;
}

/* ---- the node's own word ---- */

static void
word_given(struct kv_member *mb, uint64_t stamp)
{
	uint64_t now = kv_loop_now(mb->m->loop);

	if (now >= mb->fresh_until)
		kv_peermasters_changed(mb->m);
	mb->fresh_until =
		kv_max_u64(mb->fresh_until, kv_min_u64(stamp, now) + WORD_NS);
}

void
kv_peermasters_joined(struct kv_member *mb)
{
	word_given(mb, kv_loop_now(mb->m->loop));
	kv_peermasters_changed(mb->m);
}

/* ---- the answer ---- */

static void
ids_fill(const struct kv_bytes *set, void *to)
{
	const uint64_t *ids = set_ids(set);
	struct kv_le64 *le = to;
	size_t i;

	for (i = 0; i < set_count(set); i++)
		le[i] = kv_le64(ids[i]);
}

static void
answer(struct kv_masterpeer *p, uint64_t id, bool again)
{
	struct kv_member *mb = p->member;
	struct kv_peermasters *k = refreshed(p->m);
	size_t n = set_count(&k->mine), listed = 0;
	struct kv_heartbeat_r *r;
	void *tail;

	if (mb && mb->masters > 1 &&
	    !(mb->was_listed && mb->listed == k->digest))
		listed = n;
	r = kv_conn_begin_tail(p->conn, KV_MSG_HEARTBEAT_R, id, 0,
			       listed * sizeof(struct kv_le64), &tail);
	if (!r)
		return;
	r->status = mb ? KV_OK : KV_ECLOSED;
	r->flags = again ? KV_HEARTBEAT_AGAIN : 0;
	r->stamp = kv_le64(kv_loop_now(p->m->loop));
	if (mb && mb->masters > 1) {
		r->nodes = kv_le32((uint32_t)n);
		r->digest = kv_le64(k->digest);
		r->listed = kv_le32((uint32_t)listed);
		if (listed > 0)
			ids_fill(&k->mine, tail);
		mb->was_listed = true;
		mb->listed = k->digest;
	}
	kv_conn_end(p->conn);
}

int
kv_peermasters_heartbeat(struct kv_masterpeer *p, const struct kv_msg *msg)
{
	const struct kv_heartbeat *h = msg->body;
	struct told told[KV_MASTERS_MAX];
	bool again = false;
	unsigned i;

	if (told_parse(msg, told) < 0)
		return -EPROTO;
	if (p->member)
		word_given(p->member, kv_get64(h->echo));
	for (i = 0; p->member && i < h->others; i++)
		again |= !other_told(p->m, &told[i]);
	answer(p, msg->id, again);
	return 0;
}

void
kv_peermasters_fini(struct kv_master *m)
{
	struct kv_peermasters *k = &m->others;
	unsigned i;

	for (i = 0; i < k->n; i++)
		kv_bytes_fini(&k->of[i].ids);
	kv_bytes_fini(&k->mine);
	kv_bytes_fini(&k->theirs);
	kv_bytes_fini(&k->lacking);
}
