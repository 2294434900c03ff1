#include "cmd/kvdiag_round.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/num.h"
#include "cli/tool.h"
#include "svc/client.h"

#define ANSWER_MS 2000

static uint64_t
now_ns(void)
{
	return kv_clock_now(&(struct kv_clock){ 0 });
}

/* What the library says while it tries is told as a finding. */
static void
tell_nobody(void *arg, enum kv_log_level level, const char *msg)
{
	(void)arg;
	(void)level;
	(void)msg;
}

struct kv_client *
kvdiag_round_open(const struct kvdiag *d, const char *master,
		  const char *socket, int *status, char why[256])
{
	struct kv_client_opts o;

	kv_tool_client_opts(&d->common, &o);
	kv_log_set_sink(tell_nobody, NULL);
	/* Who cannot have it is told so as of the devices, and asks by TCP. */
	if (o.protocol == KV_PROTOCOL_RDMA)
		o.protocol = KV_PROTOCOL_RDMA_OR_TCP;
	o.master = master;
	o.socket = socket;
	o.timeout_ms = o.timeout_ms ? o.timeout_ms : ANSWER_MS;
	o.status = status;
	return kv_client_open(&o, why, 256);
}

void
kvdiag_round_read(struct kv_doctor_daemon *daemon, struct kv_client *c,
		  const char *whose)
{
	uint64_t asked_ms = kv_clock_wall_ms();
	int status;

	free(daemon->stats);
	daemon->stats = kvdiag_read_stats(c, whose, &status);
	if (daemon->stats)
		kv_doctor_read(daemon, asked_ms, kv_clock_wall_ms());
}

/* ---- the kvclient of this host ---- */

static void
ask_local(struct kvdiag_round *r)
{
	const struct kv_conf *conf = &r->d->common.conf;
	bool is_named =
		*conf->socket || conf->source[KV_CONF_SOCKET] == KV_CONF_OPTION;

	r->local = kvdiag_round_open(r->d, NULL, is_named ? conf->socket : NULL,
				     &r->local_status, r->local_why);
	if (!r->local)
		return;
	r->local_status = kv_client_local_node(r->local, &r->own);
	if (r->local_status == 0)
		r->pool.own = &r->own;
	else
		snprintf(r->local_why, sizeof(r->local_why), "%s",
			 kv_status_text(r->local_status));
}

/* Those that are named, else those that the node of this host uses. */
static void
find_masters(struct kvdiag_round *r)
{
	const char *list = r->d->common.conf.master_server_address;
	size_t len, *n = &r->pool.n_masters;

	for (; *list && *n < KV_MASTERS_MAX; list += len + (list[len] == ',')) {
		len = strcspn(list, ",");
		snprintf(r->addrs[(*n)++], sizeof(r->addrs[0]), "%.*s",
			 (int)len, list);
	}
	if (*n || !r->local)
		return;
	for (; *n < r->local->hub.n_masters; ++*n)
		snprintf(r->addrs[*n], sizeof(r->addrs[0]), "%s",
			 r->local->hub.masters[*n]);
}

/* ---- masters ---- */

/* For the first time, or again. */
static int
ask_master(struct kvdiag_round *r, size_t i)
{
	struct kv_doctor_master *m = &r->pool.masters[i];
	struct kv_client **c = &r->clients[i];
	uint64_t begin;
	long n;

	m->d.addr = r->addrs[i];
	m->n = 0;
	if (!m->nodes)
		m->nodes = calloc(KV_NODES_MAX, sizeof(*m->nodes));
	if (!m->nodes)
		return -KV_ENOMEM;
	if (!*c)
		*c = kvdiag_round_open(r->d, r->addrs[i], "", &m->d.status,
				       m->d.why);
	if (!*c)
		return 0;
	begin = now_ns();
	n = kv_client_nodes(*c, m->nodes, KV_NODES_MAX);
	m->d.trip_ns = now_ns() - begin;
	m->d.status = n < 0 ? (int)n : 0;
	if (n < 0) {
		snprintf(m->d.why, sizeof(m->d.why), "master %s: %s", m->d.addr,
			 kv_status_text((int)n));
		return 0;
	}
	m->n = kv_min_size((size_t)n, KV_NODES_MAX);
	kvdiag_round_read(&m->d, *c, "master");
	return 0;
}

