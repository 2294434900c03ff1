#include "svc/group.h"

#include <stdlib.h>

#include "base/attr.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/num.h"
#include "svc/chan.h"

#define INLINE_LOCAL 16384

void
kv_group_init(struct kv_group *g, struct kv_link *to, struct kv_list *groups)
{
	g->to = to;
	to->users++;
	kv_list_add_tail(groups, &g->link);
}

void
kv_group_fini(struct kv_group *g)
{
	kv_rpc_cancel(&g->call);
	kv_rpc_cancel(&g->ping);
	kv_link_wait_cancel(&g->wait);
	kv_loop_timer_del(&g->timer);
	kv_list_del(&g->link);
	g->to->users--;
	free(g->idx);
}

struct kv_group *
kv_group_find(struct kv_list *groups, const struct kv_link *to)
{
	struct kv_group *g;

	KV_LIST_FOREACH(g, groups, link)
		if (g->to == to)
			return g;
	return NULL;
}

bool
kv_group_add(struct kv_group *g, uint32_t i)
{
	uint32_t *more;

	if (g->n == g->room) {
		more = KV_FAULT_POINT()
			       ? NULL
			       : realloc(g->idx,
					 (2 * g->room + 16) * sizeof(*more));
		if (!more)
			return false;
		g->idx = more;
		g->room = 2 * g->room + 16;
	}
	g->idx[g->n++] = i;
	return true;
}

static void
link_opened(struct kv_link_wait *w, int status)
{
	struct kv_group *g = KV_CONTAINER_OF(w, struct kv_group, wait);

	if (status < 0)
		g->ops->fail(g, status);
	else
		g->ops->send(g);
}

void
kv_group_next(struct kv_group *g)
{
	int rc;

	if (g->pos == g->n) {
		g->ops->end(g);
		return;
	}
	g->wait.fn = link_opened;
	rc = kv_link_open(g->to, &g->wait, !g->to->is_local, g->deadline);
	if (rc != 0)
		link_opened(&g->wait, rc);
}

struct kv_link_end *
kv_group_way(const struct kv_group *g)
{
	return g->is_fast ? &g->to->fast : &g->to->ctl;
}

bool
kv_group_lost_fast(const struct kv_group *g, int status)
{
	return status < 0 && g->is_fast && g->to->ctl.state == KV_LINK_UP;
}

/* A lost connection is told to the group's own call. */
static void
pinged(struct kv_call *call, int status, const struct kv_msg *msg)
{
	(void)call;
	(void)status;
	(void)msg;
}

bool
kv_group_is_there(struct kv_group *g)
{
	struct kv_link_end *way = kv_group_way(g);

	if (kv_rpc_is_under_way(&g->ping) || !way->conn)
		return false;
	g->ping.fn = pinged;
	if (!kv_rpc_begin(&way->rpc, &g->ping, KV_MSG_PING,
			  g->deadline + KV_NS_PER_S))
		return false;
	kv_rpc_end(&way->rpc);
	return true;
}

uint32_t
kv_group_budget_ms(const struct kv_group *g)
{
	uint64_t left = g->deadline - kv_loop_now(g->to->ch->loop);

	return (uint32_t)kv_min_u64(left / KV_NS_PER_MS + 1, UINT32_MAX);
}

uint32_t
kv_group_inline_max(const struct kv_group *g)
{
	return g->to->is_local ? INLINE_LOCAL : KV_INLINE_BYTES_MAX;
}

void
kv_group_start_all(struct kv_list *groups, bool *starting)
{
	struct kv_group *g;
	struct kv_list fresh;
	bool is_last;

	kv_list_init(&fresh);
	kv_list_splice_tail(&fresh, groups);
	do {
		g = KV_LIST_FIRST(&fresh, struct kv_group, link);
		kv_list_del(&g->link);
		is_last = kv_list_is_empty(&fresh);
		kv_list_add_tail(groups, &g->link);
		*starting = !is_last;
		kv_group_next(g);
	} while (!is_last);
}
