/* A kvmaster and a kvclient that are there for a measurement only. They leave
 * nothing, however this process ends: their log is memory, their socket a name,
 * and they are told of its end. */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <sysexits.h>
#include <time.h>
#include <unistd.h>

#include "base/attr.h"
#include "base/clock.h"
#include "cmd/kvbench_run.h"

#define START_NS  (30 * KV_NS_PER_S)
#define STOP_NS   (120 * KV_NS_PER_S)
#define LOG_BYTES 8192

static void
pause_ms(long ms)
{
	nanosleep(&(struct timespec){ .tv_nsec = ms * 1000000 }, NULL);
}

/* ---- a process ---- */

/* Beside this program, or where it would be installed, or where PATH says. */
static void
program_run(char *const argv[])
{
	static const char *const places[] = { "", "../sbin/" };
	char path[4096];
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 64);
	char *end;
	size_t i;

	path[n < 0 ? 0 : n] = 0;
	end = strrchr(path, '/');
	for (i = 0; end && i < KV_ARRAY_LEN(places); i++) {
		snprintf(end + 1, 64, "%s%s", places[i], argv[0]);
		execv(path, argv);
	}
	execvp(argv[0], argv);
	fprintf(stderr, "cannot run it: %m\n");
}

static int
process_start(struct kvbench_process *p, char *const argv[], int netns)
{
	pid_t parent = getpid();

	p->name = argv[0];
	p->log = memfd_create("kvbench-log", MFD_CLOEXEC);
	p->pid = p->log < 0 ? -1 : fork();
	if (p->pid < 0) {
		fprintf(stderr, "kvbench: %s: %m\n", p->name);
		return EX_OSERR;
	}
	if (p->pid > 0)
		return 0;
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (getppid() == parent && dup2(p->log, 1) >= 0 &&
	    dup2(p->log, 2) >= 0 &&
	    (netns < 0 || setns(netns, CLONE_NEWNET) == 0)) {
		unsetenv("MOONCAKE_CONFIG_PATH");
		program_run(argv);
	}
	_exit(EX_OSERR);
}

/* What it said at first. */
static void
log_read(const struct kvbench_process *p, char buf[LOG_BYTES])
{
	ssize_t n = pread(p->log, buf, LOG_BYTES - 1, 0);

	buf[n < 0 ? 0 : n] = 0;
}

/* With its last line, for people. */
static int
process_complain(const struct kvbench_process *p, const char *what)
{
	off_t len = lseek(p->log, 0, SEEK_END);
	off_t from = len > LOG_BYTES - 1 ? len - (LOG_BYTES - 1) : 0;
	char buf[LOG_BYTES];
	ssize_t n = pread(p->log, buf, LOG_BYTES - 1, from);
	const char *line;

	for (n = n < 0 ? 0 : n; n > 0 && buf[n - 1] == '\n'; n--)
		;
	buf[n] = 0;
	line = strrchr(buf, '\n');
	fprintf(stderr, "kvbench: %s %s: %s\n", p->name, what,
		line ? line + 1 : buf);
	return EX_UNAVAILABLE;
}

/* Until it says "ready addr=ADDR ". */
static int
process_wait(struct kvbench_process *p, char *addr, size_t size)
{
	static const char mark[] = " ready addr=";
	uint64_t until = kvbench_now_ns() + START_NS;
	char buf[LOG_BYTES];
	const char *at;

	while (kvbench_now_ns() < until) {
		log_read(p, buf);
		at = strstr(buf, mark);
		if (at && strchr(at + strlen(mark), ' ')) {
			at += strlen(mark);
			snprintf(addr, size, "%.*s", (int)strcspn(at, " "), at);
			return 0;
		}
		if (waitpid(p->pid, NULL, WNOHANG) == p->pid) {
			p->pid = 0;
			return process_complain(p, "does not start");
		}
		pause_ms(5);
	}
	return process_complain(p, "is not ready within 30 s");
}

static bool
process_stop(struct kvbench_process *p)
{
	uint64_t until = kvbench_now_ns() + STOP_NS;
	int status = 0;

	if (!p->name)
		return true;
	if (p->pid > 0) {
		kill(p->pid, SIGTERM);
		while (waitpid(p->pid, &status, WNOHANG) == 0) {
			if (kvbench_now_ns() > until)
				kill(p->pid, SIGKILL);
			pause_ms(5);
		}
	}
	if (status != 0)
		process_complain(p, "did not end well");
	if (p->log >= 0)
		close(p->log);
	return status == 0;
}

/* ---- the two ---- */

static int
node_start(struct kvbench_own *o, const struct kvbench_own_opts *opts)
{
	char master[96], host[64], socket[96], size[64], addr[96];
	char *const argv[] = {
		(char[]){ "kvclient" },      master, host,
		(char[]){ "--port=0" },      socket, size,
		(char[]){ "--http-port=0" }, NULL,
	};
	int rc;

	snprintf(o->socket, sizeof(o->socket), "@kvbench-%d-%d", (int)getpid(),
		 o->master.pid);
	snprintf(master, sizeof(master), "--master=%s", o->addr);
	snprintf(host, sizeof(host), "--host=%s", opts->host);
	snprintf(socket, sizeof(socket), "--socket=%s", o->socket);
	snprintf(size, sizeof(size), "--global-segment-size=%llu",
		 (unsigned long long)opts->pool_bytes);
	o->started_ns = kvbench_now_ns();
	rc = process_start(&o->node, argv, opts->netns);
	o->node.name = "kvclient";
	return rc ? rc : process_wait(&o->node, addr, sizeof(addr));
}

int
kvbench_own_start(struct kvbench_own *o, const struct kvbench_own_opts *opts)
{
	char listen[64], ttl[64];
	char *const argv[] = {
		(char[]){ "kvmaster" },
		listen,
		ttl,
		(char[]){ "--rpc-port=0" },
		(char[]){ "--http-port=0" },
		NULL,
	};
	int rc;

	*o = (struct kvbench_own){ 0 };
	snprintf(listen, sizeof(listen), "--listen=%s", opts->host);
	snprintf(ttl, sizeof(ttl), "--client-ttl=%lluns",
		 (unsigned long long)opts->ttl_ns);
	rc = process_start(&o->master, argv, opts->netns);
	o->master.name = "kvmaster";
	if (rc == 0)
		rc = process_wait(&o->master, o->addr, sizeof(o->addr));
	return rc ? rc : node_start(o, opts);
}

bool
kvbench_own_stop(struct kvbench_own *o)
{
	bool is_good = process_stop(&o->node);

	is_good = process_stop(&o->master) && is_good;
	*o = (struct kvbench_own){ 0 };
	return is_good;
}

/* ---- what they cost ---- */

int64_t
kvbench_own_cpu_ns(const struct kvbench_process *p)
{
	struct timespec t;
	clockid_t clock;

	if (clock_getcpuclockid(p->pid, &clock) != 0 ||
	    clock_gettime(clock, &t) < 0)
		return -1;
	return t.tv_sec * (int64_t)KV_NS_PER_S + t.tv_nsec;
}

int64_t
kvbench_own_bytes(const struct kvbench_process *p)
{
	char path[64], line[256];
	long long kib = -1;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/status", p->pid);
	f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f))
		if (strncmp(line, "RssAnon:", 8) == 0)
			kib = strtoll(line + 8, NULL, 10);
	if (f)
		fclose(f);
	return kib < 0 ? -1 : kib * 1024;
}
