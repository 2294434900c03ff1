/*
 * Which of two values of one key stays. A node that holds the one which the
 * directory has is asked whether it really does, and keeps it: until then the
 * newcomer's verdict is open. It keeps it by a rule (struct kv_check_ent) that
 * is the same whichever master asks, and whoever came first there; so all come
 * to one result. A higher version wins at once. What a node says of itself
 * needs no check: it has one value of a key, the one that it named last.
 *
 * An open key waits in the list of the node that is to confirm its rival; the
 * keys of one turn go there in one CHECK. All decisions of a turn for one node
 * leave in one DECIDE.
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/attr.h"
#include "base/fault.h"
#include "base/num.h"
#include "base/status.h"
#include "svc/mastercore.h"

/* A probe that begins with one silence has ended before the next one. */
#define CHECK_NS (1100 * KV_NS_PER_MS)

enum {
	/* Beyond this a rival is believed unasked. */
	OPENS_MAX = 1 << 18,
	CHECK_ENTS_MAX = 4096,
	DECIDE_ENTS_MAX = 16384,
};

/* What an owner said of a rival. */
enum answer {
	HAS_NOT,
	HAS,
	SILENT,
	UNASKED, /* no memory for the question, or its session ended */
};

/* A copy whose verdict is open. */
struct open {
	struct kv_htab_node node; /* master->opens */
	struct kv_list link;      /* owner->asking, then check->opens */
	uint64_t claimant;        /* its serial number; 0: nobody waits */
	uint16_t slot;            /* of the claimant */
	bool is_shown;            /* somebody may have read it */
	struct kv_hash hash;
	struct kv_dir_id id;
	struct kv_dir_id rival;
};

struct check {
	struct kv_call call;
	struct kv_member *owner;
	struct kv_list opens; /* in the order of the entries */
	unsigned n;
};

static void judge(struct kv_member *owner, struct open *o, enum answer answer);

/* ---- telling ---- */

static struct kv_put_id
id_build(struct kv_dir_id id)
{
	return (struct kv_put_id){ kv_le64(id.random), kv_le32(id.version) };
}

/* Queues a DECIDE. A node without a session learns it from its next sync. */
static void
tell(struct kv_member *mb, struct kv_hash h, struct kv_dir_id id,
     enum kv_verdict verdict)
{
	struct kv_decide_ent e = {
		.hash = kv_key_hash_build(h),
		.put_id = id_build(id),
		.verdict = (uint8_t)verdict,
	};

	if (!mb->peer)
		return;
	kv_master_count(mb->m, KV_MASTERSTAT_LOSERS,
			verdict == KV_VERDICT_GOES);
	if (kv_bytes_append(&mb->decides, &e, sizeof(e)) < 0)
		mb->is_deaf = true;
	kv_loop_defer(mb->m->loop, &mb->m->flush);
	kv_peermasters_changed(mb->m);
}

/* It has something that was taken off the directory, perhaps wrongly: what it
 * publishes anew will be judged anew. */
static void
sync_anew(struct kv_member *mb)
{
	mb->is_deaf = true;
	kv_loop_defer(mb->m->loop, &mb->m->flush);
	kv_peermasters_changed(mb->m);
}

static void
decides_send(struct kv_member *mb)
{
	const size_t each = sizeof(struct kv_decide_ent);
	const uint8_t *from = mb->decides.data;
	size_t left = mb->decides.len / each, n;
	struct kv_decide *d;
	void *tail;

	for (; mb->peer && left > 0; left -= n, from += n * each) {
		n = kv_min_size(left, DECIDE_ENTS_MAX);
		d = kv_conn_begin_tail(mb->peer->conn, KV_MSG_DECIDE, 0, 0,
				       n * each, &tail);
		if (!d)
			break;
		d->count = kv_le32((uint32_t)n);
		memcpy(tail, from, n * each);
		kv_conn_end(mb->peer->conn);
	}
	kv_bytes_reset(&mb->decides);
}

/* ---- asking ---- */

static void
open_free(struct kv_master *m, struct open *o)
{
	kv_htab_del(&m->opens, &o->node);
	kv_list_del(&o->link);
	free(o);
}

/* answers NULL: `none` for all. */
static void
judge_all(struct kv_member *owner, struct kv_list *opens,
	  const uint8_t *answers, enum answer none)
{
	struct open *o, *tmp;
	size_t i = 0;

	KV_LIST_FOREACH_SAFE(o, tmp, opens, link) {
		kv_list_del(&o->link);
		if (answers)
			judge(owner, o, answers[i++] ? HAS : HAS_NOT);
		else
			judge(owner, o, none);
	}
}

