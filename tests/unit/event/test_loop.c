#include "event/loop.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/attr.h"
#include "base/rng.h"

#include "test.h"

enum {
	N_TIMERS = 500
};

/* An eventfd in the loop that counts its calls. */
struct probe {
	struct kv_io io;
	int calls;
	uint32_t ready;
	struct probe *victim; /* deleted by the first call */
};

static void
on_probe(struct kv_io *io, uint32_t ready)
{
	struct probe *p = KV_CONTAINER_OF(io, struct probe, io);

	p->calls++;
	p->ready = ready;
	if (p->victim)
		kv_loop_io_del(&p->victim->io);
	p->victim = NULL;
}

static void
probe_open(struct probe *p, struct kv_loop *loop, unsigned int value)
{
	int fd = eventfd(value, EFD_CLOEXEC | EFD_NONBLOCK);

	assert_true(fd >= 0);
	*p = (struct probe){ .io.fn = on_probe };
	assert_int_equal(kv_loop_io_add(loop, &p->io, fd, EPOLLIN), 0);
}

static void
probe_close(struct probe *p)
{
	kv_loop_io_del(&p->io);
	close(p->io.fd);
}

static int
new_real(void **state)
{
	*state = kv_loop_new(NULL);
	return *state ? 0 : -1;
}

static int
free_real(void **state)
{
	kv_loop_free(*state);
	return 0;
}

static void
level_triggered_until_it_is_read(void **state)
{
	struct kv_loop *loop = *state;
	struct probe p;
	eventfd_t value;

	probe_open(&p, loop, 1);
	assert_int_equal(kv_loop_turn(loop, 0), 1);
	assert_int_equal(kv_loop_turn(loop, 0), 1);
	assert_int_equal(p.calls, 2);
	assert_int_equal(p.ready, EPOLLIN);
	assert_int_equal(eventfd_read(p.io.fd, &value), 0);
	assert_int_equal(kv_loop_turn(loop, 0), 0);
	assert_int_equal(kv_loop_io_mod(&p.io, EPOLLOUT), 0);
	assert_int_equal(kv_loop_turn(loop, 0), 1);
	assert_int_equal(p.ready, EPOLLOUT);
	probe_close(&p);
	assert_int_equal(kv_loop_turn(loop, 0), 0);
	kv_loop_io_del(&p.io);
}

static void
an_event_of_this_turn_does_not_reach_what_was_deleted(void **state)
{
	struct kv_loop *loop = *state;
	struct probe a, b;

	probe_open(&a, loop, 1);
	probe_open(&b, loop, 1);
	a.victim = &b;
	b.victim = &a;
	assert_int_equal(kv_loop_turn(loop, 0), 1);
	assert_int_equal(a.calls + b.calls, 1);
	probe_close(&a);
	probe_close(&b);
}

static void
on_readd(struct kv_io *io, uint32_t ready)
{
	struct probe *p = KV_CONTAINER_OF(io, struct probe, io);
	struct probe *other = p->victim;
	struct kv_loop *loop = io->loop;
	int fd;

	on_probe(io, ready);
	/* The same storage for another descriptor: none of the old events. */
	close(other->io.fd);
	fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	assert_int_equal(kv_loop_io_add(loop, &other->io, fd, EPOLLIN), 0);
}

static void
storage_used_again_gets_no_stale_event(void **state)
{
	struct kv_loop *loop = *state;
	struct probe a, b;

	probe_open(&a, loop, 1);
	probe_open(&b, loop, 1);
	a.victim = &b;
	b.victim = &a;
	a.io.fn = b.io.fn = on_readd;
	assert_int_equal(kv_loop_turn(loop, 0), 1);
	assert_int_equal(a.calls + b.calls, 1);
	probe_close(&a);
	probe_close(&b);
}

static void
on_mute(struct kv_io *io, uint32_t ready)
{
	struct probe *p = KV_CONTAINER_OF(io, struct probe, io);

	(void)ready;
	p->calls++;
	assert_int_equal(kv_loop_io_mod(&p->victim->io, EPOLLOUT), 0);
}

