#include "mem/room.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/capability.h>
#include <linux/magic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "base/num.h"
#include "base/str.h"

#define HUGE_DIR   "/sys/kernel/mm/hugepages/hugepages-2048kB"
#define HUGE_BYTES (UINT64_C(2) << 20)
#define MIB        (UINT64_C(1) << 20)
#define NONE       UINT64_MAX

/* Beside the spare, for the index of a large pool. */
#define INDEX_FRACTION 64

/* kv_room_spare(): the smaller of SPARE_MAX and SPARE_MIN + bytes / 4. */
#define SPARE_MIN      (16 * MIB)
#define SPARE_MAX      (64 * MIB)
#define SPARE_FRACTION 4

/* A limit of control groups: a file with it and one with what is used. */
struct gauge {
	const char *controller; /* "" for version 2 */
	const char *limit;
	const char *used;
	const char *reclaimable; /* key in memory.stat, or NULL */
};

static const struct gauge memory_gauges[] = {
	{ "", "memory.max", "memory.current", "inactive_file" },
	{ "", "memory.high", "memory.current", "inactive_file" },
	{ "memory", "memory.limit_in_bytes", "memory.usage_in_bytes",
	  "total_inactive_file" },
};

static const struct gauge huge_gauges[] = {
	{ "", "hugetlb.2MB.max", "hugetlb.2MB.current", NULL },
	{ "", "hugetlb.2MB.rsvd.max", "hugetlb.2MB.rsvd.current", NULL },
	{ "hugetlb", "hugetlb.2MB.limit_in_bytes", "hugetlb.2MB.usage_in_bytes",
	  NULL },
	{ "hugetlb", "hugetlb.2MB.rsvd.limit_in_bytes",
	  "hugetlb.2MB.rsvd.usage_in_bytes", NULL },
};

/* The tightest limit met so far. */
struct tightest {
	uint64_t left; /* bytes, or NONE */
	uint64_t limit;
	char file[PATH_MAX];
};

static void
cleanup_file(FILE **f)
{
	if (*f)
		fclose(*f);
}

static FILE *
open_text(const char *root, const char *path)
{
	char full[PATH_MAX];
	int n = snprintf(full, sizeof(full), "%s%s", root, path);

	return n > 0 && (size_t)n < sizeof(full) ? fopen(full, "re") : NULL;
}

/* The number after `key` in a file of "key number" lines; key "": the file
 * is the number. NONE when there is none. */
static uint64_t
read_number(const char *root, const char *path, const char *key)
{
	FILE *f KV_CLEANUP(cleanup_file) = open_text(root, path);
	size_t len = strlen(key);
	char line[256], *end;
	uint64_t n;

	while (f && fgets(line, sizeof(line), f)) {
		if (strncmp(line, key, len) != 0)
			continue;
		errno = 0;
		n = strtoull(line + len, &end, 10);
		if (errno || end == line + len)
			return NONE;
		return n;
	}
	return NONE;
}

static bool
list_has(const char *list, const char *word)
{
	size_t n = strlen(word), len;

	for (;; list += len + 1) {
		len = strcspn(list, ",");
		if (len == n && !memcmp(list, word, n))
			return true;
		if (!list[len])
			return false;
	}
}

/* The group of a process, 0: of this one: line "number:controllers:path". */
static bool
find_group(const char *root, int pid, const char *controller, char *group,
	   size_t n)
{
	char line[PATH_MAX] = "/proc/self/cgroup", *list, *path;
	FILE *f KV_CLEANUP(cleanup_file) = NULL;

	if (pid)
		snprintf(line, sizeof(line), "/proc/%d/cgroup", pid);
	f = open_text(root, line);
	while (f && fgets(line, sizeof(line), f)) {
		line[strcspn(line, "\n")] = '\0';
		list = strchr(line, ':');
		path = list ? strchr(list + 1, ':') : NULL;
		if (!path || path[1] != '/')
			continue;
		*path++ = '\0';
		if (!list_has(list + 1, controller))
			continue;
		return snprintf(group, n, "%s", path) < (int)n;
	}
	return false;
}

struct mount {
	char root[PATH_MAX]; /* the group that is mounted there */
	char point[PATH_MAX];
};

