/* Values that come and go on data connections; peers that break rules. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "moverrig.h"
#include "test.h"

enum {
	CONNS = 4,
};

static void
a_value_comes_in_pieces(void **state)
{
	uint8_t *bytes = moverrig_bytes(100000), *got = malloc(100000);
	struct kv_stats_set sum = { 0 };
	struct moverpeer c;
	struct moved v;

	(void)state;
	moverpeer_open(&c, 5);
	moved_init(&v, 0, 30000, 50000, 20000);
	/* Sent at once: the bytes may be there before the worker reads its
	 * mail. */
	moved_expect(&c, &v, 11);
	wirepeer_send_data(&c.peer, 11, 0, bytes, 1);
	wirepeer_send_data(&c.peer, 11, 1, bytes + 1, 79999);
	moverrig_rest(20);
	assert_int_equal(v.done, 0);
	wirepeer_send_data(&c.peer, 11, 80000, bytes + 80000, 20000);
	MOVER_WAIT(v.done);
	assert_int_equal(v.move.status, 0);
	moved_gather(&v, got);
	assert_memory_equal(got, bytes, 100000);
	kv_mover_stats(mover, &sum);
	assert_int_equal(sum.v[KV_STAT_DATA_RX_BYTES], 100000);
	assert_int_equal(sum.v[KV_STAT_DATA_CONNS], 1);
	moverpeer_close(&c);
	assert_int_equal(c.closed, 1);
	assert_int_equal(v.done, 1);
	free(bytes);
	free(got);
}

