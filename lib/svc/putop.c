#include "svc/putop.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/attr.h"
#include "base/clock.h"
#include "base/num.h"
#include "base/status.h"
#include "store/place.h"
#include "svc/group.h"
#include "svc/putgroup.h"
#include "svc/vec.h"

/* Objects placed alike: a large batch is spread over the nodes in such
 * portions. */
#define PORTION_KEYS  1024
#define PORTION_BYTES (64ull << 20)
/* The table of nodes is asked for again when it is older. */
#define NODES_AGE_NS KV_NS_PER_S
/* Older than this it is no guide: the answer is waited for. */
#define NODES_WAIT_NS (5 * KV_NS_PER_S)

static void op_advance(struct kv_putop *op);
static void op_retry(struct kv_putop *op);

/* ---- the end ---- */

/* An owner that did not answer while there was time left was not waited for
 * any longer: that is not what the caller knows as the deadline. */
static int
final_status(const struct kv_putop *op, const struct kv_putop_key *k)
{
	if (k->n_done > 0)
		return 0;
	if (k->status == -KV_ETIMEOUT &&
	    kv_loop_now(op->ch->loop) < op->deadline)
		return -KV_EUNREACHABLE;
	return k->status;
}

static void
op_end(struct kv_putop *op)
{
	struct kv_hub_stats more = { .puts = op->n };
	struct kv_put_item *it;
	size_t i;

	op->is_over = true;
	kv_loop_timer_del(&op->timer);
	kv_link_wait_cancel(&op->local);
	kv_chan_refresh_cancel(op->ch, op);
	for (i = 0; i < op->n; i++) {
		it = &op->items[i];
		it->replicas = op->keys[i].n_done;
		it->status = final_status(op, &op->keys[i]);
		more.put_fails += it->status < 0 && it->status != -KV_EEXISTS;
		more.puts_short +=
			it->status == 0 && it->replicas < op->replicas;
		if (it->status == 0)
			more.put_bytes += op->keys[i].size;
	}
	free(op->keys);
	free(op->cands);
	kv_hub_count(op->ch->hub, &more);
	op->done(op);
}

void
kv_putop_abort(struct kv_putop *op, int status)
{
	size_t i;

	if (op->is_over)
		return;
	op->is_over = true;
	kv_loop_defer_del(&op->defer);
	kv_putgroup_drop_all(op, status);
	for (i = 0; i < op->n; i++)
		if (!op->keys[i].is_final)
			op->keys[i].status = status;
	op_end(op);
}

static void
op_expires(struct kv_timer *t)
{
	kv_putop_abort(KV_CONTAINER_OF(t, struct kv_putop, timer),
		       -KV_ETIMEOUT);
}

/* ---- where to ---- */

/* The nodes as placement sees them. */
static void
cands_fill(struct kv_putop *op, struct kv_place_node *to)
{
	uint64_t now = kv_loop_now(op->ch->loop);
	const struct kv_putop_cand *c;
	unsigned i;

	for (i = 0; i < op->n_cands; i++) {
		c = &op->cands[i];
		to[i] = (struct kv_place_node){
			.host = c->host,
			.free_bytes = c->free_bytes,
			.victim_age_ms = c->victim_age_ms,
			.seen_ms = KV_PLACE_RAMP_MS,
			.usable = !kv_hub_is_sick(op->ch->hub, &c->boot, now),
			.local = c->is_local,
			.preferred = c->is_preferred,
		};
	}
}

