#include "cmd/kvbench_linkctl.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/num.h"
#include "net/lookup.h"

/* ---- sockets ---- */

void
kvbench_ctl_prepare(int fd, uint32_t timeout_ms)
{
	const struct timeval t = {
		.tv_sec = timeout_ms / 1000,
		.tv_usec = timeout_ms % 1000 * 1000L,
	};
	int one = 1;

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof(t));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &t, sizeof(t));
}

static int
dial_one(const struct kv_lookup_addr *to, uint32_t timeout_ms)
{
	int fd = socket(to->addr.sa.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int err;

	if (fd < 0)
		return -errno;
	kvbench_ctl_prepare(fd, timeout_ms);
	if (connect(fd, &to->addr.sa, to->len) == 0)
		return fd;
	err = errno == EINPROGRESS ? ETIMEDOUT : errno;
	close(fd);
	return -err;
}

static int
look_up(const char *host, uint16_t port, struct kv_lookup_result *out)
{
	struct kv_addr a = { .kind = KV_ADDR_TCP, .port = port };

	snprintf(a.name, sizeof(a.name), "%s", host);
	return kv_lookup_now(&a, out);
}

int
kvbench_ctl_dial(const char *host, uint16_t port, uint32_t timeout_ms)
{
	struct kv_lookup_result found;
	int fd = look_up(host, port, &found);

	if (fd < 0)
		return fd;
	fd = -ENXIO;
	for (int i = 0; i < found.n && fd < 0; i++)
		fd = dial_one(&found.addrs[i], timeout_ms);
	return fd;
}

static int
listen_one(struct kv_lookup_addr *at, uint16_t port)
{
	int fd = socket(at->addr.sa.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int one = 1, err;

	if (fd < 0)
		return -errno;
	/* The place of the port is the same in both kinds. */
	at->addr.in.sin_port = htons(port);
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(fd, &at->addr.sa, at->len) == 0 && listen(fd, 4) == 0)
		return fd;
	err = errno;
	close(fd);
	return -err;
}

int
kvbench_ctl_listen(const char *host, uint16_t *port)
{
	struct kv_lookup_result found;
	struct kv_lookup_addr at = { 0 };
	socklen_t len = sizeof(at.addr);
	int fd = look_up(host, *port, &found);

	if (fd < 0)
		return fd;
	fd = -ENXIO;
	for (int i = 0; i < found.n && fd < 0; i++) {
		fd = listen_one(&found.addrs[i], *port);
		if (fd == -EADDRINUSE)
			fd = listen_one(&found.addrs[i], 0);
	}
	if (fd >= 0 && getsockname(fd, &at.addr.sa, &len) == 0)
		*port = ntohs(at.addr.in.sin_port);
	return fd;
}

/* ---- bytes ---- */

static int
stalled(ssize_t n)
{
	if (n == 0)
		return -ECONNRESET;
	return errno == EAGAIN ? -ETIMEDOUT : -errno;
}

int
kvbench_ctl_send(int fd, const void *p, size_t n)
{
	const char *at = p;

	while (n > 0) {
		ssize_t done = send(fd, at, n, MSG_NOSIGNAL);

		if (done <= 0)
			return stalled(done);
		at += done;
		n -= (size_t)done;
	}
	return 0;
}

int
kvbench_ctl_recv(int fd, void *p, size_t n)
{
	char *at = p;

	while (n > 0) {
		ssize_t done = recv(fd, at, n, 0);

		if (done <= 0)
			return stalled(done);
		at += done;
		n -= (size_t)done;
	}
	return 0;
}

/* ---- orders ---- */

int
kvbench_ctl_order(int fd, enum kvbench_ctl_type type, const uint64_t v[4])
{
	struct kvbench_ctl_order o = { .type = kv_le64(type) };

	for (int i = 0; i < 4 && v; i++)
		o.v[i] = kv_le64(v[i]);
	return kvbench_ctl_send(fd, &o, sizeof(o));
}

int
kvbench_ctl_ask(int fd, enum kvbench_ctl_type type, const uint64_t v[4],
		uint64_t out[2])
{
	struct kvbench_ctl_answer a;
	int rc = kvbench_ctl_order(fd, type, v);

	if (rc == 0)
		rc = kvbench_ctl_recv(fd, &a, sizeof(a));
	if (rc < 0)
		return rc;
	for (int i = 0; i < 2 && out; i++)
		out[i] = kv_get64(a.v[i]);
	return -(int)(kv_get64(a.status) & 0xfff);
}

int
kvbench_ctl_answer(int fd, int status, uint64_t v0, uint64_t v1)
{
	const struct kvbench_ctl_answer a = {
		.status = kv_le64((uint64_t)-status),
		.v = { kv_le64(v0), kv_le64(v1) },
	};

	return kvbench_ctl_send(fd, &a, sizeof(a));
}

int
kvbench_ctl_take_given(int fd, char *buf, size_t buf_bytes, uint64_t bytes)
{
	int rc = 0;

	for (size_t n; rc == 0 && bytes > 0; bytes -= n) {
		n = kv_min_u64(bytes, buf_bytes);
		rc = kvbench_ctl_recv(fd, buf, n);
	}
	return rc ? rc : kvbench_ctl_answer(fd, 0, 0, 0);
}

int
kvbench_ctl_give_taken(int fd, const char *buf, size_t buf_bytes,
		       uint64_t bytes)
{
	int rc = 0;

	for (size_t n; rc == 0 && bytes > 0; bytes -= n) {
		n = kv_min_u64(bytes, buf_bytes);
		rc = kvbench_ctl_send(fd, buf, n);
	}
	return rc;
}
