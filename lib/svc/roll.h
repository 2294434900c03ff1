#ifndef KV_SVC_ROLL_H
#define KV_SVC_ROLL_H

/*
 * The table of nodes, as masters know it: from the first one that answers, and
 * where that does not know all of them (it rebuilds, or lacks some that others
 * have) from the next ones as well. With no master named, the local node tells
 * of itself. It goes to the hub.
 */

#include "svc/ask.h"

struct kv_roll {
	/* Set by the caller, all zero otherwise: */
	uint64_t deadline;
	/* Once, deferred: 0 when somebody answered, else -kv_status. */
	void (*fn)(struct kv_roll *roll, int status);

	/* Inside: */
	struct kv_ask ask;
	unsigned number;   /* of the hub */
	unsigned spoke;    /* bits of masters that answered */
	uint8_t gaps;      /* why these did not know all: KV_LOOKUP_* */
	bool is_whole;     /* one of them did */
	unsigned young_ms; /* none did, and one of them was started just now:
			    * so long nodes may take to find it */
	int status;
};

void kv_roll_start(struct kv_chan *ch, struct kv_roll *roll);
/* fn is not called any more. Harmless when it is over or never began. */
void kv_roll_cancel(struct kv_roll *roll);

#endif
