#include "event/sig.h"

#include <errno.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/attr.h"

#include "test.h"

struct catcher {
	struct kv_sig sig;
	struct kv_loop *loop;
	int count[NSIG];
	bool end_inside;
};

static void
on_signal(struct kv_sig *sig, int signo)
{
	struct catcher *c = KV_CONTAINER_OF(sig, struct catcher, sig);

	c->count[signo]++;
	if (c->end_inside)
		kv_sig_fini(sig);
}

static void
catcher_open(struct catcher *c)
{
	sigset_t set;

	*c = (struct catcher){ .loop = kv_loop_new(NULL) };
	assert_non_null(c->loop);
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGHUP);
	assert_int_equal(kv_sig_init(&c->sig, c->loop, &set, on_signal), 0);
}

static bool
is_blocked(int signo)
{
	sigset_t mask;

	pthread_sigmask(SIG_BLOCK, NULL, &mask);
	return sigismember(&mask, signo) == 1;
}

static void *
kill_from_thread(void *arg)
{
	(void)arg;
	assert_true(is_blocked(SIGTERM));
	kill(getpid(), SIGTERM);
	return NULL;
}

static void
signals_are_events(void **state)
{
	struct catcher c;

	(void)state;
	catcher_open(&c);
	assert_int_equal(kv_loop_turn(c.loop, 0), 0);
	raise(SIGTERM);
	raise(SIGHUP);
	assert_int_equal(c.count[SIGTERM], 0);
	while (kv_loop_turn(c.loop, 0) > 0)
		;
	assert_int_equal(c.count[SIGTERM], 1);
	assert_int_equal(c.count[SIGHUP], 1);
	kv_sig_fini(&c.sig);
	kv_loop_free(c.loop);
}

static void
a_thread_started_later_does_not_take_them(void **state)
{
	struct catcher c;
	pthread_t thread;

	(void)state;
	catcher_open(&c);
	assert_int_equal(pthread_create(&thread, NULL, kill_from_thread, NULL),
			 0);
	pthread_join(thread, NULL);
	assert_int_equal(kv_loop_turn(c.loop, UINT64_MAX), 1);
	assert_int_equal(c.count[SIGTERM], 1);
	kv_sig_fini(&c.sig);
	kv_loop_free(c.loop);
}

static void
fini_restores_the_mask_and_forgets(void **state)
{
	struct catcher c;

	(void)state;
	assert_false(is_blocked(SIGTERM));
	catcher_open(&c);
	assert_true(is_blocked(SIGTERM));
	assert_false(is_blocked(SIGUSR1));
	/* Unblocked with this pending, the process would die. */
	raise(SIGTERM);
	kv_sig_fini(&c.sig);
	assert_false(is_blocked(SIGTERM));
	kv_loop_free(c.loop);
}

static void
the_callback_may_end_it(void **state)
{
	struct catcher c;

	(void)state;
	catcher_open(&c);
	c.end_inside = true;
	raise(SIGTERM);
	raise(SIGHUP);
	assert_int_equal(kv_loop_turn(c.loop, 0), 1);
	assert_int_equal(c.count[SIGTERM] + c.count[SIGHUP], 1);
	kv_loop_free(c.loop);
}

static void
a_failure_leaves_the_mask_alone(void **state)
{
	struct rlimit limit, none = { 0 };
	struct kv_loop *loop = kv_loop_new(NULL);
	struct kv_sig sig;
	sigset_t set;
	int err;

	(void)state;
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	getrlimit(RLIMIT_NOFILE, &limit);
	none.rlim_max = limit.rlim_max;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	err = kv_sig_init(&sig, loop, &set, on_signal);
	setrlimit(RLIMIT_NOFILE, &limit);
	assert_int_equal(err, -EMFILE);
	assert_false(is_blocked(SIGTERM));
	kv_loop_free(loop);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(signals_are_events),
		cmocka_unit_test(a_thread_started_later_does_not_take_them),
		cmocka_unit_test(fini_restores_the_mask_and_forgets),
		cmocka_unit_test(the_callback_may_end_it),
		cmocka_unit_test(a_failure_leaves_the_mask_alone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
