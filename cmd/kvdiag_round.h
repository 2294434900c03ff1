/* What kvdiag doctor asks before it judges: a round to all daemons. */
#ifndef KV_CMD_KVDIAG_ROUND_H
#define KV_CMD_KVDIAG_ROUND_H

#include "base/limits.h"
#include "cmd/kvdiag.h"
#include "svc/doctor.h"

struct kvdiag_round {
	struct kvdiag *d;
	struct kv_client *local; /* to the kvclient of this host, or NULL */
	struct kv_node_info own; /* it */
	int local_status;        /* why it was not reached, -kv_status */
	char local_why[256];
	char addrs[KV_MASTERS_MAX][KV_NAME_BYTES_MAX + 8]; /* of masters */
	struct kv_client *clients[KV_MASTERS_MAX];         /* NULL: no answer */
	struct kv_doctor_pool pool;
	struct kv_doctor_keys *keys;
};

/*
 * Asks the kvclient of this host, the masters, and through them for the nodes.
 * What does not answer says so in its place; -kv_status only when memory is
 * short. Each has --timeout to answer, or two seconds.
 */
int kvdiag_round_start(struct kvdiag_round *r, struct kvdiag *d);
/* Dials the nodes, and asks those that answer for counters and keys. */
int kvdiag_round_visit(struct kvdiag_round *r);
/* Asks the masters again; as kvdiag_round_start(). */
int kvdiag_round_again(struct kvdiag_round *r);
/* Keys whose existence masters were asked for. */
uint64_t kvdiag_round_asked(const struct kvdiag_round *r);
void kvdiag_round_end(struct kvdiag_round *r);

/* ---- shared with kvdiag_visit.c ---- */

/*
 * A client of what these two lead to, and nothing else: a node answers the
 * same questions about itself that a master does. NULL, and why.
 */
struct kv_client *kvdiag_round_open(const struct kvdiag *d, const char *master,
				    const char *socket, int *status,
				    char why[256]);
/* Counters, version and clock, if it tells; whose: as kv_client_stats(). */
void kvdiag_round_read(struct kv_doctor_daemon *daemon, struct kv_client *c,
		       const char *whose);
/* NULL: not in the pool. */
struct kv_doctor_node *kvdiag_round_find(const struct kv_doctor_pool *p,
					 const char *boot);

#endif
