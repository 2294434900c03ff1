/* A server as its clients meet it: well-behaved ones, slow ones, broken ones,
 * too many of them, and those that leave too early. */
#include "http/server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/attr.h"
#include "base/bytes.h"
#include "base/log.h"
#include "event/loop.h"

#include "httpclient.h"
#include "test.h"

#define PAGES      200
#define PAGE_BYTES 50000

/* What the handlers see. */
static struct scene {
	struct kv_loop *loop;
	struct kv_server *s;
	uint16_t port;
	struct kv_exchange *waiting;
	struct kv_timer later;
	int gone;
	/* of a list under way */
	struct kv_exchange *list;
	int pages, pages_max;
	bool is_slow; /* pages come later */
	bool is_cut;
} sc;

static char logged[4096];

static void
on_log(void *arg, enum kv_log_level level, const char *msg)
{
	size_t n = strlen(logged);

	(void)arg;
	(void)level;
	snprintf(logged + n, sizeof(logged) - n, "%s\n", msg);
}

static void
answer_text(struct kv_exchange *x, const void *p, size_t n)
{
	struct kv_bytes b = { 0 };

	assert_int_equal(kv_bytes_append(&b, p, n), 0);
	kv_exchange_answer(x, 200, KV_EXCHANGE_TEXT, &b);
	assert_null(b.data);
}

static void
h_hello(struct kv_exchange *x, void *arg)
{
	assert_ptr_equal(arg, &sc);
	answer_text(x, "hello", 5);
}

static void
h_key(struct kv_exchange *x, void *arg)
{
	const struct kv_urlquery_text *key;

	(void)arg;
	key = kv_urlquery_find(kv_exchange_query(x), "key");
	if (key)
		answer_text(x, key->p, key->len);
	else
		kv_exchange_error(x, 400, -600, "no \"key\"");
}

static void
h_echo(struct kv_exchange *x, void *arg)
{
	size_t n;
	const void *p = kv_exchange_body(x, &n);

	(void)arg;
	answer_text(x, p, n);
}

static void
h_agent(struct kv_exchange *x, void *arg)
{
	const char *agent = kv_exchange_header(x, "User-Agent");

	(void)arg;
	assert_null(kv_exchange_header(x, "X-None"));
	answer_text(x, agent, strlen(agent));
}

static void
h_fail(struct kv_exchange *x, void *arg)
{
	(void)arg;
	kv_exchange_fail(x);
}

static void
on_gone(void *arg)
{
	assert_ptr_equal(arg, &sc);
	sc.gone++;
	sc.waiting = NULL;
	sc.list = NULL;
	kv_loop_timer_del(&sc.later);
}

static void
answer_waiting(struct kv_timer *t)
{
	struct kv_exchange *x = sc.waiting;

	(void)t;
	sc.waiting = NULL;
	answer_text(x, "later", 5);
}

static void
arm(void (*fn)(struct kv_timer *t), unsigned ms)
{
	sc.later.fn = fn;
	assert_int_equal(
		kv_loop_timer_set(sc.loop, &sc.later,
				  kv_loop_now(sc.loop) + ms * KV_NS_PER_MS),
		0);
}

static void
h_wait(struct kv_exchange *x, void *arg)
{
	sc.waiting = x;
	kv_exchange_wait(x, on_gone, arg);
	arm(answer_waiting, 50);
}

static void
h_never(struct kv_exchange *x, void *arg)
{
	sc.waiting = x;
	kv_exchange_wait(x, on_gone, arg);
}

/* ---- a list in pages ---- */

static void
page_write(struct kv_timer *t)
{
	struct kv_bytes b = { 0 };
	uint8_t *to;

	(void)t;
	if (sc.pages == sc.pages_max) {
		kv_exchange_end(sc.list, !sc.is_cut);
		return;
	}
	to = kv_bytes_reserve(&b, PAGE_BYTES);
	assert_non_null(to);
	memset(to, 'a' + sc.pages % 26, PAGE_BYTES);
	b.len = PAGE_BYTES;
	sc.pages++;
	kv_exchange_write(sc.list, &b);
	assert_null(b.data);
}

