#include "svc/mover.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/rng.h"
#include "net/fdstream.h"
#include "wirepeer.h"

#include "test.h"

enum {
	POOL = 8 << 20,
	CONNS = 4,
};

/* A value on its way, as the node would hold it. */
struct value {
	struct kv_move move;
	struct kv_extent ext[3];
	int done;
	int done_at; /* order of all that was called back */
};

struct client {
	struct wirepeer peer;
	struct kv_dataconn *dc;
	int closed;
	int closed_at;
};

static struct kv_loop *loop;
static struct kv_mover *mover;
static uint8_t *pool;
static int order;
static const struct kv_id boot = { { 7 } };

static void
dataconn_closed(void *owner, struct kv_dataconn *dc)
{
	struct client *c = owner;

	assert_ptr_equal(c->dc, dc);
	c->closed++;
	c->closed_at = ++order;
	c->dc = NULL;
}

static void
value_done(struct kv_move *m)
{
	struct value *v = KV_CONTAINER_OF(m, struct value, move);

	v->done++;
	v->done_at = ++order;
}

static void
setup(unsigned workers)
{
	struct kv_mover_opts opts = {
		.workers = workers,
		.closed = dataconn_closed,
	};
	struct kv_rng rng;

	order = 0;
	pool = malloc(POOL);
	assert_non_null(pool);
	kv_rng_seed(&rng, 1);
	kv_rng_bytes(&rng, pool, POOL);
	loop = kv_loop_new(NULL);
	assert_non_null(loop);
	opts.loop = loop;
	opts.pool = pool;
	mover = kv_mover_new(&opts);
	assert_non_null(mover);
}

static int
setup_home(void **state)
{
	(void)state;
	setup(0);
	return 0;
}

static int
setup_threads(void **state)
{
	(void)state;
	setup(2);
	return 0;
}

static int
teardown(void **state)
{
	(void)state;
	kv_mover_free(mover);
	kv_loop_free(loop);
	free(pool);
	return 0;
}

static void
turn(const char *what)
{
	static uint64_t end;
	uint64_t now = kv_loop_refresh(loop);

	if (!what) {
		end = now + 10 * KV_NS_PER_S;
		return;
	}
	if (now > end)
		fail_msg("waited in vain for %s", what);
	assert_true(kv_loop_turn(loop, now + KV_NS_PER_MS) >= 0);
}

