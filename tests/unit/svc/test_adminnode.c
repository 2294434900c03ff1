/* The HTTP side of a node. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/attr.h"
#include "base/log.h"
#include "event/loop.h"
#include "net/sock.h"
#include "svc/admin.h"
#include "svc/node.h"

#include "httpclient.h"
#include "test.h"

#define POOL_BYTES (1 << 20)

static struct kv_loop *loop;
static struct kv_net *net;
static struct kv_node *node;
static struct kv_admin *admin;
static struct httpclient c;
static void *pool;

static void
start(const char *master)
{
	struct kv_node_opts no = {
		.pool_bytes = POOL_BYTES,
		.pool_fd = -1,
		.pool_fd_ro = -1,
		.listen = { "tcp:127.0.0.1:0" },
		.name = "n",
		.masters = { master },
	};
	struct kv_admin_opts ao = { .host = "127.0.0.1" };
	char err[256] = "";

	kv_log_set_level(KV_LOG_ERR);
	loop = kv_loop_new(NULL);
	net = kv_sock_net_new();
	pool = aligned_alloc(4096, POOL_BYTES);
	assert_true(loop && net && pool);
	no.loop = loop;
	no.net = net;
	no.pool = pool;
	node = kv_node_new(&no, err, sizeof(err));
	assert_string_equal(err, "");
	assert_int_equal(kv_node_ready(node, 0, POOL_BYTES / 2), 0);
	ao.loop = loop;
	ao.node = node;
	admin = kv_admin_new(&ao, err, sizeof(err));
	assert_string_equal(err, "");
	httpclient_open(&c, loop, kv_admin_port(admin));
	assert_true(c.fd >= 0);
}

static int
setup(void **state)
{
	(void)state;
	start(NULL);
	return 0;
}

static void
stopped(void *arg)
{
	*(bool *)arg = true;
}

static int
teardown(void **state)
{
	bool is_stopped = false;

	(void)state;
	kv_node_stop(node, stopped, &is_stopped);
	while (!is_stopped)
		httpclient_turn(&c, 1);
	httpclient_close(&c);
	kv_admin_free(admin);
	kv_node_free(node);
	kv_sock_net_free(net);
	kv_loop_free(loop);
	free(pool);
	return 0;
}

static void
check_has(const char *want)
{
	if (!strstr((char *)c.body.data, want))
		fail_msg("no %s in %s", want, (char *)c.body.data);
}

static void
health(void **state)
{
	(void)state;
	assert_int_equal(httpclient_get(&c, "/health"), 200);
	assert_string_equal(
		(char *)c.body.data,
		"{\"status\":\"healthy\",\"code\":0,\"masters\":0}");
	kv_admin_drain(admin);
	assert_int_equal(httpclient_get(&c, "/health"), 503);
	assert_string_equal(
		(char *)c.body.data,
		"{\"status\":\"unhealthy\",\"code\":1,\"masters\":0}");
	assert_int_equal(httpclient_get(&c, "/metrics"), 200);
}

static void
health_without_a_master(void **state)
{
	(void)state;
	start("tcp:127.0.0.1:1");
	assert_int_equal(httpclient_get(&c, "/health"), 200);
	assert_string_equal(
		(char *)c.body.data,
		"{\"status\":\"degraded\",\"code\":2,\"masters\":0}");
}

static void
metrics(void **state)
{
	(void)state;
	assert_int_equal(httpclient_get(&c, "/metrics"), 200);
	assert_true(httpclient_has_header(
		&c, "Content-Type: text/plain; version=0.0.4; charset=utf-8"));
	check_has("kvpool_build_info{version=\"");
	check_has("# HELP kvpool_node_puts_total keys that requesters asked "
		  "to store\n"
		  "# TYPE kvpool_node_puts_total counter\n"
		  "kvpool_node_puts_total 0\n");
	check_has("# TYPE kvpool_node_pool_bytes gauge\n"
		  "kvpool_node_pool_bytes 1048576\n");
	check_has("kvpool_node_ready_bytes 524288\n");
	check_has("# TYPE kvpool_node_evicted_bytes_total counter\n");
}

static void
summary(void **state)
{
	(void)state;
	assert_int_equal(httpclient_get(&c, "/metrics/summary"), 200);
	assert_string_equal((char *)c.body.data,
			    "Mem Storage: 0 B / 1.0 MiB | Keys: 0 "
			    "(soft-pinned: 0) | Pinned: 0 B | Evicted: 0 | "
			    "Masters: 0\n");
}

static void
what_a_master_has(void **state)
{
	(void)state;
	assert_int_equal(httpclient_get(&c, "/get_all_keys"), 404);
	assert_int_equal(httpclient_ask(&c, "POST", "/health", ""), 405);
}

#define in_scene(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		in_scene(health),
		cmocka_unit_test_teardown(health_without_a_master, teardown),
		in_scene(metrics),
		in_scene(summary),
		in_scene(what_a_master_has),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
