#include "event/worker.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/attr.h"

#include "test.h"

/* What the worker's thread saw of itself. */
struct view {
	struct kv_mail mail;
	struct kv_worker *worker;
	pthread_t thread;
	char name[16];
	sigset_t mask;
	cpu_set_t cpus;
	int order;
};

static int count; /* of the one worker under test, read after join */

static void
look(struct view *v)
{
	v->thread = pthread_self();
	pthread_getname_np(pthread_self(), v->name, sizeof(v->name));
	pthread_sigmask(SIG_BLOCK, NULL, &v->mask);
	pthread_getaffinity_np(pthread_self(), sizeof(v->cpus), &v->cpus);
	v->order = ++count;
}

static int
on_init(struct kv_worker *w, void *arg)
{
	struct view *v = arg;

	v->worker = w;
	look(v);
	return 0;
}

static int
fail_init(struct kv_worker *w, void *arg)
{
	(void)w;
	(void)arg;
	return -ENODEV;
}

static void
on_mail(struct kv_mail *mail)
{
	look(KV_CONTAINER_OF(mail, struct view, mail));
}

static void
runs_mail_on_a_thread_of_its_own(void **state)
{
	struct view init = { 0 }, mail = { .mail.fn = on_mail };
	struct kv_worker *w;

	(void)state;
	count = 0;
	w = kv_worker_start("mover-with-a-long-name", KV_WORKER_NO_CPU, on_init,
			    &init);
	assert_non_null(w);
	assert_ptr_equal(init.worker, w);
	assert_non_null(kv_worker_loop(w));
	kv_mbox_post(kv_worker_mbox(w), &mail.mail);
	kv_worker_stop(w);
	kv_worker_join(w);
	assert_int_equal(init.order, 1);
	assert_int_equal(mail.order, 2);
	assert_string_equal(mail.name, "mover-with-a-lo");
	assert_true(pthread_equal(init.thread, mail.thread));
	assert_false(pthread_equal(init.thread, pthread_self()));
	assert_true(sigismember(&mail.mask, SIGTERM));
	assert_true(sigismember(&mail.mask, SIGINT));
	assert_false(sigismember(&mail.mask, SIGSEGV));
}

static void
leaves_the_signals_of_the_starter_alone(void **state)
{
	struct kv_worker *w;
	sigset_t mask;

	(void)state;
	w = kv_worker_start("w", KV_WORKER_NO_CPU, NULL, NULL);
	assert_non_null(w);
	pthread_sigmask(SIG_BLOCK, NULL, &mask);
	assert_false(sigismember(&mask, SIGTERM));
	kv_worker_stop(w);
	kv_worker_join(w);
}

static void
can_be_pinned(void **state)
{
	struct view init = { 0 };
	struct kv_worker *w;
	cpu_set_t cpus;
	int cpu = 0;

	(void)state;
	sched_getaffinity(0, sizeof(cpus), &cpus);
	while (!CPU_ISSET(cpu, &cpus))
		cpu++;
	w = kv_worker_start("w", cpu, on_init, &init);
	assert_non_null(w);
	kv_worker_stop(w);
	kv_worker_join(w);
	assert_int_equal(CPU_COUNT(&init.cpus), 1);
	assert_true(CPU_ISSET(cpu, &init.cpus));
}

static void
a_processor_that_is_not_there_is_refused(void **state)
{
	(void)state;
	errno = 0;
	assert_null(kv_worker_start("w", CPU_SETSIZE + 1, NULL, NULL));
	assert_int_equal(errno, EINVAL);
}

static void
init_may_refuse(void **state)
{
	(void)state;
	errno = 0;
	assert_null(kv_worker_start("w", KV_WORKER_NO_CPU, fail_init, NULL));
	assert_int_equal(errno, ENODEV);
}

static void
a_missing_thread_is_told_in_words(void **state)
{
	(void)state;
	assert_non_null(strstr(kv_worker_error_text(-EAGAIN), "thread"));
	assert_non_null(strstr(kv_worker_error_text(-EAGAIN), "ulimit"));
	assert_string_equal(kv_worker_error_text(-EMFILE),
			    "Too many open files");
	assert_string_equal(kv_worker_error_text(-99999), "unknown error");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(runs_mail_on_a_thread_of_its_own),
		cmocka_unit_test(leaves_the_signals_of_the_starter_alone),
		cmocka_unit_test(can_be_pinned),
		cmocka_unit_test(a_processor_that_is_not_there_is_refused),
		cmocka_unit_test(init_may_refuse),
		cmocka_unit_test(a_missing_thread_is_told_in_words),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
