/* Processes of the simulated network, and the time in which they run. */

#include <stdlib.h>

#include "base/num.h"
#include "simpipe.h"

enum {
	IDLE_TURNS_MAX = 1000000,
};

static struct simnet_proc *
proc_find(struct simnet *sn, pid_t pid)
{
	struct simnet_proc *p;

	KV_LIST_FOREACH(p, &sn->procs, link)
		if (p->pid == pid)
			return p;
	return NULL;
}

struct kv_net *
simnet_process(struct simnet *sn, const char *host, pid_t pid)
{
	struct simnet_proc *p;

	assert(!proc_find(sn, pid));
	p = simpipe_alloc(sizeof(*p));
	p->net = simnet_calls;
	p->sn = sn;
	p->host = simnet_host_make(sn, host);
	p->pid = pid;
	p->loop = sn->loop;
	kv_list_init(&p->runner);
	kv_list_add_tail(&sn->procs, &p->link);
	return &p->net;
}

void
simnet_process_exit(struct simnet *sn, pid_t pid)
{
	struct simnet_proc *p = proc_find(sn, pid);
	struct simpipe_link *l;

	if (!p)
		return;
	p->dead = true;
	KV_LIST_FOREACH(l, &sn->links, link)
		for (int i = 0; i < 2; i++)
			if (l->ends[i].proc == p)
				simpipe_shut(&l->ends[i]);
	simnet_dials_end(p);
}

struct kv_loop *
simnet_process_loop(struct simnet *sn, pid_t pid)
{
	struct simnet_proc *p = proc_find(sn, pid);

	assert(p && p->loop == sn->loop);
	p->loop = kv_loop_new(sn->clock);
	assert(p->loop);
	kv_list_add_tail(&sn->runners, &p->runner);
	return p->loop;
}

void
simnet_process_stop(struct simnet *sn, pid_t pid, bool stop)
{
	struct simnet_proc *p = proc_find(sn, pid);

	assert(p && p->loop != sn->loop);
	p->stopped = stop;
}

void
simnet_procs_free(struct simnet *sn)
{
	struct simnet_proc *p;

	while ((p = KV_LIST_FIRST(&sn->procs, struct simnet_proc, link))) {
		kv_list_del(&p->link);
		kv_list_del(&p->runner);
		if (p->loop != sn->loop)
			kv_loop_free(p->loop);
		free(p);
	}
}

/* The loops of those that have ended. */
static void
loops_sweep(struct simnet *sn)
{
	struct simnet_proc *p, *tmp;

	KV_LIST_FOREACH_SAFE(p, tmp, &sn->runners, runner) {
		if (!p->dead || kv_loop_next(p->loop) != UINT64_MAX)
			continue;
		kv_list_del(&p->runner);
		kv_loop_free(p->loop);
		p->loop = sn->loop;
	}
}

static uint64_t
next_event(struct simnet *sn)
{
	uint64_t next = kv_loop_next(sn->loop);
	struct simnet_proc *p;

	KV_LIST_FOREACH(p, &sn->runners, runner)
		if (!p->stopped)
			next = kv_min_u64(next, kv_loop_next(p->loop));
	return next;
}

static void
turn(struct simnet *sn)
{
	struct simnet_proc *p;

	kv_loop_turn(sn->loop, 0);
	KV_LIST_FOREACH(p, &sn->runners, runner)
		if (!p->stopped && kv_loop_next(p->loop) <= sn->clock->ns)
			kv_loop_turn(p->loop, 0);
}

void
simnet_run(struct simnet *sn, uint64_t until_ns)
{
	unsigned idle = 0;

	loops_sweep(sn);
	for (;;) {
		uint64_t next = next_event(sn);

		if (next > until_ns)
			break;
		/* Somebody always finds something to do, and does nothing. */
		assert(idle < IDLE_TURNS_MAX);
		idle++;
		if (next > sn->clock->ns) {
			sn->clock->ns = next;
			idle = 0;
		}
		turn(sn);
	}
	sn->clock->ns = kv_max_u64(sn->clock->ns, until_ns);
}
