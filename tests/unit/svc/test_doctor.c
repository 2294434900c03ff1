/* The rules of kvdiag doctor, on facts made up: each speaks up for what it is
 * about, with its numbers, and for nothing else. */
#include "svc/doctor.h"

#include <ftw.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "test.h"

#define MIB (UINT64_C(1) << 20)

/* The last finding of the worst level. */
static struct kv_doctor_finding worst;
static char advice[KV_DOCTOR_TEXT_BYTES];
static unsigned n_findings;

static void
heard(void *arg, const struct kv_doctor_finding *f)
{
	(void)arg;
	assert_true(strlen(f->fact) > 0);
	assert_int_equal(*f->advice != '\0', f->level != KV_DOCTOR_OK);
	if (n_findings++ && f->level < worst.level)
		return;
	worst = *f;
	snprintf(advice, sizeof(advice), "%s", f->advice);
}

static struct kv_doctor doctor = { .tell = heard };

static int
setup(void **state)
{
	(void)state;
	n_findings = 0;
	memset(doctor.found, 0, sizeof(doctor.found));
	return 0;
}

#define TOLD(want, what)                                   \
	do {                                               \
		assert_int_equal(worst.level, want);       \
		assert_non_null(strstr(worst.fact, what)); \
		n_findings = 0;                            \
	} while (0)

/* ---- key spaces ---- */

/* n keys "BEGIN NUMBER", of so many hexadecimal digits or more, "@x". */
static void
add(struct kv_doctor_keys *k, const char *begin, unsigned n, uint16_t putter,
    bool is_shared)
{
	int digits = strncmp(begin, "file", 4) == 0 ? 1 : 16;
	char key[128];

	for (unsigned i = 0; i < n; i++) {
		snprintf(key, sizeof(key), "%s%0*" PRIx64 "@x", begin, digits,
			 (uint64_t)putter << 48 | i);
		kv_doctor_keys_add(k, (struct kv_key){ key, strlen(key) },
				   putter, is_shared);
	}
}

static void
engines_whose_keys_never_meet_are_told(void **state)
{
	struct kv_doctor_keys *k = kv_doctor_keys_new();

	(void)state;
	assert_non_null(k);
	add(k, "model@", KV_DOCTOR_PUTS, 1, false);
	add(k, "model@", KV_DOCTOR_PUTS - 1, 2, false);
	kv_doctor_keys_judge(&doctor, k, KV_DOCTOR_ASKED);
	TOLD(KV_DOCTOR_OK, "nothing to compare"); /* one is too few */
	add(k, "model@", 1, 2, false);
	kv_doctor_keys_judge(&doctor, k, KV_DOCTOR_ASKED - 1);
	TOLD(KV_DOCTOR_OK, "0 were read"); /* nobody asks */
	kv_doctor_keys_judge(&doctor, k, KV_DOCTOR_ASKED);
	TOLD(KV_DOCTOR_WARNING, "2 processes put 2000 keys like 'model@#@x'");
	assert_non_null(strstr(advice, "PYTHONHASHSEED"));
	add(k, "model@", 1, 2, true);
	kv_doctor_keys_judge(&doctor, k, KV_DOCTOR_ASKED);
	TOLD(KV_DOCTOR_OK, "of 2001 keys looked at 1 were read");
	kv_doctor_keys_free(k);
}

static void
ranks_and_keys_without_a_hash_are_apart(void **state)
{
	struct kv_doctor_keys *k = kv_doctor_keys_new();

	(void)state;
	assert_non_null(k);
	add(k, "m@rank:0@", 2 * KV_DOCTOR_PUTS, 1, false);
	add(k, "m@rank:1@", 2 * KV_DOCTOR_PUTS, 2, false);
	add(k, "file-", 2 * KV_DOCTOR_PUTS, 3, false);
	add(k, "file-", 2 * KV_DOCTOR_PUTS, 4, false);
	/* From before the node's start: nobody knows who put them. */
	add(k, "m@rank:0@", 2 * KV_DOCTOR_PUTS, 0, false);
	kv_doctor_keys_judge(&doctor, k, KV_DOCTOR_ASKED);
	TOLD(KV_DOCTOR_OK, "nothing to compare");
	kv_doctor_keys_free(k);
}

