#include "svc/ask.h"

#include <errno.h>
#include <string.h>

#include "base/attr.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/num.h"
#include "base/status.h"

#define TRY_NS       KV_NS_PER_S
#define PING_NS      (KV_MASTER_PING_MS * KV_NS_PER_MS)
#define SILENT_NS    (KV_MASTER_SILENT_MS * KV_NS_PER_MS)
#define TRY_LEAST_NS (200 * KV_NS_PER_MS)
/* While there is another one to ask; for that is looked again and again. */
#define TRY_FIRST_NS (300 * KV_NS_PER_MS)
#define LOOK_NS      (20 * KV_NS_PER_MS)

static void ask_next(struct kv_ask *ask);

static void
beside_stop(struct kv_ask *ask)
{
	kv_rpc_cancel(&ask->ping);
	kv_loop_timer_del(&ask->beside);
}

static void
ask_end(struct kv_ask *ask, int status, const struct kv_msg *msg)
{
	ask->link = NULL;
	if (!ask->starting) {
		ask->fn(ask, status, msg);
		return;
	}
	ask->status = status;
	ask->over = true;
	kv_loop_defer(ask->ch->loop, &ask->defer);
}

/* This one did not answer: it is left alone for a while, the next is asked. */
static void
ask_failed(struct kv_ask *ask, int status)
{
	struct kv_chan *ch = ask->ch;

	/* The deadline was that of the attempt. */
	ask->status = status == -KV_ETIMEOUT ? -KV_EUNREACHABLE : status;
	if (ask->master < KV_HUB_MASTERS_MAX &&
	    kv_status_scope(status) != KV_SCOPE_SELF)
		kv_hub_master_down(ch->hub, (unsigned)ask->master,
				   kv_loop_now(ch->loop),
				   kv_link_why(ask->link, status));
	ask->link = NULL;
	ask_next(ask);
}

static void
ask_answered(struct kv_call *call, int status, const struct kv_msg *msg)
{
	struct kv_ask *ask = KV_CONTAINER_OF(call, struct kv_ask, call);
	const struct kv_error_r *e;

	beside_stop(ask);
	if (status < 0) {
		/* Silent: the connection is of no use to later calls either. */
		if (status == -ETIMEDOUT)
			kv_link_drop(ask->link, -KV_ETIMEOUT);
		ask_failed(ask, -kv_status_from_errno(status));
		return;
	}
	if (ask->master < KV_HUB_MASTERS_MAX)
		kv_hub_master_up(ask->ch->hub, (unsigned)ask->master);
	ask->from_local = ask->master == KV_HUB_MASTERS_MAX;
	if (msg->type == KV_MSG_ERROR_R) {
		e = msg->body;
		ask_end(ask,
			e->status ? kv_status_of_peer(e->status) : -KV_EPROTO,
			NULL);
		return;
	}
	if (msg->type != (enum kv_msg_type)(ask->type + 128)) {
		ask_end(ask, -KV_EPROTO, NULL);
		return;
	}
	ask_end(ask, 0, msg);
}

/* What is asked for takes its time: is there still somebody who does it? */
static void
ask_pinged(struct kv_call *call, int status, const struct kv_msg *msg)
{
	struct kv_ask *ask = KV_CONTAINER_OF(call, struct kv_ask, ping);
	struct kv_loop *loop = ask->ch->loop;

	(void)msg;
	if (status == 0)
		kv_loop_timer_set(loop, &ask->beside,
				  kv_loop_now(loop) + PING_NS);
	if (status != -ETIMEDOUT)
		return; /* if the connection is lost the request says so */
	kv_rpc_cancel(&ask->call);
	kv_link_drop(ask->link, -KV_ETIMEOUT);
	ask_failed(ask, -KV_ETIMEOUT);
}

static void
ask_ping(struct kv_timer *t)
{
	struct kv_ask *ask = KV_CONTAINER_OF(t, struct kv_ask, beside);
	struct kv_rpc *rpc = &ask->link->ctl.rpc;

	ask->beside.fn = ask_ping;
	ask->ping.fn = ask_pinged;
	if (kv_rpc_begin(rpc, &ask->ping, KV_MSG_PING,
			 kv_loop_now(ask->ch->loop) + SILENT_NS))
		kv_rpc_end(rpc);
}

/* Those that failed are dialled again, now and then, but for one. */
static void
masters_try(struct kv_chan *ch, int but)
{
	unsigned i;

	for (i = 0; i < ch->hub->n_masters; i++)
		if ((int)i != but && kv_hub_master_has_failed(ch->hub, i))
			kv_chan_try_master(ch, i);
}

/* One that failed in this call and is there again may be asked again. */
static void
tried_forget(struct kv_ask *ask)
{
	struct kv_hub *hub = ask->ch->hub;
	unsigned i;

	for (i = 0; i < hub->n_masters; i++)
		if ((int)i != ask->master && !(ask->skip & 1u << i) &&
		    kv_hub_master_has_other(hub, ~(1u << i)))
			ask->tried &= ~(1u << i);
}

/* Another one would have answered by now. (It may have failed when this one
 * was asked, or in this very call, and be there again.) */
static void
ask_look(struct kv_timer *t)
{
	struct kv_ask *ask = KV_CONTAINER_OF(t, struct kv_ask, beside);
	struct kv_loop *loop = ask->ch->loop;

	if (!kv_hub_master_has_other(ask->ch->hub, 1u << ask->master)) {
		masters_try(ask->ch, ask->master);
		kv_loop_timer_set(loop, t, kv_loop_now(loop) + LOOK_NS);
		return;
	}
	tried_forget(ask);
	kv_link_wait_cancel(&ask->wait);
	kv_rpc_cancel(&ask->call);
	kv_link_drop(ask->link, -KV_ETIMEOUT);
	ask_failed(ask, -KV_ETIMEOUT);
}

