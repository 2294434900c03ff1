#include "event/loop.h"

#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/num.h"

enum {
	EVENTS_MAX = 64, /* descriptors served in one turn */
	TIMERS_MAX = 64  /* run in one turn */
};

/* Of a descriptor of a virtual loop, as it was said to be. */
struct ready {
	int fd;
	uint32_t events;
};

struct kv_loop {
	struct kv_clock *clock;
	struct kv_clock real;
	uint64_t now;
	int epfd; /* -1 with a virtual clock */
	bool lacks_pwait2;
	bool stopped;
	bool is_brisk;  /* the last wait was short */
	bool was_short; /* the last turn only ran what was deferred */
	size_t n_io;
	struct kv_heap timers;
	struct kv_list deferred;
	struct kv_list running; /* what is left of this turn's */
	struct epoll_event events[EVENTS_MAX];
	int n_events;
	int next_event;
	/* With a virtual clock: */
	struct kv_list waiting; /* in the loop, with nothing that they want */
	struct kv_list due;     /* in the loop, the next to be served first */
	struct ready *ready;    /* of each descriptor that is */
	size_t n_ready;
};

struct kv_loop *
kv_loop_new(struct kv_clock *clock)
{
	struct kv_loop *loop;

	if (KV_FAULT_POINT()) {
		errno = EMFILE;
		return NULL;
	}
	loop = calloc(1, sizeof(*loop));
	if (!loop)
		return NULL;
	loop->clock = clock ? clock : &loop->real;
	loop->epfd = -1;
	if (!loop->clock->is_virtual) {
		loop->epfd = epoll_create1(EPOLL_CLOEXEC);
		if (loop->epfd < 0)
			goto free_loop;
	}
	kv_heap_init(&loop->timers);
	kv_list_init(&loop->deferred);
	kv_list_init(&loop->running);
	kv_list_init(&loop->waiting);
	kv_list_init(&loop->due);
	kv_loop_refresh(loop);
	return loop;
free_loop:
	free(loop);
	return NULL;
}

void
kv_loop_free(struct kv_loop *loop)
{
	if (!loop)
		return;
	assert(loop->n_io == 0);
	assert(!kv_heap_first(&loop->timers));
	assert(kv_list_is_empty(&loop->deferred));
	assert(kv_list_is_empty(&loop->running));
	kv_heap_fini(&loop->timers);
	if (loop->epfd >= 0)
		close(loop->epfd);
	free(loop->ready);
	free(loop);
}

uint64_t
kv_loop_now(const struct kv_loop *loop)
{
	return loop->clock->is_virtual ? loop->clock->ns : loop->now;
}

uint64_t
kv_loop_refresh(struct kv_loop *loop)
{
	return loop->now = kv_clock_now(loop->clock);
}

bool
kv_loop_is_virtual(const struct kv_loop *loop)
{
	return loop->clock->is_virtual;
}

uint64_t
kv_loop_next(const struct kv_loop *loop)
{
	const struct kv_heap_node *first = kv_heap_first(&loop->timers);

	if (!kv_list_is_empty(&loop->deferred) || !kv_list_is_empty(&loop->due))
		return kv_loop_now(loop);
	return first ? first->key : UINT64_MAX;
}

/* What these themselves defer is left for the next turn. */
static int
run_deferred(struct kv_loop *loop)
{
	struct kv_defer *d;
	int n = 0;

	kv_list_splice_tail(&loop->running, &loop->deferred);
	for (;; n++) {
		d = KV_LIST_FIRST(&loop->running, struct kv_defer, link);
		if (!d)
			return n;
		kv_loop_defer_del(d);
		d->fn(d);
	}
}

static int
wait_ms(struct kv_loop *loop, uint64_t wait_ns)
{
	int ms = -1;

	/* Rounded up: a timer never finds itself early and polls again. */
	if (wait_ns != UINT64_MAX)
		ms = (int)kv_min_u64(kv_div_up_u64(wait_ns, KV_NS_PER_MS),
				     INT_MAX);
	return epoll_wait(loop->epfd, loop->events, EVENTS_MAX, ms);
}

/* Sleeps up to wait_ns; UINT64_MAX: until something happens. */
static int
wait_events(struct kv_loop *loop, uint64_t wait_ns)
{
	struct timespec ts = {
		.tv_sec = (time_t)(wait_ns / KV_NS_PER_S),
		.tv_nsec = (long)(wait_ns % KV_NS_PER_S),
	};
	int n;

	if (wait_ns == 0 || wait_ns == UINT64_MAX || loop->lacks_pwait2)
		return wait_ms(loop, wait_ns);
	n = epoll_pwait2(loop->epfd, loop->events, EVENTS_MAX, &ts, NULL);
	if (n < 0 && (errno == ENOSYS || errno == EPERM)) {
		/* An old kernel, or the filter of a container. */
		loop->lacks_pwait2 = true;
		return wait_ms(loop, wait_ns);
	}
	return n;
}

