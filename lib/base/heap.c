#include "base/heap.h"

#include <errno.h>

#include "base/fault.h"
#include "base/num.h"

enum {
	CAP_MIN = 16
};

void
kv_heap_init(struct kv_heap *h)
{
	*h = (struct kv_heap){ 0 };
}

void
kv_heap_fini(struct kv_heap *h)
{
	free(h->nodes);
	kv_heap_init(h);
}

static void
place(struct kv_heap *h, size_t pos, struct kv_heap_node *n)
{
	h->nodes[pos - 1] = n;
	n->pos = pos;
}

/* Both find the place of n, starting from the hole at pos. */
static void
sift_up(struct kv_heap *h, size_t pos, struct kv_heap_node *n)
{
	for (; pos > 1; pos /= 2) {
		struct kv_heap_node *parent = h->nodes[pos / 2 - 1];

		if (parent->key <= n->key)
			break;
		place(h, pos, parent);
	}
	place(h, pos, n);
}

static void
sift_down(struct kv_heap *h, size_t pos, struct kv_heap_node *n)
{
	size_t child;

	for (; (child = 2 * pos) <= h->count; pos = child) {
		if (child < h->count &&
		    h->nodes[child]->key < h->nodes[child - 1]->key)
			child++;
		if (n->key <= h->nodes[child - 1]->key)
			break;
		place(h, pos, h->nodes[child - 1]);
	}
	place(h, pos, n);
}

static void
sift(struct kv_heap *h, size_t pos, struct kv_heap_node *n)
{
	if (pos > 1 && n->key < h->nodes[pos / 2 - 1]->key)
		sift_up(h, pos, n);
	else
		sift_down(h, pos, n);
}

static int
grow(struct kv_heap *h)
{
	size_t cap = kv_max_size(h->cap * 2, CAP_MIN);
	struct kv_heap_node **nodes;

	if (KV_FAULT_POINT())
		return -ENOMEM;
	nodes = reallocarray(h->nodes, cap, sizeof(*nodes));
	if (!nodes)
		return -ENOMEM;
	h->nodes = nodes;
	h->cap = cap;
	return 0;
}

int
kv_heap_add(struct kv_heap *h, struct kv_heap_node *n, uint64_t key)
{
	int rc;

	assert(n->pos == 0);
	if (h->count == h->cap) {
		rc = grow(h);
		if (rc < 0)
			return rc;
	}
	n->key = key;
	sift_up(h, ++h->count, n);
	return 0;
}

void
kv_heap_del(struct kv_heap *h, struct kv_heap_node *n)
{
	struct kv_heap_node *last;
	size_t pos = n->pos;

	assert(pos > 0 && pos <= h->count);
	assert(h->nodes[pos - 1] == n);
	last = h->nodes[--h->count];
	n->pos = 0;
	if (last != n)
		sift(h, pos, last);
}

void
kv_heap_update(struct kv_heap *h, struct kv_heap_node *n, uint64_t key)
{
	assert(n->pos > 0 && n->pos <= h->count);
	assert(h->nodes[n->pos - 1] == n);
	n->key = key;
	sift(h, n->pos, n);
}
