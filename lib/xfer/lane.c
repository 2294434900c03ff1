#include "xfer/lane.h"

#include <errno.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/status.h"
#include "net/dial.h"

static void
set_state(struct kv_lane *lane, enum kv_lane_state next, int status)
{
	lane->state = next;
	lane->status = status;
}

static void
leave(struct kv_lane *lane)
{
	if (lane->ops && lane->ops->leave)
		lane->ops->leave(lane);
}

/* Calls under way fail first: then their memory is not touched any more. */
static void
lose(struct kv_lane *lane, int status)
{
	leave(lane);
	kv_conn_close(lane->conn);
	lane->conn = NULL;
	kv_rpc_fail(&lane->rpc, status);
	set_state(lane, KV_LANE_LOST, status);
}

static void
on_msg(struct kv_conn *conn, const struct kv_msg *msg)
{
	struct kv_lane *lane = kv_conn_arg(conn);
	int rc = 0;

	if (lane->ops && lane->ops->take)
		rc = lane->ops->take(lane, msg);
	if (rc == 0 && !kv_rpc_take(&lane->rpc, msg))
		rc = -EPROTO;
	if (rc < 0)
		lose(lane, rc);
}

static int
on_payload(struct kv_conn *conn, const struct kv_msg *msg, struct iovec *iov,
	   int max)
{
	struct kv_lane *lane = kv_conn_arg(conn);

	(void)max;
	if (!lane->ops || !lane->ops->on_payload)
		return -EPROTO;
	return lane->ops->on_payload(lane, msg, iov);
}

static void
on_close(struct kv_conn *conn, int status)
{
	lose(kv_conn_arg(conn), status);
}

static const struct kv_conn_ops conn_ops = {
	.on_msg = on_msg,
	.on_payload = on_payload,
	.on_close = on_close,
};

static int
be_ready(struct kv_lane *lane, const struct kv_hello_result *res)
{
	lane->boot = res->boot;
	lane->features &= res->features;
	lane->token = res->token;
	set_state(lane, KV_LANE_READY, 0);
	return lane->ops && lane->ops->ready ? lane->ops->ready(lane) : 0;
}

static void
on_hello(struct kv_call *call, int status, const struct kv_msg *msg)
{
	struct kv_lane *lane = KV_CONTAINER_OF(call, struct kv_lane, hello);
	struct kv_hello_result res = { .text = "" };

	if (!lane->conn)
		return; /* lose() says the rest */
	if (status == 0)
		status = -kv_status_errno(kv_hello_parse(msg, &res));
	if (status == 0)
		status = be_ready(lane, &res);
	if (status == 0)
		return;
	if (res.text[0])
		kv_debug("engine: refused: %s", res.text);
	lose(lane, status);
}

static void
say_hello(struct kv_lane *lane, struct kv_stream *s)
{
	struct kv_hello_opts opts = {
		.role = KV_ROLE_ENGINE,
		.boot = &lane->own,
		.want = &lane->boot,
		.name = program_invocation_short_name,
		.features = lane->features,
	};

	lane->conn = kv_conn_new(lane->loop, s, &conn_ops, lane);
	if (!lane->conn) {
		set_state(lane, KV_LANE_LOST, -errno);
		return;
	}
	kv_rpc_init(&lane->rpc, lane->conn);
	lane->hello.fn = on_hello;
	lane->state = KV_LANE_GREETING;
	if (kv_rpc_begin(&lane->rpc, &lane->hello, KV_MSG_HELLO,
			 lane->deadline_ns) &&
	    kv_hello_build(lane->conn, &opts)) {
		kv_rpc_end(&lane->rpc);
		return;
	}
	kv_rpc_cancel(&lane->hello);
	lose(lane, -ENOMEM);
}

/* Whoever calls has to know: nobody is there, or this side cannot. */
static int
dial_error(int status)
{
	switch (-status) {
	case ENOMEM:
	case EMFILE:
	case ENFILE:
	case EAGAIN:
		return -ENOMEM;
	case EINVAL:
	case ETIMEDOUT:
		return status;
	default:
		return -EHOSTUNREACH;
	}
}

static void
on_dialled(void *arg, struct kv_stream *s, int status)
{
	struct kv_lane *lane = arg;

	lane->dial = NULL;
	if (s)
		say_hello(lane, s);
	else
		set_state(lane, KV_LANE_LOST, dial_error(status));
}

void
kv_lane_init(struct kv_lane *lane, struct kv_loop *loop,
	     const struct kv_id *own, const struct kv_id *boot)
{
	*lane = (struct kv_lane){ .loop = loop, .own = *own };
	if (boot)
		lane->boot = *boot;
}

void
kv_lane_dial(struct kv_lane *lane, const char *addr, uint64_t deadline_ns)
{
	assert(lane->state == KV_LANE_CLOSED);
	lane->state = KV_LANE_DIALLING;
	lane->deadline_ns = deadline_ns;
	lane->dial =
		kv_dial_start(lane->loop, addr, deadline_ns, on_dialled, lane);
	if (lane->dial)
		return;
	lane->state = KV_LANE_LOST;
	lane->status = -ENOMEM;
}

void
kv_lane_greet(struct kv_lane *lane, struct kv_stream *s, uint64_t deadline_ns)
{
	assert(lane->state == KV_LANE_CLOSED);
	lane->deadline_ns = deadline_ns;
	say_hello(lane, s);
}

int
kv_lane_settle(struct kv_lane *lane, const struct kv_wait *w)
{
	int rc = 0;

	while (rc == 0 && lane->state < KV_LANE_READY)
		rc = kv_wait_turn(w, lane->loop);
	return rc ? rc : lane->status;
}

void
kv_lane_close(struct kv_lane *lane)
{
	if (lane->dial)
		kv_dial_cancel(lane->dial);
	lane->dial = NULL;
	if (lane->conn) {
		leave(lane);
		kv_conn_close(lane->conn);
		lane->conn = NULL;
		kv_rpc_fail(&lane->rpc, -ECANCELED);
	}
	lane->state = KV_LANE_CLOSED;
}

/* ---- one request at a time ---- */

static void
on_answer(struct kv_call *call, int status, const struct kv_msg *msg)
{
	struct kv_lane_ask *ask =
		KV_CONTAINER_OF(call, struct kv_lane_ask, call);

	ask->result = status < 0 ? status : ask->take(ask->arg, msg);
	ask->over = true;
}

void *
kv_lane_begin(struct kv_lane *lane, struct kv_lane_ask *ask,
	      enum kv_msg_type type)
{
	if (lane->state != KV_LANE_READY)
		return NULL;
	ask->call.fn = on_answer;
	/* Who waits keeps the time. */
	return kv_rpc_begin(&lane->rpc, &ask->call, type, UINT64_MAX);
}

int
kv_lane_finish(struct kv_lane *lane, struct kv_lane_ask *ask,
	       const struct kv_wait *w)
{
	int rc = 0;

	kv_rpc_end(&lane->rpc);
	while (rc == 0 && !ask->over)
		rc = kv_wait_turn(w, lane->loop);
	kv_rpc_cancel(&ask->call);
	return rc ? rc : ask->result;
}
