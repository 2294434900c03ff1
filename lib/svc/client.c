#include "svc/client.h"

#include <stdlib.h>
#include <time.h>

#include "base/attr.h"
#include "base/clock.h"
#include "event/op.h"
#include "net/sock.h"
#include "svc/pool.h"
#include "svc/viewop.h"
#include "xfer/rdma.h"

#define TIMEOUT_MS 10000
/* A channel that was used within this time is not looked at before its next
 * call. */
#define FRESH_NS KV_NS_PER_MS

/* ---- fork ---- */

static unsigned forks;

static void
forked(void)
{
	forks++;
}

static void
forks_watch(void)
{
	pthread_atfork(NULL, NULL, forked);
}

/* ---- channels ---- */

static void
chan_wake(struct kv_mail *mail)
{
	KV_CONTAINER_OF(mail, struct kv_client_chan, wake)->is_closing = true;
}

static void
chan_free(struct kv_client_chan *cc)
{
	kv_chan_free(cc->ch);
	kv_mbox_fini(&cc->mbox);
	kv_loop_free(cc->loop);
	free(cc);
}

static struct kv_client_chan *
chan_new(struct kv_client *c)
{
	struct kv_client_chan *cc = calloc(1, sizeof(*cc));

	if (!cc)
		return NULL;
	cc->c = c;
	cc->wake.fn = chan_wake;
	cc->loop = kv_loop_new(NULL);
	if (!cc->loop)
		goto free_chan;
	if (kv_mbox_init(&cc->mbox, cc->loop) < 0)
		goto free_loop;
	cc->ch = kv_chan_new(&c->hub, cc->loop);
	if (!cc->ch)
		goto fini_mbox;
	return cc;

fini_mbox:
	kv_mbox_fini(&cc->mbox);
free_loop:
	kv_loop_free(cc->loop);
free_chan:
	free(cc);
	return NULL;
}

/* Waits until a channel is idle or may be made. c->lock is held. */
static int
chan_wait(struct kv_client *c, uint32_t timeout_ms)
{
	struct timespec until;
	int rc = 0;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += timeout_ms / 1000;
	c->n_waiting++;
	while (!c->closing && kv_list_is_empty(&c->idle) &&
	       c->n_chans >= KV_CLIENT_CHANS_MAX && rc == 0)
		rc = pthread_cond_timedwait(&c->idle_more, &c->lock, &until);
	c->n_waiting--;
	if (c->closing) {
		pthread_cond_broadcast(&c->idle_more);
		return -KV_ECLOSED;
	}
	return rc == 0 ? 0 : -KV_ETIMEOUT;
}

struct kv_client_chan *
kv_client_enter(struct kv_client *c, uint32_t timeout_ms, uint64_t *deadline,
		int *status)
{
	struct kv_client_chan *cc = NULL;
	uint64_t last, now;
	bool make = false;

	if (timeout_ms == 0)
		timeout_ms = c->timeout_ms;
	if (c->forks != forks) {
		*status = -KV_ECLOSED;
		return NULL;
	}
	KV_LOCKED(&c->lock) {
		*status = chan_wait(c, timeout_ms);
		if (*status < 0)
			break;
		cc = KV_LIST_FIRST(&c->idle, struct kv_client_chan, link);
		make = cc == NULL;
		if (cc) {
			kv_list_del(&cc->link);
			kv_list_add_tail(&c->busy, &cc->link);
		} else {
			c->n_chans++;
		}
	}
	if (make) {
		cc = chan_new(c);
		KV_LOCKED(&c->lock) {
			if (cc)
				kv_list_add_tail(&c->busy, &cc->link);
			else
				c->n_chans--;
		}
		*status = cc ? 0 : -KV_ENOMEM;
	}
	if (!cc)
		return NULL;
	/* What came since the last call: connections that ended, answers that
	 * were late. Not worth a system call when that was just now. */
	last = kv_loop_now(cc->loop);
	now = kv_loop_refresh(cc->loop);
	if (now - last > FRESH_NS || kv_loop_next(cc->loop) <= now)
		kv_loop_turn(cc->loop, 0);
	*deadline = kv_loop_now(cc->loop) + timeout_ms * KV_NS_PER_MS;
	return cc;
}