static bool
is_answer(const struct check *ck, const struct kv_msg *msg)
{
	const struct kv_check_r *r = msg->body;

	return msg->type == KV_MSG_CHECK_R && r->status == KV_OK &&
	       kv_get32(r->count) == ck->n && msg->tail_len == ck->n;
}

/* Nonsense, or a second silence though it answers probes: it begins anew. */
static void
unanswered(struct kv_member *owner, int status)
{
	uint64_t now = kv_loop_now(owner->m->loop);

	if (status == 0) {
		owner->is_deaf = true;
	} else if (status == -ETIMEDOUT) {
		kv_suspect_probe(owner);
		if (owner->silent_since == 0)
			owner->silent_since = now;
		else if (now - owner->silent_since >= CHECK_NS)
			owner->is_deaf |= owner->state != KV_NODE_SUSPECT;
	}
	kv_loop_defer(owner->m->loop, &owner->m->flush);
}

static void
checked(struct kv_call *call, int status, const struct kv_msg *msg)
{
	struct check *ck = KV_CONTAINER_OF(call, struct check, call);
	struct kv_master *m = ck->owner->m;
	const uint8_t *answers = NULL;

	if (msg && is_answer(ck, msg)) {
		answers = msg->tail;
		ck->owner->silent_since = 0;
	} else {
		kv_master_count(m, KV_MASTERSTAT_CHECKS_UNANSWERED, ck->n);
		unanswered(ck->owner, status);
	}
	kv_rpc_cancel(call);
	ck->owner->n_checks--;
	judge_all(ck->owner, &ck->opens, answers, SILENT);
	free(ck);
}

/* Moves up to CHECK_ENTS_MAX keys from `asking`. */
static struct check *
check_new(struct kv_member *owner)
{
	struct check *ck = KV_FAULT_POINT() ? NULL : calloc(1, sizeof(*ck));
	struct open *o;

	if (!ck)
		return NULL;
	ck->call.fn = checked;
	ck->owner = owner;
	kv_list_init(&ck->opens);
	while (ck->n < CHECK_ENTS_MAX &&
	       (o = KV_LIST_FIRST(&owner->asking, struct open, link))) {
		kv_list_del(&o->link);
		kv_list_add_tail(&ck->opens, &o->link);
		ck->n++;
	}
	return ck;
}

static bool
check_send(struct check *ck)
{
	struct kv_member *owner = ck->owner;
	struct kv_check_ent *e;
	struct kv_check *body;
	struct open *o;

	if (!owner->peer ||
	    !kv_rpc_begin(&owner->rpc, &ck->call, KV_MSG_CHECK,
			  kv_loop_now(owner->m->loop) + CHECK_NS))
		return false;
	e = kv_conn_tail(owner->peer->conn, ck->n * sizeof(*e));
	if (!e) {
		kv_rpc_cancel(&ck->call);
		return false;
	}
	body = kv_conn_body(owner->peer->conn);
	body->count = kv_le32(ck->n);
	KV_LIST_FOREACH(o, &ck->opens, link)
		*e++ = (struct kv_check_ent){
			.hash = kv_key_hash_build(o->hash),
			.put_id = id_build(o->rival),
			.rival = id_build(o->id),
			.flags = o->is_shown ? KV_PUBLISH_SHOWN : 0,
		};
	kv_rpc_end(&owner->rpc);
	owner->n_checks++;
	kv_master_count(owner->m, KV_MASTERSTAT_CHECKS, ck->n);
	return true;
}

static void
asking_send(struct kv_member *owner)
{
	struct kv_list failed;
	struct check *ck;

	while (!kv_list_is_empty(&owner->asking)) {
		ck = check_new(owner);
		if (ck && check_send(ck))
			continue;
		kv_list_init(&failed);
		kv_list_splice_tail(&failed, ck ? &ck->opens : &owner->asking);
		free(ck);
		judge_all(owner, &failed, NULL, UNASKED);
	}
}

void
kv_verdict_flush(struct kv_defer *d)
{
	struct kv_master *m = KV_CONTAINER_OF(d, struct kv_master, flush);
	struct kv_member *mb;
	unsigned at;

	for (at = 0; (mb = kv_member_next(m, &at));)
		asking_send(mb);
	for (at = 0; (mb = kv_member_next(m, &at));) {
		if (mb->is_deaf && mb->peer)
			kv_masterpeer_drop(mb->peer);
		else
			decides_send(mb);
	}
}

