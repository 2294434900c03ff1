/* A server that is short of memory at one point: what it was doing then fails,
 * and it goes on. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#include "base/attr.h"
#include "base/bytes.h"
#include "base/log.h"
#include "event/loop.h"
#include "http/server.h"

#include "nth_fault.h"

/* Exit codes of the body. */
enum {
	ALL_WELL,
	FAILED_ONCE,
	BROKEN,
};

static struct kv_loop *loop;
static struct kv_exchange *list;

static void
h_error(struct kv_exchange *x, void *arg)
{
	(void)arg;
	kv_exchange_error(x, 404, -704, "no such key");
}

static void
h_echo(struct kv_exchange *x, void *arg)
{
	struct kv_bytes b = { 0 };
	size_t n;
	const void *p = kv_exchange_body(x, &n);

	(void)arg;
	if (kv_bytes_append(&b, p, n))
		kv_exchange_fail(x);
	else
		kv_exchange_answer(x, 200, KV_EXCHANGE_TEXT, &b);
}

static void
more(void *arg)
{
	struct kv_bytes b = { 0 };
	int *pages = arg;

	if ((*pages)++ == 3)
		kv_exchange_end(list, true);
	else if (kv_bytes_append(&b, "page", 4))
		kv_exchange_end(list, false);
	else
		kv_exchange_write(list, &b);
}

static void
gone(void *arg)
{
	(void)arg;
}

static void
h_list(struct kv_exchange *x, void *arg)
{
	static int pages;
	const struct kv_exchange_source source = { .more = more,
						   .gone = gone,
						   .arg = &pages };

	(void)arg;
	pages = 0;
	list = x;
	kv_exchange_stream(x, KV_EXCHANGE_TEXT, &source);
}

static const struct kv_exchange_route routes[] = {
	{ "GET", "/error", h_error },
	{ "POST", "/echo", h_echo },
	{ "GET", "/list", h_list },
};

static int
connect_to(uint16_t port)
{
	struct sockaddr_in a = { .sin_family = AF_INET,
				 .sin_port = htons(port) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (fd >= 0 && connect(fd, (struct sockaddr *)&a, sizeof(a)) == 0)
		return fd;
	return -1;
}

/* Whether the answer, up to the end of the connection, has `want`. Nothing
 * here passes a fault point. */
static bool
ask(uint16_t port, const char *request, const char *want)
{
	static char got[65536];
	kv_auto_close int fd = connect_to(port);
	uint64_t end = kv_loop_refresh(loop) + 10 * KV_NS_PER_S;
	size_t n = 0;
	ssize_t rc = -1;

	if (fd < 0 || send(fd, request, strlen(request), MSG_NOSIGNAL) < 0)
		return false;
	while (rc != 0 && kv_loop_refresh(loop) < end) {
		kv_loop_turn(loop, kv_loop_now(loop) + KV_NS_PER_MS);
		rc = recv(fd, got + n, sizeof(got) - 1 - n, MSG_DONTWAIT);
		if (rc < 0 && errno != EAGAIN)
			return false;
		if (rc > 0)
			n += (size_t)rc;
	}
	got[n] = '\0';
	return strstr(got, want) != NULL;
}

#define HEAD " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"

static const char *const requests[][2] = {
	{ "GET /error?a=b" HEAD "\r\n", "no such key" },
	{ "GET /none" HEAD "\r\n", "404 Not Found" },
	{ "PUT /echo" HEAD "\r\n", "Allow: POST" },
	{ "POST /echo" HEAD "Content-Length: 3\r\n\r\nabc", "\r\n\r\nabc" },
	{ "GET /list" HEAD "\r\n", "page\r\n0\r\n\r\n" },
};

static int
serve_all(uint16_t port)
{
	int failed = 0;

	for (size_t i = 0; i < KV_ARRAY_LEN(requests); i++)
		failed += !ask(port, requests[i][0], requests[i][1]);
	if (failed > 1)
		return BROKEN;
	return failed ? FAILED_ONCE : ALL_WELL;
}

static int
use_server(void)
{
	struct kv_server_opts opts = { .routes = routes,
				       .n_routes = KV_ARRAY_LEN(routes) };
	struct kv_server *s;
	char err[256] = "";
	int result;

	kv_log_set_level(KV_LOG_ERR);
	loop = kv_loop_new(NULL);
	if (!loop)
		return FAILED_ONCE;
	opts.loop = loop;
	s = kv_server_new(&opts, err, sizeof(err));
	if (!s) {
		result = errno == ENOMEM && err[0] ? FAILED_ONCE : BROKEN;
		kv_loop_free(loop);
		return result;
	}
	result = serve_all(kv_server_port(s));
	if (result == FAILED_ONCE && serve_all(kv_server_port(s)) != ALL_WELL)
		result = BROKEN;
	kv_server_free(s);
	kv_loop_free(loop);
	return result;
}

static void
a_shortage_fails_one_thing(void **state)
{
	int failed = 0, rc;

	(void)state;
	for (unsigned n = 1; n <= 60; n++) {
		rc = nth_fault_run(n, use_server);
		if (rc == BROKEN)
			fail_msg("after fault %u", n);
		failed += rc == FAILED_ONCE;
	}
	assert_in_range(failed, 10, 50);
	assert_int_equal(nth_fault_run(1000, use_server), ALL_WELL);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		nth_fault_test(a_shortage_fails_one_thing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
