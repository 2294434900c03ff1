#include "base/thread.h"

#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "test.h"

struct seen {
	sigset_t mask;
	cpu_set_t cpus;
};

static void *
look(void *arg)
{
	struct seen *s = arg;

	pthread_sigmask(SIG_BLOCK, NULL, &s->mask);
	sched_getaffinity(0, sizeof(s->cpus), &s->cpus);
	return arg;
}

static void
run(int cpu, struct seen *s)
{
	pthread_t t;
	void *result;

	assert_int_equal(kv_thread_start(&t, cpu, look, s), 0);
	assert_int_equal(pthread_join(t, &result), 0);
	assert_ptr_equal(result, s);
}

static void
no_handler_runs_there(void **state)
{
	sigset_t own;
	struct seen s;

	(void)state;
	run(KV_THREAD_ANY_CPU, &s);
	assert_true(sigismember(&s.mask, SIGINT));
	assert_true(sigismember(&s.mask, SIGTERM));
	assert_true(sigismember(&s.mask, SIGUSR1));
	assert_false(sigismember(&s.mask, SIGSEGV));
	assert_false(sigismember(&s.mask, SIGBUS));
	/* Nothing changes here. */
	pthread_sigmask(SIG_BLOCK, NULL, &own);
	assert_false(sigismember(&own, SIGINT));
}

static void
one_cpu(void **state)
{
	cpu_set_t all;
	struct seen s;
	int cpu = 0;

	(void)state;
	assert_int_equal(sched_getaffinity(0, sizeof(all), &all), 0);
	while (!CPU_ISSET((size_t)cpu, &all))
		cpu++;
	run(cpu, &s);
	assert_int_equal(CPU_COUNT(&s.cpus), 1);
	assert_true(CPU_ISSET((size_t)cpu, &s.cpus));
	run(KV_THREAD_ANY_CPU, &s);
	assert_true(CPU_EQUAL(&s.cpus, &all));
}

static void
fails(void **state)
{
	struct seen s;
	pthread_t t;

	(void)state;
	/* There is no such CPU. */
	assert_true(kv_thread_start(&t, CPU_SETSIZE - 1, look, &s) < 0);
}

/* As the kernel has it. */
struct attr {
	uint32_t size, policy;
	uint64_t flags;
	int32_t nice;
	uint32_t priority;
	uint64_t runtime, deadline, period;
};

struct soon {
	int policy;
	struct attr before, after;
};

static void *
run_soon(void *arg)
{
	struct sched_param none = { .sched_priority = 0 };
	struct soon *s = arg;

	pthread_setschedparam(pthread_self(), s->policy, &none);
	syscall(SYS_sched_getattr, 0, &s->before, sizeof(s->before), 0);
	kv_thread_run_soon();
	syscall(SYS_sched_getattr, 0, &s->after, sizeof(s->after), 0);
	return arg;
}

static void
run_soon_under(int policy, struct soon *s)
{
	pthread_t t;

	memset(s, 0, sizeof(*s));
	s->policy = policy;
	assert_int_equal(kv_thread_start(&t, KV_THREAD_ANY_CPU, run_soon, s),
			 0);
	assert_int_equal(pthread_join(t, NULL), 0);
	assert_int_equal(s->before.policy, policy);
	assert_int_equal(s->after.policy, policy);
	assert_int_equal(s->after.nice, s->before.nice);
}

/* Older kernels have no slices: it stays 0 there. */
static void
a_slice_gets_short_and_nothing_else_changes(void **state)
{
	struct soon s;

	(void)state;
	run_soon_under(SCHED_OTHER, &s);
	if (s.before.runtime > 0)
		assert_int_equal(s.after.runtime, 100000);
	else
		assert_int_equal(s.after.runtime, 0);
	run_soon_under(SCHED_BATCH, &s);
	assert_memory_equal(&s.after, &s.before, sizeof(s.after));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_handler_runs_there),
		cmocka_unit_test(one_cpu),
		cmocka_unit_test(fails),
		cmocka_unit_test(a_slice_gets_short_and_nothing_else_changes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
