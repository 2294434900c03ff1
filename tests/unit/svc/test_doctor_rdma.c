/* What kvdiag doctor says of RDMA devices, and of memory that they want locked.
 */
#include "svc/doctor.h"

#include <string.h>

#include "madetree.h"
#include "test.h"

#define MIB (UINT64_C(1) << 20)

static char root[MADETREE_BYTES];

static int
setup(void **state)
{
	(void)state;
	madetree_new(root);
	madetree_put(
		root, "/proc/self/limits",
		"Max locked memory         65536         65536    bytes\n");
	return 0;
}

static int
teardown(void **state)
{
	(void)state;
	madetree_free(root);
	return 0;
}

/* The facts of the last findings, each in a line of "level check: fact". */
static char told[4096];

static void
write_down(void *arg, const struct kv_doctor_finding *f)
{
	size_t at = strlen(told);

	(void)arg;
	assert_int_equal(*f->advice != '\0', f->level != KV_DOCTOR_OK);
	snprintf(told + at, sizeof(told) - at, "%s %s: %s; %s\n",
		 kv_doctor_word(f->level), f->check, f->fact, f->advice);
}

static void
tells(struct kv_doctor_host *h, const char *what)
{
	struct kv_doctor d = { .tell = write_down };

	*told = '\0';
	kv_doctor_host(&d, h);
	if (!strstr(told, what))
		fail_msg("no \"%s\" in:\n%s", what, told);
}

static void
rdma_devices_are_judged(void **state)
{
	struct kv_rdmadev ports[] = {
		{ .name = "mlx5_0",
		  .port = 1,
		  .is_wanted = true,
		  .is_usable = true },
		{ .name = "mlx5_0",
		  .port = 2,
		  .is_wanted = true,
		  .why = "port down; see to its link" },
		{ .name = "mlx5_1",
		  .is_wanted = false,
		  .why = "not in the list of devices" },
		{ .name = "mlx5_2",
		  .is_wanted = true,
		  .why = "cannot be opened: X; give it" },
		{ .name = "mlx5_3",
		  .port = 1,
		  .is_wanted = true,
		  .is_usable = true,
		  .why = "no IP, so TCP" },
	};
	struct kv_doctor_host h = { .root = root,
				    .pool_file = "",
				    .pool_bytes = MIB };

	(void)state;
	tells(&h, "ok RDMA devices: none is wanted: the protocol is tcp; \n");
	tells(&h, "ok locked memory: the limit (64.0 KiB) does not matter");
	h.wanted = "";
	tells(&h, "ok RDMA devices: there is none; \n");
	h.wanted = "mlx5_[0-3]";
	tells(&h, "warning RDMA devices: no RDMA device is called "
		  "'mlx5_[0-3]'; there is none at all\n");
	h.ports = ports;
	h.n_ports = 5;
	tells(&h, "ok RDMA devices: 2 ports can be used; \n");
	tells(&h, "warning RDMA devices: mlx5_0 port 2: port down; see to its "
		  "link\n");
	tells(&h, "warning RDMA devices: mlx5_2: cannot be opened: X; give "
		  "it\n");
	tells(&h, "ok RDMA devices: mlx5_3 port 1: no IP, so TCP; \n");
	assert_null(strstr(told, "mlx5_1"));
	h.wanted = "mlx5_[0-3],rxe0";
	tells(&h, "warning RDMA devices: no RDMA device is called 'rxe0'; "
		  "there are mlx5_0, mlx5_1, mlx5_2, mlx5_3\n");
	tells(&h, "ok RDMA devices: 2 ports can be used; \n");
	tells(&h, "warning locked memory: 2 RDMA devices want a pool of 1.0 "
		  "MiB locked, 2.0 MiB in all, but the limit of locked memory "
		  "is 64.0 KiB; `ulimit -l unlimited`");
	h.pool_bytes = 32768;
	tells(&h, "ok locked memory: the limit is 64.0 KiB; \n");
}

static void
who_must_have_a_device_is_told_that_there_is_none(void **state)
{
	struct kv_rdmadev ports[] = {
		{ .name = "mlx5_0", .is_wanted = true, .why = "down; up" },
	};
	struct kv_doctor_host h = { .root = root,
				    .pool_file = "",
				    .pool_bytes = MIB,
				    .wanted = "",
				    .is_must = true };

	(void)state;
	tells(&h, "fault RDMA devices: there is none, and --protocol=rdma "
		  "wants one; say --protocol=auto, or");
	tells(&h, "ok locked memory: the limit (64.0 KiB) does not matter: "
		  "there is no RDMA device to use; each would want the pool of "
		  "1.0 MiB locked");
	h.ports = ports;
	h.n_ports = 1;
	tells(&h, "warning RDMA devices: mlx5_0: down; up\n");
	tells(&h, "fault RDMA devices: no port can be used, and --protocol=");
	h.wanted = NULL;
	h.why_none = "MC_FORCE_TCP is set";
	tells(&h, "fault RDMA devices: none is wanted: MC_FORCE_TCP is set, "
		  "and --protocol=rdma wants one");
	h.is_must = false;
	tells(&h, "ok RDMA devices: none is wanted: MC_FORCE_TCP is set; \n");
	h.is_wished = true;
	tells(&h, "warning RDMA devices: none is wanted: MC_FORCE_TCP is set, "
		  "and protocol rdma in the file wants one");
}

static void
verbs_that_are_missing_matter_where_devices_are(void **state)
{
	struct kv_doctor_host h = {
		.root = root,
		.pool_file = "",
		.wanted = "",
		.n_ports = -1,
		.ports_why = "libx is not installed; install it",
	};

	(void)state;
	tells(&h, "ok RDMA devices: there is none; \n");
	madetree_put(root, "/sys/class/infiniband/mlx5_0/x", "x");
	tells(&h, "warning RDMA devices: libx is not installed; install it\n");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(rdma_devices_are_judged, setup,
						teardown),
		cmocka_unit_test_setup_teardown(
			who_must_have_a_device_is_told_that_there_is_none,
			setup, teardown),
		cmocka_unit_test_setup_teardown(
			verbs_that_are_missing_matter_where_devices_are, setup,
			teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
