/*
 * Thousands of frames of every kind, both ways at once, over streams that cut
 * them anywhere, with pauses, full queues and payload in random pieces. What
 * frame k of a side contains follows from k alone: the other side checks every
 * byte, and that nothing is lost, doubled or out of order.
 */
#include "net/conn.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/num.h"
#include "base/rng.h"
#include "net/fdstream.h"
#include "simpair.h"
#include "test.h"

enum {
	FRAMES = 1500,
	SEEDS = 8,
	PIECES = 40,
};

/* What frame k of a side is. */
struct spec {
	enum kv_msg_type type;
	uint8_t flags;
	uint64_t id;
	size_t tail, payload;
	bool drop; /* the receiver does not want the payload */
	struct kv_rng bytes;
};

struct flow {
	struct kv_conn *c;
	struct kv_rng rng; /* of decisions; content has its own */
	unsigned me;
	uint64_t sent, taken;
	size_t payloads_out; /* whose `sent` is not called yet */
	uint8_t *room;       /* of the payload that is coming */
	struct kv_timer timer;
};

struct parcel {
	struct kv_conn_sent sent;
	struct flow *flow;
	uint8_t bytes[];
};

static uint64_t seed;

static struct spec
spec_of(unsigned side, uint64_t k)
{
	static const enum kv_msg_type types[] = {
		KV_MSG_PING,    KV_MSG_PING_R, KV_MSG_NOTE,   KV_MSG_GRANT_R,
		KV_MSG_STATS_R, KV_MSG_DATA,   KV_MSG_XFER_R, KV_MSG_XFER,
	};
	struct spec s = { 0 };
	size_t most;

	kv_rng_seed(&s.bytes, seed << 32 | k << 1 | side);
	s.type = types[kv_rng_below(&s.bytes, KV_ARRAY_LEN(types))];
	s.id = kv_rng_u64(&s.bytes);
	s.flags = kv_msg_is_answer(s.type) ? (uint8_t)(s.id & KV_FLAG_MORE) : 0;
	most = kv_rng_below(&s.bytes, 300) ? 1500 : KV_FRAME_BYTES_MAX;
	most = kv_min_size(most, kv_msg_tail_max(s.type));
	s.tail = kv_rng_below(&s.bytes, most + 1);
	if (kv_msg_has_payload(s.type)) {
		most = kv_rng_below(&s.bytes, 32) ? 1000 : 200000;
		s.payload = kv_rng_below(&s.bytes, most);
		s.drop = kv_rng_below(&s.bytes, 8) == 0;
	}
	return s;
}

/* Cuts n bytes into pieces, some of them empty. */
static int
cut(struct kv_rng *rng, uint8_t *p, size_t n, struct iovec *iov)
{
	int pieces = 1 + (int)kv_rng_below(rng, PIECES);

	for (int i = 0; i < pieces; i++) {
		size_t part = i + 1 < pieces ? kv_rng_below(rng, n + 1) : n;

		if (kv_rng_below(rng, 4) && i + 1 < pieces)
			part = kv_min_size(part, 100);
		iov[i] = (struct iovec){ p, part };
		p += part;
		n -= part;
	}
	return pieces;
}

static void
parcel_sent(struct kv_conn_sent *sent, int status)
{
	struct parcel *p = KV_CONTAINER_OF(sent, struct parcel, sent);

	assert_int_equal(status, 0);
	p->flow->payloads_out--;
	free(p);
}

static void
send_frame(struct flow *f)
{
	struct spec s = spec_of(f->me, f->sent++);
	size_t body = kv_msg_body_bytes(s.type), done = 0;
	struct iovec iov[PIECES];
	struct parcel *parcel;

	kv_rng_bytes(&s.bytes, kv_conn_begin(f->c, s.type, s.id, s.flags),
		     body);
	while (done < s.tail) {
		size_t part = 1 + kv_rng_below(&f->rng, s.tail - done);

		memset(kv_conn_tail(f->c, part), 0, part);
		done += part;
	}
	kv_rng_bytes(&s.bytes, (uint8_t *)kv_conn_body(f->c) + body, s.tail);
	if (s.payload == 0) {
		kv_conn_end(f->c);
		return;
	}
	parcel = malloc(sizeof(*parcel) + s.payload);
	assert_non_null(parcel);
	parcel->sent.fn = parcel_sent;
	parcel->flow = f;
	f->payloads_out++;
	kv_rng_bytes(&s.bytes, parcel->bytes, s.payload);
	kv_conn_end_payload(f->c, iov,
			    cut(&f->rng, parcel->bytes, s.payload, iov),
			    &parcel->sent);
}

static void
send_some(struct flow *f)
{
	uint64_t n = 1 + kv_rng_below(&f->rng, 100);

	while (n-- > 0 && f->sent < FRAMES && !kv_conn_is_full(f->c))
		send_frame(f);
	if (kv_rng_below(&f->rng, 2))
		kv_conn_flush(f->c);
}

static void
on_drain(struct kv_conn *c)
{
	send_some(kv_conn_arg(c));
}

/* Now and then: sends, or stops and resumes reading. */
static void
tick(struct kv_timer *t)
{
	struct flow *f = KV_CONTAINER_OF(t, struct flow, timer);
	uint64_t in_ns = 1 + kv_rng_below(&f->rng, 2 * KV_NS_PER_MS);

	if (!kv_conn_is_full(f->c))
		send_some(f);
	kv_conn_pause(f->c, kv_rng_below(&f->rng, 3) == 0);
	assert_int_equal(
		kv_loop_timer_set(kv_conn_loop(f->c), t,
				  kv_loop_now(kv_conn_loop(f->c)) + in_ns),
		0);
}

