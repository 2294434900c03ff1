/* What a connection makes of payloads, of peers that break the rules, and of a
 * network that fails. */
#include "net/conn.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "base/rng.h"
#include "net/stream.h"
#include "simside.h"
#include "test.h"

/* ---- payload ---- */

static void
payload_arrives_in_place(void **state)
{
	enum {
		BYTES = 3000000
	};
	uint8_t *bytes = malloc(BYTES), *room = malloc(BYTES);
	struct simside_sent sent = { 0 };
	struct kv_rng rng;

	(void)state;
	kv_rng_seed(&rng, 4);
	kv_rng_bytes(&rng, bytes, BYTES);
	simside_b.room = room;
	simside_data(&simside_a, bytes, BYTES, &sent);
	simside_ping(&simside_a, 8);
	kv_conn_flush(simside_a.c);
	assert_int_equal(sent.calls, 0);
	simside_run_ms(100);
	assert_int_equal(sent.calls, 1);
	assert_int_equal(sent.status, 0);
	assert_int_equal(simside_b.payloads, 1);
	assert_int_equal(simside_b.msgs, 2);
	assert_int_equal(simside_b.types[0], KV_MSG_DATA);
	assert_int_equal(simside_b.ids[1], 8);
	assert_memory_equal(bytes, room, BYTES);
	free(bytes);
	free(room);
}

static void
payload_is_dropped_on_demand(void **state)
{
	enum {
		BYTES = 3000000
	};
	uint8_t *bytes = calloc(1, BYTES);
	struct simside_sent sent = { 0 };

	(void)state;
	simside_data(&simside_a, bytes, BYTES, &sent);
	simside_ping(&simside_a, 8);
	simside_run_ms(100);
	assert_int_equal(simside_b.payloads, 1);
	assert_int_equal(simside_b.msgs, 2);
	assert_int_equal(simside_b.types[0], KV_MSG_DATA);
	assert_int_equal(simside_b.ids[1], 8);
	free(bytes);
}

static void
empty_payload_is_none(void **state)
{
	struct simside_sent sent = { 0 };
	uint8_t byte = 1;

	(void)state;
	simside_data(&simside_a, &byte, 0, &sent);
	simside_run_ms(1);
	assert_int_equal(sent.calls, 1);
	assert_int_equal(sent.status, 0);
	assert_int_equal(simside_b.payloads, 0);
	assert_int_equal(simside_b.msgs, 1);
}

static void
payload_without_room_closes(void **state)
{
	static uint8_t bytes[1000];
	struct simside_sent sent = { 0 };

	(void)state;
	simside_b.refuse = -ENOSPC;
	simside_data(&simside_a, bytes, sizeof(bytes), &sent);
	simside_run_ms(1);
	assert_int_equal(simside_b.msgs, 0);
	assert_int_equal(simside_b.closes, 1);
	assert_int_equal(simside_b.status, -ENOSPC);
}

static void
payload_that_nobody_expects_is_refused(void **state)
{
	struct kv_conn_ops no_payload = simside_ops;
	static uint8_t bytes[1000];
	struct simside_sent sent = { 0 };

	(void)state;
	no_payload.on_payload = NULL;
	kv_conn_set_ops(simside_b.c, &no_payload, &simside_b);
	simside_data(&simside_a, bytes, sizeof(bytes), &sent);
	simside_run_ms(1);
	assert_int_equal(simside_b.msgs, 0);
	assert_int_equal(simside_b.status, -EPROTO);
}

/* Nothing of a payload is touched after the end of its connection. */
static void
payload_under_way_is_let_go(void **state)
{
	enum {
		BYTES = 3000000
	};
	uint8_t *bytes = calloc(1, BYTES);
	struct simside_sent sent = { 0 };

	(void)state;
	simside_b.room = malloc(BYTES);
	simside_data(&simside_a, bytes, BYTES, &sent);
	simpair_run(&simside_pair, 500000);
	assert_int_equal(simside_b.payloads, 1);
	assert_int_equal(simside_b.msgs, 0);
	simside_end(&simside_b);
	free(simside_b.room);
	simside_run_ms(10);
	assert_int_equal(simside_a.closes, 1);
	assert_int_equal(sent.calls, 1);
	assert_int_equal(sent.status, -ECONNRESET);
	free(bytes);
}

/* ---- misuse by the peer ---- */

/* Writes raw bytes in the place of side a, whose connection is given up. */
static void
speak_raw(const void *bytes, size_t n)
{
	struct iovec iov = { (void *)(uintptr_t)bytes, n };
	struct kv_stream *s = kv_conn_detach(simside_a.c);

	assert_non_null(s);
	simside_a.c = NULL;
	assert_int_equal(s->ops->writev(s, &iov, 1), n);
	simside_run_ms(1);
	s->ops->close(s);
	simside_run_ms(1);
}

