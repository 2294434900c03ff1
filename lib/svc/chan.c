#include "svc/chan.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/attr.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/num.h"
#include "base/status.h"
#include "svc/roll.h"
#include "xfer/rdmacall.h"
#include "xfer/rdmaloop.h"

#define PING_NS   (KV_MASTER_PING_MS * KV_NS_PER_MS)
#define SILENT_NS (300 * KV_NS_PER_MS) /* there is another one to ask */

struct kv_chan_refresh {
	struct kv_roll roll;
	bool is_under_way;
	void (*fn)(struct kv_chan *ch, void *arg);
	void *arg;
};

bool
kv_chan_add_masters(struct kv_chan *ch)
{
	struct kv_hub *hub = ch->hub;
	unsigned i;

	for (i = 0; i < hub->n_masters; i++) {
		if (!ch->masters[i])
			ch->masters[i] =
				kv_link_new(ch, hub->masters[i], NULL, false);
		if (!ch->masters[i])
			return false;
	}
	return true;
}

struct kv_chan *
kv_chan_new(struct kv_hub *hub, struct kv_loop *loop)
{
	struct kv_chan *ch = calloc(1, sizeof(*ch));

	if (!ch)
		return NULL;
	ch->hub = hub;
	ch->loop = loop;
	kv_rng_seed(&ch->rng, kv_hub_seed(hub));
	kv_list_init(&ch->nodes);
	if (!kv_chan_add_masters(ch))
		goto free_links;
	if (hub->local[0]) {
		ch->local = kv_link_new(ch, hub->local, NULL, true);
		if (!ch->local)
			goto free_links;
	}
	return ch;

free_links:
	kv_chan_free(ch);
	errno = ENOMEM;
	return NULL;
}

void
kv_chan_free(struct kv_chan *ch)
{
	struct kv_link *l;
	unsigned i;

	if (!ch)
		return;
	if (ch->refresh)
		kv_roll_cancel(&ch->refresh->roll);
	free(ch->refresh);
	while ((l = KV_LIST_FIRST(&ch->nodes, struct kv_link, node)))
		kv_link_free(l);
	for (i = 0; i < KV_HUB_MASTERS_MAX; i++) {
		kv_link_wait_cancel(&ch->trials[i].wait);
		kv_rpc_cancel(&ch->trials[i].ping);
		kv_link_free(ch->masters[i]);
	}
	kv_link_free(ch->local);
	kv_rdmacall_free(ch->call);
	kv_rdmaloop_free(ch->rdma);
	free(ch);
}

/* Makes room: the links longest unused go, as far as nobody uses them. */
static void
nodes_trim(struct kv_chan *ch)
{
	struct kv_link *l;
	struct kv_list *at = ch->nodes.prev;

	while (ch->n_nodes >= KV_CHAN_NODES_MAX && at != &ch->nodes) {
		l = KV_CONTAINER_OF(at, struct kv_link, node);
		at = at->prev;
		if (l->users > 0)
			continue;
		kv_link_free(l);
		ch->n_nodes--;
	}
}

struct kv_link *
kv_chan_link(struct kv_chan *ch, const struct kv_id *boot)
{
	struct kv_hub_node node;
	struct kv_link *l;

	if (ch->local && ch->local->ctl.state == KV_LINK_UP &&
	    kv_id_is_equal(ch->local->boot, *boot) &&
	    !kv_hub_map_is_out(ch->hub, kv_loop_now(ch->loop)))
		return ch->local;
	KV_LIST_FOREACH(l, &ch->nodes, node) {
		if (!kv_id_is_equal(l->want, *boot))
			continue;
		kv_list_del(&l->node);
		kv_list_add_head(&ch->nodes, &l->node);
		return l;
	}
	if (!kv_hub_node(ch->hub, boot, &node) || !node.addr[0]) {
		errno = ENOENT;
		return NULL;
	}
	nodes_trim(ch);
	l = kv_link_new(ch, node.addr, boot, false);
	if (!l)
		return NULL;
	kv_list_add_head(&ch->nodes, &l->node);
	ch->n_nodes++;
	return l;
}

/* One that is up; NULL: there is none. */
static struct kv_link *
link_find(const struct kv_chan *ch, const struct kv_id *boot)
{
	struct kv_link *l;

	KV_LIST_FOREACH(l, &ch->nodes, node)
		if (kv_id_is_equal(l->want, *boot))
			return l->ctl.state == KV_LINK_UP ? l : NULL;
	return NULL;
}

bool
kv_chan_is_linked(const struct kv_chan *ch, const struct kv_id *boot)
{
	return link_find(ch, boot) != NULL;
}

uint64_t
kv_chan_patience(const struct kv_chan *ch, uint64_t deadline, uint64_t least_ns,
		 uint64_t most_ns)
{
	uint64_t now = kv_loop_now(ch->loop);
	uint64_t left = deadline > now ? deadline - now : 0;

	return now + kv_min_u64(kv_max_u64(left / 2, least_ns), most_ns);
}

/* A new connection is news: another process of this host may have said of it,
 * what is not so any more. */
static bool
is_well(struct kv_chan *ch, const struct kv_id *boot)
{
	struct kv_link *l = link_find(ch, boot);
	bool is_news = kv_hub_well(ch->hub, boot) || (l && !l->is_told);

	if (l)
		l->is_told = true;
	return is_news;
}

