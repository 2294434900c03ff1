#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clustercore.h"
#include "svc/getop.h"
#include "svc/survey.h"

struct agreement {
	struct kv_getop op;
	struct kv_get_item item;
	struct kv_buf buf;
	struct kv_survey survey;
	struct kv_survey_key exist;
	bool is_got, is_told;
};

static void
agreement_got(struct kv_getop *op)
{
	KV_CONTAINER_OF(op, struct agreement, op)->is_got = true;
}

static void
agreement_told(struct kv_survey *s, int status)
{
	(void)status;
	KV_CONTAINER_OF(s, struct agreement, survey)->is_told = true;
}

static void
read_one(struct cluster *cl, struct sim_requester *r, const char *name,
	 struct agreement *a)
{
	uint64_t until = cl->clock.ns + 2 * DEADLINE_NS;

	kv_loop_refresh(cl->loop);
	a->item = (struct kv_get_item){ .key = { name, strlen(name) },
					.bufs = &a->buf,
					.nbufs = 1 };
	a->op = (struct kv_getop){ .items = &a->item,
				   .n = 1,
				   .deadline = cl->clock.ns + DEADLINE_NS,
				   .done = agreement_got };
	a->exist = (struct kv_survey_key){
		.hash = kv_key_hash(r->hub.key_seed, name, strlen(name))
	};
	a->survey = (struct kv_survey){ .keys = &a->exist,
					.n = 1,
					.exist_only = true,
					.deadline = cl->clock.ns + DEADLINE_NS,
					.done = agreement_told };
	a->is_got = a->is_told = false;
	kv_getop_start(r->ch, &a->op);
	kv_survey_start(r->ch, &a->survey);
	while (!a->is_got || !a->is_told) {
		if (cl->clock.ns > until)
			cluster_forbid(cl, "reading %s hangs", name);
		cluster_run(cl, KV_NS_PER_MS);
	}
	kv_survey_fini(&a->survey);
}

static void
key_check_agreement(struct cluster *cl, unsigned key, struct agreement *a,
		    struct agreement *first)
{
	char name[32];
	unsigned i;

	snprintf(name, sizeof(name), "key-%u", key);
	for (i = 0; i < cl->o.requesters; i++) {
		read_one(cl, &cl->requesters[i], name, i ? a : first);
		if (i == 0 && first->item.status == 0)
			cluster_judge_bytes(cl, key, first->buf.data,
					    first->item.len);
		if (i == 0)
			continue;
		if (a->item.status != first->item.status)
			cluster_forbid(
				cl, "%s: requester 0 says %s, requester %u %s",
				name, kv_status_text(first->item.status), i,
				kv_status_text(a->item.status));
		if (a->item.status == 0 &&
		    (a->item.len != first->item.len ||
		     memcmp(a->buf.data, first->buf.data, a->item.len) != 0))
			cluster_forbid(cl,
				       "%s: requesters 0 and %u read different "
				       "values",
				       name, i);
		if (a->exist.exists != (a->item.status == 0))
			cluster_forbid(cl, "%s: exist says %u, get says %s",
				       name, a->exist.exists,
				       kv_status_text(a->item.status));
	}
}

void
cluster_check_agreement(struct cluster *cl)
{
	struct agreement a = { 0 }, first = { 0 };
	unsigned key, i;

	a.buf = (struct kv_buf){ malloc(cl->o.size_max), cl->o.size_max };
	first.buf = (struct kv_buf){ malloc(cl->o.size_max), cl->o.size_max };
	assert(a.buf.data && first.buf.data);
	/* Who alone remembers a removal tells of it when he connects. */
	for (i = 0; i < cl->o.requesters; i++)
		read_one(cl, &cl->requesters[i], "key-0", &a);
	cluster_run(cl, 100 * KV_NS_PER_MS);
	for (key = 0; key < cl->o.keys; key++)
		key_check_agreement(cl, key, &a, &first);
	free(a.buf.data);
	free(first.buf.data);
}