static void
sign(struct kv_header *h)
{
	h->head_sum = kv_le32((uint32_t)XXH3_64bits(h, 28));
}

static void
broken_magic_is_refused(void **state)
{
	(void)state;
	speak_raw("GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n", 42);
	assert_int_equal(simside_b.msgs, 0);
	assert_int_equal(simside_b.closes, 1);
	assert_int_equal(simside_b.status, -EPROTO);
}

static void
other_version_is_refused(void **state)
{
	uint8_t frame[KV_HEADER_BYTES + sizeof(struct kv_ping)] = { 0 };
	struct kv_header *h = (struct kv_header *)frame;

	(void)state;
	kv_msg_seal(frame, KV_MSG_PING, 0, 1, sizeof(struct kv_ping), 0);
	h->version++;
	sign(h);
	speak_raw(frame, sizeof(frame));
	assert_int_equal(simside_b.status, -EPROTONOSUPPORT);
}

static void
too_long_a_frame_is_refused(void **state)
{
	uint8_t frame[KV_HEADER_BYTES + sizeof(struct kv_stats_r)] = { 0 };
	struct kv_header *h = (struct kv_header *)frame;

	(void)state;
	kv_msg_seal(frame, KV_MSG_STATS_R, 0, 1, sizeof(struct kv_stats_r), 0);
	h->len = kv_le32(KV_FRAME_BYTES_MAX);
	sign(h);
	speak_raw(frame, sizeof(frame));
	assert_int_equal(simside_b.status, -EPROTO);
}

static void
payload_of_a_type_without_is_refused(void **state)
{
	uint8_t frame[KV_HEADER_BYTES + sizeof(struct kv_ping)] = { 0 };
	struct kv_header *h = (struct kv_header *)frame;

	(void)state;
	kv_msg_seal(frame, KV_MSG_PING, 0, 1, sizeof(struct kv_ping), 0);
	h->payload = kv_le32(1);
	sign(h);
	speak_raw(frame, sizeof(frame));
	assert_int_equal(simside_b.payloads, 0);
	assert_int_equal(simside_b.status, -EPROTO);
}

static void
frame_cut_short_is_no_message(void **state)
{
	uint8_t frame[KV_HEADER_BYTES + sizeof(struct kv_ping)] = { 0 };

	(void)state;
	kv_msg_seal(frame, KV_MSG_PING, 0, 1, sizeof(struct kv_ping), 0);
	speak_raw(frame, sizeof(frame) - 1);
	assert_int_equal(simside_b.msgs, 0);
	assert_int_equal(simside_b.status, -ECONNRESET);
}

static void
good_frames_before_a_broken_one_count(void **state)
{
	uint8_t frames[2][KV_HEADER_BYTES + sizeof(struct kv_ping)] = { 0 };

	(void)state;
	kv_msg_seal(frames[0], KV_MSG_PING, 0, 1, sizeof(struct kv_ping), 0);
	kv_msg_seal(frames[1], KV_MSG_PING, 0, 2, sizeof(struct kv_ping), 0);
	frames[1][KV_HEADER_BYTES]++;
	speak_raw(frames, sizeof(frames));
	assert_int_equal(simside_b.msgs, 1);
	assert_int_equal(simside_b.status, -EPROTO);
}

/* ---- what begins and does not end ---- */

static struct kv_stream *raw;
static uint8_t long_frame[KV_HEADER_BYTES + KV_TAIL_MAX];

/* In the place of side a, as above, but its stream stays open. */
static void
raw_begin(void)
{
	raw = kv_conn_detach(simside_a.c);
	assert_non_null(raw);
	simside_a.c = NULL;
}

static void
raw_say(const void *bytes, size_t n)
{
	struct iovec iov = { (void *)(uintptr_t)bytes, n };

	assert_int_equal(raw->ops->writev(raw, &iov, 1), n);
	simside_run_ms(1);
}

/* Says n bytes of what comes to an end only later; where that stands. */
static const uint8_t *
raw_say_part(size_t n)
{
	kv_msg_seal(long_frame, KV_MSG_STATS_R, 0, 1, 100000, 0);
	raw_say(long_frame, n);
	return long_frame + n;
}

static void
a_frame_that_stops_ends_the_connection(void **state)
{
	(void)state;
	raw_begin();
	raw_say_part(50000);
	simside_run_ms(9900);
	assert_int_equal(simside_b.closes, 0);
	simside_run_ms(100);
	assert_int_equal(simside_b.closes, 1);
	assert_int_equal(simside_b.status, -ETIMEDOUT);
	raw->ops->close(raw);
}

static void
a_frame_that_trickles_ends_it_too(void **state)
{
	const uint8_t *at;
	int seconds;

	(void)state;
	raw_begin();
	at = raw_say_part(1);
	for (seconds = 0; seconds < 60 && !simside_b.closes; seconds += 5) {
		simside_run_ms(5000);
		if (!simside_b.closes)
			raw_say(at++, 1);
	}
	assert_int_equal(seconds, 30);
	assert_int_equal(simside_b.status, -ETIMEDOUT);
	raw->ops->close(raw);
}

