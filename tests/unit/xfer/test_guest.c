#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/limits.h"
#include "test.h"
#include "xfer/fence.h"
#include "xfer/guest.h"

static struct kv_guest_set set;

struct visitor {
	struct kv_guest *guest;
	struct kv_fence *fence; /* as its process maps it */
};

static uint64_t
in_ms(unsigned ms)
{
	const struct kv_clock clock = { 0 };

	return kv_clock_now(&clock) + ms * KV_NS_PER_MS;
}

static int
pidfd_of(pid_t pid)
{
	int fd = (int)syscall(SYS_pidfd_open, pid, 0);

	assert_true(fd >= 0);
	return fd;
}

static void
add(struct visitor *v, pid_t pid)
{
	int pidfd = pidfd_of(pid), fd;

	assert_int_equal(kv_guest_add(&set, pidfd, &v->guest, &fd), 0);
	v->fence = mmap(NULL, KV_FENCE_BYTES, PROT_READ | PROT_WRITE,
			MAP_SHARED, fd, 0);
	assert_ptr_not_equal(v->fence, MAP_FAILED);
	close(pidfd);
}

static int
set_up(void **state)
{
	(void)state;
	kv_guest_init(&set);
	return 0;
}

static int
tear_down(void **state)
{
	(void)state;
	kv_guest_fini(&set);
	return 0;
}

static void
nobody_is_not_waited_for(void **state)
{
	uint64_t epoch = kv_guest_epoch(&set);

	(void)state;
	assert_int_equal(kv_guest_flip(&set, in_ms(0)), 0);
	assert_int_equal(kv_guest_epoch(&set), epoch + 1);
}

static void
an_old_table_is_not_used_after_a_flip(void **state)
{
	struct visitor v;
	uint64_t epoch = kv_guest_epoch(&set);
	int side;

	(void)state;
	add(&v, getpid());
	side = kv_fence_enter(v.fence, epoch);
	assert_true(side >= 0);
	kv_fence_leave(v.fence, side);
	assert_int_equal(kv_guest_flip(&set, in_ms(0)), 0);
	assert_int_equal(kv_fence_enter(v.fence, epoch), -EAGAIN);
	assert_int_equal(v.fence->users[0], 0);
	assert_int_equal(v.fence->users[1], 0);
	assert_true(kv_fence_enter(v.fence, epoch + 1) >= 0);
	munmap(v.fence, KV_FENCE_BYTES);
}

static void
who_is_inside_is_waited_for(void **state)
{
	struct visitor v;
	uint64_t epoch = kv_guest_epoch(&set);
	int side;

	(void)state;
	add(&v, getpid());
	side = kv_fence_enter(v.fence, epoch);
	assert_int_equal(kv_guest_flip(&set, in_ms(20)), -ETIMEDOUT);
	/* Not even those who came later are taken for those before. */
	assert_true(kv_fence_enter(v.fence, epoch + 1) >= 0);
	assert_int_equal(kv_guest_flip(&set, in_ms(20)), -ETIMEDOUT);
	kv_fence_leave(v.fence, side);
	assert_int_equal(kv_guest_flip(&set, in_ms(20)), -ETIMEDOUT);
	kv_fence_leave(v.fence, (int)((epoch + 1) & 1));
	assert_int_equal(kv_guest_flip(&set, in_ms(0)), 0);
	munmap(v.fence, KV_FENCE_BYTES);
}

static void *
flip(void *arg)
{
	*(int *)arg = kv_guest_flip(&set, in_ms(10000));
	return NULL;
}

static void
new_ones_do_not_prolong_the_wait(void **state)
{
	uint64_t epoch = kv_guest_epoch(&set);
	struct visitor v;
	pthread_t thread;
	int side, rc = 1;

	(void)state;
	add(&v, getpid());
	side = kv_fence_enter(v.fence, epoch);
	assert_int_equal(pthread_create(&thread, NULL, flip, &rc), 0);
	while (kv_fence_enter(v.fence, epoch + 1) < 0)
		usleep(100);
	kv_fence_leave(v.fence, side);
	pthread_join(thread, NULL);
	assert_int_equal(rc, 0);
	assert_int_equal(v.fence->users[(epoch + 1) & 1], 1);
	munmap(v.fence, KV_FENCE_BYTES);
}