static void
keys_of_any_bytes_and_forms_are_taken(void **state)
{
	struct kv_doctor_keys *k = kv_doctor_keys_new();
	char key[1024];

	(void)state;
	assert_non_null(k);
	memset(key, 'f', sizeof(key));
	kv_doctor_keys_add(k, (struct kv_key){ key, sizeof(key) }, 1, false);
	memset(key, 0, sizeof(key) - 16);
	kv_doctor_keys_add(k, (struct kv_key){ key, sizeof(key) }, 1, false);
	for (unsigned i = 0; i < 1000; i++) {
		key[0] = (char)i;
		key[1] = (char)(i >> 8);
		kv_doctor_keys_add(k, (struct kv_key){ key, sizeof(key) },
				   (uint16_t)(i + 1), false);
	}
	for (unsigned i = 0; i < 1000; i++) /* more putters than are told */
		kv_doctor_keys_add(k, (struct kv_key){ key, sizeof(key) },
				   (uint16_t)(i + 1), false);
	kv_doctor_keys_judge(&doctor, k, KV_DOCTOR_ASKED);
	TOLD(KV_DOCTOR_OK, "2002 keys");
	kv_doctor_keys_free(k);
}

/* ---- masters and nodes ---- */

static char stats_master[] = "version " KVPOOL_VERSION "\nclock_ms 5000\n"
			     "master_key_count 7\nmaster_active_clients 1\n";
static char stats_node[] = "version " KVPOOL_VERSION "\nclock_ms 5000\n"
			   "hard_pinned_keys 3\nevicted_keys 9\n";
static char stats_short[] = "missing_bytes 968884224\n";
static struct kv_node_info record;
static struct kv_doctor_master master;
static struct kv_doctor_node node;
static struct kv_doctor_pool pool;

/* One master and one node, which are well. */
static int
setup_pool(void **state)
{
	record = (struct kv_node_info){
		.boot = "01",
		.name = "n1",
		.addr = "10.0.0.1:50052",
		.state = "live",
		.pool_bytes = 1024 * MIB,
		.ready_bytes = 1024 * MIB,
		.free_bytes = 512 * MIB,
		.keys = 7,
		.victim_age_ms = 1000,
		.heard_ms = 900,
	};
	master = (struct kv_doctor_master){
		.d = { .addr = "m:1", .stats = stats_master },
		.nodes = &record,
		.n = 1,
	};
	node = (struct kv_doctor_node){
		.d = { .addr = record.addr, .stats = stats_node },
		.info = record,
	};
	pool = (struct kv_doctor_pool){ &master, 1, &node, 1, NULL };
	kv_doctor_read(&master.d, 4990, 5010);
	kv_doctor_read(&node.d, 4990, 5010);
	return setup(state);
}

static void
all(void)
{
	kv_doctor_masters(&doctor, &pool);
	kv_doctor_versions(&doctor, &pool);
	kv_doctor_clocks(&doctor, &pool);
	kv_doctor_members(&doctor, &pool);
	kv_doctor_nodes(&doctor, &pool);
	kv_doctor_addresses(&doctor, &pool);
	kv_doctor_memory(&doctor, &pool);
	kv_doctor_room(&doctor, &pool);
}

static void
a_pool_that_is_well_has_a_line_a_check(void **state)
{
	(void)state;
	all();
	assert_int_equal(doctor.found[KV_DOCTOR_OK], 8);
	assert_int_equal(n_findings, 8);
	assert_false(kv_doctor_is_moving(&pool));
	pool.n_masters = pool.n_nodes = 0;
	all();
	TOLD(KV_DOCTOR_FAULT, "no master is named");
}

