#include "mem/room.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "test.h"

#define MIB  (UINT64_C(1) << 20)
#define GIB  (UINT64_C(1) << 30)
#define HUGE "/sys/kernel/mm/hugepages/hugepages-2048kB/"

/* A machine made of files: a root with its own /proc and /sys. */
static char root[64];
static char err[512];

static int
remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
	(void)st;
	(void)flag;
	(void)ftw;
	return remove(path);
}

static int
setup(void **state)
{
	(void)state;
	snprintf(root, sizeof(root), "/tmp/kv_room.XXXXXX");
	return mkdtemp(root) ? 0 : -1;
}

static int
teardown(void **state)
{
	(void)state;
	return nftw(root, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

KV_PRINTF(2, 3)
static void
put(const char *path, const char *fmt, ...)
{
	char full[256], *slash;
	va_list ap;
	FILE *f;

	snprintf(full, sizeof(full), "%s%s", root, path);
	for (slash = full + strlen(root); (slash = strchr(slash + 1, '/'));) {
		*slash = '\0';
		mkdir(full, 0700);
		*slash = '/';
	}
	f = fopen(full, "we");
	assert_non_null(f);
	va_start(ap, fmt);
	assert_true(vfprintf(f, fmt, ap) >= 0);
	va_end(ap);
	assert_int_equal(fclose(f), 0);
}

static void
put_available(uint64_t bytes)
{
	put("/proc/meminfo",
	    "MemTotal:       98304000 kB\nMemFree:               1 kB\n"
	    "MemAvailable:   %8ju kB\nBuffers:               2 kB\n",
	    (uintmax_t)(bytes / 1024));
}

static void
put_group_v2(const char *group)
{
	put("/proc/self/cgroup", "0::%s\n", group);
	put("/proc/self/mountinfo",
	    "22 27 0:21 / /proc rw,relatime - proc proc rw\n"
	    "31 23 0:28 / /sys/fs/cgroup rw shared:4 - cgroup2 cgroup2 rw\n");
}

static void
assert_says(const char *what)
{
	if (!strstr(err, what))
		fail_msg("no \"%s\" in: %s", what, err);
}

static void
test_nothing_known(void **state)
{
	(void)state;
	assert_int_equal(kv_room_memory(root), UINT64_MAX);
	assert_int_equal(kv_room_check(root, 64 * GIB, err, sizeof(err)), 0);
}

static void
test_memory_available(void **state)
{
	(void)state;
	put_available(4 * GIB);
	assert_int_equal(kv_room_memory(root), 4 * GIB);
	assert_int_equal(kv_room_check(root, 3 * GIB, err, sizeof(err)), 0);
	assert_int_equal(kv_room_check(root, 4 * GIB, err, sizeof(err)),
			 -ENOMEM);
	assert_says("4.0 GiB of memory are available");
	assert_says("itself may take 128.0 MiB; ask for 3969MB at most");
	assert_int_equal(kv_room_check(root, 3969 * MIB, err, sizeof(err)), 0);
	assert_int_equal(kv_room_check(root, 3970 * MIB, err, sizeof(err)),
			 -ENOMEM);
	assert_int_equal(kv_room_check(root, UINT64_MAX, err, sizeof(err)),
			 -ENOMEM);
}

static void
test_no_advice_without_room(void **state)
{
	(void)state;
	put_available(17 * MIB);
	assert_int_equal(kv_room_check(root, GIB, err, sizeof(err)), -ENOMEM);
	assert_null(strstr(err, "ask for"));
	assert_says("may take 80.0 MiB; free some");
}

/* What is kept beside a small pool is small, and the advice holds. */
static void
test_little_memory(void **state)
{
	uint64_t mib;

	(void)state;
	put_group_v2("/box");
	put("/sys/fs/cgroup/box/memory.current", "%ju\n", (uintmax_t)MIB);
	for (mib = 20; mib < 700; mib += 13) {
		unsigned most;

		put("/sys/fs/cgroup/box/memory.max", "%ju\n",
		    (uintmax_t)(mib * MIB));
		assert_int_equal(kv_room_check(root, GIB, err, sizeof(err)),
				 -ENOMEM);
		assert_non_null(strstr(err, "ask for "));
		assert_int_equal(
			sscanf(strstr(err, "ask for "), "ask for %uMB", &most),
			1);
		assert_true(most * 5 >= (mib - 20) * 3);
		assert_int_equal(
			kv_room_check(root, most * MIB, err, sizeof(err)), 0);
		assert_int_equal(
			kv_room_check(root, (most + 2) * MIB, err, sizeof(err)),
			-ENOMEM);
	}
}

static void
test_group_v2(void **state)
{
	(void)state;
	put_available(100 * GIB);
	put_group_v2("/pod/box");
	put("/sys/fs/cgroup/pod/box/memory.max", "%ju\n", (uintmax_t)(8 * GIB));
	put("/sys/fs/cgroup/pod/box/memory.current", "%ju\n", (uintmax_t)GIB);
	assert_int_equal(kv_room_memory(root), 7 * GIB);
	assert_int_equal(kv_room_check(root, 6 * GIB, err, sizeof(err)), 0);
	assert_int_equal(kv_room_check(root, 7 * GIB, err, sizeof(err)),
			 -ENOMEM);
	assert_says("leaves 7.0 GiB of its 8.0 GiB");
	assert_says("raise /sys/fs/cgroup/pod/box/memory.max");

	put("/sys/fs/cgroup/pod/box/memory.stat",
	    "anon 5\ninactive_file %ju\nfile 7\n", (uintmax_t)(GIB / 2));
	assert_int_equal(kv_room_memory(root), 7 * GIB + GIB / 2);
	put("/sys/fs/cgroup/pod/box/memory.high", "%ju\n",
	    (uintmax_t)(2 * GIB));
	assert_int_equal(kv_room_memory(root), GIB + GIB / 2);
	put("/proc/77/cgroup", "0::/pod\n");
	assert_int_equal(kv_room_memory_of(root, 77), 100 * GIB);
	put("/proc/77/cgroup", "0::/pod/box\n");
	assert_int_equal(kv_room_memory_of(root, 77), GIB + GIB / 2);
	put("/sys/fs/cgroup/pod/box/memory.high", "max\n");
	put("/sys/fs/cgroup/pod/box/memory.max", "max\n");
	assert_int_equal(kv_room_memory(root), 100 * GIB);
}

static void
test_group_above_is_tighter(void **state)
{
	(void)state;
	put_group_v2("/pod/box");
	put("/sys/fs/cgroup/pod/box/memory.max", "%ju\n", (uintmax_t)(8 * GIB));
	put("/sys/fs/cgroup/pod/box/memory.current", "0\n");
	put("/sys/fs/cgroup/pod/memory.max", "%ju\n", (uintmax_t)(9 * GIB));
	put("/sys/fs/cgroup/pod/memory.current", "%ju\n", (uintmax_t)(6 * GIB));
	put("/sys/fs/cgroup/memory.max", "%ju\n", (uintmax_t)(64 * GIB));
	put("/sys/fs/cgroup/memory.current", "%ju\n", (uintmax_t)(7 * GIB));
	assert_int_equal(kv_room_memory(root), 3 * GIB);
	put("/sys/fs/cgroup/memory.current", "%ju\n", (uintmax_t)(62 * GIB));
	assert_int_equal(kv_room_memory(root), 2 * GIB);
	put("/sys/fs/cgroup/memory.current", "%ju\n", (uintmax_t)(65 * GIB));
	assert_int_equal(kv_room_memory(root), 0);
}

/* In a name space of its own a container sees itself as the root. */
static void
test_group_seen_from_inside(void **state)
{
	(void)state;
	put_group_v2("/");
	put("/sys/fs/cgroup/memory.max", "%ju\n", (uintmax_t)(2 * GIB));
	put("/sys/fs/cgroup/memory.current", "%ju\n", (uintmax_t)GIB);
	assert_int_equal(kv_room_memory(root), GIB);
	put_group_v2("/../other");
	assert_int_equal(kv_room_memory(root), GIB);
}

static void
test_group_v1_seen_from_outside(void **state)
{
	(void)state;
	put("/proc/self/cgroup", "9:name=systemd:/\n8:cpu,memory:/docker/abc\n"
				 "0::/\n");
	put("/proc/self/mountinfo",
	    "34 31 0:31 /docker/abc /sys/fs/cgroup/cpuset rw - cgroup cgroup "
	    "rw,cpuset\n"
	    "35 31 0:32 /docker/abc /sys/fs/cgroup/memory rw - cgroup cgroup "
	    "rw,cpu,memory\n"
	    "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n");
	put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "%ju\n",
	    (uintmax_t)(4 * GIB));
	put("/sys/fs/cgroup/memory/memory.usage_in_bytes", "%ju\n",
	    (uintmax_t)(3 * GIB));
	put("/sys/fs/cgroup/memory/memory.stat", "total_inactive_file %ju\n",
	    (uintmax_t)MIB);
	assert_int_equal(kv_room_memory(root), GIB + MIB);
	put("/sys/fs/cgroup/memory/memory.limit_in_bytes",
	    "9223372036854771712\n");
	assert_true(kv_room_memory(root) > UINT64_C(1) << 60);
}

static void
test_nonsense_is_no_limit(void **state)
{
	(void)state;
	put("/proc/meminfo", "MemAvailable: lots\n");
	put("/proc/self/cgroup", "\n:\n::\n0:\n4:memory\n0::/x\n");
	put("/proc/self/mountinfo", "\n - \n - cgroup2\na b - cgroup2 c d\n"
				    "1 2 3 / /g rw - cgroup2 c d");
	put("/g/x/memory.max", "99999999999999999999999\n");
	put("/g/x/memory.current", "0\n");
	assert_int_equal(kv_room_memory(root), UINT64_MAX);
	put("/g/x/memory.max", "5\n");
	assert_int_equal(kv_room_memory(root), 5);
	put("/g/x/memory.current", "%s", "");
	assert_int_equal(kv_room_memory(root), UINT64_MAX);
}

static void
put_huge(unsigned total, unsigned unused, unsigned promised)
{
	put(HUGE "nr_hugepages", "%u\n", total);
	put(HUGE "free_hugepages", "%u\n", unused);
	put(HUGE "resv_hugepages", "%u\n", promised);
}

static void
test_huge_pages(void **state)
{
	(void)state;
	assert_int_equal(kv_room_check_huge(root, 1, err, sizeof(err)),
			 -ENOMEM);
	assert_says("needs 1 huge pages, 0 are free; echo 1 > " HUGE);
	put_huge(100, 64, 14);
	assert_int_equal(kv_room_check_huge(root, 100 * MIB, err, sizeof(err)),
			 0);
	assert_int_equal(kv_room_check_huge(root, 256 * MIB, err, sizeof(err)),
			 -ENOMEM);
	assert_says("256.0 MiB needs 128 huge pages, 50 are free; echo 178 >");
	put(HUGE "nr_overcommit_hugepages", "80\n");
	put(HUGE "surplus_hugepages", "2\n");
	assert_int_equal(kv_room_check_huge(root, 256 * MIB, err, sizeof(err)),
			 0);
	assert_int_equal(kv_room_check_huge(root, 257 * MIB, err, sizeof(err)),
			 -ENOMEM);
}

static void
test_huge_pages_of_the_group(void **state)
{
	(void)state;
	put_huge(1000, 1000, 0);
	put_group_v2("/box");
	put("/sys/fs/cgroup/box/hugetlb.2MB.max", "%ju\n",
	    (uintmax_t)(64 * MIB));
	put("/sys/fs/cgroup/box/hugetlb.2MB.current", "%ju\n",
	    (uintmax_t)(2 * MIB));
	assert_int_equal(kv_room_check_huge(root, 62 * MIB, err, sizeof(err)),
			 0);
	assert_int_equal(kv_room_check_huge(root, 64 * MIB, err, sizeof(err)),
			 -ENOMEM);
	assert_says("leaves 62.0 MiB of its 64.0 MiB of huge pages");
	assert_says("raise /sys/fs/cgroup/box/hugetlb.2MB.max");
}

static void
test_locked_memory(void **state)
{
	(void)state;
	assert_int_equal(kv_room_lockable(root, 0), UINT64_MAX);
	put("/proc/self/limits",
	    "Limit                     Soft Limit           Hard Limit\n"
	    "Max locked memory         67108864             67108864   bytes\n");
	put("/proc/self/status", "Name:\tx\nCapEff:\t00000000a80425fb\n");
	assert_int_equal(kv_room_lockable(root, 0), 64 * MIB);
	assert_int_equal(
		kv_room_check_locked(root, 0, 32 * MIB, 2, err, sizeof(err)),
		0);
	assert_int_equal(
		kv_room_check_locked(root, 0, 33 * MIB, 2, err, sizeof(err)),
		-ENOMEM);
	assert_says("2 RDMA devices want a pool of 33.0 MiB locked, 66.0 MiB "
		    "in all, but the limit of locked memory is 64.0 MiB; "
		    "`ulimit -l unlimited`");
	assert_says("LimitMEMLOCK=infinity in its systemd unit");
	assert_says("IPC_LOCK in the container's securityContext");
	assert_int_equal(
		kv_room_check_locked(root, 0, GIB, 1, err, sizeof(err)),
		-ENOMEM);
	assert_says("1 RDMA device wants a pool");
	assert_int_equal(
		kv_room_check_locked(root, 0, UINT64_MAX, 9, err, sizeof(err)),
		-ENOMEM);
	put("/proc/self/limits",
	    "Max locked memory         unlimited            unlimited  bytes\n");
	assert_int_equal(kv_room_lockable(root, 0), UINT64_MAX);
}

/* The limit does not bind who has CAP_IPC_LOCK, but in a user name space. */
static void
test_locked_memory_of_the_mighty(void **state)
{
	(void)state;
	put("/proc/77/limits",
	    "Max locked memory         65536                65536      bytes\n");
	assert_int_equal(kv_room_lockable(root, 77), 65536);
	put("/proc/77/status", "CapEff:\t0000000000004000\n");
	assert_int_equal(kv_room_lockable(root, 77), UINT64_MAX);
	put("/proc/77/uid_map", "         0     100000      65536\n");
	assert_int_equal(kv_room_lockable(root, 77), 65536);
	put("/proc/77/uid_map", "         0          0 4294967295\n");
	assert_int_equal(kv_room_lockable(root, 77), UINT64_MAX);
	put("/proc/77/status", "CapEff:\t000001ffffffbfff\n");
	assert_int_equal(kv_room_lockable(root, 77), 65536);
}

/* What this machine says of itself is plausible, whatever it is. */
static void
test_the_real_machine(void **state)
{
	uint64_t room = kv_room_memory("");

	(void)state;
	assert_true(room > MIB);
	assert_int_equal(kv_room_check("", MIB, err, sizeof(err)), 0);
	assert_int_equal(kv_room_check("", UINT64_C(1) << 50, err, sizeof(err)),
			 -ENOMEM);
}

int
main(void)
{
#define CASE(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
	const struct CMUnitTest tests[] = {
		CASE(test_nothing_known),
		CASE(test_memory_available),
		CASE(test_no_advice_without_room),
		CASE(test_little_memory),
		CASE(test_group_v2),
		CASE(test_group_above_is_tighter),
		CASE(test_group_seen_from_inside),
		CASE(test_group_v1_seen_from_outside),
		CASE(test_nonsense_is_no_limit),
		CASE(test_huge_pages),
		CASE(test_huge_pages_of_the_group),
		CASE(test_locked_memory),
		CASE(test_locked_memory_of_the_mighty),
		CASE(test_the_real_machine),
	};

	return cmocka_run_group_tests_name("room", tests, NULL, NULL);
}
