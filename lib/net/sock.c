#include "net/sock.h"

#include <errno.h>
#include <grp.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/attr.h"
#include "base/str.h"
#include "net/dial.h"
#include "net/fdstream.h"
#include "net/listener.h"

struct sock_net {
	struct kv_net base;
	gid_t group; /* of Unix sockets; -1: none */
};

static struct sock_net *
from_base(struct kv_net *net)
{
	return KV_CONTAINER_OF(net, struct sock_net, base);
}

static struct kv_listener *
/* NOLINTNEXTLINE(readability-function-size): net.h says what it takes */
sock_listen(struct kv_net *net, struct kv_loop *loop, const char *addr,
	    kv_net_accept_fn *fn, void *arg, char *bound, int *err)
{
	struct sock_net *sn = from_base(net);
	struct kv_listener *l;

	l = kv_listener_new(loop, addr, sn->group, fn, arg, err);
	if (l)
		snprintf(bound, KV_NET_BOUND_BYTES, "%s", kv_listener_bound(l));
	return l;
}

static void
sock_unlisten(struct kv_net *net, struct kv_listener *l)
{
	(void)net;
	kv_listener_free(l);
}

static struct kv_dial *
sock_connect(struct kv_net *net, struct kv_loop *loop, const char *addr,
	     uint64_t deadline_ns, kv_net_connect_fn *fn, void *arg)
{
	(void)net;
	return kv_dial_start(loop, addr, deadline_ns, fn, arg);
}

static void
sock_cancel(struct kv_net *net, struct kv_dial *dial)
{
	(void)net;
	kv_dial_cancel(dial);
}

static void
sock_peer(struct kv_net *net, struct kv_stream *s, struct kv_peer *out)
{
	(void)net;
	(void)kv_fdstream_peer(s, out);
}

static void
init(struct sock_net *sn)
{
	sn->base = (struct kv_net){
		.listen = sock_listen,
		.unlisten = sock_unlisten,
		.connect = sock_connect,
		.cancel = sock_cancel,
		.peer = sock_peer,
	};
	sn->group = (gid_t)-1;
}

struct kv_net *
kv_sock_net_new(void)
{
	void *sn = calloc(1, sizeof(struct sock_net));

	if (sn)
		init(sn);
	return sn; /* base comes first */
}

void
kv_sock_net_free(struct kv_net *net)
{
	if (net)
		free(from_base(net));
}

int
kv_sock_set_group(struct kv_net *net, const char *group)
{
	struct sock_net *sn = from_base(net);
	struct group *found;
	uint64_t gid;

	if (!kv_str_u64(group, 0, INT_MAX, &gid)) {
		sn->group = (gid_t)gid;
		return 0;
	}
	/* cppcheck-suppress getgrnamCalled; see the contract */
	found = getgrnam(group);
	if (!found)
		return -ENOENT;
	sn->group = found->gr_gid;
	return 0;
}

const char *
kv_sock_error_text(int status)
{
	const char *text;

	switch (-status) {
	case ENXIO:
		return "cannot resolve the name: it is not known";
	case ENONET:
		return "cannot resolve the name: no name server answers";
	case ECONNREFUSED:
		return "nobody listens there";
	case ETIMEDOUT:
		return "no answer in time";
	case EADDRINUSE:
		return "the address is in use";
	default:
		text = strerrordesc_np(-status);
		return text ? text : "unknown error";
	}
}
