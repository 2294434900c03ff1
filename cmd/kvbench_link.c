/* kvbench link, the side that measures. */
#include "cmd/kvbench_link.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/num.h"
#include "base/str.h"
#include "cli/progress.h"
#include "cli/tool.h"
#include "net/addr.h"
#include "net/lookup.h"
#include "svc/floor.h"

#define SLOT_ALIGN 64 /* no cache line is two slots' */

static uint64_t
now_ns(void)
{
	return kv_clock_now(&(struct kv_clock){ 0 });
}

struct kvbench_link_way *
kvbench_link_way(struct kvbench_link_job *r, const char *path)
{
	struct kvbench_link_way *w = &r->ways[r->n_ways++];

	snprintf(w->path, sizeof(w->path), "%s", path);
	w->is_floor = true;
	w->run = r;
	return w;
}

/* ---- cells ---- */

static void
cell_make(struct kvbench_link_job *r, struct kvbench_link_cell *cell)
{
	cell->stride = kv_round_up_u64(cell->size, SLOT_ALIGN);
	cell->slots = kv_min_u64(cell->depth, r->memory / cell->stride);
	cell->time_ns = r->l->time_ns;
}

static bool
is_part(const struct kvbench_link_way *w, const struct kvbench_link_cell *cell)
{
	return !w->takes || w->takes(w, cell);
}

static int
round_take(struct kvbench_link_way *w, const struct kvbench_link_cell *cell,
	   struct kvbench_link_sum *sum)
{
	uint64_t calls = sum->calls, ns = sum->ns;
	int rc = w->take(w, cell, sum);

	if (rc)
		return rc;
	if (sum->ns > ns)
		w->run->rate = (double)(sum->calls - calls) * 1e9 /
			       (double)(sum->ns - ns);
	sum->rates[sum->rounds++] = w->run->rate;
	return 0;
}

/* All ways in turns; each round has bytes of its own. */
static int
cell_take(struct kvbench_link_job *r, struct kvbench_link_cell *cell,
	  struct kvbench_link_sum *const *sums)
{
	unsigned round, i;
	int rc = 0;

	cell_make(r, cell);
	for (i = 0; i < r->n_ways; i++) {
		memset(sums[i], 0, sizeof(*sums[i]));
		kv_hist_init(&sums[i]->hist);
	}
	for (round = 0; round < r->l->rounds && rc == 0; round++)
		for (i = 0; i < r->n_ways && rc == 0; i++) {
			cell->seed = kv_rng_u64(&r->rng);
			if (is_part(&r->ways[i], cell))
				rc = round_take(&r->ways[i], cell, sums[i]);
		}
	if (rc == 0 && !kvbench_link_rows_add(r, cell, sums))
		rc = kv_tool_fail(-KV_ENOMEM);
	return rc;
}

static int
sums_take(struct kvbench_link_job *r, struct kvbench_link_sum *const *sums)
{
	const struct kvbench_link *l = r->l;
	struct kvbench_link_cell cell;
	struct kv_progress progress;
	unsigned all = r->n_ops * r->n_sizes * l->n_depths, i;
	int rc = 0;

	kv_progress_init(&progress, STDERR_FILENO, l->json, now_ns());
	progress.keys = all;
	for (i = 0; i < all && rc == 0; i++) {
		cell = (struct kvbench_link_cell){
			.op = r->ops[i / r->n_sizes % r->n_ops],
			.size = l->sizes[i % r->n_sizes],
			.depth = (unsigned)l->depths[i / r->n_sizes / r->n_ops],
		};
		if (kvbench_link_has(l->only, cell.op))
			rc = cell_take(r, &cell, sums);
		kv_progress_update(&progress, i + 1, 0, now_ns());
	}
	kv_progress_clear(&progress);
	return rc;
}

