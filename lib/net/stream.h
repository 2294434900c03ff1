#ifndef KV_NET_STREAM_H
#define KV_NET_STREAM_H

/*
 * A byte stream under a connection: a socket (net/sock.c), or a pipe of the
 * simulator. All calls on the loop's thread; none blocks.
 */

#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

struct kv_loop;
struct kv_stream;

struct kv_stream_ops {
	/* As much as it is of use to read at once; 0: not known. */
	size_t read_bytes;
	/* Bytes read, 0 at the end, -EAGAIN when nothing is there, -errno. */
	ssize_t (*readv)(struct kv_stream *s, const struct iovec *iov, int n);
	/* Bytes taken, -EAGAIN when full, -errno. */
	ssize_t (*writev)(struct kv_stream *s, const struct iovec *iov, int n);
	/* Interest: EPOLLIN | EPOLLOUT. `ready` is then called when it holds;
	 * level triggered. */
	int (*want)(struct kv_stream *s, uint32_t events);
	/* Hands one descriptor over with the next bytes written (dup'ed, the
	 * caller keeps its own); -EBUSY while one waits for that, -ENOTSUP
	 * where it makes no sense. */
	int (*send_fd)(struct kv_stream *s, int fd);
	/* A descriptor that came with bytes read so far, or -1. Caller owns.
	 * One is kept until it is asked for; others that come are closed. */
	int (*recv_fd)(struct kv_stream *s);
	/* Gives it to another loop, on whose thread alone it is used from then
	 * on. Nothing may be wanted at the time. NULL: it cannot leave. */
	void (*move)(struct kv_stream *s, struct kv_loop *loop);
	/* Ends it in both directions and frees it; `ready` is not called any
	 * more. The bytes of earlier readv/writev calls are not touched after
	 * this returns. */
	void (*close)(struct kv_stream *s);
	/* As close; and what was written and has not arrived is not sent again:
	 * it does not come to the other side when the network is mended. */
	void (*reset)(struct kv_stream *s);
};

struct kv_stream {
	const struct kv_stream_ops *ops;
	void (*ready)(struct kv_stream *s, uint32_t events);
	void *arg; /* of the owner of `ready` */
};

static inline size_t
kv_stream_iov_bytes(const struct iovec *iov, int n)
{
	size_t sum = 0;

	for (int i = 0; i < n; i++)
		sum += iov[i].iov_len;
	return sum;
}

#endif
