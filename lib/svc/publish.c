/*
 * What a node tells a master of what it holds. All of it is in order: a frame
 * says what is true when it is built, its adds first, then what is gone. So a
 * key that went and came back before its frame was built is only added.
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/attr.h"
#include "base/fault.h"
#include "base/num.h"
#include "base/status.h"
#include "svc/putkey.h"
#include "svc/session.h"
#include "wire/msg.h"

enum {
	FRAME_ENTS_MAX = 8192,
	FRAMES_MAX = 8,      /* unanswered */
	SYNC_FRAMES_MAX = 2, /* of these */
	SCAN = 4096,         /* objects in a frame of the sync, about */
	/* Waiting to be sent; with more a sync is cheaper. */
	PENDING_BYTES_MAX = 32 << 20,
};

_Static_assert(FRAME_ENTS_MAX * sizeof(struct kv_publish_ent) <= KV_TAIL_MAX,
	       "they fit in a frame");

/* One PUBLISH under way: its adds, for which verdicts will come. */
struct frame {
	struct kv_call call;
	struct kv_session *session;
	bool is_sync;
	unsigned count;
	struct kv_publish_ent ents[];
};

static void
ent_fill(const struct kv_node *node, struct kv_publish_ent *e,
	 const struct kv_object *o)
{
	memset(e, 0, sizeof(*e));
	e->hash = kv_key_hash_build(kv_node_hash(o));
	e->put_id.random = kv_le64(o->id_random);
	e->put_id.version = kv_le32(o->id_version);
	if (kv_session_vouches(node, o))
		e->flags = KV_PUBLISH_SHOWN;
}

/* Runs within a put or an eviction: a failure is felt in the next turn. */
static void
ent_queue(struct kv_session *s, struct kv_bytes *q, const struct kv_object *o)
{
	struct kv_publish_ent e;

	ent_fill(s->node, &e, o);
	if (q->len >= PENDING_BYTES_MAX ||
	    kv_bytes_append(q, &e, sizeof(e)) < 0)
		s->is_broken = true;
	kv_loop_defer(s->node->loop, &s->turn);
}

void
kv_publish_add(struct kv_session *s, const struct kv_object *o)
{
	ent_queue(s, &s->adds, o);
}

void
kv_publish_gone(struct kv_session *s, const struct kv_object *o)
{
	ent_queue(s, &s->gones, o);
}

static void
queue_take(struct kv_bytes *q, size_t ents)
{
	size_t bytes = ents * sizeof(struct kv_publish_ent);

	q->len -= bytes;
	if (q->len)
		memmove(q->data, q->data + bytes, q->len);
}

static size_t
queue_count(const struct kv_bytes *q)
{
	return q->len / sizeof(struct kv_publish_ent);
}

/* ---- the answer ---- */

static bool
verdicts_take(const struct frame *f, const struct kv_msg *msg)
{
	const struct kv_publish_r *r = msg->body;
	struct kv_session *s = f->session;
	const uint8_t *verdicts;
	struct kv_cut cut;
	unsigned i;

	kv_cut_init(&cut, msg);
	verdicts = kv_cut_take(&cut, f->count);
	if (!kv_cut_done(&cut) || r->status != KV_OK ||
	    kv_get32(r->count) != f->count)
		return false;
	for (i = 0; i < f->count; i++) {
		kv_putkey_verdict(s->node, s->number, &f->ents[i].hash,
				  &f->ents[i].put_id, verdicts[i]);
		if (verdicts[i] == KV_VERDICT_OPEN &&
		    !(f->ents[i].flags & KV_PUBLISH_SHOWN))
			kv_putkey_doubt(s->node, &f->ents[i].hash,
					&f->ents[i].put_id, true);
	}
	return true;
}

static void
frame_answered(struct kv_call *call, int status, const struct kv_msg *msg)
{
	struct frame *f = KV_CONTAINER_OF(call, struct frame, call);
	struct kv_session *s = f->session;

	s->frames--;
	s->sync_frames -= f->is_sync;
	if (s->state == KV_SESSION_WAITING)
		; /* it is being closed */
	else if (status < 0 || msg->type != KV_MSG_PUBLISH_R ||
		 !verdicts_take(f, msg))
		kv_session_lost(s, "no good answer to PUBLISH");
	else
		kv_loop_defer(s->node->loop, &s->turn);
	if (f->is_sync && s->state == KV_SESSION_LIVE)
		kv_session_told(s);
	free(f);
}

/* ---- frames ---- */

/* Out of memory, or the connection is lost: a new session will say it all. */
static bool
frame_failed(struct kv_session *s)
{
	s->is_broken = true;
	kv_loop_defer(s->node->loop, &s->turn);
	return false;
}