static void
an_event_that_is_no_longer_wanted_is_dropped(void **state)
{
	struct kv_loop *loop = *state;
	struct probe a, b;

	/* Readable, but not writable: the counters are at their limit. */
	probe_open(&a, loop, 0);
	probe_open(&b, loop, 0);
	assert_int_equal(eventfd_write(a.io.fd, UINT64_MAX - 1), 0);
	assert_int_equal(eventfd_write(b.io.fd, UINT64_MAX - 1), 0);
	a.victim = &b;
	b.victim = &a;
	a.io.fn = b.io.fn = on_mute;
	assert_int_equal(kv_loop_turn(loop, 0), 1);
	assert_int_equal(a.calls + b.calls, 1);
	probe_close(&a);
	probe_close(&b);
}

static void
without_interest_a_hangup_stays_silent(void **state)
{
	struct kv_loop *loop = *state;
	struct probe p = { .io.fn = on_probe };
	int sv[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, sv), 0);
	assert_int_equal(kv_loop_io_add(loop, &p.io, sv[0], 0), 0);
	close(sv[1]);
	assert_int_equal(kv_loop_turn(loop, 0), 0);
	assert_int_equal(kv_loop_io_mod(&p.io, EPOLLIN), 0);
	assert_int_equal(kv_loop_turn(loop, 0), 1);
	assert_true(p.ready & EPOLLHUP);
	assert_int_equal(kv_loop_io_mod(&p.io, 0), 0);
	assert_int_equal(kv_loop_turn(loop, 0), 0);
	probe_close(&p);
}

static void
adding_what_cannot_be_polled_fails(void **state)
{
	struct kv_loop *loop = *state;
	struct kv_io io = { .fn = on_probe };

	assert_int_equal(kv_loop_io_add(loop, &io, 9999, EPOLLIN), -EBADF);
	assert_null(io.loop);
	kv_loop_io_del(&io);
}

static void
many_descriptors_are_served_in_turn(void **state)
{
	enum {
		N = 200
	};
	struct kv_loop *loop = *state;
	static struct probe p[N];
	int i, turns = 0, least;

	for (i = 0; i < N; i++)
		probe_open(&p[i], loop, 1);
	/* All are ready all the time; none waits for more than four turns. */
	do {
		assert_int_equal(kv_loop_turn(loop, 0), 64);
		least = p[0].calls;
		for (i = 1; i < N; i++)
			if (p[i].calls < least)
				least = p[i].calls;
	} while (++turns < 4 && !least);
	assert_int_equal(least, 1);
	for (i = 0; i < N; i++)
		probe_close(&p[i]);
}

struct alarm {
	struct kv_timer timer;
	int calls;
	int *order;
	int rank;
	struct alarm *victim;
	struct kv_loop *loop;
};

static void
on_alarm(struct kv_timer *t)
{
	struct alarm *a = KV_CONTAINER_OF(t, struct alarm, timer);

	a->calls++;
	if (a->order)
		a->rank = (*a->order)++;
	if (a->victim)
		kv_loop_timer_del(&a->victim->timer);
}

static void
timers_fire_in_order_of_time(void **state)
{
	static struct alarm alarms[N_TIMERS];
	struct kv_clock clock = { .is_virtual = true, .ns = 1000 };
	struct kv_loop *loop = kv_loop_new(&clock);
	uint64_t at[N_TIMERS];
	struct kv_rng rng;
	int i, j, order = 0;

	(void)state;
	kv_rng_seed(&rng, 7);
	for (i = 0; i < N_TIMERS; i++) {
		alarms[i] =
			(struct alarm){ .order = &order, .timer.fn = on_alarm };
		at[i] = 1000 + kv_rng_below(&rng, 100);
		assert_int_equal(kv_loop_timer_set(loop, &alarms[i].timer, 5),
				 0);
		assert_int_equal(
			kv_loop_timer_set(loop, &alarms[i].timer, at[i]), 0);
	}
	for (i = 0; i < N_TIMERS; i += 3)
		kv_loop_timer_del(&alarms[i].timer);
	clock.ns = 2000;
	while (kv_loop_next(loop) != UINT64_MAX)
		assert_in_range(kv_loop_turn(loop, 0), 1, 64);
	assert_int_equal(order, N_TIMERS - (N_TIMERS + 2) / 3);
	for (i = 0; i < N_TIMERS; i++) {
		assert_int_equal(alarms[i].calls, i % 3 ? 1 : 0);
		for (j = 0; i % 3 && j < N_TIMERS; j++)
			if (j % 3 && at[i] < at[j])
				assert_true(alarms[i].rank < alarms[j].rank);
	}
	kv_loop_free(loop);
}

