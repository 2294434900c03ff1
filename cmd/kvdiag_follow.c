/* How fast the counters of nodes go. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "cmd/kvdiag_watch.h"
#include "svc/client.h"

/* A node that did not answer is left alone so long. */
#define AGAIN_NS (5 * KV_NS_PER_S)

const struct kvdiag_watch_rate kvdiag_watch_rates[KVDIAG_WATCH_RATES] = {
	{ "puts_per_s", "puts/s", "puts_ok", false },
	{ "gets_per_s", "gets/s", "gets", false },
	{ "hits_per_s", "hits/s", "gets_hit", false },
	{ "evicted_per_s", "evicted/s", "evicted_keys", false },
	{ "put_bytes_per_s", "put bytes/s", "put_bytes", true },
	{ "get_bytes_per_s", "get bytes/s", "get_bytes", true },
};

static uint64_t
now_ns(void)
{
	return kv_clock_now(&(struct kv_clock){ 0 });
}

static void
follow_read(struct kvdiag_follow *f, struct kv_doctor_daemon *daemon,
	    bool is_own)
{
	uint64_t now = now_ns(), count;
	double s = (double)(now - f->read_ns) / (double)KV_NS_PER_S;

	kvdiag_round_read(daemon, f->client, is_own ? "local" : "master");
	f->has_rates = f->read_ns && daemon->stats;
	if (!daemon->stats) {
		f->again_ns = now + AGAIN_NS;
		f->read_ns = 0;
		return;
	}
	for (size_t i = 0; i < KVDIAG_WATCH_RATES; i++) {
		count = kv_doctor_stat(daemon, kvdiag_watch_rates[i].counter);
		f->rates[i] = (double)(count - f->counts[i]) / s;
		f->counts[i] = count;
	}
	f->read_ns = now;
}

struct kvdiag_follow *
kvdiag_follow_find(struct kvdiag_watch *w, const char *boot)
{
	struct kvdiag_follow *f;

	for (f = w->follows; f < w->follows + w->n; f++)
		if (strcmp(f->boot, boot) == 0)
			return f;
	return NULL;
}

static struct kvdiag_follow *
follow_add(struct kvdiag_watch *w, const char *boot)
{
	struct kvdiag_follow *f = kvdiag_follow_find(w, boot);

	if (f || w->n == KVDIAG_WATCH_NODES)
		return f;
	f = &w->follows[w->n++];
	*f = (struct kvdiag_follow){ 0 };
	snprintf(f->boot, sizeof(f->boot), "%s", boot);
	return f;
}

/* The node of this host over its socket, others at their addresses. */
static struct kv_client *
follow_open(struct kvdiag_watch *w, const struct kv_node_info *node)
{
	const struct kv_node_info *own = w->round.pool.own;
	char why[256];
	int status;

	if (own && strcmp(own->boot, node->boot) == 0)
		return w->round.local;
	return kvdiag_round_open(w->round.d, node->addr, "", &status, why);
}

static void
follow_node(struct kvdiag_watch *w, struct kv_doctor_node *node)
{
	struct kvdiag_follow *f = follow_add(w, node->info.boot);
	uint64_t now = now_ns();

	if (!f)
		return;
	f->seen_ns = now;
	if (now < f->again_ns)
		return;
	if (!f->client)
		f->client = follow_open(w, &node->info);
	if (f->client)
		follow_read(f, &node->d, f->client == w->round.local);
	else
		f->again_ns = now_ns() + AGAIN_NS;
}

/* Nodes that left make room for others. */
static void
follow_forget(struct kvdiag_watch *w, uint64_t since_ns)
{
	for (size_t i = 0; i < w->n;) {
		if (w->follows[i].seen_ns >= since_ns) {
			i++;
			continue;
		}
		if (w->follows[i].client != w->round.local)
			kv_client_close(w->follows[i].client);
		w->follows[i] = w->follows[--w->n];
	}
}

int
kvdiag_follow_look(struct kvdiag_watch *w)
{
	struct kv_doctor_pool *p = &w->round.pool;
	uint64_t begin = now_ns();
	int rc = kvdiag_round_again(&w->round);

	/* No master is there: what the node of this host says of itself. */
	if (rc == 0 && p->n_nodes == 0 && p->own &&
	    kv_client_local_node(w->round.local, &w->round.own) == 0)
		p->nodes[p->n_nodes++].info = w->round.own;
	for (size_t i = 0; rc == 0 && i < p->n_nodes; i++)
		follow_node(w, &p->nodes[i]);
	follow_forget(w, begin);
	return rc;
}

void
kvdiag_follow_end(struct kvdiag_watch *w)
{
	follow_forget(w, UINT64_MAX);
}