/* Chooses for the items [from, to) alike. */
static void
portion_place(struct kv_putop *op, size_t from, size_t to, uint64_t bytes)
{
	struct kv_place_pick picks[KV_PUTOP_PICKS_MAX] = { 0 };
	struct kv_place_node *nodes;
	struct kv_putop_cand *c;
	unsigned n = 0;
	size_t i;

	nodes = calloc(op->n_cands + 1, sizeof(*nodes));
	if (nodes) {
		cands_fill(op, nodes);
		n = kv_place_choose(
			&(struct kv_place){ .nodes = nodes,
					    .n = op->n_cands,
					    .replicas = op->replicas,
					    .size = bytes },
			&op->ch->rng, picks, KV_PUTOP_PICKS_MAX);
	}
	free(nodes);
	for (i = 0; i < op->replicas && i < n; i++) {
		c = &op->cands[picks[i].node];
		c->free_bytes -= kv_min_u64(bytes, c->free_bytes);
	}
	for (i = from; i < to; i++) {
		op->keys[i].n_picks = (uint8_t)n;
		op->keys[i].next_pick = 0;
		memcpy(op->keys[i].picks, picks, n * sizeof(picks[0]));
	}
}

static void
place_all(struct kv_putop *op)
{
	uint64_t bytes = 0;
	size_t i, from = 0;

	for (i = 0; i < op->n; i++) {
		if (i > from && (bytes + op->keys[i].size > PORTION_BYTES ||
				 i - from == PORTION_KEYS)) {
			portion_place(op, from, i, bytes);
			from = i;
			bytes = 0;
		}
		bytes += op->keys[i].size;
	}
	portion_place(op, from, op->n, bytes);
}

static bool
has_it_already(const struct kv_putop_key *k, unsigned cand)
{
	unsigned i;

	for (i = 0; i < k->n_done; i++)
		if (k->done[i] == cand)
			return true;
	return false;
}

/* The key's next pick, or -1. */
static int
pick_next(struct kv_putop_key *k)
{
	unsigned p;

	while (k->next_pick < k->n_picks) {
		p = k->next_pick++;
		if (!has_it_already(k, k->picks[p].node))
			return (int)p;
	}
	return -1;
}

/* One that failed is tried by one call at a time; by that for all its keys. */
static bool
may_ask(struct kv_putop *op, const struct kv_link *to, const struct kv_id *boot)
{
	return kv_group_find(&op->groups, to) != NULL ||
	       kv_hub_try(op->ch->hub, boot, kv_loop_now(op->ch->loop));
}

/* Sends the key to as many owners as it still needs. False: there is none
 * left to try. */
static bool
key_assign(struct kv_putop *op, size_t i)
{
	struct kv_putop_key *k = &op->keys[i];
	const struct kv_putop_cand *c;
	unsigned need = op->replicas - k->n_done;
	struct kv_link *to;
	unsigned sent = 0;
	int p;

	while (sent < need && (p = pick_next(k)) >= 0) {
		c = &op->cands[k->picks[p].node];
		to = kv_chan_link(op->ch, &c->boot);
		if (!to && c->is_local)
			to = op->ch->local;
		if (to && may_ask(op, to, &c->boot) &&
		    kv_putgroup_add(op, to, k->picks[p], (uint32_t)i))
			sent++;
	}
	return sent > 0;
}

static void
round_start(struct kv_putop *op)
{
	size_t i;
	bool is_stuck = false;

	for (i = 0; i < op->n; i++)
		if (!op->keys[i].is_final && !key_assign(op, i) &&
		    op->keys[i].n_done == 0)
			is_stuck = true;
	if (!kv_list_is_empty(&op->groups))
		kv_putgroup_start_all(op);
	else if (is_stuck && !op->has_retried)
		op_retry(op);
	else
		op_end(op);
}

/* ---- what groups say ---- */

void
kv_putop_result(struct kv_putop *op, size_t i, unsigned cand, int status)
{
	struct kv_putop_key *k = &op->keys[i];

	if (k->is_final && status != 0)
		return; /* "exists" at another owner says more */
	switch (-status) {
	case KV_OK:
		k->done[k->n_done++] = (uint16_t)cand;
		if (k->n_done == op->replicas)
			k->is_final = true;
		break;
	case KV_EEXISTS:
	case KV_EINVALID:
		k->status = status;
		k->is_final = true;
		break;
	case KV_ETIMEOUT:
	case KV_ECONNLOST:
		k->is_unsure = true;
		k->status = status;
		break;
	default:
		if (k->is_unsure)
			break;
		/* What this means to the caller, if all say so. */
		k->status = status == -KV_ENOROOM ? -KV_ENOSPACE : status;
	}
}

