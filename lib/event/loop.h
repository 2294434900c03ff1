#ifndef KV_EVENT_LOOP_H
#define KV_EVENT_LOOP_H

/*
 * One loop per thread: descriptors, then timers, then deferred calls, a bounded
 * number of each per turn: 64 descriptors, 64 timers, and what was deferred
 * until then. With a virtual clock the loop asks no kernel and never sleeps:
 * whoever drives it moves the clock to kv_loop_next(), and says what is ready
 * of which descriptor (the simulator runs a whole cluster on one such loop).
 *
 * All functions are called on the loop's own thread; kv_loop_stop() too.
 * Other threads use kv_mbox. No callback runs inside the call that arms it.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/heap.h"
#include "base/list.h"

/* After a wait that took less than so long a loop looks for events for so long
 * before it sleeps: a put goes through three processes, and when each has to be
 * woken up for it takes three times as long as when they are awake. */
#define KV_LOOP_AWAKE_NS (100 * KV_NS_PER_US)

struct kv_loop;

/* A descriptor in the loop. Owned by the caller, zeroed before use. */
struct kv_io {
	struct kv_loop *loop; /* NULL while not added */
	int fd;
	uint32_t events; /* EPOLLIN, EPOLLOUT, ...: interest */
	struct kv_list
		link; /* of a virtual loop: those that wait, or are due */
	void (*fn)(struct kv_io *io, uint32_t ready);
};

/* A one-shot timer. Owned by the caller, zeroed before use. */
struct kv_timer {
	struct kv_heap_node node; /* key: due time in ns */
	struct kv_loop *loop;     /* NULL while not armed */
	void (*fn)(struct kv_timer *t);
};

/* A call made at the end of this turn, or of the next. Owned by the caller,
 * zeroed. */
struct kv_defer {
	struct kv_list link;
	struct kv_loop *loop; /* NULL while not queued */
	void (*fn)(struct kv_defer *d);
};

/* A loop on `clock`, which must outlive it; NULL means the real clock.
 * NULL with errno set on failure. */
struct kv_loop *kv_loop_new(struct kv_clock *clock);

/* Nothing may be armed in it any more (asserted). NULL is fine. */
void kv_loop_free(struct kv_loop *loop);

/* Time in ns of the current turn; read once per turn. */
uint64_t kv_loop_now(const struct kv_loop *loop);

/* Reads the clock again: for code that has worked long within one turn. */
uint64_t kv_loop_refresh(struct kv_loop *loop);

bool kv_loop_is_virtual(const struct kv_loop *loop);

/* Due time of the earliest timer, `now` when calls are deferred or (of a
 * virtual loop) a descriptor is ready, UINT64_MAX when there is nothing to do.
 */
uint64_t kv_loop_next(const struct kv_loop *loop);

/* One turn. Sleeps at most until `until_ns` (absolute; 0: do not sleep), and
 * not at all when calls are deferred. Returns the number of callbacks that
 * ran, or -errno when the poll failed. Not from within a callback. */
int kv_loop_turn(struct kv_loop *loop, uint64_t until_ns);

/* Turns until kv_loop_stop(), at once when that was called before; 0 or
 * -errno. Not with a virtual clock. */
int kv_loop_run(struct kv_loop *loop);
void kv_loop_stop(struct kv_loop *loop);

/* fn must be set. Level triggered. EPOLLERR and EPOLLHUP come unasked, but
 * with events 0 nothing comes. -errno on failure (then it is not added). */
int kv_loop_io_add(struct kv_loop *loop, struct kv_io *io, int fd,
		   uint32_t events);
/* -errno on failure: the interest is as before. */
int kv_loop_io_mod(struct kv_io *io, uint32_t events);
/* Harmless when not added. No event of this turn reaches it afterwards. To be
 * called before the descriptor is closed. */
void kv_loop_io_del(struct kv_io *io);

/* Virtual loops only: what is ready of this descriptor from now on, until the
 * next call for it; whether it is in the loop does not matter. Events 0 before
 * the descriptor is closed. Aborts where there is no memory. */
void kv_loop_io_ready(struct kv_loop *loop, int fd, uint32_t events);

/* Arms or moves the timer to an absolute time. Cannot fail once the loop has
 * room (kv_heap growth): -ENOMEM leaves it unarmed. */
int kv_loop_timer_set(struct kv_loop *loop, struct kv_timer *t, uint64_t at);
void kv_loop_timer_del(struct kv_timer *t);

/* Queues fn; queued already: nothing happens. */
void kv_loop_defer(struct kv_loop *loop, struct kv_defer *d);
void kv_loop_defer_del(struct kv_defer *d);

#endif
