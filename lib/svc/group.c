#include "svc/group.h"

#include <stdlib.h>

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
	kv_link_wait_cancel(&g->wait);
	kv_loop_timer_del(&g->timer);
	kv_list_del(&g->link);
	g->to->users--;
	free(g->idx);
}

bool
kv_group_add(struct kv_group *g, uint32_t i)
{
	uint32_t *more;

	if (g->n == g->room) {
		more = realloc(g->idx, (2 * g->room + 16) * sizeof(*more));
		if (!more)
			return false;
		g->idx = more;
		g->room = 2 * g->room + 16;
	}
	g->idx[g->n++] = i;
	return true;
}

int
kv_group_open(struct kv_group *g, uint64_t deadline)
{
	return kv_link_open(g->to, &g->wait, !g->to->is_local, deadline);
}

void
kv_group_start_all(struct kv_list *groups, bool *starting,
		   void (*next)(struct kv_group *g))
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
		next(g);
	} while (!is_last);
}