void
kv_putop_group_ended(struct kv_putop *op)
{
	op_advance(op);
}

static void
op_advance(struct kv_putop *op)
{
	if (op->is_over || op->starting || op->preparing > 0 ||
	    !kv_list_is_empty(&op->groups))
		return;
	round_start(op);
}

/* ---- the start ---- */

static bool
is_preferred(const struct kv_putop *op, const struct kv_hub_node *n)
{
	return op->prefer && kv_hub_node_is_named(n, op->prefer);
}

/* What the master was told of the own node last is no reason to pass it by:
 * pages that are still being faulted in are room, for a put waits for them. */
static uint64_t
room(const struct kv_hub_node *n, bool is_local)
{
	if (!is_local || n->ready_bytes > n->pool_bytes)
		return n->free_bytes;
	return n->free_bytes + (n->pool_bytes - n->ready_bytes);
}

static bool
is_own(const struct kv_putop *op, const struct kv_id *boot)
{
	const struct kv_link *local = op->ch->local;

	return local && local->ctl.state == KV_LINK_UP &&
	       kv_id_is_equal(local->boot, *boot);
}

static void
cand_local_add(struct kv_putop *op)
{
	struct kv_link *local = op->ch->local;
	struct kv_putop_cand *c;
	unsigned i;

	if (!local || local->ctl.state != KV_LINK_UP)
		return;
	for (i = 0; i < op->n_cands; i++)
		if (op->cands[i].is_local)
			return;
	/* No master told of it: it is taken to have room until it says no. */
	c = &op->cands[op->n_cands++];
	*c = (struct kv_putop_cand){
		.boot = local->boot,
		.host = op->ch->hub->host,
		.free_bytes = UINT64_MAX,
		.is_local = true,
	};
}

/* Where nobody else is, who is suspect to others but not to this process. */
static bool
is_open(const struct kv_putop *op, const struct kv_hub_node *n, bool is_last)
{
	if (n->pool_bytes == 0)
		return false;
	if (is_last)
		return n->state == KV_NODE_SUSPECT &&
		       kv_chan_is_linked(op->ch, &n->boot);
	return n->state == KV_NODE_LIVE || n->state == KV_NODE_JOINING;
}

static void
cands_add(struct kv_putop *op, const struct kv_hub_node *nodes, unsigned n,
	  bool is_last)
{
	unsigned i;
	bool own;

	for (i = 0; i < n; i++) {
		if (!is_open(op, &nodes[i], is_last))
			continue;
		own = is_own(op, &nodes[i].boot);
		op->cands[op->n_cands++] = (struct kv_putop_cand){
			.boot = nodes[i].boot,
			.host = nodes[i].host,
			.free_bytes = room(&nodes[i], own),
			.victim_age_ms = nodes[i].victim_age_ms,
			.is_local = own,
			.is_preferred = is_preferred(op, &nodes[i]),
		};
	}
}

static int
cands_load(struct kv_putop *op)
{
	bool is_missed = op->prefer;
	struct kv_hub_node *nodes;
	unsigned i, n;

	free(op->cands);
	op->n_cands = 0;
	nodes = kv_hub_nodes(op->ch->hub, &n);
	op->cands = calloc(n + 1, sizeof(*op->cands));
	if (!nodes || !op->cands) {
		free(nodes);
		return -KV_ENOMEM;
	}
	cands_add(op, nodes, n, false);
	for (i = 0; i < op->n_cands; i++)
		is_missed &= !op->cands[i].is_preferred;
	if (is_missed && op->n_cands > 0)
		kv_hub_node_missed(op->ch->hub, op->prefer,
				   kv_loop_now(op->ch->loop));
	if (op->n_cands == 0)
		cands_add(op, nodes, n, true);
	free(nodes);
	cand_local_add(op);
	return 0;
}

