#ifndef KV_NET_NET_H
#define KV_NET_NET_H

/*
 * Where streams come from: sockets (net/sock.c) or the simulator. Cores get a
 * struct kv_net and never name a socket.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct kv_loop;
struct kv_stream;
struct kv_listener;

/* Who is at the other end, as the kernel says. */
struct kv_peer {
	bool is_unix;
	pid_t pid; /* unix only, else -1; as seen from here */
	uid_t uid; /* unix only */
	gid_t gid; /* unix only */
	int pidfd; /* unix only: the process that connected (of a stream that
		    * was dialled: that listens); readable when it is
		    * gone. Owned by the stream. -1 where the kernel has
		    * none, or the process is gone already */
	char addr[64]; /* numeric "1.2.3.4:567", "[fe80::1]:567", "unix" */
};

typedef void kv_net_accept_fn(void *arg, struct kv_stream *s,
			      const struct kv_peer *peer);
/* s on success, else NULL and -errno in status. Called once, deferred. */
typedef void kv_net_connect_fn(void *arg, struct kv_stream *s, int status);

struct kv_dial; /* a connection attempt under way */

#define KV_NET_BOUND_BYTES 128

struct kv_net {
	/* addr: see net/addr.h, a port must be given. The bound address (port 0
	 * resolved) is written to `bound`, KV_NET_BOUND_BYTES. Accepted streams
	 * live on `loop`; fn may call unlisten. NULL and *err = -errno on
	 * failure, which is logged. Looking a host name up may block. */
	struct kv_listener *(*listen)(struct kv_net *net, struct kv_loop *loop,
				      const char *addr, kv_net_accept_fn *fn,
				      void *arg, char *bound, int *err);
	void (*unlisten)(struct kv_net *net, struct kv_listener *l);
	/* Never blocks (names are resolved off the loop); gives up at
	 * deadline_ns. NULL only when out of memory. */
	struct kv_dial *(*connect)(struct kv_net *net, struct kv_loop *loop,
				   const char *addr, uint64_t deadline_ns,
				   kv_net_connect_fn *fn, void *arg);
	/* Before fn ran: it will not. After it ran the dial is gone. */
	void (*cancel)(struct kv_net *net, struct kv_dial *dial);
	/* The other end of an open stream. */
	void (*peer)(struct kv_net *net, struct kv_stream *s,
		     struct kv_peer *out);
};

#endif