/* Pushed frames of a GET, put together. */
static void
collect(struct moverpeer *c, uint64_t ref, uint32_t index, uint8_t *out,
	size_t len)
{
	struct wireframe *f;
	size_t got = 0;

	while (got < len) {
		const struct kv_data *d;

		MOVER_WAIT(wirepeer_count(&c->peer, KV_MSG_DATA));
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
	struct moverpeer c;
	struct moved v;

	(void)state;
	moverpeer_open(&c, 5);
	moved_init(&v, 0, 30000, 50000, 20000);
	moved_gather(&v, want);
	v.move.ref = 3;
	v.move.index = 9;
	assert_int_equal(kv_mover_push(c.dc, &v.move), 0);
	collect(&c, 3, 9, got, 100000);
	MOVER_WAIT(v.done);
	assert_int_equal(v.move.status, 0);
	assert_memory_equal(got, want, 100000);
	/* A part of it. */
	v.move.skip = 29999;
	v.move.bytes = 50002;
	assert_int_equal(kv_mover_push(c.dc, &v.move), 0);
	collect(&c, 3, 9, got, 50002);
	MOVER_WAIT(v.done == 2);
	assert_memory_equal(got, want + 29999, 50002);
	moverpeer_close(&c);
	free(want);
	free(got);
}

static void
bytes_for_an_unknown_grant_are_dropped(void **state)
{
	uint8_t *bytes = moverrig_bytes(70000);
	struct kv_stats_set sum = { 0 };
	struct moverpeer c;
	struct moved v;

	(void)state;
	moverpeer_open(&c, 5);
	wirepeer_send_data(&c.peer, 99, 0, bytes, 70000);
	moved_init(&v, 0, 1000, 0, 0);
	moved_expect(&c, &v, 12);
	wirepeer_send_data(&c.peer, 12, 0, bytes, 1000);
	MOVER_WAIT(v.done);
	assert_int_equal(v.move.status, 0);
	assert_memory_equal(mover_pool + v.ext[0].off, bytes, 1000);
	assert_false(c.peer.is_lost);
	kv_mover_stats(mover, &sum);
	assert_int_equal(sum.v[KV_STAT_DATA_DROPPED_BYTES], 70000);
	moverpeer_close(&c);
	free(bytes);
}

/* The frame breaks the protocol: its connection ends, with all its moves. */
static void
breaks(struct moverpeer *c, struct moved *v)
{
	MOVER_WAIT(c->closed);
	assert_int_equal(v->done, 1);
	assert_int_equal(v->move.status, -ECONNRESET);
	assert_true(v->done_at < c->closed_at);
	MOVER_WAIT(c->peer.is_lost);
	moverpeer_close(c);
}

static void
a_gap_ends_the_connection(void **state)
{
	uint8_t *bytes = moverrig_bytes(1000);
	struct moverpeer c;
	struct moved v;

	(void)state;
	moverpeer_open(&c, 5);
	moved_init(&v, 0, 1000, 0, 0);
	moved_expect(&c, &v, 1);
	wirepeer_send_data(&c.peer, 1, 1, bytes, 999);
	breaks(&c, &v);
	free(bytes);
}

static void
bytes_twice_end_the_connection(void **state)
{
	uint8_t *bytes = moverrig_bytes(1000);
	struct moverpeer c;
	struct moved v;

	(void)state;
	moverpeer_open(&c, 5);
	moved_init(&v, 0, 1000, 0, 0);
	moved_expect(&c, &v, 1);
	wirepeer_send_data(&c.peer, 1, 0, bytes, 500);
	wirepeer_send_data(&c.peer, 1, 0, bytes, 500);
	breaks(&c, &v);
	free(bytes);
}

static void
too_many_bytes_end_the_connection(void **state)
{
	uint8_t *bytes = moverrig_bytes(1001);
	struct moverpeer c;
	struct moved v;

	(void)state;
	moverpeer_open(&c, 5);
	moved_init(&v, 0, 1000, 0, 0);
	moved_expect(&c, &v, 1);
	wirepeer_send_data(&c.peer, 1, 0, bytes, 1001);
	breaks(&c, &v);
	free(bytes);
}

static void
another_message_ends_the_connection(void **state)
{
	struct moverpeer c;
	struct moved v;

	(void)state;
	moverpeer_open(&c, 5);
	moved_init(&v, 0, 1000, 0, 0);
	moved_expect(&c, &v, 1);
	wirepeer_send(&c.peer, KV_MSG_PING, 1, NULL, NULL, 0);
	breaks(&c, &v);
}

static void
the_grant_of_another_connection_is_not_filled(void **state)
{
	uint8_t *bytes = moverrig_bytes(1000);
	struct moverpeer a, b;
	struct moved v;

	(void)state;
	moverpeer_open(&a, 5);
	moverpeer_open(&b, 6);
	moved_init(&v, 0, 1000, 0, 0);
	moved_expect(&a, &v, 1);
	wirepeer_send_data(&b.peer, 1, 0, bytes, 1000);
	/* On one worker it is known for a wrong one, on two for none. */
	moverrig_rest(50);
	assert_int_equal(v.done, 0);
	assert_memory_not_equal(mover_pool + v.ext[0].off, bytes, 1000);
	moverpeer_close(&b);
	wirepeer_send_data(&a.peer, 1, 0, bytes, 1000);
	MOVER_WAIT(v.done);
	assert_int_equal(v.move.status, 0);
	moverpeer_close(&a);
	free(bytes);
}

/* In and out on several connections at once, with cancels and a lost peer. */
static void
many_at_once(void **state)
{
	enum {
		N = 64,
		BYTES = 40000,
	};
	static struct moved in[CONNS][N], out[CONNS][N];
	uint8_t *bytes = moverrig_bytes(BYTES);
	struct moverpeer c[CONNS];
	unsigned i, k, done;

	(void)state;
	for (i = 0; i < CONNS; i++)
		moverpeer_open(&c[i], 5 + i);
	for (k = 0; k < N; k++) {
		for (i = 0; i < CONNS; i++) {
			moved_init(&in[i][k], 0, BYTES, 0, 0);
			in[i][k].ext[0].off = (1 + i) * BYTES;
			moved_expect(&c[i], &in[i][k], 1000 * i + k + 1);
			wirepeer_send_data(&c[i].peer, 1000 * i + k + 1, 0,
					   bytes, BYTES);
			moved_init(&out[i][k], 0, 50000, 0, 0);
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
			moved_init(&in[i][k], 0, BYTES, 0, 0);
			in[i][k].ext[0].off = (1 + i) * BYTES;
			moved_expect(&c[i], &in[i][k], 1000 * i + k + 1);
			wirepeer_send_data(&c[i].peer, 1000 * i + k + 1, 0,
					   bytes, BYTES);
		}
	MOVER_WAIT(c[CONNS - 1].closed);
	moverrig_turn(NULL);
	do {
		moverrig_turn("all to be done");
		for (done = 0, i = 0; i < CONNS - 1; i++)
			for (k = 0; k < N; k++)
				done += in[i][k].done || c[i].closed;
	} while (done < (CONNS - 1) * N);
	for (k = 0; k <= N / 2; k++) {
		assert_int_equal(in[CONNS - 1][k].done, 1);
		assert_int_equal(out[CONNS - 1][k].done, 1);
	}
	for (i = 0; i < CONNS; i++)
		moverpeer_close(&c[i]);
	for (i = 0; i < CONNS - 1; i++)
		for (k = 0; k <= N / 2; k++) {
			assert_int_equal(in[i][k].done, 1);
			assert_int_equal(out[i][k].done, 1);
		}
	free(bytes);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		MOVER_BOTH(a_value_comes_in_pieces),
		MOVER_BOTH(a_value_goes_out),
		MOVER_BOTH(bytes_for_an_unknown_grant_are_dropped),
		MOVER_BOTH(a_gap_ends_the_connection),
		MOVER_BOTH(bytes_twice_end_the_connection),
		MOVER_BOTH(too_many_bytes_end_the_connection),
		MOVER_BOTH(another_message_ends_the_connection),
		MOVER_BOTH(the_grant_of_another_connection_is_not_filled),
		MOVER_BOTH(many_at_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
