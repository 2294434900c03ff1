#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/num.h"
#include "base/str.h"
#include "mem/room.h"
#include "svc/doctor.h"
#include "xfer/devlist.h"

/* A kvclient or an engine of a large pool has some hundred connections. */
#define FILES_MIN 1024

static FILE *
open_text(const char *root, const char *path)
{
	char full[PATH_MAX];

	snprintf(full, sizeof(full), "%s%s", root, path);
	return fopen(full, "re");
}

/* The soft limit of that name, as in /proc/PID/limits; pid 0: this process.
 * UINT64_MAX: unlimited, or not known. */
static uint64_t
limit_of(const char *root, int pid, const char *name)
{
	char path[64] = "/proc/self/limits", line[256], *end;
	uint64_t limit = UINT64_MAX, v;
	FILE *f;

	if (pid)
		snprintf(path, sizeof(path), "/proc/%d/limits", pid);
	f = open_text(root, path);
	while (f && fgets(line, sizeof(line), f)) {
		if (strncmp(line, name, strlen(name)) != 0)
			continue;
		v = strtoull(line + strlen(name), &end, 10);
		if (end != line + strlen(name))
			limit = v;
	}
	if (f)
		fclose(f);
	return limit;
}

/* ---- memory ---- */

static const char *
size_text(char buf[16], uint64_t bytes)
{
	return kv_str_size_format(buf, 16, bytes);
}

/* err: "what is wrong; what to do". */
static void
say_refusal(struct kv_doctor *d, enum kv_doctor_level level, const char *check,
	    char *err)
{
	char *advice = strstr(err, "; ");

	if (advice)
		*advice = '\0';
	kv_doctor_say(d, level, check, advice ? advice + 2 : "", "%s", err);
}

static void
check_running(struct kv_doctor *d, const struct kv_doctor_host *h)
{
	uint64_t left = kv_room_memory_of(h->root, h->node_pid);
	uint64_t need = h->node_unready + kv_room_spare(h->node_bytes);
	char pool[16], rest[16], unready[16];

	size_text(pool, h->node_bytes);
	size_text(rest, left);
	size_text(unready, h->node_unready);
	if (left >= need)
		kv_doctor_say(d, KV_DOCTOR_OK, "memory", "",
			      "the kvclient of this host has a pool of %s (%s "
			      "of it still to come), and %s are left",
			      pool, unready, rest);
	else
		kv_doctor_say(d, KV_DOCTOR_FAULT, "memory",
			      "give it a smaller --global-segment-size, or the "
			      "container more memory",
			      "the kvclient of this host has a pool of %s (%s "
			      "of it still to come), but only %s are left to "
			      "this machine or its control group",
			      pool, unready, rest);
}

static void
check_configured(struct kv_doctor *d, const struct kv_doctor_host *h)
{
	char size[16], left[16], err[KV_DOCTOR_TEXT_BYTES];
	int rc;

	size_text(left, kv_room_memory(h->root));
	if (!h->pool_bytes) {
		kv_doctor_say(d, KV_DOCTOR_OK, "memory", "",
			      "%s are left on this machine, in its control "
			      "group",
			      left);
		return;
	}
	rc = h->is_huge
		     ? kv_room_check_huge(h->root, h->pool_bytes, err,
					  sizeof(err))
		     : kv_room_check(h->root, h->pool_bytes, err, sizeof(err));
	if (rc < 0)
		say_refusal(d, KV_DOCTOR_FAULT,
			    h->is_huge ? "huge pages" : "memory", err);
	else
		kv_doctor_say(d, KV_DOCTOR_OK,
			      h->is_huge ? "huge pages" : "memory", "",
			      "the configured pool of %s fits, %s are left",
			      size_text(size, h->pool_bytes), left);
}

/* The room of the file system on which the pool file lies, /dev/shm say. */
static void
check_pool_file(struct kv_doctor *d, const struct kv_doctor_host *h)
{
	char path[PATH_MAX], size[16], err[KV_DOCTOR_TEXT_BYTES], *slash;
	struct kv_room_file file = { .path = h->pool_file };
	int fd, rc;

	snprintf(path, sizeof(path), "%s", h->pool_file);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 && errno == ENOENT) {
		/* It will be made there. */
		slash = strrchr(path, '/');
		snprintf(slash ? slash + 1 : path, 2, "%s", slash ? "" : ".");
		fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	}
	if (fd < 0) {
		kv_doctor_say(d, KV_DOCTOR_FAULT, "pool file",
			      "name another place, or make this one",
			      "%s: cannot be opened: %m", h->pool_file);
		return;
	}
	file.fd = fd;
	rc = kv_room_check_file(h->root, &file, h->pool_bytes, err,
				sizeof(err));
	close(fd);
	if (rc < 0)
		say_refusal(d, KV_DOCTOR_FAULT, "pool file", err);
	else
		kv_doctor_say(d, KV_DOCTOR_OK, "pool file", "",
			      "%s has room for the configured pool of %s",
			      h->pool_file, size_text(size, h->pool_bytes));
}