static uint64_t
sleep_limit(const struct kv_loop *loop, uint64_t until_ns)
{
	uint64_t until = kv_min_u64(until_ns, kv_loop_next(loop));

	if (until == UINT64_MAX)
		return UINT64_MAX;
	return until > loop->now ? until - loop->now : 0;
}

static int
run_events(struct kv_loop *loop)
{
	int ran = 0;

	while (loop->next_event < loop->n_events) {
		const struct epoll_event *e = &loop->events[loop->next_event++];
		struct kv_io *io = e->data.ptr;
		uint32_t ready;

		if (!io) /* deleted by an earlier callback of this turn */
			continue;
		ready = e->events & (io->events | EPOLLERR | EPOLLHUP);
		if (!io->events || !ready)
			continue;
		io->fn(io, ready);
		ran++;
	}
	return ran;
}

/*
 * After a wait that was short the next one begins awake: to be woken costs more
 * than the rest of a short call does, in a virtual machine ten times as much.
 * Whoever shares the core goes first, it may be the one to answer.
 */
static int
wait_awake(struct kv_loop *loop, uint64_t wait_ns)
{
	uint64_t start, now;
	int n = 0;

	if (wait_ns == 0)
		return wait_events(loop, 0);
	start = now = kv_clock_now(loop->clock);
	while (loop->is_brisk && n == 0 && now - start < KV_LOOP_AWAKE_NS &&
	       now - start < wait_ns) {
		sched_yield();
		n = wait_ms(loop, 0);
		now = kv_clock_now(loop->clock);
	}
	if (n == 0) {
		n = wait_events(loop, wait_ns);
		now = kv_clock_now(loop->clock);
	}
	loop->is_brisk = now - start < KV_LOOP_AWAKE_NS;
	return n;
}

static int
poll_events(struct kv_loop *loop, uint64_t wait_ns)
{
	int n = wait_awake(loop, wait_ns);

	if (n < 0)
		return errno == EINTR ? 0 : -errno;
	loop->n_events = n;
	loop->next_event = 0;
	return 0;
}

static int
run_timers(struct kv_loop *loop)
{
	uint64_t now = kv_loop_now(loop);
	int n;

	for (n = 0; n < TIMERS_MAX; n++) {
		struct kv_heap_node *first = kv_heap_first(&loop->timers);
		struct kv_timer *t;

		if (!first || first->key > now)
			break;
		t = KV_CONTAINER_OF(first, struct kv_timer, node);
		kv_loop_timer_del(t);
		t->fn(t);
	}
	return n;
}

static uint32_t
ready_of(const struct kv_loop *loop, const struct kv_io *io)
{
	if (!io->events)
		return 0;
	for (size_t i = 0; i < loop->n_ready; i++)
		if (loop->ready[i].fd == io->fd)
			return loop->ready[i].events &
			       (io->events | EPOLLERR | EPOLLHUP);
	return 0;
}

static void
sort_in(struct kv_loop *loop, struct kv_io *io)
{
	kv_list_del(&io->link);
	kv_list_add_tail(ready_of(loop, io) ? &loop->due : &loop->waiting,
			 &io->link);
}

/* Each at most once, and those first for which a turn had no room. */
static int
run_due(struct kv_loop *loop)
{
	struct kv_list now;
	int ran = 0;

	kv_list_init(&now);
	kv_list_splice_tail(&now, &loop->due);
	while (ran < EVENTS_MAX) {
		struct kv_io *io = KV_LIST_FIRST(&now, struct kv_io, link);
		uint32_t ready;

		if (!io)
			break;
		ready = ready_of(loop, io);
		sort_in(loop, io);
		if (!ready) /* any more, by an earlier callback */
			continue;
		io->fn(io, ready);
		ran++;
	}
	kv_list_splice_tail(&now, &loop->due);
	kv_list_splice_tail(&loop->due, &now);
	return ran;
}

int
kv_loop_turn(struct kv_loop *loop, uint64_t until_ns)
{
	uint64_t wait_ns = 0;
	int ran, err;

	kv_loop_refresh(loop);
	if (loop->epfd < 0) {
		ran = run_deferred(loop);
		ran += run_due(loop);
		return ran + run_timers(loop);
	}
	/* Deferred from outside: done without asking the kernel first, which
	 * costs as much again; but never twice in a row. */
	loop->was_short =
		!loop->was_short && !kv_list_is_empty(&loop->deferred);
	if (loop->was_short)
		return run_deferred(loop);
	if (!loop->stopped)
		wait_ns = sleep_limit(loop, until_ns);
	err = poll_events(loop, wait_ns);
	if (err)
		return err;
	if (wait_ns)
		kv_loop_refresh(loop);
	ran = run_events(loop);
	ran += run_timers(loop);
	return ran + run_deferred(loop);
}