/* Line "id parent dev root point options [tags] - type source options". */
static bool
mount_parse(char *line, const char *controller, struct mount *m)
{
	const char *type = *controller ? "cgroup" : "cgroup2", *options;
	char *field[5], *save, *rest = strstr(line, " - ");
	int i;

	if (!rest)
		return false;
	*rest = '\0';
	rest = strtok_r(rest + 3, " \n", &save);
	if (!rest || strcmp(rest, type) != 0)
		return false;
	(void)strtok_r(NULL, " \n", &save);
	options = strtok_r(NULL, " \n", &save);
	if (!options || (*controller && !list_has(options, controller)))
		return false;
	for (i = 0; i < 5; i++) {
		field[i] = strtok_r(i ? NULL : line, " ", &save);
		if (!field[i])
			return false;
	}
	snprintf(m->root, sizeof(m->root), "%s", field[3]);
	snprintf(m->point, sizeof(m->point), "%s", field[4]);
	return true;
}

static bool
find_mount(const char *root, const char *controller, struct mount *m)
{
	FILE *f KV_CLEANUP(cleanup_file) =
		open_text(root, "/proc/self/mountinfo");
	char *line kv_auto_free = NULL;
	size_t n = 0;

	while (f && getline(&line, &n, f) > 0)
		if (mount_parse(line, controller, m))
			return true;
	return false;
}

/* One group: `dir` and its files. */
static void
look_at_group(const char *root, const char *dir, const struct gauge *g,
	      struct tightest *t)
{
	uint64_t limit, used, left, again = 0;
	char path[PATH_MAX];

	if (snprintf(path, sizeof(path), "%s/%s", dir, g->used) >= PATH_MAX)
		return;
	used = read_number(root, path, "");
	if (snprintf(path, sizeof(path), "%s/%s", dir, g->limit) >= PATH_MAX)
		return;
	limit = read_number(root, path, "");
	if (limit == NONE || used == NONE)
		return;
	left = limit > used ? limit - used : 0;
	if (g->reclaimable && left < t->left) {
		char stat[PATH_MAX];

		if (snprintf(stat, sizeof(stat), "%s/memory.stat", dir) <
		    PATH_MAX)
			again = read_number(root, stat, g->reclaimable);
		if (again != NONE)
			left = kv_min_u64(left + again, limit);
	}
	if (left >= t->left)
		return;
	t->left = left;
	t->limit = limit;
	snprintf(t->file, sizeof(t->file), "%s", path);
}

/* The group of the process and all above it that can be seen. */
static void
look_at_groups(const char *root, int pid, const struct gauge *g,
	       struct tightest *t)
{
	char group[PATH_MAX], dir[2 * PATH_MAX], *slash;
	const char *below;
	struct mount m;
	size_t n;

	if (!find_group(root, pid, g->controller, group, sizeof(group)) ||
	    !find_mount(root, g->controller, &m))
		return;
	/* A container may see its group's path from outside, or from inside. */
	n = strcmp(m.root, "/") ? strlen(m.root) : 0;
	below = strncmp(group, m.root, n) ? "" : group + n;
	if (strstr(below, "/..") || !strcmp(below, "/"))
		below = "";
	snprintf(dir, sizeof(dir), "%s%s", m.point, below);
	n = strlen(m.point);
	while (strlen(dir) < PATH_MAX) {
		look_at_group(root, dir, g, t);
		slash = strrchr(dir + n, '/');
		if (!slash)
			break;
		*slash = '\0';
	}
}

static void
look_at_gauges(const char *root, int pid, const struct gauge *g, size_t n,
	       struct tightest *t)
{
	size_t i;

	t->left = t->limit = NONE;
	for (i = 0; i < n; i++)
		look_at_groups(root, pid, &g[i], t);
}

static uint64_t
mem_available(const char *root)
{
	uint64_t kib = read_number(root, "/proc/meminfo", "MemAvailable:");

	return kib == NONE ? NONE : kib * 1024;
}

uint64_t
kv_room_memory_of(const char *root, int pid)
{
	struct tightest t;

	look_at_gauges(root, pid, memory_gauges, KV_ARRAY_LEN(memory_gauges),
		       &t);
	return kv_min_u64(t.left, mem_available(root));
}

uint64_t
kv_room_memory(const char *root)
{
	return kv_room_memory_of(root, 0);
}

uint64_t
kv_room_spare(uint64_t bytes)
{
	return kv_min_u64(SPARE_MAX, SPARE_MIN + bytes / SPARE_FRACTION);
}

