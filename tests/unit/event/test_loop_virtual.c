/* Descriptors in a loop on a virtual clock: ready when it is said so. */

#include "event/loop.h"

#include <sys/epoll.h>

#include "base/attr.h"

#include "test.h"

enum {
	FD = 7,
	OTHER_FD = 8,
};

struct rig {
	struct kv_clock clock;
	struct kv_loop *loop;
};

struct probe {
	struct kv_io io;
	int calls;
	uint32_t ready;
	struct probe *victim; /* deleted by the next call */
	int quiet_fd;         /* by the next call no more ready; 0: none */
};

static void
on_probe(struct kv_io *io, uint32_t ready)
{
	struct probe *p = KV_CONTAINER_OF(io, struct probe, io);

	p->calls++;
	p->ready = ready;
	if (p->victim)
		kv_loop_io_del(&p->victim->io);
	if (p->quiet_fd)
		kv_loop_io_ready(io->loop, p->quiet_fd, 0);
}

static void
add(struct rig *r, struct probe *p, int fd, uint32_t events)
{
	*p = (struct probe){ .io.fn = on_probe };
	assert_int_equal(kv_loop_io_add(r->loop, &p->io, fd, events), 0);
}

static int
setup(void **state)
{
	static struct rig rig;

	rig = (struct rig){ .clock = { .is_virtual = true, .ns = 1000 } };
	rig.loop = kv_loop_new(&rig.clock);
	*state = &rig;
	return rig.loop ? 0 : -1;
}

static int
teardown(void **state)
{
	struct rig *r = *state;

	kv_loop_free(r->loop);
	return 0;
}

static void
ready_until_it_is_said_not_to_be(void **state)
{
	struct rig *r = *state;
	struct probe p;

	add(r, &p, FD, EPOLLIN);
	assert_int_equal(kv_loop_next(r->loop), UINT64_MAX);
	assert_int_equal(kv_loop_turn(r->loop, 0), 0);
	kv_loop_io_ready(r->loop, FD, EPOLLIN | EPOLLOUT);
	assert_int_equal(p.calls, 0);
	for (int i = 1; i <= 3; i++) {
		assert_int_equal(kv_loop_next(r->loop), 1000);
		assert_int_equal(kv_loop_turn(r->loop, 0), 1);
		assert_int_equal(p.calls, i);
		assert_int_equal(p.ready, EPOLLIN);
	}
	kv_loop_io_ready(r->loop, FD, EPOLLOUT);
	assert_int_equal(kv_loop_next(r->loop), UINT64_MAX);
	assert_int_equal(kv_loop_turn(r->loop, 0), 0);
	kv_loop_io_del(&p.io);
	kv_loop_io_del(&p.io);
}

static void
what_was_ready_before_it_came_is_told(void **state)
{
	struct rig *r = *state;
	struct probe a, b;

	kv_loop_io_ready(r->loop, OTHER_FD, EPOLLIN);
	assert_int_equal(kv_loop_next(r->loop), UINT64_MAX);
	add(r, &a, FD, EPOLLIN);
	add(r, &b, OTHER_FD, EPOLLIN);
	assert_int_equal(kv_loop_turn(r->loop, 0), 1);
	assert_int_equal(a.calls, 0);
	assert_int_equal(b.calls, 1);
	/* And again after it was away, as long as nobody says otherwise. */
	kv_loop_io_del(&b.io);
	assert_int_equal(kv_loop_turn(r->loop, 0), 0);
	add(r, &b, OTHER_FD, EPOLLIN);
	assert_int_equal(kv_loop_turn(r->loop, 0), 1);
	kv_loop_io_del(&b.io);
	kv_loop_io_ready(r->loop, OTHER_FD, 0);
	add(r, &b, OTHER_FD, EPOLLIN);
	assert_int_equal(kv_loop_turn(r->loop, 0), 0);
	kv_loop_io_del(&a.io);
	kv_loop_io_del(&b.io);
}

static void
only_what_is_wanted_comes(void **state)
{
	struct rig *r = *state;
	struct probe p;

	add(r, &p, FD, EPOLLIN);
	kv_loop_io_ready(r->loop, FD, EPOLLOUT);
	assert_int_equal(kv_loop_turn(r->loop, 0), 0);
	assert_int_equal(kv_loop_io_mod(&p.io, EPOLLOUT), 0);
	assert_int_equal(kv_loop_next(r->loop), 1000);
	assert_int_equal(kv_loop_turn(r->loop, 0), 1);
	assert_int_equal(p.ready, EPOLLOUT);
	/* Errors come unasked, but not to those who want nothing. */
	kv_loop_io_ready(r->loop, FD, EPOLLHUP);
	assert_int_equal(kv_loop_turn(r->loop, 0), 1);
	assert_int_equal(p.ready, EPOLLHUP);
	assert_int_equal(kv_loop_io_mod(&p.io, 0), 0);
	assert_int_equal(kv_loop_next(r->loop), UINT64_MAX);
	assert_int_equal(kv_loop_turn(r->loop, 0), 0);
	kv_loop_io_del(&p.io);
}

static void
a_callback_takes_others_out_of_the_turn(void **state)
{
	struct rig *r = *state;
	struct probe a, b;

	add(r, &a, FD, EPOLLIN);
	add(r, &b, OTHER_FD, EPOLLIN);
	kv_loop_io_ready(r->loop, FD, EPOLLIN);
	kv_loop_io_ready(r->loop, OTHER_FD, EPOLLIN);
	a.quiet_fd = OTHER_FD;
	assert_int_equal(kv_loop_turn(r->loop, 0), 1);
	assert_int_equal(b.calls, 0);
	a.quiet_fd = 0;
	a.victim = &b;
	kv_loop_io_ready(r->loop, OTHER_FD, EPOLLIN);
	assert_int_equal(kv_loop_turn(r->loop, 0), 1);
	assert_int_equal(b.calls, 0);
	kv_loop_io_del(&a.io);
}

static void
many_descriptors_are_served_in_turn(void **state)
{
	enum {
		N = 200
	};
	struct rig *r = *state;
	static struct probe p[N];

	for (int i = 0; i < N; i++) {
		add(r, &p[i], FD + i, EPOLLIN);
		kv_loop_io_ready(r->loop, FD + i, EPOLLIN);
	}
	for (int i = 0; i < 4; i++)
		assert_int_equal(kv_loop_turn(r->loop, 0), 64);
	for (int i = 0; i < N; i++) {
		assert_in_range(p[i].calls, 1, 2);
		kv_loop_io_del(&p[i].io);
	}
}

int
main(void)
{
#define RIG(t) cmocka_unit_test_setup_teardown(t, setup, teardown)
	const struct CMUnitTest tests[] = {
		RIG(ready_until_it_is_said_not_to_be),
		RIG(what_was_ready_before_it_came_is_told),
		RIG(only_what_is_wanted_comes),
		RIG(a_callback_takes_others_out_of_the_turn),
		RIG(many_descriptors_are_served_in_turn),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