static int
cells_take(struct kvbench_link_job *r)
{
	struct kvbench_link_sum *sums[KVBENCH_LINK_WAYS_MAX] = { 0 };
	unsigned i;
	int rc = 0;

	for (i = 0; i < r->n_ways && rc == 0; i++) {
		sums[i] = malloc(sizeof(*sums[i]));
		rc = sums[i] ? 0 : kv_tool_fail(-KV_ENOMEM);
	}
	if (rc == 0)
		rc = sums_take(r, sums);
	for (i = 0; i < r->n_ways; i++)
		free(sums[i]);
	return rc;
}

/* ---- who is there ---- */

static int
address(struct kvbench_link_job *r)
{
	char err[KV_ADDR_ERROR_BYTES], text[KV_ADDR_TEXT_BYTES_MAX];
	struct kv_lookup_result found;
	struct kv_addr a;

	if (kv_addr_parse(r->l->peer, KVBENCH_LINK_PORT, &a, err, sizeof(err)))
		return kv_tool_say(EX_USAGE, "%s", err);
	if (a.kind != KV_ADDR_TCP || a.port == 0 || kv_addr_is_unspecified(&a))
		return kv_tool_say(EX_USAGE, "'%s' is not HOST:PORT",
				   r->l->peer);
	if (kv_lookup_now(&a, &found) == -ENXIO)
		return kv_tool_say(EX_NOHOST,
				   "%s: no host has this name: correct it, or "
				   "name its address",
				   a.name);
	snprintf(r->peer, sizeof(r->peer), "%s", kv_addr_format(&a, text));
	snprintf(r->host, sizeof(r->host), "%s", a.name);
	r->port = a.port;
	r->is_loopback = kv_floor_stream_is_loopback(r->peer);
	return 0;
}

/* What opens the other side. A node refuses an engine, and says so. */
static int
probe(struct kvbench_link_job *r, int (**open)(struct kvbench_link_job *r))
{
	const struct kv_engine_opts o = {
		.size = sizeof(o),
		.timeout_ms = r->l->timeout_ms,
		.listen = "127.0.0.1:0",
	};
	char err[256];
	struct kv_engine *e = kv_engine_open(&o, err, sizeof(err));
	int rc;

	if (!e)
		return kv_tool_say(EX_UNAVAILABLE, "%s", err);
	rc = kv_engine_probe(e, r->peer);
	kv_engine_close(e);
	switch (rc) {
	case 0:
		*open = kvbench_link_peer_open;
		return 0;
	case -KV_ENOTSUP:
		*open = kvbench_link_node_open;
		return 0;
	case -KV_EUNREACHABLE:
		return kv_tool_say(EX_UNAVAILABLE,
				   "%s: nobody answers there; start 'kvbench "
				   "link --listen' on that side",
				   r->peer);
	case -KV_EPROTO:
		return kv_tool_say(EX_PROTOCOL,
				   "%s: something else than kvpool answers "
				   "there, or its HTTP port: name the port of "
				   "a kvclient or of a 'kvbench link --listen'",
				   r->peer);
	case -KV_EDENIED:
		return kv_tool_say(EX_PROTOCOL,
				   "%s: refuses: a master? name a kvclient, or "
				   "a 'kvbench link --listen'",
				   r->peer);
	default:
		return kv_tool_say(EX_UNAVAILABLE, "%s: %s", r->peer,
				   kv_status_text(rc));
	}
}

static int
memory_open(struct kvbench_link_job *r)
{
	r->memory = r->l->memory;
	r->buf = kvbench_load_memory(r->memory);
	r->spare = kvbench_load_memory(r->memory);
	return r->buf && r->spare ? 0
				  : kv_tool_say(EX_OSERR, "no memory: try a "
							  "smaller --memory");
}

/* Those that were not asked for are left out where there is no memory for them.
 */