static void
check_memory(struct kv_doctor *d, const struct kv_doctor_host *h)
{
	if (h->node_pid)
		check_running(d, h);
	else if (h->pool_bytes && *h->pool_file)
		check_pool_file(d, h);
	else
		check_configured(d, h);
}

/* Entries of a folder; 0: it is not there, or may not be read. */
static uint64_t
count_entries(const char *root, const char *path)
{
	char full[PATH_MAX];
	struct dirent *e;
	uint64_t n = 0;
	DIR *dir;

	snprintf(full, sizeof(full), "%s%s", root, path);
	dir = opendir(full);
	while (dir && (e = readdir(dir)))
		n += e->d_name[0] != '.';
	if (dir)
		closedir(dir);
	return n;
}

/* ---- RDMA ---- */

static const char devices_check[] = "RDMA devices";

/* One line a port that is wanted and short of something. Gives how many can be
 * used. */
static unsigned
check_ports(struct kv_doctor *d, const struct kv_doctor_host *h)
{
	unsigned usable = 0;

	for (long i = 0; i < h->n_ports; i++) {
		const struct kv_rdmadev *p = &h->ports[i];
		char text[KV_DOCTOR_TEXT_BYTES], port[16] = "";

		usable += p->is_usable;
		if (!*p->why || !p->is_wanted)
			continue;
		if (p->port)
			snprintf(port, sizeof(port), " port %u", p->port);
		snprintf(text, sizeof(text), "%s%s: %s", p->name, port, p->why);
		say_refusal(d, p->is_usable ? KV_DOCTOR_OK : KV_DOCTOR_WARNING,
			    devices_check, text);
	}
	return usable;
}

/* None is used, for that reason. */
static void
say_none(struct kv_doctor *d, const struct kv_doctor_host *h, const char *why)
{
	if (h->is_must)
		kv_doctor_say(d, KV_DOCTOR_FAULT, devices_check,
			      "say --protocol=auto, or see TROUBLE in "
			      "kvpool-rdma(7)",
			      "%s, and --protocol=rdma wants one", why);
	else if (h->is_wished)
		kv_doctor_say(d, KV_DOCTOR_WARNING, devices_check,
			      "\"protocol\": \"auto\" says nothing, or see "
			      "TROUBLE in kvpool-rdma(7)",
			      "%s, and protocol rdma in the file wants one",
			      why);
	else
		kv_doctor_say(d, KV_DOCTOR_OK, devices_check, "", "%s", why);
}

static void
check_devices(struct kv_doctor *d, const struct kv_doctor_host *h)
{
	char text[KV_DOCTOR_TEXT_BYTES];
	unsigned usable;

	if (!h->wanted) {
		snprintf(text, sizeof(text), "none is wanted: %s",
			 h->why_none ? h->why_none : "the protocol is tcp");
		say_none(d, h, text);
		return;
	}
	if (h->n_ports < 0 && count_entries(h->root, "/sys/class/infiniband")) {
		snprintf(text, sizeof(text), "%s", h->ports_why);
		say_refusal(d, h->is_must ? KV_DOCTOR_FAULT : KV_DOCTOR_WARNING,
			    devices_check, text);
		return;
	}
	if (h->n_ports >= 0 &&
	    kv_devlist_check(h->wanted, h->ports, (size_t)h->n_ports, text,
			     sizeof(text)) < 0) {
		say_refusal(d, KV_DOCTOR_WARNING, devices_check, text);
	} else if (h->n_ports <= 0) {
		say_none(d, h, "there is none");
		return;
	}
	usable = check_ports(d, h);
	if (usable)
		kv_doctor_say(d, KV_DOCTOR_OK, devices_check, "",
			      "%u port%s can be used", usable,
			      usable == 1 ? "" : "s");
	else if (h->is_must || h->is_wished)
		say_none(d, h, "no port can be used");
}

/* ---- limits ---- */

