/*
 * What was removed stays removed: a master remembers for nodes that are away
 * what was removed meanwhile, and tells them when they are back, before it
 * shows them to anybody. And it knows the generations of tenants, which nodes
 * hear when they join: these hold even when every master has forgotten the
 * rest.
 */

#include <errno.h>
#include <string.h>

#include "base/attr.h"
#include "base/num.h"
#include "base/status.h"
#include "svc/gentable.h"
#include "svc/mastercore.h"
#include "wire/map.h"

/* For the answer of a node that is told what it missed. */
#define TOLD_NS (10 * KV_NS_PER_S)
/* So long a node that was lost is counted as away; with a pool that outlives
 * it, and without: then only one that could not be reached, but may live. */
#define AWAY_POOL_NS (24 * 3600 * KV_NS_PER_S)
#define AWAY_NS      (3600 * KV_NS_PER_S)

/* ---- who is away ---- */

struct kv_id
kv_missed_store(const struct kv_member *mb)
{
	return kv_id_is_zero(mb->pool) ? mb->boot : mb->pool;
}

/* Is another session there that has the store? */
static bool
is_here(const struct kv_member *mb)
{
	const struct kv_member *other;
	struct kv_id store = kv_missed_store(mb);
	unsigned at;

	for (at = 0; (other = kv_member_next(mb->m, &at));)
		if (other != mb && other->peer &&
		    kv_id_is_equal(kv_missed_store(other), store))
			return true;
	return false;
}

bool
kv_missed_is_taken_over(const struct kv_member *mb)
{
	return !kv_id_is_zero(mb->pool) && is_here(mb);
}

void
kv_missed_away(struct kv_member *mb)
{
	struct kv_master *m = mb->m;
	bool has_pool = !kv_id_is_zero(mb->pool);
	uint64_t ns = has_pool ? AWAY_POOL_NS : AWAY_NS;

	if (is_here(mb))
		return;
	if (mb->is_ended && !has_pool)
		kv_pending_forget(&m->pending, mb->boot);
	else if (kv_pending_away(&m->pending, kv_missed_store(mb), mb->boot,
				 kv_loop_now(m->loop) + ns) < 0)
		kv_log_limited(&m->missed_log, kv_loop_now(m->loop),
			       KV_LOG_WARN,
			       "out of memory: what is removed while node "
			       "name=\"%s\" is away may come back with it",
			       mb->name);
}

void
kv_missed_left(struct kv_member *mb)
{
	mb->is_ended = true;
	kv_missed_away(mb);
}

/* Until it was told it is not shown. */
static void
set_missed(struct kv_member *mb, bool has_missed)
{
	if (mb->has_missed == has_missed)
		return;
	mb->has_missed = has_missed;
	mb->m->n_missed += has_missed ? 1 : -1u;
	kv_member_show(mb);
}

int
kv_missed_add(struct kv_master *m, struct kv_id store, struct kv_id boot,
	      const struct kv_remove *body, const void *tail, size_t len)
{
	struct kv_member *mb = kv_member_find(m, boot);

	/* Of one that is neither here nor away nothing will come back. */
	if (!mb && !kv_pending_find(&m->pending, store))
		return 0;
	/* Keys are forgotten one by one. */
	if (mb && body->op != KV_REMOVE_KEYS)
		set_missed(mb, true);
	return kv_pending_add(&m->pending, store, boot, body, tail, len);
}

void
kv_missed_tick(struct kv_master *m)
{
	if (m->pending.n_away > 0)
		kv_pending_expire(&m->pending, kv_loop_now(m->loop));
}

/* ---- who is back ---- */

static struct kv_pending_store *
missed_by(const struct kv_member *mb)
{
	struct kv_pending *p = &mb->m->pending;
	struct kv_pending_store *s;

	if (p->n_removals == 0)
		return NULL;
	s = kv_pending_find(p, kv_missed_store(mb));
	return s && kv_pending_next(s) ? s : NULL;
}

uint32_t
kv_missed_joined(struct kv_member *mb)
{
	struct kv_pending_store *s;
	struct kv_list *at;
	uint32_t n = 0;

	kv_pending_back(&mb->m->pending, kv_missed_store(mb));
	s = missed_by(mb);
	if (!s)
		return 0;
	for (at = s->removals.next; at != &s->removals; at = at->next)
		n++;
	set_missed(mb, true);
	kv_info("node name=\"%s\" is back and is told removals=%u", mb->name,
		n);
	return n;
}

