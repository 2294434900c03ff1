#ifndef KV_SIM_SIMPAIR_H
#define KV_SIM_SIMPAIR_H

/* A connection between two simulated processes, for tests of what runs over
 * it: hosts "a" (which dials) and "b"; or both on "a" over a Unix socket. */

#include <stdbool.h>

#include "event/loop.h"
#include "simnet.h"

struct simpair {
	struct kv_clock clock;
	struct kv_loop *loop;
	struct simnet *sn;
	struct kv_net *net[2];       /* of processes 1 and 2 */
	struct kv_stream *stream[2]; /* for the test to take and close */
	struct kv_listener *listener;
};

void simpair_open(struct simpair *p, const struct simnet_opts *opts,
		  bool is_unix);
/* All streams are closed. */
void simpair_close(struct simpair *p);

/* Lets `ns` pass. */
void simpair_run(struct simpair *p, uint64_t ns);

#endif