/* Each of them is there in time, though there is always one half there. */
static void
frames_that_come_slowly_are_welcome(void **state)
{
	uint8_t frame[KV_HEADER_BYTES + sizeof(struct kv_ping)] = { 0 };
	const size_t half = sizeof(frame) / 2;

	(void)state;
	kv_msg_seal(frame, KV_MSG_PING, 0, 1, sizeof(struct kv_ping), 0);
	raw_begin();
	raw_say(frame, half);
	for (int i = 1; i <= 20; i++) {
		simside_run_ms(8000);
		raw_say(frame + half, sizeof(frame) - half);
		assert_int_equal(simside_b.msgs, i);
		raw_say(frame, half);
	}
	raw_say(frame + half, sizeof(frame) - half);
	simside_run_ms(100000); /* idle */
	assert_int_equal(simside_b.msgs, 21);
	assert_int_equal(simside_b.closes, 0);
	raw->ops->close(raw);
	simside_run_ms(1);
}

static void
a_payload_takes_its_time_but_moves(void **state)
{
	uint8_t frame[KV_HEADER_BYTES + sizeof(struct kv_data)] = { 0 };

	(void)state;
	kv_msg_seal(frame, KV_MSG_DATA, 0, 1, sizeof(struct kv_data), 1000);
	raw_begin();
	raw_say(frame, sizeof(frame));
	for (int i = 0; i < 20; i++) {
		raw_say(long_frame, 10);
		simside_run_ms(8000);
	}
	assert_int_equal(simside_b.closes, 0);
	simside_run_ms(2100);
	assert_int_equal(simside_b.closes, 1);
	assert_int_equal(simside_b.status, -ETIMEDOUT);
	raw->ops->close(raw);
}

static void
who_does_not_read_does_not_blame_the_other(void **state)
{
	const uint8_t *at;

	(void)state;
	raw_begin();
	at = raw_say_part(1000);
	kv_conn_pause(simside_b.c, true);
	raw_say(at, 60000);
	simside_run_ms(100000);
	kv_conn_pause(simside_b.c, false);
	simside_run_ms(9000);
	assert_int_equal(simside_b.closes, 0);
	raw_say(at + 60000, KV_HEADER_BYTES + 100000 - 61000);
	assert_int_equal(simside_b.msgs, 1);
	raw->ops->close(raw);
	simside_run_ms(1);
}

static void
reset_is_told(void **state)
{
	(void)state;
	simnet_reset(simside_pair.sn, "a", "b");
	simside_run_ms(1);
	assert_int_equal(simside_a.status, -ECONNRESET);
	assert_int_equal(simside_b.status, -ECONNRESET);
}

static void
dead_process_is_noticed(void **state)
{
	(void)state;
	simnet_process_exit(simside_pair.sn, 1);
	simside_run_ms(1);
	assert_int_equal(simside_b.status, -ECONNRESET);
	assert_int_equal(simside_a.closes, 0);
}

static void
cut_link_is_silent(void **state)
{
	(void)state;
	simnet_cut(simside_pair.sn, "a", NULL);
	simside_ping(&simside_a, 1);
	simside_ping(&simside_b, 2);
	simside_run_ms(100000);
	assert_int_equal(simside_b.msgs, 0);
	assert_int_equal(simside_a.msgs, 1);
	simnet_heal(simside_pair.sn, "a", "b");
	simside_run_ms(1);
	assert_int_equal(simside_b.msgs, 1);
	assert_int_equal(simside_a.closes + simside_b.closes, 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		ON_TCP(payload_arrives_in_place),
		ON_TCP(payload_is_dropped_on_demand),
		ON_TCP(empty_payload_is_none),
		ON_TCP(payload_without_room_closes),
		ON_TCP(payload_that_nobody_expects_is_refused),
		ON_TCP(payload_under_way_is_let_go),
		ON_TCP(broken_magic_is_refused),
		ON_TCP(other_version_is_refused),
		ON_TCP(too_long_a_frame_is_refused),
		ON_TCP(payload_of_a_type_without_is_refused),
		ON_TCP(frame_cut_short_is_no_message),
		ON_TCP(good_frames_before_a_broken_one_count),
		ON_TCP(a_frame_that_stops_ends_the_connection),
		ON_TCP(a_frame_that_trickles_ends_it_too),
		ON_TCP(frames_that_come_slowly_are_welcome),
		ON_TCP(a_payload_takes_its_time_but_moves),
		ON_TCP(who_does_not_read_does_not_blame_the_other),
		ON_TCP(reset_is_told),
		ON_TCP(dead_process_is_noticed),
		ON_TCP(cut_link_is_silent),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