static void
clocks_and_versions_are_compared(void **state)
{
	(void)state;
	assert_int_equal(node.d.ahead_ms, 0);
	kv_doctor_read(&node.d, 10000, 10000);
	all();
	TOLD(KV_DOCTOR_WARNING, "5.0 s behind that of this host");
	kv_doctor_read(&node.d, 3400, 3600);
	kv_doctor_clocks(&doctor, &pool);
	TOLD(KV_DOCTOR_OK, "those of 2 daemons");
	snprintf(node.d.version, sizeof(node.d.version), "0.0.9");
	all();
	TOLD(KV_DOCTOR_WARNING, "10.0.0.1:50052 runs version 0.0.9");
	/* A daemon that tells neither is left out. */
	node.d.stats = NULL;
	node.d.version[0] = '\0';
	kv_doctor_versions(&doctor, &pool);
	TOLD(KV_DOCTOR_OK, "1 daemon runs");
}

static void
nodes_that_do_not_answer_are_told_once(void **state)
{
	(void)state;
	node.info.heard_ms = 9000;
	node.d.status = -KV_EUNREACHABLE;
	assert_true(kv_doctor_is_moving(&pool));
	all();
	TOLD(KV_DOCTOR_FAULT, "n1 (10.0.0.1:50052) is silent: the master "
			      "heard it 9.0 s ago");
	assert_int_equal(doctor.found[KV_DOCTOR_FAULT], 1);
	strcpy(node.info.state, "suspect");
	all();
	TOLD(KV_DOCTOR_FAULT, "is suspect");
	assert_int_equal(doctor.found[KV_DOCTOR_FAULT], 2);
	strcpy(node.info.state, "live");
	node.info.heard_ms = 100;
	snprintf(node.d.why, sizeof(node.d.why), "nobody listens there");
	all();
	TOLD(KV_DOCTOR_FAULT, "10.0.0.1:50052 does not answer here: nobody");
	assert_int_equal(doctor.found[KV_DOCTOR_FAULT], 3);
	strcpy(node.info.state, "leaving");
	node.d.status = 0;
	all();
	TOLD(KV_DOCTOR_WARNING, "is leaving");
}

static void
masters_and_nodes_that_do_not_know_each_other(void **state)
{
	struct kv_node_info own = record;

	(void)state;
	pool.own = &own;
	kv_doctor_members(&doctor, &pool);
	TOLD(KV_DOCTOR_OK, "1 node");
	strcpy(own.boot, "02");
	assert_true(kv_doctor_is_moving(&pool));
	kv_doctor_members(&doctor, &pool);
	TOLD(KV_DOCTOR_FAULT, "the kvclient of this host (n1) is not known");
	pool.own = NULL;
	master.n = 0;
	kv_doctor_members(&doctor, &pool);
	assert_int_equal(doctor.found[KV_DOCTOR_FAULT], 3);
	TOLD(KV_DOCTOR_FAULT, "node n1 (10.0.0.1:50052) is not known to "
			      "master m:1");
	pool.n_nodes = 0;
	kv_doctor_members(&doctor, &pool);
	TOLD(KV_DOCTOR_FAULT, "m:1 knows 1 node, of which it names 0 here");
	master.d.stats = NULL;
	kv_doctor_members(&doctor, &pool);
	TOLD(KV_DOCTOR_FAULT, "no node is in the pool");
}

static void
pools_are_judged_by_what_is_there(void **state)
{
	(void)state;
	node.info.ready_bytes = node.ready_before = 100 * MIB;
	assert_true(kv_doctor_is_moving(&pool));
	all();
	TOLD(KV_DOCTOR_FAULT, "n1 has 100.0 MiB of its 1.0 GiB, and no more");
	node.info.ready_bytes++;
	all();
	TOLD(KV_DOCTOR_OK, "free");
	/* A node takes what it has for its pool, once no more comes. */
	node.info.pool_bytes = node.info.ready_bytes = 100 * MIB;
	node.d.stats = stats_short;
	assert_false(kv_doctor_is_moving(&pool));
	all();
	TOLD(KV_DOCTOR_FAULT, "n1 has 100.0 MiB of its 1.0 GiB, and no more");
	node.d.stats = stats_node;
	node.info = record;
	node.info.free_bytes = MIB;
	all();
	TOLD(KV_DOCTOR_WARNING,
	     "the next key to be evicted was used 1.0 s ago, "
	     "9 keys were evicted");
	node.info.victim_age_ms = 60000;
	all();
	TOLD(KV_DOCTOR_OK, "free");
	node.info.victim_age_ms = 0;
	all();
	TOLD(KV_DOCTOR_FAULT, "nothing may leave: 1.0 MiB free, 7 keys, 3 of "
			      "them hard-pinned");
	node.info.pool_bytes = node.info.ready_bytes = 4096;
	all();
	TOLD(KV_DOCTOR_WARNING, "next to no memory: 4.0 KiB");
}