#define WAIT(condition)                   \
	do {                              \
		turn(NULL);               \
		while (!(condition))      \
			turn(#condition); \
	} while (0)

static void
rest_ms(unsigned ms)
{
	uint64_t end = kv_loop_refresh(loop) + ms * KV_NS_PER_MS;

	turn(NULL);
	while (kv_loop_refresh(loop) < end)
		turn("time");
}

static void
client_open(struct client *c, uint64_t token)
{
	int fds[2], type = SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC;
	const struct kv_hello_r *r;
	struct kv_stream *s, *t;
	struct wireframe *f;

	memset(c, 0, sizeof(*c));
	assert_int_equal(socketpair(AF_UNIX, type, 0, fds), 0);
	s = kv_fdstream_new(loop, fds[0]);
	t = kv_fdstream_new(loop, fds[1]);
	assert_non_null(s);
	assert_non_null(t);
	wirepeer_open(&c->peer, loop, s);
	c->dc = kv_mover_adopt(mover, t, &boot, 77, token, c);
	assert_non_null(c->dc);
	assert_int_equal(kv_mover_token(c->dc), token);
	WAIT(wirepeer_count(&c->peer, KV_MSG_HELLO_R));
	f = wirepeer_take(&c->peer, KV_MSG_HELLO_R);
	r = (void *)f->body;
	assert_int_equal(f->id, 77);
	assert_int_equal(r->status, 0);
	assert_int_equal(kv_get64(r->token), token);
	assert_true(kv_id_is_equal(r->boot, boot));
	wireframe_free(f);
}

static void
client_close(struct client *c)
{
	wirepeer_close(&c->peer);
	if (c->dc)
		WAIT(c->closed);
}

/* Three pieces of the pool, out of order, `at` apart from others. */
static void
value_init(struct value *v, uint64_t at, uint64_t a, uint64_t b, uint64_t c)
{
	memset(v, 0, sizeof(*v));
	v->ext[0] = (struct kv_extent){ at + 512 * 1024, a };
	v->ext[1] = (struct kv_extent){ at, b };
	v->ext[2] = (struct kv_extent){ at + 256 * 1024, c };
	v->move.ext = v->ext;
	v->move.n_ext = c ? 3 : b ? 2 : 1;
	v->move.bytes = a + b + c;
	v->move.done = value_done;
}

static void
value_gather(const struct value *v, uint8_t *out)
{
	for (unsigned i = 0; i < v->move.n_ext; i++) {
		memcpy(out, pool + v->ext[i].off, v->ext[i].len);
		out += v->ext[i].len;
	}
}

static uint8_t *
random_bytes(size_t n)
{
	static uint64_t seed;
	uint8_t *p = malloc(n);
	struct kv_rng rng;

	assert_non_null(p);
	kv_rng_seed(&rng, ++seed);
	kv_rng_bytes(&rng, p, n);
	return p;
}

static void
expect(struct client *c, struct value *v, uint64_t grant)
{
	v->move.ref = grant;
	assert_int_equal(kv_mover_expect(c->dc, &v->move), 0);
}

static void
a_value_comes_in_pieces(void **state)
{
	uint8_t *bytes = random_bytes(100000), *got = malloc(100000);
	struct kv_stats_set sum = { 0 };
	struct client c;
	struct value v;

	(void)state;
	client_open(&c, 5);
	value_init(&v, 0, 30000, 50000, 20000);
	/* Sent at once: the bytes may be there before the worker reads its
	 * mail. */
	expect(&c, &v, 11);
	wirepeer_send_data(&c.peer, 11, 0, bytes, 1);
	wirepeer_send_data(&c.peer, 11, 1, bytes + 1, 79999);
	rest_ms(20);
	assert_int_equal(v.done, 0);
	wirepeer_send_data(&c.peer, 11, 80000, bytes + 80000, 20000);
	WAIT(v.done);
	assert_int_equal(v.move.status, 0);
	value_gather(&v, got);
	assert_memory_equal(got, bytes, 100000);
	kv_mover_stats(mover, &sum);
	assert_int_equal(sum.v[KV_STAT_DATA_RX_BYTES], 100000);
	assert_int_equal(sum.v[KV_STAT_DATA_CONNS], 1);
	client_close(&c);
	assert_int_equal(c.closed, 1);
	assert_int_equal(v.done, 1);
	free(bytes);
	free(got);
}

/* Pushed frames of a GET, put together. */
static void
collect(struct client *c, uint64_t ref, uint32_t index, uint8_t *out,
	size_t len)
{
	struct wireframe *f;
	size_t got = 0;

	while (got < len) {
		const struct kv_data *d;

		WAIT(wirepeer_count(&c->peer, KV_MSG_DATA));
		f = wirepeer_take(&c->peer, KV_MSG_DATA);
		d = (void *)f->body;
		assert_int_equal(kv_get64(d->ref), ref);
		assert_int_equal(kv_get32(d->index), index);
		assert_int_equal(kv_get64(d->off), got);
		assert_true(got + f->payload_len <= len);
		memcpy(out + got, f->payload, f->payload_len);
		got += f->payload_len;
		wireframe_free(f);
	}
}

static void
a_value_goes_out(void **state)
{
	uint8_t *want = malloc(100000), *got = malloc(100000);
	struct client c;
	struct value v;

	(void)state;
	client_open(&c, 5);
	value_init(&v, 0, 30000, 50000, 20000);
	value_gather(&v, want);
	v.move.ref = 3;
	v.move.index = 9;
	assert_int_equal(kv_mover_push(c.dc, &v.move), 0);
	collect(&c, 3, 9, got, 100000);
	WAIT(v.done);
	assert_int_equal(v.move.status, 0);
	assert_memory_equal(got, want, 100000);
	/* A part of it. */
	v.move.skip = 29999;
	v.move.bytes = 50002;
	assert_int_equal(kv_mover_push(c.dc, &v.move), 0);
	collect(&c, 3, 9, got, 50002);
	WAIT(v.done == 2);
	assert_memory_equal(got, want + 29999, 50002);
	client_close(&c);
	free(want);
	free(got);
}

static void
bytes_for_an_unknown_grant_are_dropped(void **state)
{
	uint8_t *bytes = random_bytes(70000);
	struct kv_stats_set sum = { 0 };
	struct client c;
	struct value v;

	(void)state;
	client_open(&c, 5);
	wirepeer_send_data(&c.peer, 99, 0, bytes, 70000);
	value_init(&v, 0, 1000, 0, 0);
	expect(&c, &v, 12);
	wirepeer_send_data(&c.peer, 12, 0, bytes, 1000);
	WAIT(v.done);
	assert_int_equal(v.move.status, 0);
	assert_memory_equal(pool + v.ext[0].off, bytes, 1000);
	assert_false(c.peer.is_lost);
	kv_mover_stats(mover, &sum);
	assert_int_equal(sum.v[KV_STAT_DATA_DROPPED_BYTES], 70000);
	client_close(&c);
	free(bytes);
}

/* The frame breaks the protocol: its connection ends, with all its moves. */
static void
breaks(struct client *c, struct value *v)
{
	WAIT(c->closed);
	assert_int_equal(v->done, 1);
	assert_int_equal(v->move.status, -ECONNRESET);
	assert_true(v->done_at < c->closed_at);
	WAIT(c->peer.is_lost);
	client_close(c);
}

static void
a_gap_ends_the_connection(void **state)
{
	uint8_t *bytes = random_bytes(1000);
	struct client c;
	struct value v;

	(void)state;
	client_open(&c, 5);
	value_init(&v, 0, 1000, 0, 0);
	expect(&c, &v, 1);
	wirepeer_send_data(&c.peer, 1, 1, bytes, 999);
	breaks(&c, &v);
	free(bytes);
}

static void
bytes_twice_end_the_connection(void **state)
{
	uint8_t *bytes = random_bytes(1000);
	struct client c;
	struct value v;

	(void)state;
	client_open(&c, 5);
	value_init(&v, 0, 1000, 0, 0);
	expect(&c, &v, 1);
	wirepeer_send_data(&c.peer, 1, 0, bytes, 500);
	wirepeer_send_data(&c.peer, 1, 0, bytes, 500);
	breaks(&c, &v);
	free(bytes);
}

static void
too_many_bytes_end_the_connection(void **state)
{
	uint8_t *bytes = random_bytes(1001);
	struct client c;
	struct value v;

	(void)state;
	client_open(&c, 5);
	value_init(&v, 0, 1000, 0, 0);
	expect(&c, &v, 1);
	wirepeer_send_data(&c.peer, 1, 0, bytes, 1001);
	breaks(&c, &v);
	free(bytes);
}

static void
another_message_ends_the_connection(void **state)
{
	struct client c;
	struct value v;

	(void)state;
	client_open(&c, 5);
	value_init(&v, 0, 1000, 0, 0);
	expect(&c, &v, 1);
	wirepeer_send(&c.peer, KV_MSG_PING, 1, NULL, NULL, 0);
	breaks(&c, &v);
}

static void
the_grant_of_another_connection_is_not_filled(void **state)
{
	uint8_t *bytes = random_bytes(1000);
	struct client a, b;
	struct value v;

	(void)state;
	client_open(&a, 5);
	client_open(&b, 6);
	value_init(&v, 0, 1000, 0, 0);
	expect(&a, &v, 1);
	wirepeer_send_data(&b.peer, 1, 0, bytes, 1000);
	/* On one worker it is known for a wrong one, on two for none. */
	rest_ms(50);
	assert_int_equal(v.done, 0);
	assert_memory_not_equal(pool + v.ext[0].off, bytes, 1000);
	client_close(&b);
	wirepeer_send_data(&a.peer, 1, 0, bytes, 1000);
	WAIT(v.done);
	assert_int_equal(v.move.status, 0);
	client_close(&a);
	free(bytes);
}

static void
a_lost_peer_gives_everything_back(void **state)
{
	uint8_t *bytes = random_bytes(1000);
	struct value in, out[8];
	struct client c;

	(void)state;
	client_open(&c, 5);
	c.peer.stops_reading = true;
	value_init(&in, 0, 1000, 0, 0);
	expect(&c, &in, 1);
	wirepeer_send_data(&c.peer, 1, 0, bytes, 600);
	for (int i = 0; i < 8; i++) {
		value_init(&out[i], 0, 100000, 256 * 1024, 100000);
		out[i].move.ref = 2;
		assert_int_equal(kv_mover_push(c.dc, &out[i].move), 0);
	}
	rest_ms(20);
	wirepeer_close(&c.peer);
	WAIT(c.closed);
	assert_int_equal(in.done, 1);
	assert_int_equal(in.move.status, -ECONNRESET);
	for (int i = 0; i < 8; i++) {
		assert_int_equal(out[i].done, 1);
		assert_true(out[i].done_at < c.closed_at);
	}
	assert_int_equal(out[7].move.status, -ECONNRESET);
	free(bytes);
}

static void
a_cancelled_grant_costs_no_connection(void **state)
{
	uint8_t *bytes = random_bytes(1000), before[1000];
	struct client c;
	struct value v, w;

	(void)state;
	client_open(&c, 5);
	value_init(&v, 0, 1000, 0, 0);
	value_init(&w, 1 << 20, 1000, 0, 0);
	expect(&c, &v, 1);
	expect(&c, &w, 2);
	memcpy(before, pool + v.ext[0].off, 1000);
	kv_mover_cancel(&v.move);
	kv_mover_cancel(&v.move);
	WAIT(v.done);
	assert_int_equal(v.move.status, -ECANCELED);
	wirepeer_send_data(&c.peer, 1, 0, bytes, 1000);
	wirepeer_send_data(&c.peer, 2, 0, bytes, 1000);
	WAIT(w.done);
	assert_int_equal(w.move.status, 0);
	assert_memory_equal(pool + v.ext[0].off, before, 1000);
	assert_int_equal(v.done, 1);
	assert_false(c.peer.is_lost);
	client_close(&c);
	free(bytes);
}

/* Half a frame: only its header and some bytes, by hand. */
static void
a_grant_cancelled_within_its_frame_costs_the_connection(void **state)
{
	struct {
		struct kv_header h;
		struct kv_data d;
		uint8_t bytes[100];
	} half = { 0 };
	struct kv_stream *t;
	struct client c = { 0 };
	struct value v;
	char r[4096];
	int fds[2];

	(void)state;
	assert_int_equal(
		socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
	t = kv_fdstream_new(loop, fds[1]);
	assert_non_null(t);
	c.dc = kv_mover_adopt(mover, t, &boot, 77, 5, &c);
	assert_non_null(c.dc);
	value_init(&v, 0, 1000, 0, 0);
	expect(&c, &v, 1);
	half.d.ref = kv_le64(1);
	kv_msg_seal(&half, KV_MSG_DATA, 0, 0, sizeof(half.d), 1000);
	memset(half.bytes, 0xee, sizeof(half.bytes));
	assert_int_equal(write(fds[0], &half, sizeof(half)), sizeof(half));
	rest_ms(50);
	kv_mover_cancel(&v.move);
	WAIT(v.done);
	assert_int_equal(v.move.status, -ECANCELED);
	assert_int_equal(pool[v.ext[0].off + 99], 0xee);
	WAIT(c.closed);
	while (read(fds[0], r, sizeof(r)) > 0)
		;
	assert_int_equal(read(fds[0], r, sizeof(r)), 0);
	close(fds[0]);
}

static void
a_peer_that_does_not_read_is_given_up(void **state)
{
	struct value v;
	struct client c;

	(void)state;
	client_open(&c, 5);
	kv_conn_pause(c.peer.c, true);
	value_init(&v, 0, 2 << 20, 0, 0);
	v.ext[0].off = 0;
	v.move.ref = 2;
	assert_int_equal(kv_mover_push(c.dc, &v.move), 0);
	rest_ms(30);
	assert_int_equal(v.done, 0);
	kv_mover_cancel(&v.move);
	WAIT(v.done);
	assert_true(v.move.status < 0);
	WAIT(c.closed);
	client_close(&c);
}

static void
a_cancel_after_the_end_changes_nothing(void **state)
{
	uint8_t *bytes = random_bytes(1000);
	struct client c;
	struct value v;

	(void)state;
	client_open(&c, 5);
	value_init(&v, 0, 1000, 0, 0);
	expect(&c, &v, 1);
	wirepeer_send_data(&c.peer, 1, 0, bytes, 1000);
	kv_conn_flush(c.peer.c);
	usleep(20000); /* with workers: it is done there, not told here */
	kv_mover_cancel(&v.move);
	WAIT(v.done);
	rest_ms(20);
	assert_int_equal(v.done, 1);
	kv_mover_cancel(&v.move);
	rest_ms(20);
	assert_int_equal(v.done, 1);
	client_close(&c);
	free(bytes);
}

static void
a_closed_connection_takes_no_more(void **state)
{
	struct client c;
	struct value v, w;

	(void)state;
	client_open(&c, 5);
	value_init(&v, 0, 1000, 0, 0);
	value_init(&w, 0, 1000, 0, 0);
	expect(&c, &v, 1);
	kv_mover_close(c.dc);
	kv_mover_close(c.dc);
	assert_int_equal(kv_mover_expect(c.dc, &w.move), -ECONNRESET);
	assert_int_equal(kv_mover_push(c.dc, &w.move), -ECONNRESET);
	assert_int_equal(v.done, 0);
	WAIT(c.closed);
	assert_int_equal(v.move.status, -ECANCELED);
	assert_int_equal(w.done, 0);
	WAIT(c.peer.is_lost);
	client_close(&c);
}

static void
free_ends_what_is_left(void **state)
{
	struct client c[CONNS];
	struct value v[CONNS];

	for (int i = 0; i < CONNS; i++) {
		client_open(&c[i], 5 + i);
		value_init(&v[i], 0, 1000, 0, 0);
		expect(&c[i], &v[i], 1 + i);
	}
	kv_mover_free(mover);
	mover = NULL;
	for (int i = 0; i < CONNS; i++) {
		assert_int_equal(v[i].done, 1);
		assert_int_equal(c[i].closed, 1);
		assert_true(v[i].done_at < c[i].closed_at);
		wirepeer_close(&c[i].peer);
	}
	(void)state;
}

/* In and out on several connections at once, with cancels and a lost peer. */
static void
many_at_once(void **state)
{
	enum {
		N = 64,
		BYTES = 40000,
	};
	static struct value in[CONNS][N], out[CONNS][N];
	uint8_t *bytes = random_bytes(BYTES);
	struct client c[CONNS];
	unsigned i, k, done;

	(void)state;
	for (i = 0; i < CONNS; i++)
		client_open(&c[i], 5 + i);
	for (k = 0; k < N; k++) {
		for (i = 0; i < CONNS; i++) {
			value_init(&in[i][k], 0, BYTES, 0, 0);
			in[i][k].ext[0].off = (1 + i) * BYTES;
			expect(&c[i], &in[i][k], 1000 * i + k + 1);
			wirepeer_send_data(&c[i].peer, 1000 * i + k + 1, 0,
					   bytes, BYTES);
			value_init(&out[i][k], 0, 50000, 0, 0);
			out[i][k].ext[0].off = 4 << 20;
			out[i][k].move.ref = 1;
			assert_int_equal(
				kv_mover_push(c[i].dc, &out[i][k].move), 0);
			if (k % 7 == 3)
				kv_mover_cancel(&in[i][k].move);
		}
		if (k == N / 2)
			kv_mover_close(c[CONNS - 1].dc);
		if (k == N / 2)
			break;
	}
	for (k++; k < N; k++)
		for (i = 0; i < CONNS - 1; i++) {
			value_init(&in[i][k], 0, BYTES, 0, 0);
			in[i][k].ext[0].off = (1 + i) * BYTES;
			expect(&c[i], &in[i][k], 1000 * i + k + 1);
			wirepeer_send_data(&c[i].peer, 1000 * i + k + 1, 0,
					   bytes, BYTES);
		}
	WAIT(c[CONNS - 1].closed);
	turn(NULL);
	do {
		turn("all to be done");
		for (done = 0, i = 0; i < CONNS - 1; i++)
			for (k = 0; k < N; k++)
				done += in[i][k].done || c[i].closed;
	} while (done < (CONNS - 1) * N);
	for (k = 0; k <= N / 2; k++) {
		assert_int_equal(in[CONNS - 1][k].done, 1);
		assert_int_equal(out[CONNS - 1][k].done, 1);
	}
	for (i = 0; i < CONNS; i++)
		client_close(&c[i]);
	for (i = 0; i < CONNS - 1; i++)
		for (k = 0; k <= N / 2; k++) {
			assert_int_equal(in[i][k].done, 1);
			assert_int_equal(out[i][k].done, 1);
		}
	free(bytes);
}

#define BOTH(f)                                                   \
	{ #f " (home)", f, setup_home, teardown, NULL },          \
	{                                                         \
#f " (threads)", f, setup_threads, teardown, NULL \
	}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		BOTH(a_value_comes_in_pieces),
		BOTH(a_value_goes_out),
		BOTH(bytes_for_an_unknown_grant_are_dropped),
		BOTH(a_gap_ends_the_connection),
		BOTH(bytes_twice_end_the_connection),
		BOTH(too_many_bytes_end_the_connection),
		BOTH(another_message_ends_the_connection),
		BOTH(the_grant_of_another_connection_is_not_filled),
		BOTH(a_lost_peer_gives_everything_back),
		BOTH(a_cancelled_grant_costs_no_connection),
		BOTH(a_grant_cancelled_within_its_frame_costs_the_connection),
		BOTH(a_peer_that_does_not_read_is_given_up),
		BOTH(a_cancel_after_the_end_changes_nothing),
		BOTH(a_closed_connection_takes_no_more),
		BOTH(free_ends_what_is_left),
		BOTH(many_at_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
