/* The other end is a `kvbench link --listen`: engines move bytes to and from
 * its memory, and it checks what came. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <time.h>
#include <unistd.h>

#include "base/num.h"
#include "base/str.h"
#include "cli/tool.h"
#include "cmd/kvbench_link.h"
#include "cmd/kvbench_linkctl.h"

#define BUSY_WAIT_NS 50000
#define MESSAGES_TOO ", messages too" /* in what an engine says of a path */

static const enum kvbench_link_op ops[] = { KVBENCH_LINK_WRITE,
					    KVBENCH_LINK_READ,
					    KVBENCH_LINK_SEND };

/* ---- calls ---- */

struct calls {
	const struct kvbench_link_way *w;
	const struct kvbench_link_cell *cell;
};

static int
transfer(const struct calls *c, enum kv_engine_op op, uint64_t n)
{
	const struct kvbench_link_job *r = c->w->run;
	uint64_t at = n % c->cell->slots * c->cell->stride;
	const struct kv_xfer_item item = {
		.local = r->buf + at,
		.remote = r->far + at,
		.len = c->cell->size,
	};

	return kv_engine_transfer(c->w->engine, op, r->peer, &item, 1, 0);
}

static int
call_write(void *arg, uint64_t n)
{
	return transfer(arg, KV_ENGINE_WRITE, n);
}

static int
call_read(void *arg, uint64_t n)
{
	return transfer(arg, KV_ENGINE_READ, n);
}

/* The queue of the other side is bounded. */
static int
call_send(void *arg, uint64_t n)
{
	const struct calls *c = arg;
	const struct kvbench_link_job *r = c->w->run;
	int rc;

	(void)n;
	while ((rc = kv_engine_notify(c->w->engine, r->peer, "kvbench", r->buf,
				      c->cell->size)) == -KV_EBUSY)
		nanosleep(&(struct timespec){ .tv_nsec = BUSY_WAIT_NS }, NULL);
	return rc;
}

static int (*const call_of[])(void *arg, uint64_t n) = {
	[KVBENCH_LINK_WRITE] = call_write,
	[KVBENCH_LINK_READ] = call_read,
	[KVBENCH_LINK_SEND] = call_send,
};

/* ---- ahead and after, the bytes are seen to ---- */

static int
failed(const struct kvbench_link_way *w, const struct kvbench_link_cell *cell,
       const char *what)
{
	char size[16];

	return kv_tool_say(EX_UNAVAILABLE, "%s: %s of %s by %s: %s",
			   w->run->peer, kvbench_link_op_names[cell->op],
			   kv_str_size_format(size, sizeof(size), cell->size),
			   w->path, what);
}

static int
ctl_failed(const struct kvbench_link_way *w,
	   const struct kvbench_link_cell *cell, int rc)
{
	return failed(w, cell,
		      rc == -ECONNRESET || rc == -EPIPE
			      ? "the other side has ended"
			      : strerror(-rc));
}

static int
prepare(const struct kvbench_link_way *w, const struct kvbench_link_cell *cell)
{
	const uint64_t v[4] = { cell->size, cell->stride, cell->slots,
				cell->seed };
	struct kvbench_link_job *r = w->run;
	int rc = 0;

	if (cell->op == KVBENCH_LINK_READ) {
		rc = kvbench_ctl_ask(r->ctl, KVBENCH_CTL_FILL, v, NULL);
	} else {
		kvbench_load_fill(r->buf, cell);
		if (cell->op == KVBENCH_LINK_SEND)
			rc = kvbench_ctl_ask(r->ctl, KVBENCH_CTL_NOTES, v,
					     NULL);
	}
	return rc ? ctl_failed(w, cell, rc) : 0;
}

static int
wrong(const struct kvbench_link_way *w, const struct kvbench_link_cell *cell)
{
	failed(w, cell, "wrong bytes arrived: its figures are worth nothing");
	return EX_SOFTWARE;
}

static int
check(const struct kvbench_link_way *w, const struct kvbench_link_cell *cell,
      uint64_t calls)
{
	const uint64_t v[4] = { cell->size, cell->stride, cell->slots,
				cell->seed };
	struct kvbench_link_job *r = w->run;
	bool is_good = false;
	uint64_t out[2];
	int rc = 0;

	switch (cell->op) {
	case KVBENCH_LINK_READ:
		is_good = kvbench_load_check(r->buf, cell) < 0;
		break;
	case KVBENCH_LINK_SEND:
		rc = kvbench_ctl_ask(r->ctl, KVBENCH_CTL_NOTED, NULL, out);
		is_good = rc == 0 && out[0] == calls && out[1] == 0;
		break;
	default:
		rc = kvbench_ctl_ask(r->ctl, KVBENCH_CTL_CHECK, v, out);
		is_good = rc == 0 && out[0] == cell->slots;
		break;
	}
	if (rc)
		return ctl_failed(w, cell, rc);
	return is_good ? 0 : wrong(w, cell);
}

