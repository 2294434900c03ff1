/* All figures, and where each group of them is measured. */
#include <sysexits.h>

#include "base/attr.h"
#include "cmd/kvbench_run.h"

#define OWN_BYTES (2ull << 30)

/* ---- figures ---- */

enum {
	LESS = KVBENCH_LESS,
	COLD = KVBENCH_COLD,
};

/* The first one needs daemons of our own. */
static const struct kvbench_figure local_figures[] = {
	{ "idle", "% of a core", "bar", kvbench_idle, NULL, 1, 1, LESS | COLD },
	{ "get_copy", "GB/s", "copy", kvbench_get_copy, kvbench_floor_out, 0,
	  0.90, 0 },
	{ "get_copy_mt", "GB/s", "half the threads", kvbench_get_copy_mt,
	  kvbench_get_copy, 0, 1.2, 0 },
	{ "get_zero", "k objects/s", "get_copy", kvbench_get_zero,
	  kvbench_floor_zero, 0, 20, 0 },
	{ "put_copy", "GB/s", "copy", kvbench_put_copy, kvbench_floor_in, 0,
	  0.85, 0 },
	{ "put_4k", "us", "chain", kvbench_put_4k, kvbench_floor_put_4k, 0,
	  1.25, LESS },
	{ "get_4k", "us", "chain", kvbench_get_4k, kvbench_floor_get_4k, 0,
	  1.25, LESS },
	{ "exist_32", "us", "chain", kvbench_exist_32, kvbench_floor_exist_32,
	  0, 1.25, LESS },
	{ "put_4k_awake", "us", "awake chain", kvbench_put_4k,
	  kvbench_floor_put_awake, 0, 0, LESS },
	{ "get_4k_awake", "us", "awake chain", kvbench_get_4k,
	  kvbench_floor_get_awake, 0, 0, LESS },
	{ "exist_32_awake", "us", "awake chain", kvbench_exist_32,
	  kvbench_floor_exist_awake, 0, 0, LESS },
	{ "publish_grow", "M keys/s", "bar", kvbench_publish_grow, NULL,
	  KVBENCH_PUBLISH_BAR, 0, COLD },
	{ "publish", "M keys/s", "bar", kvbench_publish, NULL,
	  KVBENCH_PUBLISH_BAR, 1, 0 },
	{ "publish_bare", "M keys/s", "publish", kvbench_publish_bare,
	  kvbench_publish, 0, 0, 0 },
};

static const struct kvbench_figure raw_figures[] = {
	{ "raw_write", "GB/s", "writev", kvbench_raw_write,
	  kvbench_floor_raw_write, 0, 0.95, 0 },
	{ "raw_write_own", "GB/s", "copy", kvbench_raw_write_own,
	  kvbench_floor_raw_write_own, 0, 0.85, 0 },
};

static const struct kvbench_figure tcp_figures[] = {
	{ "tcp_get", "GB/s", "stream", kvbench_get_copy,
	  kvbench_floor_stream_get, 0, 0.95, 0 },
	{ "tcp_put", "GB/s", "stream", kvbench_put_copy,
	  kvbench_floor_stream_put, 0, 0.95, 0 },
};

static const struct kvbench_figure fresh_figures[] = {
	{ "put_fresh", "GB/s", "copy", kvbench_put_fresh, kvbench_floor_in, 0,
	  0.80, COLD },
};

static const struct kvbench_figure fill_figures[] = {
	{ "fill", "%", "pool", kvbench_fill, NULL, 100, 0.97, COLD },
};

static const struct kvbench_figure full_figures[] = {
	{ "full_put_4k", "us", "empty pool", kvbench_full_put_4k, NULL, 0, 1.2,
	  LESS },
	{ "full_put_copy", "us", "empty pool", kvbench_full_put_copy, NULL, 0,
	  1.2, LESS },
};

static const struct kvbench_figure exist_figures[] = {
	{ "exist_32", "us", "chain", kvbench_exist_32, kvbench_floor_exist_32,
	  0, 1.25, LESS },
	{ "exist_100k", "M keys/s", "probe", kvbench_exist_100k,
	  kvbench_floor_exist_100k, 0, 0.6, 0 },
};

