#include "simside.h"

#include <string.h>

#include "test.h"

struct simpair simside_pair;
struct simside simside_a, simside_b;

void
simside_end(struct simside *s)
{
	kv_conn_close(s->c);
	s->c = NULL;
}

static void
on_msg(struct kv_conn *c, const struct kv_msg *msg)
{
	struct simside *s = kv_conn_arg(c);

	if (s->msgs < SIMSIDE_TOLD_MAX) {
		s->types[s->msgs] = msg->type;
		s->ids[s->msgs] = msg->id;
	}
	s->msgs++;
	if (s->pause_at_msg)
		kv_conn_pause(c, true);
	if (s->close_at_msg)
		simside_end(s);
}

static int
on_payload(struct kv_conn *c, const struct kv_msg *msg, struct iovec *iov,
	   int max)
{
	struct simside *s = kv_conn_arg(c);

	assert_int_equal(max, KV_CONN_PIECES_MAX);
	s->payloads++;
	if (s->close_at_payload)
		simside_end(s);
	if (s->refuse)
		return s->refuse;
	iov[0] = (struct iovec){ s->room, msg->payload };
	return s->room ? 1 : 0;
}

static void
on_close(struct kv_conn *c, int status)
{
	struct simside *s = kv_conn_arg(c);

	s->closes++;
	s->status = status;
	assert_false(kv_conn_is_open(c));
	assert_null(kv_conn_stream(c));
	if (s->close_at_close)
		simside_end(s);
}

static void
on_drain(struct kv_conn *c)
{
	struct simside *s = kv_conn_arg(c);

	s->drains++;
	assert_false(kv_conn_is_full(c));
	if (s->close_at_drain)
		simside_end(s);
}

const struct kv_conn_ops simside_ops = {
	.on_msg = on_msg,
	.on_payload = on_payload,
	.on_close = on_close,
	.on_drain = on_drain,
};

static void
setup(bool is_unix)
{
	static const struct simnet_opts lan = {
		.seed = 1,
		.latency_ns = 20000,
		.local_ns = 5000,
		.bytes_per_ns = 2,
	};
	struct simpair *p = &simside_pair;

	simpair_open(p, &lan, is_unix);
	simside_a = (struct simside){ 0 };
	simside_b = (struct simside){ 0 };
	simside_a.c =
		kv_conn_new(p->loop, p->stream[0], &simside_ops, &simside_a);
	simside_b.c =
		kv_conn_new(p->loop, p->stream[1], &simside_ops, &simside_b);
	assert_non_null(simside_a.c);
	assert_non_null(simside_b.c);
}

int
simside_setup(void **state)
{
	(void)state;
	setup(false);
	return 0;
}

int
simside_setup_unix(void **state)
{
	(void)state;
	setup(true);
	return 0;
}

int
simside_teardown(void **state)
{
	(void)state;
	simside_end(&simside_a);
	simside_end(&simside_b);
	simpair_close(&simside_pair);
	return 0;
}

void
simside_run_ms(uint64_t ms)
{
	simpair_run(&simside_pair, ms * KV_NS_PER_MS);
}

void
simside_ping(struct simside *s, uint64_t id)
{
	struct kv_ping *ping = kv_conn_begin(s->c, KV_MSG_PING, id, 0);

	assert_non_null(ping);
	assert_int_equal(kv_get64(ping->stamp), 0);
	kv_conn_end(s->c);
}

bool
simside_stats(struct simside *s, size_t tail)
{
	uint8_t *p;

	if (!kv_conn_begin(s->c, KV_MSG_STATS_R, 1, 0))
		return false;
	p = kv_conn_tail(s->c, tail);
	if (!p)
		return false;
	memset(p, 's', tail);
	kv_conn_end(s->c);
	return true;
}

static void
on_sent(struct kv_conn_sent *sent, int status)
{
	struct simside_sent *s =
		KV_CONTAINER_OF(sent, struct simside_sent, sent);

	s->calls++;
	s->status = status;
	if (s->closes)
		simside_end(s->closes);
}

void
simside_data(struct simside *s, void *bytes, size_t n,
	     struct simside_sent *sent)
{
	struct iovec iov = { bytes, n };

	assert_non_null(kv_conn_begin(s->c, KV_MSG_DATA, 7, 0));
	sent->sent.fn = on_sent;
	kv_conn_end_payload(s->c, &iov, 1, &sent->sent);
	assert_int_equal(sent->calls, 0);
}
