/* What an engine answers to peers that are not what they should be, that lie,
 * or that ask too much, over a simulated network. */

#include <string.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "base/limits.h"
#include "kvpool.h"
#include "net/hello.h"
#include "test.h"
#include "xferrig.h"

static void
who_is_no_engine_is_refused(void **state)
{
	static const enum kv_role roles[] = { KV_ROLE_REQUESTER, KV_ROLE_DATA,
					      KV_ROLE_NODE, KV_ROLE_PROBE };
	char text[KV_HELLO_TEXT_BYTES];

	(void)state;
	assert_int_equal(xferrig_hello(roles[0], NULL, text), KV_EINVALID);
	assert_non_null(strstr(text, "engine"));
	/* What it says now is not heard, and it is closed in time. */
	xferrig_send(2, KV_XFER_READ, NULL, 0);
	xferrig_run(5000);
	assert_false(xf.peer.is_lost);
	assert_int_equal(wirepeer_count(&xf.peer, KV_MSG_XFER_R), 0);
	xferrig_run(6000);
	assert_true(xf.peer.is_lost);
	for (int i = 1; i < 4; i++) {
		xferrig_close(NULL);
		xferrig_tcp(NULL);
		assert_int_equal(xferrig_hello(roles[i], NULL, NULL),
				 KV_EINVALID);
	}
}

static void
another_process_is_meant(void **state)
{
	const struct kv_id other = { .b = "other" };

	(void)state;
	assert_int_equal(xferrig_hello(KV_ROLE_ENGINE, &other, NULL), KV_EGONE);
}

static void
silence_is_closed(void **state)
{
	(void)state;
	xferrig_run(9000);
	assert_false(xf.peer.is_lost);
	xferrig_run(2000);
	assert_true(xf.peer.is_lost);
}

static void
hello_comes_first(void **state)
{
	(void)state;
	xferrig_send(2, KV_XFER_READ, NULL, 0);
	xferrig_run(100);
	assert_int_equal(wirepeer_count(&xf.peer, KV_MSG_XFER_R), 0);
	xferrig_run(11000);
	assert_true(xf.peer.is_lost);
}

static void
a_payload_before_hello_is_not_taken(void **state)
{
	struct kv_xfer_piece p = xferrig_piece(xf.handle, 0, REGION);

	(void)state;
	xferrig_fill();
	xferrig_write(2, &p, 1, REGION);
	xferrig_expect_closed();
	assert_int_equal(xferrig_memory[1], 0);
}

/* The payload is dropped, the connection goes on. */
static void
what_is_unknown_is_drained(void **state)
{
	struct kv_xfer_piece bad[] = {
		xferrig_piece(xf.handle + 1, 0, 100),
		xferrig_piece(0, 0, 100),
		xferrig_piece(xf.handle, REGION - 99, 100),
		xferrig_piece(xf.handle, UINT64_MAX - 49, 100),
	};
	struct kv_xfer_piece p[2] = { xferrig_piece(xf.handle, 10, 100) };

	(void)state;
	xferrig_fill();
	assert_int_equal(xferrig_hello(KV_ROLE_ENGINE, NULL, NULL), 0);
	for (unsigned i = 0; i < 4; i++) {
		p[1] = bad[i];
		xferrig_write(10 + i, p, 2, 200);
		xferrig_send(20 + i, KV_XFER_READ, p, 2);
		xferrig_run(1000);
		xferrig_expect(10 + i, KV_EINVALID, NULL, 0);
		xferrig_expect(20 + i, KV_EINVALID, NULL, 0);
	}
	assert_int_equal(xferrig_memory[11], 0);
	xferrig_write(30, p, 1, 100);
	xferrig_run(1000);
	xferrig_expect(30, KV_OK, NULL, 0);
	assert_memory_equal(xferrig_memory + 10, xferrig_bytes, 100);
}

static void
lengths_that_lie_are_closed(void **state)
{
	struct kv_xfer_piece p[2] = { xferrig_piece(xf.handle, 0, 1000),
				      xferrig_piece(xf.handle, 0, UINT64_MAX) };

	(void)state;
	for (int i = 0; i < 5; i++) {
		xferrig_close(NULL);
		xferrig_tcp(NULL);
		p[0].handle = p[1].handle = kv_le64(xf.handle);
		assert_int_equal(xferrig_hello(KV_ROLE_ENGINE, NULL, NULL), 0);
		if (i < 2)
			xferrig_write(5, p, 1, i ? 1001 : 999);
		else if (i == 2)
			xferrig_send(5, KV_XFER_WRITE, p, 1); /* no payload */
		else if (i == 3)
			xferrig_send(5, KV_XFER_READ, p, 2);
		else
			xferrig_send(5, (enum kv_xfer_op)3, p, 1);
		xferrig_expect_closed();
	}
}

