/* What stands beside the paths: one plain TCP stream that goes the same way,
 * and copies. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/tool.h"
#include "cmd/kvbench_link.h"
#include "cmd/kvbench_linkctl.h"
#include "svc/floorcore.h"

static uint64_t
now_ns(void)
{
	return kv_clock_now(&(struct kv_clock){ 0 });
}

/* ---- a stream ---- */

/* Orders go ahead of their answers, as many as the cell is deep. */
struct flow {
	int fd;
	char *buf;
	const struct kvbench_link_cell *cell;
	bool is_give;
	uint64_t sent, done;
	uint64_t at_ns[KVBENCH_LINK_DEPTH_MAX];
};

static char *
slot(const struct flow *f, uint64_t n)
{
	return f->buf + n % f->cell->slots * f->cell->stride;
}

static int
flow_send(struct flow *f, uint64_t now)
{
	const uint64_t v[4] = { f->cell->size };
	int rc;

	f->at_ns[f->sent % f->cell->depth] = now;
	rc = kvbench_ctl_order(
		f->fd, f->is_give ? KVBENCH_CTL_GIVE : KVBENCH_CTL_TAKE, v);
	if (rc == 0 && f->is_give)
		rc = kvbench_ctl_send(f->fd, slot(f, f->sent), f->cell->size);
	f->sent++;
	return rc;
}

static int
flow_recv(struct flow *f, struct kv_hist *hist)
{
	struct kvbench_ctl_answer a;
	int rc = f->is_give ? kvbench_ctl_recv(f->fd, &a, sizeof(a))
			    : kvbench_ctl_recv(f->fd, slot(f, f->done),
					       f->cell->size);

	if (rc < 0)
		return rc;
	kv_hist_add(hist, now_ns() - f->at_ns[f->done % f->cell->depth]);
	f->done++;
	return 0;
}

static int
flow_run(struct flow *f, uint64_t start, struct kvbench_link_sum *sum)
{
	uint64_t now = start;
	bool is_over;
	int rc = 0;

	while (rc == 0) {
		is_over = now - start >= f->cell->time_ns;
		if (!is_over && f->sent - f->done < f->cell->depth)
			rc = flow_send(f, now);
		else if (f->sent > f->done)
			rc = flow_recv(f, &sum->hist);
		else
			break;
		now = now_ns();
	}
	return rc;
}

static int
far_cpu(struct kvbench_link_job *r, uint64_t *ns)
{
	uint64_t v[2];
	int rc = kvbench_ctl_ask(r->ctl, KVBENCH_CTL_CPU, NULL, v);

	*ns = v[0];
	return rc;
}

int
kvbench_floor_take(struct kvbench_link_way *w,
		   const struct kvbench_link_cell *cell,
		   struct kvbench_link_sum *sum)
{
	struct flow f = {
		.fd = w->run->ctl,
		.buf = w->run->buf,
		.cell = cell,
		.is_give = cell->op != KVBENCH_LINK_READ &&
			   cell->op != KVBENCH_LINK_GET,
	};
	uint64_t before = 0, after = 0, cpu, start;
	int rc = far_cpu(w->run, &before);

	cpu = kvbench_load_cpu_ns();
	start = now_ns();
	if (rc == 0)
		rc = flow_run(&f, start, sum);
	sum->ns += now_ns() - start;
	sum->cpu_ns += kvbench_load_cpu_ns() - cpu;
	if (rc == 0)
		rc = far_cpu(w->run, &after);
	if (rc < 0)
		return kv_tool_say(EX_UNAVAILABLE, "%s: stream: %s",
				   w->run->peer, strerror(-rc));
	sum->calls += f.done;
	sum->far_cpu_ns += after - before;
	sum->has_far_cpu = true;
	return 0;
}

/* ---- its other end, for a node of this host ---- */

static void
serve(int fd, uint64_t memory)
{
	char *buf = kvbench_load_memory(memory);
	struct kvbench_ctl_order o;
	int rc = buf ? 0 : -ENOMEM;
	uint64_t bytes;

	while (rc == 0 && kvbench_ctl_recv(fd, &o, sizeof(o)) == 0) {
		bytes = kv_get64(o.v[0]);
		if (kv_get64(o.type) == KVBENCH_CTL_GIVE)
			rc = kvbench_ctl_take_given(fd, buf, memory, bytes);
		else if (kv_get64(o.type) == KVBENCH_CTL_TAKE)
			rc = kvbench_ctl_give_taken(fd, buf, memory, bytes);
		else
			rc = kvbench_ctl_answer(fd, 0, kvbench_load_cpu_ns(),
						0);
	}
	_exit(0);
}

int
kvbench_floor_start(struct kvbench_link_job *r)
{
	int fds[2], rc = kv_floor_io_pair(fds);

	if (rc < 0)
		return kv_tool_say(EX_OSERR, "no stream: %s", strerror(-rc));
	r->floor_pid = kv_floor_io_fork();
	if (r->floor_pid == 0) {
		close(fds[0]);
		serve(fds[1], r->memory);
	}
	close(fds[1]);
	r->ctl = fds[0];
	kvbench_ctl_prepare(r->ctl, r->l->timeout_ms);
	return r->floor_pid > 0 ? 0
				: kv_tool_say(EX_OSERR, "no process for a "
							"stream");
}

void
kvbench_floor_end(struct kvbench_link_job *r)
{
	kv_floor_io_end(r->floor_pid);
	r->floor_pid = 0;
}

/* ---- copies ---- */

struct copies {
	struct kvbench_link_job *r;
	const struct kvbench_link_cell *cell;
};

static int
copy(void *arg, uint64_t n)
{
	const struct copies *c = arg;
	uint64_t at = n % c->cell->slots * c->cell->stride;

	memcpy(c->r->spare + at, c->r->buf + at, c->cell->size);
	return 0;
}

int
kvbench_floor_copy(struct kvbench_link_way *w,
		   const struct kvbench_link_cell *cell,
		   struct kvbench_link_sum *sum)
{
	struct copies c = { w->run, cell };
	struct kvbench_load load = {
		.depth = cell->depth,
		.time_ns = cell->time_ns,
		.call = copy,
		.arg = &c,
	};
	int rc = kvbench_load_run(&load, sum);

	return rc ? kv_tool_fail(rc) : 0;
}
