#include "net/recvq.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "test.h"

/* What the peer has sent, and how far it was read. */
static uint8_t wire[8 << 20];
static size_t put, got;
static size_t payload_read; /* bytes that were read to their place */
static int reads;
static struct kv_recvq q;

static int
setup(void **state)
{
	(void)state;
	kv_recvq_init(&q, 0);
	put = got = payload_read = 0;
	reads = 0;
	return 0;
}

static int
teardown(void **state)
{
	(void)state;
	kv_recvq_fini(&q);
	return 0;
}

static void
send_frame(enum kv_msg_type type, size_t tail, size_t payload)
{
	uint8_t *p = wire + put;
	size_t n = kv_msg_body_bytes(type) + tail;

	memset(p + KV_HEADER_BYTES, 't', n);
	kv_msg_seal(p, type, 0, 1, n, (uint32_t)payload);
	memset(p + KV_HEADER_BYTES + n, 'p', payload);
	put += KV_HEADER_BYTES + n + payload;
}

/* One read, of no more than `most` bytes. */
static void
read_once(size_t most)
{
	struct iovec iov[KV_RECVQ_IOV_MAX];
	size_t asked = 0, taken = 0;
	int n = kv_recvq_aim(&q, iov, &asked);

	assert_in_range(n, 1, KV_RECVQ_IOV_MAX);
	most = kv_min_size(most, put - got);
	for (int i = 0; i < n && taken < most; i++) {
		size_t part = kv_min_size(iov[i].iov_len, most - taken);

		memcpy(iov[i].iov_base, wire + got + taken, part);
		taken += part;
		if (i + 1 < n)
			payload_read += part;
	}
	got += taken;
	reads++;
	kv_recvq_took(&q, taken);
}

/* The next thing, reading as often as it takes. */
static int
next(struct kv_msg *msg)
{
	int rc;

	while ((rc = kv_recvq_next(&q, msg)) == KV_RECVQ_MORE)
		read_once(SIZE_MAX);
	return rc;
}

static void
small_frames_come_with_one_read(void **state)
{
	struct kv_msg msg;

	(void)state;
	for (int i = 0; i < 500; i++)
		send_frame(KV_MSG_PING, 0, 0);
	for (int i = 0; i < 500; i++)
		assert_int_equal(next(&msg), KV_RECVQ_MSG);
	assert_int_equal(reads, 1);
	assert_true(kv_recvq_is_empty(&q));
	assert_int_equal(kv_recvq_next(&q, &msg), KV_RECVQ_MORE);
}

static void
bulk_is_not_copied(void **state)
{
	enum {
		BYTES = 1 << 20,
		FRAMES = 7
	};
	uint8_t *room = malloc(BYTES);
	struct kv_msg msg;

	(void)state;
	assert_non_null(room);
	for (int i = 0; i < FRAMES; i++)
		send_frame(KV_MSG_DATA, 0, BYTES);
	for (int i = 0; i < FRAMES; i++) {
		assert_int_equal(next(&msg), KV_RECVQ_PAYLOAD);
		assert_int_equal(msg.payload, BYTES);
		q.iov[0] = (struct iovec){ room, BYTES / 2 };
		q.iov[1] = (struct iovec){ room + BYTES / 2, BYTES / 2 };
		memset(room, 0, BYTES);
		kv_recvq_place(&q, 2);
		assert_int_equal(next(&msg), KV_RECVQ_MSG);
		assert_int_equal(msg.type, KV_MSG_DATA);
		assert_int_equal(((const uint8_t *)msg.body)[0], 't');
		for (size_t k = 0; k < BYTES; k++)
			assert_int_equal(room[k], 'p');
	}
	/* The first read did not know; later ones bring one header each. */
	assert_true(put - payload_read < (64 << 10) + FRAMES * 512);
	assert_int_equal(reads, FRAMES + 1);
	free(room);
}

static void
frame_is_kept_while_its_payload_comes(void **state)
{
	enum {
		TAIL = 900000,
		BYTES = 100000
	};
	uint8_t *room = malloc(BYTES);
	struct kv_msg msg;

	(void)state;
	assert_non_null(room);
	send_frame(KV_MSG_XFER, TAIL, BYTES);
	send_frame(KV_MSG_PING, 0, 0);
	assert_int_equal(next(&msg), KV_RECVQ_PAYLOAD);
	q.iov[0] = (struct iovec){ room, BYTES };
	kv_recvq_place(&q, 1);
	assert_int_equal(next(&msg), KV_RECVQ_MSG);
	assert_int_equal(msg.tail_len, TAIL);
	for (size_t k = 0; k < TAIL; k++)
		assert_int_equal(msg.tail[k], 't');
	assert_int_equal(next(&msg), KV_RECVQ_MSG);
	assert_int_equal(msg.type, KV_MSG_PING);
	free(room);
}

/* Room to read ahead is made behind the frame, which may move for it. */
static void
frame_at_the_end_of_the_buffer(void **state)
{
	static uint8_t room[100000];
	struct kv_msg msg;

	(void)state;
	send_frame(KV_MSG_XFER, (64 << 10) - 100, sizeof(room));
	assert_int_equal(next(&msg), KV_RECVQ_PAYLOAD);
	q.iov[0] = (struct iovec){ room, sizeof(room) };
	kv_recvq_place(&q, 1);
	assert_int_equal(next(&msg), KV_RECVQ_MSG);
	for (size_t k = 0; k < sizeof(struct kv_xfer); k++)
		assert_int_equal(((const uint8_t *)msg.body)[k], 't');
	for (size_t k = 0; k < msg.tail_len; k++)
		assert_int_equal(msg.tail[k], 't');
}

