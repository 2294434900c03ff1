/* The second half of a round: dialling the nodes, and what they know. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/num.h"
#include "cmd/kvdiag_round.h"
#include "svc/client.h"

/* Nodes that do not answer, of which it is asked why. */
#define WHY_MAX 8
/* For the keys of one node. */
#define LIST_NS (2 * KV_NS_PER_S)

static uint64_t
now_ns(void)
{
	return kv_clock_now(&(struct kv_clock){ 0 });
}

/* Whether somebody else has dialled all that this master knows. */
static bool
is_known(const struct kv_doctor_pool *p, const struct kv_doctor_master *m,
	 const bool *is_dialled)
{
	size_t i;

	for (i = 0; i < m->n; i++) {
		const struct kv_doctor_node *n =
			kvdiag_round_find(p, m->nodes[i].boot);

		if (n && !is_dialled[n - p->nodes])
			return false;
	}
	return true;
}

static int
dial_nodes(struct kvdiag_round *r)
{
	struct kv_link_info *links = calloc(KV_NODES_MAX, sizeof(*links));
	struct kv_doctor_pool *p = &r->pool;
	bool is_dialled[KV_NODES_MAX] = { 0 };
	size_t i;
	long n, j;

	if (!links)
		return -KV_ENOMEM;
	for (i = 0; i < p->n_masters; i++) {
		if (!r->clients[i] || is_known(p, &p->masters[i], is_dialled))
			continue;
		n = kv_client_links(r->clients[i], links, KV_NODES_MAX);
		for (j = 0; j < n && j < KV_NODES_MAX; j++) {
			struct kv_doctor_node *node =
				kvdiag_round_find(p, links[j].boot);

			if (!node)
				continue;
			is_dialled[node - p->nodes] = true;
			node->d.status = links[j].status;
			node->d.trip_ns = links[j].round_trip_ns;
		}
	}
	free(links);
	return 0;
}

struct listing {
	struct kv_doctor_keys *keys;
	unsigned n;
	uint64_t until_ns; /* a node may have pages for ever */
};

static int
listed(void *arg, const struct kv_client_listed *l)
{
	struct listing *to = arg;

	if (!l)
		return now_ns() >= to->until_ns;
	kv_doctor_keys_add(to->keys, l->key, l->putter, l->is_shared);
	return ++to->n >= KV_DOCTOR_KEYS;
}

/* Why it does not answer: "master ADDR: " stands before that. */
static void
ask_why(const struct kvdiag_round *r, struct kv_doctor_node *node)
{
	struct kv_client *c;
	char why[256], *at;
	int status;

	snprintf(node->d.why, sizeof(node->d.why), "%s",
		 node->d.status == -KV_EGONE ? "another node does"
					     : kv_status_text(node->d.status));
	if (node->d.status == -KV_EGONE)
		return;
	c = kvdiag_round_open(r->d, node->info.addr, "", &status, why);
	at = strstr(why, ": ");
	if (!c && at)
		snprintf(node->d.why, sizeof(node->d.why), "%s", at + 2);
	kv_client_close(c);
}

static void
ask_node(struct kvdiag_round *r, struct kv_doctor_node *node)
{
	struct listing to = { .keys = r->keys, .until_ns = now_ns() + LIST_NS };
	struct kv_client *c;
	int status;

	c = kvdiag_round_open(r->d, node->info.addr, "", &status, node->d.why);
	if (!c) {
		node->d.status = status;
		return;
	}
	kvdiag_round_read(&node->d, c, "master");
	kv_client_list_all(c, NULL, listed, &to, NULL, NULL);
	kv_client_close(c);
}

int
kvdiag_round_visit(struct kvdiag_round *r)
{
	struct kv_doctor_pool *p = &r->pool;
	unsigned asked = 0;
	size_t i;
	int rc = dial_nodes(r);

	for (i = 0; rc == 0 && i < p->n_nodes; i++) {
		if (p->nodes[i].d.status == 0)
			ask_node(r, &p->nodes[i]);
		else if (asked++ < WHY_MAX)
			ask_why(r, &p->nodes[i]);
	}
	return rc;
}

uint64_t
kvdiag_round_asked(const struct kvdiag_round *r)
{
	uint64_t n = 0;
	size_t i;

	for (i = 0; i < r->pool.n_masters; i++) {
		const struct kv_doctor_daemon *d = &r->pool.masters[i].d;

		n += kv_doctor_stat(d, "master_exist_key_requests_total") +
		     kv_doctor_stat(d, "master_batch_exist_key_items_total");
	}
	return n;
}