void
kv_client_leave(struct kv_client_chan *cc)
{
	struct kv_client *c = cc->c;
	uint64_t now = kv_loop_now(cc->loop);

	/* What the call left to say (a release) must not wait for the next
	 * one. */
	if (kv_loop_next(cc->loop) <= now)
		kv_loop_turn(cc->loop, 0);
	KV_LOCKED(&c->lock) {
		kv_list_del(&cc->link);
		kv_list_add_head(&c->idle, &cc->link);
		if (c->n_waiting > 0 || c->closing)
			pthread_cond_broadcast(&c->idle_more);
	}
}

void
kv_client_run(struct kv_client_chan *cc, const bool *done,
	      void (*abort_op)(void *op), void *op)
{
	while (!*done) {
		kv_loop_turn(cc->loop, UINT64_MAX);
		if (cc->is_closing && !*done)
			abort_op(op);
	}
}

struct local_call {
	struct kv_link_wait wait;
	bool is_done;
	int status;
};

static void
local_open(struct kv_link_wait *w, int status)
{
	struct local_call *call = KV_CONTAINER_OF(w, struct local_call, wait);

	call->status = status;
	call->is_done = true;
}

static void
local_abort(void *op)
{
	struct local_call *call = op;

	kv_link_wait_cancel(&call->wait);
	call->status = -KV_ECLOSED;
	call->is_done = true;
}

int
kv_client_open_local(struct kv_client_chan *cc, uint64_t deadline)
{
	struct local_call call = { .wait = { .fn = local_open } };
	int rc;

	if (!cc->ch->local)
		return -KV_EUNREACHABLE;
	rc = kv_link_open(cc->ch->local, &call.wait, false, deadline);
	if (rc != 0)
		return rc > 0 ? 0 : rc;
	kv_client_run(cc, &call.is_done, local_abort, &call);
	return call.status;
}

/* ---- life ---- */

struct kv_client *
kv_client_new(const struct kv_client_opts *o)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	struct kv_client *c = calloc(1, sizeof(*c));
	pthread_condattr_t attr;

	pthread_once(&once, forks_watch);
	if (!c)
		return NULL;
	c->net = kv_sock_net_new();
	if (!c->net) {
		free(c);
		return NULL;
	}
	c->forks = forks;
	c->timeout_ms = o->timeout_ms ? o->timeout_ms : TIMEOUT_MS;
	pthread_mutex_init(&c->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&c->idle_more, &attr);
	pthread_condattr_destroy(&attr);
	kv_list_init(&c->idle);
	kv_list_init(&c->busy);
	return c;
}

void
kv_client_free(struct kv_client *c)
{
	kv_pool_close(c->pool);
	kv_sock_net_free(c->net);
	pthread_cond_destroy(&c->idle_more);
	pthread_mutex_destroy(&c->lock);
	kv_rdma_close(c->rdma);
	free(c);
}

/* Interrupts the calls under way, until none is left. c->lock is held. */
static void
calls_end(struct kv_client *c)
{
	struct kv_client_chan *cc;

	KV_LIST_FOREACH(cc, &c->busy, link) {
		if (cc->woken)
			continue;
		cc->woken = true;
		kv_mbox_post(&cc->mbox, &cc->wake);
	}
	while (!kv_list_is_empty(&c->busy) || c->n_waiting > 0) {
		pthread_cond_broadcast(&c->idle_more);
		pthread_cond_wait(&c->idle_more, &c->lock);
	}
}

void
kv_client_close(struct kv_client *c)
{
	struct kv_client_chan *cc;

	if (!c || c->forks != forks)
		return; /* a fork's copy: its parent goes on */
	KV_LOCKED(&c->lock) {
		c->closing = true;
		calls_end(c);
	}
	kv_op_crew_free(c->crew);
	while ((cc = KV_LIST_FIRST(&c->idle, struct kv_client_chan, link))) {
		kv_list_del(&cc->link);
		chan_free(cc);
	}
	kv_viewop_forget_all(&c->hub);
	kv_hub_fini(&c->hub);
	kv_client_free(c);
}

const char *
kv_client_node_addr(struct kv_client *c)
{
	return c ? c->node_addr : "";
}
