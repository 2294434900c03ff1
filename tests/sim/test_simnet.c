#include "simnet.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/rng.h"
#include "event/loop.h"
#include "net/stream.h"
#include "test.h"

static struct kv_clock clock_;
static struct kv_loop *loop;
static struct simnet *sn;
static struct kv_net *n1, *n2, *local; /* hosts n1, n2, n1; pids 1, 2, 3 */
static char bound[128];

/* What somebody was given, and when. */
struct got {
	struct kv_stream *s;
	struct kv_peer peer;
	int calls, status;
	uint64_t at;
	uint32_t events;
	int readies;
};

static void
begin(const struct simnet_opts *opts)
{
	clock_ = (struct kv_clock){ .is_virtual = true };
	loop = kv_loop_new(&clock_);
	assert_non_null(loop);
	sn = simnet_new(loop, &clock_, opts);
	n1 = simnet_process(sn, "n1", 1);
	n2 = simnet_process(sn, "n2", 2);
	local = simnet_process(sn, "n1", 3);
}

static int
setup(void **state)
{
	static const struct simnet_opts opts = {
		.latency_ns = 1000,
		.local_ns = 10,
		.bytes_per_ns = 0.5,
		.pipe_bytes = 10000,
	};

	(void)state;
	begin(&opts);
	return 0;
}

static int
teardown(void **state)
{
	(void)state;
	simnet_run(sn, clock_.ns + 100 * KV_NS_PER_S);
	simnet_free(sn);
	kv_loop_free(loop);
	return 0;
}

static void
on_accept(void *arg, struct kv_stream *s, const struct kv_peer *peer)
{
	struct got *g = arg;

	g->s = s;
	g->peer = *peer;
	g->at = clock_.ns;
	g->calls++;
}

static void
on_connect(void *arg, struct kv_stream *s, int status)
{
	struct got *g = arg;

	g->s = s;
	g->status = status;
	g->at = clock_.ns;
	g->calls++;
}

static struct kv_listener *
listen_at(struct kv_net *net, const char *addr, struct got *g, int want_err)
{
	int err = 0;
	struct kv_listener *l =
		net->listen(net, loop, addr, on_accept, g, bound, &err);

	assert_true((l != NULL) == (want_err == 0));
	if (!l)
		assert_int_equal(err, want_err);
	return l;
}

static struct kv_dial *
dial(struct kv_net *net, const char *addr, struct got *g)
{
	return net->connect(net, loop, addr, clock_.ns + KV_NS_PER_S,
			    on_connect, g);
}

static void
on_ready(struct kv_stream *s, uint32_t events)
{
	struct got *g = s->arg;

	g->events = events;
	g->readies++;
	g->at = clock_.ns;
	s->ops->want(s, 0);
}

static void
watch(struct got *g, uint32_t events)
{
	g->s->ready = on_ready;
	g->s->arg = g;
	g->events = 0;
	g->s->ops->want(g->s, events);
}

static ssize_t
send_bytes(struct got *g, size_t n)
{
	static char bytes[100000];
	struct iovec iov = { bytes, n };

	return g->s->ops->writev(g->s, &iov, 1);
}

static ssize_t
read_bytes(struct got *g, size_t n)
{
	static char bytes[100000];
	struct iovec iov = { bytes, n };

	return g->s->ops->readv(g->s, &iov, 1);
}

static void
end(struct got *g)
{
	if (g->s)
		g->s->ops->close(g->s);
	g->s = NULL;
}

static struct got here, there;
static struct kv_listener *listener;

static void
join(struct kv_net *from, struct kv_net *to, const char *addr)
{
	here = there = (struct got){ 0 };
	listener = listen_at(to, addr, &there, 0);
	dial(from, addr, &here);
	simnet_run(sn, clock_.ns + 10000);
	assert_non_null(here.s);
	assert_non_null(there.s);
}

static void
part(struct kv_net *to)
{
	end(&here);
	end(&there);
	to->unlisten(to, listener);
}

