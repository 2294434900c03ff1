#include "netpair.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "net/sock.h"

#include "test.h"

#define WAIT_NS (10 * KV_NS_PER_S)

static void
on_accept(void *arg, struct kv_stream *s, const struct kv_peer *peer)
{
	struct netpair *p = arg;

	netpair_close_stream(&p->far);
	p->far = s;
	p->peer = *peer;
	p->accepted++;
}

static void
on_connect(void *arg, struct kv_stream *s, int status)
{
	struct netpair *p = arg;

	assert_int_equal(s == NULL, status != 0);
	netpair_close_stream(&p->near);
	p->near = s;
	p->status = status;
}

void
netpair_listen(struct netpair *p, const char *addr)
{
	int err = 0;

	*p = (struct netpair){ .loop = kv_loop_new(NULL),
			       .net = kv_sock_net_new() };
	assert_non_null(p->loop);
	assert_non_null(p->net);
	p->listener = p->net->listen(p->net, p->loop, addr, on_accept, p,
				     p->bound, &err);
	if (!p->listener)
		fail_msg("%s: %s", addr, strerror(-err));
}

int
netpair_dial(struct netpair *p, const char *addr, unsigned timeout_ms)
{
	uint64_t deadline =
		kv_loop_refresh(p->loop) + timeout_ms * KV_NS_PER_MS;

	p->status = 1;
	assert_non_null(p->net->connect(p->net, p->loop, addr, deadline,
					on_connect, p));
	assert_int_equal(p->status, 1);
	NETPAIR_WAIT(p, p->status <= 0);
	return p->status;
}

void
netpair_open(struct netpair *p, const char *addr)
{
	netpair_listen(p, addr);
	assert_int_equal(netpair_dial(p, p->bound, 5000), 0);
	NETPAIR_WAIT(p, p->far);
}

uint64_t
netpair_end_of_wait(struct netpair *p)
{
	return kv_loop_refresh(p->loop) + WAIT_NS;
}

void
netpair_turn(struct netpair *p, uint64_t end, const char *what)
{
	assert_true(kv_loop_turn(p->loop, end) >= 0);
	if (kv_loop_now(p->loop) >= end)
		fail_msg("waited in vain for %s", what);
}

static void
on_ready(struct kv_stream *s, uint32_t events)
{
	struct netpair *p = s->arg;

	p->ready = events;
}

ssize_t
netpair_read(struct netpair *p, struct kv_stream *s, void *buf, size_t n)
{
	struct iovec iov = { .iov_base = buf, .iov_len = n };
	ssize_t got;

	s->ready = on_ready;
	s->arg = p;
	for (;;) {
		got = s->ops->readv(s, &iov, 1);
		if (got != -EAGAIN)
			return got;
		assert_int_equal(s->ops->want(s, EPOLLIN), 0);
		p->ready = 0;
		NETPAIR_WAIT(p, p->ready);
		assert_int_equal(p->ready, EPOLLIN);
		assert_int_equal(s->ops->want(s, 0), 0);
	}
}

ssize_t
netpair_write(struct kv_stream *s, const char *text)
{
	char copy[256];
	struct iovec iov = { .iov_base = copy, .iov_len = strlen(text) };

	assert_true(iov.iov_len < sizeof(copy));
	memcpy(copy, text, iov.iov_len);
	return s->ops->writev(s, &iov, 1);
}

void
netpair_close_stream(struct kv_stream **s)
{
	if (*s)
		(*s)->ops->close(*s);
	*s = NULL;
}

void
netpair_close(struct netpair *p)
{
	netpair_close_stream(&p->near);
	netpair_close_stream(&p->far);
	p->net->unlisten(p->net, p->listener);
	kv_sock_net_free(p->net);
	kv_loop_free(p->loop);
}

int
netpair_count_fds(void)
{
	int n = 0;

	for (int fd = 0; fd < 1024; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

int
netpair_fds_before(void **state)
{
	static int count;

	signal(SIGPIPE, SIG_DFL);
	count = netpair_count_fds();
	*state = &count;
	return 0;
}

int
netpair_fds_after(void **state)
{
	for (int i = 0; i < 500; i++) {
		if (netpair_count_fds() == *(int *)*state)
			return 0;
		usleep(10000);
	}
	return -1;
}
