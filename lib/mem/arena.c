#include "mem/arena.h"

#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

#include <sanitizer/asan_interface.h>

#include "base/attr.h"
#include "base/fault.h"
#include "base/num.h"

enum {
	RUN_BYTES = 64 << 10,
	HEAD_BYTES = 64,
	/* So many bytes come run by run, */
	SMALL_BYTES = 4 << 20,
	/* and all others in so large chunks, as far as they are faulted in. */
	CHUNK_BYTES = 64 << 20,
	HUGE_BYTES = 2 << 20,
};

/* Where it begins its pieces' addresses say. */
struct run {
	struct kv_list link; /* in runs or empty; alone: it is full */
	void *released;      /* a list of pieces */
	uint32_t fresh;      /* offset of the first piece never used */
	uint32_t used;
};

_Static_assert(sizeof(struct run) <= HEAD_BYTES, "pieces come after it");
_Static_assert(KV_ARENA_PIECE_BYTES_MAX <= RUN_BYTES - HEAD_BYTES, "one fits");

void
kv_arena_init(struct kv_arena *a)
{
	size_t i;

	for (i = 0; i < KV_ARRAY_LEN(a->runs); i++)
		kv_list_init(&a->runs[i]);
	kv_list_init(&a->empty);
	a->chunks = a->large = NULL;
	a->bytes = a->taken = 0;
	kv_warm_init(&a->warm);
}

static void
chunk_free(struct kv_arena_chunk *c)
{
	free(c->mem);
	free(c);
}

void
kv_arena_fini(struct kv_arena *a)
{
	struct kv_arena_chunk *c;

	kv_warm_fini(&a->warm);
	while ((c = a->chunks)) {
		a->chunks = c->next;
		chunk_free(c);
	}
	kv_arena_init(a);
}

static struct kv_arena_chunk *
chunk_add(struct kv_arena *a, size_t align, size_t bytes)
{
	struct kv_arena_chunk *c = KV_FAULT_POINT() ? NULL : malloc(sizeof(*c));

	if (!c)
		return NULL;
	c->mem = KV_FAULT_POINT() ? NULL : aligned_alloc(align, bytes);
	if (!c->mem) {
		free(c);
		return NULL;
	}
	c->next = a->chunks;
	a->chunks = c;
	return c;
}

/* The next run of the large chunk; NULL: it is not in memory yet. */
static void *
large_take(struct kv_arena *a)
{
	void *mem;

	if (!a->large || a->taken == CHUNK_BYTES) {
		a->large = chunk_add(a, HUGE_BYTES, CHUNK_BYTES);
		if (!a->large)
			return NULL;
		a->taken = 0;
		/* Advice: without it pages are small. */
		(void)madvise(a->large->mem, CHUNK_BYTES, MADV_HUGEPAGE);
		kv_warm_set(&a->warm, a->large->mem, CHUNK_BYTES);
	}
	if (!kv_warm_reaches(&a->warm, a->taken + RUN_BYTES))
		return NULL;
	mem = (char *)a->large->mem + a->taken;
	a->taken += RUN_BYTES;
	return mem;
}

static bool
run_add(struct kv_arena *a)
{
	struct kv_arena_chunk *c;
	struct run *r = NULL;

	if (a->bytes >= SMALL_BYTES)
		r = large_take(a);
	if (!r) {
		c = chunk_add(a, RUN_BYTES, RUN_BYTES);
		if (!c)
			return false;
		r = c->mem;
	}
	a->bytes += RUN_BYTES;
	kv_list_add_head(&a->empty, &r->link);
	return true;
}

/* One for pieces of this size. */
static struct run *
run_take(struct kv_arena *a, size_t size)
{
	struct run *r;

	if (kv_list_is_empty(&a->empty) && !run_add(a))
		return NULL;
	r = KV_LIST_FIRST(&a->empty, struct run, link);
	kv_list_del(&r->link);
	kv_list_add_head(&a->runs[size / KV_ARENA_STEP_BYTES], &r->link);
	r->released = NULL;
	r->fresh = HEAD_BYTES;
	r->used = 0;
	ASAN_POISON_MEMORY_REGION((char *)r + HEAD_BYTES,
				  RUN_BYTES - HEAD_BYTES);
	return r;
}

static bool
has_fresh(const struct run *r, size_t size)
{
	return r->fresh + size <= RUN_BYTES;
}

void *
kv_arena_alloc(struct kv_arena *a, size_t bytes)
{
	size_t size = kv_round_up_u64(bytes, KV_ARENA_STEP_BYTES);
	struct run *r;
	void *p;

	assert(bytes > 0 && bytes <= KV_ARENA_PIECE_BYTES_MAX);
	r = KV_LIST_FIRST(&a->runs[size / KV_ARENA_STEP_BYTES], struct run,
			  link);
	if (!r)
		r = run_take(a, size);
	if (!r)
		return NULL;
	p = r->released;
	if (p) {
		ASAN_UNPOISON_MEMORY_REGION(p, size);
		r->released = *(void **)p;
	} else {
		p = (char *)r + r->fresh;
		ASAN_UNPOISON_MEMORY_REGION(p, size);
		r->fresh += (uint32_t)size;
	}
	r->used++;
	if (!r->released && !has_fresh(r, size))
		kv_list_del(&r->link);
	return p;
}

void
kv_arena_release(struct kv_arena *a, void *p, size_t bytes)
{
	size_t size = kv_round_up_u64(bytes, KV_ARENA_STEP_BYTES);
	struct run *r = (void *)((uintptr_t)p & ~(uintptr_t)(RUN_BYTES - 1));

	assert(r->used > 0);
	*(void **)p = r->released;
	r->released = p;
	ASAN_POISON_MEMORY_REGION(p, size);
	if (--r->used == 0) {
		kv_list_del(&r->link);
		kv_list_add_head(&a->empty, &r->link);
	} else if (kv_list_is_empty(&r->link)) {
		kv_list_add_head(&a->runs[size / KV_ARENA_STEP_BYTES],
				 &r->link);
	}
}