static void
connection_takes_its_time(void **state)
{
	(void)state;
	join(n1, n2, "tcp:n2:5000");
	assert_string_equal(bound, "tcp:n2:5000");
	assert_int_equal(there.at, 1000);
	assert_int_equal(here.at, 2000);
	assert_int_equal(here.status, 0);
	assert_false(there.peer.is_unix);
	assert_int_equal(there.peer.pid, -1);
	assert_int_equal(strncmp(there.peer.addr, "n1:", 3), 0);
	n1->peer(n1, here.s, &here.peer);
	assert_string_equal(here.peer.addr, "n2:5000");
	assert_int_equal(simnet_streams(sn), 2);
	part(n2);
	assert_int_equal(simnet_streams(sn), 0);
}

static void
unix_peer_is_a_process(void **state)
{
	(void)state;
	join(local, n1, "unix:/run/kv");
	assert_true(there.peer.is_unix);
	assert_int_equal(there.peer.pid, 3);
	assert_int_equal(there.peer.pidfd, -1);
	assert_int_equal(there.peer.uid, getuid());
	local->peer(local, here.s, &here.peer);
	assert_int_equal(here.peer.pid, 1);
	/* It is not there on another host. */
	dial(n2, "unix:/run/kv", &here);
	end(&here);
	simnet_run(sn, clock_.ns + 10000);
	assert_int_equal(here.status, -ENOENT);
	part(n1);
}

static void
addresses(void **state)
{
	struct got g = { 0 };
	struct kv_listener *a = listen_at(n1, "tcp::0", &g, 0);
	struct kv_listener *b;

	(void)state;
	assert_string_equal(bound, "tcp:n1:20000");
	listen_at(local, "tcp:0.0.0.0:20000", &g, -EADDRINUSE);
	listen_at(n1, "tcp:n2:5", &g, -EADDRNOTAVAIL);
	listen_at(n1, "tcp:n1", &g, -EINVAL);
	listen_at(n1, "tcp:n1:66000", &g, -EINVAL);
	listen_at(n1, "n1", &g, -EINVAL);
	b = listen_at(n1, "n1:5", &g, 0);
	assert_string_equal(bound, "tcp:n1:5");
	n1->unlisten(n1, b);
	b = listen_at(n2, "tcp:[::]:20000", &g, 0);
	n1->unlisten(n1, a);
	n2->unlisten(n2, b);
	a = listen_at(local, "tcp:n1:20000", &g, 0);
	local->unlisten(local, a);
}

static void
failed_dials(void **state)
{
	struct got refused = { 0 }, nobody = { 0 }, bad = { 0 }, none = { 0 };

	(void)state;
	dial(n1, "tcp:n2:5000", &refused);
	dial(n1, "tcp:n9:5000", &nobody);
	dial(n1, "nonsense", &bad);
	n1->cancel(n1, dial(n1, "tcp:n2:5000", &none));
	assert_int_equal(refused.calls + nobody.calls + bad.calls, 0);
	simnet_run(sn, 10000);
	assert_int_equal(refused.status, -ECONNREFUSED);
	assert_int_equal(refused.at, 2000);
	assert_int_equal(nobody.status, -EHOSTUNREACH);
	assert_int_equal(bad.status, -EINVAL);
	assert_int_equal(none.calls, 0);
}

static void
dial_over_a_cut_link_waits(void **state)
{
	struct got late = { 0 }, healed = { 0 };

	(void)state;
	listener = listen_at(n2, "tcp::5000", &there, 0);
	there = (struct got){ 0 };
	simnet_cut(sn, "n2", NULL);
	dial(n1, "tcp:n2:5000", &late);
	simnet_run(sn, 2 * KV_NS_PER_S);
	assert_int_equal(late.status, -ETIMEDOUT);
	assert_int_equal(late.at, KV_NS_PER_S);
	/* It was accepted there, and is gone when the link is back. */
	assert_int_equal(there.calls, 1);
	end(&there);
	n1->connect(n1, loop, "tcp:n2:5000", clock_.ns + 10 * KV_NS_PER_S,
		    on_connect, &healed);
	simnet_run(sn, clock_.ns + KV_NS_PER_S / 2);
	simnet_heal(sn, NULL, "n1");
	simnet_run(sn, clock_.ns + 2 * KV_NS_PER_S);
	assert_int_equal(healed.status, 0);
	assert_non_null(healed.s);
	end(&healed);
	part(n2);
}