static void
page_more(void *arg)
{
	assert_ptr_equal(arg, &sc);
	if (sc.is_slow)
		arm(page_write, 1);
	else
		page_write(NULL);
}

static void
h_list(struct kv_exchange *x, void *arg)
{
	const struct kv_exchange_source source = { .more = page_more,
						   .gone = on_gone,
						   .arg = arg };

	sc.list = x;
	kv_exchange_stream(x, KV_EXCHANGE_TEXT, &source);
}

static void
h_removed(struct kv_exchange *x, void *arg)
{
	(void)arg;
	answer_text(x, "removed", 7);
}

static const struct kv_exchange_route routes[] = {
	{ "GET", "/hello", h_hello },    { "GET", "/key", h_key },
	{ "POST", "/echo", h_echo },     { "GET", "/agent", h_agent },
	{ "GET", "/fail", h_fail },      { "GET", "/wait", h_wait },
	{ "GET", "/never", h_never },    { "GET", "/list", h_list },
	{ "POST", "/hello", h_removed },
};

static const struct kv_server_opts defaults = {
	.host = NULL,
	.routes = routes,
	.n_routes = KV_ARRAY_LEN(routes),
	.arg = &sc,
};

static void
start(struct kv_server_opts opts)
{
	char err[256] = "";

	sc = (struct scene){ .pages_max = PAGES };
	logged[0] = '\0';
	sc.loop = kv_loop_new(NULL);
	assert_non_null(sc.loop);
	opts.loop = sc.loop;
	sc.s = kv_server_new(&opts, err, sizeof(err));
	if (!sc.s)
		fail_msg("%s", err);
	sc.port = kv_server_port(sc.s);
	assert_true(sc.port > 0);
	kv_log_set_level(KV_LOG_INFO);
	kv_log_set_sink(on_log, NULL);
}

static int
setup(void **state)
{
	(void)state;
	start(defaults);
	return 0;
}

static int
teardown(void **state)
{
	(void)state;
	kv_server_free(sc.s);
	kv_loop_timer_del(&sc.later);
	kv_loop_free(sc.loop);
	kv_log_set_sink(NULL, NULL);
	return 0;
}

static void
open_client(struct httpclient *c)
{
	httpclient_open(c, sc.loop, sc.port);
	assert_true(c->fd >= 0);
}

static void
check_body(const struct httpclient *c, const char *want)
{
	assert_true(c->is_whole);
	assert_int_equal(c->body.len, strlen(want));
	assert_memory_equal(c->body.data, want, c->body.len);
}

/* The server is well: a new client is served. */
static void
check_serves(void)
{
	struct httpclient c;

	assert_int_equal(httpclient_once(&c, sc.loop, sc.port, "/hello"), 200);
	check_body(&c, "hello");
	httpclient_close(&c);
}

/* ---- answers ---- */

static void
requests_are_answered(void **state)
{
	struct httpclient c;

	(void)state;
	open_client(&c);
	assert_int_equal(httpclient_get(&c, "/hello"), 200);
	check_body(&c, "hello");
	assert_true(httpclient_has_header(
		&c, "Content-Type: text/plain; charset=utf-8"));
	assert_true(
		httpclient_has_header(&c, "X-Content-Type-Options: nosniff"));
	assert_int_equal(httpclient_get(&c, "http://x/hello?a=b"), 200);
	assert_int_equal(
		httpclient_ask(&c, "GET", "/agent", "User-Agent: me\r\n"), 200);
	check_body(&c, "me");
	assert_int_equal(httpclient_ask(&c, "HEAD", "/hello", ""), 200);
	assert_true(httpclient_has_header(&c, "Content-Length: 5"));
	assert_int_equal(
		httpclient_ask(&c, "POST", "/hello", "Content-Length: 0\r\n"),
		200);
	check_body(&c, "removed");
	httpclient_close(&c);
}

static void
both_address_families(void **state)
{
	struct httpclient c;

	(void)state;
	httpclient_open6(&c, sc.loop, sc.port);
	if (c.fd < 0)
		skip();
	assert_int_equal(httpclient_get(&c, "/hello"), 200);
	httpclient_close(&c);
	check_serves();
}