/* What the process takes beside the pool. */
static uint64_t
beside(uint64_t bytes)
{
	return kv_room_spare(bytes) + bytes / INDEX_FRACTION;
}

/* The largest pool that fits, in MiB; 0: none. */
static uint64_t
fitting_mib(uint64_t room)
{
	uint64_t mib = 0;

	if (room > SPARE_MIN)
		mib = (room - SPARE_MIN) / MIB * INDEX_FRACTION /
		      (INDEX_FRACTION + INDEX_FRACTION / SPARE_FRACTION + 1);
	if (room > SPARE_MAX)
		mib = kv_max_u64(mib, (room - SPARE_MAX) / MIB *
					      INDEX_FRACTION /
					      (INDEX_FRACTION + 1));
	return mib;
}

/* What the process takes, and how much fits: the middle of both refusals. */
static const char *
advice(char *buf, size_t n, uint64_t bytes, uint64_t room)
{
	uint64_t mib = fitting_mib(room);
	char own[16], less[48] = "";

	if (mib)
		snprintf(less, sizeof(less), "ask for %juMB at most, or ",
			 (uintmax_t)mib);
	snprintf(buf, n, ", and the process itself may take %s; %s",
		 kv_str_size_format(own, sizeof(own), beside(bytes)), less);
	return buf;
}

int
kv_room_check(const char *root, uint64_t bytes, char *err, size_t errlen)
{
	char want[16], left[16], limit[16], less[128];
	uint64_t need, available = mem_available(root);
	struct tightest t;

	kv_str_size_format(want, sizeof(want), bytes);
	if (kv_add_u64(bytes, beside(bytes), &need))
		need = NONE;
	if (available < need) {
		snprintf(err, errlen,
			 "a pool of %s does not fit: %s of memory are "
			 "available%sfree some",
			 want,
			 kv_str_size_format(left, sizeof(left), available),
			 advice(less, sizeof(less), bytes, available));
		return -ENOMEM;
	}
	look_at_gauges(root, 0, memory_gauges, KV_ARRAY_LEN(memory_gauges), &t);
	if (t.left < need) {
		snprintf(err, errlen,
			 "a pool of %s does not fit: the control group leaves "
			 "%s of its %s%sraise %s",
			 want, kv_str_size_format(left, sizeof(left), t.left),
			 kv_str_size_format(limit, sizeof(limit), t.limit),
			 advice(less, sizeof(less), bytes, t.left), t.file);
		return -ENOMEM;
	}
	return 0;
}

/* Pages that a new mapping can reserve. */
static uint64_t
huge_pages_left(const char *root)
{
	uint64_t unused = read_number(root, HUGE_DIR "/free_hugepages", "");
	uint64_t promised = read_number(root, HUGE_DIR "/resv_hugepages", "");
	uint64_t more =
		read_number(root, HUGE_DIR "/nr_overcommit_hugepages", "");
	uint64_t surplus = read_number(root, HUGE_DIR "/surplus_hugepages", "");
	uint64_t left = 0;

	if (unused != NONE && promised != NONE && unused > promised)
		left = unused - promised;
	if (more != NONE && surplus != NONE && more > surplus)
		left += more - surplus;
	return left;
}

int
kv_room_check_huge(const char *root, uint64_t bytes, char *err, size_t errlen)
{
	uint64_t pages = kv_div_up_u64(bytes, HUGE_BYTES), left, total;
	char want[16], rest[16], limit[16];
	struct tightest t;

	kv_str_size_format(want, sizeof(want), bytes);
	left = huge_pages_left(root);
	if (left < pages) {
		total = read_number(root, HUGE_DIR "/nr_hugepages", "");
		total = total == NONE ? 0 : total;
		snprintf(err, errlen,
			 "a pool of %s needs %ju huge pages, %ju are free; "
			 "echo %ju > " HUGE_DIR "/nr_hugepages",
			 want, (uintmax_t)pages, (uintmax_t)left,
			 (uintmax_t)(total + pages - left));
		return -ENOMEM;
	}
	look_at_gauges(root, 0, huge_gauges, KV_ARRAY_LEN(huge_gauges), &t);
	if (t.left < bytes) {
		snprintf(
			err, errlen,
			"a pool of %s does not fit: the control group leaves "
			"%s of its %s of huge pages; ask for less, or raise %s",
			want, kv_str_size_format(rest, sizeof(rest), t.left),
			kv_str_size_format(limit, sizeof(limit), t.limit),
			t.file);
		return -ENOMEM;
	}
	return 0;
}