static void
bytes_take_their_time(void **state)
{
	uint64_t from;

	(void)state;
	join(n1, n2, "tcp:n2:5000");
	from = clock_.ns;
	assert_int_equal(send_bytes(&here, 1000), 1000);
	assert_int_equal(read_bytes(&there, 1000), -EAGAIN);
	watch(&there, EPOLLIN);
	simnet_run(sn, from + 10000);
	assert_int_equal(there.at, from + 2000 + 1000);
	assert_int_equal(there.events, EPOLLIN);
	assert_int_equal(read_bytes(&there, 600), 600);
	watch(&there, EPOLLIN);
	simnet_run(sn, clock_.ns);
	assert_int_equal(there.readies, 2);
	assert_int_equal(read_bytes(&there, 600), 400);
	assert_int_equal(read_bytes(&there, 600), -EAGAIN);
	simnet_delay(sn, "n1", "n2", 5000);
	from = clock_.ns;
	assert_int_equal(send_bytes(&here, 1000), 1000);
	watch(&there, EPOLLIN);
	simnet_run(sn, from + 10000);
	assert_int_equal(there.at, from + 2000 + 1000 + 5000);
	part(n2);
}

static void
full_pipe_takes_no_more(void **state)
{
	(void)state;
	join(n1, n2, "tcp:n2:5000");
	watch(&here, EPOLLOUT);
	simnet_run(sn, clock_.ns);
	assert_int_equal(here.events, EPOLLOUT);
	assert_int_equal(send_bytes(&here, 20000), 10000);
	assert_int_equal(send_bytes(&here, 1), -EAGAIN);
	watch(&here, EPOLLOUT);
	simnet_run(sn, clock_.ns + KV_NS_PER_S);
	assert_int_equal(here.events, 0);
	assert_int_equal(read_bytes(&there, 100), 100);
	simnet_run(sn, clock_.ns);
	assert_int_equal(here.events, EPOLLOUT);
	assert_int_equal(send_bytes(&here, 20000), 100);
	part(n2);
}

static void
end_comes_behind_the_bytes(void **state)
{
	(void)state;
	join(n1, n2, "tcp:n2:5000");
	send_bytes(&here, 100);
	end(&here);
	simnet_run(sn, clock_.ns + 10000);
	assert_int_equal(read_bytes(&there, 200), 100);
	assert_int_equal(read_bytes(&there, 200), 0);
	/* What is sent there is answered with a reset. */
	assert_int_equal(send_bytes(&there, 10), 10);
	simnet_run(sn, clock_.ns + 10000);
	assert_int_equal(send_bytes(&there, 10), -ECONNRESET);
	part(n2);
}

static void
unread_bytes_make_the_end_a_reset(void **state)
{
	(void)state;
	join(n1, n2, "tcp:n2:5000");
	send_bytes(&there, 100);
	simnet_run(sn, clock_.ns + 10000);
	end(&here);
	watch(&there, EPOLLIN);
	simnet_run(sn, clock_.ns + 10000);
	assert_true(there.events & EPOLLERR);
	assert_int_equal(read_bytes(&there, 200), -ECONNRESET);
	part(n2);
}

static void
cut_connection_is_half_open(void **state)
{
	(void)state;
	join(n1, n2, "tcp:n2:5000");
	simnet_cut(sn, "n1", "n2");
	send_bytes(&here, 100);
	end(&here);
	watch(&there, EPOLLIN);
	simnet_run(sn, clock_.ns + 1000 * KV_NS_PER_S);
	assert_int_equal(there.readies, 0);
	simnet_heal(sn, "n1", "n2");
	simnet_run(sn, clock_.ns + 10000);
	assert_int_equal(there.readies, 1);
	assert_int_equal(read_bytes(&there, 200), 100);
	assert_int_equal(read_bytes(&there, 200), 0);
	part(n2);
}