static int
check_sizes(struct kvbench_link_job *r)
{
	uint64_t most = kv_round_down_u64(r->memory, SLOT_ALIGN);
	char size[16], memory[16];
	unsigned i;

	r->n_sizes = r->l->n_sizes;
	for (i = 0; i < r->n_sizes && r->l->sizes[i] <= most; i++)
		;
	if (i == r->n_sizes)
		return 0;
	if (!r->l->has_sizes && i > 0) {
		r->n_sizes = i;
		return 0;
	}
	return kv_tool_say(
		EX_USAGE,
		"%s in %s of memory: both sides need a larger --memory",
		kv_str_size_format(size, sizeof(size), r->l->sizes[i]),
		kv_str_size_format(memory, sizeof(memory), r->memory));
}

/* Whether any path measures that. */
static bool
is_measured(const struct kvbench_link_job *r, enum kvbench_link_op op,
	    uint64_t size)
{
	const struct kvbench_link_cell cell = {
		.op = op,
		.size = size,
		.depth = 1,
	};

	for (unsigned i = 0; i < r->n_ways; i++)
		if (!r->ways[i].is_floor && is_part(&r->ways[i], &cell))
			return true;
	return false;
}

/* What was asked for and is not measured is told, and nothing is an error. */
static int
check_cells(const struct kvbench_link_job *r)
{
	unsigned n_asked = 0, n = 0;
	char size[16];

	for (unsigned i = 0; i < r->n_ops * r->n_sizes; i++) {
		enum kvbench_link_op op = r->ops[i / r->n_sizes];
		uint64_t bytes = r->l->sizes[i % r->n_sizes];

		if (!kvbench_link_has(r->l->only, op))
			continue;
		n_asked++;
		if (is_measured(r, op, bytes))
			n++;
		else if (op == KVBENCH_LINK_SEND && r->l->has_sizes &&
			 bytes > KVBENCH_LINK_SEND_MAX)
			kv_tool_say(
				0,
				"send of %s is left out: at most %d "
				"bytes are a message",
				kv_str_size_format(size, sizeof(size), bytes),
				KVBENCH_LINK_SEND_MAX);
	}
	if (n > 0)
		return 0;
	return n_asked > 0
		       ? kv_tool_say(EX_USAGE, "nothing is left to measure: "
					       "choose other sizes, --only or "
					       "paths")
		       : kv_tool_say(EX_USAGE,
				     "--only=%s: of %s there is %s to measure",
				     r->l->only, r->peer,
				     r->node ? "put and get, as of a kvclient"
					     : "write, read and send");
}

static int
open_all(struct kvbench_link_job *r)
{
	int (*open)(struct kvbench_link_job * r) = NULL;
	int rc = address(r);

	if (rc == 0 && kvbench_link_paths(r) < 0)
		rc = kv_tool_say(EX_UNAVAILABLE, "--protocol=rdma: %s",
				 r->no_rdma);
	else if (rc == 0 && *r->no_rdma)
		fprintf(stderr, "kvbench: no RDMA: %s\n", r->no_rdma);
	if (rc == 0)
		rc = probe(r, &open);
	if (rc == 0)
		rc = memory_open(r);
	if (rc == 0)
		rc = open(r);
	if (rc == 0)
		rc = check_sizes(r);
	return rc ? rc : check_cells(r);
}

int
kvbench_link_measure(const struct kvbench_link *l)
{
	struct kvbench_link_job r = { .l = l, .ctl = -1 };
	int rc, printed = 0;

	kv_rng_seed(&r.rng, now_ns());
	rc = open_all(&r);
	if (rc == 0)
		rc = cells_take(&r);
	r.is_good = rc == 0;
	if (r.close)
		r.close(&r);
	if (r.ctl >= 0)
		close(r.ctl);
	if (r.n_rows > 0)
		printed = kvbench_link_rows_print(&r);
	kvbench_load_memory_free(r.buf, l->memory);
	kvbench_load_memory_free(r.spare, l->memory);
	free(r.rows);
	free(r.devices);
	return rc ? rc : printed;
}