static void
op_prepared(struct kv_putop *op)
{
	size_t i;

	if (--op->preparing > 0 || op->is_over)
		return;
	if (cands_load(op) < 0) {
		for (i = 0; i < op->n; i++)
			if (!op->keys[i].is_final)
				op->keys[i].status = -KV_ENOMEM;
		op_end(op);
		return;
	}
	place_all(op);
	round_start(op);
}

static void
local_open(struct kv_link_wait *w, int status)
{
	(void)status; /* not up: it is no candidate */
	op_prepared(KV_CONTAINER_OF(w, struct kv_putop, local));
}

static void
nodes_told(struct kv_chan *ch, void *arg)
{
	(void)ch;
	op_prepared(arg);
}

/* Everybody that was known said no, or nothing. Who is there now? (A node that
 * was started again has another boot id.) */
static void
op_retry(struct kv_putop *op)
{
	op->has_retried = true;
	op->preparing = 1;
	if (kv_chan_refresh(op->ch, nodes_told, op))
		return;
	op_prepared(op);
}

/* Equal keys: the first wins. */
static int
twins_find(struct kv_putop *op)
{
	size_t size = 4, at, i;
	struct kv_hash h;
	uint32_t *table;

	while (size < 2 * op->n)
		size *= 2;
	table = calloc(size, sizeof(*table));
	if (!table)
		return -KV_ENOMEM;
	for (i = 0; i < op->n; i++) {
		if (op->keys[i].is_final)
			continue;
		h = kv_key_hash(op->ch->hub->key_seed, op->items[i].key.data,
				op->items[i].key.len);
		op->keys[i].hash = h;
		for (at = h.lo & (size - 1); table[at];
		     at = (at + 1) & (size - 1))
			if (kv_key_hash_is_equal(op->keys[table[at] - 1].hash,
						 h))
				break;
		if (table[at]) {
			op->keys[i].status = -KV_EEXISTS;
			op->keys[i].is_final = true;
		} else {
			table[at] = (uint32_t)i + 1;
		}
	}
	free(table);
	return 0;
}

static void
op_begin(struct kv_defer *d)
{
	struct kv_putop *op = KV_CONTAINER_OF(d, struct kv_putop, defer);
	struct kv_chan *ch = op->ch;
	uint64_t now = kv_loop_now(ch->loop);

	op->preparing = 1;
	if (ch->local) {
		op->local.fn = local_open;
		if (kv_link_open(ch->local, &op->local, false, op->deadline) ==
		    0)
			op->preparing++;
	}
	if (kv_hub_is_stale(ch->hub, now, NODES_WAIT_NS)) {
		if (kv_chan_refresh(ch, nodes_told, op))
			op->preparing++;
	} else if (kv_hub_is_stale(ch->hub, now, NODES_AGE_NS)) {
		kv_chan_refresh(ch, NULL, NULL);
	}
	op_prepared(op);
}

int
kv_putop_start(struct kv_chan *ch, struct kv_putop *op)
{
	const struct kv_put_item *it;
	size_t i;

	op->ch = ch;
	op->keys = calloc(op->n, sizeof(*op->keys));
	if (!op->keys)
		return -KV_ENOMEM;
	for (i = 0; i < op->n; i++) {
		it = &op->items[i];
		if (kv_vec_is_valid(&it->key, it->bufs, it->nbufs)) {
			op->keys[i].status = -KV_EUNREACHABLE;
			op->keys[i].size = kv_vec_bytes(it->bufs, it->nbufs);
		} else {
			op->keys[i].status = -KV_EINVALID;
			op->keys[i].is_final = true;
		}
	}
	if (op->n > 1 && twins_find(op) < 0) {
		free(op->keys);
		return -KV_ENOMEM;
	}
	op->put_id.random = kv_le64(kv_rng_u64(&ch->rng));
	op->put_id.version = kv_le32(0);
	kv_list_init(&op->groups);
	op->timer.fn = op_expires;
	kv_loop_timer_set(ch->loop, &op->timer, op->deadline);
	op->defer.fn = op_begin;
	kv_loop_defer(ch->loop, &op->defer);
	return 0;
}
