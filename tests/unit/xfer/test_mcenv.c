#include "xfer/mcenv.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/attr.h"
#include "base/log.h"
#include "test.h"

static char said[1024];
static unsigned lines;

static void
on_log(void *arg, enum kv_log_level level, const char *msg)
{
	(void)arg;
	(void)level;
	lines++;
	snprintf(said, sizeof(said), "%s", msg);
}

static int
setup(void **state)
{
	(void)state;
	kv_log_set_sink(on_log, NULL);
	lines = 0;
	said[0] = '\0';
	return 0;
}

static int
teardown(void **state)
{
	(void)state;
	kv_log_set_sink(NULL, NULL);
	return 0;
}

static struct kv_mcenv
read_one(const char *entry)
{
	const char *const env[] = { "PATH=/bin", entry, "MC_NO=1", NULL };
	struct kv_mcenv m;

	kv_mcenv_read(&m, env);
	return m;
}

static void
defaults_are_good(void **state)
{
	struct kv_mcenv m;

	(void)state;
	kv_mcenv_read(&m, NULL);
	assert_int_equal(m.qps, 2);
	assert_int_equal(m.slice_bytes, 1 << 20);
	assert_int_equal(m.traffic_class, -1);
	assert_int_equal(m.service_level, -1);
	assert_int_equal(m.gid_index, -1);
	assert_int_equal(m.pkey_index, -1);
	assert_int_equal(m.mtu_bytes, 0);
	assert_int_equal(m.port, 0);
	assert_false(m.is_ordered);
	assert_false(m.is_tcp);
	assert_string_equal(m.devices, "");
	assert_int_equal(lines, 0);
}

static void
each_is_taken(void **state)
{
	(void)state;
	assert_int_equal(read_one("MC_NUM_QP_PER_EP=4").qps, 4);
	assert_int_equal(read_one("MC_SLICE_SIZE=2097152").slice_bytes,
			 2 << 20);
	assert_int_equal(read_one("MC_IB_TC=106").traffic_class, 106);
	assert_int_equal(read_one("MC_IB_SL=3").service_level, 3);
	assert_int_equal(read_one("MC_GID_INDEX=3").gid_index, 3);
	assert_int_equal(read_one("NCCL_IB_GID_INDEX=3").gid_index, 3);
	assert_int_equal(read_one("MC_PKEY_INDEX=1").pkey_index, 1);
	assert_int_equal(read_one("MC_MTU=1024").mtu_bytes, 1024);
	assert_int_equal(read_one("MC_IB_PORT=2").port, 2);
	assert_true(read_one("MC_IB_PCI_RELAXED_ORDERING=0").is_ordered);
	assert_false(read_one("MC_IB_PCI_RELAXED_ORDERING=2").is_ordered);
	assert_true(read_one("MC_FORCE_TCP=1").is_tcp);
	assert_true(read_one("MC_FORCE_TCP=true").is_tcp);
	assert_false(read_one("MC_FORCE_TCP=0").is_tcp);
	assert_false(read_one("MC_FORCE_TCP=").is_tcp);
	assert_string_equal(read_one("MC_MS_FILTERS=mlx5_0,mlx5_1").devices,
			    "mlx5_0,mlx5_1");
	assert_string_equal(read_one("MC_TE_FILTERS=mlx5_*").devices, "mlx5_*");
	assert_int_equal(lines, 0);
}

/* Their own default of slices is no wish. */
static void
a_default_written_down_is_none(void **state)
{
	(void)state;
	assert_int_equal(read_one("MC_SLICE_SIZE=65536").slice_bytes, 1 << 20);
	assert_int_equal(read_one("MC_GID_INDEX=-1").gid_index, -1);
	assert_int_equal(read_one("MC_IB_TC=-1").traffic_class, -1);
	assert_int_equal(read_one("MC_NUM_QP_PER_EP=").qps, 2);
	assert_int_equal(lines, 0);
}

static void
is_refused(const char *entry, const char *words)
{
	const struct kv_mcenv m = read_one(entry);

	assert_int_equal(lines, 1);
	assert_non_null(strstr(said, words));
	assert_int_equal(m.qps, 2);
	assert_int_equal(m.mtu_bytes, 0);
	assert_int_equal(m.slice_bytes, 1 << 20);
	lines = 0;
}

static void
nonsense_is_named_and_does_not_count(void **state)
{
	static char list[400] = "MC_TE_FILTERS=";

	(void)state;
	is_refused("MC_NUM_QP_PER_EP=0",
		   "MC_NUM_QP_PER_EP=0 is ignored: a number from 1 to 4");
	is_refused("MC_NUM_QP_PER_EP=256", "from 1 to 4");
	is_refused("MC_NUM_QP_PER_EP=-2", "from 1 to 4");
	is_refused("MC_NUM_QP_PER_EP=2x", "from 1 to 4");
	is_refused("MC_NUM_QP_PER_EP=99999999999999999999", "from 1 to 4");
	is_refused("MC_MTU=1500", "512, 1024, 2048 or 4096");
	is_refused("MC_SLICE_SIZE=1", "from 65536 to 1073741824");
	memset(list + strlen(list), 'x', 300);
	is_refused(list, "longer than");
}

/* In a process of its own: it is said once. */
static int
more_than_the_line_has_room_for(void)
{
	static char names[41][32];
	const char *env[KV_ARRAY_LEN(names) + 1] = { NULL };
	const char *end;

	setup(NULL);
	for (size_t i = 0; i < KV_ARRAY_LEN(names); i++) {
		snprintf(names[i], sizeof(names[i]), "MC_%018zu=1", i);
		env[i] = names[i];
	}
	kv_mcenv_warn(env);
	end = strstr(said, "000000000000000021 and 19 more");
	return lines == 1 && end && strlen(end) == 30 ? 0 : 1;
}

static void
names_beyond_the_line_are_counted(void **state)
{
	int status;
	pid_t pid = fork();

	(void)state;
	if (pid == 0)
		_exit(more_than_the_line_has_room_for());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void
those_without_meaning_are_named_once(void **state)
{
	const char *const env[] = { "HOME=/",
				    "MC_LOG_DIR=/tmp",
				    "MC_MTU=1024",
				    "MC_MS_AUTO_DISC=1",
				    "MC_USE_TENT=1",
				    "MC_GID_INDEXX=1",
				    NULL };

	(void)state;
	kv_mcenv_warn(env);
	assert_int_equal(lines, 1);
	assert_non_null(strstr(said, ": MC_LOG_DIR, MC_USE_TENT, "
				     "MC_GID_INDEXX"));
	assert_null(strstr(said, "MC_MTU"));
	kv_mcenv_warn(env);
	assert_int_equal(lines, 1);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(defaults_are_good),
		TEST(each_is_taken),
		TEST(a_default_written_down_is_none),
		TEST(nonsense_is_named_and_does_not_count),
		TEST(names_beyond_the_line_are_counted),
		TEST(those_without_meaning_are_named_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