static void
what_is_reset_does_not_arrive_any_more(void **state)
{
	(void)state;
	join(n1, n2, "tcp:n2:5000");
	send_bytes(&here, 100);
	simnet_run(sn, clock_.ns + 10000);
	simnet_cut(sn, "n1", "n2");
	send_bytes(&here, 50);
	here.s->ops->reset(here.s);
	here.s = NULL;
	simnet_heal(sn, "n1", "n2");
	simnet_run(sn, clock_.ns + 10000);
	assert_int_equal(read_bytes(&there, 200), 100);
	assert_int_equal(read_bytes(&there, 200), -ECONNRESET);
	part(n2);
}

static void
reset_ends_both(void **state)
{
	(void)state;
	join(n1, n2, "tcp:n2:5000");
	send_bytes(&here, 100);
	watch(&here, EPOLLIN);
	simnet_reset(sn, "n2", "n1");
	simnet_run(sn, clock_.ns + 10000);
	assert_true(here.events & EPOLLHUP);
	assert_int_equal(read_bytes(&here, 1), -ECONNRESET);
	assert_int_equal(read_bytes(&there, 1), -ECONNRESET);
	part(n2);
}

static void
dead_process_lets_go(void **state)
{
	struct got g = { 0 };
	struct kv_dial *waits;

	(void)state;
	join(n1, n2, "tcp:n2:5000");
	watch(&there, EPOLLIN);
	waits = dial(n2, "tcp:n1:1", &g);
	simnet_process_exit(sn, 2);
	simnet_run(sn, clock_.ns + 10 * KV_NS_PER_S);
	assert_int_equal(there.readies + g.calls, 0);
	assert_int_equal(read_bytes(&there, 1), -ECONNRESET);
	assert_int_equal(send_bytes(&there, 1), -EPIPE);
	assert_int_equal(read_bytes(&here, 1), 0);
	dial(n1, "tcp:n2:5000", &g);
	simnet_run(sn, clock_.ns + KV_NS_PER_S);
	assert_int_equal(g.status, -ECONNREFUSED);
	n2->cancel(n2, waits);
	part(n2);
}

/* A number that depends on when and how much every read brought. */
static uint64_t
trace_of(uint64_t seed)
{
	const struct simnet_opts opts = {
		.seed = seed,
		.latency_ns = 1000,
		.jitter_ns = 500,
		.chunked = true,
	};
	uint64_t sum = 0;
	ssize_t n;

	begin(&opts);
	join(n1, n2, "tcp:n2:5000");
	for (int i = 0; i < 300; i++) {
		send_bytes(&here, 1000);
		simnet_run(sn, clock_.ns + 100);
		while ((n = read_bytes(&there, 1000)) > 0)
			sum = sum * 31 + (uint64_t)n;
	}
	part(n2);
	teardown(NULL);
	return sum;
}

static void
same_seed_same_run(void **state)
{
	(void)state;
	assert_true(trace_of(1) == trace_of(1));
	assert_true(trace_of(1) != trace_of(2));
}

#define ON_NET(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		ON_NET(connection_takes_its_time),
		ON_NET(unix_peer_is_a_process),
		ON_NET(addresses),
		ON_NET(failed_dials),
		ON_NET(dial_over_a_cut_link_waits),
		ON_NET(bytes_take_their_time),
		ON_NET(full_pipe_takes_no_more),
		ON_NET(end_comes_behind_the_bytes),
		ON_NET(unread_bytes_make_the_end_a_reset),
		ON_NET(cut_connection_is_half_open),
		ON_NET(what_is_reset_does_not_arrive_any_more),
		ON_NET(reset_ends_both),
		ON_NET(dead_process_lets_go),
		cmocka_unit_test(same_seed_same_run),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