static void
errors_are_json(void **state)
{
	struct httpclient c;

	(void)state;
	open_client(&c);
	assert_int_equal(httpclient_get(&c, "/none"), 404);
	check_body(&c, "{\"success\":false,\"error_code\":-600,"
		       "\"error_message\":\"there is nothing at this path\"}");
	assert_true(httpclient_has_header(
		&c, "Content-Type: application/json; charset=utf-8"));
	assert_int_equal(httpclient_get(&c, "/hello/"), 404);
	assert_int_equal(httpclient_get(&c, "/key"), 400);
	check_body(&c, "{\"success\":false,\"error_code\":-600,"
		       "\"error_message\":\"no \\u0022key\\u0022\"}");
	assert_int_equal(httpclient_get(&c, "/key?key=%4"), 400);
	assert_int_equal(httpclient_ask(&c, "DELETE", "/hello", ""), 405);
	assert_true(httpclient_has_header(&c, "Allow: GET, HEAD, POST"));
	assert_int_equal(httpclient_ask(&c, "OPTIONS", "/key", ""), 405);
	assert_true(httpclient_has_header(&c, "Allow: GET, HEAD"));
	assert_int_equal(httpclient_ask(&c, "BREW", "/none", ""), 404);
	httpclient_close(&c);
}

static void
keys_are_bytes(void **state)
{
	static const char want[] = "a/b%2F c+d\n\0\xff#&=?";
	struct httpclient c;

	(void)state;
	open_client(&c);
	assert_int_equal(httpclient_get(&c, "/key?key=a%2fb%252F+c%2bd%0A%00"
					    "%ff%23%26%3D%3f"),
			 200);
	assert_int_equal(c.body.len, sizeof(want) - 1);
	assert_memory_equal(c.body.data, want, sizeof(want) - 1);
	assert_int_equal(httpclient_get(&c, "/key?key=\xff#x"), 200);
	check_body(&c, "\xff#x");
	httpclient_close(&c);
}

static void
a_long_target_fits(void **state)
{
	struct kv_bytes target = { 0 };
	struct httpclient c;

	(void)state;
	assert_int_equal(kv_bytes_printf(&target, "/key?key="), 0);
	for (int i = 0; i < 30000; i++)
		assert_int_equal(kv_bytes_printf(&target, "%%41"), 0);
	open_client(&c);
	assert_int_equal(httpclient_get(&c, (char *)target.data), 200);
	assert_int_equal(c.body.len, 30000);
	httpclient_close(&c);
	kv_bytes_fini(&target);
}

static void
pipelined_requests_come_back_in_order(void **state)
{
	struct httpclient c;

	(void)state;
	open_client(&c);
	for (int i = 0; i < 3; i++)
		httpclient_say(&c, "GET /wait HTTP/1.1\r\nHost: x\r\n\r\n"
				   "GET /hello HTTP/1.1\r\nHost: x\r\n\r\n");
	for (int i = 0; i < 3; i++) {
		assert_int_equal(httpclient_take(&c, true), 200);
		check_body(&c, "later");
		assert_int_equal(httpclient_take(&c, true), 200);
		check_body(&c, "hello");
	}
	httpclient_close(&c);
}

static void
a_web_page_may_not_change_anything(void **state)
{
	struct httpclient c;

	(void)state;
	open_client(&c);
	assert_int_equal(httpclient_ask(&c, "POST", "/hello",
					"Origin: http://evil\r\n"
					"Content-Length: 0\r\n"),
			 403);
	httpclient_close(&c);
	open_client(&c);
	assert_int_equal(
		httpclient_ask(&c, "GET", "/hello", "Origin: http://evil\r\n"),
		200);
	httpclient_close(&c);
}

static void
a_failure_closes_the_connection(void **state)
{
	struct httpclient c;

	(void)state;
	open_client(&c);
	assert_int_equal(httpclient_get(&c, "/fail"), 0);
	assert_true(c.is_eof);
	httpclient_close(&c);
	check_serves();
}

