#ifndef KV_SIM_CLUSTERCALL_H
#define KV_SIM_CLUSTERCALL_H

/* A call of a requester, and the model of what may come of it: clustercall.c
 * makes calls, clusterremove.c those that remove, clustermodel.c judges. */

#include "clustercore.h"
#include "svc/ask.h"
#include "svc/getop.h"
#include "svc/putop.h"
#include "svc/survey.h"

#define BATCH_MAX 6

enum call_kind {
	CALL_PUT,
	CALL_GET,
	CALL_EXIST,
	CALL_REMOVE,
};

struct sim_call {
	struct sim_requester *r;
	enum call_kind kind;
	uint64_t started;
	unsigned epoch;
	bool is_parted, is_split;
	bool is_healthy; /* nothing was broken when it began */
	unsigned n;
	unsigned key[BATCH_MAX];
	uint64_t must[BATCH_MAX]; /* tags that a get has to find */
	bool is_seen[BATCH_MAX];
	uint64_t tag[BATCH_MAX];
	char name[BATCH_MAX][32];
	struct kv_buf bufs[BATCH_MAX][2];
	char *bytes[BATCH_MAX];
	bool is_registered[BATCH_MAX];
	struct kv_put_item puts[BATCH_MAX];
	struct kv_get_item gets[BATCH_MAX];
	struct kv_survey_key exists[BATCH_MAX];
	struct kv_putop putop;
	struct kv_getop getop;
	struct kv_survey survey;
	struct kv_ask ask;
	/* CALL_REMOVE: */
	bool is_all;                     /* else its keys */
	struct kv_generation generation; /* all: that it begins */
	uint32_t away;
	int first; /* the master that removed */
	unsigned tries;
	uint64_t asked, until;
	int told;         /* of the others: those before this one */
	bool is_answered; /* that one */
	bool is_partly;   /* it may not know all nodes */
	bool is_begun;    /* the generation holds */
	bool is_raised;   /* another one than the masters before have */
	unsigned raises;
	bool is_unheard; /* some could not be told */
};

/* ---- clustercall.c ---- */

/* It has ended in time; it is freed. */
void cluster_call_ended(struct sim_call *call);
void cluster_call_free(struct sim_call *call);

/* ---- clusterremove.c ---- */

void cluster_remove_start(struct sim_call *call);
/* The call of a requester that is gone. */
void cluster_remove_abort(struct sim_requester *r);

/* ---- clustermodel.c ---- */

/* All bytes of the value of an attempt. */
void cluster_value_write(char *p, uint64_t tag, uint64_t size);

/* What of the model a call has to find. */
void cluster_model_ask(struct sim_call *call);
/* Key i of the call is put, under its tag; that has ended. */
void cluster_model_put(struct sim_call *call, unsigned i, uint64_t size);
void cluster_judge_put(struct sim_call *call, unsigned i);
void cluster_judge_get(struct sim_call *call, unsigned i);
/* status: of the call. */
void cluster_judge_exist(struct sim_call *call, unsigned i, int status);

/* Nothing need be found, and no verdict counts, of what overlaps with a
 * removal. */
void cluster_model_forget(struct cluster *cl);
/* What the call removes, and was stored before it began, is not to be seen
 * again, whatever happens from now on; or only when masters have told all nodes
 * (cluster_removals_done()). */
void cluster_model_removed(const struct sim_call *call);
void cluster_model_removes(const struct sim_call *call);

/* What comes of it is bound by the promises. */
bool cluster_is_promised(const struct sim_call *call);
/* And it can reach every node. */
bool cluster_is_well(const struct sim_call *call);

#endif
