#include "base/thread.h"

#include <sched.h>
#include <signal.h>
#include <stdbool.h>

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

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_handler_runs_there),
		cmocka_unit_test(one_cpu),
		cmocka_unit_test(fails),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
