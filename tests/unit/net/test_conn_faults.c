/* What a connection does when memory cannot be had: it is lost, and says so. */
#include "net/conn.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "event/loop.h"
#include "net/fdstream.h"
#include "nth_fault.h"

enum {
	BYTES = 200000,
	FRAMES = 3,
	TRIES_MAX = 100,
};

/* Exit codes of the body. */
enum {
	NO_FAULT_MET,
	FAULT_TAKEN_WELL,
	BROKEN,
};

static int msgs, sents, lost[2];
static uint8_t from[BYTES], to[BYTES];

static void
on_msg(struct kv_conn *c, const struct kv_msg *msg)
{
	(void)c;
	(void)msg;
	msgs++;
}

static int
on_payload(struct kv_conn *c, const struct kv_msg *msg, struct iovec *iov,
	   int max)
{
	(void)c;
	(void)max;
	iov[0] = (struct iovec){ to, msg->payload };
	return 1;
}

static void
on_close(struct kv_conn *c, int status)
{
	int *where = kv_conn_arg(c);

	*where = status;
}

static void
on_sent(struct kv_conn_sent *sent, int status)
{
	(void)sent;
	(void)status;
	sents++;
}

static const struct kv_conn_ops ops = {
	.on_msg = on_msg,
	.on_payload = on_payload,
	.on_close = on_close,
};

/* A large frame and payload. How many `sent` are to be called. */
static int
send_all(struct kv_conn *c, struct kv_conn_sent *sent)
{
	struct iovec iov = { from, sizeof(from) };
	uint8_t *p;

	if (!kv_conn_begin(c, KV_MSG_STATS_R, 1, 0))
		return 0;
	p = kv_conn_tail(c, BYTES);
	if (!p)
		return 0;
	memset(p, 'x', BYTES);
	kv_conn_end(c);
	if (!kv_conn_begin(c, KV_MSG_DATA, 2, 0))
		return 0;
	sent->fn = on_sent;
	kv_conn_end_payload(c, &iov, 1, sent);
	if (kv_conn_begin(c, KV_MSG_PING, 3, 0))
		kv_conn_end(c);
	return 1;
}

static int
talk(struct kv_loop *loop, struct kv_conn *a, struct kv_conn *b)
{
	uint64_t end = kv_loop_refresh(loop) + 5 * KV_NS_PER_S;
	struct kv_conn_sent sent = { 0 };
	int due = send_all(a, &sent);

	(void)b;
	while (kv_loop_now(loop) < end &&
	       (sents < due || (msgs < FRAMES && !(lost[0] && lost[1]))))
		kv_loop_turn(loop, end);
	if (sents != due)
		return BROKEN;
	if (lost[0] == -ENOMEM || lost[1] == -ENOMEM)
		return lost[0] && lost[1] ? FAULT_TAKEN_WELL : BROKEN;
	return msgs == FRAMES && !lost[0] && !lost[1] ? NO_FAULT_MET : BROKEN;
}

static int
use_conns(void)
{
	struct kv_loop *loop = kv_loop_new(NULL);
	struct kv_conn *c[2] = { NULL, NULL };
	int rc = FAULT_TAKEN_WELL, fds[2];

	if (!loop)
		return FAULT_TAKEN_WELL;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0,
		       fds) < 0)
		return BROKEN;
	for (int i = 0; i < 2; i++) {
		struct kv_stream *s = kv_fdstream_new(loop, fds[i]);

		if (s)
			c[i] = kv_conn_new(loop, s, &ops, &lost[i]);
		if (!c[i] && errno != ENOMEM)
			return BROKEN;
	}
	if (c[0] && c[1])
		rc = talk(loop, c[0], c[1]);
	kv_conn_close(c[0]);
	kv_conn_close(c[1]);
	kv_loop_free(loop); /* asserts that nothing is left in it */
	if (close(fds[0]) == 0 || close(fds[1]) == 0)
		return BROKEN;
	return rc;
}

static void
without_memory_it_is_lost(void **state)
{
	int rc = FAULT_TAKEN_WELL;
	unsigned n;

	(void)state;
	for (n = 1; n < TRIES_MAX && rc == FAULT_TAKEN_WELL; n++)
		rc = nth_fault_run(n, use_conns);
	assert_int_equal(rc, NO_FAULT_MET);
	/* A loop, two streams and connections, and what they grow into. */
	assert_true(n > 10);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		nth_fault_test(without_memory_it_is_lost),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