static bool
frame_send(struct kv_session *s, const struct kv_publish_ent *adds,
	   unsigned added, const struct kv_publish_ent *gones, unsigned gone,
	   unsigned flags)
{
	size_t add_bytes = added * sizeof(*adds);
	size_t gone_bytes = gone * sizeof(*gones);
	struct kv_publish *m = NULL;
	uint8_t *tail = NULL;
	struct frame *f;

	f = KV_FAULT_POINT() ? NULL : malloc(sizeof(*f) + add_bytes);
	if (!f)
		return frame_failed(s);
	memset(f, 0, sizeof(*f));
	f->call.fn = frame_answered;
	f->session = s;
	f->is_sync = flags & KV_PUBLISH_SYNC;
	f->count = added;
	if (added)
		memcpy(f->ents, adds, add_bytes);
	if (kv_session_begin(s, &f->call, KV_MSG_PUBLISH))
		tail = kv_conn_tail(s->conn, add_bytes + gone_bytes);
	if (tail)
		m = kv_conn_body(s->conn);
	if (!m) {
		kv_rpc_cancel(&f->call);
		free(f);
		return frame_failed(s);
	}
	m->added = kv_le32(added);
	m->gone = kv_le32(gone);
	m->flags = (uint8_t)flags;
	if (added)
		memcpy(tail, adds, add_bytes);
	if (gone)
		memcpy(tail + add_bytes, gones, gone_bytes);
	kv_rpc_end(&s->rpc);
	s->frames++;
	s->sync_frames += f->is_sync;
	return true;
}

static bool
ent_is_held(struct kv_index *ix, const struct kv_publish_ent *e)
{
	const struct kv_object *o;

	o = kv_index_find_hash(ix, kv_key_hash_parse(e->hash));
	return o && o->id_random == kv_get64(e->put_id.random) &&
	       o->id_version == kv_get32(e->put_id.version);
}

static bool
changes_send(struct kv_session *s)
{
	size_t added = kv_min_size(queue_count(&s->adds), FRAME_ENTS_MAX);
	struct kv_publish_ent *gones = (void *)s->gones.data;
	size_t i, taken = 0, gone = 0;

	/* What is gone was added before, so it waits for all adds. */
	if (added == queue_count(&s->adds))
		taken = kv_min_size(queue_count(&s->gones),
				    FRAME_ENTS_MAX - added);
	for (i = 0; i < taken; i++)
		if (!ent_is_held(s->node->index, &gones[i]))
			gones[gone++] = gones[i];
	if (!frame_send(s, (void *)s->adds.data, (unsigned)added, gones,
			(unsigned)gone, 0))
		return false;
	kv_stats_add(&s->node->stats, KV_STAT_PUBLISHED, added);
	kv_stats_add(&s->node->stats, KV_STAT_WITHDRAWN, gone);
	queue_take(&s->adds, added);
	queue_take(&s->gones, taken);
	return true;
}

static void
sync_visit(void *arg, struct kv_object *o)
{
	struct kv_session *s = arg;
	struct kv_publish_ent e;

	ent_fill(s->node, &e, o);
	if (kv_bytes_append(&s->scan, &e, sizeof(e)) < 0)
		s->is_broken = true;
}

static bool
sync_send(struct kv_session *s)
{
	uint64_t next;
	unsigned flags = KV_PUBLISH_SYNC;

	kv_bytes_reset(&s->scan);
	next = kv_index_scan(s->node->index, s->cursor, SCAN, sync_visit, s);
	if (next == 0)
		flags |= KV_PUBLISH_SYNC_END;
	if (queue_count(&s->scan) > FRAME_ENTS_MAX)
		s->is_broken = true;
	if (s->is_broken)
		return frame_failed(s);
	if (!frame_send(s, (void *)s->scan.data,
			(unsigned)queue_count(&s->scan), NULL, 0, flags))
		return false;
	kv_stats_add(&s->node->stats, KV_STAT_SYNCED, queue_count(&s->scan));
	s->cursor = next;
	s->is_syncing = next != 0;
	return true;
}

void
kv_publish_turn(struct kv_session *s)
{
	bool is_sent = true;

	while (is_sent && s->frames < FRAMES_MAX && !kv_conn_is_full(s->conn)) {
		if (s->adds.len || s->gones.len)
			is_sent = changes_send(s);
		else if (s->is_syncing && s->sync_frames < SYNC_FRAMES_MAX)
			is_sent = sync_send(s);
		else
			break;
	}
}

void
kv_publish_start(struct kv_session *s)
{
	s->is_syncing = true;
	s->cursor = 0;
	kv_loop_defer(s->node->loop, &s->turn);
}

void
kv_publish_reset(struct kv_session *s)
{
	assert(s->frames == 0);
	kv_loop_defer_del(&s->turn);
	kv_bytes_reset(&s->adds);
	kv_bytes_reset(&s->gones);
	s->is_syncing = false;
	s->is_broken = false;
}

void
kv_publish_fini(struct kv_session *s)
{
	kv_bytes_fini(&s->adds);
	kv_bytes_fini(&s->gones);
	kv_bytes_fini(&s->scan);
}
