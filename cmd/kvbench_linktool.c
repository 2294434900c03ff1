/* Programs of perftest, run by both sides at once: what the device does by
 * itself. */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <sysexits.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/num.h"
#include "cli/perftest.h"
#include "cli/tool.h"
#include "cmd/kvbench_link.h"
#include "cmd/kvbench_linkctl.h"
#include "svc/floorcore.h"

#define LISTEN_NS   (5 * KV_NS_PER_S)
#define LOOK_NS     5000000
#define LARGE_BYTES (1u << 20)
#define RATE_BYTES  (64u << 10) /* from here on bytes a second count */

enum {
	OUTPUT_BYTES = 32768,
	CALLS_MIN = 20,
	CALLS_MAX = 100000,
	TRIES = 3, /* it counts cycles, and at times gives no number */
	ARGS_MAX = 24,
};

static const struct tool {
	const char *program;
	const char *events; /* sleeps, as we do, where it can */
	bool is_latency;
} tools[] = {
	{ "ib_write_bw", NULL, false },
	{ "ib_read_bw", "-e", false },
	{ "ib_send_bw", "-e", false },
	{ "ib_send_lat", "-e", true },
};

/* Both sides find the same one. Of sends it is time that counts where one that
 * is small is under way. */
static const struct tool *
tool_of(uint64_t op, uint64_t bytes, uint64_t depth)
{
	if (op == KVBENCH_LINK_SEND)
		return &tools[bytes < RATE_BYTES && depth == 1 ? 3 : 2];
	return &tools[op == KVBENCH_LINK_READ];
}

static uint64_t
now_ns(void)
{
	return kv_clock_now(&(struct kv_clock){ 0 });
}

static void
look_again(void)
{
	nanosleep(&(struct timespec){ .tv_nsec = LOOK_NS }, NULL);
}

/* ---- a process ---- */

struct args {
	const char *v[ARGS_MAX];
	char numbers[5][24];
	unsigned n;
};

static void
arg_number(struct args *a, unsigned i, const char *option, uint64_t v)
{
	snprintf(a->numbers[i], sizeof(a->numbers[i]), "%llu",
		 (unsigned long long)v);
	a->v[a->n++] = option;
	a->v[a->n++] = a->numbers[i];
}

static void
args_make(struct args *a, const struct kvbench_tool *t, const char *host)
{
	const struct tool *tool = tool_of(t->op, t->bytes, t->depth);

	*a = (struct args){ .v = { tool->program, "-F", "--report_gbits" },
			    .n = tool->is_latency ? 2 : 3 };
	if (tool->events)
		a->v[a->n++] = tool->events;
	a->v[a->n++] = "-d";
	a->v[a->n++] = t->device->name;
	arg_number(a, 0, "-p", t->port);
	arg_number(a, 1, "-s", t->bytes);
	arg_number(a, 2, "-n", t->calls);
	if (!tool->is_latency)
		arg_number(a, 3, "-t", t->depth);
	if (t->device->gid_index >= 0)
		arg_number(a, 4, "-x", (uint64_t)t->device->gid_index);
	if (host)
		a->v[a->n++] = host;
}

/* Its output goes to `out`; -1: nowhere. No fork: a child has none of the
 * memory that NICs know. The process, or -errno: -ENOENT: it is not installed.
 */
static int
run(const struct args *a, int out)
{
	posix_spawn_file_actions_t files;
	char *argv[ARGS_MAX + 1] = { 0 };
	pid_t pid = 0;
	int rc;

	for (unsigned i = 0; i < a->n; i++)
		memcpy(&argv[i], &a->v[i], sizeof(argv[i]));
	rc = posix_spawn_file_actions_init(&files);
	if (rc)
		return -rc;
	if (out >= 0)
		posix_spawn_file_actions_adddup2(&files, out, STDOUT_FILENO);
	else
		posix_spawn_file_actions_addopen(&files, STDOUT_FILENO,
						 "/dev/null", O_WRONLY, 0);
	posix_spawn_file_actions_adddup2(&files, STDOUT_FILENO, STDERR_FILENO);
	rc = posix_spawnp(&pid, a->v[0], &files, NULL, argv, environ);
	posix_spawn_file_actions_destroy(&files);
	return rc ? -rc : pid;
}

/* ---- the listening side ---- */

