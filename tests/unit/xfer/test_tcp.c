/* Data connections to a peer that misbehaves: a thread with a plain socket. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/num.h"
#include "fakeengine.h"
#include "kvpool.h"
#include "test.h"
#include "wire/msg.h"
#include "xfer/regtable.h"
#include "xfer/tcp.h"

enum {
	BASE = 0x10000,
	LEN = 3 << 20, /* one connection, one frame */
};

static const struct kv_id own = { .b = "dialler" };
static const struct kv_id boot = { .b = "peer" };
static char buffer[LEN], seen[LEN + 1];

/* ---- the peer ---- */

enum manner {
	GOOD,
	EARLY,         /* answers a write before its bytes came */
	GONE,          /* is another process */
	MUTE,          /* says no HELLO_R */
	HANGS_UP,      /* when asked */
	HANGS_UP_LATE, /* in the middle of the bytes of an answer */
	REFUSES,       /* does not know the region */
	TOO_LONG,      /* an answer with a byte more */
	TOO_SHORT,     /* with a byte fewer */
	BARE,          /* with none */
	REFUSES_WITH_BYTES,
	WRITE_WITH_BYTES, /* answers a write with bytes */
	WRONG_ID,
	WRONG_TYPE,
	DRIBBLES, /* the bytes of an answer come slowly and never end */
	NEVER_READS,
};

static struct fakeengine peer;
static enum manner manner;

