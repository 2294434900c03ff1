#include "svc/getop.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/attr.h"
#include "base/fault.h"
#include "base/status.h"
#include "svc/getgroup.h"
#include "svc/vec.h"

/* A key whose owners had it no more is looked for so often again. */
#define AGAIN_MAX 4

enum phase {
	PHASE_PREFERRED,
	PHASE_LOCAL,
	PHASE_FETCH,
	PHASE_OVER,
};

static void op_advance(struct kv_getop *op);

void
kv_getop_result(struct kv_getop *op, size_t i, int status)
{
	op->keys[i].state = KV_GETOP_DONE;
	op->items[i].status = status;
	if (status < 0)
		op->items[i].len = 0;
}

void
kv_getop_lacks(struct kv_getop *op, int status)
{
	if (kv_status_scope(status) == KV_SCOPE_SELF)
		op->lack = status;
}

/* What becomes of a key that nobody gave. */
static int
miss_status(const struct kv_getop *op, size_t i)
{
	const struct kv_survey *s = &op->survey;
	bool has_owner = s->keys && s->keys[op->keys[i].survey].exists;

	if (op->lack)
		return op->lack;
	return s->doubt && !has_owner ? s->doubt : -KV_EMISS;
}

static void
op_end(struct kv_getop *op)
{
	struct kv_hub_stats more = { .gets = op->n };
	size_t i;

	op->phase = PHASE_OVER;
	kv_loop_timer_del(&op->timer);
	for (i = 0; i < op->n; i++) {
		if (op->keys[i].state != KV_GETOP_DONE)
			kv_getop_result(op, i, miss_status(op, i));
		more.hits += op->items[i].status == 0;
		more.get_bytes += op->items[i].len;
	}
	kv_survey_fini(&op->survey);
	free(op->survey.keys);
	free(op->keys);
	kv_hub_count(op->ch->hub, &more);
	op->done(op);
}

void
kv_getop_abort(struct kv_getop *op, int status)
{
	size_t i;

	if (op->phase == PHASE_OVER)
		return;
	op->phase = PHASE_OVER;
	kv_loop_defer_del(&op->defer);
	kv_getgroup_drop_all(op, status);
	for (i = 0; i < op->n; i++)
		if (op->keys[i].state != KV_GETOP_DONE)
			kv_getop_result(op, i, status);
	op_end(op);
}

static void
op_expires(struct kv_timer *t)
{
	kv_getop_abort(KV_CONTAINER_OF(t, struct kv_getop, timer),
		       -KV_ETIMEOUT);
}

/* The key's next owner that was not tried and is not known to be dead. */
static struct kv_link *
owner_choose(struct kv_getop *op, struct kv_getop_key *k, struct kv_id *boot)
{
	const struct kv_survey_key *s = &op->survey.keys[k->survey];
	uint64_t now = kv_loop_now(op->ch->loop);
	unsigned start, i, j;
	struct kv_link *to;

	if (s->n == 0)
		return NULL;
	start = (unsigned)kv_rng_below(&op->ch->rng, s->n);
	for (i = 0; i < s->n; i++) {
		j = (start + i) % s->n;
		if (k->tried & 1u << j)
			continue;
		k->tried |= (uint8_t)(1u << j);
		*boot = op->survey.boots[s->owners[j]];
		to = kv_chan_link(op->ch, boot);
		/* For all keys of this call it is tried once. */
		if (to && (kv_group_find(&op->groups, to) ||
			   kv_hub_try(op->ch->hub, boot, now)))
			return to;
		if (!to && errno != ENOENT)
			op->lack = -KV_ENOMEM;
	}
	return NULL;
}

/* Somebody had it a moment ago: of several writers another one may have come to
 * stay, elsewhere. */
static bool
has_moved(const struct kv_getop *op, const struct kv_getop_key *k)
{
	return op->again < AGAIN_MAX && op->survey.keys[k->survey].n > 0;
}

static void survey_begin(struct kv_getop *op);

/* Once more for the keys that have moved; false: there are none. */
static bool
survey_again(struct kv_getop *op)
{
	bool has = false;
	size_t i;

	for (i = 0; i < op->n; i++) {
		if (op->keys[i].state != KV_GETOP_MOVED)
			continue;
		op->keys[i].state = KV_GETOP_WAITS;
		op->keys[i].tried = 0;
		has = true;
	}
	if (!has)
		return false;
	op->again++;
	kv_survey_fini(&op->survey);
	free(op->survey.keys);
	op->survey = (struct kv_survey){ .ask_all = true };
	survey_begin(op);
	return true;
}

