#include "httpclient.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "test.h"

enum {
	WAIT_MS = 10000 * KV_TEST_SLOWER,
};

static void
connect_to(struct httpclient *c, const struct sockaddr *a, socklen_t len)
{
	c->fd = socket(a->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (c->fd >= 0 && connect(c->fd, a, len)) {
		close(c->fd);
		c->fd = -1;
	}
}

void
httpclient_open(struct httpclient *c, struct kv_loop *loop, uint16_t port)
{
	struct sockaddr_in a = { .sin_family = AF_INET,
				 .sin_port = htons(port) };

	a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	*c = (struct httpclient){ .loop = loop };
	connect_to(c, (struct sockaddr *)&a, sizeof(a));
}

void
httpclient_open6(struct httpclient *c, struct kv_loop *loop, uint16_t port)
{
	struct sockaddr_in6 a = { .sin6_family = AF_INET6,
				  .sin6_port = htons(port),
				  .sin6_addr = IN6ADDR_LOOPBACK_INIT };

	*c = (struct httpclient){ .loop = loop };
	connect_to(c, (struct sockaddr *)&a, sizeof(a));
}

void
httpclient_close(struct httpclient *c)
{
	if (c->fd >= 0)
		close(c->fd);
	c->fd = -1;
	kv_bytes_fini(&c->in);
	kv_bytes_fini(&c->head);
	kv_bytes_fini(&c->body);
	kv_bytes_fini(&c->tail);
}

void
httpclient_turn(struct httpclient *c, unsigned ms)
{
	uint64_t end = kv_loop_refresh(c->loop) + ms * KV_NS_PER_MS;

	do
		assert_true(kv_loop_turn(c->loop, end) >= 0);
	while (kv_loop_refresh(c->loop) < end);
}

void
httpclient_send(struct httpclient *c, const void *p, size_t n)
{
	size_t at = 0;
	ssize_t rc;

	for (int i = 0; at < n && i < WAIT_MS; i++) {
		rc = send(c->fd, (const char *)p + at, n - at,
			  MSG_NOSIGNAL | MSG_DONTWAIT);
		if (rc > 0)
			at += (size_t)rc;
		else if (errno != EAGAIN)
			return; /* it answers and closes early */
		else
			httpclient_turn(c, 1);
	}
	assert_int_equal(at, n);
}

void
httpclient_say(struct httpclient *c, const char *text)
{
	httpclient_send(c, text, strlen(text));
}

/* Whether something came, or the end. */
static bool
read_some(struct httpclient *c)
{
	void *to = kv_bytes_reserve(&c->in, 64 << 10);
	ssize_t n;

	assert_non_null(to);
	n = recv(c->fd, to, 64 << 10, MSG_DONTWAIT);
	if (n < 0 && errno == EAGAIN)
		return false;
	if (n <= 0)
		c->is_eof = true;
	else
		c->in.len += (size_t)n;
	return true;
}

void
httpclient_read(struct httpclient *c, unsigned ms)
{
	uint64_t end = kv_loop_refresh(c->loop) + ms * KV_NS_PER_MS;

	while (kv_loop_refresh(c->loop) < end) {
		assert_true(kv_loop_turn(c->loop, kv_loop_now(c->loop) +
							  KV_NS_PER_MS) >= 0);
		read_some(c);
	}
}

/* Waits for what `n` more bytes than are there need; false: the end came. */
static bool
need(struct httpclient *c, size_t n)
{
	uint64_t end = kv_loop_refresh(c->loop) + WAIT_MS * KV_NS_PER_MS;

	while (c->in.len < n) {
		if (c->is_eof || kv_loop_refresh(c->loop) > end)
			return false;
		if (read_some(c))
			continue;
		assert_true(kv_loop_turn(c->loop, kv_loop_now(c->loop) +
							  KV_NS_PER_MS) >= 0);
	}
	return true;
}

static void
drop(struct httpclient *c, size_t n)
{
	memmove(c->in.data, c->in.data + n, c->in.len - n);
	c->in.len -= n;
}

/* Length of what ends in `mark`, which is waited for; 0: the end came. */
static size_t
need_mark(struct httpclient *c, const char *mark)
{
	size_t n = strlen(mark);
	const uint8_t *at = NULL;

	while (!at) {
		if (!need(c, c->in.len + (c->in.len < n ? n - c->in.len : 0)))
			return 0;
		at = memmem(c->in.data, c->in.len, mark, n);
		if (!at && !need(c, c->in.len + 1))
			return 0;
	}
	return (size_t)(at - c->in.data) + n;
}

static bool
move(struct httpclient *c, struct kv_bytes *to, size_t n)
{
	bool is_there = need(c, n);

	if (!is_there)
		n = c->in.len;
	assert_int_equal(kv_bytes_append(to, c->in.data, n), 0);
	drop(c, n);
	return is_there;
}

static bool
take_tail(struct httpclient *c)
{
	size_t line;

	do {
		line = need_mark(c, "\r\n");
		if (!move(c, &c->tail, line))
			return false;
	} while (line > 2);
	return line == 2;
}

static bool
take_chunks(struct httpclient *c)
{
	size_t line, n;

	for (;;) {
		line = need_mark(c, "\r\n");
		if (line == 0)
			return false;
		n = strtoul((char *)c->in.data, NULL, 16);
		drop(c, line);
		if (n == 0)
			return take_tail(c);
		if (!move(c, &c->body, n) || !need(c, 2))
			return false;
		drop(c, 2);
	}
}

static bool
take_body(struct httpclient *c)
{
	const char *len;

	if (httpclient_has_header(c, "Transfer-Encoding: chunked"))
		return take_chunks(c);
	len = strstr((char *)c->head.data, "\r\nContent-Length: ");
	if (len)
		return move(c, &c->body, strtoul(len + 18, NULL, 10));
	while (need(c, c->in.len + 1))
		;
	return move(c, &c->body, c->in.len);
}

static void
terminate(struct kv_bytes *b)
{
	char *end = kv_bytes_reserve(b, 1);

	assert_non_null(end);
	*end = '\0';
}

int
httpclient_take(struct httpclient *c, bool has_body)
{
	size_t n;

	c->status = 0;
	c->is_whole = false;
	kv_bytes_reset(&c->head);
	kv_bytes_reset(&c->body);
	kv_bytes_reset(&c->tail);
	n = need_mark(c, "\r\n\r\n");
	if (n == 0)
		return 0;
	assert_true(move(c, &c->head, n));
	terminate(&c->head);
	assert_int_equal(strncmp((char *)c->head.data, "HTTP/1.", 7), 0);
	c->status = atoi((char *)c->head.data + 9);
	if (c->status == 100)
		return httpclient_take(c, has_body);
	c->is_whole = !has_body || take_body(c);
	terminate(&c->body);
	terminate(&c->tail);
	return c->status;
}

int
httpclient_ask(struct httpclient *c, const char *method, const char *target,
	       const char *headers)
{
	struct kv_bytes text = { 0 };

	assert_int_equal(kv_bytes_printf(&text,
					 "%s %s HTTP/1.1\r\nHost: x\r\n%s\r\n",
					 method, target, headers),
			 0);
	httpclient_send(c, text.data, text.len);
	kv_bytes_fini(&text);
	return httpclient_take(c, strcmp(method, "HEAD") != 0);
}

int
httpclient_get(struct httpclient *c, const char *target)
{
	return httpclient_ask(c, "GET", target, "");
}

int
httpclient_once(struct httpclient *c, struct kv_loop *loop, uint16_t port,
		const char *target)
{
	httpclient_open(c, loop, port);
	assert_true(c->fd >= 0);
	httpclient_get(c, target);
	close(c->fd);
	c->fd = -1;
	return c->status;
}

bool
httpclient_has_header(const struct httpclient *c, const char *line)
{
	const char *at = strstr((const char *)c->head.data, line);

	return at && at[-1] == '\n' && at[strlen(line)] == '\r';
}
