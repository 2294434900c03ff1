/* The HTTP server: clients that do not behave, many of them, and its start. */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "event/loop.h"

#include "serverrig.h"
#include "test.h"

/* ---- clients that do not behave ---- */

static void
headers_without_end(void **state)
{
	struct httpclient c;

	(void)state;
	serverrig_client(&c);
	httpclient_say(&c, "GET /hello HTTP/1.1\r\nHost: x\r\n");
	for (int i = 0; i < 20000; i++)
		httpclient_say(&c, "X-Header: 0123456789012345678901234\r\n");
	httpclient_take(&c, true);
	assert_true(c.status == 431 || c.status == 413);
	httpclient_close(&c);
	serverrig_client(&c);
	httpclient_say(&c, "GET /");
	for (int i = 0; i < 20000; i++)
		httpclient_say(&c, "0123456789012345678901234567890123456789");
	httpclient_take(&c, true);
	assert_true(c.status == 414 || c.status == 0);
	httpclient_close(&c);
	serverrig_check_serves();
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
	serverrig_client(&c);
	assert_int_equal(httpclient_get(&c, target), 200);
	assert_string_equal(c.body.data, "first");
	for (i = 0; i < n; i++)
		target[i] = i == 0 ? '/' : i == 1 ? '?' : '&';
	assert_int_equal(httpclient_get(&c, target), 404);
	assert_int_equal(httpclient_get(&c, "/key?"), 400);
	httpclient_close(&c);
	free(target);
	serverrig_check_serves();
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
		serverrig_client(&c);
		httpclient_say(&c, texts[i]);
		httpclient_read(&c, 10);
		httpclient_close(&c);
	}
	/* probes of the port */
	for (int i = 0; i < 20; i++) {
		serverrig_client(&c);
		httpclient_close(&c);
	}
	serverrig_check_serves();
	assert_string_equal(serverrig_logged, "");
}

static void
one_byte_at_a_time(void **state)
{
	static const char text[] = "GET /hello HTTP/1.1\r\nHost: x\r\n\r\n";
	struct httpclient c;

	(void)state;
	serverrig_client(&c);
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
	struct kv_server_opts opts = serverrig_defaults;
	struct httpclient fresh, idle, half;

	(void)state;
	opts.idle_s = 1;
	serverrig_start(opts);
	serverrig_client(&fresh);
	serverrig_client(&half);
	httpclient_say(&half, "GET /hello HT");
	serverrig_client(&idle);
	assert_int_equal(httpclient_get(&idle, "/hello"), 200);
	assert_false(ends_within(&idle, 500));
	assert_true(ends_within(&idle, 3000));
	assert_true(ends_within(&fresh, 3000));
	assert_true(ends_within(&half, 3000));
	httpclient_close(&fresh);
	httpclient_close(&idle);
	httpclient_close(&half);
	serverrig_check_serves();
}

static void
a_trickle_ends_too(void **state)
{
	struct kv_server_opts opts = serverrig_defaults;
	struct httpclient c, waits;
	int i;

	(void)state;
	opts.request_s = 2;
	serverrig_start(opts);
	serverrig_client(&waits);
	httpclient_say(&waits, "GET /never HTTP/1.1\r\nHost: x\r\n\r\n");
	serverrig_client(&c);
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
		serverrig_client(&c[i]);
		if (i % 2)
			assert_int_equal(httpclient_get(&c[i], "/hello"), 200);
	}
	serverrig_check_serves();
	httpclient_turn(&c[0], 50);
	for (int i = 0; i < 10; i++)
		ran += kv_loop_turn(sc.loop, kv_loop_refresh(sc.loop) +
						     10 * KV_NS_PER_MS);
	assert_true(ran <= 5);
	for (size_t i = 0; i < KV_ARRAY_LEN(c); i++)
		httpclient_close(&c[i]);
	serverrig_check_serves();
}