struct kv_doctor_node *
kvdiag_round_find(const struct kv_doctor_pool *p, const char *boot)
{
	size_t i;

	for (i = 0; i < p->n_nodes; i++)
		if (strcmp(p->nodes[i].info.boot, boot) == 0)
			return &p->nodes[i];
	return NULL;
}

/* What a master says of its nodes; the one that heard a node last is right. */
static void
merge_nodes(struct kv_doctor_pool *p, const struct kv_doctor_master *m)
{
	const struct kv_node_info *info;
	struct kv_doctor_node *node;

	for (info = m->nodes; info < m->nodes + m->n; info++) {
		node = kvdiag_round_find(p, info->boot);
		if (!node && p->n_nodes < KV_NODES_MAX) {
			node = &p->nodes[p->n_nodes++];
			node->info = *info;
			node->d.addr = node->info.addr;
			node->d.status = -KV_EUNREACHABLE;
			node->ready_before = info->ready_bytes;
		} else if (node && info->heard_ms <= node->info.heard_ms) {
			node->info = *info;
		}
	}
}

int
kvdiag_round_start(struct kvdiag_round *r, struct kvdiag *d)
{
	struct kv_doctor_pool *p = &r->pool;
	size_t i;

	*r = (struct kvdiag_round){ .d = d };
	p->masters = calloc(KV_MASTERS_MAX, sizeof(*p->masters));
	p->nodes = calloc(KV_NODES_MAX, sizeof(*p->nodes));
	r->keys = kv_doctor_keys_new();
	if (!p->masters || !p->nodes || !r->keys)
		return -KV_ENOMEM;
	ask_local(r);
	find_masters(r);
	for (i = 0; i < p->n_masters; i++) {
		if (ask_master(r, i) < 0)
			return -KV_ENOMEM;
		merge_nodes(p, &p->masters[i]);
	}
	return 0;
}

/* Takes out the nodes that no master names any more. */
static void
drop_nodes(struct kv_doctor_pool *p)
{
	size_t i, n = 0;

	for (i = 0; i < p->n_nodes; i++) {
		struct kv_doctor_node *node = &p->nodes[i];

		if (node->info.heard_ms == UINT64_MAX) {
			free(node->d.stats);
			continue;
		}
		p->nodes[n] = *node;
		p->nodes[n].d.addr = p->nodes[n].info.addr;
		n++;
	}
	for (i = n; i < p->n_nodes; i++)
		p->nodes[i] = (struct kv_doctor_node){ 0 };
	p->n_nodes = n;
}

int
kvdiag_round_again(struct kvdiag_round *r)
{
	struct kv_doctor_pool *p = &r->pool;
	size_t i;

	for (i = 0; i < p->n_nodes; i++)
		p->nodes[i].info.heard_ms = UINT64_MAX;
	for (i = 0; i < p->n_masters; i++) {
		if (ask_master(r, i) < 0)
			return -KV_ENOMEM;
		merge_nodes(p, &p->masters[i]);
	}
	drop_nodes(p);
	return 0;
}

void
kvdiag_round_end(struct kvdiag_round *r)
{
	struct kv_doctor_pool *p = &r->pool;
	size_t i;

	for (i = 0; p->masters && i < p->n_masters; i++) {
		free(p->masters[i].nodes);
		free(p->masters[i].d.stats);
		kv_client_close(r->clients[i]);
	}
	for (i = 0; p->nodes && i < p->n_nodes; i++)
		free(p->nodes[i].d.stats);
	free(p->masters);
	free(p->nodes);
	kv_doctor_keys_free(r->keys);
	kv_client_close(r->local);
}
