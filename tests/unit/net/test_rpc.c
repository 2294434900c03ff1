#include "net/rpc.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "simpair.h"
#include "test.h"

enum {
	HELD_MAX = 6000
};

/* Side b keeps the ids of requests; tests answer them when and how they like.
 * Side a calls. */
static struct simpair pair;
static struct kv_conn *asking, *serving;
static struct kv_rpc rpc;
static uint64_t held[HELD_MAX];
static size_t n_held;
static int strays, unasked, lost;
static uint64_t last_stray;

struct query {
	struct kv_call call;
	int answers, ends, status;
	uint64_t stamp; /* of the last answer */
	void (*then)(struct query *q);
	int order; /* which of all ends this was, from 1 */
};

static int ends;

static void
hold(struct kv_conn *c, const struct kv_msg *msg)
{
	(void)c;
	assert_true(n_held < HELD_MAX);
	held[n_held++] = msg->id;
}

static void
nothing(struct kv_conn *c, int status)
{
	(void)c;
	(void)status;
}

static void
on_msg(struct kv_conn *c, const struct kv_msg *msg)
{
	(void)c;
	if (!kv_rpc_take(&rpc, msg))
		unasked++;
}

static void
on_close(struct kv_conn *c, int status)
{
	(void)c;
	lost++;
	kv_rpc_fail(&rpc, status);
}

static void
stray(struct kv_rpc *r, const struct kv_msg *msg)
{
	assert_ptr_equal(r, &rpc);
	strays++;
	last_stray = msg->id;
}

static int
setup(void **state)
{
	static const struct kv_conn_ops serve = {
		.on_msg = hold,
		.on_close = nothing,
	};
	static const struct kv_conn_ops ask = {
		.on_msg = on_msg,
		.on_close = on_close,
	};
	static const struct simnet_opts opts = {
		.seed = 3,
		.latency_ns = 50000,
		.chunked = true,
	};

	(void)state;
	simpair_open(&pair, &opts, false);
	asking = kv_conn_new(pair.loop, pair.stream[0], &ask, NULL);
	serving = kv_conn_new(pair.loop, pair.stream[1], &serve, NULL);
	assert_true(asking && serving);
	kv_rpc_init(&rpc, asking);
	rpc.stray = stray;
	n_held = 0;
	strays = unasked = lost = ends = 0;
	return 0;
}

static int
teardown(void **state)
{
	(void)state;
	kv_conn_close(asking);
	kv_conn_close(serving);
	simpair_close(&pair);
	return 0;
}

static void
run_ms(uint64_t ms)
{
	simpair_run(&pair, ms * KV_NS_PER_MS);
}

static void
answered(struct kv_call *call, int status, const struct kv_msg *msg)
{
	struct query *q = KV_CONTAINER_OF(call, struct query, call);
	bool more = status == 0 && msg->flags & KV_FLAG_MORE;

	assert_int_equal(kv_rpc_is_under_way(call), more);
	assert_true((status == 0) == (msg != NULL));
	q->status = status;
	if (msg) {
		const struct kv_ping *r = msg->body;

		assert_int_equal(msg->id, call->id);
		q->answers++;
		q->stamp = kv_get64(r->stamp);
	}
	if (!more) {
		q->ends++;
		q->order = ++ends;
	}
	if (q->then)
		q->then(q);
}

/* False: it was not begun. */
static bool
ask_within(struct query *q, uint64_t ms)
{
	q->call.fn = answered;
	q->call.takes_more = true;
	if (!kv_rpc_begin(&rpc, &q->call, KV_MSG_PING,
			  pair.clock.ns + ms * KV_NS_PER_MS))
		return false;
	kv_rpc_end(&rpc);
	return true;
}

static void
ask(struct query *q)
{
	assert_true(ask_within(q, 1000));
}

static void
answer(uint64_t id, uint64_t stamp, uint8_t flags)
{
	struct kv_ping *r = kv_conn_begin(serving, KV_MSG_PING_R, id, flags);

	assert_non_null(r);
	r->stamp = kv_le64(stamp);
	kv_conn_end(serving);
}

static void
call_is_answered_once(void **state)
{
	struct query q = { 0 };

	(void)state;
	ask(&q);
	assert_true(kv_rpc_is_under_way(&q.call));
	run_ms(1);
	assert_int_equal(n_held, 1);
	assert_int_equal(q.ends, 0);
	answer(held[0], 5, 0);
	answer(held[0], 6, 0);
	run_ms(1);
	assert_int_equal(q.answers, 1);
	assert_int_equal(q.ends, 1);
	assert_int_equal(q.stamp, 5);
	assert_int_equal(strays, 1);
	run_ms(2000);
	assert_int_equal(q.ends, 1);
}

