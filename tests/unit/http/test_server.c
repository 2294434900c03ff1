/* The HTTP server: answers at once, later, in pages; bodies. */

#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "event/loop.h"

#include "serverrig.h"
#include "test.h"

/* ---- answers ---- */

static void
requests_are_answered(void **state)
{
	struct httpclient c;

	(void)state;
	serverrig_client(&c);
	assert_int_equal(httpclient_get(&c, "/hello"), 200);
	serverrig_check_body(&c, "hello");
	assert_true(httpclient_has_header(
		&c, "Content-Type: text/plain; charset=utf-8"));
	assert_true(
		httpclient_has_header(&c, "X-Content-Type-Options: nosniff"));
	assert_int_equal(httpclient_get(&c, "http://x/hello?a=b"), 200);
	assert_int_equal(
		httpclient_ask(&c, "GET", "/agent", "User-Agent: me\r\n"), 200);
	serverrig_check_body(&c, "me");
	assert_int_equal(httpclient_ask(&c, "HEAD", "/hello", ""), 200);
	assert_true(httpclient_has_header(&c, "Content-Length: 5"));
	assert_int_equal(
		httpclient_ask(&c, "POST", "/hello", "Content-Length: 0\r\n"),
		200);
	serverrig_check_body(&c, "removed");
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
	serverrig_check_serves();
}

