/* Large objects of nodes that are reached over TCP, beside a stream that goes
 * the same way. */
#include <math.h>
#include <stdio.h>
#include <sysexits.h>

#include "base/attr.h"
#include "base/num.h"
#include "cmd/kvbench_run.h"

#define TCP_BYTES (1ull << 30)
#define NODES_MAX 64

/* ---- set-ups ---- */

static int
batch_open(struct run *r)
{
	int rc = kvbench_batch_open(r);

	return rc ? rc : kvbench_many_open(r);
}

static int
stream_open(struct run *r, uint64_t bytes, int netns, const char *addr)
{
	int rc = kv_floor_stream_open(&r->stream, bytes, netns, addr);

	return rc < 0 ? (kvbench_floor_failed("a transfer", rc), EX_OSERR) : 0;
}

/* Bytes of the pool; 0 where it is not reached over loopback. */
static uint64_t
pool_bytes(struct kv_client *c)
{
	struct kv_node_info nodes[NODES_MAX];
	long n = kv_client_nodes(c, nodes, NODES_MAX), i;
	uint64_t bytes = 0;

	n = n < NODES_MAX ? n : NODES_MAX;
	for (i = 0; i < n; i++) {
		if (nodes[i].pool_bytes == 0)
			continue;
		if (!kv_floor_stream_is_loopback(nodes[i].addr))
			return 0;
		bytes += nodes[i].pool_bytes;
	}
	return kv_max_u64(bytes, 1);
}

/* The process of a stream is a fork, and a client has threads: it is asked
 * first, and ends. */
static int
store_stream_open(struct run *r, const struct kv_client_opts *o)
{
	struct kv_client *c;
	int rc = kvbench_client(o, &c);
	uint64_t bytes;

	if (rc)
		return rc;
	bytes = pool_bytes(c);
	kv_client_close(c);
	if (bytes > 0)
		return stream_open(r, bytes, -1, "127.0.0.1");
	fprintf(stderr, "kvbench: no floor for tcp_get and tcp_put: nodes of "
			"the pool are on other hosts, and a stream to this one "
			"goes another way\n");
	return 0;
}

/* As from a host without a node. */
int
kvbench_store_open(struct run *r)
{
	struct kv_client_opts o = r->b->client;
	int rc = batch_open(r);

	o.socket = "";
	if (rc == 0)
		rc = store_stream_open(r, &o);
	return rc ? rc : kvbench_pool_attach(r, &o);
}

/* The pool is at the other end of a link. */
int
kvbench_tcp_open(struct run *r)
{
	struct kvbench_own_opts o = {
		.pool_bytes = r->b->pool_bytes ? r->b->pool_bytes : TCP_BYTES,
		.host = KVBENCH_NET_FAR,
		.ttl_ns = r->b->ttl_ns,
	};
	int rc = kvbench_net_open(&r->net);

	o.netns = r->net.far;
	if (rc == 0)
		rc = batch_open(r);
	if (rc == 0)
		rc = stream_open(r, o.pool_bytes, o.netns, o.host);
	if (rc == 0)
		rc = kvbench_pool_begin(r, &o);
	return rc ? rc : kvbench_pool_wait(r);
}

void
kvbench_stream_close(struct run *r)
{
	kv_floor_stream_close(&r->stream);
	kvbench_net_close(&r->net);
	kvbench_batch_close(r);
	kvbench_many_close(r);
}

/* ---- floors ---- */

static double
stream(struct run *r, int64_t (*fn)(struct kv_floor_stream *s, uint64_t bytes))
{
	uint64_t took = 0, n = 0;
	int64_t t;

	if (r->stream.bytes == 0)
		return NAN;
	for (; took < r->b->time_ns; took += (uint64_t)t, n++) {
		t = fn(&r->stream, r->b->batch * r->b->size);
		if (t < 0)
			return kvbench_floor_failed("a transfer", t);
	}
	return kvbench_bytes_rate(r, (double)took / (double)n);
}

double
kvbench_floor_stream_put(struct run *r)
{
	return stream(r, kv_floor_stream_give);
}

double
kvbench_floor_stream_get(struct run *r)
{
	return stream(r, kv_floor_stream_take);
}
