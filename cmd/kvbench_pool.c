/* Pools that are measured: their clients, and keys that no other run has. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <time.h>

#include "base/attr.h"
#include "base/clock.h"
#include "base/status.h"
#include "cmd/kvbench_run.h"

#define READY_NS    (120 * KV_NS_PER_S)
#define STATS_BYTES 16384
/* An idle daemon is watched for so many times the time of a measurement. */
#define IDLE_TIMES 10
/* A master takes the end of its first time for granted a turn later. */
#define SETTLE_NS (200 * KV_NS_PER_MS)

uint64_t
kvbench_now_ns(void)
{
	return kv_clock_now(&(struct kv_clock){ 0 });
}

int
kvbench_failed(const char *what, long status)
{
	fprintf(stderr, "kvbench: %s: %s\n", what, kv_status_text((int)status));
	return -1;
}

int
kvbench_floor_failed(const char *what, int64_t rc)
{
	fprintf(stderr, "kvbench: floor of %s: %s\n", what, strerror((int)-rc));
	return -1;
}

/* ---- keys ---- */

void
kvbench_key(void *run, uint64_t i, char *key)
{
	static const char digits[] = "0123456789abcdef";
	const struct run *r = run;
	int d;

	for (d = 15; d >= 0; d--, i >>= 4)
		key[d] = digits[i & 15];
	memset(key + 16, 'k', r->b->key_len - 16);
}

uint64_t
kvbench_key_next(struct run *r)
{
	return r->pool->next++;
}

bool
kvbench_drop(struct run *r)
{
	return kvbench_drop_until(r, r->pool->next);
}

bool
kvbench_drop_until(struct run *r, uint64_t end)
{
	struct kvbench_pool *p = r->pool;
	struct kv_key *keys = r->ask;
	size_t n;
	long rc;

	for (; p->kept < end; p->kept += n) {
		for (n = 0; n < KVBENCH_MANY && p->kept + n < end; n++) {
			char *at = r->ask_keys + n * r->b->key_len;

			kvbench_key(r, p->kept + n, at);
			keys[n] = (struct kv_key){ at, r->b->key_len };
		}
		rc = kv_client_remove(p->c, keys, n, 1, NULL, NULL);
		if (rc < 0)
			return kvbench_failed("remove", rc) >= 0;
	}
	return true;
}

/* ---- pools ---- */

int64_t
kvbench_pool_stat(struct run *r, const char *name)
{
	char text[STATS_BYTES];
	size_t len = strlen(name);
	const char *p = text;
	long rc = kv_client_stats(r->pool->c, "local", text, sizeof(text));

	if (rc < 0 || (size_t)rc >= sizeof(text))
		return -1;
	while (p && (strncmp(p, name, len) != 0 || p[len] != ' ')) {
		p = strchr(p, '\n');
		p = p && p[1] ? p + 1 : NULL;
	}
	return p ? (int64_t)strtoull(p + len, NULL, 10) : -1;
}

int
kvbench_client(const struct kv_client_opts *opts, struct kv_client **c)
{
	struct kv_client_opts o = *opts;
	char err[512];
	int status;

	o.status = &status;
	*c = kv_client_open(&o, err, sizeof(err));
	if (*c)
		return 0;
	fprintf(stderr, "kvbench: %s\n", err);
	return kv_status_exit(status);
}

static int
pool_open(struct run *r, struct kvbench_pool *p, const struct kv_client_opts *o)
{
	int rc = kvbench_client(o, &p->c);

	if (rc)
		return rc;
	/* Runs that begin at different times have different keys. */
	p->first = p->kept = p->next = kvbench_now_ns() << 20;
	r->pool = p;
	return 0;
}

int
kvbench_pool_attach(struct run *r, const struct kv_client_opts *o)
{
	return pool_open(r, &r->pools[r->n_pools++], o);
}

int
kvbench_pool_begin(struct run *r, const struct kvbench_own_opts *opts)
{
	struct kvbench_pool *p = &r->pools[r->n_pools++];
	struct kv_client_opts o = r->b->client;
	int rc = kvbench_own_start(&p->own, opts);

	if (rc)
		return rc;
	o.master = p->own.addr;
	o.socket = opts->netns < 0 ? p->own.socket : "";
	o.tenant = NULL;
	p->bytes = opts->pool_bytes;
	return pool_open(r, p, &o);
}

/* Whether the one node is there with all of its memory. Itself it knows that a
 * heartbeat before the master. */
static bool
is_ready(struct run *r)
{
	struct kv_node_info n;

	return kv_client_nodes(r->pool->c, &n, 1) == 1 &&
	       strcmp(n.state, "live") == 0 &&
	       (n.ready_bytes == n.pool_bytes ||
		kvbench_pool_stat(r, "ready_bytes") == (int64_t)n.pool_bytes);
}

int
kvbench_pool_wait(struct run *r)
{
	uint64_t until = kvbench_now_ns() + READY_NS;

	while (!is_ready(r)) {
		if (kvbench_now_ns() > until) {
			fprintf(stderr, "kvbench: the pool is not ready within "
					"two minutes\n");
			return EX_UNAVAILABLE;
		}
		nanosleep(&(struct timespec){ .tv_nsec = 20000000 }, NULL);
	}
	return 0;
}

int
kvbench_pool_start(struct run *r, uint64_t bytes)
{
	const struct kvbench_own_opts o = {
		.pool_bytes = r->b->pool_bytes ? r->b->pool_bytes : bytes,
		.host = "127.0.0.1",
		.netns = -1,
		.ttl_ns = r->b->ttl_ns,
	};
	int rc = kvbench_pool_begin(r, &o);

	return rc ? rc : kvbench_pool_wait(r);
}

void
kvbench_sleep_until(uint64_t ns)
{
	uint64_t now, left;

	while ((now = kvbench_now_ns()) < ns) {
		left = ns - now;
		nanosleep(&(struct timespec){ .tv_sec = left / KV_NS_PER_S,
					      .tv_nsec = left % KV_NS_PER_S },
			  NULL);
	}
}

void
kvbench_pool_settle(struct run *r)
{
	kvbench_sleep_until(r->pool->own.started_ns + r->b->ttl_ns + SETTLE_NS);
}

bool
kvbench_pools_close(struct run *r)
{
	bool is_good = true;
	unsigned i;

	for (i = 0; i < r->n_pools; i++) {
		kv_client_close(r->pools[i].c);
		is_good = kvbench_own_stop(&r->pools[i].own) && is_good;
	}
	memset(r->pools, 0, sizeof(r->pools));
	r->n_pools = 0;
	r->pool = NULL;
	return is_good;
}

/* The worse of the two daemons. */
double
kvbench_idle(struct run *r)
{
	const struct kvbench_own *o = &r->pool->own;
	uint64_t ns = IDLE_TIMES * r->b->time_ns, start = kvbench_now_ns();
	int64_t master = kvbench_own_cpu_ns(&o->master);
	int64_t node = kvbench_own_cpu_ns(&o->node);

	kvbench_sleep_until(start + ns);
	master = kvbench_own_cpu_ns(&o->master) - master;
	node = kvbench_own_cpu_ns(&o->node) - node;
	return (double)(master > node ? master : node) * 100 /
	       (double)(kvbench_now_ns() - start);
}
