#ifndef KV_SVC_SURVEY_H
#define KV_SVC_SURVEY_H

/*
 * Who has these keys: the directory's answer; where that proves nothing (a
 * master that rebuilds, or none), the nodes' own. A node that it hides, because
 * others could not reach it, is asked over a connection that is there.
 */

#include "base/list.h"
#include "store/key.h"
#include "svc/ask.h"

struct kv_survey_key {
	struct kv_hash hash;
	uint8_t n; /* owners found */
	uint8_t exists;
	uint16_t owners[KV_REPLICAS_MAX]; /* numbers in survey->boots */
};

struct kv_survey {
	/* Set by the caller, all zero otherwise: */
	struct kv_survey_key *keys; /* hash set; results are written */
	size_t n;
	bool exist_only; /* exists, not owners; marks what it finds */
	uint64_t deadline;
	/* Once, deferred. 0, or -kv_status when nobody at all answered. */
	void (*done)(struct kv_survey *s, int status);

	/* Out: */
	struct kv_id *boots; /* owners; their addresses are in the hub */
	unsigned n_boots;
	int doubt; /* 0: what was not found is nowhere that can be reached;
		    * else -kv_status: no master answered, or `lack` */
	int lack;  /* what this process had not, -KV_ENOMEM; or 0 */

	/* Inside: */
	struct kv_chan *ch;
	struct kv_ask ask;
	struct kv_list polls; /* nodes being asked */
	struct kv_defer defer;
	size_t pos; /* first key of the frame under way */
	size_t asked;
	int status;
	bool heard;         /* somebody answered */
	bool has_directory; /* a master did, for all keys */
	bool is_incomplete; /* it said so, or a node was not heard */
	bool hides;         /* it left nodes out */
};

void kv_survey_start(struct kv_chan *ch, struct kv_survey *s);
/* done is not called any more; frees what it holds. To be called in any case
 * when the results are no longer needed. */
void kv_survey_fini(struct kv_survey *s);

#endif
