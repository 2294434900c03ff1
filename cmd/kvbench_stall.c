/* The longest stall while tables grow: calls that go on while another thread
 * puts, and a bare chain beside them, since a machine that has other things to
 * do stalls that, too. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include "base/hist.h"
#include "cmd/kvbench_run.h"

#define EXIST_KEYS 32

struct stalls {
	struct run *r;
	struct kvbench_pool *p;
	struct kv_floor_chain chain;
	char *key; /* one that is there */
	struct kv_key ask[EXIST_KEYS];
	atomic_bool is_over;
	long rc;
	struct kv_hist put, get, exist, bare;
};

static void
hist_since(struct kv_hist *h, uint64_t *since)
{
	uint64_t now = kvbench_now_ns();

	kv_hist_add(h, now - *since);
	*since = now;
}

static void *
stalls_watch(void *arg)
{
	struct stalls *s = arg;
	char value[KVBENCH_SMALL_BYTES];
	uint8_t found[EXIST_KEYS];
	uint64_t t;

	while (!atomic_load(&s->is_over) && s->rc >= 0) {
		t = kvbench_now_ns();
		s->rc = (long)kv_client_get_one(s->p->c, s->key,
						s->r->b->key_len, value,
						sizeof(value), NULL);
		hist_since(&s->get, &t);
		if (s->rc >= 0)
			s->rc = kv_client_exist(s->p->c, s->ask, EXIST_KEYS,
						found, 0);
		hist_since(&s->exist, &t);
		if (s->rc >= 0)
			s->rc = kv_floor_chain_round(&s->chain) < 0 ? -1 : 0;
		hist_since(&s->bare, &t);
		nanosleep(&(struct timespec){ .tv_nsec = 200000 }, NULL);
	}
	return NULL;
}

/* What the longest call took above an ordinary one, in ms. */
static double
stall_ms(const struct kv_hist *h)
{
	return (double)(kv_hist_max(h) - kv_hist_percentile(h, 50)) / 1e6;
}

static double
longest_ms(const struct stalls *s)
{
	double put = stall_ms(&s->put), get = stall_ms(&s->get);
	double longest = put > get ? put : get, exist = stall_ms(&s->exist);

	return longest > exist ? longest : exist;
}

/* Puts n keys, one call at a time. */
static bool
stalls_put(struct run *r, struct stalls *s, uint64_t n)
{
	pthread_t watcher;
	bool is_good = true;
	int64_t t;

	if (pthread_create(&watcher, NULL, stalls_watch, s) != 0)
		return kvbench_failed("threads", -KV_ENOMEM) >= 0;
	for (; is_good && n >= KVBENCH_MANY; n -= KVBENCH_MANY) {
		t = kvbench_call_put_many(r);
		is_good = t >= 0;
		if (is_good)
			kv_hist_add(&s->put, (uint64_t)t);
	}
	atomic_store(&s->is_over, true);
	pthread_join(watcher, NULL);
	if (is_good && s->rc < 0)
		is_good = kvbench_failed("get or exist", s->rc) >= 0;
	return is_good && kvbench_many_put(r, KVBENCH_TINY_BYTES, n, 1);
}

static bool
stalls_open(struct run *r, struct stalls *s)
{
	const struct kv_floor_hops hops = kv_floor_hops_exist(EXIST_KEYS);
	unsigned i;

	s->r = r;
	s->p = r->pool;
	s->key = malloc(r->b->key_len);
	if (!s->key || kv_floor_chain_open(&s->chain, &hops) < 0)
		return kvbench_failed("threads", -KV_ENOMEM) >= 0;
	kvbench_key(r, r->pool->first, s->key);
	for (i = 0; i < EXIST_KEYS; i++)
		s->ask[i] = (struct kv_key){ s->key, r->b->key_len };
	return true;
}

bool
kvbench_hold_watched(struct run *r, uint64_t n)
{
	struct stalls *s = calloc(1, sizeof(*s));
	bool is_good;

	if (!s)
		return kvbench_failed("threads", -KV_ENOMEM) >= 0;
	is_good = stalls_open(r, s) && kvbench_call_put_many(r) >= 0 &&
		  stalls_put(r, s, n - KVBENCH_MANY);
	if (is_good) {
		r->stall_ms = longest_ms(s);
		r->stall_bare_ms = stall_ms(&s->bare);
	}
	kv_floor_chain_close(&s->chain);
	free(s->key);
	free(s);
	return is_good;
}