int
kv_loop_run(struct kv_loop *loop)
{
	int n = 0;

	assert(!kv_loop_is_virtual(loop));
	while (!loop->stopped && n >= 0)
		n = kv_loop_turn(loop, UINT64_MAX);
	loop->stopped = false;
	return n < 0 ? n : 0;
}

void
kv_loop_stop(struct kv_loop *loop)
{
	loop->stopped = true;
}

static int
control(struct kv_loop *loop, struct kv_io *io, int op, uint32_t events)
{
	struct epoll_event e = { .events = events, .data.ptr = io };

	if (loop->epfd < 0)
		return 0;
	return epoll_ctl(loop->epfd, op, io->fd, &e) ? -errno : 0;
}

int
kv_loop_io_add(struct kv_loop *loop, struct kv_io *io, int fd, uint32_t events)
{
	int err = 0;

	assert(!io->loop);
	assert(io->fn);
	io->fd = fd;
	if (KV_FAULT_POINT())
		err = -ENOMEM;
	else if (events)
		err = control(loop, io, EPOLL_CTL_ADD, events);
	if (err)
		return err;
	io->loop = loop;
	io->events = events;
	loop->n_io++;
	if (loop->epfd < 0) {
		kv_list_init(&io->link);
		sort_in(loop, io);
	}
	return 0;
}

/*
 * Without interest the descriptor is not left in the kernel's set: that would
 * go on telling of errors and hang-ups, which nobody then takes care of.
 */
int
kv_loop_io_mod(struct kv_io *io, uint32_t events)
{
	int op = EPOLL_CTL_MOD;
	int err;

	assert(io->loop);
	if (events == io->events)
		return 0;
	if (!events)
		op = EPOLL_CTL_DEL;
	else if (!io->events)
		op = EPOLL_CTL_ADD;
	err = control(io->loop, io, op, events);
	if (err)
		return err;
	io->events = events;
	if (io->loop->epfd < 0)
		sort_in(io->loop, io);
	return 0;
}

void
kv_loop_io_del(struct kv_io *io)
{
	struct kv_loop *loop = io->loop;
	int err = 0;

	if (!loop)
		return;
	if (io->events)
		err = control(loop, io, EPOLL_CTL_DEL, 0);
	assert(!err); /* else it was closed before it was deleted here */
	for (int i = loop->next_event; i < loop->n_events; i++)
		if (loop->events[i].data.ptr == io)
			loop->events[i].data.ptr = NULL;
	if (loop->epfd < 0)
		kv_list_del(&io->link);
	io->loop = NULL;
	io->events = 0;
	loop->n_io--;
}

/* Adds, changes or takes out what is known of a descriptor. */
static void
ready_set(struct kv_loop *loop, int fd, uint32_t events)
{
	size_t i = 0;

	while (i < loop->n_ready && loop->ready[i].fd != fd)
		i++;
	if (!events) {
		if (i < loop->n_ready)
			loop->ready[i] = loop->ready[--loop->n_ready];
		return;
	}
	if (i == loop->n_ready) {
		loop->ready =
			realloc(loop->ready, (i + 1) * sizeof(*loop->ready));
		assert(loop->ready);
		loop->n_ready++;
	}
	loop->ready[i] = (struct ready){ .fd = fd, .events = events };
}

/* Only those of which it changes anything lose their place. */
static void
sort_all(struct kv_loop *loop, struct kv_list *from, int fd)
{
	bool is_due = from == &loop->due;
	struct kv_io *io, *tmp;

	KV_LIST_FOREACH_SAFE(io, tmp, from, link)
		if (io->fd == fd && is_due != !!ready_of(loop, io))
			sort_in(loop, io);
}

void
kv_loop_io_ready(struct kv_loop *loop, int fd, uint32_t events)
{
	assert(loop->epfd < 0);
	ready_set(loop, fd, events);
	sort_all(loop, &loop->due, fd);
	sort_all(loop, &loop->waiting, fd);
}

int
kv_loop_timer_set(struct kv_loop *loop, struct kv_timer *t, uint64_t at)
{
	int err;

	assert(t->fn);
	if (t->loop) {
		assert(t->loop == loop);
		kv_heap_update(&loop->timers, &t->node, at);
		return 0;
	}
	err = kv_heap_add(&loop->timers, &t->node, at);
	if (!err)
		t->loop = loop;
	return err;
}

void
kv_loop_timer_del(struct kv_timer *t)
{
	if (!t->loop)
		return;
	kv_heap_del(&t->loop->timers, &t->node);
	t->loop = NULL;
}

void
kv_loop_defer(struct kv_loop *loop, struct kv_defer *d)
{
	assert(d->fn);
	if (d->loop) {
		assert(d->loop == loop);
		return;
	}
	kv_list_add_tail(&loop->deferred, &d->link);
	d->loop = loop;
}

void
kv_loop_defer_del(struct kv_defer *d)
{
	if (!d->loop)
		return;
	kv_list_del(&d->link);
	d->loop = NULL;
}
