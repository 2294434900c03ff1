#ifndef KV_SIM_SIMRAILS_H
#define KV_SIM_SIMRAILS_H

/*
 * RDMA for simulated processes: fake devices (hca.h), so many in each host,
 * each with a port in a network of its own. Built where there are headers of
 * verbs; so the cluster knows it as a struct cluster_rdma.
 */

#include "cluster.h"
#include "hca.h"

#define SIMRAILS_MAX 8

/* How a work request can fail. */
#define SIMRAILS_STATUSES 15
extern const enum ibv_wc_status simrails_statuses[SIMRAILS_STATUSES];

struct simrails;

struct simrails_opts {
	uint64_t seed;
	unsigned rails;
	double gbps;         /* of each; 0: 100 */
	uint64_t latency_ns; /* one way; 0: 2 us, and jitter */
};

/* For one cluster, as struct cluster_opts.rdma; free it after that one. Never
 * NULL. */
struct simrails *simrails_new(const struct simrails_opts *o);
void simrails_free(struct simrails *s);
struct cluster_rdma *simrails_rdma(struct simrails *s);

unsigned simrails_rails(const struct simrails *s);
/* What goes wrong is told to the ports; valid once a process has been on that
 * host. */
struct hca *simrails_hca(struct simrails *s);
struct hca_port *simrails_port(struct simrails *s, const char *host,
			       unsigned rail);
/* All ways from and to a port of that rail: a cable is out, at all hosts when
 * host is NULL. */
void simrails_cut(struct simrails *s, const char *host, unsigned rail,
		  bool cut);
/* The device of the port is gone for good. */
void simrails_remove(struct simrails *s, const char *host, unsigned rail);
/* At all hosts nothing is cut, and all ports are up. */
void simrails_mend(struct simrails *s, unsigned rail);

#endif
