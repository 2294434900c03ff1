/* The second half of a round: dialling the nodes, and what they know. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/num.h"
#include "cmd/kvdiag_round.h"
#include "svc/client.h"

/* Nodes that do not answer, which are asked once more. */
#define AGAIN_MAX 8
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

/* Is it the very node that the master means? */
static bool
is_it(struct kv_client *c, const struct kv_doctor_node *node)
{
	struct kv_node_info info;

	return kv_client_nodes(c, &info, 1) == 1 &&
	       strcmp(info.boot, node->info.boot) == 0;
}

/* Also when it did not answer before: a busy one may do so now. */
static void
ask_node(struct kvdiag_round *r, struct kv_doctor_node *node)
{
	struct listing to = { .keys = r->keys, .until_ns = now_ns() + LIST_NS };
	struct kv_client *c;
	char why[256], *at;

	c = kvdiag_round_open(r->d, node->info.addr, "", &node->d.status, why);
	if (!c) {
		at = strstr(why, ": "); /* "master ADDR: nobody listens" */
		snprintf(node->d.why, sizeof(node->d.why), "%s",
			 at ? at + 2 : why);
		return;
	}
	if (is_it(c, node)) {
		kvdiag_round_read(&node->d, c, "master");
		kv_client_list_all(c, NULL, listed, &to, NULL, NULL);
	} else {
		node->d.status = -KV_EGONE;
		snprintf(node->d.why, sizeof(node->d.why), "another node does");
	}
	kv_client_close(c);
}

int
kvdiag_round_visit(struct kvdiag_round *r)
{
	struct kv_doctor_pool *p = &r->pool;
	struct kv_doctor_node *node;
	unsigned again = 0;
	int rc = dial_nodes(r);

	if (rc < 0)
		return rc;
	for (node = p->nodes; node < p->nodes + p->n_nodes; node++) {
		if (node->d.status == 0 || again++ < AGAIN_MAX)
			ask_node(r, node);
		else
			snprintf(node->d.why, sizeof(node->d.why), "%s",
				 kv_status_text(node->d.status));
	}
	return 0;
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