static void
counts_that_lie_are_closed(void **state)
{
	static struct kv_xfer_piece many[KV_XFER_PIECES_MAX + 1];
	struct kv_xfer x = { .op = KV_XFER_READ, .count = kv_le32(2) };

	(void)state;
	for (unsigned i = 0; i <= KV_XFER_PIECES_MAX; i++)
		many[i] = xferrig_piece(xf.handle, i, 1);
	xferrig_fill();
	memcpy(xferrig_memory, xferrig_bytes, REGION);
	assert_int_equal(xferrig_hello(KV_ROLE_ENGINE, NULL, NULL), 0);
	xferrig_send(5, KV_XFER_READ, many, KV_XFER_PIECES_MAX);
	xferrig_run(1000);
	xferrig_expect(5, KV_OK, xferrig_bytes, KV_XFER_PIECES_MAX);
	xferrig_send(6, KV_XFER_READ, many, KV_XFER_PIECES_MAX + 1);
	xferrig_expect_closed();
	xferrig_close(NULL);
	xferrig_tcp(NULL);
	assert_int_equal(xferrig_hello(KV_ROLE_ENGINE, NULL, NULL), 0);
	wirepeer_send(&xf.peer, KV_MSG_XFER, 5, &x, many, sizeof(many[0]));
	xferrig_expect_closed();
	xferrig_close(NULL);
	xferrig_tcp(NULL);
	assert_int_equal(xferrig_hello(KV_ROLE_ENGINE, NULL, NULL), 0);
	x.count = kv_le32(0);
	wirepeer_send(&xf.peer, KV_MSG_XFER, 5, &x, many, sizeof(many[0]));
	xferrig_expect_closed();
}

/* A read may not ask for more than a payload holds; memory need not be. */
static void
an_answer_has_a_bound(void **state)
{
	size_t len = (size_t)KV_PAYLOAD_MAX + 1;
	void *room = mmap(NULL, len, PROT_NONE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	struct kv_xfer_piece p;

	(void)state;
	assert_ptr_not_equal(room, MAP_FAILED);
	assert_int_equal(kv_region_add(&xf.regions, room, len, NULL), 0);
	p = xferrig_piece(xf.regions.last_handle, 0, len);
	assert_int_equal(xferrig_hello(KV_ROLE_ENGINE, NULL, NULL), 0);
	xferrig_send(5, KV_XFER_READ, &p, 1);
	xferrig_expect_closed();
	munmap(room, len);
}

static void
a_message_that_is_no_request_is_closed(void **state)
{
	static const enum kv_msg_type types[] = { KV_MSG_NODES, KV_MSG_HELLO,
						  KV_MSG_PING_R };

	(void)state;
	for (int i = 0; i < 3; i++) {
		xferrig_close(NULL);
		xferrig_tcp(NULL);
		assert_int_equal(xferrig_hello(KV_ROLE_ENGINE, NULL, NULL), 0);
		wirepeer_send(&xf.peer, types[i], 5, NULL, NULL, 0);
		xferrig_expect_closed();
	}
}

static void
more_reads_than_are_served_at_once(void **state)
{
	enum {
		READS = 5 * KV_ENGINE_READS_MAX
	};
	struct kv_xfer_piece p = xferrig_piece(xf.handle, 0, REGION);

	(void)state;
	xferrig_fill();
	memcpy(xferrig_memory, xferrig_bytes, REGION);
	assert_int_equal(xferrig_hello(KV_ROLE_ENGINE, NULL, NULL), 0);
	for (unsigned i = 0; i < READS; i++)
		xferrig_send(100 + i, KV_XFER_READ, &p, 1);
	xferrig_run(60000);
	for (unsigned i = 0; i < READS; i++)
		xferrig_expect(100 + i, KV_OK, xferrig_bytes, REGION);
}

/* Nobody reads what was asked for: the rest is not even begun. */
static void
a_peer_that_reads_nothing_holds_little(void **state)
{
	struct kv_xfer_piece p = xferrig_piece(xf.handle, 0, REGION);

	(void)state;
	assert_int_equal(xferrig_hello(KV_ROLE_ENGINE, NULL, NULL), 0);
	kv_conn_pause(xf.peer.c, true);
	for (unsigned i = 0; i < 1000; i++)
		xferrig_send(100 + i, KV_XFER_READ, &p, 1);
	xferrig_run(5000);
	assert_int_equal(xf.regions.by_addr[0]->users, KV_ENGINE_READS_MAX);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		OVER_TCP(who_is_no_engine_is_refused),
		OVER_TCP(another_process_is_meant),
		OVER_TCP(silence_is_closed),
		OVER_TCP(hello_comes_first),
		OVER_TCP(a_payload_before_hello_is_not_taken),
		OVER_TCP(what_is_unknown_is_drained),
		OVER_TCP(lengths_that_lie_are_closed),
		OVER_TCP(counts_that_lie_are_closed),
		OVER_TCP(an_answer_has_a_bound),
		OVER_TCP(a_message_that_is_no_request_is_closed),
		OVER_TCP(more_reads_than_are_served_at_once),
		OVER_TCP(a_peer_that_reads_nothing_holds_little),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