static void
answers_out_of_order_find_their_calls(void **state)
{
	enum {
		CALLS = 5000
	};
	struct query *q = calloc(CALLS, sizeof(*q));
	struct kv_rng rng;

	(void)state;
	assert_non_null(q);
	kv_rng_seed(&rng, 8);
	for (size_t i = 0; i < CALLS; i++)
		ask(&q[i]);
	run_ms(100);
	assert_int_equal(n_held, CALLS);
	while (n_held > 0) {
		size_t i = kv_rng_below(&rng, n_held);

		answer(held[i], held[i] * 3, 0);
		held[i] = held[--n_held];
	}
	run_ms(100);
	for (size_t i = 0; i < CALLS; i++) {
		assert_int_equal(q[i].ends, 1);
		assert_int_equal(q[i].status, 0);
		assert_int_equal(q[i].stamp, q[i].call.id * 3);
	}
	assert_int_equal(strays, 0);
	free(q);
}

static void
more_answers_come_until_the_last(void **state)
{
	struct query q = { 0 };

	(void)state;
	ask(&q);
	run_ms(1);
	for (uint64_t i = 0; i < 10; i++)
		answer(held[0], i, KV_FLAG_MORE);
	run_ms(1);
	assert_int_equal(q.answers, 10);
	assert_int_equal(q.ends, 0);
	answer(held[0], 10, 0);
	run_ms(1);
	assert_int_equal(q.answers, 11);
	assert_int_equal(q.ends, 1);
}

static void
more_answers_than_expected_are_a_failure(void **state)
{
	struct query q = { 0 };

	(void)state;
	ask(&q);
	q.call.takes_more = false;
	run_ms(1);
	answer(held[0], 1, KV_FLAG_MORE);
	answer(held[0], 2, 0);
	run_ms(1);
	assert_int_equal(q.answers, 0);
	assert_int_equal(q.ends, 1);
	assert_int_equal(q.status, -EPROTO);
	assert_int_equal(strays, 1);
	assert_int_equal(lost, 0);
}

static void
deadline_passes_on_a_cut_link(void **state)
{
	struct query late = { 0 }, early = { 0 };

	(void)state;
	simnet_cut(pair.sn, "b", "a");
	assert_true(ask_within(&late, 20));
	assert_true(ask_within(&early, 10));
	run_ms(5);
	answer(held[0], 1, 0);
	run_ms(4);
	assert_int_equal(early.ends + late.ends, 0);
	run_ms(2);
	assert_int_equal(early.ends, 1);
	assert_int_equal(early.status, -ETIMEDOUT);
	assert_int_equal(late.ends, 0);
	run_ms(10);
	assert_int_equal(late.status, -ETIMEDOUT);
	simnet_heal(pair.sn, "b", "a");
	run_ms(1);
	assert_int_equal(late.ends + early.ends, 2);
	assert_int_equal(strays, 1);
	assert_int_equal(last_stray, late.call.id);
	assert_int_equal(lost, 0);
}

static void
deadline_passes_between_answers(void **state)
{
	struct query q = { 0 };

	(void)state;
	assert_true(ask_within(&q, 10));
	run_ms(1);
	answer(held[0], 1, KV_FLAG_MORE);
	run_ms(20);
	assert_int_equal(q.answers, 1);
	assert_int_equal(q.status, -ETIMEDOUT);
	answer(held[0], 1, KV_FLAG_MORE);
	answer(held[0], 1, 0);
	run_ms(1);
	assert_int_equal(q.ends, 1);
	assert_int_equal(strays, 2);
}

static void
cancelled_call_is_not_called(void **state)
{
	struct query q = { 0 }, other = { 0 };

	(void)state;
	ask(&q);
	ask(&other);
	kv_rpc_cancel(&q.call);
	kv_rpc_cancel(&q.call);
	assert_false(kv_rpc_is_under_way(&q.call));
	run_ms(1);
	answer(held[0], 1, 0);
	answer(held[1], 1, 0);
	run_ms(2000);
	assert_int_equal(q.ends, 0);
	assert_int_equal(other.ends, 1);
	assert_int_equal(strays, 1);
}

static void
stray_answers_may_be_dropped(void **state)
{
	(void)state;
	rpc.stray = NULL;
	answer(77, 1, 0);
	run_ms(1);
	assert_int_equal(strays + unasked, 0);
}

static void
messages_of_the_peer_are_not_taken(void **state)
{
	struct query q = { 0 };

	(void)state;
	ask(&q);
	run_ms(1);
	/* A request of the peer may have the id of a call of ours. */
	assert_non_null(kv_conn_begin(serving, KV_MSG_PING, held[0], 0));
	kv_conn_end(serving);
	run_ms(1);
	assert_int_equal(unasked, 1);
	assert_int_equal(q.ends + strays, 0);
	kv_rpc_cancel(&q.call);
}