static void
fetch_round(struct kv_getop *op)
{
	struct kv_link *to;
	struct kv_id boot;
	size_t i;

	for (i = 0; i < op->n; i++) {
		if (op->keys[i].state != KV_GETOP_WAITS)
			continue;
		to = owner_choose(op, &op->keys[i], &boot);
		if (to && kv_getgroup_add(op, to, &boot, (uint32_t)i))
			continue;
		if (has_moved(op, &op->keys[i]))
			op->keys[i].state = KV_GETOP_MOVED;
		else
			kv_getop_result(op, i, miss_status(op, i));
	}
	if (!kv_list_is_empty(&op->groups))
		kv_getgroup_start_all(op);
	else if (!survey_again(op))
		op_end(op);
}

static void
survey_done(struct kv_survey *s, int status)
{
	struct kv_getop *op = KV_CONTAINER_OF(s, struct kv_getop, survey);

	(void)status; /* nobody answered: s->doubt says so */
	if (s->lack)
		op->lack = s->lack;
	op->phase = PHASE_FETCH;
	fetch_round(op);
}

static void
survey_begin(struct kv_getop *op)
{
	struct kv_survey *s = &op->survey;
	size_t i;

	s->keys = KV_FAULT_POINT() ? NULL : calloc(op->n, sizeof(*s->keys));
	if (!s->keys) {
		op->lack = -KV_ENOMEM;
		op_end(op);
		return;
	}
	for (i = 0; i < op->n; i++) {
		if (op->keys[i].state != KV_GETOP_WAITS)
			continue;
		op->keys[i].survey = (uint32_t)s->n;
		s->keys[s->n++].hash = kv_key_hash(op->ch->hub->key_seed,
						   op->items[i].key.data,
						   op->items[i].key.len);
	}
	if (s->n == 0) {
		op_end(op);
		return;
	}
	s->deadline = op->deadline;
	s->done = survey_done;
	kv_survey_start(op->ch, s);
}

/* That node is asked for all that waits. */
static void
node_ask(struct kv_getop *op, struct kv_link *to, const struct kv_id *boot)
{
	size_t i;

	op->asked_local |= to->is_local;
	for (i = 0; i < op->n; i++)
		if (op->keys[i].state == KV_GETOP_WAITS)
			kv_getgroup_add(op, to, boot, (uint32_t)i);
	if (kv_list_is_empty(&op->groups))
		op_advance(op);
	else
		kv_getgroup_start_all(op);
}

static void
local_ask(struct kv_getop *op)
{
	struct kv_link *local = op->ch->local;

	op->phase = PHASE_LOCAL;
	if (local && !op->asked_local)
		node_ask(op, local, &local->boot);
	else
		survey_begin(op);
}

/* Something ended: when all groups have, the next phase begins. */
static void
op_advance(struct kv_getop *op)
{
	if (op->phase == PHASE_OVER || op->starting ||
	    !kv_list_is_empty(&op->groups))
		return;
	if (op->phase == PHASE_PREFERRED)
		local_ask(op);
	else if (op->phase == PHASE_LOCAL)
		survey_begin(op);
	else
		fetch_round(op);
}

void
kv_getop_group_ended(struct kv_getop *op)
{
	op_advance(op);
}

/* Whom the caller prefers, unless that is nobody known, or he does not answer.
 */
static struct kv_link *
preferred(const struct kv_getop *op, struct kv_id *boot)
{
	struct kv_chan *ch = op->ch;

	if (!op->prefer || !kv_hub_node_named(ch->hub, op->prefer, boot) ||
	    !kv_hub_try(ch->hub, boot, kv_loop_now(ch->loop)))
		return NULL;
	return kv_chan_link(ch, boot);
}

static void
op_begin(struct kv_defer *d)
{
	struct kv_getop *op = KV_CONTAINER_OF(d, struct kv_getop, defer);
	struct kv_id boot;
	struct kv_link *to = preferred(op, &boot);

	if (to)
		node_ask(op, to, &boot);
	else
		local_ask(op);
}

int
kv_getop_start(struct kv_chan *ch, struct kv_getop *op)
{
	struct kv_get_item *it;
	size_t i;

	op->keys = KV_FAULT_POINT() ? NULL : calloc(op->n, sizeof(*op->keys));
	if (!op->keys)
		return -KV_ENOMEM;
	op->ch = ch;
	op->phase = PHASE_PREFERRED;
	kv_list_init(&op->groups);
	for (i = 0; i < op->n; i++) {
		it = &op->items[i];
		it->len = it->size_total = 0;
		if (kv_vec_is_valid(&it->key, it->bufs, it->nbufs))
			op->keys[i].room = kv_vec_bytes(it->bufs, it->nbufs);
		else
			kv_getop_result(op, i, -KV_EINVALID);
	}
	op->timer.fn = op_expires;
	kv_loop_timer_set(ch->loop, &op->timer, op->deadline);
	op->defer.fn = op_begin;
	kv_loop_defer(ch->loop, &op->defer);
	return 0;
}