static void
errors_are_json(void **state)
{
	struct httpclient c;

	(void)state;
	serverrig_client(&c);
	assert_int_equal(httpclient_get(&c, "/none"), 404);
	serverrig_check_body(
		&c, "{\"success\":false,\"error_code\":-600,"
		    "\"error_message\":\"there is nothing at this path\"}");
	assert_true(httpclient_has_header(
		&c, "Content-Type: application/json; charset=utf-8"));
	assert_int_equal(httpclient_get(&c, "/hello/"), 404);
	assert_int_equal(httpclient_get(&c, "/key"), 400);
	serverrig_check_body(&c, "{\"success\":false,\"error_code\":-600,"
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
	serverrig_client(&c);
	assert_int_equal(httpclient_get(&c, "/key?key=a%2fb%252F+c%2bd%0A%00"
					    "%ff%23%26%3D%3f"),
			 200);
	assert_int_equal(c.body.len, sizeof(want) - 1);
	assert_memory_equal(c.body.data, want, sizeof(want) - 1);
	assert_int_equal(httpclient_get(&c, "/key?key=\xff#x"), 200);
	serverrig_check_body(&c, "\xff#x");
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
	serverrig_client(&c);
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
	serverrig_client(&c);
	for (int i = 0; i < 3; i++)
		httpclient_say(&c, "GET /wait HTTP/1.1\r\nHost: x\r\n\r\n"
				   "GET /hello HTTP/1.1\r\nHost: x\r\n\r\n");
	for (int i = 0; i < 3; i++) {
		assert_int_equal(httpclient_take(&c, true), 200);
		serverrig_check_body(&c, "later");
		assert_int_equal(httpclient_take(&c, true), 200);
		serverrig_check_body(&c, "hello");
	}
	httpclient_close(&c);
}

static void
a_web_page_may_not_change_anything(void **state)
{
	struct httpclient c;

	(void)state;
	serverrig_client(&c);
	assert_int_equal(httpclient_ask(&c, "POST", "/hello",
					"Origin: http://evil\r\n"
					"Content-Length: 0\r\n"),
			 403);
	httpclient_close(&c);
	serverrig_client(&c);
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
	serverrig_client(&c);
	assert_int_equal(httpclient_get(&c, "/fail"), 0);
	assert_true(c.is_eof);
	httpclient_close(&c);
	serverrig_check_serves();
}

/* ---- answers that come later ---- */

static void
others_go_on_while_one_waits(void **state)
{
	struct httpclient c;

	(void)state;
	serverrig_client(&c);
	httpclient_say(&c, "GET /never HTTP/1.1\r\nHost: x\r\n\r\n");
	httpclient_turn(&c, 20);
	assert_non_null(sc.waiting);
	serverrig_check_serves();
	serverrig_answer(NULL);
	assert_int_equal(httpclient_take(&c, true), 200);
	serverrig_check_body(&c, "later");
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
	serverrig_client(&c);
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
	serverrig_client(&c);
	httpclient_say(&c, "GET /wait HTTP/1.1\r\nHost: x\r\n\r\n");
	httpclient_turn(&c, 10);
	assert_non_null(sc.waiting);
	httpclient_close(&c);
	httpclient_turn(&c, 100);
	assert_null(sc.waiting);
	assert_int_equal(sc.gone, 0);
	serverrig_check_serves();
}

static void
the_server_ends_before_the_answer(void **state)
{
	struct httpclient c, list;

	(void)state;
	sc.is_slow = true;
	serverrig_client(&list);
	httpclient_say(&list, "GET /list HTTP/1.1\r\nHost: x\r\n\r\n");
	serverrig_client(&c);
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
	serverrig_client(&c);
	post(&c, "Content-Length: 1048576", body, sizeof(body) - 1);
	assert_int_equal(httpclient_take(&c, true), 200);
	assert_int_equal(c.body.len, sizeof(body) - 1);
	assert_memory_equal(c.body.data, body, c.body.len);
	post(&c, "Content-Length: 0", "", 0);
	assert_int_equal(httpclient_take(&c, true), 200);
	serverrig_check_body(&c, "");
	post(&c, "Content-Length: 1048577", body, 0);
	assert_int_equal(httpclient_take(&c, true), 413);
	httpclient_close(&c);
	serverrig_check_serves();
}

static void
bodies_in_chunks(void **state)
{
	static char chunk[4096];
	struct httpclient c;

	(void)state;
	memset(chunk, 'x', sizeof(chunk));
	serverrig_client(&c);
	post(&c, "Transfer-Encoding: chunked", "3\r\nabc\r\n2\r\nde\r\n", 15);
	httpclient_say(&c, "0\r\n\r\n");
	assert_int_equal(httpclient_take(&c, true), 200);
	serverrig_check_body(&c, "abcde");
	post(&c, "Transfer-Encoding: chunked", "", 0);
	for (int i = 0; i < 257; i++) {
		httpclient_say(&c, "1000\r\n");
		httpclient_send(&c, chunk, sizeof(chunk));
		httpclient_say(&c, "\r\n");
	}
	httpclient_say(&c, "0\r\n\r\n");
	assert_int_equal(httpclient_take(&c, true), 413);
	httpclient_close(&c);
	serverrig_check_serves();
}

/* ---- long answers ---- */

static void
check_list(struct httpclient *c)
{
	assert_int_equal(c->status, 200);
	assert_true(c->is_whole);
	assert_int_equal(c->body.len,
			 (size_t)SERVERRIG_PAGES * SERVERRIG_PAGE_BYTES);
	for (size_t i = 0; i < SERVERRIG_PAGES; i++)
		for (size_t j = 0; j < SERVERRIG_PAGE_BYTES; j += 1237)
			assert_int_equal(
				c->body.data[i * SERVERRIG_PAGE_BYTES + j],
				'a' + i % 26);
	assert_int_equal(sc.gone, 0);
}

static void
a_list_comes_page_by_page(void **state)
{
	struct httpclient c;

	(void)state;
	serverrig_client(&c);
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
	serverrig_client(&c);
	assert_int_equal(httpclient_get(&c, "/list"), 200);
	serverrig_check_body(&c, "");
	assert_int_equal(httpclient_ask(&c, "HEAD", "/list", ""), 200);
	httpclient_read(&c, 100);
	assert_int_equal(c.in.len, 0);
	assert_true(c.is_eof);
	httpclient_close(&c);
	serverrig_check_serves();
}

static void
a_list_without_its_end_is_seen(void **state)
{
	struct httpclient c;

	(void)state;
	sc.is_cut = true;
	sc.pages_max = 3;
	serverrig_client(&c);
	assert_int_equal(httpclient_get(&c, "/list"), 200);
	assert_false(c.is_whole);
	assert_true(c.is_eof);
	httpclient_close(&c);
	serverrig_check_serves();
}

static void
a_list_waits_for_its_reader(void **state)
{
	struct httpclient c;
	int pages;

	(void)state;
	sc.pages_max = 100000;
	serverrig_client(&c);
	httpclient_say(&c, "GET /list HTTP/1.1\r\nHost: x\r\n\r\n");
	httpclient_turn(&c, 300);
	pages = sc.pages;
	httpclient_turn(&c, 100);
	assert_int_equal(sc.pages, pages);
	assert_true(pages < 1000);
	httpclient_close(&c);
	httpclient_turn(&c, 100);
	assert_int_equal(sc.gone, 1);
	serverrig_check_serves();
}

static void
the_client_leaves_in_the_middle(void **state)
{
	struct httpclient c;

	(void)state;
	sc.is_slow = true;
	sc.pages_max = 100000;
	serverrig_client(&c);
	httpclient_say(&c, "GET /list HTTP/1.1\r\nHost: x\r\n\r\n");
	httpclient_read(&c, 100);
	assert_true(sc.pages > 0);
	httpclient_close(&c);
	httpclient_turn(&c, 200);
	assert_int_equal(sc.gone, 1);
	serverrig_check_serves();
}

#define in_scene(fn) \
	cmocka_unit_test_setup_teardown(fn, serverrig_setup, serverrig_teardown)

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
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