void
kv_chan_report(struct kv_chan *ch, const struct kv_id *boot, int status)
{
	uint64_t now = kv_loop_now(ch->loop);
	struct kv_report *r;
	unsigned i;
	bool is_news;

	/* What this process lacks says nothing about an owner; one that is
	 * busy is there. */
	if (kv_status_scope(status) == KV_SCOPE_SELF || status == -KV_EBUSY)
		return;
	is_news = status == 0 ? is_well(ch, boot)
			      : kv_hub_sick(ch->hub, boot, now);
	if (!is_news)
		return;
	for (i = 0; i < ch->hub->n_masters; i++) {
		if (ch->masters[i]->ctl.state != KV_LINK_UP)
			continue;
		r = kv_conn_begin(ch->masters[i]->ctl.conn, KV_MSG_REPORT, 0,
				  0);
		if (!r)
			continue;
		r->boot = *boot;
		r->reachable = status == 0;
		r->status = (uint8_t)(status < 0 ? -status : status);
		kv_conn_end(ch->masters[i]->ctl.conn);
		kv_conn_flush(ch->masters[i]->ctl.conn);
	}
}

/* ---- masters that failed ---- */

static void
trial_over(struct kv_link_wait *w, int status)
{
	struct kv_chan_trial *t =
		KV_CONTAINER_OF(w, struct kv_chan_trial, wait);
	struct kv_chan *ch = t->ch;

	if (status == 0)
		kv_hub_master_up(ch->hub, t->i);
	else if (kv_status_scope(status) != KV_SCOPE_SELF)
		kv_hub_master_down(ch->hub, t->i, kv_loop_now(ch->loop),
				   kv_link_why(ch->masters[t->i], status));
}

static void
trial_start(struct kv_chan *ch, unsigned i)
{
	struct kv_chan_trial *t = &ch->trials[i];
	int rc;

	t->ch = ch;
	t->i = i;
	t->wait.fn = trial_over;
	rc = kv_link_open(ch->masters[i], &t->wait, false,
			  kv_loop_now(ch->loop) + KV_NS_PER_S);
	if (rc != 0)
		trial_over(&t->wait, rc > 0 ? 0 : rc);
}

void
kv_chan_try_master(struct kv_chan *ch, unsigned i)
{
	if (!ch->trials[i].wait.to &&
	    kv_hub_master_try(ch->hub, i, kv_loop_now(ch->loop)))
		trial_start(ch, i);
}

/* ---- the master that is asked next ---- */

static void
pinged(struct kv_call *call, int status, const struct kv_msg *msg)
{
	struct kv_chan_trial *t =
		KV_CONTAINER_OF(call, struct kv_chan_trial, ping);
	struct kv_link *to = t->ch->masters[t->i];

	(void)msg;
	if (status != -ETIMEDOUT)
		return; /* who asks over a lost connection dials again */
	kv_link_drop(to, -KV_ETIMEOUT);
	kv_hub_master_down(t->ch->hub, t->i, kv_loop_now(t->ch->loop),
			   kv_link_why(to, -KV_ETIMEOUT));
}

static void
ping(struct kv_chan *ch, unsigned i)
{
	struct kv_rpc *rpc = &ch->masters[i]->ctl.rpc;
	struct kv_chan_trial *t = &ch->trials[i];
	uint64_t now = kv_loop_now(ch->loop);

	if (t->ping.rpc || now < t->pinged_ns + PING_NS)
		return;
	t->ch = ch;
	t->i = i;
	t->pinged_ns = now;
	t->ping.fn = pinged;
	if (kv_rpc_begin(rpc, &t->ping, KV_MSG_PING, now + SILENT_NS))
		kv_rpc_end(rpc);
}

void
kv_chan_watch_masters(struct kv_chan *ch)
{
	struct kv_hub *hub = ch->hub;
	unsigned i;

	if (hub->n_masters < 2)
		return;
	for (i = 0; i < hub->n_masters; i++) {
		if (kv_hub_master_has_failed(hub, i)) {
			kv_chan_try_master(ch, i);
			continue;
		}
		if (ch->masters[i]->ctl.state == KV_LINK_UP)
			ping(ch, i);
		else if (!ch->trials[i].wait.to)
			trial_start(ch, i);
	}
}

/* ---- the table of nodes ---- */

static void
refreshed(struct kv_roll *roll, int status)
{
	struct kv_chan_refresh *r =
		KV_CONTAINER_OF(roll, struct kv_chan_refresh, roll);

	(void)status; /* what is known already must do */
	r->is_under_way = false;
	if (r->fn)
		r->fn(roll->ask.ch, r->arg);
}

bool
kv_chan_refresh(struct kv_chan *ch, void (*fn)(struct kv_chan *ch, void *arg),
		void *arg)
{
	struct kv_chan_refresh *r = ch->refresh;

	if (ch->hub->n_masters == 0)
		return false;
	if (!r)
		r = ch->refresh = calloc(1, sizeof(*r));
	if (!r || (fn && r->is_under_way && r->fn))
		return false;
	if (fn || !r->is_under_way) {
		r->fn = fn;
		r->arg = arg;
	}
	if (r->is_under_way)
		return fn != NULL;
	r->is_under_way = true;
	r->roll.deadline = kv_loop_now(ch->loop) + 2 * KV_NS_PER_S;
	r->roll.fn = refreshed;
	kv_roll_start(ch, &r->roll);
	return fn != NULL;
}

void
kv_chan_refresh_cancel(struct kv_chan *ch, const void *arg)
{
	if (ch->refresh && ch->refresh->arg == arg)
		ch->refresh->fn = NULL;
}
