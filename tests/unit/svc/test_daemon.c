#include "svc/daemon.h"

#include <errno.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/attr.h"
#include "base/log.h"

#include "test.h"

struct core {
	struct kv_daemon base;
	struct kv_defer drained;
	int stops;
	int stops_wanted; /* so many signals end it */
};

static void
drained(struct kv_defer *d)
{
	kv_daemon_done(&KV_CONTAINER_OF(d, struct core, drained)->base);
}

static void
stop(struct kv_daemon *base)
{
	struct core *c = KV_CONTAINER_OF(base, struct core, base);

	if (++c->stops < c->stops_wanted)
		return;
	c->drained.fn = drained;
	kv_loop_defer(base->loop, &c->drained);
}

static void
a_signal_begins_the_end(void **state)
{
	static const int signals[] = { SIGTERM, SIGINT };

	(void)state;
	for (size_t i = 0; i < KV_ARRAY_LEN(signals); i++) {
		struct core c = { .stops_wanted = 1 };

		assert_int_equal(kv_daemon_init(&c.base, stop), 0);
		kill(getpid(), signals[i]);
		assert_int_equal(kv_loop_run(c.base.loop), 0);
		assert_int_equal(c.stops, 1);
		kv_daemon_fini(&c.base);
	}
}

static void
a_second_one_is_told_too(void **state)
{
	struct core c = { .stops_wanted = 2 };

	(void)state;
	assert_int_equal(kv_daemon_init(&c.base, stop), 0);
	kill(getpid(), SIGTERM);
	kill(getpid(), SIGINT);
	assert_int_equal(kv_loop_run(c.base.loop), 0);
	assert_int_equal(c.stops, 2);
	kv_daemon_fini(&c.base);
}

static void
others_end_nothing(void **state)
{
	struct core c = { .stops_wanted = 1 };

	(void)state;
	assert_int_equal(kv_daemon_init(&c.base, stop), 0);
	kill(getpid(), SIGHUP);
	kill(getpid(), SIGPIPE);
	for (int i = 0; i < 4; i++)
		assert_true(
			kv_loop_turn(c.base.loop, kv_loop_refresh(c.base.loop) +
							  KV_NS_PER_MS) >= 0);
	assert_int_equal(c.stops, 0);
	kv_daemon_fini(&c.base);
}

static void
count_line(void *lines, enum kv_log_level level, const char *msg)
{
	(void)level;
	assert_memory_equal(msg, "cannot start: ", 14);
	++*(int *)lines;
}

/* First the loop has none, then the signals have none. */
static void
without_descriptors_it_does_not_start(void **state)
{
	struct rlimit before, few;
	struct core c = { 0 };
	int rc = -EMFILE, lines = 0, told = 0;

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	few = before;
	kv_log_set_sink(count_line, &lines);
	for (few.rlim_cur = 0; rc < 0; few.rlim_cur++, told++) {
		assert_int_equal(rc, -EMFILE);
		assert_int_equal(lines, told);
		assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
		rc = kv_daemon_init(&c.base, stop);
		assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	}
	kv_log_set_sink(NULL, NULL);
	assert_in_range(lines, 2, 1000);
	kv_daemon_fini(&c.base);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_signal_begins_the_end),
		cmocka_unit_test(a_second_one_is_told_too),
		cmocka_unit_test(others_end_nothing),
		cmocka_unit_test(without_descriptors_it_does_not_start),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