int
kv_room_check_file(const char *root, const struct kv_room_file *file,
		   uint64_t bytes, char *err, size_t errlen)
{
	char want[16], left[16];
	uint64_t room, has, more;
	struct statfs fs;
	struct stat st;

	if (fstatfs(file->fd, &fs) || fstat(file->fd, &st))
		return 0; /* faulting in will tell */
	has = (uint64_t)st.st_blocks * 512;
	more = bytes > has ? bytes - has : 0;
	if (kv_mul_u64(fs.f_bavail, (uint64_t)fs.f_bsize, &room))
		room = NONE;
	/* A file system of 0 blocks is a tmpfs or hugetlbfs with no limit. */
	if (fs.f_blocks && room < more) {
		snprintf(err, errlen,
			 "a pool of %s does not fit: the file system of %s has "
			 "%s left; ask for less, or make room there",
			 kv_str_size_format(want, sizeof(want), bytes),
			 file->path,
			 kv_str_size_format(left, sizeof(left), room));
		return -ENOSPC;
	}
	if (fs.f_type == HUGETLBFS_MAGIC)
		return kv_room_check_huge(root, more, err, errlen);
	if (fs.f_type == TMPFS_MAGIC)
		return kv_room_check(root, more, err, errlen);
	return 0;
}

/* ---- locked memory ---- */

/* The first line that begins so, without that; false: there is none. */
static bool
read_after(const char *root, int pid, const char *file, const char *begin,
	   char *line, size_t n)
{
	char path[64];
	FILE *f KV_CLEANUP(cleanup_file) = NULL;
	size_t len = strlen(begin);

	if (pid)
		snprintf(path, sizeof(path), "/proc/%d/%s", pid, file);
	else
		snprintf(path, sizeof(path), "/proc/self/%s", file);
	f = open_text(root, path);
	while (f && fgets(line, (int)n, f)) {
		if (strncmp(line, begin, len) != 0)
			continue;
		memmove(line, line + len, strlen(line + len) + 1);
		return true;
	}
	return false;
}

/* The kernel asks for the capability in the first user name space: root of a
 * container that has its own is nobody there. */
static bool
may_lock_any(const char *root, int pid)
{
	char line[256];

	if (!read_after(root, pid, "status", "CapEff:", line, sizeof(line)) ||
	    !(strtoull(line, NULL, 16) >> CAP_IPC_LOCK & 1))
		return false;
	return !read_after(root, pid, "uid_map", "", line, sizeof(line)) ||
	       strstr(line, " 4294967295") != NULL;
}

uint64_t
kv_room_lockable(const char *root, int pid)
{
	char line[256], *end;
	uint64_t limit;

	if (!read_after(root, pid, "limits", "Max locked memory", line,
			sizeof(line)) ||
	    may_lock_any(root, pid))
		return NONE;
	limit = strtoull(line, &end, 10);
	return end == line ? NONE : limit; /* "unlimited" */
}

int
kv_room_check_locked(const char *root, int pid, uint64_t bytes,
		     unsigned devices, char *err, size_t errlen)
{
	uint64_t limit = kv_room_lockable(root, pid), need;
	char pool[16], want[16], may[16];

	if (kv_mul_u64(bytes, devices, &need))
		need = NONE;
	if (limit >= need)
		return 0;
	snprintf(err, errlen,
		 "%u RDMA device%s want%s a pool of %s locked, %s in all, but "
		 "the limit of locked memory is %s; `ulimit -l unlimited` in "
		 "the shell that starts it, LimitMEMLOCK=infinity in its "
		 "systemd unit, in Kubernetes the capability IPC_LOCK in the "
		 "container's securityContext, or LimitMEMLOCK=infinity for "
		 "the containerd of the host",
		 devices, devices == 1 ? "" : "s", devices == 1 ? "s" : "",
		 kv_str_size_format(pool, sizeof(pool), bytes),
		 kv_str_size_format(want, sizeof(want), need),
		 kv_str_size_format(may, sizeof(may), limit));
	return -ENOMEM;
}
