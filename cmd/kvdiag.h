/* The subcommands of kvdiag. */
#ifndef KV_CMD_KVDIAG_H
#define KV_CMD_KVDIAG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cli/opts.h"
#include "cli/out.h"
#include "kvpool.h"
#include "xfer/mcenv.h"
#include "xfer/rdmadev.h"

struct kvdiag {
	struct kv_opts common;
	bool is_nul;
	uint64_t interval_ns; /* of watch; 0: not given */
	const char *command;
	const char *arg;          /* its argument, or NULL */
	struct kv_client *client; /* NULL for config */
	bool is_alone; /* the node of --socket did not answer, and is left out
			*/
	struct kv_out *out;
};

/*
 * Each writes its answer to out and complaints to stderr, and returns the exit
 * code: 1 for what is missing or not well.
 */
int kvdiag_nodes(struct kvdiag *d);
int kvdiag_pools(struct kvdiag *d);
int kvdiag_keys(struct kvdiag *d);
int kvdiag_key(struct kvdiag *d);
int kvdiag_stats(struct kvdiag *d);
int kvdiag_links(struct kvdiag *d);
int kvdiag_devices(struct kvdiag *d);
int kvdiag_config(struct kvdiag *d);
int kvdiag_doctor(struct kvdiag *d);
int kvdiag_watch(struct kvdiag *d);

/* Tells a status of the library that is no answer. Returns the exit code. */
int kvdiag_fail(const struct kvdiag *d, int status);

/* Says how many nodes did not answer, unless none. Returns 75, or 0. */
int kvdiag_away(uint32_t nodes);

/* Counters as text, to be freed; NULL and *STATUS -kv_status. */
char *kvdiag_read_stats(struct kv_client *c, const char *whose, int *status);

/* The white list of the configuration, else of the environment. */
const char *kvdiag_wanted(const struct kvdiag *d, const struct kv_mcenv *env);
/* As kv_rdmadev_list() of this machine, and what the environment leaves out is
 * marked. */
long kvdiag_list_devices(const struct kvdiag *d, const struct kv_mcenv *env,
			 struct kv_rdmadev **list,
			 char why[KV_RDMADEV_WHY_BYTES]);

/*
 * The nodes, and how many: up to KV_NODES_MAX, to be freed. *CODE is 0, or 1
 * when it is the node of this host alone, for no master answered. On failure
 * NULL, and *CODE is the exit code.
 */
struct kv_node_info *kvdiag_list_nodes(const struct kvdiag *d, size_t *n,
				       int *code);

#endif