static void
who_left_is_not_waited_for(void **state)
{
	struct visitor v;

	(void)state;
	add(&v, getpid());
	assert_true(kv_fence_enter(v.fence, kv_guest_epoch(&set)) >= 0);
	kv_guest_let_go(&set, v.guest);
	assert_int_equal(set.n, 1); /* its connection ended, it did not */
	assert_int_equal(kv_guest_flip(&set, in_ms(20)), -ETIMEDOUT);
	atomic_store(&v.fence->left, 1);
	assert_int_equal(kv_guest_flip(&set, in_ms(0)), 0);
	add(&v, getpid()); /* sweeps */
	assert_int_equal(set.n, 1);
}

static void
who_died_inside_is_not_waited_for(void **state)
{
	struct visitor v;
	pid_t pid = fork();

	(void)state;
	if (pid == 0) {
		pause();
		_exit(0);
	}
	add(&v, pid);
	assert_true(kv_fence_enter(v.fence, kv_guest_epoch(&set)) >= 0);
	kill(pid, SIGSTOP);
	assert_int_equal(kv_guest_flip(&set, in_ms(20)), -ETIMEDOUT);
	kill(pid, SIGKILL);
	assert_int_equal(kv_guest_flip(&set, in_ms(5000)), 0);
	kv_guest_let_go(&set, v.guest);
	assert_int_equal(set.n, 0);
	waitpid(pid, NULL, 0);
	munmap(v.fence, KV_FENCE_BYTES);
}

static void
there_is_a_bound(void **state)
{
	struct kv_guest *g;
	int pidfd = pidfd_of(getpid()), fd;

	(void)state;
	for (int i = 0; i < KV_ENGINE_GUESTS_MAX; i++)
		if (kv_guest_add(&set, pidfd, &g, &fd)) {
			assert_int_equal(errno, EMFILE);
			close(pidfd);
			return;
		}
	assert_int_equal(kv_guest_add(&set, pidfd, &g, &fd), -EBUSY);
	close(pidfd);
}

/*
 * A cell that is written through the fence, and taken away by flips. After a
 * flip nobody writes by a table from before it.
 */
static struct visitor shared;
static _Atomic uint64_t table;  /* epoch of the table that visitors have */
static _Atomic uint64_t banned; /* tables up to it must not be used */
static atomic_bool over;
static atomic_uint broken, entered;

static void *
visit(void *arg)
{
	(void)arg;
	while (!atomic_load(&over)) {
		uint64_t epoch = atomic_load(&table);
		int side = kv_fence_enter(shared.fence, epoch);

		if (side < 0) {
			atomic_store(&table, kv_guest_epoch(&set));
			continue;
		}
		if (epoch < atomic_load(&banned))
			atomic_fetch_add(&broken, 1);
		atomic_fetch_add(&entered, 1);
		kv_fence_leave(shared.fence, side);
	}
	return NULL;
}

static void
a_flip_is_a_fence_for_many_threads(void **state)
{
	pthread_t threads[3];

	(void)state;
	add(&shared, getpid());
	for (int i = 0; i < 3; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, visit, NULL),
				 0);
	for (int i = 0; i < 300; i++) {
		assert_int_equal(kv_guest_flip(&set, in_ms(20000)), 0);
		atomic_store(&banned, kv_guest_epoch(&set));
		usleep(100);
	}
	atomic_store(&over, true);
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(broken, 0);
	assert_true(entered > 0);
	munmap(shared.fence, KV_FENCE_BYTES);
}

#define WITH_SET(fn) cmocka_unit_test_setup_teardown(fn, set_up, tear_down)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_SET(nobody_is_not_waited_for),
		WITH_SET(an_old_table_is_not_used_after_a_flip),
		WITH_SET(who_is_inside_is_waited_for),
		WITH_SET(new_ones_do_not_prolong_the_wait),
		WITH_SET(who_left_is_not_waited_for),
		WITH_SET(who_died_inside_is_not_waited_for),
		WITH_SET(there_is_a_bound),
		WITH_SET(a_flip_is_a_fence_for_many_threads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
