#include "xfer/rdmaidle.h"

#include "base/attr.h"
#include "base/clock.h"

#define IDLE_NS KV_NS_PER_S

void
kv_rdmaidle_use(struct kv_rdmastream *s)
{
	s->used_ns = kv_loop_now(s->post->cq->loop);
	kv_list_del(&s->lru);
	kv_list_add_tail(&s->post->lru, &s->lru);
}

/* ---- too much is not read ---- */

static void
shortage_watch(struct kv_rdmapost *p)
{
	struct kv_loop *loop = p->cq->loop;

	/* Without memory for it the next message tries again. */
	p->is_watching =
		kv_loop_timer_set(loop, &p->shortage,
				  kv_loop_now(loop) + IDLE_NS / 4) == 0;
}

static bool
is_short(const struct kv_rdmapost *p)
{
	return p->held > p->cq->receives / 2;
}

/* Who sends and is not read from for so long reads no answers himself. */
static void
on_shortage(struct kv_timer *t)
{
	struct kv_rdmapost *p =
		KV_CONTAINER_OF(t, struct kv_rdmapost, shortage);
	uint64_t now = kv_loop_now(p->cq->loop);
	struct kv_rdmastream *s, *tmp;

	p->is_watching = false;
	KV_LIST_FOREACH_SAFE(s, tmp, &p->lru, lru) {
		if (!is_short(p))
			return;
		if (now < s->used_ns + IDLE_NS)
			break;
		if (s->n_came > 0)
			kv_rdmastream_lose(s);
	}
	shortage_watch(p);
}

void
kv_rdmaidle_hold(struct kv_rdmapost *p)
{
	p->held++;
	if (is_short(p) && !p->is_watching)
		shortage_watch(p);
}

void
kv_rdmaidle_init(struct kv_rdmapost *p)
{
	kv_list_init(&p->lru);
	p->shortage.fn = on_shortage;
}

/* ---- room for another one ---- */

/* Nothing is under way, here or for who has it. */
static bool
is_idle(const struct kv_rdmastream *s,
	bool (*is_used)(const struct kv_stream *s))
{
	return s->letters == 0 && s->n_came == 0 && s->status == 0 &&
	       s->base.ready && !(is_used && is_used(&s->base));
}

bool
kv_rdmaidle_room(struct kv_rdmapost *p,
		 bool (*is_used)(const struct kv_stream *s))
{
	uint64_t now = kv_loop_now(p->cq->loop);
	struct kv_rdmastream *s;

	KV_LIST_FOREACH(s, &p->lru, lru) {
		if (now < s->used_ns + IDLE_NS)
			return false;
		if (!is_idle(s, is_used))
			continue;
		kv_rdmastream_lose(s);
		return true;
	}
	return false;
}
