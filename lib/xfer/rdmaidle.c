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
