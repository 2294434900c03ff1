#include "simrails.h"

#include <arpa/inet.h>
#include <assert.h>
#include <ifaddrs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/attr.h"
#include "base/clock.h"
#include "base/list.h"
#include "xfer/rdma.h"

const enum ibv_wc_status simrails_statuses[SIMRAILS_STATUSES] = {
	IBV_WC_LOC_LEN_ERR,     IBV_WC_LOC_QP_OP_ERR,     IBV_WC_LOC_PROT_ERR,
	IBV_WC_WR_FLUSH_ERR,    IBV_WC_BAD_RESP_ERR,      IBV_WC_LOC_ACCESS_ERR,
	IBV_WC_REM_INV_REQ_ERR, IBV_WC_REM_ACCESS_ERR,    IBV_WC_REM_OP_ERR,
	IBV_WC_RETRY_EXC_ERR,   IBV_WC_RNR_RETRY_EXC_ERR, IBV_WC_REM_ABORT_ERR,
	IBV_WC_FATAL_ERR,       IBV_WC_RESP_TIMEOUT_ERR,  IBV_WC_GENERAL_ERR,
};

struct host {
	struct kv_list link;
	char name[16];
	struct hca_host *host;
	struct hca_dev *devs[SIMRAILS_MAX];
	struct hca_port *ports[SIMRAILS_MAX];
	struct ifaddrs addrs[SIMRAILS_MAX];
	struct sockaddr_in ips[SIMRAILS_MAX];
};

struct process {
	struct kv_list link;
	pid_t pid;
	const struct kv_rdmaverbs *v;
	struct kv_rdma *rdma;
};

struct simrails {
	struct cluster_rdma rdma;
	struct simrails_opts o;
	struct kv_loop *loop;
	struct hca *hca;
	struct kv_list hosts;
	struct kv_list processes;
	unsigned n_hosts;
};

static struct simrails *
of(struct cluster_rdma *r)
{
	return KV_CONTAINER_OF(r, struct simrails, rdma);
}

static void
begin(struct cluster_rdma *r, struct kv_loop *loop, struct kv_clock *clock)
{
	struct simrails *s = of(r);
	uint64_t latency = s->o.latency_ns;
	const struct hca_opts o = {
		.seed = s->o.seed,
		.latency_ns = latency ? latency : 2 * KV_NS_PER_US,
		.jitter_ns = latency ? 0 : 5 * KV_NS_PER_US,
		.place_ns = 2 * KV_NS_PER_US,
		.flush_ns = 100 * KV_NS_PER_US,
	};

	s->loop = loop;
	s->hca = hca_new(loop, clock, &o);
}

static void
port_add(struct simrails *s, struct host *h, unsigned rail)
{
	static char netdev[] = "eth0";
	static struct sockaddr_in mask;
	char name[16], ip[32];
	struct ifaddrs *a = &h->addrs[rail];

	snprintf(name, sizeof(name), "mlx5_%u", rail);
	snprintf(ip, sizeof(ip), "10.0.%u.%u", rail, s->n_hosts);
	h->devs[rail] = hca_dev_add(h->host, name);
	h->ports[rail] = hca_port_add(h->devs[rail], &(struct hca_port_opts){
							     .gbps = s->o.gbps,
							     .ip = ip,
							     .fabric = rail,
						     });
	mask = (struct sockaddr_in){ .sin_family = AF_INET };
	inet_pton(AF_INET, "255.255.255.0", &mask.sin_addr);
	h->ips[rail].sin_family = AF_INET;
	inet_pton(AF_INET, ip, &h->ips[rail].sin_addr);
	*a = (struct ifaddrs){
		.ifa_next = rail + 1 < s->o.rails ? a + 1 : NULL,
		.ifa_name = netdev,
		.ifa_addr = (struct sockaddr *)&h->ips[rail],
		.ifa_netmask = (struct sockaddr *)&mask,
	};
}

