#include "xfer/rdmaplan.h"

#include <assert.h>
#include <stdbool.h>

#include "base/num.h"

/* The bytes of a list that come next, as far as they are one range. */
static struct kv_rdmarange
front(const struct kv_rdmarange **list, uint64_t *off)
{
	struct kv_rdmarange r;

	while (*off == (*list)->len) {
		(*list)++;
		*off = 0;
	}
	r = **list;
	r.addr += *off;
	r.len -= *off;
	return r;
}

static bool
touches(const struct kv_rdmarange *last, const struct kv_rdmarange *next)
{
	return last->mem == next->mem && last->addr + last->len == next->addr;
}

/* False: it takes one more than there may be. */
static bool
near_add(struct kv_rdmapart *out, const struct kv_rdmarange *r)
{
	struct kv_rdmarange *last =
		out->n_near ? &out->near[out->n_near - 1] : NULL;

	if (last && touches(last, r)) {
		last->len += r->len;
		return true;
	}
	if (out->n_near == KV_RDMAPLAN_NEAR_MAX)
		return false;
	out->near[out->n_near++] = *r;
	return true;
}

void
kv_rdmaplan_join(struct kv_rdmaplan *p, uint64_t bytes_max,
		 struct kv_rdmapart *out)
{
	struct kv_rdmarange near, far;

	assert(p->left > 0 && bytes_max > 0);
	out->far.len = 0;
	out->n_near = 0;
	while (p->left > 0 && out->far.len < bytes_max) {
		near = front(&p->near, &p->near_off);
		far = front(&p->far, &p->far_off);
		near.len = kv_min_u64(near.len, far.len);
		near.len = kv_min_u64(near.len, bytes_max - out->far.len);
		if (out->far.len == 0)
			out->far =
				(struct kv_rdmarange){ far.addr, 0, far.mem };
		else if (!touches(&out->far, &far))
			return;
		if (!near_add(out, &near))
			return;
		out->far.len += near.len;
		p->near_off += near.len;
		p->far_off += near.len;
		p->left -= near.len;
	}
}