static int
socket_at(uint16_t port)
{
	const struct sockaddr_in a = { .sin_family = AF_INET,
				       .sin_port = htons(port) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;

	if (fd < 0)
		return -errno;
	/* Then what is bound and does not listen is in nobody's way. */
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (bind(fd, (const struct sockaddr *)&a, sizeof(a)) == 0)
		return fd;
	on = errno;
	close(fd);
	return -on;
}

static uint16_t
free_port(void)
{
	struct sockaddr_in a = { 0 };
	socklen_t len = sizeof(a);
	int fd = socket_at(0);

	if (fd < 0)
		return 0;
	if (getsockname(fd, (struct sockaddr *)&a, &len) < 0)
		a.sin_port = 0;
	close(fd);
	return ntohs(a.sin_port);
}

static bool
is_listening(uint16_t port)
{
	int fd = socket_at(port);

	if (fd >= 0)
		close(fd);
	return fd == -EADDRINUSE;
}

/* What failed without our seeing why, for whoever wants to try it. */
static void
tell_command(const struct args *a)
{
	fprintf(stderr, "kvbench: ended before it listened:");
	for (unsigned i = 0; i < a->n; i++)
		fprintf(stderr, " %s", a->v[i]);
	fprintf(stderr, "\n");
}

int
kvbench_tool_listen(struct kvbench_tool *t)
{
	uint64_t start = now_ns();
	struct args a;
	int pid;

	if (t->op > KVBENCH_LINK_SEND || t->bytes == 0 ||
	    t->bytes > KVBENCH_LINK_BYTES_MAX || t->calls < CALLS_MIN ||
	    t->calls > CALLS_MAX || t->depth == 0 ||
	    t->depth > KVBENCH_LINK_DEPTH_MAX)
		return -EINVAL;
	t->port = free_port();
	if (t->port == 0)
		return -EADDRNOTAVAIL;
	args_make(&a, t, NULL);
	pid = run(&a, -1);
	if (pid < 0)
		return pid;
	t->pid = pid;
	while (!is_listening(t->port)) {
		if (waitpid(t->pid, NULL, WNOHANG) == t->pid) {
			t->pid = 0;
			tell_command(&a);
			return -EIO;
		}
		if (now_ns() - start > LISTEN_NS)
			return -ETIMEDOUT;
		look_again();
	}
	return 0;
}

void
kvbench_tool_end(struct kvbench_tool *t)
{
	kv_floor_io_end(t->pid);
	t->pid = 0;
}

/* ---- the side that measures ---- */

/* Until it ends, or there is too much, or it takes too long. */
static void
output_read(int fd, char *buf, uint64_t end_ns)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	size_t len = 0;
	ssize_t n = 1;

	while (n > 0 && len < OUTPUT_BYTES - 1 && now_ns() < end_ns) {
		if (poll(&p, 1, 100) <= 0)
			continue;
		n = read(fd, buf + len, OUTPUT_BYTES - 1 - len);
		len += n > 0 ? (size_t)n : 0;
	}
	buf[len] = '\0';
}

static int
measure(const struct kvbench_link_job *r, const struct kvbench_tool *t,
	char *text)
{
	uint64_t end = now_ns() + r->l->timeout_ms * UINT64_C(1000000);
	struct args a;
	int out[2], pid;

	if (pipe2(out, O_CLOEXEC) < 0)
		return -errno;
	args_make(&a, t, r->host);
	pid = run(&a, out[1]);
	close(out[1]);
	if (pid > 0)
		output_read(out[0], text, end);
	kv_floor_io_end(pid);
	close(out[0]);
	return pid > 0 ? 0 : pid;
}

static int
parse(const struct kvbench_link_cell *cell, const char *text,
      struct kvbench_link_sum *sum)
{
	struct kv_perftest_lat lat;
	struct kv_perftest_bw bw;

	if (tool_of(cell->op, cell->size, cell->depth)->is_latency) {
		if (kv_perftest_lat(text, &lat) < 0)
			return -EINVAL;
		sum->kind = KVBENCH_LINK_TIMES;
		sum->p50_ns = lat.typical_ns;
		sum->p99_ns = lat.p99_ns;
		if (lat.max_ns > sum->max_ns)
			sum->max_ns = lat.max_ns;
		return 0;
	}
	if (kv_perftest_bw(text, &bw) < 0)
		return -EINVAL;
	/* Each of the two has but a few digits. */
	if (cell->size >= LARGE_BYTES)
		bw.calls_per_s = bw.bytes_per_s / (double)cell->size;
	sum->kind = KVBENCH_LINK_RATES;
	sum->calls += (uint64_t)(bw.calls_per_s * 1000);
	sum->ns += 1000 * KV_NS_PER_S;
	return 0;
}

static int
failed(const struct kvbench_link_way *w, const struct kvbench_link_cell *cell,
       const char *why)
{
	return kv_tool_say(EX_UNAVAILABLE, "%s: %s: %s", w->run->peer,
			   tool_of(cell->op, cell->size, cell->depth)->program,
			   why);
}