/* The header of a next payload comes alone, small frames together again. */
static void
reading_ahead_fits_what_came_last(void **state)
{
	enum {
		BYTES = 1 << 20
	};
	uint8_t *room = malloc(BYTES);
	struct kv_msg msg;

	(void)state;
	assert_non_null(room);
	for (int i = 0; i < 2; i++) {
		send_frame(KV_MSG_DATA, 0, BYTES);
		assert_int_equal(next(&msg), KV_RECVQ_PAYLOAD);
		q.iov[0] = (struct iovec){ room, BYTES };
		kv_recvq_place(&q, 1);
		assert_int_equal(next(&msg), KV_RECVQ_MSG);
	}
	assert_true(put - payload_read <= (64 << 10) + 512);
	reads = 0;
	for (int i = 0; i < 500; i++)
		send_frame(KV_MSG_PING, 0, 0);
	for (int i = 0; i < 500; i++)
		assert_int_equal(next(&msg), KV_RECVQ_MSG);
	assert_int_equal(reads, 2);
	free(room);
}

static void
many_pieces_take_several_reads(void **state)
{
	enum {
		PIECES = 1000,
		BYTES = PIECES * 100
	};
	static uint8_t room[BYTES];
	struct kv_msg msg;

	(void)state;
	send_frame(KV_MSG_DATA, 0, BYTES);
	send_frame(KV_MSG_PING, 0, 0);
	read_once(KV_HEADER_BYTES + sizeof(struct kv_data) + 50);
	assert_int_equal(next(&msg), KV_RECVQ_PAYLOAD);
	for (int i = 0; i < PIECES; i++)
		q.iov[i] = (struct iovec){ room + i * 100, 100 };
	kv_recvq_place(&q, PIECES);
	assert_int_equal(next(&msg), KV_RECVQ_MSG);
	assert_int_equal(reads, 1 + (PIECES + 63) / 64);
	assert_int_equal(room[0] + room[BYTES - 1], 2 * 'p');
	assert_int_equal(next(&msg), KV_RECVQ_MSG);
	assert_int_equal(msg.type, KV_MSG_PING);
}

static void
dropped_payload_leaves_the_next_frame(void **state)
{
	struct kv_msg msg;

	(void)state;
	send_frame(KV_MSG_DATA, 0, 300000);
	send_frame(KV_MSG_DATA, 0, 10);
	send_frame(KV_MSG_PING, 0, 0);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(next(&msg), KV_RECVQ_PAYLOAD);
		kv_recvq_place(&q, 0);
		assert_int_equal(next(&msg), KV_RECVQ_MSG);
		assert_int_equal(msg.type, KV_MSG_DATA);
	}
	assert_int_equal(next(&msg), KV_RECVQ_MSG);
	assert_int_equal(msg.type, KV_MSG_PING);
	assert_true(kv_recvq_is_empty(&q));
}

static void
buffer_follows_the_need(void **state)
{
	struct kv_msg msg;

	(void)state;
	send_frame(KV_MSG_PING, 0, 0);
	assert_int_equal(next(&msg), KV_RECVQ_MSG);
	assert_true(q.cap <= 64 << 10);
	send_frame(KV_MSG_STATS_R, 1000000, 0);
	assert_int_equal(next(&msg), KV_RECVQ_MSG);
	assert_true(q.cap >= 1000000);
	for (int i = 0; i < 100; i++) {
		send_frame(KV_MSG_PING, 0, 0);
		assert_int_equal(next(&msg), KV_RECVQ_MSG);
	}
	assert_true(q.cap <= 64 << 10);
}

/* Not what the peer says that it will need. */
static void
buffer_grows_with_what_came(void **state)
{
	struct kv_msg msg;
	int rc;

	(void)state;
	send_frame(KV_MSG_STATS_R, 1000000, 0);
	for (size_t n = 1; n < put; n += put / 50) {
		rc = kv_recvq_next(&q, &msg);
		assert_int_equal(rc, KV_RECVQ_MORE);
		read_once(n - got);
		assert_true(q.cap <= kv_max_size(64 << 10, 2 * got));
	}
	assert_int_equal(next(&msg), KV_RECVQ_MSG);
	assert_int_equal(msg.tail_len, 1000000);
}

static void
broken_frame_is_an_error(void **state)
{
	struct kv_msg msg;

	(void)state;
	send_frame(KV_MSG_PING, 0, 0);
	wire[KV_HEADER_BYTES]++;
	assert_int_equal(next(&msg), -EPROTO);
}

#define WITH_QUEUE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_QUEUE(small_frames_come_with_one_read),
		WITH_QUEUE(bulk_is_not_copied),
		WITH_QUEUE(frame_is_kept_while_its_payload_comes),
		WITH_QUEUE(frame_at_the_end_of_the_buffer),
		WITH_QUEUE(reading_ahead_fits_what_came_last),
		WITH_QUEUE(many_pieces_take_several_reads),
		WITH_QUEUE(dropped_payload_leaves_the_next_frame),
		WITH_QUEUE(buffer_follows_the_need),
		WITH_QUEUE(buffer_grows_with_what_came),
		WITH_QUEUE(broken_frame_is_an_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
