/* What kvdiag watch follows. */
#ifndef KV_CMD_KVDIAG_WATCH_H
#define KV_CMD_KVDIAG_WATCH_H

#include "cmd/kvdiag_round.h"

enum {
	KVDIAG_WATCH_NODES = 64, /* whose counters are followed */
	KVDIAG_WATCH_RATES = 6,
};

struct kvdiag_watch_rate {
	const char *name;    /* for programs */
	const char *head;    /* for people */
	const char *counter; /* of a node */
	bool is_bytes;
};
extern const struct kvdiag_watch_rate kvdiag_watch_rates[KVDIAG_WATCH_RATES];

/* A node whose counters are followed. */
struct kvdiag_follow {
	char boot[33];
	struct kv_client *client; /* maybe the round's own */
	uint64_t seen_ns;         /* in the pool */
	uint64_t again_ns;        /* not asked before */
	uint64_t read_ns;         /* when counts were; 0: never */
	uint64_t counts[KVDIAG_WATCH_RATES];
	bool has_rates;
	double rates[KVDIAG_WATCH_RATES];
};

struct kvdiag_watch {
	struct kvdiag_round round;
	struct kvdiag_follow follows[KVDIAG_WATCH_NODES];
	size_t n;
	bool has_keys; /* q ends it */
};

/* Asks masters and nodes. 0, or -kv_status without memory. */
int kvdiag_follow_look(struct kvdiag_watch *w);
/* NULL: it is not followed. */
struct kvdiag_follow *kvdiag_follow_find(struct kvdiag_watch *w,
					 const char *boot);
void kvdiag_follow_end(struct kvdiag_watch *w);

/* What is known now, as text or as one line of JSON, to be freed; NULL: out of
 * memory. */
char *kvdiag_picture(struct kvdiag_watch *w);

#endif