/* The first three are known when the pools have their keys. */
static const struct kvbench_figure grow_figures[] = {
	{ "master_mem", "bytes", "bar", kvbench_master_mem, NULL, 150, 1,
	  LESS | COLD },
	{ "node_mem", "bytes", "bar", kvbench_node_mem, NULL, 256, 1,
	  LESS | COLD },
	{ "grow_stall", "ms", "bar", kvbench_grow_stall, NULL, 10, 1,
	  LESS | COLD },
	{ "grow_stall_bare", "ms", "bar", kvbench_grow_stall_bare, NULL, 10, 0,
	  LESS | COLD },
	{ "exist_100k", "M keys/s", "probe", kvbench_exist_100k,
	  kvbench_floor_exist_100k, 0, 0.6, 0 },
	{ "grow_put_4k", "us", "fewest keys", kvbench_put_4k, NULL, 0, 2,
	  LESS },
	{ "grow_get_4k", "us", "fewest keys", kvbench_grow_get_4k, NULL, 0, 2,
	  LESS },
	{ "grow_put_1000", "us", "fewest keys", kvbench_grow_put_1000, NULL, 0,
	  2, LESS },
	{ "grow_get_1000", "us", "fewest keys", kvbench_grow_get_1000, NULL, 0,
	  2, LESS },
	{ "grow_exist", "us", "fewest keys", kvbench_grow_exist, NULL, 0, 4,
	  LESS },
};

/* ---- set-ups that are made of several ---- */

/* Processes first: this one has no threads yet. */
static int
local_begin(struct run *r)
{
	int rc = kvbench_calls_open(r);

	return rc ? rc : kvbench_many_open(r);
}

/* Another client of the same pool. */
static int
twice_open(struct run *r, const struct kv_client_opts *opts)
{
	struct kv_client_opts o = *opts;

	o.copy_threads = 2 * r->b->threads;
	return kvbench_client(&o, &r->twice);
}

static int
local_open(struct run *r)
{
	int rc = local_begin(r);

	if (rc == 0)
		rc = kvbench_pool_attach(r, &r->b->client);
	if (rc == 0)
		rc = kvbench_batch_open(r);
	return rc ? rc : twice_open(r, &r->b->client);
}

static int
own_local_open(struct run *r)
{
	struct kv_client_opts o = r->b->client;
	int rc = local_begin(r);

	if (rc == 0)
		rc = kvbench_pool_start(r, OWN_BYTES);
	if (rc == 0)
		rc = kvbench_batch_open(r);
	if (rc)
		return rc;
	kvbench_pool_settle(r);
	o.master = r->pool->own.addr;
	o.socket = r->pool->own.socket;
	o.tenant = NULL;
	return twice_open(r, &o);
}

static void
local_close(struct run *r)
{
	kv_client_close(r->twice);
	r->twice = NULL;
	kvbench_calls_close(r);
	kvbench_batch_close(r);
	kvbench_many_close(r);
}

/* ---- scenes ---- */

#define FIGURES(list) (list), KV_ARRAY_LEN(list)

const struct kvbench_scene *
kvbench_scene(unsigned i, const char **workload)
{
	static const struct {
		const char *workload;
		struct kvbench_scene scene;
	} all[] = {
		{ "local",
		  { local_figures + 1, KV_ARRAY_LEN(local_figures) - 1,
		    local_open, local_close } },
		{ "local",
		  { FIGURES(raw_figures), kvbench_raw_open,
		    kvbench_raw_close } },
		{ "store",
		  { FIGURES(tcp_figures), kvbench_store_open,
		    kvbench_stream_close } },
		{ "exist",
		  { FIGURES(exist_figures), kvbench_exist_open,
		    kvbench_grow_close } },
		{ "bars",
		  { FIGURES(local_figures), own_local_open, local_close } },
		{ "bars",
		  { FIGURES(raw_figures), kvbench_raw_open,
		    kvbench_raw_close } },
		{ "bars",
		  { FIGURES(fresh_figures), kvbench_fresh_open,
		    kvbench_fresh_close } },
		{ "bars",
		  { FIGURES(fill_figures), kvbench_fill_open,
		    kvbench_fill_close } },
		{ "bars",
		  { FIGURES(full_figures), kvbench_full_open,
		    kvbench_full_close } },
		{ "bars",
		  { FIGURES(tcp_figures), kvbench_tcp_open,
		    kvbench_stream_close } },
		{ "bars",
		  { FIGURES(grow_figures), kvbench_grow_open,
		    kvbench_grow_close } },
	};

	if (i >= KV_ARRAY_LEN(all))
		return NULL;
	*workload = all[i].workload;
	return &all[i].scene;
}