static void
a_timer_deleted_by_another_one_does_not_fire(void **state)
{
	struct kv_clock clock = { .is_virtual = true };
	struct kv_loop *loop = kv_loop_new(&clock);
	struct alarm a = { .timer.fn = on_alarm };
	struct alarm b = { .timer.fn = on_alarm, .victim = &a };

	(void)state;
	a.victim = &b;
	assert_int_equal(kv_loop_timer_set(loop, &a.timer, 0), 0);
	assert_int_equal(kv_loop_timer_set(loop, &b.timer, 0), 0);
	assert_int_equal(kv_loop_turn(loop, 0), 1);
	assert_int_equal(a.calls + b.calls, 1);
	kv_loop_free(loop);
}

static void
on_repeat(struct kv_timer *t)
{
	struct alarm *a = KV_CONTAINER_OF(t, struct alarm, timer);

	a->calls++;
	assert_int_equal(kv_loop_timer_set(a->loop, t, 0), 0);
}

static void
a_timer_that_is_always_due_does_not_hold_the_turn(void **state)
{
	struct kv_loop *loop = *state;
	struct alarm a = { .timer.fn = on_repeat, .loop = loop };
	struct probe p;

	probe_open(&p, loop, 1);
	assert_int_equal(kv_loop_timer_set(loop, &a.timer, 0), 0);
	assert_int_equal(kv_loop_turn(loop, UINT64_MAX), 1 + 64);
	assert_int_equal(kv_loop_turn(loop, UINT64_MAX), 1 + 64);
	assert_int_equal(p.calls, 2);
	kv_loop_timer_del(&a.timer);
	probe_close(&p);
}

static void
virtual_time_jumps_and_never_sleeps(void **state)
{
	struct kv_clock clock = { .is_virtual = true, .ns = 5 };
	struct kv_loop *loop = kv_loop_new(&clock);
	struct alarm a = { .timer.fn = on_alarm };
	uint64_t hour = 3600 * KV_NS_PER_S;

	(void)state;
	assert_true(kv_loop_is_virtual(loop));
	assert_int_equal(kv_loop_now(loop), 5);
	assert_int_equal(kv_loop_next(loop), UINT64_MAX);
	assert_int_equal(kv_loop_timer_set(loop, &a.timer, hour), 0);
	assert_int_equal(kv_loop_next(loop), hour);
	assert_int_equal(kv_loop_turn(loop, UINT64_MAX), 0);
	clock.ns = kv_loop_next(loop) - 1;
	assert_int_equal(kv_loop_turn(loop, UINT64_MAX), 0);
	assert_int_equal(a.calls, 0);
	clock.ns = hour;
	assert_int_equal(kv_loop_now(loop), hour);
	assert_int_equal(kv_loop_turn(loop, UINT64_MAX), 1);
	assert_int_equal(a.calls, 1);
	/* A time that has passed is due at once, not lost. */
	assert_int_equal(kv_loop_timer_set(loop, &a.timer, 1), 0);
	assert_int_equal(kv_loop_turn(loop, 0), 1);
	kv_loop_free(loop);
}

static void
a_real_timer_is_not_early(void **state)
{
	struct kv_loop *loop = *state;
	struct alarm a = { .timer.fn = on_alarm };
	uint64_t start = kv_loop_refresh(loop);
	uint64_t at = start + 3 * KV_NS_PER_MS + 1;
	int turns = 0;

	assert_int_equal(kv_loop_timer_set(loop, &a.timer, at), 0);
	while (!a.calls) {
		turns++;
		assert_true(kv_loop_turn(loop, UINT64_MAX) >= 0);
	}
	assert_true(kv_loop_now(loop) >= at);
	assert_true(turns < 10);
}

static void
a_turn_ends_at_its_limit(void **state)
{
	struct kv_loop *loop = *state;
	uint64_t start = kv_loop_refresh(loop);
	uint64_t until = start + 2 * KV_NS_PER_MS;

	assert_int_equal(kv_loop_turn(loop, until), 0);
	assert_true(kv_loop_now(loop) >= until);
	start = kv_loop_refresh(loop);
	assert_int_equal(kv_loop_turn(loop, 0), 0);
	assert_int_equal(kv_loop_turn(loop, start), 0);
	assert_true(kv_loop_refresh(loop) - start < KV_NS_PER_S);
}

/* A deferred call that defers itself `left` times more. */
struct later {
	struct kv_defer defer;
	struct kv_loop *loop;
	int calls;
	int left;
	struct later *victim;
	bool stop;
};

