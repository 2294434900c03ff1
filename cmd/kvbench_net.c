/* Two network name spaces and a veth pair between them, as two hosts. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <sysexits.h>
#include <unistd.h>

#include "base/attr.h"
#include "cmd/kvbench_run.h"

/* ip(8) with these arguments, where this thread is. */
static bool
ip(const char *const *args)
{
	char *argv[16] = { (char[]){ "ip" } };
	int status = 1;
	unsigned i;
	pid_t pid;

	for (i = 0; args[i]; i++)
		argv[i + 1] = kv_unconst(args[i]);
	if (posix_spawnp(&pid, "ip", NULL, NULL, argv, environ) != 0)
		return false;
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return status == 0;
}

static bool
address_set(const char *device, const char *addr)
{
	const char *const add[] = { "addr", "add", addr, "dev", device, NULL };
	const char *const up[] = { "link", "set", device, "up", NULL };
	const char *const lo[] = { "link", "set", "lo", "up", NULL };

	return ip(add) && ip(up) && ip(lo);
}

static int
ns_open(void)
{
	return open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
}

/* This thread is in a new one; the other end of the link is in `far`. */
static bool
link_make(const struct kvbench_net *n, pid_t far_pid)
{
	char pid[16];
	const char *const add[] = { "link",  "add",  "kvb0", "type",
				    "veth",  "peer", "name", "kvb1",
				    "netns", pid,    NULL };
	int near = ns_open();
	bool is_good;

	snprintf(pid, sizeof(pid), "%d", (int)far_pid);
	is_good = near >= 0 && ip(add) && address_set("kvb0", "10.78.0.1/30") &&
		  setns(n->far, CLONE_NEWNET) == 0 &&
		  address_set("kvb1", KVBENCH_NET_FAR "/30");
	/* Where setns() fails the thread never left. */
	if (near >= 0) {
		is_good = setns(near, CLONE_NEWNET) == 0 && is_good;
		close(near);
	}
	return is_good;
}

/* ip(8) names a name space by a process in it: one that waits for that. */
static pid_t
holder_start(void)
{
	pid_t pid = fork();

	if (pid == 0)
		for (;;)
			pause();
	return pid;
}

int
kvbench_net_open(struct kvbench_net *n)
{
	bool is_good = false;
	pid_t pid = -1;

	n->far = -1;
	n->before = ns_open();
	if (n->before >= 0 && unshare(CLONE_NEWNET) == 0) {
		n->far = ns_open();
		pid = holder_start();
		is_good = n->far >= 0 && pid > 0 &&
			  unshare(CLONE_NEWNET) == 0 && link_make(n, pid);
	}
	if (!is_good)
		fprintf(stderr,
			"kvbench: no network name spaces, which take root and "
			"the program ip: %m\n");
	if (pid > 0) {
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
	}
	return is_good ? 0 : EX_NOPERM;
}

void
kvbench_net_close(struct kvbench_net *n)
{
	int rc = 0;

	if (n->before >= 0) {
		rc = setns(n->before, CLONE_NEWNET);
		close(n->before);
	}
	if (n->far >= 0)
		close(n->far);
	n->before = n->far = -1;
	assert(rc == 0); /* it came from there */
}
