#include "net/sendq.h"

#include <errno.h>
#include <string.h>

#include "base/limits.h"
#include "net/conn.h"
#include "test.h"

static struct kv_sendq q;
static struct kv_list done;

static int
setup(void **state)
{
	(void)state;
	kv_sendq_init(&q);
	kv_list_init(&done);
	return 0;
}

static int
teardown(void **state)
{
	(void)state;
	kv_sendq_fini(&q);
	return 0;
}

static void
add(size_t n, int fill)
{
	memset(kv_sendq_grow(&q, n), fill, n);
	assert_int_equal(kv_sendq_end(&q, NULL, 0, NULL), 0);
}

static size_t
count_done(int status)
{
	struct kv_conn_sent *sent;
	size_t n = 0;

	KV_LIST_FOREACH(sent, &done, link) {
		assert_int_equal(sent->status, status);
		n++;
	}
	return n;
}

static void
frames_are_one_piece(void **state)
{
	struct iovec iov[4];

	(void)state;
	assert_true(kv_sendq_is_empty(&q));
	for (int i = 0; i < 100; i++)
		add(100, i);
	assert_int_equal(kv_sendq_gather(&q, iov, 4), 1);
	assert_int_equal(iov[0].iov_len, 10000);
	assert_int_equal(((uint8_t *)iov[0].iov_base)[150], 1);
	kv_sendq_advance(&q, 150, &done);
	assert_int_equal(kv_sendq_gather(&q, iov, 4), 1);
	assert_int_equal(iov[0].iov_len, 9850);
	assert_int_equal(((uint8_t *)iov[0].iov_base)[0], 1);
	kv_sendq_advance(&q, 9850, &done);
	assert_true(kv_sendq_is_empty(&q));
	assert_int_equal(kv_sendq_bytes(&q), 0);
}

static void
payload_lies_between_its_frames(void **state)
{
	char bytes[] = "payload";
	struct iovec payload[3] = { { bytes, 3 }, { bytes, 0 }, { bytes, 5 } };
	struct kv_conn_sent sent[2] = { 0 };
	struct iovec iov[8];

	(void)state;
	add(10, 1);
	memset(kv_sendq_grow(&q, 20), 2, 20);
	assert_int_equal(kv_sendq_end(&q, payload, 3, &sent[0]), 0);
	memset(kv_sendq_grow(&q, 30), 3, 30);
	assert_int_equal(kv_sendq_end(&q, NULL, 0, &sent[1]), 0);
	add(40, 4);
	memset(kv_sendq_grow(&q, 50), 5, 50);
	assert_int_equal(kv_sendq_gather(&q, iov, 2), 2);
	assert_int_equal(kv_sendq_gather(&q, iov, 8), 5);
	assert_int_equal(iov[0].iov_len, 30);
	assert_ptr_equal(iov[1].iov_base, bytes);
	assert_int_equal(iov[2].iov_len, 5);
	assert_int_equal(iov[3].iov_len, 30);
	assert_int_equal(iov[4].iov_len, 40);

	kv_sendq_advance(&q, 37, &done);
	assert_int_equal(count_done(0), 0);
	kv_sendq_advance(&q, 1, &done);
	assert_int_equal(count_done(0), 1);
	assert_ptr_equal(done.next, &sent[0].link);
	kv_sendq_advance(&q, 31, &done);
	assert_int_equal(count_done(0), 2);
	kv_sendq_advance(&q, 39, &done);
	assert_true(kv_sendq_is_empty(&q));
	assert_int_equal(q.open, 50);
	assert_int_equal(kv_sendq_frame(&q)[49], 5);
	kv_sendq_drop(&q);
	assert_int_equal(kv_sendq_bytes(&q), 0);
}

static void
failed_queue_is_empty(void **state)
{
	struct kv_conn_sent sent[2] = { 0 };
	struct iovec payload = { sent, 8 };

	(void)state;
	for (int i = 0; i < 2; i++) {
		assert_non_null(kv_sendq_grow(&q, 10));
		assert_int_equal(kv_sendq_end(&q, &payload, 1, &sent[i]), 0);
	}
	add(10, 0);
	kv_sendq_fail(&q, -EPIPE, &done);
	assert_int_equal(count_done(-EPIPE), 2);
	assert_true(kv_sendq_is_empty(&q));
	assert_int_equal(kv_sendq_bytes(&q), 0);
}

/* It never becomes empty, and after a while it never allocates. */
static void
moving_queue_stays_small(void **state)
{
	uint8_t *mem;
	size_t cap, run_cap;
	char byte = 0;
	struct iovec payload = { &byte, 1 };

	(void)state;
	for (int i = 0; i < 20; i++)
		add(100, i);
	for (int i = 0; i < 1000; i++) {
		assert_non_null(kv_sendq_grow(&q, 100));
		assert_int_equal(kv_sendq_end(&q, &payload, 1, NULL), 0);
		kv_sendq_advance(&q, i < 20 ? 100 : 101, &done);
	}
	mem = q.bytes.mem;
	cap = q.bytes.cap;
	run_cap = q.runs.cap;
	assert_true(cap <= 16384);
	for (int i = 0; i < 100000; i++) {
		assert_non_null(kv_sendq_grow(&q, 100));
		assert_int_equal(kv_sendq_end(&q, &payload, 1, NULL), 0);
		kv_sendq_advance(&q, 101, &done);
	}
	assert_ptr_equal(q.bytes.mem, mem);
	assert_int_equal(q.bytes.cap, cap);
	assert_int_equal(q.runs.cap, run_cap);
}

static void
large_buffer_goes_when_not_needed(void **state)
{
	(void)state;
	add(1000000, 0);
	kv_sendq_advance(&q, 1000000, &done);
	assert_true(q.bytes.cap >= 1000000);
	for (int i = 0; i < 100; i++) {
		add(100, 0);
		kv_sendq_advance(&q, 100, &done);
	}
	assert_true(q.bytes.cap < 10000);
	/* One that is needed now and then stays. */
	for (int i = 0; i < 100; i++) {
		add(i % 10 ? 100 : 1000000, 0);
		kv_sendq_advance(&q, i % 10 ? 100 : 1000000, &done);
	}
	assert_true(q.bytes.cap >= 1000000);
}

static void
limit_counts_what_is_buffered(void **state)
{
	static char bytes[100];
	struct iovec payload[64];
	size_t n = 0;

	(void)state;
	for (int i = 0; i < 64; i++)
		payload[i] = (struct iovec){ bytes, sizeof(bytes) };
	while (kv_sendq_grow(&q, 1000000))
		if (kv_sendq_end(&q, NULL, 0, NULL) == 0)
			n++;
	assert_int_equal(errno, ENOBUFS);
	assert_int_equal(n, KV_CONN_QUEUE_BYTES_MAX / 1000000);
	kv_sendq_fail(&q, -EPIPE, &done);

	/* References to payload are memory, too. */
	for (n = 0; kv_sendq_grow(&q, 1); n++)
		if (kv_sendq_end(&q, payload, 64, NULL) < 0)
			break;
	assert_true(n > 10000);
	assert_true(kv_sendq_bytes(&q) <= KV_CONN_QUEUE_BYTES_MAX);
}

#define WITH_QUEUE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_QUEUE(frames_are_one_piece),
		WITH_QUEUE(payload_lies_between_its_frames),
		WITH_QUEUE(failed_queue_is_empty),
		WITH_QUEUE(moving_queue_stays_small),
		WITH_QUEUE(large_buffer_goes_when_not_needed),
		WITH_QUEUE(limit_counts_what_is_buffered),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
