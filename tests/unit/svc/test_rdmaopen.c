/* What a process is to have of RDMA, on a machine that may have none. */

#include "svc/rdmaopen.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "madetree.h"
#include "test.h"
#include "xfer/rdma.h"

/* No device has it. */
#define NOBODY "no_such_device"

static unsigned lines[KV_LOG_DEBUG + 1];
static char logged[1024];
static struct kv_rdma *rdma;
static char err[512];

static void
on_log(void *arg, enum kv_log_level level, const char *msg)
{
	(void)arg;
	lines[level]++;
	snprintf(logged, sizeof(logged), "%s", msg);
}

static int
setup(void **state)
{
	(void)state;
	memset(lines, 0, sizeof(lines));
	logged[0] = err[0] = '\0';
	kv_log_set_level(KV_LOG_DEBUG);
	kv_log_set_sink(on_log, NULL);
	return 0;
}

static int
teardown(void **state)
{
	(void)state;
	kv_rdma_close(rdma);
	rdma = NULL;
	kv_log_set_sink(NULL, NULL);
	return 0;
}

static int
open_as(enum kv_protocol protocol, const char *devices)
{
	const struct kv_rdmaopen_opts o = { .protocol = protocol,
					    .devices = devices };

	return kv_rdmaopen(&o, &rdma, err, sizeof(err));
}

static void
who_wants_tcp_does_not_look(void **state)
{
	(void)state;
	assert_int_equal(open_as(KV_PROTOCOL_TCP, NOBODY), 0);
	assert_null(rdma);
	assert_string_equal(logged, "");
}

static void
who_must_have_it_is_told_why_not(void **state)
{
	(void)state;
	assert_true(open_as(KV_PROTOCOL_RDMA, NOBODY) < 0);
	assert_null(rdma);
	assert_memory_equal(err, "no RDMA: ", 9);
	assert_true(strlen(err) > 20);
}

static void
who_names_a_device_is_warned(void **state)
{
	(void)state;
	assert_int_equal(open_as(KV_PROTOCOL_AUTO, NOBODY), 0);
	assert_null(rdma);
	assert_true(lines[KV_LOG_WARN] >= 1);
	assert_non_null(strstr(logged, "values go by TCP: "));
}

static void
who_would_have_it_is_warned(void **state)
{
	(void)state;
	assert_int_equal(open_as(KV_PROTOCOL_RDMA_OR_TCP, ""), 0);
	if (rdma)
		skip(); /* this machine has it */
	assert_int_equal(lines[KV_LOG_WARN], 1);
}

static void
where_there_is_none_nothing_is_said(void **state)
{
	(void)state;
	assert_int_equal(open_as(KV_PROTOCOL_AUTO, NULL), 0);
	if (rdma || lines[KV_LOG_INFO])
		skip(); /* this machine has a device */
	assert_int_equal(lines[KV_LOG_WARN], 0);
	assert_int_equal(lines[KV_LOG_DEBUG], 1);
}

static char root[MADETREE_BYTES];

static int
tree_setup(void **state)
{
	madetree_new(root);
	return setup(state);
}

static int
tree_teardown(void **state)
{
	unsetenv("MC_FORCE_TCP");
	unsetenv("MC_TE_FILTERS");
	madetree_free(root);
	return teardown(state);
}

static void
open_under_root(void)
{
	const struct kv_rdmaopen_opts o = { .root = root };

	memset(lines, 0, sizeof(lines));
	assert_int_equal(kv_rdmaopen(&o, &rdma, err, sizeof(err)), 0);
	assert_null(rdma);
	assert_non_null(strstr(logged, "no RDMA, values go by TCP: "));
}

/* It has no verbs, or the libraries are not here. */
static void
a_device_that_cannot_be_used_is_spoken_of(void **state)
{
	(void)state;
	open_under_root();
	assert_int_equal(lines[KV_LOG_DEBUG], 1);
	madetree_put(root, "/sys/class/infiniband/mlx5_0/x", "x");
	open_under_root();
	assert_int_equal(lines[KV_LOG_INFO], 1);
	assert_int_equal(lines[KV_LOG_DEBUG], 0);
}

static void
what_the_environment_forbids_is_spoken_of(void **state)
{
	(void)state;
	setenv("MC_TE_FILTERS", "mlx5_9", 1);
	open_under_root();
	assert_int_equal(lines[KV_LOG_WARN], 1);
	setenv("MC_FORCE_TCP", "1", 1);
	open_under_root();
	assert_int_equal(lines[KV_LOG_INFO], 1);
	assert_non_null(strstr(logged, "MC_FORCE_TCP is set"));
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		T(who_wants_tcp_does_not_look),
		T(who_must_have_it_is_told_why_not),
		T(who_names_a_device_is_warned),
		T(who_would_have_it_is_warned),
		T(where_there_is_none_nothing_is_said),
		cmocka_unit_test_setup_teardown(
			a_device_that_cannot_be_used_is_spoken_of, tree_setup,
			tree_teardown),
		cmocka_unit_test_setup_teardown(
			what_the_environment_forbids_is_spoken_of, tree_setup,
			tree_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
