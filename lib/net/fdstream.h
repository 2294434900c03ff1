#ifndef KV_NET_FDSTREAM_H
#define KV_NET_FDSTREAM_H

/* Streams over connected sockets, TCP and Unix. */

#include "net/net.h"
#include "net/stream.h"

/* Takes fd, connected and non-blocking, over, also on failure (NULL with
 * errno; fd is then closed). */
struct kv_stream *kv_fdstream_new(struct kv_loop *loop, int fd);

/*
 * Who is at the other end. 0, or -EMFILE, -ENFILE, -ENOMEM when there is no
 * descriptor to hold its process by: all is filled in then but pidfd, and the
 * next call tries again.
 */
int kv_fdstream_peer(struct kv_stream *s, struct kv_peer *out);

#endif