/* ---- a round ---- */

/* First calls make connections, and do not count. */
static int
load(struct kvbench_link_way *w, const struct kvbench_link_cell *cell,
     struct kvbench_link_sum *sum, uint64_t *calls)
{
	struct calls c = { w, cell };
	struct kvbench_load first = {
		.depth = cell->depth,
		.time_ns = w->run->l->timeout_ms * UINT64_C(1000000),
		.calls_max = kv_max_u64(cell->slots, cell->depth),
		.call = call_of[cell->op],
		.arg = &c,
	};
	struct kvbench_load timed = first;
	uint64_t before[2] = { 0 }, after[2] = { 0 };
	int status, rc = 0;

	timed.time_ns = cell->time_ns;
	timed.calls_max = 0;
	status = kvbench_load_run(&first, NULL);
	if (status == 0)
		rc = kvbench_ctl_ask(w->run->ctl, KVBENCH_CTL_CPU, NULL,
				     before);
	if (status == 0 && rc == 0)
		status = kvbench_load_run(&timed, sum);
	if (status == 0 && rc == 0)
		rc = kvbench_ctl_ask(w->run->ctl, KVBENCH_CTL_CPU, NULL, after);
	if (status)
		return failed(w, cell, kv_status_text(status));
	if (rc)
		return ctl_failed(w, cell, rc);
	*calls = first.calls + timed.calls;
	sum->far_cpu_ns += after[0] - before[0];
	sum->has_far_cpu = true;
	return 0;
}

/* A rail that failed is done without, and TCP is no figure of it. */
static int
check_path(const struct kvbench_link_way *w,
	   const struct kvbench_link_cell *cell)
{
	char text[512];
	int rc = kv_engine_path(w->engine, w->run->peer, text, sizeof(text));

	if (rc)
		return failed(w, cell, kv_status_text(rc));
	if (strncmp(text, "rdma:", 5) != 0)
		return failed(w, cell, text);
	return cell->op != KVBENCH_LINK_SEND || strstr(text, MESSAGES_TOO)
		       ? 0
		       : failed(w, cell, "they went by TCP");
}

static int
take(struct kvbench_link_way *w, const struct kvbench_link_cell *cell,
     struct kvbench_link_sum *sum)
{
	uint64_t calls = 0;
	int rc = prepare(w, cell);

	if (rc == 0)
		rc = load(w, cell, sum, &calls);
	if (rc == 0)
		rc = check(w, cell, calls);
	return rc == 0 && w->is_rdma ? check_path(w, cell) : rc;
}

/* A message goes with its name in one frame. */
static bool
takes(const struct kvbench_link_way *w, const struct kvbench_link_cell *cell)
{
	return cell->op != KVBENCH_LINK_SEND ||
	       (!w->has_no_sends && cell->size <= KVBENCH_LINK_SEND_MAX);
}

/* ---- open ---- */

static int
read_page(struct kvbench_link_job *r, struct kv_engine *e)
{
	struct kvbench_ctl_page page = { 0 };
	struct kv_xfer_item item = {
		.local = &page,
		.remote = kv_engine_first_region(e, r->peer),
		.len = sizeof(page),
	};
	int rc = -KV_EINVALID;

	if (item.remote > 0)
		rc = kv_engine_transfer(e, KV_ENGINE_READ, r->peer, &item, 1,
					0);
	if (rc ||
	    memcmp(page.magic, KVBENCH_CTL_MAGIC, sizeof(page.magic)) != 0)
		return kv_tool_say(
			EX_PROTOCOL,
			"%s: an engine, but no kvbench link of this version",
			r->peer);
	r->far_devices = (unsigned)kv_get64(page.tool_devices);
	r->far = kv_get64(page.memory_at);
	r->memory = kv_min_u64(r->memory, kv_get64(page.memory_bytes));
	r->ctl = kvbench_ctl_dial(r->host, (uint16_t)kv_get64(page.port),
				  r->l->timeout_ms);
	if (r->ctl < 0)
		return kv_tool_say(EX_UNAVAILABLE, "%s, port %u: %s", r->host,
				   (unsigned)kv_get64(page.port),
				   strerror(-r->ctl));
	rc = kvbench_ctl_ask(r->ctl, KVBENCH_CTL_CPU, NULL, NULL);
	if (rc == -ETIMEDOUT)
		return kv_tool_say(EX_UNAVAILABLE,
				   "%s: busy: another kvbench link measures it",
				   r->peer);
	return rc ? kv_tool_say(EX_UNAVAILABLE, "%s: %s", r->peer,
				strerror(-rc))
		  : 0;
}