static void
over_the_limit_the_oldest_idle_one_goes(void **state)
{
	struct kv_server_opts opts = serverrig_defaults;
	struct httpclient c[4], other;

	(void)state;
	opts.conns_max = KV_ARRAY_LEN(c);
	serverrig_start(opts);
	/* Waits for its answer; half a request; nothing; answered. */
	for (size_t i = 0; i < KV_ARRAY_LEN(c); i++)
		serverrig_client(&c[i]);
	httpclient_say(&c[0], "GET /never HTTP/1.1\r\nHost: x\r\n\r\n");
	httpclient_say(&c[1], "GET /hello HT");
	assert_int_equal(httpclient_get(&c[3], "/hello"), 200);
	assert_string_equal(serverrig_logged, "");
	serverrig_client(&other);
	assert_int_equal(httpclient_get(&other, "/hello"), 200);
	assert_non_null(
		strstr(serverrig_logged, "4 HTTP connections are open"));
	assert_true(ends_within(&c[1], 1000));
	httpclient_close(&c[1]);
	serverrig_client(&c[1]);
	assert_int_equal(httpclient_get(&c[1], "/hello"), 200);
	assert_true(ends_within(&c[2], 1000));
	httpclient_read(&c[0], 10);
	assert_false(c[0].is_eof);
	assert_int_equal(httpclient_get(&c[3], "/hello"), 200);
	for (size_t i = 0; i < KV_ARRAY_LEN(c); i++)
		httpclient_close(&c[i]);
	httpclient_close(&other);
	serverrig_check_serves();
}

/* Nobody reads the list; those that wait for an answer may. */
static void
over_the_limit_all_ask(void **state)
{
	struct kv_server_opts opts = serverrig_defaults;
	struct httpclient c[4], other;

	(void)state;
	opts.conns_max = KV_ARRAY_LEN(c);
	opts.request_s = 1;
	serverrig_start(opts);
	sc.pages_max = SERVERRIG_PAGES;
	for (size_t i = 0; i < KV_ARRAY_LEN(c); i++) {
		serverrig_client(&c[i]);
		httpclient_say(&c[i],
			       i ? "GET /never HTTP/1.1\r\nHost: x\r\n\r\n"
				 : "GET /list HTTP/1.1\r\nHost: x\r\n\r\n");
		httpclient_turn(&c[i], 10);
	}
	serverrig_client(&other);
	httpclient_say(&other, "GET /hello HTTP/1.1\r\nHost: x\r\n\r\n");
	httpclient_read(&other, 500);
	assert_int_equal(other.in.len, 0);
	assert_int_equal(httpclient_take(&other, true), 200);
	for (size_t i = 0; i < KV_ARRAY_LEN(c); i++)
		httpclient_close(&c[i]);
	httpclient_close(&other);
	serverrig_check_serves();
}

static void
descriptors_used_up(void **state)
{
	struct rlimit before, none;
	struct httpclient c;
	int fds[64], n = 0, ran = 0;

	(void)state;
	serverrig_client(&c);
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
	assert_non_null(
		strstr(serverrig_logged, "no new HTTP connections on port"));
	while (n > 0)
		close(fds[--n]);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	assert_int_equal(httpclient_take(&c, true), 200);
	assert_non_null(strstr(serverrig_logged, "again"));
	httpclient_close(&c);
}

/* ---- the serverrig_start ---- */

static void
a_port_in_use_is_named(void **state)
{
	struct kv_server_opts opts = serverrig_defaults;
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
	struct kv_server_opts opts = serverrig_defaults;
	struct httpclient c;

	(void)state;
	opts.host = "127.0.0.1";
	serverrig_start(opts);
	serverrig_check_serves();
	httpclient_open6(&c, sc.loop, sc.port);
	assert_true(c.fd < 0);
	httpclient_close(&c);
}

static void
an_address_of_another_host(void **state)
{
	struct kv_server_opts opts = serverrig_defaults;
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

#define in_scene(fn) \
	cmocka_unit_test_setup_teardown(fn, serverrig_setup, serverrig_teardown)
#define in_own_scene(fn) cmocka_unit_test_teardown(fn, serverrig_teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
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
