#include "net/conn.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/num.h"
#include "simside.h"
#include "test.h"

/* ---- life ---- */

static void
frames_arrive_in_order(void **state)
{
	(void)state;
	for (uint64_t id = 0; id < 10; id++)
		simside_ping(&simside_a, id);
	assert_true(simside_stats(&simside_a, 100));
	assert_int_equal(simside_b.msgs, 0);
	simside_run_ms(1);
	assert_int_equal(simside_b.msgs, 11);
	for (uint64_t id = 0; id < 10; id++)
		assert_int_equal(simside_b.ids[id], id);
	assert_int_equal(simside_b.types[10], KV_MSG_STATS_R);
	assert_int_equal(simside_a.closes + simside_b.closes, 0);
}

static void
flush_does_not_wait_for_the_turn(void **state)
{
	uint64_t before = simside_pair.clock.ns;

	(void)state;
	simside_ping(&simside_a, 1);
	kv_conn_flush(simside_a.c);
	/* Nothing is left to do but for the packet to arrive. */
	kv_loop_turn(simside_pair.loop, 0);
	assert_true(kv_loop_next(simside_pair.loop) > before);
	simside_run_ms(1);
	assert_int_equal(simside_b.msgs, 1);
	assert_true(kv_conn_last_rx(simside_b.c) > before);
	assert_true(kv_conn_last_rx(simside_a.c) <= before);
}

static void
body_is_found_again_after_tails(void **state)
{
	struct kv_stats_r *r = kv_conn_begin(simside_a.c, KV_MSG_STATS_R, 1, 0);

	(void)state;
	assert_non_null(r);
	for (int i = 0; i < 100; i++)
		memset(kv_conn_tail(simside_a.c, 10000), i, 10000);
	r = kv_conn_body(simside_a.c);
	r->status = 9;
	kv_conn_end(simside_a.c);
	simside_run_ms(10);
	assert_int_equal(simside_b.msgs, 1);
}

static void
aborted_frame_is_not_sent(void **state)
{
	(void)state;
	simside_ping(&simside_a, 1);
	assert_non_null(kv_conn_begin(simside_a.c, KV_MSG_STATS_R, 2, 0));
	assert_non_null(kv_conn_tail(simside_a.c, 1000));
	kv_conn_abort(simside_a.c);
	simside_ping(&simside_a, 3);
	simside_run_ms(1);
	assert_int_equal(simside_b.msgs, 2);
	assert_int_equal(simside_b.ids[1], 3);
}

static void
frame_half_built_does_not_leave(void **state)
{
	(void)state;
	simside_ping(&simside_a, 1);
	assert_non_null(kv_conn_begin(simside_a.c, KV_MSG_STATS_R, 2, 0));
	kv_conn_flush(simside_a.c);
	simside_run_ms(1);
	assert_int_equal(simside_b.msgs, 1);
	memset(kv_conn_tail(simside_a.c, 10), 0, 10);
	kv_conn_end(simside_a.c);
	simside_run_ms(1);
	assert_int_equal(simside_b.msgs, 2);
}

static void
own_close_says_nothing(void **state)
{
	(void)state;
	simside_end(&simside_a);
	simside_run_ms(1);
	assert_int_equal(simside_a.closes, 0);
	assert_int_equal(simside_b.closes, 1);
	assert_int_equal(simside_b.status, -ECONNRESET);
	simside_run_ms(1);
	assert_int_equal(simside_b.closes, 1);
	assert_null(kv_conn_begin(simside_b.c, KV_MSG_PING, 1, 0));
	assert_int_equal(kv_conn_recv_fd(simside_b.c), -1);
	assert_int_equal(kv_conn_send_fd(simside_b.c, 0), -ECONNRESET);
	kv_conn_pause(simside_b.c, true);
	kv_conn_flush(simside_b.c);
	kv_conn_end(simside_b.c);
	assert_null(kv_conn_detach(simside_b.c));
	simside_run_ms(1);
	assert_int_equal(simside_b.closes, 1);
	kv_conn_close(NULL);
}