/* What only such an owner could confirm it does not: it has another master by
 * now, and its claimant waits. */
void
kv_verdict_tick(struct kv_master *m)
{
	struct kv_member *mb;
	unsigned at;

	if (kv_htab_count(&m->opens) == 0)
		return;
	for (at = 0; (mb = kv_member_next(m, &at));)
		if (mb->n_checks > 0 && kv_peermasters_is_apart(mb))
			sync_anew(mb);
}

/* ---- deciding ---- */

static bool
is_well(const struct kv_member *mb)
{
	return mb->peer && kv_conn_is_open(mb->peer->conn) && !mb->is_deaf &&
	       !kv_peermasters_is_apart(mb) && !mb->has_missed &&
	       mb->state != KV_NODE_SUSPECT;
}

/* Who is to confirm the rival; each of them has a session. */
static struct kv_member *
witness(struct kv_master *m, const struct kv_dir_view *view)
{
	struct kv_member *mb = NULL;
	unsigned i;

	for (i = 0; i < view->n && !(mb && is_well(mb)); i++)
		mb = kv_member_now(m->members[view->slots[i]]);
	return mb;
}

/* Waits for somebody who knows. */
static void
open_wait(struct kv_master *m, struct open *o, const struct kv_dir_view *view)
{
	o->rival = view->id;
	kv_list_add_tail(&witness(m, view)->asking, &o->link);
	kv_loop_defer(m->loop, &m->flush);
}

static struct open *
open_new(struct kv_member *claimant, struct kv_hash h, struct kv_dir_id id)
{
	struct open *o = KV_FAULT_POINT() ? NULL : calloc(1, sizeof(*o));

	if (!o)
		return NULL;
	o->claimant = claimant->serial;
	o->slot = claimant->slot;
	o->hash = h;
	o->id = id;
	kv_list_init(&o->link);
	if (kv_htab_add(&claimant->m->opens, &o->node, h.lo) == 0)
		return o;
	free(o);
	return NULL;
}

/* All that have the older value are told to let it go. */
static void
overrule(struct kv_master *m, struct kv_hash h, const struct kv_dir_view *view)
{
	unsigned i;

	for (i = 0; i < view->n; i++)
		tell(kv_member_now(m->members[view->slots[i]]), h, view->id,
		     KV_VERDICT_GOES);
	kv_dir_clear(m->dir, h);
}

/* What the claimant's own node named before, and what nobody can confirm (of a
 * node that is parted from this master another one decides). */
static bool
drop_unfounded(struct kv_member *claimant, struct kv_hash h,
	       const struct kv_dir_view *view)
{
	struct kv_master *m = claimant->m;
	bool dropped = false;
	struct kv_member *mb;
	unsigned i;

	for (i = 0; i < view->n; i++) {
		mb = kv_member_now(m->members[view->slots[i]]);
		if (mb != kv_member_now(claimant) && mb->peer &&
		    !kv_peermasters_is_apart(mb))
			continue;
		dropped |= kv_dir_del(m->dir, h, view->id, view->slots[i]);
		if (mb != kv_member_now(claimant))
			sync_anew(mb);
	}
	return dropped;
}

/* OPEN: *view says who has to confirm what. */
static int
decide(struct kv_member *mb, struct kv_hash h, struct kv_dir_id id,
       struct kv_dir_view *view)
{
	struct kv_master *m = mb->m;
	bool is_first = true;
	int rc;

	for (;;) {
		rc = kv_dir_add(m->dir, h, id, mb->slot, view);
		if (rc > 0)
			return KV_VERDICT_STAYS;
		if (rc == -ENOSPC) {
			/* One that is back stands before those who have not
			 * come back: of a pool file they are the same. */
			if (drop_unfounded(mb, h, view))
				continue;
			return KV_VERDICT_GOES;
		}
		if (rc < 0)
			return rc;
		kv_master_count(m, KV_MASTERSTAT_CONFLICTS, is_first);
		is_first = false;
		if (drop_unfounded(mb, h, view))
			continue;
		if (id.version <= view->id.version)
			return KV_VERDICT_OPEN;
		overrule(m, h, view);
	}
}