static void
on_later(struct kv_defer *d)
{
	struct later *l = KV_CONTAINER_OF(d, struct later, defer);

	l->calls++;
	if (l->victim)
		kv_loop_defer_del(&l->victim->defer);
	if (l->stop)
		kv_loop_stop(l->loop);
	if (l->left-- > 0)
		kv_loop_defer(l->loop, d);
}

static void
what_is_deferred_by_a_deferred_call_waits_a_turn(void **state)
{
	struct kv_loop *loop = *state;
	struct later l = { .defer.fn = on_later, .loop = loop, .left = 2 };

	kv_loop_defer(loop, &l.defer);
	kv_loop_defer(loop, &l.defer);
	assert_int_equal(l.calls, 0);
	assert_int_equal(kv_loop_next(loop), kv_loop_now(loop));
	for (int i = 1; i <= 3; i++) {
		/* Never sleeps, although no timer would end the sleep. */
		assert_int_equal(kv_loop_turn(loop, UINT64_MAX), 1);
		assert_int_equal(l.calls, i);
	}
	assert_int_equal(kv_loop_turn(loop, 0), 0);
}

static void
a_deferred_call_can_take_another_one_back(void **state)
{
	struct kv_loop *loop = *state;
	struct later b = { .defer.fn = on_later, .loop = loop };
	struct later a = { .defer.fn = on_later, .loop = loop, .victim = &b };

	kv_loop_defer(loop, &a.defer);
	kv_loop_defer(loop, &b.defer);
	assert_int_equal(kv_loop_turn(loop, 0), 1);
	assert_int_equal(b.calls, 0);
	kv_loop_defer_del(&b.defer);
	assert_int_equal(kv_loop_turn(loop, 0), 0);
}

static void
run_ends_at_stop(void **state)
{
	struct kv_loop *loop = *state;
	struct later l = { .defer.fn = on_later, .loop = loop, .stop = true };

	kv_loop_defer(loop, &l.defer);
	assert_int_equal(kv_loop_run(loop), 0);
	assert_int_equal(l.calls, 1);
	/* Stopped before it starts: it does not start. */
	kv_loop_stop(loop);
	assert_int_equal(kv_loop_run(loop), 0);
	kv_loop_defer(loop, &l.defer);
	assert_int_equal(kv_loop_run(loop), 0);
	assert_int_equal(l.calls, 2);
}

static uint64_t
cpu_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * KV_NS_PER_S + (uint64_t)ts.tv_nsec;
}

/* It stays awake after a short wait, but not for long, and not for ever. */
static void
a_wait_that_gets_long_is_slept_through(void **state)
{
	struct kv_loop *loop = *state;
	struct probe p;
	uint64_t before;
	int i;

	probe_open(&p, loop, 1);
	for (i = 0; i < 10; i++)
		assert_int_equal(kv_loop_turn(loop, UINT64_MAX), 1);
	assert_int_equal(kv_loop_io_mod(&p.io, 0), 0);
	before = cpu_ns();
	for (i = 0; i < 10; i++)
		kv_loop_turn(loop, kv_loop_refresh(loop) + 20 * KV_NS_PER_MS);
	assert_true(cpu_ns() - before < 20 * KV_NS_PER_MS);
	probe_close(&p);
}

int
main(void)
{
#define REAL(t) cmocka_unit_test_setup_teardown(t, new_real, free_real)
	const struct CMUnitTest tests[] = {
		REAL(level_triggered_until_it_is_read),
		REAL(an_event_of_this_turn_does_not_reach_what_was_deleted),
		REAL(storage_used_again_gets_no_stale_event),
		REAL(an_event_that_is_no_longer_wanted_is_dropped),
		REAL(without_interest_a_hangup_stays_silent),
		REAL(adding_what_cannot_be_polled_fails),
		REAL(many_descriptors_are_served_in_turn),
		cmocka_unit_test(timers_fire_in_order_of_time),
		cmocka_unit_test(a_timer_deleted_by_another_one_does_not_fire),
		REAL(a_timer_that_is_always_due_does_not_hold_the_turn),
		cmocka_unit_test(virtual_time_jumps_and_never_sleeps),
		REAL(a_real_timer_is_not_early),
		REAL(a_turn_ends_at_its_limit),
		REAL(what_is_deferred_by_a_deferred_call_waits_a_turn),
		REAL(a_deferred_call_can_take_another_one_back),
		REAL(run_ends_at_stop),
		REAL(a_wait_that_gets_long_is_slept_through),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
