/*
 * A second way for requests, by RDMA: dialled once there are rails, given up
 * with them. What is under way on it when it is lost is asked again by ctl. A
 * node may end one that is idle, for others: it is dialled again when it would
 * be used.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/attr.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/num.h"
#include "base/status.h"
#include "net/stream.h"
#include "svc/chan.h"
#include "svc/linkcore.h"
#include "wire/protordma.h"
#include "xfer/rdmacall.h"
#include "xfer/rdmalink.h"

#define DIAL_NS        KV_NS_PER_S
#define PAUSE_LEAST_NS (200 * KV_NS_PER_MS)
#define PAUSE_MOST_NS  (10 * KV_NS_PER_S)

enum {
	/* Of a port, 8 KiB each. A channel has few requests under way. */
	RECEIVES = 64,
	SENDS = 16,
	STREAMS = KV_CHAN_NODES_MAX,
};

/* Ids of calls differ from those of ctl: bytes on the data connection name
 * them. */
#define FIRST_ID (UINT64_C(1) << 32)

/* Where ctl was dialled; 0: not by TCP. */
static uint16_t
port_of(struct kv_link *l)
{
	struct kv_net *net = l->ch->hub->net;
	struct kv_peer peer;
	const char *colon;

	net->peer(net, kv_conn_stream(l->ctl.conn), &peer);
	colon = strrchr(peer.addr, ':');
	if (peer.is_unix || !colon)
		return 0;
	return (uint16_t)strtoul(colon + 1, NULL, 10);
}

static struct kv_rdmacall *
call_of(struct kv_chan *ch)
{
	const struct kv_rdmacall_opts o = {
		.rdma = ch->hub->rdma,
		.loop = ch->loop,
		.receives = RECEIVES,
		.sends = SENDS,
		.streams = STREAMS,
	};

	if (!ch->call)
		ch->call = kv_rdmacall_new(&o);
	return ch->call;
}

static void
connected(void *arg, struct kv_stream *s, int status)
{
	struct kv_link *l = KV_CONTAINER_OF(arg, struct kv_link, fast);

	l->fast_dial = NULL;
	kv_link_connected(&l->fast, s, status);
	if (l->fast.conn)
		l->fast.rpc.next_id = FIRST_ID;
}

static void
pause_begin(struct kv_link *l)
{
	l->fast_pause_ns =
		kv_min_u64(kv_max_u64(2 * l->fast_pause_ns, PAUSE_LEAST_NS),
			   PAUSE_MOST_NS);
	l->fast_again_ns = kv_loop_now(l->ch->loop) + l->fast_pause_ns;
}

void
kv_link_fast_begin(struct kv_link *l)
{
	struct kv_rdmacall_to to = {
		.deadline_ns = kv_loop_now(l->ch->loop) + DIAL_NS,
	};
	struct kv_rdmacall *call;

	if (l->fast.state != KV_LINK_IDLE || !l->ctl.conn ||
	    !(l->features & KV_FEATURE_CALL) ||
	    !kv_rdmalink_path(l->rails, &to.from, &to.to))
		return;
	to.port = port_of(l);
	call = to.port ? call_of(l->ch) : NULL;
	if (call)
		l->fast_dial = kv_rdmacall_dial(call, &to, connected, &l->fast);
	if (!l->fast_dial) {
		pause_begin(l);
		return;
	}
	l->fast.state = KV_LINK_DIALING;
	l->deadline = to.deadline_ns; /* of HELLO, too */
}

void
kv_link_fast_up(struct kv_link *l)
{
	l->fast.state = KV_LINK_UP;
	l->fast_pause_ns = 0;
}

bool
kv_link_fast_use(struct kv_link *l)
{
	if (l->fast.state == KV_LINK_UP)
		return true;
	if (l->rails && kv_loop_now(l->ch->loop) >= l->fast_again_ns)
		kv_link_fast_begin(l);
	return false;
}

static void
fast_close(struct kv_link *l, int status)
{
	if (l->fast_dial)
		kv_rdmacall_cancel(kv_steal_ptr(&l->fast_dial));
	kv_link_end_close(&l->fast, status);
}

void
kv_link_fast_fail(struct kv_link *l, int status)
{
	fast_close(l, status);
	if (l->rails)
		pause_begin(l);
}

void
kv_link_fast_end(struct kv_link *l, int status)
{
	fast_close(l, status);
	/* An unanswered HELLO fails within, and begins a pause. */
	l->fast_pause_ns = l->fast_again_ns = 0;
}