static void
messages_before_the_end_are_handed_over(void **state)
{
	(void)state;
	for (uint64_t id = 0; id < 1000; id++)
		simside_ping(&simside_a, id);
	kv_conn_flush(simside_a.c);
	simside_end(&simside_a);
	simside_run_ms(1);
	assert_int_equal(simside_b.msgs, 1000);
	assert_int_equal(simside_b.closes, 1);
}

/* The peer refuses and closes while we are writing: why it did is heard. */
static void
last_words_are_heard_after_a_failed_write(void **state)
{
	(void)state;
	kv_conn_pause(simside_b.c, true);
	for (uint64_t id = 0; id < 1000; id++)
		simside_ping(&simside_a, id);
	kv_conn_flush(simside_a.c);
	simside_end(&simside_a);
	simside_run_ms(1);
	kv_conn_pause(simside_b.c, false);
	simside_ping(&simside_b, 1);
	kv_conn_flush(simside_b.c);
	assert_false(kv_conn_is_open(simside_b.c));
	assert_int_equal(simside_b.closes + simside_b.msgs, 0);
	simside_run_ms(1);
	assert_int_equal(simside_b.msgs, 1000);
	assert_int_equal(simside_b.closes, 1);
	assert_int_equal(simside_b.status, -ECONNRESET);
}

static void
failed_write_ends_a_paused_connection(void **state)
{
	(void)state;
	kv_conn_pause(simside_b.c, true);
	simside_end(&simside_a);
	simside_run_ms(1);
	assert_int_equal(simside_b.closes, 0);
	simside_ping(&simside_b, 1);
	simside_run_ms(1);
	assert_int_equal(simside_b.closes, 1);
	assert_int_equal(simside_b.status, -ECONNRESET);
}

static void
detached_stream_goes_on(void **state)
{
	struct kv_stream *s;

	(void)state;
	simside_ping(&simside_b, 1);
	assert_null(kv_conn_detach(simside_b.c)); /* something is queued */
	kv_conn_flush(simside_b.c);
	simside_run_ms(1);
	assert_int_equal(simside_a.msgs, 1);
	s = kv_conn_detach(simside_b.c);
	assert_ptr_equal(s, simside_pair.stream[1]);
	simside_ping(&simside_a, 2);
	simside_run_ms(1);
	simside_b.c =
		kv_conn_new(simside_pair.loop, s, &simside_ops, &simside_b);
	simside_run_ms(1);
	assert_int_equal(simside_b.msgs, 1);
	simside_ping(&simside_b, 3);
	simside_run_ms(1);
	assert_int_equal(simside_a.msgs, 2);
	assert_int_equal(simside_b.closes + simside_a.closes, 0);
}

static void
frames_in_the_buffer_are_not_left_behind(void **state)
{
	(void)state;
	simside_b.pause_at_msg = true;
	simside_ping(&simside_a, 1);
	simside_ping(&simside_a, 2);
	simside_run_ms(1);
	assert_int_equal(simside_b.msgs, 1);
	assert_null(kv_conn_detach(simside_b.c));
	kv_conn_pause(simside_b.c, false);
	simside_run_ms(1);
	assert_int_equal(simside_b.msgs, 2);
}

static void
other_ops_take_over(void **state)
{
	struct simside later = { 0 };

	(void)state;
	kv_conn_set_ops(simside_b.c, &simside_ops, &later);
	simside_ping(&simside_a, 1);
	simside_run_ms(1);
	assert_int_equal(later.msgs, 1);
	assert_int_equal(simside_b.msgs, 0);
	assert_ptr_equal(kv_conn_loop(simside_b.c), simside_pair.loop);
	kv_conn_set_arg(simside_b.c, &simside_b);
}