/* ---- answers that come later ---- */

static void
others_go_on_while_one_waits(void **state)
{
	struct httpclient c;

	(void)state;
	open_client(&c);
	httpclient_say(&c, "GET /never HTTP/1.1\r\nHost: x\r\n\r\n");
	httpclient_turn(&c, 20);
	assert_non_null(sc.waiting);
	check_serves();
	answer_waiting(NULL);
	assert_int_equal(httpclient_take(&c, true), 200);
	check_body(&c, "later");
	assert_int_equal(httpclient_get(&c, "/hello"), 200);
	httpclient_close(&c);
	assert_int_equal(sc.gone, 0);
}

static void
waiting_costs_nothing(void **state)
{
	struct httpclient c;
	int ran = 0;

	(void)state;
	open_client(&c);
	httpclient_say(&c, "GET /never HTTP/1.1\r\nHost: x\r\n\r\n");
	httpclient_turn(&c, 20);
	for (int i = 0; i < 10; i++)
		ran += kv_loop_turn(sc.loop, kv_loop_refresh(sc.loop) +
						     10 * KV_NS_PER_MS);
	assert_true(ran <= 5);
	httpclient_close(&c);
}

static void
the_client_leaves_before_the_answer(void **state)
{
	struct httpclient c;

	(void)state;
	open_client(&c);
	httpclient_say(&c, "GET /wait HTTP/1.1\r\nHost: x\r\n\r\n");
	httpclient_turn(&c, 10);
	assert_non_null(sc.waiting);
	httpclient_close(&c);
	httpclient_turn(&c, 100);
	assert_null(sc.waiting);
	assert_int_equal(sc.gone, 0);
	check_serves();
}

static void
the_server_ends_before_the_answer(void **state)
{
	struct httpclient c, list;

	(void)state;
	sc.is_slow = true;
	open_client(&list);
	httpclient_say(&list, "GET /list HTTP/1.1\r\nHost: x\r\n\r\n");
	open_client(&c);
	httpclient_say(&c, "GET /never HTTP/1.1\r\nHost: x\r\n\r\n");
	httpclient_turn(&c, 20);
	assert_non_null(sc.waiting);
	assert_non_null(sc.list);
	kv_server_free(sc.s);
	sc.s = NULL;
	assert_int_equal(sc.gone, 2);
	assert_int_equal(httpclient_take(&c, true), 0);
	assert_true(c.is_eof);
	assert_int_equal(httpclient_take(&list, true), 200);
	assert_false(list.is_whole);
	httpclient_close(&c);
	httpclient_close(&list);
}

/* ---- bodies ---- */

static void
post(struct httpclient *c, const char *header, const void *p, size_t n)
{
	char head[256];

	snprintf(head, sizeof(head),
		 "POST /echo HTTP/1.1\r\nHost: x\r\n%s\r\n\r\n", header);
	httpclient_say(c, head);
	httpclient_send(c, p, n);
}

static void
bodies_up_to_the_limit(void **state)
{
	static char body[KV_EXCHANGE_BODY_BYTES_MAX + 1];
	struct httpclient c;

	(void)state;
	memset(body, 'x', sizeof(body));
	open_client(&c);
	post(&c, "Content-Length: 1048576", body, sizeof(body) - 1);
	assert_int_equal(httpclient_take(&c, true), 200);
	assert_int_equal(c.body.len, sizeof(body) - 1);
	assert_memory_equal(c.body.data, body, c.body.len);
	post(&c, "Content-Length: 0", "", 0);
	assert_int_equal(httpclient_take(&c, true), 200);
	check_body(&c, "");
	post(&c, "Content-Length: 1048577", body, 0);
	assert_int_equal(httpclient_take(&c, true), 413);
	httpclient_close(&c);
	check_serves();
}

