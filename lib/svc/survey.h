#ifndef KV_SVC_SURVEY_H
#define KV_SVC_SURVEY_H

/*
 * Who has these keys: a master's answer; where its misses prove nothing (it
 * rebuilds, or others may know more), those of the other masters; and where
 * these do not know either, or there is none, the nodes' own. A node that they
 * hide, because others could not reach it, is asked over a connection that is
 * there.
 */

#include "base/list.h"
#include "kvpool.h"
#include "store/key.h"
#include "svc/ask.h"

struct kv_survey_key {
	struct kv_hash hash;
	uint8_t n; /* owners found */
	uint8_t exists;
	uint16_t owners[KV_REPLICAS_MAX]; /* numbers in survey->boots */
};

/* Frames under way to masters: while one is looked up the next one is there,
 * and one more is hashed. */
#define KV_SURVEY_FRAMES 3

struct kv_survey_frame {
	struct kv_ask ask;
	struct kv_survey *s;
	size_t pos; /* its first key of the round's */
	size_t n;   /* 0: none */
};

struct kv_survey {
	/* Set by the caller, all zero otherwise: */
	struct kv_survey_key *keys; /* results are written */
	size_t n;
	/* Of all keys: hashed when their turn comes, while masters look up
	 * those before. NULL: hash is set in all. */
	const struct kv_key *names;
	bool exist_only; /* exists, not owners; marks what it finds */
	bool ask_all;    /* every master, also about what one knows: that may
			  * have been wrong */
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
	struct kv_survey_frame frames[KV_SURVEY_FRAMES];
	struct kv_list polls; /* nodes being asked */
	struct kv_defer defer;
	size_t hashed;     /* keys of which the names were */
	size_t *left;      /* keys of this round; NULL: all, it is the first */
	size_t n_left;     /* their number */
	size_t pos;        /* so many of them were asked for */
	size_t told;       /* and so many answered */
	unsigned rounds;   /* begun */
	unsigned answered; /* bits: masters that answered each frame of it */
	unsigned spoke;    /* those that need not be asked again */
	uint8_t flags;     /* of this round's answers: KV_LOOKUP_* */
	uint8_t gaps;      /* of all that were asked */
	int status;
	bool heard;         /* somebody answered */
	bool has_directory; /* a master did, for all keys */
	bool hides;         /* it left nodes out */
};

void kv_survey_start(struct kv_chan *ch, struct kv_survey *s);
/* done is not called any more; frees what it holds. To be called in any case
 * when the results are no longer needed. */
void kv_survey_fini(struct kv_survey *s);

#endif