static void
descriptor_rides_along(void **state)
{
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC), got;
	struct stat mine, theirs;

	(void)state;
	assert_int_equal(kv_conn_send_fd(simside_a.c, fd), 0);
	simside_ping(&simside_a, 1);
	assert_int_equal(kv_conn_recv_fd(simside_b.c), -1);
	simside_run_ms(1);
	assert_int_equal(simside_b.msgs, 1);
	got = kv_conn_recv_fd(simside_b.c);
	assert_true(got >= 0);
	assert_int_equal(kv_conn_recv_fd(simside_b.c), -1);
	assert_int_equal(fstat(fd, &mine), 0);
	assert_int_equal(fstat(got, &theirs), 0);
	assert_int_equal(mine.st_rdev, theirs.st_rdev);
	close(fd);
	close(got);
}

/* ---- callbacks that close ---- */

static void
close_in_on_msg(void **state)
{
	(void)state;
	simside_b.close_at_msg = true;
	simside_ping(&simside_a, 1);
	simside_ping(&simside_a, 2);
	simside_run_ms(1);
	assert_null(simside_b.c);
	assert_int_equal(simside_b.msgs, 1);
	assert_int_equal(simside_b.closes, 0);
	assert_int_equal(simside_a.closes, 1);
}

static void
close_in_on_payload(void **state)
{
	static uint8_t bytes[100000];
	struct simside_sent sent = { 0 };

	(void)state;
	simside_b.close_at_payload = true;
	simside_data(&simside_a, bytes, sizeof(bytes), &sent);
	simside_run_ms(1);
	assert_null(simside_b.c);
	assert_int_equal(simside_b.payloads, 1);
	assert_int_equal(simside_b.msgs, 0);
	assert_int_equal(simside_b.closes, 0);
	assert_int_equal(sent.calls, 1);
}

static void
close_in_on_close(void **state)
{
	(void)state;
	simside_b.close_at_close = true;
	simside_end(&simside_a);
	simside_run_ms(1);
	assert_null(simside_b.c);
	assert_int_equal(simside_b.closes, 1);
}

static void
close_in_sent(void **state)
{
	static uint8_t bytes[1000];
	struct simside_sent first = { .closes = &simside_a }, second = { 0 },
			    third = { 0 };

	(void)state;
	simside_data(&simside_a, bytes, sizeof(bytes), &first);
	simside_data(&simside_a, bytes, sizeof(bytes), &second);
	kv_conn_flush(simside_a.c);
	simside_data(&simside_a, bytes, sizeof(bytes), &third);
	simside_run_ms(1);
	assert_null(simside_a.c);
	assert_int_equal(first.calls, 1);
	assert_int_equal(first.status, 0);
	assert_int_equal(second.calls, 1);
	assert_int_equal(second.status, 0);
	assert_int_equal(third.calls, 1);
	assert_int_equal(third.status, -ECANCELED);
	assert_int_equal(simside_a.closes, 0);
}

static void
close_in_on_drain(void **state)
{
	(void)state;
	simside_a.close_at_drain = true;
	while (!kv_conn_is_full(simside_a.c))
		assert_true(simside_stats(&simside_a, 500000));
	simside_run_ms(100);
	assert_null(simside_a.c);
	assert_int_equal(simside_a.drains, 1);
	assert_int_equal(simside_b.closes, 1);
}

/* ---- bounds ---- */

static void
queue_has_a_limit(void **state)
{
	static uint8_t bytes[1000];
	struct simside_sent sent = { 0 };
	size_t n = 0;

	(void)state;
	simnet_cut(simside_pair.sn, "a", "b");
	simside_data(&simside_a, bytes, sizeof(bytes), &sent);
	simside_run_ms(1);
	assert_int_equal(sent.status, 0);
	while (simside_stats(&simside_a, 1000000))
		n++;
	assert_true(n > 60 && n < 68);
	assert_false(kv_conn_is_open(simside_a.c));
	assert_int_equal(simside_a.closes, 0);
	simside_ping(&simside_b, 1);
	simside_run_ms(1);
	assert_int_equal(simside_a.closes, 1);
	assert_int_equal(simside_a.status, -ENOBUFS);
	assert_int_equal(simside_a.msgs, 0);
}

