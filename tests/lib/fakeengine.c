#include "fakeengine.h"

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "test.h"
#include "xfer/samehost.h"

bool
fakeengine_get(struct fakeconn *c, void *p, size_t n)
{
	return recv(c->fd, p, n, MSG_WAITALL) == (ssize_t)n;
}

void
fakeengine_put(struct fakeconn *c, const void *p, size_t n)
{
	while (n > 0 && !atomic_load(&c->engine->over)) {
		ssize_t took = send(c->fd, p, n, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (took < 0 && errno != EAGAIN)
			return;
		if (took < 0) {
			usleep(1000);
			continue;
		}
		p = (const char *)p + took;
		n -= (size_t)took;
	}
}

static void
send_with_fd(struct fakeconn *c, const void *p, size_t n, int fd)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = { 0 };
	struct iovec iov = { (void *)(uintptr_t)p, n };
	struct msghdr msg = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control.bytes,
		.msg_controllen = sizeof(control.bytes),
	};
	struct cmsghdr *head = CMSG_FIRSTHDR(&msg);

	head->cmsg_level = SOL_SOCKET;
	head->cmsg_type = SCM_RIGHTS;
	head->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(head), &fd, sizeof(fd));
	(void)sendmsg(c->fd, &msg, MSG_NOSIGNAL);
}

void
fakeengine_answer_more(struct fakeconn *c, enum kv_msg_type type, uint64_t id,
		       const void *body, const struct fakeengine_extra *extra)
{
	size_t len = kv_msg_body_bytes(type), all = len + extra->tail_len;
	uint8_t *frame = malloc(KV_HEADER_BYTES + all);

	memcpy(frame + KV_HEADER_BYTES, body, len);
	if (extra->tail_len)
		memcpy(frame + KV_HEADER_BYTES + len, extra->tail,
		       extra->tail_len);
	kv_msg_seal(frame, type, 0, id, all, 0);
	if (extra->fd >= 0)
		send_with_fd(c, frame, KV_HEADER_BYTES + all, extra->fd);
	else
		fakeengine_put(c, frame, KV_HEADER_BYTES + all);
	free(frame);
}

void
fakeengine_answer(struct fakeconn *c, enum kv_msg_type type, uint64_t id,
		  const void *body, uint32_t payload)
{
	uint8_t frame[256];
	size_t len = kv_msg_body_bytes(type);

	memcpy(frame + KV_HEADER_BYTES, body, len);
	kv_msg_seal(frame, type, 0, id, len, payload);
	fakeengine_put(c, frame, KV_HEADER_BYTES + len);
}

/* One frame, without its payload. */
static bool
next_frame(struct fakeconn *c, uint8_t *frame, struct kv_msg *msg)
{
	struct kv_header h;

	if (!fakeengine_get(c, frame, KV_HEADER_BYTES))
		return false;
	memcpy(&h, frame, sizeof(h));
	return fakeengine_get(c, frame + KV_HEADER_BYTES, kv_get32(h.len)) &&
	       kv_msg_parse(frame, KV_FRAME_BYTES_MAX, msg, NULL) > 0;
}

static void
greet(struct fakeconn *c, const struct kv_msg *msg)
{
	struct kv_hello_r r = {
		.status = (uint8_t)c->engine->hello_status,
		.version = kv_le16(1),
		.boot = c->engine->boot,
	};

	if (!c->engine->is_mute)
		fakeengine_answer(c, KV_MSG_HELLO_R, msg->id, &r, 0);
}

static void *
run_conn(void *arg)
{
	struct fakeconn *c = arg;
	uint8_t *frame = malloc(KV_FRAME_BYTES_MAX);
	struct kv_msg msg;
	bool go_on = true;

	while (go_on && next_frame(c, frame, &msg)) {
		if (msg.type == KV_MSG_HELLO) {
			greet(c, &msg);
			continue;
		}
		atomic_fetch_add(&c->engine->served, 1);
		go_on = c->engine->obey(c, &msg);
	}
	free(frame);
	close(c->fd);
	atomic_fetch_sub(&c->engine->conns, 1);
	free(c);
	return NULL;
}

static void
accept_one(struct fakeengine *e, int which)
{
	struct fakeconn *c = calloc(1, sizeof(*c));
	pthread_attr_t attr;
	pthread_t thread;

	c->engine = e;
	c->fd = accept4(e->listeners[which], NULL, NULL, SOCK_CLOEXEC);
	c->is_unix = which == 1;
	atomic_fetch_add(&e->conns, 1);
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	assert_int_equal(pthread_create(&thread, &attr, run_conn, c), 0);
	pthread_attr_destroy(&attr);
}

static void *
run_engine(void *arg)
{
	struct fakeengine *e = arg;

	while (!atomic_load(&e->over)) {
		struct pollfd p[2] = {
			{ .fd = e->listeners[0], .events = POLLIN },
			{ .fd = e->listeners[1], .events = POLLIN },
		};

		poll(p, 2, 10);
		for (int i = 0; i < 2; i++)
			if (p[i].fd >= 0 && p[i].revents)
				accept_one(e, i);
	}
	return NULL;
}

static void
listen_local(struct fakeengine *e)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	char addr[KV_SAMEHOST_ADDR_BYTES];

	kv_samehost_addr(&e->boot, addr);
	/* As net/unixsock.h has it: "@" stands for the NUL, the rest is NULs.
	 */
	snprintf(un.sun_path, sizeof(un.sun_path), "%s",
		 addr + strlen("unix:"));
	un.sun_path[0] = '\0';
	e->listeners[1] = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(e->listeners[1], (void *)&un, sizeof(un)), 0);
	assert_int_equal(listen(e->listeners[1], 16), 0);
}

void
fakeengine_start(struct fakeengine *e)
{
	struct sockaddr_in a = { .sin_family = AF_INET };
	socklen_t len = sizeof(a);

	a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	e->listeners[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	e->listeners[1] = -1;
	assert_int_equal(bind(e->listeners[0], (void *)&a, sizeof(a)), 0);
	assert_int_equal(listen(e->listeners[0], 16), 0);
	getsockname(e->listeners[0], (void *)&a, &len);
	snprintf(e->addr, sizeof(e->addr), "127.0.0.1:%d", ntohs(a.sin_port));
	if (e->is_local)
		listen_local(e);
	atomic_store(&e->over, false);
	atomic_store(&e->served, 0);
	assert_int_equal(pthread_create(&e->thread, NULL, run_engine, e), 0);
}

/* Whoever dialled has to have closed. */
void
fakeengine_end(struct fakeengine *e)
{
	atomic_store(&e->over, true);
	pthread_join(e->thread, NULL);
	while (atomic_load(&e->conns) > 0)
		usleep(1000);
	close(e->listeners[0]);
	if (e->listeners[1] >= 0)
		close(e->listeners[1]);
}
