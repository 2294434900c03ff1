#include "base/thread.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/attr.h"
#include "base/fault.h"

/* The least that the kernel takes. */
#define SLICE_NS 100000

/* As the kernel has it: not every libc does. */
struct attr {
	uint32_t size;
	uint32_t policy;
	uint64_t flags;
	int32_t nice;
	uint32_t priority;
	uint64_t runtime; /* of the usual policy: a slice */
	uint64_t deadline;
	uint64_t period;
};

static void
fill_mask(sigset_t *mask)
{
	static const int own[] = { SIGABRT, SIGBUS,  SIGFPE, SIGILL,
				   SIGSEGV, SIGTRAP, SIGSYS };

	sigfillset(mask);
	for (size_t i = 0; i < KV_ARRAY_LEN(own); i++)
		sigdelset(mask, own[i]);
}

int
kv_thread_start(pthread_t *thread, int cpu, void *(*run)(void *arg), void *arg)
{
	pthread_attr_t attr;
	cpu_set_t cpus;
	sigset_t mask;
	int err;

	err = pthread_attr_init(&attr);
	if (err)
		return -err;
	fill_mask(&mask);
	err = pthread_attr_setsigmask_np(&attr, &mask);
	if (!err && cpu != KV_THREAD_ANY_CPU) {
		CPU_ZERO(&cpus);
		CPU_SET((size_t)cpu, &cpus);
		err = pthread_attr_setaffinity_np(&attr, sizeof(cpus), &cpus);
	}
	if (!err)
		err = KV_FAULT_POINT()
			      ? EAGAIN
			      : pthread_create(thread, &attr, run, arg);
	pthread_attr_destroy(&attr);
	return -err;
}

void
kv_thread_run_soon(void)
{
	struct attr a;

	if (syscall(SYS_sched_getattr, 0, &a, sizeof(a), 0) != 0 ||
	    a.policy != SCHED_OTHER)
		return;
	a.runtime = SLICE_NS;
	(void)syscall(SYS_sched_setattr, 0, &a, 0);
}
