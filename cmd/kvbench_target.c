/* The other process of raw transfers: an engine with memory of both kinds. */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cmd/kvbench_run.h"

/* What it says of itself. */
struct told {
	uint16_t port;
	uint64_t any;
	uint64_t own;
};

static void *
target_memory(size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		return NULL;
	madvise(p, bytes, MADV_HUGEPAGE);
	memset(p, 1, bytes);
	return p;
}

static void
target_run(size_t bytes, int in, int out)
{
	const struct kv_engine_opts o = { .size = sizeof(o),
					  .listen = "127.0.0.1:0" };
	char err[256];
	struct kv_engine *e = kv_engine_open(&o, err, sizeof(err));
	void *any = target_memory(bytes);
	void *own = e ? kv_engine_alloc(e, bytes) : NULL;
	struct told t = { 0 };

	if (!any || !own || kv_engine_register(e, any, bytes) != 0)
		_exit(1);
	t.port = kv_engine_port(e);
	t.any = (uintptr_t)any;
	t.own = (uintptr_t)own;
	if (write(out, &t, sizeof(t)) != (ssize_t)sizeof(t) ||
	    read(in, &t, 1) != 0)
		_exit(1);
	kv_engine_close(e);
	_exit(0);
}

bool
kvbench_target_start(struct kvbench_target *t, size_t bytes)
{
	pid_t parent = getpid();
	int in[2], out[2];
	struct told told;
	bool heard;

	*t = (struct kvbench_target){ .in = -1 };
	if (pipe(in) < 0)
		return false;
	if (pipe(out) < 0) {
		close(in[0]);
		close(in[1]);
		return false;
	}
	t->pid = fork();
	if (t->pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(in[1]);
		close(out[0]);
		if (getppid() == parent)
			target_run(bytes, in[0], out[1]);
		_exit(1);
	}
	close(in[0]);
	close(out[1]);
	t->in = in[1];
	heard = t->pid > 0 &&
		read(out[0], &told, sizeof(told)) == (ssize_t)sizeof(told);
	close(out[0]);
	if (!heard)
		return false;
	t->port = told.port;
	t->any = told.any;
	t->own = told.own;
	return true;
}

void
kvbench_target_end(struct kvbench_target *t)
{
	if (t->in >= 0)
		close(t->in);
	while (t->pid > 0 && waitpid(t->pid, NULL, 0) < 0 && errno == EINTR)
		;
}
