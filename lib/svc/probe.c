#include "svc/probe.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/attr.h"
#include "base/fault.h"
#include "base/limits.h"
#include "base/status.h"
#include "net/hello.h"
#include "net/stream.h"

/* Gives everything back. */
static void
probe_close(struct kv_probe *probe)
{
	struct kv_conn *conn = probe->conn;

	if (probe->dial)
		probe->o.net->cancel(probe->o.net, probe->dial);
	probe->dial = NULL;
	kv_rpc_cancel(&probe->call);
	probe->conn = NULL;
	kv_conn_close(conn);
	free(probe->rpc);
	probe->rpc = NULL;
	kv_loop_defer_del(&probe->end);
	probe->is_on = false;
}

static void
probe_over(struct kv_defer *d)
{
	struct kv_probe *probe = KV_CONTAINER_OF(d, struct kv_probe, end);
	int status = probe->status;

	probe_close(probe);
	probe->fn(probe, status);
}

/* The first end counts; the connection is closed in the next turn, outside of
 * its own callbacks. */
static void
probe_end(struct kv_probe *probe, int status)
{
	if (probe->end.loop)
		return;
	probe->status = status;
	probe->end.fn = probe_over;
	kv_loop_defer(probe->o.loop, &probe->end);
}

static void
ponged(struct kv_call *call, int status, const struct kv_msg *msg)
{
	struct kv_probe *probe = KV_CONTAINER_OF(call, struct kv_probe, call);

	if (status == 0 && msg->type != KV_MSG_PING_R)
		status = -EPROTO;
	probe_end(probe, status);
}

static void
greeted(struct kv_call *call, int status, const struct kv_msg *msg)
{
	struct kv_probe *probe = KV_CONTAINER_OF(call, struct kv_probe, call);
	struct kv_hello_result res;

	if (status == 0)
		status = -kv_status_errno(kv_hello_parse(msg, &res));
	if (status == 0 && !kv_id_is_equal(res.boot, probe->o.want))
		status = -ESTALE;
	if (status < 0) {
		probe_end(probe, status);
		return;
	}
	call->fn = ponged;
	if (!kv_rpc_begin(probe->rpc, call, KV_MSG_PING, probe->o.deadline_ns))
		probe_end(probe, -ECONNRESET);
	else
		kv_rpc_end(probe->rpc);
}

static void
on_msg(struct kv_conn *c, const struct kv_msg *msg)
{
	struct kv_probe *probe = kv_conn_arg(c);

	if (!kv_rpc_take(probe->rpc, msg))
		probe_end(probe, -EPROTO);
}

static void
on_close(struct kv_conn *c, int status)
{
	struct kv_probe *probe = kv_conn_arg(c);

	probe_end(probe, status);
}

static const struct kv_conn_ops ops = {
	.on_msg = on_msg,
	.on_close = on_close,
};

static bool
probe_greet(struct kv_probe *probe)
{
	const struct kv_hello_opts hello = {
		.role = KV_ROLE_PROBE,
		.boot = &probe->o.boot,
		.want = &probe->o.want,
	};

	probe->call.fn = greeted;
	if (!kv_rpc_begin(probe->rpc, &probe->call, KV_MSG_HELLO,
			  probe->o.deadline_ns) ||
	    !kv_hello_build(probe->conn, &hello))
		return false;
	kv_rpc_end(probe->rpc);
	return true;
}

static void
connected(void *arg, struct kv_stream *s, int status)
{
	struct kv_probe *probe = arg;

	probe->dial = NULL;
	if (!s) {
		probe_end(probe, status);
		return;
	}
	probe->rpc = KV_FAULT_POINT() ? NULL : calloc(1, sizeof(*probe->rpc));
	if (!probe->rpc) {
		s->ops->close(s);
		probe_end(probe, -ENOMEM);
		return;
	}
	probe->conn = kv_conn_new(probe->o.loop, s, &ops, probe);
	if (!probe->conn) {
		probe_end(probe, -ENOMEM);
		return;
	}
	kv_rpc_init(probe->rpc, probe->conn);
	if (!probe_greet(probe))
		probe_end(probe, -ENOMEM);
}

void
kv_probe_start(struct kv_probe *probe, const struct kv_probe_opts *opts)
{
	char addr[KV_NAME_BYTES_MAX + 16];

	assert(!probe->is_on);
	probe->o = *opts;
	probe->is_on = true;
	snprintf(addr, sizeof(addr), "tcp:%s", opts->addr);
	probe->dial = opts->net->connect(opts->net, opts->loop, addr,
					 opts->deadline_ns, connected, probe);
	if (!probe->dial)
		probe_end(probe, -ENOMEM);
}

void
kv_probe_cancel(struct kv_probe *probe)
{
	if (probe->is_on)
		probe_close(probe);
}