static void
check_bytes(struct spec *s, const void *got, size_t n)
{
	uint8_t *want = malloc(n + 1);

	assert_non_null(want);
	kv_rng_bytes(&s->bytes, want, n);
	assert_memory_equal(got, want, n);
	free(want);
}

static void
check_head(const struct spec *s, const struct kv_msg *msg)
{
	assert_int_equal(msg->type, s->type);
	assert_int_equal(msg->id, s->id);
	assert_int_equal(msg->flags, s->flags);
	assert_int_equal(msg->tail_len, s->tail);
	assert_int_equal(msg->payload, s->payload);
}

static int
on_payload(struct kv_conn *c, const struct kv_msg *msg, struct iovec *iov,
	   int max)
{
	struct flow *f = kv_conn_arg(c);
	struct spec s = spec_of(!f->me, f->taken);

	assert_true(max >= PIECES);
	assert_null(f->room);
	check_head(&s, msg);
	if (kv_rng_below(&f->rng, 10) == 0)
		kv_conn_pause(c, true);
	if (s.drop)
		return 0;
	f->room = malloc(s.payload);
	assert_non_null(f->room);
	return cut(&f->rng, f->room, s.payload, iov);
}

static void
on_msg(struct kv_conn *c, const struct kv_msg *msg)
{
	struct flow *f = kv_conn_arg(c);
	struct spec s = spec_of(!f->me, f->taken++);

	check_head(&s, msg);
	check_bytes(&s, msg->body, kv_msg_body_bytes(s.type));
	check_bytes(&s, msg->tail, s.tail);
	if (f->room)
		check_bytes(&s, f->room, s.payload);
	else
		assert_true(s.drop || s.payload == 0);
	free(f->room);
	f->room = NULL;
	if (kv_rng_below(&f->rng, 50) == 0)
		kv_conn_pause(c, true);
	if (kv_rng_below(&f->rng, 10) == 0 && !kv_conn_is_full(c) &&
	    f->sent < FRAMES)
		send_frame(f);
}

static void
on_close(struct kv_conn *c, int status)
{
	(void)c;
	fail_msg("seed %lu: closed: %d", seed, status);
}

static const struct kv_conn_ops ops = {
	.on_msg = on_msg,
	.on_payload = on_payload,
	.on_close = on_close,
	.on_drain = on_drain,
};

static void
begin(struct flow flows[2], struct kv_loop *loop, struct kv_stream *s[2])
{
	for (unsigned i = 0; i < 2; i++) {
		struct flow *f = &flows[i];

		*f = (struct flow){ .me = i, .timer.fn = tick };
		kv_rng_seed(&f->rng, seed * 2 + i);
		f->c = kv_conn_new(loop, s[i], &ops, f);
		assert_non_null(f->c);
		tick(&f->timer);
	}
}

static bool
is_done(const struct flow *f)
{
	return f->taken == FRAMES && f->sent == FRAMES && !f->payloads_out;
}

static void
end(struct flow flows[2])
{
	for (unsigned i = 0; i < 2; i++) {
		assert_true(is_done(&flows[i]));
		kv_loop_timer_del(&flows[i].timer);
		kv_conn_close(flows[i].c);
	}
}

static void
run(const struct simnet_opts *opts, bool is_unix)
{
	struct simpair pair;
	struct flow flows[2];

	simpair_open(&pair, opts, is_unix);
	begin(flows, pair.loop, pair.stream);
	for (int s = 0; s < 100 && !(is_done(&flows[0]) && is_done(&flows[1]));
	     s++)
		simpair_run(&pair, KV_NS_PER_S);
	end(flows);
	simpair_close(&pair);
}

static void
in_random_pieces(void **state)
{
	(void)state;
	for (seed = 1; seed <= SEEDS; seed++) {
		struct simnet_opts opts = {
			.seed = seed,
			.latency_ns = 50000,
			.jitter_ns = seed % 3 * 100000,
			.local_ns = 1000,
			.bytes_per_ns = seed % 2 ? 1.25 : 0,
			.pipe_bytes = (size_t)1 << (11 + seed),
			.chunked = true,
		};

		run(&opts, seed % 4 == 0);
	}
}

static void
in_whole_pieces(void **state)
{
	static const struct simnet_opts opts = {
		.latency_ns = 50000,
		.pipe_bytes = 1 << 20,
	};

	(void)state;
	seed = 100;
	run(&opts, false);
}

/* The same over a socket and on a loop that sleeps. */
static void
over_sockets(void **state)
{
	struct kv_loop *loop = kv_loop_new(NULL);
	struct kv_stream *s[2];
	struct flow flows[2];
	int fds[2], small = 20000;
	uint64_t until;

	(void)state;
	assert_non_null(loop);
	assert_int_equal(socketpair(AF_UNIX,
				    SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC,
				    0, fds),
			 0);
	for (int i = 0; i < 2; i++) {
		setsockopt(fds[i], SOL_SOCKET, SO_SNDBUF, &small,
			   sizeof(small));
		s[i] = kv_fdstream_new(loop, fds[i]);
		assert_non_null(s[i]);
	}
	seed = 101;
	begin(flows, loop, s);
	until = kv_loop_refresh(loop) + 60 * KV_NS_PER_S;
	while (!(is_done(&flows[0]) && is_done(&flows[1])) &&
	       kv_loop_now(loop) < until)
		assert_true(kv_loop_turn(loop, until) >= 0);
	end(flows);
	kv_loop_free(loop);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(in_random_pieces),
		cmocka_unit_test(in_whole_pieces),
		cmocka_unit_test(over_sockets),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
