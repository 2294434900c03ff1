#ifndef KV_SVC_PUTOP_H
#define KV_SVC_PUTOP_H

/*
 * One put of many objects: for each the owners are chosen (store/place.h),
 * asked for room, and given the bytes: by filling the local pool's mapping, or
 * over a data connection. What one owner could not take goes to the next within
 * the same call.
 */

#include "base/list.h"
#include "kvpool.h"
#include "svc/ask.h"

struct kv_putop_key;
struct kv_putop_cand;

struct kv_putop {
	/* Set by the caller, all zero otherwise: */
	struct kv_put_item *items; /* status, replicas are written */
	size_t n;                  /* at least 1, below 2^32 */
	unsigned replicas;         /* 1..KV_REPLICAS_MAX */
	uint8_t flags;             /* KV_PUT_SOFT_PIN, KV_PUT_HARD_PIN */
	const char *prefer;        /* name or address of a node, or NULL */
	uint64_t deadline;         /* ns */
	/* Once, from the loop: every item has its status. Nothing reads the
	 * values any more. */
	void (*done)(struct kv_putop *op);

	/* Inside: */
	struct kv_chan *ch;
	struct kv_putop_key *keys;
	struct kv_putop_cand *cands; /* the nodes, as known at the start */
	unsigned n_cands;
	struct kv_list groups; /* under way */
	struct kv_link_wait local;
	struct kv_timer timer;
	struct kv_defer defer;
	struct kv_put_id put_id;
	unsigned preparing; /* answers that the start waits for */
	bool starting;      /* more groups are about to start */
	bool has_retried;
	bool is_over;
};

/* 0, or -KV_ENOMEM: then done is not called. */
int kv_putop_start(struct kv_chan *ch, struct kv_putop *op);

/* Gives up: what has no result yet gets this one (-kv_status), and done runs
 * before it returns. */
void kv_putop_abort(struct kv_putop *op, int status);

#endif