static struct host *
host_find(struct simrails *s, const char *name)
{
	struct host *h;
	unsigned i;

	KV_LIST_FOREACH(h, &s->hosts, link)
		if (strcmp(h->name, name) == 0)
			return h;
	h = calloc(1, sizeof(*h));
	assert(h);
	s->n_hosts++;
	snprintf(h->name, sizeof(h->name), "%s", name);
	h->host = hca_host_add(s->hca, name);
	for (i = 0; i < s->o.rails; i++)
		port_add(s, h, i);
	kv_list_add_tail(&s->hosts, &h->link);
	return h;
}

static struct process *
process_find(struct simrails *s, pid_t pid)
{
	struct process *p;

	KV_LIST_FOREACH(p, &s->processes, link)
		if (p->pid == pid)
			return p;
	return NULL;
}

static struct kv_rdma *
process_open(struct cluster_rdma *r, const char *name, pid_t pid)
{
	struct simrails *s = of(r);
	struct host *h = host_find(s, name);
	struct process *p = calloc(1, sizeof(*p));
	struct kv_mcenv env;
	struct kv_rdma_opts o = {
		.env = &env,
		.waits = true,
		.addrs = h->addrs,
	};
	char err[KV_RDMADEV_WHY_BYTES];

	assert(p);
	kv_mcenv_read(&env, NULL);
	p->pid = pid;
	p->v = hca_process(h->host, s->loop);
	o.verbs = p->v;
	p->rdma = kv_rdma_open(&o, err, sizeof(err));
	if (!p->rdma)
		fprintf(stderr, "sim: %s\n", err);
	assert(p->rdma);
	kv_list_add_tail(&s->processes, &p->link);
	return p->rdma;
}

static void
process_exit(struct cluster_rdma *r, pid_t pid)
{
	hca_process_exit(process_find(of(r), pid)->v);
}

static void
process_close(struct cluster_rdma *r, pid_t pid)
{
	struct process *p = process_find(of(r), pid);

	kv_rdma_close(p->rdma);
	kv_list_del(&p->link);
	free(p);
}

static void
end(struct cluster_rdma *r)
{
	struct simrails *s = of(r);
	struct host *h;

	assert(kv_list_is_empty(&s->processes));
	hca_free(s->hca);
	while ((h = KV_LIST_FIRST(&s->hosts, struct host, link))) {
		kv_list_del(&h->link);
		free(h);
	}
}

struct simrails *
simrails_new(const struct simrails_opts *o)
{
	struct simrails *s = calloc(1, sizeof(*s));

	assert(s && o->rails > 0 && o->rails <= SIMRAILS_MAX);
	s->o = *o;
	s->rdma = (struct cluster_rdma){
		.begin = begin,
		.open = process_open,
		.exit = process_exit,
		.close = process_close,
		.end = end,
	};
	kv_list_init(&s->hosts);
	kv_list_init(&s->processes);
	return s;
}

void
simrails_free(struct simrails *s)
{
	free(s);
}

struct cluster_rdma *
simrails_rdma(struct simrails *s)
{
	return &s->rdma;
}

unsigned
simrails_rails(const struct simrails *s)
{
	return s->o.rails;
}

struct hca *
simrails_hca(struct simrails *s)
{
	return s->hca;
}

struct hca_port *
simrails_port(struct simrails *s, const char *host, unsigned rail)
{
	return host_find(s, host)->ports[rail];
}

void
simrails_cut(struct simrails *s, const char *host, unsigned rail, bool cut)
{
	struct host *h, *other;

	KV_LIST_FOREACH(h, &s->hosts, link) {
		if (host && strcmp(h->name, host) != 0)
			continue;
		KV_LIST_FOREACH(other, &s->hosts, link) {
			hca_cut(h->ports[rail], other->ports[rail], cut);
			hca_cut(other->ports[rail], h->ports[rail], cut);
		}
	}
}

void
simrails_remove(struct simrails *s, const char *host, unsigned rail)
{
	hca_dev_remove(host_find(s, host)->devs[rail]);
}

void
simrails_mend(struct simrails *s, unsigned rail)
{
	struct host *h;

	simrails_cut(s, NULL, rail, false);
	KV_LIST_FOREACH(h, &s->hosts, link)
		hca_port_up(h->ports[rail], true);
}