static void
bodies_in_chunks(void **state)
{
	static char chunk[4096];
	struct httpclient c;

	(void)state;
	memset(chunk, 'x', sizeof(chunk));
	open_client(&c);
	post(&c, "Transfer-Encoding: chunked", "3\r\nabc\r\n2\r\nde\r\n", 15);
	httpclient_say(&c, "0\r\n\r\n");
	assert_int_equal(httpclient_take(&c, true), 200);
	check_body(&c, "abcde");
	post(&c, "Transfer-Encoding: chunked", "", 0);
	for (int i = 0; i < 257; i++) {
		httpclient_say(&c, "1000\r\n");
		httpclient_send(&c, chunk, sizeof(chunk));
		httpclient_say(&c, "\r\n");
	}
	httpclient_say(&c, "0\r\n\r\n");
	assert_int_equal(httpclient_take(&c, true), 413);
	httpclient_close(&c);
	check_serves();
}

/* ---- long answers ---- */

static void
check_list(struct httpclient *c)
{
	assert_int_equal(c->status, 200);
	assert_true(c->is_whole);
	assert_int_equal(c->body.len, (size_t)PAGES * PAGE_BYTES);
	for (size_t i = 0; i < PAGES; i++)
		for (size_t j = 0; j < PAGE_BYTES; j += 1237)
			assert_int_equal(c->body.data[i * PAGE_BYTES + j],
					 'a' + i % 26);
	assert_int_equal(sc.gone, 0);
}

static void
a_list_comes_page_by_page(void **state)
{
	struct httpclient c;

	(void)state;
	open_client(&c);
	httpclient_get(&c, "/list");
	check_list(&c);
	sc.pages = 0;
	sc.is_slow = true;
	httpclient_get(&c, "/list");
	check_list(&c);
	assert_int_equal(httpclient_get(&c, "/hello"), 200);
	httpclient_close(&c);
}

static void
an_empty_list(void **state)
{
	struct httpclient c;

	(void)state;
	sc.pages_max = 0;
	open_client(&c);
	assert_int_equal(httpclient_get(&c, "/list"), 200);
	check_body(&c, "");
	assert_int_equal(httpclient_ask(&c, "HEAD", "/list", ""), 200);
	httpclient_read(&c, 100);
	assert_int_equal(c.in.len, 0);
	assert_true(c.is_eof);
	httpclient_close(&c);
	check_serves();
}

static void
a_list_without_its_end_is_seen(void **state)
{
	struct httpclient c;

	(void)state;
	sc.is_cut = true;
	sc.pages_max = 3;
	open_client(&c);
	assert_int_equal(httpclient_get(&c, "/list"), 200);
	assert_false(c.is_whole);
	assert_true(c.is_eof);
	httpclient_close(&c);
	check_serves();
}

static void
a_list_waits_for_its_reader(void **state)
{
	struct httpclient c;
	int pages;

	(void)state;
	sc.pages_max = 100000;
	open_client(&c);
	httpclient_say(&c, "GET /list HTTP/1.1\r\nHost: x\r\n\r\n");
	httpclient_turn(&c, 300);
	pages = sc.pages;
	httpclient_turn(&c, 100);
	assert_int_equal(sc.pages, pages);
	assert_true(pages < 1000);
	httpclient_close(&c);
	httpclient_turn(&c, 100);
	assert_int_equal(sc.gone, 1);
	check_serves();
}

static void
the_client_leaves_in_the_middle(void **state)
{
	struct httpclient c;

	(void)state;
	sc.is_slow = true;
	sc.pages_max = 100000;
	open_client(&c);
	httpclient_say(&c, "GET /list HTTP/1.1\r\nHost: x\r\n\r\n");
	httpclient_read(&c, 100);
	assert_true(sc.pages > 0);
	httpclient_close(&c);
	httpclient_turn(&c, 200);
	assert_int_equal(sc.gone, 1);
	check_serves();
}

/* ---- clients that do not behave ---- */

static void
headers_without_end(void **state)
{
	struct httpclient c;

	(void)state;
	open_client(&c);
	httpclient_say(&c, "GET /hello HTTP/1.1\r\nHost: x\r\n");
	for (int i = 0; i < 20000; i++)
		httpclient_say(&c, "X-Header: 0123456789012345678901234\r\n");
	httpclient_take(&c, true);
	assert_true(c.status == 431 || c.status == 413);
	httpclient_close(&c);
	open_client(&c);
	httpclient_say(&c, "GET /");
	for (int i = 0; i < 20000; i++)
		httpclient_say(&c, "0123456789012345678901234567890123456789");
	httpclient_take(&c, true);
	assert_true(c.status == 414 || c.status == 0);
	httpclient_close(&c);
	check_serves();
}

