/* How moves of values end early: lost peers, cancels, closing. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/fdstream.h"

#include "moverrig.h"
#include "test.h"

enum {
	CONNS = 4,
};

static void
a_lost_peer_gives_everything_back(void **state)
{
	uint8_t *bytes = moverrig_bytes(1000);
	struct moved in, out[8];
	struct moverpeer c;

	(void)state;
	moverpeer_open(&c, 5);
	c.peer.stops_reading = true;
	moved_init(&in, 0, 1000, 0, 0);
	moved_expect(&c, &in, 1);
	wirepeer_send_data(&c.peer, 1, 0, bytes, 600);
	for (int i = 0; i < 8; i++) {
		moved_init(&out[i], 0, 100000, 256 * 1024, 100000);
		out[i].move.ref = 2;
		assert_int_equal(kv_mover_push(c.dc, &out[i].move), 0);
	}
	moverrig_rest(20);
	wirepeer_close(&c.peer);
	MOVER_WAIT(c.closed);
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
	uint8_t *bytes = moverrig_bytes(1000), before[1000];
	struct moverpeer c;
	struct moved v, w;

	(void)state;
	moverpeer_open(&c, 5);
	moved_init(&v, 0, 1000, 0, 0);
	moved_init(&w, 1 << 20, 1000, 0, 0);
	moved_expect(&c, &v, 1);
	moved_expect(&c, &w, 2);
	memcpy(before, mover_pool + v.ext[0].off, 1000);
	kv_mover_cancel(&v.move);
	kv_mover_cancel(&v.move);
	MOVER_WAIT(v.done);
	assert_int_equal(v.move.status, -ECANCELED);
	wirepeer_send_data(&c.peer, 1, 0, bytes, 1000);
	wirepeer_send_data(&c.peer, 2, 0, bytes, 1000);
	MOVER_WAIT(w.done);
	assert_int_equal(w.move.status, 0);
	assert_memory_equal(mover_pool + v.ext[0].off, before, 1000);
	assert_int_equal(v.done, 1);
	assert_false(c.peer.is_lost);
	moverpeer_close(&c);
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
	struct moverpeer c = { 0 };
	struct moved v;
	char r[4096];
	int fds[2];

	(void)state;
	assert_int_equal(
		socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
	t = kv_fdstream_new(mover_loop, fds[1]);
	assert_non_null(t);
	c.dc = kv_mover_adopt(mover, t,
			      &(struct kv_mover_hello){ .id = 77,
							.boot = &mover_boot,
							.token = 5 },
			      &c);
	assert_non_null(c.dc);
	moved_init(&v, 0, 1000, 0, 0);
	moved_expect(&c, &v, 1);
	half.d.ref = kv_le64(1);
	kv_msg_seal(&half, KV_MSG_DATA, 0, 0, sizeof(half.d), 1000);
	memset(half.bytes, 0xee, sizeof(half.bytes));
	assert_int_equal(write(fds[0], &half, sizeof(half)), sizeof(half));
	moverrig_rest(50);
	kv_mover_cancel(&v.move);
	MOVER_WAIT(v.done);
	assert_int_equal(v.move.status, -ECANCELED);
	assert_int_equal(mover_pool[v.ext[0].off + 99], 0xee);
	MOVER_WAIT(c.closed);
	while (read(fds[0], r, sizeof(r)) > 0)
		;
	assert_int_equal(read(fds[0], r, sizeof(r)), 0);
	close(fds[0]);
}

static void
a_peer_that_does_not_read_is_given_up(void **state)
{
	struct moved v;
	struct moverpeer c;

	(void)state;
	moverpeer_open(&c, 5);
	kv_conn_pause(c.peer.c, true);
	moved_init(&v, 0, 2 << 20, 0, 0);
	v.ext[0].off = 0;
	v.move.ref = 2;
	assert_int_equal(kv_mover_push(c.dc, &v.move), 0);
	moverrig_rest(30);
	assert_int_equal(v.done, 0);
	kv_mover_cancel(&v.move);
	MOVER_WAIT(v.done);
	assert_true(v.move.status < 0);
	MOVER_WAIT(c.closed);
	moverpeer_close(&c);
}

static void
a_cancel_after_the_end_changes_nothing(void **state)
{
	uint8_t *bytes = moverrig_bytes(1000);
	struct moverpeer c;
	struct moved v;

	(void)state;
	moverpeer_open(&c, 5);
	moved_init(&v, 0, 1000, 0, 0);
	moved_expect(&c, &v, 1);
	wirepeer_send_data(&c.peer, 1, 0, bytes, 1000);
	kv_conn_flush(c.peer.c);
	usleep(20000); /* with workers: it is done there, not told here */
	kv_mover_cancel(&v.move);
	MOVER_WAIT(v.done);
	moverrig_rest(20);
	assert_int_equal(v.done, 1);
	kv_mover_cancel(&v.move);
	moverrig_rest(20);
	assert_int_equal(v.done, 1);
	moverpeer_close(&c);
	free(bytes);
}

static void
a_closed_connection_takes_no_more(void **state)
{
	struct moverpeer c;
	struct moved v, w;

	(void)state;
	moverpeer_open(&c, 5);
	moved_init(&v, 0, 1000, 0, 0);
	moved_init(&w, 0, 1000, 0, 0);
	moved_expect(&c, &v, 1);
	kv_mover_close(c.dc);
	kv_mover_close(c.dc);
	assert_int_equal(kv_mover_expect(c.dc, &w.move), -ECONNRESET);
	assert_int_equal(kv_mover_push(c.dc, &w.move), -ECONNRESET);
	assert_int_equal(v.done, 0);
	MOVER_WAIT(c.closed);
	assert_int_equal(v.move.status, -ECANCELED);
	assert_int_equal(w.done, 0);
	MOVER_WAIT(c.peer.is_lost);
	moverpeer_close(&c);
}

static void
free_ends_what_is_left(void **state)
{
	struct moverpeer c[CONNS];
	struct moved v[CONNS];

	for (int i = 0; i < CONNS; i++) {
		moverpeer_open(&c[i], 5 + i);
		moved_init(&v[i], 0, 1000, 0, 0);
		moved_expect(&c[i], &v[i], 1 + i);
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

int
main(void)
{
	const struct CMUnitTest tests[] = {
		MOVER_BOTH(a_lost_peer_gives_everything_back),
		MOVER_BOTH(a_cancelled_grant_costs_no_connection),
		MOVER_BOTH(
			a_grant_cancelled_within_its_frame_costs_the_connection),
		MOVER_BOTH(a_peer_that_does_not_read_is_given_up),
		MOVER_BOTH(a_cancel_after_the_end_changes_nothing),
		MOVER_BOTH(a_closed_connection_takes_no_more),
		MOVER_BOTH(free_ends_what_is_left),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