/* The last line that it wrote is why. */
static const char *
last_line(char *text)
{
	size_t n = strlen(text);
	char *line;

	while (n > 0 && text[n - 1] == '\n')
		text[--n] = '\0';
	line = strrchr(text, '\n');
	line = line ? line + 1 : text;
	return *line ? line : "it said nothing";
}

static int
take(struct kvbench_link_way *w, const struct kvbench_link_cell *cell,
     struct kvbench_link_sum *sum)
{
	struct kvbench_link_job *r = w->run;
	const struct kv_rdmadev *device =
		kvbench_tool_device(r->devices, r->n_devices, w->device);
	double calls = r->rate * (double)cell->time_ns / 1e9;
	uint64_t v[4] = { cell->op + 256 * (uint64_t)w->device, cell->size,
			  kv_max_u64(kv_min_u64((uint64_t)calls, CALLS_MAX),
				     kv_max_u64(CALLS_MIN, cell->depth)),
			  cell->depth };
	struct kvbench_tool t = { cell->op, v[1], v[2], v[3], device, 0, 0 };
	char text[OUTPUT_BYTES] = "";
	uint64_t port[2];
	int rc = -EINVAL;

	for (int i = 0; i < TRIES && rc == -EINVAL; i++) {
		rc = kvbench_ctl_ask(r->ctl, KVBENCH_CTL_TOOL, v, port);
		if (rc)
			return failed(w, cell,
				      rc == -ENOENT ? "not installed on the "
						      "other side"
						    : strerror(-rc));
		t.port = (uint16_t)port[0];
		rc = measure(r, &t, text);
		if (rc == 0)
			rc = parse(cell, text, sum);
	}
	if (rc == -EINVAL)
		return failed(w, cell, last_line(text));
	return rc ? failed(w, cell, strerror(-rc)) : 0;
}

static bool
takes(const struct kvbench_link_way *w, const struct kvbench_link_cell *cell)
{
	(void)w;
	return cell->op != KVBENCH_LINK_SEND ||
	       cell->size <= KVBENCH_LINK_SEND_MAX;
}

const struct kv_rdmadev *
kvbench_tool_device(const struct kv_rdmadev *list, long n, uint64_t number)
{
	const char *last = "";

	for (long i = 0; i < n; i++) {
		if (!list[i].is_usable || !list[i].is_wanted ||
		    strcmp(list[i].name, last) == 0)
			continue;
		if (number-- == 0)
			return &list[i];
		last = list[i].name;
	}
	return NULL;
}

/* On this side of the path: execvp() would look there, too. */
static bool
is_installed(const char *program)
{
	const char *path = getenv("PATH");
	char list[4096], file[4200], *save = NULL, *dir;

	snprintf(list, sizeof(list), "%s", path ? path : "/usr/bin");
	for (dir = strtok_r(list, ":", &save); dir;
	     dir = strtok_r(NULL, ":", &save)) {
		snprintf(file, sizeof(file), "%s/%s", dir, program);
		if (access(file, X_OK) == 0)
			return true;
	}
	return false;
}

/* A rail stands beside its own device. */
static void
tool_add(struct kvbench_link_job *r, unsigned number, bool is_alone)
{
	const char *device =
		kvbench_tool_device(r->devices, r->n_devices, number)->name;
	char path[KVBENCH_LINK_NAME_BYTES + 16];
	struct kvbench_link_way *w;

	snprintf(path, sizeof(path), "perftest:%s", device);
	w = kvbench_link_way(r, is_alone ? "perftest" : path);
	w->take = take;
	w->takes = takes;
	w->device = number;
	for (unsigned i = 0; i < r->n_ways; i++)
		if (r->ways[i].is_rdma && strcmp(r->ways[i].path, device) == 0)
			r->ways[i].floor = w->path;
}

int
kvbench_tool_open(struct kvbench_link_job *r)
{
	unsigned n = 0;

	while (n < KVBENCH_LINK_PATHS_MAX &&
	       kvbench_tool_device(r->devices, r->n_devices, n))
		n++;
	if (n == 0)
		return kv_tool_say(EX_UNAVAILABLE, "--perftest: %s",
				   *r->no_rdma ? r->no_rdma
					       : "no RDMA device is wanted");
	if (r->far_devices == 0)
		return kv_tool_say(EX_UNAVAILABLE,
				   "--perftest: the other side was started "
				   "without it, or has no RDMA device");
	for (size_t i = 0; i < sizeof(tools) / sizeof(tools[0]); i++)
		if (!is_installed(tools[i].program))
			return kv_tool_say(EX_UNAVAILABLE,
					   "--perftest: %s is not installed",
					   tools[i].program);
	for (unsigned i = 0; i < n && i < r->far_devices; i++)
		tool_add(r, i, n == 1);
	return 0;
}