/* libmicrohttpd would run out of memory for them, and say nothing. */
static void
many_arguments(void **state)
{
	enum {
		ARGS = 20000
	};
	char *target = calloc(ARGS + 1, 8);
	struct httpclient c;
	size_t i, n;

	(void)state;
	n = (size_t)sprintf(target, "/key?key=first");
	for (i = 0; i < ARGS; i++)
		n += (size_t)sprintf(target + n, "&key=k");
	open_client(&c);
	assert_int_equal(httpclient_get(&c, target), 200);
	assert_string_equal(c.body.data, "first");
	for (i = 0; i < n; i++)
		target[i] = i == 0 ? '/' : i == 1 ? '?' : '&';
	assert_int_equal(httpclient_get(&c, target), 404);
	assert_int_equal(httpclient_get(&c, "/key?"), 400);
	httpclient_close(&c);
	free(target);
	check_serves();
}

static void
what_is_no_http(void **state)
{
	static const char *const texts[] = {
		"\r\n\r\n\r\n",
		"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 tls\r\n\r\n",
		"GET\r\n\r\n",
		"GET /hello\r\n\r\n",
		"GET /hello HTTP/9.9\r\n\r\n",
		"GET /hello HTTP/1.1\r\n\r\n",
		"KVP1 binary\n\n",
		"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
		"POST /echo HTTP/1.1\r\nHost: x\r\n"
		"Content-Length: 99999999999999999999\r\n\r\n",
		"POST /echo HTTP/1.1\r\nHost: x\r\n"
		"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
	};
	struct httpclient c;

	(void)state;
	for (size_t i = 0; i < KV_ARRAY_LEN(texts); i++) {
		open_client(&c);
		httpclient_say(&c, texts[i]);
		httpclient_read(&c, 10);
		httpclient_close(&c);
	}
	/* probes of the port */
	for (int i = 0; i < 20; i++) {
		open_client(&c);
		httpclient_close(&c);
	}
	check_serves();
	assert_string_equal(logged, "");
}

static void
one_byte_at_a_time(void **state)
{
	static const char text[] = "GET /hello HTTP/1.1\r\nHost: x\r\n\r\n";
	struct httpclient c;

	(void)state;
	open_client(&c);
	for (size_t i = 0; i < sizeof(text) - 1; i++) {
		httpclient_send(&c, text + i, 1);
		httpclient_turn(&c, 1);
	}
	assert_int_equal(httpclient_take(&c, true), 200);
	httpclient_close(&c);
}

static bool
ends_within(struct httpclient *c, unsigned ms)
{
	uint64_t end = kv_loop_refresh(sc.loop) + ms * KV_NS_PER_MS;

	while (!c->is_eof && kv_loop_refresh(sc.loop) < end)
		httpclient_read(c, 20);
	return c->is_eof;
}

static void
silence_ends_a_connection(void **state)
{
	struct kv_server_opts opts = defaults;
	struct httpclient fresh, idle, half;

	(void)state;
	opts.idle_s = 1;
	start(opts);
	open_client(&fresh);
	open_client(&half);
	httpclient_say(&half, "GET /hello HT");
	open_client(&idle);
	assert_int_equal(httpclient_get(&idle, "/hello"), 200);
	assert_false(ends_within(&idle, 500));
	assert_true(ends_within(&idle, 3000));
	assert_true(ends_within(&fresh, 3000));
	assert_true(ends_within(&half, 3000));
	httpclient_close(&fresh);
	httpclient_close(&idle);
	httpclient_close(&half);
	check_serves();
}