static void
told(struct kv_call *call, int status, const struct kv_msg *msg)
{
	struct kv_member *mb = KV_CONTAINER_OF(call, struct kv_member, told);
	struct kv_pending_store *s = missed_by(mb);
	const struct kv_remove_r *r;

	/* A node that cannot do it now is asked again at its next heartbeat. */
	if (status < 0 || msg->type != KV_MSG_REMOVE_R)
		return;
	r = msg->body;
	if (r->status != KV_OK)
		return;
	kv_master_count(mb->m, KV_MASTERSTAT_MISSED_TOLD, 1);
	if (s)
		kv_pending_told(&mb->m->pending, s);
	kv_missed_tell(mb);
}

void
kv_missed_tell(struct kv_member *mb)
{
	struct kv_master *m = mb->m;
	struct kv_pending_store *s = missed_by(mb);
	const struct kv_pending_removal *r;
	struct kv_remove *body;
	uint8_t *to;

	if (kv_rpc_is_under_way(&mb->told))
		return;
	set_missed(mb, s != NULL);
	if (!s || !mb->peer)
		return;
	r = kv_pending_next(s);
	mb->told.fn = told;
	if (!kv_rpc_begin(&mb->rpc, &mb->told, KV_MSG_REMOVE,
			  kv_loop_now(m->loop) + TOLD_NS))
		return;
	to = kv_conn_tail(mb->peer->conn, r->tail_len);
	if (!to)
		return; /* the call fails with the connection */
	memcpy(to, r->tail, r->tail_len);
	body = kv_conn_body(mb->peer->conn);
	*body = r->body;
	body->flags |= KV_REMOVE_MISSED;
	kv_rpc_end(&mb->rpc);
}

void
kv_missed_session_end(struct kv_member *mb)
{
	kv_rpc_cancel(&mb->told);
}

/* ---- generations ---- */

struct kv_generation
kv_missed_generation(const struct kv_master *m, const char *tenant, size_t len)
{
	return kv_generation_get(&m->generations, tenant, len);
}

struct kv_generation
kv_missed_next(struct kv_master *m, const char *tenant, size_t len)
{
	struct kv_generation g = kv_missed_generation(m, tenant, len);

	if (g.number == UINT64_MAX ||
	    (g.number == 0 && m->generations.count == KV_GENERATIONS_MAX))
		return (struct kv_generation){ 0 };
	return kv_generation_next(g, kv_rng_u64(&m->rng));
}

void
kv_missed_learn(struct kv_master *m, const char *tenant, size_t len,
		struct kv_generation heard)
{
	int rc = kv_generation_learn(&m->generations, tenant, len, heard);
	struct kv_member *mb;
	unsigned at;

	if (rc < 0)
		kv_log_limited(&m->missed_log, kv_loop_now(m->loop),
			       KV_LOG_WARN,
			       "cannot remember the generation of a tenant: %s",
			       strerror(-rc));
	if (rc <= 0)
		return;
	heard = kv_missed_generation(m, tenant, len);
	for (at = 0; (mb = kv_member_next(m, &at));)
		if (mb->peer)
			kv_gentable_tell(mb->peer->conn, tenant, len, heard);
}

bool
kv_missed_check(struct kv_cut cut, unsigned count)
{
	struct kv_map_generation g;
	unsigned i;

	for (i = 0; i < count && kv_map_generation_take(&cut, &g); i++)
		;
	return kv_cut_done(&cut);
}

void
kv_missed_take(struct kv_master *m, struct kv_cut cut, unsigned count)
{
	struct kv_map_generation g;
	unsigned i;

	for (i = 0; i < count && kv_map_generation_take(&cut, &g); i++)
		kv_missed_learn(m, g.tenant, g.ent->tenant_len,
				kv_gentable_parse(&g.ent->generation));
}

int
kv_missed_msg(struct kv_masterpeer *p, const struct kv_msg *msg)
{
	const struct kv_generation_news *m = msg->body;
	struct kv_cut cut;

	kv_cut_init(&cut, msg);
	if (!kv_missed_check(cut, kv_get32(m->count)))
		return -EPROTO;
	kv_missed_take(p->m, cut, kv_get32(m->count));
	return 0;
}

/* ---- start and end ---- */

void
kv_missed_init(struct kv_master *m)
{
	kv_pending_init(&m->pending);
}

void
kv_missed_fini(struct kv_master *m)
{
	kv_pending_fini(&m->pending);
	kv_generation_fini(&m->generations);
}