static void
dribble(struct fakeconn *c, uint32_t len)
{
	fakeengine_put(c, seen, len / 2);
	while (!atomic_load(&peer.over)) {
		if (send(c->fd, seen, 100, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 &&
		    errno != EAGAIN)
			return;
		usleep(1000);
	}
}

static void
answer_read(struct fakeconn *c, uint64_t id, uint32_t len)
{
	struct kv_xfer_r r = { 0 };

	switch (manner) {
	case REFUSES:
		r.status = KV_EINVALID;
		fakeengine_answer(c, KV_MSG_XFER_R, id, &r, 0);
		return;
	case REFUSES_WITH_BYTES:
		r.status = KV_EINVALID;
		break;
	case TOO_LONG:
		len++;
		break;
	case TOO_SHORT:
		len--;
		break;
	case BARE:
		len = 0;
		break;
	case WRONG_ID:
		id++;
		break;
	default:
		break;
	}
	fakeengine_answer(c, KV_MSG_XFER_R, id, &r, len);
	if (manner == DRIBBLES)
		dribble(c, len);
	else if (manner == HANGS_UP_LATE)
		fakeengine_put(c, seen, len / 2);
	else
		fakeengine_put(c, seen, len);
}

static void
answer_write(struct fakeconn *c, const struct kv_msg *msg)
{
	struct kv_xfer_r r = { 0 };

	if (manner == EARLY) {
		fakeengine_answer(c, KV_MSG_XFER_R, msg->id, &r, 0);
		usleep(100000);
	}
	if (!fakeengine_get(c, seen, msg->payload) || manner == EARLY)
		return;
	fakeengine_answer(c, KV_MSG_XFER_R, msg->id, &r,
			  manner == WRITE_WITH_BYTES ? 10 : 0);
	if (manner == WRITE_WITH_BYTES)
		fakeengine_put(c, seen, 10);
}

static bool
obey(struct fakeconn *c, const struct kv_msg *msg)
{
	const struct kv_xfer *x = msg->body;
	const struct kv_xfer_piece *p = (const void *)msg->tail;
	struct kv_ping ping = { 0 };

	while (manner == NEVER_READS && !atomic_load(&peer.over))
		usleep(1000);
	if (manner == HANGS_UP || manner == NEVER_READS)
		return false;
	if (manner == WRONG_TYPE)
		fakeengine_answer(c, KV_MSG_PING_R, msg->id, &ping, 0);
	else if (x->op == KV_XFER_READ)
		answer_read(c, msg->id, (uint32_t)kv_get64(p->len));
	else
		answer_write(c, msg);
	return manner != HANGS_UP_LATE;
}

static void
start_peer(enum manner how)
{
	manner = how;
	memset(&peer, 0, sizeof(peer));
	peer.boot = boot;
	peer.obey = obey;
	peer.hello_status = how == GONE ? KV_EGONE : 0;
	peer.is_mute = how == MUTE;
	fakeengine_start(&peer);
}

/* ---- this side ---- */

static struct kv_tcp *
tcp_new(void)
{
	struct kv_tcp_opts opts = {
		.addr = peer.addr,
		.own = &own,
		.boot = &boot,
	};
	struct kv_tcp *t = kv_tcp_new(&opts);

	assert_non_null(t);
	return t;
}

static int
move(struct kv_tcp *t, enum kv_engine_op op, unsigned timeout_ms)
{
	static atomic_bool closing;
	const struct kv_clock clock = { 0 };
	struct kv_xfer_item item = {
		.local = buffer,
		.remote = BASE,
		.len = LEN,
	};
	struct kv_slice_cursor cursor = { .item = &item, .left = LEN };
	struct kv_wait wait = {
		.deadline_ns = kv_clock_now(&clock) + timeout_ms * KV_NS_PER_MS,
		.closing = &closing,
	};
	struct kv_regtable *table =
		calloc(1, sizeof(*table) + sizeof(table->entries[0]));
	struct kv_tcp_move m = {
		.op = op,
		.table = table,
		.cursor = &cursor,
		.wait = &wait,
	};
	int rc;

	table->refs = 1;
	table->n = 1;
	table->entries[0] = (struct kv_regtable_entry){
		.addr = BASE,
		.len = LEN,
		.handle = 1,
	};
	rc = kv_tcp_move(t, &m);
	if (rc == 0)
		assert_int_equal(cursor.left, 0);
	kv_regtable_unref(table);
	return rc;
}

static int
once(enum manner how, enum kv_engine_op op, unsigned timeout_ms)
{
	struct kv_tcp *t;
	int rc;

	start_peer(how);
	t = tcp_new();
	rc = move(t, op, timeout_ms);
	kv_tcp_free(t);
	fakeengine_end(&peer);
	return rc;
}

static void
fill(char *p, char seed)
{
	for (size_t i = 0; i < LEN; i++)
		p[i] = (char)(i * 13 + i / 1000 + (unsigned char)seed);
}

static void
good_peers_are_used_again(void **state)
{
	struct kv_tcp *t;

	(void)state;
	start_peer(GOOD);
	t = tcp_new();
	for (char i = 0; i < 3; i++) {
		fill(buffer, i);
		assert_int_equal(move(t, KV_ENGINE_WRITE, 10000), 0);
		assert_memory_equal(buffer, seen, LEN);
		memset(buffer, 0, LEN);
		assert_int_equal(move(t, KV_ENGINE_READ, 10000), 0);
		assert_memory_equal(buffer, seen, LEN);
	}
	kv_tcp_free(t);
	fakeengine_end(&peer);
}

/* The connection still reads the buffer: the call is not over. */
static void
an_early_answer_does_not_end_a_write(void **state)
{
	(void)state;
	fill(buffer, 1);
	memset(seen, 0, LEN);
	start_peer(EARLY);
	{
		struct kv_tcp *t = tcp_new();

		assert_int_equal(move(t, KV_ENGINE_WRITE, 10000), 0);
		memset(buffer, 0, LEN);
		kv_tcp_free(t);
	}
	fakeengine_end(&peer);
	fill(buffer, 1);
	/* What had left arrived as it was. */
	for (size_t i = 0; i < LEN; i++)
		if (seen[i] != buffer[i])
			fail_msg("byte %zu was taken after the call", i);
}

static void
another_process_is_told(void **state)
{
	(void)state;
	assert_int_equal(once(GONE, KV_ENGINE_READ, 10000), -ESTALE);
}

static void
nobody_there_is_told(void **state)
{
	struct kv_tcp *t;

	(void)state;
	start_peer(GOOD);
	fakeengine_end(&peer);
	t = tcp_new();
	assert_int_equal(move(t, KV_ENGINE_READ, 10000), -EHOSTUNREACH);
	kv_tcp_free(t);
}

static void
silence_costs_the_deadline(void **state)
{
	(void)state;
	assert_int_equal(once(MUTE, KV_ENGINE_READ, 100), -ETIMEDOUT);
	assert_int_equal(once(NEVER_READS, KV_ENGINE_WRITE, 100), -ETIMEDOUT);
	assert_int_equal(once(WRONG_ID, KV_ENGINE_READ, 100), -EPROTO);
}

static void
a_lost_connection_is_told(void **state)
{
	(void)state;
	assert_int_equal(once(HANGS_UP, KV_ENGINE_READ, 10000), -ECONNRESET);
	assert_int_equal(once(HANGS_UP, KV_ENGINE_WRITE, 10000), -ECONNRESET);
	assert_int_equal(once(HANGS_UP_LATE, KV_ENGINE_READ, 10000),
			 -ECONNRESET);
}

static void
an_unknown_region_is_told(void **state)
{
	(void)state;
	assert_int_equal(once(REFUSES, KV_ENGINE_READ, 10000), -EINVAL);
}

static void
answers_that_lie_are_refused(void **state)
{
	static const enum manner reads[] = {
		TOO_LONG, TOO_SHORT, BARE, REFUSES_WITH_BYTES, WRONG_TYPE,
	};

	(void)state;
	for (size_t i = 0; i < sizeof(reads) / sizeof(reads[0]); i++)
		assert_int_equal(once(reads[i], KV_ENGINE_READ, 10000),
				 -EPROTO);
	assert_int_equal(once(WRITE_WITH_BYTES, KV_ENGINE_WRITE, 10000),
			 -EPROTO);
}

/* Bytes of an answer keep coming; none reaches the buffer after the call. */
static void
no_byte_comes_after_the_deadline(void **state)
{
	(void)state;
	for (int round = 0; round < 3; round++) {
		struct kv_tcp *t;

		memset(seen, 'x', LEN);
		start_peer(DRIBBLES);
		t = tcp_new();
		assert_int_equal(move(t, KV_ENGINE_READ, 200), -ETIMEDOUT);
		assert_int_equal(peer.served, 1);
		memset(buffer, 'b', LEN);
		usleep(50000);
		for (size_t i = 0; i < LEN; i++)
			assert_int_equal(buffer[i], 'b');
		kv_tcp_free(t);
		fakeengine_end(&peer);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(good_peers_are_used_again),
		cmocka_unit_test(an_early_answer_does_not_end_a_write),
		cmocka_unit_test(another_process_is_told),
		cmocka_unit_test(nobody_there_is_told),
		cmocka_unit_test(silence_costs_the_deadline),
		cmocka_unit_test(a_lost_connection_is_told),
		cmocka_unit_test(an_unknown_region_is_told),
		cmocka_unit_test(answers_that_lie_are_refused),
		cmocka_unit_test(no_byte_comes_after_the_deadline),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