static void
a_trickle_ends_too(void **state)
{
	struct kv_server_opts opts = defaults;
	struct httpclient c, waits;
	int i;

	(void)state;
	opts.request_s = 2;
	start(opts);
	open_client(&waits);
	httpclient_say(&waits, "GET /never HTTP/1.1\r\nHost: x\r\n\r\n");
	open_client(&c);
	httpclient_say(&c, "GET /hello HTTP/1.1\r\nX: ");
	for (i = 0; i < 50 && !c.is_eof; i++) {
		httpclient_send(&c, "x", 1);
		httpclient_read(&c, 100);
	}
	assert_true(c.is_eof);
	assert_true(i >= 15);
	httpclient_close(&c);
	/* Its request is there: it may wait. */
	httpclient_read(&waits, 10);
	assert_false(waits.is_eof);
	httpclient_close(&waits);
}

/* ---- many ---- */

static void
idle_connections_cost_nothing(void **state)
{
	struct httpclient c[200];
	int ran = 0;

	(void)state;
	for (size_t i = 0; i < KV_ARRAY_LEN(c); i++) {
		open_client(&c[i]);
		if (i % 2)
			assert_int_equal(httpclient_get(&c[i], "/hello"), 200);
	}
	check_serves();
	httpclient_turn(&c[0], 50);
	for (int i = 0; i < 10; i++)
		ran += kv_loop_turn(sc.loop, kv_loop_refresh(sc.loop) +
						     10 * KV_NS_PER_MS);
	assert_true(ran <= 5);
	for (size_t i = 0; i < KV_ARRAY_LEN(c); i++)
		httpclient_close(&c[i]);
	check_serves();
}

static void
over_the_limit_the_oldest_idle_one_goes(void **state)
{
	struct kv_server_opts opts = defaults;
	struct httpclient c[4], other;

	(void)state;
	opts.conns_max = KV_ARRAY_LEN(c);
	start(opts);
	/* Waits for its answer; half a request; nothing; answered. */
	for (size_t i = 0; i < KV_ARRAY_LEN(c); i++)
		open_client(&c[i]);
	httpclient_say(&c[0], "GET /never HTTP/1.1\r\nHost: x\r\n\r\n");
	httpclient_say(&c[1], "GET /hello HT");
	assert_int_equal(httpclient_get(&c[3], "/hello"), 200);
	assert_string_equal(logged, "");
	open_client(&other);
	assert_int_equal(httpclient_get(&other, "/hello"), 200);
	assert_non_null(strstr(logged, "4 HTTP connections are open"));
	assert_true(ends_within(&c[1], 1000));
	httpclient_close(&c[1]);
	open_client(&c[1]);
	assert_int_equal(httpclient_get(&c[1], "/hello"), 200);
	assert_true(ends_within(&c[2], 1000));
	httpclient_read(&c[0], 10);
	assert_false(c[0].is_eof);
	assert_int_equal(httpclient_get(&c[3], "/hello"), 200);
	for (size_t i = 0; i < KV_ARRAY_LEN(c); i++)
		httpclient_close(&c[i]);
	httpclient_close(&other);
	check_serves();
}

/* Nobody reads the list; those that wait for an answer may. */
static void
over_the_limit_all_ask(void **state)
{
	struct kv_server_opts opts = defaults;
	struct httpclient c[4], other;

	(void)state;
	opts.conns_max = KV_ARRAY_LEN(c);
	opts.request_s = 1;
	start(opts);
	sc.pages_max = PAGES;
	for (size_t i = 0; i < KV_ARRAY_LEN(c); i++) {
		open_client(&c[i]);
		httpclient_say(&c[i],
			       i ? "GET /never HTTP/1.1\r\nHost: x\r\n\r\n"
				 : "GET /list HTTP/1.1\r\nHost: x\r\n\r\n");
		httpclient_turn(&c[i], 10);
	}
	open_client(&other);
	httpclient_say(&other, "GET /hello HTTP/1.1\r\nHost: x\r\n\r\n");
	httpclient_read(&other, 500);
	assert_int_equal(other.in.len, 0);
	assert_int_equal(httpclient_take(&other, true), 200);
	for (size_t i = 0; i < KV_ARRAY_LEN(c); i++)
		httpclient_close(&c[i]);
	httpclient_close(&other);
	check_serves();
}

