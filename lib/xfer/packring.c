#include "xfer/packring.h"

#include <assert.h>
#include <errno.h>
#include <sys/mman.h>

#include "base/attr.h"
#include "base/clock.h"
#include "base/fault.h"

/* What could not be made is not tried with every call. */
#define AGAIN_NS (10 * KV_NS_PER_S)

#define PAGE_BYTES 4096

void
kv_packring_init(struct kv_packring *r, struct kv_rdma *rdma,
		 enum kv_rdmaregion_use use)
{
	*r = (struct kv_packring){ .rdma = rdma, .use = use };
	pthread_mutex_init(&r->lock, NULL);
	kv_list_init(&r->spans);
	r->last = &r->spans;
}

void
kv_packring_fini(struct kv_packring *r)
{
	assert(kv_list_is_empty(&r->spans));
	kv_rdmaregion_free(r->region);
	if (r->region)
		munmap(r->base, r->bytes);
	r->region = NULL;
	pthread_mutex_destroy(&r->lock);
}

/* ---- its memory ---- */

struct memory {
	char *base;
	size_t bytes;
	struct kv_rdmaregion *region;
};

/* A child that is forked has no use for it. 0 or -errno. */
static int
memory_make(const struct kv_packring *r, size_t bytes, struct memory *m)
{
	int rc;

	m->bytes = bytes;
	m->base = KV_FAULT_POINT() ? MAP_FAILED
				   : mmap(NULL, bytes, PROT_READ | PROT_WRITE,
					  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (m->base == MAP_FAILED)
		return -ENOMEM;
	madvise(m->base, bytes, MADV_DONTFORK);
	m->region = kv_rdmaregion_new(r->rdma, m->base, bytes, r->use);
	if (m->region)
		return 0;
	rc = -errno;
	munmap(m->base, bytes);
	return rc;
}

/* Without the lock, which others want meanwhile. */
static int
make(const struct kv_packring *r, struct memory *m)
{
	size_t bytes = KV_PACKRING_BYTES;
	int rc = memory_make(r, bytes, m);

	while (rc == -ENOMEM && bytes > KV_PACKRING_BYTES_LEAST)
		rc = memory_make(r, bytes /= 2, m);
	return rc;
}

/* Whether this thread is to make it. With the lock. */
static bool
is_to_be_made(const struct kv_packring *r)
{
	return !r->region && !r->is_being_made &&
	       (r->again_at == 0 ||
		kv_clock_now(&(struct kv_clock){ 0 }) >= r->again_at);
}

long
kv_packring_begin(struct kv_packring *r)
{
	struct memory m = { 0 };
	bool makes = false;
	size_t bytes = 0;
	int rc;

	if (!r->rdma)
		return 0;
	KV_LOCKED(&r->lock) {
		bytes = r->bytes;
		makes = is_to_be_made(r);
		if (makes)
			r->is_being_made = true;
	}
	if (!makes)
		return (long)(bytes / KV_PACKRING_SPANS);
	rc = make(r, &m);
	KV_LOCKED(&r->lock) {
		r->is_being_made = false;
		if (rc < 0) {
			r->again_at = kv_clock_now(&(struct kv_clock){ 0 }) +
				      AGAIN_NS;
			break;
		}
		r->base = m.base;
		r->bytes = m.bytes;
		r->region = m.region;
	}
	return rc < 0 ? rc : (long)(m.bytes / KV_PACKRING_SPANS);
}

/* ---- spans ---- */

/* Room behind a span, or in front of all of them. */
struct room {
	char *at, *end;
};

static struct room
room_behind(const struct kv_packring *r, struct kv_list *p, uintptr_t like)
{
	struct room room = { r->base, r->base + r->bytes };
	const struct kv_packring_span *s;

	if (p != &r->spans) {
		s = KV_CONTAINER_OF(p, struct kv_packring_span, link);
		room.at = s->at + s->bytes;
	}
	if (p->next != &r->spans) {
		s = KV_CONTAINER_OF(p->next, struct kv_packring_span, link);
		room.end = s->at;
	}
	room.at += (like - (uintptr_t)room.at) % PAGE_BYTES;
	return room;
}

static bool
has_room(struct room room, size_t bytes)
{
	return room.at < room.end && (size_t)(room.end - room.at) >= bytes;
}

bool
kv_packring_take(struct kv_packring *r, const void *like, size_t bytes,
		 struct kv_packring_span *s)
{
	uintptr_t as = (uintptr_t)like;
	struct kv_list *p;

	s->from = NULL;
	KV_LOCKED(&r->lock) {
		if (!r->region)
			break;
		p = r->last;
		while (!has_room(room_behind(r, p, as), bytes) &&
		       p->next != r->last)
			p = p->next;
		if (!has_room(room_behind(r, p, as), bytes))
			break;
		s->from = r;
		s->at = room_behind(r, p, as).at;
		s->bytes = bytes;
		kv_list_add_head(p, &s->link);
		r->last = &s->link;
	}
	return s->from;
}

void
kv_packring_cut(struct kv_packring_span *s, size_t bytes)
{
	assert(bytes > 0 && bytes <= s->bytes);
	KV_LOCKED(&s->from->lock)
		s->bytes = bytes;
}

void
kv_packring_give(struct kv_packring_span *s)
{
	struct kv_packring *r = s->from;

	if (!r)
		return;
	KV_LOCKED(&r->lock) {
		if (r->last == &s->link)
			r->last = s->link.prev;
		kv_list_del(&s->link);
	}
	s->from = NULL;
}
