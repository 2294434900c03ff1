#include "mem/ahead.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/attr.h"
#include "base/fault.h"
#include "base/num.h"
#include "base/thread.h"
#include "mem/seg.h"

#define BLOCK KV_AHEAD_BLOCK_BYTES

enum {
	/* So many blocks after one another are a row; a thread costs less than
	 * what it saves on the next ones. */
	ROW_BLOCKS = 4,
	/* It is that far ahead: in the time that copying half of them takes,
	 * it is woken and has entered the other half. */
	AHEAD_BLOCKS = 64,
};

struct kv_ahead {
	const struct kv_seg *seg;
	/* Hints; several threads that ascend at different places spoil them
	 * for each other, and enter all they use themselves. */
	_Atomic uint64_t next; /* block after the row, entered or asked for */
	_Atomic uint64_t row;  /* blocks in it */

	pthread_mutex_t lock; /* guards all below */
	pthread_cond_t asked;
	uint64_t from, to; /* blocks to enter */
	bool closing;
	bool has_thread;
	bool has_none; /* it could not be started */
	pthread_t thread;

	_Atomic uint64_t taken[]; /* blocks that somebody enters or entered */
};

static bool
is_taken(const struct kv_ahead *a, uint64_t block)
{
	return atomic_load_explicit(&a->taken[block / 64],
				    memory_order_relaxed) >>
		       (block % 64) &
	       1;
}

/* Who meets a block that another thread is just entering goes on: it is only
 * ahead of what the copy would do. */
static void
enter(struct kv_ahead *a, uint64_t block)
{
	uint64_t bit = 1ull << (block % 64);

	if (atomic_fetch_or_explicit(&a->taken[block / 64], bit,
				     memory_order_relaxed) &
	    bit)
		return;
	kv_seg_map_ahead(a->seg, block * BLOCK,
			 kv_min_u64(BLOCK, a->seg->bytes - block * BLOCK));
}

static void *
go_ahead(void *arg)
{
	struct kv_ahead *a = arg;
	uint64_t block;

	pthread_mutex_lock(&a->lock);
	while (!a->closing) {
		if (a->from >= a->to) {
			pthread_cond_wait(&a->asked, &a->lock);
			continue;
		}
		block = a->from++;
		pthread_mutex_unlock(&a->lock);
		enter(a, block);
		pthread_mutex_lock(&a->lock);
	}
	pthread_mutex_unlock(&a->lock);
	return NULL;
}

static void
ask(struct kv_ahead *a, uint64_t from, uint64_t to)
{
	KV_LOCKED(&a->lock) {
		if (a->to != from)
			a->from = from;
		a->to = to;
		if (!a->has_thread && !a->has_none) {
			a->has_thread =
				kv_thread_start(&a->thread, KV_THREAD_ANY_CPU,
						go_ahead, a) == 0;
			a->has_none = !a->has_thread;
		}
		pthread_cond_signal(&a->asked);
	}
}

/* Blocks [first, end) are used, and were not all entered before (is_new). */
static void
look_ahead(struct kv_ahead *a, uint64_t first, uint64_t end, bool is_new,
	   uint64_t ready)
{
	uint64_t next = atomic_load_explicit(&a->next, memory_order_relaxed);
	uint64_t row = atomic_load_explicit(&a->row, memory_order_relaxed);
	uint64_t to;

	if (first > next || first + AHEAD_BLOCKS < next) {
		if (!is_new)
			return;
		next = first; /* maybe another row begins here */
		row = 0;
	} else if (end + AHEAD_BLOCKS / 2 <= next) {
		return;
	}
	if (end > next) {
		row += end - next;
		next = end;
	}
	to = row < ROW_BLOCKS ? next
			      : kv_min_u64(end + AHEAD_BLOCKS, ready / BLOCK);
	if (to > next)
		ask(a, next, to);
	atomic_store_explicit(&a->row, row, memory_order_relaxed);
	atomic_store_explicit(&a->next, kv_max_u64(next, to),
			      memory_order_relaxed);
}

void
kv_ahead_use(struct kv_ahead *a, uint64_t off, uint64_t len, uint64_t ready)
{
	uint64_t first = off / BLOCK, end = kv_div_up_u64(off + len, BLOCK);
	bool is_new = false;
	uint64_t block;

	for (block = first; block < end; block++)
		if (!is_taken(a, block)) {
			is_new = true;
			enter(a, block);
		}
	look_ahead(a, first, end, is_new, kv_min_u64(ready, a->seg->bytes));
}

struct kv_ahead *
kv_ahead_new(const struct kv_seg *seg)
{
	uint64_t words = kv_div_up_u64(kv_div_up_u64(seg->bytes, BLOCK), 64);
	struct kv_ahead *a =
		KV_FAULT_POINT()
			? NULL
			: calloc(1, sizeof(*a) + words * sizeof(a->taken[0]));

	if (!a)
		return NULL;
	a->seg = seg;
	pthread_mutex_init(&a->lock, NULL);
	pthread_cond_init(&a->asked, NULL);
	return a;
}

void
kv_ahead_free(struct kv_ahead *a)
{
	if (!a)
		return;
	KV_LOCKED(&a->lock) {
		a->closing = true;
		pthread_cond_signal(&a->asked);
	}
	if (a->has_thread)
		pthread_join(a->thread, NULL);
	pthread_cond_destroy(&a->asked);
	pthread_mutex_destroy(&a->lock);
	free(a);
}
