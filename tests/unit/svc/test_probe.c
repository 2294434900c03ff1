/* What a probe of a node's port finds. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "event/loop.h"
#include "net/hello.h"
#include "net/stream.h"
#include "simnet.h"
#include "svc/probe.h"
#include "wirepeer.h"

#include "test.h"

static struct kv_clock clk;
static struct kv_loop *loop;
static struct simnet *sn;
static struct kv_net *here, *there;
static struct kv_listener *listener;
static struct wirepeer peer; /* who was reached */
static struct kv_probe probe;
static int calls, result;

static const struct kv_id us = { { 1 } }, node = { { 2 } }, other = { { 3 } };

static void
accepted(void *arg, struct kv_stream *s, const struct kv_peer *who)
{
	(void)arg;
	(void)who;
	wirepeer_close(&peer);
	wirepeer_open(&peer, loop, s);
}

static int
setup(void **state)
{
	static const struct simnet_opts net = { .seed = 1,
						.latency_ns = KV_NS_PER_MS };
	char bound[128];
	int err;

	(void)state;
	clk = (struct kv_clock){ .is_virtual = true, .ns = KV_NS_PER_S };
	loop = kv_loop_new(&clk);
	assert_non_null(loop);
	sn = simnet_new(loop, &clk, &net);
	here = simnet_process(sn, "a", 1);
	there = simnet_process(sn, "b", 2);
	listener = there->listen(there, loop, "tcp::52", accepted, NULL, bound,
				 &err);
	assert_non_null(listener);
	memset(&peer, 0, sizeof(peer));
	memset(&probe, 0, sizeof(probe));
	calls = 0;
	return 0;
}

static int
teardown(void **state)
{
	(void)state;
	kv_probe_cancel(&probe);
	wirepeer_close(&peer);
	if (listener)
		there->unlisten(there, listener);
	simnet_run(sn, clk.ns + KV_NS_PER_S);
	simnet_free(sn);
	kv_loop_free(loop);
	return 0;
}

static void
found(struct kv_probe *p, int status)
{
	assert_ptr_equal(p, &probe);
	assert_false(p->is_on);
	calls++;
	result = status;
}

static void
start(const char *addr)
{
	const struct kv_probe_opts o = {
		.loop = loop,
		.net = here,
		.addr = addr,
		.boot = us,
		.want = node,
		.deadline_ns = clk.ns + KV_NS_PER_S,
	};

	probe.fn = found;
	kv_probe_start(&probe, &o);
	assert_int_equal(calls, 0);
}

static void
run_ms(unsigned ms)
{
	simnet_run(sn, clk.ns + ms * KV_NS_PER_MS);
}

/* The other side answers HELLO. */
static void
greet(int status, struct kv_id boot)
{
	struct wireframe *f;
	struct kv_hello *h;

	run_ms(10);
	f = wirepeer_take(&peer, KV_MSG_HELLO);
	assert_non_null(f);
	h = (void *)f->body;
	assert_int_equal(h->role, KV_ROLE_PROBE);
	assert_true(kv_id_is_equal(h->want, node));
	assert_true(kv_id_is_equal(h->boot, us));
	kv_hello_answer(peer.c, f->id, status, status ? "no" : NULL, &boot, 0);
	wireframe_free(f);
	run_ms(10);
}

static void
pong(void)
{
	struct wireframe *f = wirepeer_take(&peer, KV_MSG_PING);

	assert_non_null(f);
	wirepeer_send(&peer, KV_MSG_PING_R, f->id, f->body, NULL, 0);
	wireframe_free(f);
	run_ms(10);
}

static void
is_over(int want)
{
	assert_int_equal(calls, 1);
	assert_int_equal(result, want);
	run_ms(2000);
	assert_int_equal(calls, 1);
	assert_true(!peer.c || peer.is_lost);
}

static void
a_node_that_answers(void **state)
{
	(void)state;
	start("b:52");
	greet(0, node);
	assert_int_equal(calls, 0);
	pong();
	is_over(0);
}

static void
again_and_again(void **state)
{
	int i;

	(void)state;
	for (i = 0; i < 3; i++) {
		calls = 0;
		start("b:52");
		greet(0, node);
		pong();
		is_over(0);
	}
}

static void
nobody_listens(void **state)
{
	(void)state;
	start("b:53");
	run_ms(10);
	is_over(-ECONNREFUSED);
}

static void
another_process_refuses(void **state)
{
	(void)state;
	start("b:52");
	greet(KV_EGONE, other);
	is_over(-ESTALE);
}

static void
another_process_that_does_not_look(void **state)
{
	(void)state;
	start("b:52");
	greet(0, other);
	is_over(-ESTALE);
}

static void
another_version(void **state)
{
	(void)state;
	start("b:52");
	greet(KV_EVERSION, node);
	is_over(-EPROTONOSUPPORT);
}

static void
a_node_that_hangs_after_its_hello(void **state)
{
	(void)state;
	start("b:52");
	greet(0, node);
	run_ms(1000);
	is_over(-ETIMEDOUT);
}

static void
a_port_that_says_nothing(void **state)
{
	(void)state;
	start("b:52");
	run_ms(990);
	assert_int_equal(calls, 0);
	run_ms(20);
	is_over(-ETIMEDOUT);
}

static void
a_host_that_is_gone(void **state)
{
	(void)state;
	simnet_cut(sn, "a", "b");
	start("b:52");
	run_ms(1010);
	is_over(-ETIMEDOUT);
}

static void
a_connection_that_breaks(void **state)
{
	(void)state;
	start("b:52");
	run_ms(10);
	wirepeer_close(&peer);
	run_ms(10);
	is_over(-ECONNRESET);
}

static void
a_peer_that_asks_instead(void **state)
{
	(void)state;
	start("b:52");
	run_ms(10);
	wirepeer_send(&peer, KV_MSG_PING, 1, NULL, NULL, 0);
	run_ms(10);
	is_over(-EPROTO);
}

static void
cancelled_at_any_time(void **state)
{
	unsigned ms;

	(void)state;
	for (ms = 0; ms < 8; ms++) {
		start("b:52");
		run_ms(ms);
		kv_probe_cancel(&probe);
		kv_probe_cancel(&probe);
		assert_false(probe.is_on);
		run_ms(2000);
	}
	assert_int_equal(calls, 0);
}

#define ON_NET(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		ON_NET(a_node_that_answers),
		ON_NET(again_and_again),
		ON_NET(nobody_listens),
		ON_NET(another_process_refuses),
		ON_NET(another_process_that_does_not_look),
		ON_NET(another_version),
		ON_NET(a_node_that_hangs_after_its_hello),
		ON_NET(a_port_that_says_nothing),
		ON_NET(a_host_that_is_gone),
		ON_NET(a_connection_that_breaks),
		ON_NET(a_peer_that_asks_instead),
		ON_NET(cancelled_at_any_time),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
