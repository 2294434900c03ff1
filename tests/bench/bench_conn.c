/*
 * Cost of frames: parsing them, sending small ones in batches and in turn, and
 * bulk as payload, over a socket pair in one thread; beside the floor, which is
 * the same bytes through the same socket with plain calls.
 */
#include <assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/num.h"
#include "event/loop.h"
#include "net/conn.h"
#include "net/fdstream.h"

enum {
	PARSES = 5000000,
	BATCH = 500,
	BATCHES = 2000,
	TURNS = 100000,
	BULK_BYTES = 1 << 20,
	BULKS = 4000,
	PING_BYTES = KV_HEADER_BYTES + sizeof(struct kv_ping),
};

static struct kv_loop *loop;
static struct kv_conn *a, *b;
static int fds[2];
static size_t got;
static bool echoes;
static uint8_t from[BULK_BYTES], to[BULK_BYTES];

static double
now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec * 1e9 + (double)ts.tv_nsec;
}

static void
report(const char *name, double ns, double floor_ns)
{
	printf("%-24s %10.1f ns", name, ns);
	if (floor_ns > 0)
		printf(" %10.1f ns %6.2f", floor_ns, ns / floor_ns);
	printf("\n");
}

static void
ping(struct kv_conn *c)
{
	void *body = kv_conn_begin(c, KV_MSG_PING, 1, 0);

	assert(body);
	kv_conn_end(c);
}

static void
on_msg(struct kv_conn *c, const struct kv_msg *msg)
{
	(void)msg;
	got++;
	if (echoes)
		ping(c);
}

static int
on_payload(struct kv_conn *c, const struct kv_msg *msg, struct iovec *iov,
	   int max)
{
	(void)c;
	(void)max;
	iov[0] = (struct iovec){ to, msg->payload };
	return 1;
}

static void
on_close(struct kv_conn *c, int status)
{
	(void)c;
	(void)status;
	abort();
}

static const struct kv_conn_ops ops = {
	.on_msg = on_msg,
	.on_payload = on_payload,
	.on_close = on_close,
};

static void
open_pair(bool with_conns)
{
	int bytes = 4 << 20;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0,
		       fds) < 0)
		abort();
	for (int i = 0; i < 2; i++)
		setsockopt(fds[i], SOL_SOCKET, SO_SNDBUF, &bytes,
			   sizeof(bytes));
	got = 0;
	if (!with_conns)
		return;
	loop = kv_loop_new(NULL);
	assert(loop);
	a = kv_conn_new(loop, kv_fdstream_new(loop, fds[0]), &ops, NULL);
	b = kv_conn_new(loop, kv_fdstream_new(loop, fds[1]), &ops, NULL);
	assert(a && b);
}

static void
close_pair(bool with_conns)
{
	if (!with_conns) {
		close(fds[0]);
		close(fds[1]);
		return;
	}
	kv_conn_close(a);
	kv_conn_close(b);
	kv_loop_free(loop);
}

static void
wait_for(size_t n)
{
	while (got < n)
		if (kv_loop_turn(loop, UINT64_MAX) < 0)
			abort();
}

/* n bytes through the plain socket, at most `step` a call. */
static void
move_plain(size_t n, size_t step)
{
	size_t out = 0, in = 0;

	while (in < n) {
		size_t part = kv_min_size(step, n - out);
		ssize_t rc = part > 0 ? write(fds[0], from, part) : 0;

		if (rc > 0)
			out += (size_t)rc;
		rc = read(fds[1], to, kv_min_size(sizeof(to), n - in));
		if (rc > 0)
			in += (size_t)rc;
	}
}

static void
bench_parse(void)
{
	struct kv_msg msg;
	size_t body = 100 - KV_HEADER_BYTES;
	double start;
	long n = 0;

	kv_msg_seal(to, KV_MSG_STATS_R, 0, 1, body, 0);
	start = now_ns();
	for (int i = 0; i < PARSES; i++)
		n += kv_msg_parse(to, 100, &msg, NULL);
	assert(n == 100L * PARSES);
	report("parse, 100 bytes", (now_ns() - start) / PARSES, 0);
}

static void
bench_batches(void)
{
	double ns, start;

	open_pair(true);
	start = now_ns();
	for (size_t i = 1; i <= BATCHES; i++) {
		for (int k = 0; k < BATCH; k++)
			ping(a);
		wait_for(i * BATCH);
	}
	ns = now_ns() - start;
	close_pair(true);
	open_pair(false);
	start = now_ns();
	for (size_t i = 1; i <= BATCHES; i++)
		move_plain((size_t)BATCH * PING_BYTES, sizeof(from));
	report("frame, in batches", ns / (BATCHES * BATCH),
	       (now_ns() - start) / (BATCHES * BATCH));
	close_pair(false);
}

static void
bench_turns(void)
{
	double ns, start;

	open_pair(true);
	echoes = true;
	start = now_ns();
	ping(a);
	wait_for((size_t)2 * TURNS);
	echoes = false;
	ns = now_ns() - start;
	close_pair(true);
	open_pair(false);
	start = now_ns();
	for (size_t i = 0; i < (size_t)2 * TURNS; i++)
		move_plain(PING_BYTES, PING_BYTES);
	report("frame, in turn", ns / (2 * TURNS),
	       (now_ns() - start) / (2 * TURNS));
	close_pair(false);
}

static void
bench_bulk(void)
{
	struct iovec iov = { from, sizeof(from) };
	double ns, start;

	open_pair(true);
	start = now_ns();
	for (size_t i = 1; i <= BULKS; i++) {
		struct kv_data *d = kv_conn_begin(a, KV_MSG_DATA, i, 0);

		assert(d);
		kv_conn_end_payload(a, &iov, 1, NULL);
		wait_for(i - i % 4);
	}
	wait_for(BULKS);
	ns = now_ns() - start;
	close_pair(true);
	open_pair(false);
	start = now_ns();
	move_plain((size_t)BULKS * BULK_BYTES, BULK_BYTES);
	report("payload, 1 MiB", ns / BULKS, (now_ns() - start) / BULKS);
	close_pair(false);
}

int
main(void)
{
	memset(from, 1, sizeof(from));
	memset(to, 1, sizeof(to));
	printf("%-24s %13s %13s %6s\n", "", "each", "floor", "ratio");
	bench_parse();
	bench_batches();
	bench_turns();
	bench_bulk();
	return 0;
}