static void
descriptors_used_up(void **state)
{
	struct rlimit before, none;
	struct httpclient c;
	int fds[64], n = 0, ran = 0;

	(void)state;
	open_client(&c);
	httpclient_say(&c, "GET /hello HTTP/1.1\r\nHost: x\r\n\r\n");
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	none = before;
	none.rlim_cur = 64;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	while (n < (int)KV_ARRAY_LEN(fds) && (fds[n] = dup(0)) >= 0)
		n++;
	for (int i = 0; i < 10; i++)
		ran += kv_loop_turn(sc.loop, kv_loop_refresh(sc.loop) +
						     10 * KV_NS_PER_MS);
	assert_true(ran > 0 && ran <= 10);
	assert_non_null(strstr(logged, "no new HTTP connections on port"));
	while (n > 0)
		close(fds[--n]);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	assert_int_equal(httpclient_take(&c, true), 200);
	assert_non_null(strstr(logged, "again"));
	httpclient_close(&c);
}

/* ---- the start ---- */

static void
a_port_in_use_is_named(void **state)
{
	struct kv_server_opts opts = defaults;
	char err[256] = "", want[64];

	(void)state;
	opts.loop = sc.loop;
	opts.port = sc.port;
	errno = 0;
	assert_null(kv_server_new(&opts, err, sizeof(err)));
	assert_int_equal(errno, EADDRINUSE);
	snprintf(want, sizeof(want), "HTTP port %u is in use already", sc.port);
	assert_string_equal(err, want);
}

static void
one_address_only(void **state)
{
	struct kv_server_opts opts = defaults;
	struct httpclient c;

	(void)state;
	opts.host = "127.0.0.1";
	start(opts);
	check_serves();
	httpclient_open6(&c, sc.loop, sc.port);
	assert_true(c.fd < 0);
	httpclient_close(&c);
}

static void
an_address_of_another_host(void **state)
{
	struct kv_server_opts opts = defaults;
	char err[256] = "";

	(void)state;
	opts.loop = sc.loop;
	opts.host = "192.0.2.1";
	assert_null(kv_server_new(&opts, err, sizeof(err)));
	assert_string_equal(err, "cannot listen for HTTP on 192.0.2.1, port 0: "
				 "Cannot assign requested address");
	opts.host = "no.such.host.invalid";
	assert_null(kv_server_new(&opts, err, sizeof(err)));
	assert_non_null(strstr(err, "cannot look up no.such.host.invalid"));
}

#define in_scene(fn)     cmocka_unit_test_setup_teardown(fn, setup, teardown)
#define in_own_scene(fn) cmocka_unit_test_teardown(fn, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		in_scene(requests_are_answered),
		in_scene(both_address_families),
		in_scene(errors_are_json),
		in_scene(keys_are_bytes),
		in_scene(a_long_target_fits),
		in_scene(pipelined_requests_come_back_in_order),
		in_scene(a_web_page_may_not_change_anything),
		in_scene(a_failure_closes_the_connection),
		in_scene(others_go_on_while_one_waits),
		in_scene(waiting_costs_nothing),
		in_scene(the_client_leaves_before_the_answer),
		in_scene(the_server_ends_before_the_answer),
		in_scene(bodies_up_to_the_limit),
		in_scene(bodies_in_chunks),
		in_scene(a_list_comes_page_by_page),
		in_scene(an_empty_list),
		in_scene(a_list_without_its_end_is_seen),
		in_scene(a_list_waits_for_its_reader),
		in_scene(the_client_leaves_in_the_middle),
		in_scene(headers_without_end),
		in_scene(many_arguments),
		in_scene(what_is_no_http),
		in_scene(one_byte_at_a_time),
		in_own_scene(silence_ends_a_connection),
		in_own_scene(a_trickle_ends_too),
		in_scene(idle_connections_cost_nothing),
		in_own_scene(over_the_limit_the_oldest_idle_one_goes),
		in_own_scene(over_the_limit_all_ask),
		in_scene(descriptors_used_up),
		in_scene(a_port_in_use_is_named),
		in_own_scene(one_address_only),
		in_scene(an_address_of_another_host),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
