#include "mem/arena.h"

#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

#include <sanitizer/asan_interface.h>

#include "base/attr.h"
#include "base/fault.h"
#include "base/num.h"
#include "base/thread.h"

enum {
	RUN_BYTES = 64 << 10,
	HEAD_BYTES = 64,
	/* Until there are so many bytes it is run by run. */
	CHUNK_BYTES = 1 << 20,
	/* From so many on a chunk is got ready ahead. */
	AHEAD_BYTES_MIN = 4 << 20,
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
	a->chunks = NULL;
	a->bytes = 0;
	a->ahead = (struct kv_arena_ahead){
		.lock = PTHREAD_MUTEX_INITIALIZER,
		.asked = PTHREAD_COND_INITIALIZER,
	};
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
	struct kv_arena_ahead *ah = &a->ahead;
	struct kv_arena_chunk *c;

	KV_LOCKED(&ah->lock) {
		ah->is_ending = true;
		pthread_cond_signal(&ah->asked);
	}
	if (ah->has_thread)
		pthread_join(ah->thread, NULL);
	pthread_cond_destroy(&ah->asked);
	pthread_mutex_destroy(&ah->lock);
	if (ah->spare)
		chunk_free(ah->spare);
	while ((c = a->chunks)) {
		a->chunks = c->next;
		chunk_free(c);
	}
	kv_arena_init(a);
}

static struct kv_arena_chunk *
chunk_new(size_t bytes)
{
	struct kv_arena_chunk *c = KV_FAULT_POINT() ? NULL : malloc(sizeof(*c));

	if (!c)
		return NULL;
	c->bytes = bytes;
	c->mem = KV_FAULT_POINT() ? NULL : aligned_alloc(RUN_BYTES, bytes);
	if (c->mem)
		return c;
	free(c);
	return NULL;
}

/* Run by run, so that nobody waits long for the address space; without changing
 * anything, for what is in use meanwhile. */
static void
fault_in(char *mem)
{
	size_t at;

	for (at = 0; at < CHUNK_BYTES; at += RUN_BYTES)
		(void)madvise(mem + at, RUN_BYTES, MADV_POPULATE_WRITE);
}

static void *
go_ahead(void *arg)
{
	struct kv_arena_ahead *ah = arg;
	char *mem;

	pthread_mutex_lock(&ah->lock);
	while (!ah->is_ending) {
		mem = kv_steal_ptr(&ah->mem);
		if (!mem) {
			pthread_cond_wait(&ah->asked, &ah->lock);
			continue;
		}
		pthread_mutex_unlock(&ah->lock);
		fault_in(mem);
		pthread_mutex_lock(&ah->lock);
	}
	pthread_mutex_unlock(&ah->lock);
	return NULL;
}

/* Whatever of this fails, the arena faults in what it uses by itself. */
static void
ahead_ask(struct kv_arena_ahead *ah)
{
	ah->spare = chunk_new(CHUNK_BYTES);
	if (!ah->spare)
		return;
	if (!ah->has_thread)
		ah->has_thread = kv_thread_start(&ah->thread, KV_THREAD_ANY_CPU,
						 go_ahead, ah) == 0;
	KV_LOCKED(&ah->lock) {
		ah->mem = ah->spare->mem;
		pthread_cond_signal(&ah->asked);
	}
}

static bool
chunk_add(struct kv_arena *a)
{
	size_t bytes = a->bytes < CHUNK_BYTES ? RUN_BYTES : CHUNK_BYTES, at;
	struct kv_arena_chunk *c = kv_steal_ptr(&a->ahead.spare);

	if (!c)
		c = chunk_new(bytes);
	if (!c)
		return false;
	c->next = a->chunks;
	a->chunks = c;
	a->bytes += c->bytes;
	if (a->bytes >= AHEAD_BYTES_MIN)
		ahead_ask(&a->ahead);
	for (at = c->bytes; at > 0; at -= RUN_BYTES) {
		struct run *r = (void *)((char *)c->mem + at - RUN_BYTES);

		kv_list_add_head(&a->empty, &r->link);
	}
	return true;
}

/* One for pieces of this size. */
static struct run *
run_take(struct kv_arena *a, size_t size)
{
	struct run *r;

	if (kv_list_is_empty(&a->empty) && !chunk_add(a))
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