static struct kv_engine *
engine_open(struct kvbench_link_job *r, const struct kvbench_link_path *p,
	    char *err, size_t n)
{
	const struct kv_engine_opts o = {
		.size = sizeof(o),
		.timeout_ms = r->l->timeout_ms,
		.no_attach = !r->l->local,
		.protocol = p->protocol == KV_PROTOCOL_RDMA ? "rdma" : "tcp",
		.device = p->devices,
		.qps = r->l->client.qps,
		.slice_bytes = r->l->client.slice_bytes,
	};

	return kv_engine_open(&o, err, n);
}

/* Tells why a path is not measured, which is no failure unless nobody asked for
 * another one. */
static int
leave_out(struct kvbench_link_job *r, const struct kvbench_link_path *p,
	  const char *why)
{
	struct kvbench_link_way *w = &r->ways[--r->n_ways];

	kv_tool_say(0, "%s by %s: %s", r->peer, p->name, why);
	kv_engine_close(w->engine);
	w->engine = NULL;
	return p->protocol == KV_PROTOCOL_TCP ||
			       r->l->protocol == KV_PROTOCOL_RDMA
		       ? EX_UNAVAILABLE
		       : 0;
}

/* Messages need a queue pair of their own; a first one has it connected. */
static int
sends_open(struct kvbench_link_way *w)
{
	struct kvbench_link_job *r = w->run;
	char text[512];
	int rc = kv_engine_notify(w->engine, r->peer, "kvbench", "", 0);

	if (rc == 0)
		rc = kv_engine_path(w->engine, r->peer, text, sizeof(text));
	if (rc)
		return rc == -KV_EBUSY ? 0 : rc;
	w->has_no_sends = !strstr(text, MESSAGES_TOO);
	if (w->has_no_sends && kvbench_link_has(r->l->only, KVBENCH_LINK_SEND))
		kv_tool_say(0,
			    "%s: no send by %s: messages need the connection "
			    "manager on both sides",
			    r->peer, w->path);
	return 0;
}

/* TCP, or a way of this host, is called what it is. */
static int
path_open(struct kvbench_link_job *r, const struct kvbench_link_path *p)
{
	struct kvbench_link_way *w = kvbench_link_way(r, p->name);
	bool is_rdma = p->protocol == KV_PROTOCOL_RDMA;
	char text[512], word[8];
	int rc = 0;

	w->engine = engine_open(r, p, text, sizeof(text));
	if (!w->engine)
		return leave_out(r, p, text);
	rc = kv_engine_register(w->engine, r->buf, r->memory);
	if (rc == 0)
		rc = kv_engine_path(w->engine, r->peer, text, sizeof(text));
	if (rc)
		return leave_out(r, p, kv_status_text(rc));
	snprintf(word, sizeof(word), "%.*s", (int)strcspn(text, ":"), text);
	if (is_rdma && strcmp(word, "rdma") != 0)
		return leave_out(r, p, text);
	if (!is_rdma)
		snprintf(w->path, sizeof(w->path), "%s", word);
	rc = is_rdma ? sends_open(w) : 0;
	if (rc)
		return leave_out(r, p, kv_status_text(rc));
	w->is_floor = false;
	w->is_rdma = is_rdma;
	w->floor = is_rdma                    ? "perftest"
		   : strcmp(word, "tcp") == 0 ? "stream"
					      : "copy";
	w->path_of_sends = r->is_loopback && !is_rdma ? "unix" : NULL;
	w->take = take;
	w->takes = takes;
	return 0;
}

static void
peer_close(struct kvbench_link_job *r)
{
	for (unsigned i = 0; i < r->n_ways; i++)
		kv_engine_close(r->ways[i].engine);
	if (r->is_good)
		(void)kvbench_ctl_ask(r->ctl, KVBENCH_CTL_OVER, NULL, NULL);
}

static void
floors_add(struct kvbench_link_job *r)
{
	struct kvbench_link_way *w = kvbench_link_way(r, "stream");

	w->take = kvbench_floor_take;
	w->takes = takes;
	if (!r->l->local)
		return;
	w = kvbench_link_way(r, "copy");
	w->take = kvbench_floor_copy;
	w->takes = takes;
}

int
kvbench_link_peer_open(struct kvbench_link_job *r)
{
	struct kv_engine *e;
	char err[256];
	int rc;

	r->close = peer_close;
	r->ops = ops;
	r->n_ops = sizeof(ops) / sizeof(ops[0]);
	e = engine_open(r, &r->paths[r->n_paths - 1], err, sizeof(err));
	if (!e)
		return kv_tool_say(EX_UNAVAILABLE, "%s", err);
	rc = read_page(r, e);
	kv_engine_close(e);
	if (rc)
		return rc;
	floors_add(r);
	for (unsigned i = 0; i < r->n_paths && rc == 0; i++)
		rc = path_open(r, &r->paths[i]);
	if (rc == 0 && r->l->perftest)
		rc = kvbench_tool_open(r);
	return rc;
}