static void
sent_fails_with_the_queue(void **state)
{
	static uint8_t bytes[1000];
	struct simside_sent sent = { 0 };

	(void)state;
	simnet_cut(simside_pair.sn, "a", "b");
	assert_true(simside_stats(&simside_a, 1000000));
	simside_data(&simside_a, bytes, sizeof(bytes), &sent);
	while (simside_stats(&simside_a, 1000000))
		;
	assert_int_equal(sent.calls, 0);
	simside_run_ms(1);
	assert_int_equal(sent.calls, 1);
	assert_int_equal(sent.status, -ENOBUFS);
}

static void
too_long_a_tail_closes(void **state)
{
	(void)state;
	assert_non_null(kv_conn_begin(simside_a.c, KV_MSG_ERROR_R, 1, 0));
	assert_non_null(kv_conn_tail(simside_a.c, 500));
	assert_null(kv_conn_tail(simside_a.c, 13));
	kv_conn_end(simside_a.c);
	simside_run_ms(1);
	assert_int_equal(simside_a.status, -EMSGSIZE);
	assert_int_equal(simside_b.msgs, 0);
}

static void
pause_holds_the_sender_back(void **state)
{
	int n = 0;

	(void)state;
	simside_b.pause_at_msg = true;
	while (!kv_conn_is_full(simside_a.c)) {
		assert_true(simside_stats(&simside_a, 100000));
		n++;
	}
	simside_run_ms(1000);
	assert_int_equal(simside_b.msgs, 1);
	assert_true(kv_conn_is_full(simside_a.c));
	assert_int_equal(simside_a.drains, 0);
	simside_b.pause_at_msg = false;
	kv_conn_pause(simside_b.c, false);
	simside_run_ms(1000);
	assert_int_equal(simside_b.msgs, n);
	assert_int_equal(simside_a.drains, 1);
	assert_false(kv_conn_is_full(simside_a.c));
}

static void
paused_frames_wait_in_the_buffer(void **state)
{
	(void)state;
	for (uint64_t id = 0; id < 5; id++)
		simside_ping(&simside_a, id);
	simside_b.pause_at_msg = true;
	for (int n = 1; n <= 5; n++) {
		simside_run_ms(1);
		assert_int_equal(simside_b.msgs, n);
		kv_conn_pause(simside_b.c, false);
	}
	simside_run_ms(1);
	assert_int_equal(simside_b.msgs, 5);
}

static void
turn_is_bounded(void **state)
{
	int most = 0;

	(void)state;
	for (uint64_t id = 0; id < 2000; id++)
		simside_ping(&simside_a, id);
	while (simside_b.msgs < 2000) {
		int before = simside_b.msgs;

		simside_pair.clock.ns = kv_max_u64(
			simside_pair.clock.ns, kv_loop_next(simside_pair.loop));
		kv_loop_turn(simside_pair.loop, 0);
		if (simside_b.msgs - before > most)
			most = simside_b.msgs - before;
	}
	assert_true(most <= 256);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		ON_TCP(frames_arrive_in_order),
		ON_TCP(flush_does_not_wait_for_the_turn),
		ON_TCP(body_is_found_again_after_tails),
		ON_TCP(aborted_frame_is_not_sent),
		ON_TCP(frame_half_built_does_not_leave),
		ON_TCP(own_close_says_nothing),
		ON_TCP(messages_before_the_end_are_handed_over),
		ON_UNIX(last_words_are_heard_after_a_failed_write),
		ON_UNIX(failed_write_ends_a_paused_connection),
		ON_TCP(detached_stream_goes_on),
		ON_TCP(frames_in_the_buffer_are_not_left_behind),
		ON_TCP(other_ops_take_over),
		ON_UNIX(descriptor_rides_along),
		ON_TCP(close_in_on_msg),
		ON_TCP(close_in_on_payload),
		ON_TCP(close_in_on_close),
		ON_TCP(close_in_sent),
		ON_TCP(close_in_on_drain),
		ON_TCP(queue_has_a_limit),
		ON_TCP(sent_fails_with_the_queue),
		ON_TCP(too_long_a_tail_closes),
		ON_TCP(pause_holds_the_sender_back),
		ON_TCP(paused_frames_wait_in_the_buffer),
		ON_TCP(turn_is_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