static void
all_fail_in_order_when_the_connection_is_lost(void **state)
{
	struct query q[300] = { 0 };

	(void)state;
	for (size_t i = 0; i < KV_ARRAY_LEN(q); i++)
		ask(&q[i]);
	run_ms(10);
	answer(held[7], 1, 0);
	run_ms(10);
	simnet_reset(pair.sn, "a", "b");
	run_ms(1);
	assert_int_equal(lost, 1);
	for (size_t i = 0; i < KV_ARRAY_LEN(q); i++) {
		assert_int_equal(q[i].ends, 1);
		if (i == 7)
			continue;
		assert_int_equal(q[i].status, -ECONNRESET);
		assert_int_equal(q[i].order, i < 7 ? i + 2 : i + 1);
	}
	assert_false(ask_within(&q[0], 10));
	run_ms(2000);
	assert_int_equal(q[0].ends, 1);
}

static void
ask_again(struct query *q)
{
	if (q->ends < 3)
		assert_int_equal(ask_within(q, 1000),
				 q->status == 0 || q->status == -ETIMEDOUT);
}

static void
call_is_used_again_in_its_callback(void **state)
{
	struct query q = { .then = ask_again };

	(void)state;
	ask(&q);
	run_ms(1);
	answer(held[0], 1, 0);
	run_ms(1);
	assert_int_equal(q.ends, 1);
	assert_int_equal(n_held, 2);
	run_ms(1000);
	assert_int_equal(q.ends, 2);
	assert_int_equal(n_held, 3);
	assert_true(kv_rpc_is_under_way(&q.call));
	kv_conn_close(serving);
	serving = NULL;
	run_ms(1);
	assert_int_equal(q.ends, 3);
	assert_false(kv_rpc_is_under_way(&q.call));
}

static void
free_query(struct query *q)
{
	free(q);
}

static void
call_is_freed_in_its_callback(void **state)
{
	struct query *q[4];

	(void)state;
	for (size_t i = 0; i < 4; i++) {
		q[i] = calloc(1, sizeof(*q[i]));
		assert_non_null(q[i]);
		q[i]->then = free_query;
		assert_true(ask_within(q[i], i == 0 ? 10 : 100));
	}
	run_ms(1);
	answer(held[1], 1, 0);
	run_ms(50);
	assert_int_equal(ends, 2);
	kv_rpc_fail(&rpc, -ECANCELED);
	assert_int_equal(ends, 4);
}

static struct query *victim;

static void
cancel_victim(struct query *q)
{
	(void)q;
	kv_rpc_cancel(&victim->call);
}

static void
failing_call_may_cancel_another(void **state)
{
	struct query first = { .then = cancel_victim }, second = { 0 };

	(void)state;
	victim = &second;
	ask(&first);
	ask(&second);
	kv_rpc_fail(&rpc, -ECANCELED);
	assert_int_equal(first.ends, 1);
	assert_int_equal(second.ends, 0);
	assert_false(kv_rpc_is_under_way(&second.call));
}

static void
close_asking(struct query *q)
{
	(void)q;
	kv_conn_close(asking);
	asking = NULL;
}

static void
callback_may_close_the_connection(void **state)
{
	struct query first = { .then = close_asking }, second = { 0 };

	(void)state;
	ask(&first);
	ask(&second);
	run_ms(1);
	answer(held[0], 1, 0);
	answer(held[1], 1, 0);
	run_ms(1);
	assert_int_equal(first.ends, 1);
	assert_int_equal(second.ends, 0);
	assert_int_equal(lost, 0);
	kv_rpc_fail(&rpc, -ECANCELED);
	assert_int_equal(second.status, -ECANCELED);
}

static void
failure_never_comes_from_begin_or_end(void **state)
{
	struct query q = { 0 };
	uint8_t *p;

	(void)state;
	simnet_cut(pair.sn, "a", "b");
	ask(&q);
	while (kv_conn_begin(asking, KV_MSG_NOTE, 0, 0)) {
		p = kv_conn_tail(asking, 1000000);
		if (!p)
			break;
		memset(p, 0, 1000000);
		kv_conn_end(asking);
	}
	assert_false(ask_within(&(struct query){ 0 }, 10));
	assert_int_equal(q.ends, 0);
	run_ms(1);
	assert_int_equal(q.status, -ENOBUFS);
}

#define ON_PAIR(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		ON_PAIR(call_is_answered_once),
		ON_PAIR(answers_out_of_order_find_their_calls),
		ON_PAIR(more_answers_come_until_the_last),
		ON_PAIR(more_answers_than_expected_are_a_failure),
		ON_PAIR(deadline_passes_on_a_cut_link),
		ON_PAIR(deadline_passes_between_answers),
		ON_PAIR(cancelled_call_is_not_called),
		ON_PAIR(stray_answers_may_be_dropped),
		ON_PAIR(messages_of_the_peer_are_not_taken),
		ON_PAIR(all_fail_in_order_when_the_connection_is_lost),
		ON_PAIR(call_is_used_again_in_its_callback),
		ON_PAIR(call_is_freed_in_its_callback),
		ON_PAIR(failing_call_may_cancel_another),
		ON_PAIR(callback_may_close_the_connection),
		ON_PAIR(failure_never_comes_from_begin_or_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