static void
check_locked(struct kv_doctor *d, const struct kv_doctor_host *h)
{
	uint64_t bytes = h->node_pid ? h->node_bytes : h->pool_bytes;
	uint64_t limit = kv_room_lockable(h->root, h->node_pid);
	char text[16] = "unlimited", size[16], err[KV_DOCTOR_TEXT_BYTES];
	unsigned devices = 0;

	if (h->wanted && h->n_ports > 0)
		devices = kv_devlist_usable(h->ports, (size_t)h->n_ports);
	if (limit != UINT64_MAX)
		size_text(text, limit);
	if (!devices && bytes > limit)
		kv_doctor_say(d, KV_DOCTOR_OK, "locked memory", "",
			      "the limit (%s) does not matter: there is no "
			      "RDMA device to use; each would want the pool of "
			      "%s locked",
			      text, size_text(size, bytes));
	else if (!devices)
		kv_doctor_say(d, KV_DOCTOR_OK, "locked memory", "",
			      "the limit (%s) does not matter: there is no "
			      "RDMA device to use",
			      text);
	else if (kv_room_check_locked(h->root, h->node_pid, bytes, devices, err,
				      sizeof(err)) < 0)
		say_refusal(d, KV_DOCTOR_WARNING, "locked memory", err);
	else
		kv_doctor_say(d, KV_DOCTOR_OK, "locked memory", "",
			      "the limit is %s", text);
}

static void
check_files(struct kv_doctor *d, const struct kv_doctor_host *h)
{
	static const char raise[] = "`ulimit -n 65536` before it starts, or "
				    "LimitNOFILE=65536 in its unit";
	uint64_t own = limit_of(h->root, 0, "Max open files"), limit, used;
	char path[64];

	if (h->node_pid) {
		snprintf(path, sizeof(path), "/proc/%d/fd", h->node_pid);
		limit = limit_of(h->root, h->node_pid, "Max open files");
		used = count_entries(h->root, path);
		if (limit < FILES_MIN || used >= limit - limit / 10) {
			kv_doctor_say(
				d,
				used >= limit - limit / 10 ? KV_DOCTOR_FAULT
							   : KV_DOCTOR_WARNING,
				"descriptors", raise,
				"the kvclient of this host has %" PRIu64
				" open of the %" PRIu64 " that it may have",
				used, limit);
			return;
		}
	}
	if (own < FILES_MIN)
		kv_doctor_say(d, KV_DOCTOR_WARNING, "descriptors", raise,
			      "what is started here may have %" PRIu64
			      " open, %d are little enough",
			      own, FILES_MIN);
	else
		kv_doctor_say(d, KV_DOCTOR_OK, "descriptors", "",
			      "what is started here may have %" PRIu64 " open",
			      own);
}

static void
check_ptrace(struct kv_doctor *d, const struct kv_doctor_host *h)
{
	FILE *f = open_text(h->root, "/proc/sys/kernel/yama/ptrace_scope");
	int scope = f ? fgetc(f) : '0';

	if (f)
		fclose(f);
	if (scope == '0')
		kv_doctor_say(d, KV_DOCTOR_OK, "raw transfers", "",
			      "processes of one user may copy each other's "
			      "memory");
	else if (scope == '1')
		kv_doctor_say(d, KV_DOCTOR_OK, "raw transfers", "",
			      "ptrace_scope is 1: memory that an engine "
			      "allocated itself goes over TCP, unless it "
			      "allows it (allow_ptracer)");
	else
		kv_doctor_say(d, KV_DOCTOR_WARNING, "raw transfers",
			      "`sysctl kernel.yama.ptrace_scope=1`, or memory "
			      "of kv_engine_alloc()",
			      "ptrace_scope is %c: between engines of this "
			      "host bytes go over TCP",
			      scope);
}

void
kv_doctor_host(struct kv_doctor *d, const struct kv_doctor_host *h)
{
	check_memory(d, h);
	check_devices(d, h);
	check_locked(d, h);
	check_files(d, h);
	check_ptrace(d, h);
}

int
kv_doctor_pid(const char *socket_path)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	size_t len = strlen(socket_path);
	socklen_t n = sizeof(struct ucred);
	struct ucred who = { 0 };
	int fd;

	if (len == 0 || len >= sizeof(sa.sun_path))
		return 0;
	memcpy(sa.sun_path, socket_path, len);
	if (sa.sun_path[0] == '@')
		sa.sun_path[0] = '\0';
	else
		len++;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return 0;
	if (connect(fd, (struct sockaddr *)&sa,
		    (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len)) <
		    0 ||
	    getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &n) < 0)
		who.pid = 0;
	close(fd);
	return who.pid;
}