static void
look_later(struct kv_ask *ask)
{
	struct kv_loop *loop = ask->ch->loop;

	ask->beside.fn = ask_look;
	if (ask->master < KV_HUB_MASTERS_MAX && ask->ch->hub->n_masters > 1)
		kv_loop_timer_set(loop, &ask->beside,
				  kv_loop_now(loop) + TRY_FIRST_NS);
}

/* How long this one is waited for, at most. */
static uint64_t
ask_patience(const struct kv_ask *ask)
{
	if (ask->master < KV_HUB_MASTERS_MAX &&
	    kv_hub_master_has_failed(ask->ch->hub, (unsigned)ask->master))
		return TRY_LEAST_NS;
	return TRY_NS;
}

static void
ask_send(struct kv_ask *ask)
{
	struct kv_chan *ch = ask->ch;
	uint64_t most = ask_patience(ask);
	uint64_t until = ask->try_ns ? kv_loop_now(ch->loop) + ask->try_ns
				     : kv_chan_patience(ch, ask->deadline,
							TRY_LEAST_NS, most);
	struct kv_rpc *rpc = &ask->link->ctl.rpc;
	void *body;
	int rc;

	ask->call.fn = ask_answered;
	body = kv_rpc_begin(rpc, &ask->call, ask->type,
			    kv_min_u64(ask->deadline, until));
	if (!body) {
		ask_failed(ask, -kv_status_from_errno(errno));
		return;
	}
	rc = ask->build(ask, rpc->conn, body);
	if (rc < 0) {
		kv_conn_abort(rpc->conn);
		kv_rpc_cancel(&ask->call);
		ask_end(ask, -kv_status_from_errno(rc), NULL);
		return;
	}
	kv_rpc_end(rpc);
	if (ask->try_ns > TRY_NS)
		ask_ping(&ask->beside);
	else
		look_later(ask);
	kv_conn_flush(rpc->conn);
}

static void
ask_open(struct kv_link_wait *w, int status)
{
	struct kv_ask *ask = KV_CONTAINER_OF(w, struct kv_ask, wait);

	kv_loop_timer_del(&ask->beside);
	if (status < 0)
		ask_failed(ask, status);
	else
		ask_send(ask);
}

/* The next master, or -1. */
static int
master_choose(struct kv_ask *ask)
{
	struct kv_hub *hub = ask->ch->hub;
	uint64_t now = kv_loop_now(ask->ch->loop);
	int chosen = -1;
	unsigned i;

	for (i = 0; i < hub->n_masters; i++) {
		if (ask->tried & 1u << i || kv_hub_master_is_down(hub, i, now))
			continue;
		if (!kv_hub_master_has_failed(hub, i)) {
			chosen = (int)i;
			break;
		}
		if (chosen < 0 && !ask->is_extra)
			chosen = (int)i;
	}
	masters_try(ask->ch, chosen);
	return chosen;
}

/* Whom to ask now; NULL: nobody is left. */
static struct kv_link *
ask_choose(struct kv_ask *ask)
{
	struct kv_chan *ch = ask->ch;
	int i = ask->local_only ? -1 : master_choose(ask);

	if (i >= 0) {
		ask->tried |= 1u << i;
		ask->master = i;
		return ch->masters[i];
	}
	if (!(ask->or_local || ask->local_only) || !ch->local ||
	    ask->tried & 1u << KV_HUB_MASTERS_MAX)
		return NULL;
	ask->tried |= 1u << KV_HUB_MASTERS_MAX;
	ask->master = KV_HUB_MASTERS_MAX;
	return ch->local;
}

static void
ask_next(struct kv_ask *ask)
{
	int rc;

	if (kv_loop_now(ask->ch->loop) >= ask->deadline) {
		ask_end(ask, -KV_ETIMEOUT, NULL);
		return;
	}
	ask->link = ask_choose(ask);
	if (!ask->link) {
		ask_end(ask, ask->status, NULL);
		return;
	}
	ask->wait.fn = ask_open;
	rc = kv_link_open(ask->link, &ask->wait, false, ask->deadline);
	if (rc > 0)
		ask_send(ask);
	else if (rc < 0)
		ask_end(ask, rc, NULL);
	else
		look_later(ask);
}

static void
ask_told(struct kv_defer *d)
{
	struct kv_ask *ask = KV_CONTAINER_OF(d, struct kv_ask, defer);

	ask->fn(ask, ask->status, NULL);
}

void
kv_ask_start(struct kv_chan *ch, struct kv_ask *ask)
{
	ask->ch = ch;
	ask->tried = ask->skip;
	ask->status = -KV_EUNREACHABLE;
	ask->from_local = false;
	ask->link = NULL;
	ask->call = ask->ping = (struct kv_call){ 0 };
	ask->beside = (struct kv_timer){ 0 };
	ask->wait = (struct kv_link_wait){ 0 };
	ask->defer = (struct kv_defer){ .fn = ask_told };
	ask->over = false;
	ask->starting = true;
	ask_next(ask);
	ask->starting = false;
}

void
kv_ask_cancel(struct kv_ask *ask)
{
	if (!ask->ch)
		return;
	kv_loop_defer_del(&ask->defer);
	kv_link_wait_cancel(&ask->wait);
	kv_rpc_cancel(&ask->call);
	beside_stop(ask);
	ask->link = NULL;
}
