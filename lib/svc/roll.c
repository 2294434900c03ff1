#include "svc/roll.h"

#include "base/attr.h"
#include "base/num.h"
#include "base/status.h"

/* By then nodes have found a master that was started. */
#define FOUND_MS 500

static bool
has_more(const struct kv_roll *r)
{
	const struct kv_hub *hub = r->ask.ch->hub;

	return r->spoke != (1u << hub->n_masters) - 1;
}

/* Who is in no answer is no node any more, unless somebody may know better. */
static void
roll_end(struct kv_roll *r)
{
	struct kv_chan *ch = r->ask.ch;
	bool drop = r->is_whole ||
		    (!has_more(r) && !(r->gaps & KV_LOOKUP_INCOMPLETE));

	if (r->spoke != 0)
		kv_hub_roll_end(ch->hub, r->number, drop,
				kv_loop_now(ch->loop));
	if (r->is_whole)
		r->young_ms = 0;
	r->fn(r, r->spoke != 0 ? 0 : r->status);
}

/* 0 or -kv_status. */
static int
answer_take(struct kv_roll *r, const struct kv_msg *msg)
{
	const struct kv_nodes_r *body = msg->body;
	unsigned count = kv_get32(body->count);
	uint32_t age_ms = kv_get32(body->age_ms);
	struct kv_cut c;
	int rc;

	if (body->status != KV_OK)
		return kv_status_of_peer(body->status);
	kv_cut_init(&c, msg);
	rc = kv_hub_roll_learn(r->ask.ch->hub, r->number, &c, count);
	if (rc < 0)
		return -kv_status_from_errno(rc);
	r->spoke |= 1u << r->ask.master;
	r->gaps |= body->flags;
	if (body->flags & KV_LOOKUP_INCOMPLETE && age_ms < FOUND_MS)
		r->young_ms =
			(unsigned)kv_max_u64(r->young_ms, FOUND_MS - age_ms);
	/* Another master that nobody tells of has no nodes, most likely. */
	if (!(body->flags & (KV_LOOKUP_INCOMPLETE | KV_LOOKUP_LACKS)))
		r->is_whole = true;
	return 0;
}

static void
answered(struct kv_ask *ask, int status, const struct kv_msg *msg)
{
	struct kv_roll *r = KV_CONTAINER_OF(ask, struct kv_roll, ask);

	if (status == 0)
		status = answer_take(r, msg);
	if (status < 0)
		r->status = status;
	if (status < 0 || r->is_whole || !has_more(r)) {
		roll_end(r);
		return;
	}
	r->ask.skip = r->spoke;
	kv_ask_start(r->ask.ch, &r->ask);
}

static int
nodes_build(struct kv_ask *ask, struct kv_conn *c, void *body)
{
	(void)ask;
	(void)c;
	(void)body;
	return 0;
}

void
kv_roll_start(struct kv_chan *ch, struct kv_roll *r)
{
	r->number = kv_hub_roll_begin(ch->hub);
	r->spoke = 0;
	r->gaps = 0;
	r->is_whole = false;
	r->young_ms = 0;
	r->ask.type = KV_MSG_NODES;
	r->ask.skip = 0;
	r->ask.or_local = ch->hub->n_masters == 0;
	r->ask.deadline = r->deadline;
	r->ask.build = nodes_build;
	r->ask.fn = answered;
	kv_ask_start(ch, &r->ask);
}

void
kv_roll_cancel(struct kv_roll *r)
{
	kv_ask_cancel(&r->ask);
}
