#ifndef KV_SVC_GETOP_H
#define KV_SVC_GETOP_H

/*
 * One get of many objects: the node that the caller prefers is asked for all of
 * them, the local node for what that one did not give, the directory for the
 * owners of the rest, then the owners, each key's next replica after any
 * failure. A key that nobody could give is a miss; one that
 * was not found is so only if the answers prove it (struct kv_survey, doubt).
 */

#include "base/list.h"
#include "kvpool.h"
#include "svc/ask.h"
#include "svc/survey.h"

struct kv_getop_key;

struct kv_getop {
	/* Set by the caller, all zero otherwise: */
	struct kv_get_item *items; /* status, len, size_total are written */
	size_t n;                  /* at least 1, below 2^32 */
	uint64_t deadline;         /* ns */
	const char *prefer;        /* name or address of a node, or NULL */
	/* Once, from the loop: every item has its status. Nothing reaches the
	 * buffers any more. */
	void (*done)(struct kv_getop *op);

	/* Inside: */
	struct kv_chan *ch;
	struct kv_getop_key *keys;
	struct kv_list groups; /* under way */
	struct kv_survey survey;
	struct kv_timer timer;
	struct kv_defer defer;
	int phase;
	int lack;       /* what this process had not for some key: -kv_status */
	unsigned again; /* surveys after the first */
	bool starting;  /* more groups are about to start */
	bool asked_local;
};

/* 0, or -KV_ENOMEM: then done is not called. */
int kv_getop_start(struct kv_chan *ch, struct kv_getop *op);

/* Gives up: what has no result yet gets this one (-kv_status), and done runs
 * before it returns. */
void kv_getop_abort(struct kv_getop *op, int status);

#endif
