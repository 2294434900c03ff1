/*
 * Sums of values on the node's own loop, a slice a turn: for who asks for one,
 * and before an object that was adopted is read for the first time, when the
 * thread of nodekept.c has not come to it yet.
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/attr.h"
#include "base/fault.h"
#include "base/num.h"
#include "store/ledger.h"
#include "store/sum.h"
#include "svc/nodecore.h"
#include "wire/msg.h"

#define SLICE_BYTES (UINT64_C(4) << 20)

int
kv_nodesum_begin(struct kv_nodesum *s, struct kv_node *node,
		 struct kv_object *o)
{
	s->sum = KV_FAULT_POINT() ? NULL : kv_sum_new();
	if (!s->sum)
		return -ENOMEM;
	s->node = node;
	s->object = o;
	s->ext = 0;
	s->off = 0;
	s->left = o->size;
	kv_index_pin(node->index, o, kv_loop_now(node->loop));
	return 0;
}

bool
kv_nodesum_step(struct kv_nodesum *s)
{
	const struct kv_extent *e = kv_index_extents(s->object) + s->ext;
	const char *pool = s->node->o.pool;
	uint64_t room = SLICE_BYTES, n;

	while (s->left && room) {
		n = kv_min_u64(kv_min_u64(e->len - s->off, s->left), room);
		kv_sum_add(s->sum, pool + e->off + s->off, n);
		s->left -= n;
		s->off += n;
		room -= n;
		if (s->off == e->len) {
			s->off = 0;
			s->ext++;
			e++;
		}
	}
	return s->left;
}

bool
kv_nodesum_check(const struct kv_nodesum *s, uint64_t *value)
{
	*value = kv_sum_value(s->sum);
	if (s->object->flags & KV_OBJ_UNCHECKED)
		return kv_nodekept_judge(s->node, s->object, *value);
	return true;
}

void
kv_nodesum_fini(struct kv_nodesum *s)
{
	if (!s->object)
		return;
	kv_index_unpin(s->node->index, s->object);
	kv_sum_free(s->sum);
	s->object = NULL;
	s->sum = NULL;
}

/* ---- before a GET ---- */

/* A GET that waits until the objects it is about are checked. */
struct check {
	struct kv_nodejob job;
	struct kv_nodesum sum;
	struct kv_msg msg;
	unsigned n;
	unsigned i; /* the next one */
	struct kv_hash hashes[];
};

static struct kv_object *
find_unchecked(struct kv_node *node, struct kv_hash h)
{
	struct kv_object *o = kv_index_find_hash(node->index, h);

	return o && o->flags & KV_OBJ_UNCHECKED ? o : NULL;
}

/* One slice of one object. */
static bool
check_step(struct kv_nodejob *job)
{
	struct check *c = KV_CONTAINER_OF(job, struct check, job);
	struct kv_node *node = job->peer->node;
	struct kv_object *o;
	uint64_t value;

	for (; !c->sum.object && c->i < c->n; c->i++) {
		o = find_unchecked(node, c->hashes[c->i]);
		/* Without memory the GET will find it unchecked. */
		if (o)
			(void)kv_nodesum_begin(&c->sum, node, o);
	}
	if (c->sum.object) {
		if (!kv_nodesum_step(&c->sum)) {
			kv_nodesum_check(&c->sum, &value);
			kv_nodesum_fini(&c->sum);
		}
		return true;
	}
	kv_nodeget_run(job->peer, &c->msg);
	return false;
}

static void
check_free(struct kv_nodejob *job)
{
	struct check *c = KV_CONTAINER_OF(job, struct check, job);

	kv_nodesum_fini(&c->sum);
	free(c);
}

/* The message's bytes go when it was handled. */
static struct check *
check_new(const struct kv_node *node, const struct kv_msg *msg, unsigned n)
{
	size_t body = kv_msg_body_bytes(msg->type), at;
	struct check *c;
	uint8_t *copy;
	unsigned i;

	at = sizeof(*c) + n * sizeof(c->hashes[0]);
	c = KV_FAULT_POINT() ? NULL : calloc(1, at + body + msg->tail_len);
	if (!c)
		return NULL;
	copy = (uint8_t *)c + at;
	memcpy(copy, msg->body, body);
	if (msg->tail_len)
		memcpy(copy + body, msg->tail, msg->tail_len);
	c->msg = *msg;
	c->msg.body = copy;
	c->msg.tail = copy + body;
	c->n = n;
	for (i = 0; i < n; i++)
		c->hashes[i] = kv_nodeget_hash(node, i);
	c->job.step = check_step;
	c->job.free = check_free;
	return c;
}

bool
kv_nodesum_before_get(struct kv_nodepeer *peer, const struct kv_msg *msg,
		      unsigned n)
{
	struct kv_node *node = peer->node;
	struct check *c;
	unsigned i;

	for (i = 0; i < n; i++)
		if (find_unchecked(node, kv_nodeget_hash(node, i)))
			break;
	if (i == n)
		return false;
	c = check_new(node, msg, n);
	if (c)
		kv_nodejob_start(&c->job, peer, msg->id);
	return c;
}