int
kv_verdict_add(struct kv_member *mb, struct kv_hash h, struct kv_dir_id id,
	       bool is_shown)
{
	struct kv_master *m = mb->m;
	struct kv_dir_view view;
	int verdict = decide(mb, h, id, &view);
	struct open *o;

	if (verdict != KV_VERDICT_OPEN)
		return verdict;
	if (kv_htab_count(&m->opens) >= OPENS_MAX)
		return KV_VERDICT_GOES;
	o = open_new(mb, h, id);
	if (!o)
		return -ENOMEM;
	o->is_shown = is_shown;
	open_wait(m, o, &view);
	return KV_VERDICT_OPEN;
}

/* The claimant waits no more: its session ended, or it has the key no more. */
static bool
is_idle(const struct kv_master *m, const struct open *o)
{
	const struct kv_member *claimant = m->members[o->slot];

	return !claimant || claimant->serial != o->claimant || !claimant->peer;
}

/*
 * The owner keeps the rival or has it not (any more). An owner that is silent
 * does not hold anything: it is asked once more, while it is probed, and then
 * dropped until it says anew what it has. `o` ends here, or waits for the next
 * one who may know.
 */
static void
judge(struct kv_member *owner, struct open *o, enum answer answer)
{
	struct kv_master *m = owner->m;
	int verdict = KV_VERDICT_GOES;
	struct kv_dir_view view;

	if (is_idle(m, o)) {
		open_free(m, o);
		return;
	}
	if (answer == HAS_NOT || (answer != HAS && !is_well(owner))) {
		/* If its session was replaced the new one is asked. */
		if (!owner->heir)
			kv_member_forget(owner, o->hash, o->rival);
		if (answer != HAS_NOT)
			sync_anew(owner);
		verdict = decide(m->members[o->slot], o->hash, o->id, &view);
	} else if (answer == SILENT) {
		verdict = decide(m->members[o->slot], o->hash, o->id, &view);
	}
	if (verdict == KV_VERDICT_OPEN) {
		open_wait(m, o, &view);
		return;
	}
	tell(m->members[o->slot], o->hash, o->id,
	     verdict == KV_VERDICT_STAYS ? KV_VERDICT_STAYS : KV_VERDICT_GOES);
	open_free(m, o);
}

void
kv_verdict_cancel(struct kv_member *mb, struct kv_hash h, struct kv_dir_id id)
{
	struct kv_htab_node *n;
	struct open *o;

	if (kv_htab_count(&mb->m->opens) == 0)
		return;
	n = kv_htab_first(&mb->m->opens, h.lo);
	for (; n; n = kv_htab_next(&mb->m->opens, n)) {
		o = KV_CONTAINER_OF(n, struct open, node);
		if (o->claimant == mb->serial && o->id.random == id.random &&
		    o->id.version == id.version &&
		    kv_key_hash_is_equal(o->hash, h))
			o->claimant = 0;
	}
}

/* Of those that wait for this key, one that may have been read already. */
static struct open *
open_find(struct kv_master *m, struct kv_hash h)
{
	struct kv_htab_node *n = kv_htab_first(&m->opens, h.lo);
	struct open *o, *found = NULL;

	for (; n; n = kv_htab_next(&m->opens, n)) {
		o = KV_CONTAINER_OF(n, struct open, node);
		if (kv_key_hash_is_equal(o->hash, h) && !is_idle(m, o) &&
		    (!found || o->is_shown))
			found = o;
	}
	return found;
}

void
kv_verdict_gone(struct kv_master *m, struct kv_hash h)
{
	struct kv_dir_view view;
	struct kv_member *mb;
	struct open *o;

	if (kv_htab_count(&m->opens) == 0 || kv_dir_find(m->dir, h, &view))
		return;
	o = open_find(m, h);
	if (!o)
		return;
	mb = m->members[o->slot];
	if (decide(mb, h, o->id, &view) != KV_VERDICT_STAYS)
		return;
	tell(mb, h, o->id, KV_VERDICT_STAYS);
	o->claimant = 0; /* the answer to its CHECK is still to come */
}

void
kv_verdict_lost(struct kv_member *mb)
{
	struct kv_list failed;

	kv_bytes_reset(&mb->decides);
	kv_list_init(&failed);
	kv_list_splice_tail(&failed, &mb->asking);
	judge_all(mb, &failed, NULL, UNASKED);
}

void
kv_verdict_fini(struct kv_master *m)
{
	assert(kv_htab_count(&m->opens) == 0);
	kv_htab_fini(&m->opens);
}
