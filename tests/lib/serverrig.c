#include "serverrig.h"

#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "base/log.h"

#include "test.h"

struct serverrig sc;

char serverrig_logged[4096];

static void
on_log(void *arg, enum kv_log_level level, const char *msg)
{
	size_t n = strlen(serverrig_logged);

	(void)arg;
	(void)level;
	snprintf(serverrig_logged + n, sizeof(serverrig_logged) - n, "%s\n",
		 msg);
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

void
serverrig_answer(struct kv_timer *t)
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
	arm(serverrig_answer, 50);
}

static void
h_never(struct kv_exchange *x, void *arg)
{
	sc.waiting = x;
	kv_exchange_wait(x, on_gone, arg);
}

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
	to = kv_bytes_reserve(&b, SERVERRIG_PAGE_BYTES);
	assert_non_null(to);
	memset(to, 'a' + sc.pages % 26, SERVERRIG_PAGE_BYTES);
	b.len = SERVERRIG_PAGE_BYTES;
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

const struct kv_server_opts serverrig_defaults = {
	.host = NULL,
	.routes = routes,
	.n_routes = KV_ARRAY_LEN(routes),
	.arg = &sc,
};

void
serverrig_start(struct kv_server_opts opts)
{
	char err[256] = "";

	sc = (struct serverrig){ .pages_max = SERVERRIG_PAGES };
	serverrig_logged[0] = '\0';
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

int
serverrig_setup(void **state)
{
	(void)state;
	serverrig_start(serverrig_defaults);
	return 0;
}

int
serverrig_teardown(void **state)
{
	(void)state;
	kv_server_free(sc.s);
	kv_loop_timer_del(&sc.later);
	kv_loop_free(sc.loop);
	kv_log_set_sink(NULL, NULL);
	return 0;
}

void
serverrig_client(struct httpclient *c)
{
	httpclient_open(c, sc.loop, sc.port);
	assert_true(c->fd >= 0);
}

void
serverrig_check_body(const struct httpclient *c, const char *want)
{
	assert_true(c->is_whole);
	assert_int_equal(c->body.len, strlen(want));
	assert_memory_equal(c->body.data, want, c->body.len);
}

void
serverrig_check_serves(void)
{
	struct httpclient c;

	assert_int_equal(httpclient_once(&c, sc.loop, sc.port, "/hello"), 200);
	serverrig_check_body(&c, "hello");
	httpclient_close(&c);
}