/* ---- this host ---- */

static char root[64];

static void
put(const char *path, const char *text)
{
	char full[256], *slash;
	FILE *f;

	snprintf(full, sizeof(full), "%s%s", root, path);
	for (slash = full + strlen(root); (slash = strchr(slash + 1, '/'));) {
		*slash = '\0';
		mkdir(full, 0700);
		*slash = '/';
	}
	f = fopen(full, "we");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

static int
remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
	(void)st;
	(void)flag;
	(void)ftw;
	return remove(path);
}

static int
setup_host(void **state)
{
	snprintf(root, sizeof(root), "/tmp/kv_doctor.XXXXXX");
	if (!mkdtemp(root))
		return -1;
	put("/proc/meminfo", "MemAvailable: 1048576 kB\n");
	put("/proc/self/limits",
	    "Max locked memory         65536                65536    bytes\n"
	    "Max open files            4096                 4096     files\n");
	put("/proc/77/limits",
	    "Max locked memory         65536                65536    bytes\n"
	    "Max open files            2000                 4096     files\n");
	put("/proc/77/fd/0", "");
	put("/proc/sys/kernel/yama/ptrace_scope", "0\n");
	return setup(state);
}

static int
teardown_host(void **state)
{
	(void)state;
	return nftw(root, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static void
a_host_is_judged_by_its_files(void **state)
{
	struct kv_doctor_host h = { .root = root, .pool_file = "" };

	(void)state;
	kv_doctor_host(&doctor, &h);
	assert_int_equal(doctor.found[KV_DOCTOR_OK], 5);
	assert_int_equal(n_findings, 5);
	h.pool_bytes = 512 * MIB;
	kv_doctor_host(&doctor, &h);
	assert_int_equal(doctor.found[KV_DOCTOR_OK], 10);
	h.pool_bytes = 2048 * MIB;
	kv_doctor_host(&doctor, &h);
	TOLD(KV_DOCTOR_FAULT, "a pool of 2.0 GiB does not fit: 1.0 GiB of "
			      "memory are available");
	assert_non_null(strstr(advice, "ask for"));
	put("/proc/sys/kernel/yama/ptrace_scope", "3\n");
	h.pool_bytes = 0;
	kv_doctor_host(&doctor, &h);
	TOLD(KV_DOCTOR_WARNING, "ptrace_scope is 3");
	put("/proc/sys/kernel/yama/ptrace_scope", "1\n");
	put("/proc/self/limits",
	    "Max open files            100   100  files\n");
	kv_doctor_host(&doctor, &h);
	TOLD(KV_DOCTOR_WARNING, "may have 100 open");
}

static void
a_running_node_is_judged_by_its_process(void **state)
{
	struct kv_doctor_host h = {
		.root = root,
		.pool_file = "",
		.pool_bytes = 2048 * MIB, /* of no matter now */
		.node_pid = 77,
		.node_bytes = 700 * MIB,
	};
	char path[32];

	(void)state;
	kv_doctor_host(&doctor, &h);
	assert_int_equal(doctor.found[KV_DOCTOR_OK], 5);
	h.node_unready = 1020 * MIB;
	kv_doctor_host(&doctor, &h);
	TOLD(KV_DOCTOR_FAULT, "only 1.0 GiB are left");
	h.node_unready = 0;
	put("/proc/self/cgroup", "0::/\n");
	put("/proc/self/mountinfo",
	    "30 25 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
	put("/sys/fs/cgroup/kv/memory.max", "1000000000\n");
	put("/sys/fs/cgroup/kv/memory.current", "999000000\n");
	kv_doctor_host(&doctor, &h);
	assert_int_equal(doctor.found[KV_DOCTOR_FAULT], 1);
	put("/proc/77/cgroup", "0::/kv\n");
	kv_doctor_host(&doctor, &h);
	TOLD(KV_DOCTOR_FAULT, "only 976.6 KiB are left");
	put("/sys/fs/cgroup/kv/memory.max", "max\n");
	put("/proc/77/limits", "Max open files            10   10  files\n");
	for (int i = 1; i < 9; i++) {
		snprintf(path, sizeof(path), "/proc/77/fd/%d", i);
		put(path, "");
	}
	kv_doctor_host(&doctor, &h);
	TOLD(KV_DOCTOR_FAULT, "has 9 open of the 10 that it may have");
}

#define HUGE "/sys/kernel/mm/hugepages/hugepages-2048kB/"

/* The machine has the pages, the container may not have them: version 2 of
 * control groups, then version 1. */
static void
huge_pages_that_a_container_may_not_have(void **state)
{
	struct kv_doctor_host h = {
		.root = root,
		.pool_file = "",
		.pool_bytes = 100 * MIB,
		.is_huge = true,
	};

	(void)state;
	kv_doctor_host(&doctor, &h);
	TOLD(KV_DOCTOR_FAULT, "needs 50 huge pages, 0 are free");
	put(HUGE "nr_hugepages", "60\n");
	put(HUGE "free_hugepages", "60\n");
	put(HUGE "resv_hugepages", "0\n");
	kv_doctor_host(&doctor, &h);
	assert_int_equal(doctor.found[KV_DOCTOR_FAULT], 1);
	put("/proc/self/cgroup", "0::/box\n");
	put("/proc/self/mountinfo",
	    "30 25 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
	put("/sys/fs/cgroup/box/hugetlb.2MB.max", "83886080\n");
	put("/sys/fs/cgroup/box/hugetlb.2MB.current", "2097152\n");
	kv_doctor_host(&doctor, &h);
	TOLD(KV_DOCTOR_FAULT, "leaves 78.0 MiB of its 80.0 MiB of huge pages");
	assert_non_null(strstr(advice, "raise /sys/fs/cgroup/box/hugetlb.2MB"));
	put("/proc/self/cgroup", "7:hugetlb:/old\n");
	put("/proc/self/mountinfo",
	    "30 25 0:26 / /sys/fs/cgroup/h rw - cgroup cgroup rw,hugetlb\n");
	put("/sys/fs/cgroup/h/old/hugetlb.2MB.limit_in_bytes", "67108864\n");
	put("/sys/fs/cgroup/h/old/hugetlb.2MB.usage_in_bytes", "0\n");
	kv_doctor_host(&doctor, &h);
	TOLD(KV_DOCTOR_FAULT, "leaves 64.0 MiB of its 64.0 MiB of huge pages");
}

static void
who_listens_on_a_socket_is_known(void **state)
{
	(void)state;
	assert_int_equal(kv_doctor_pid(""), 0);
	assert_int_equal(kv_doctor_pid("/nowhere/at/all"), 0);
	assert_int_equal(kv_doctor_pid("@kv-nobody-listens-here"), 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(engines_whose_keys_never_meet_are_told,
				       setup),
		cmocka_unit_test_setup(ranks_and_keys_without_a_hash_are_apart,
				       setup),
		cmocka_unit_test_setup(keys_of_any_bytes_and_forms_are_taken,
				       setup),
		cmocka_unit_test_setup(a_pool_that_is_well_has_a_line_a_check,
				       setup_pool),
		cmocka_unit_test_setup(clocks_and_versions_are_compared,
				       setup_pool),
		cmocka_unit_test_setup(nodes_that_do_not_answer_are_told_once,
				       setup_pool),
		cmocka_unit_test_setup(
			masters_and_nodes_that_do_not_know_each_other,
			setup_pool),
		cmocka_unit_test_setup(pools_are_judged_by_what_is_there,
				       setup_pool),
		cmocka_unit_test_setup_teardown(
			huge_pages_that_a_container_may_not_have, setup_host,
			teardown_host),
		cmocka_unit_test_setup_teardown(a_host_is_judged_by_its_files,
						setup_host, teardown_host),
		cmocka_unit_test_setup_teardown(
			a_running_node_is_judged_by_its_process, setup_host,
			teardown_host),
		cmocka_unit_test(who_listens_on_a_socket_is_known),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
