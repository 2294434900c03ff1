/* A connection to an engine, from nothing to ready and to its end. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "fakeengine.h"
#include "kvpool.h"
#include "test.h"
#include "xfer/lane.h"

static const struct kv_id own = { .b = "own" };
static const struct kv_id other = { .b = "other" };
static struct fakeengine peer;
static struct kv_lane lane;
static struct kv_loop *loop;
static atomic_bool closing;

static enum {
	ANSWERS,
	ASKS, /* instead of answering */
	HANGS_UP,
} manner;

static bool
obey(struct fakeconn *c, const struct kv_msg *msg)
{
	struct kv_ping ping = { 0 };

	if (manner == HANGS_UP)
		return false;
	fakeengine_answer(c, manner == ASKS ? KV_MSG_PING : KV_MSG_PING_R,
			  msg->id, &ping, 0);
	return true;
}

static struct kv_wait
in_ms(unsigned ms)
{
	const struct kv_clock clock = { 0 };

	return (struct kv_wait){
		.deadline_ns = kv_clock_now(&clock) + ms * KV_NS_PER_MS,
		.closing = &closing,
	};
}

static int
dial(const struct kv_id *want, unsigned ms)
{
	struct kv_wait wait = in_ms(ms);

	kv_lane_close(&lane);
	kv_lane_init(&lane, loop, &own, want);
	kv_lane_dial(&lane, peer.addr, wait.deadline_ns);
	return kv_lane_settle(&lane, &wait);
}

static int
take(void *arg, const struct kv_msg *msg)
{
	*(int *)arg += 1;
	return msg->type == KV_MSG_PING_R ? 7 : -EPROTO;
}

static int
ping(int *taken)
{
	struct kv_lane_ask ask = { .take = take, .arg = taken };
	struct kv_wait wait = in_ms(20000);

	*taken = 0;
	if (!kv_lane_begin(&lane, &ask, KV_MSG_PING))
		return -ENOTCONN;
	return kv_lane_finish(&lane, &ask, &wait);
}

static int
start(void **state)
{
	(void)state;
	memset(&peer, 0, sizeof(peer));
	memset(&lane, 0, sizeof(lane));
	manner = ANSWERS;
	peer.boot = other;
	peer.obey = obey;
	fakeengine_start(&peer);
	loop = kv_loop_new(NULL);
	return loop ? 0 : -1;
}

static int
end(void **state)
{
	(void)state;
	kv_lane_close(&lane);
	kv_loop_free(loop);
	fakeengine_end(&peer);
	return 0;
}

static void
it_gets_ready_and_learns_who_answers(void **state)
{
	int taken;

	(void)state;
	assert_int_equal(ping(&taken), -ENOTCONN);
	assert_int_equal(dial(NULL, 20000), 0);
	assert_int_equal(lane.state, KV_LANE_READY);
	assert_true(kv_id_is_equal(lane.boot, other));
	assert_int_equal(ping(&taken), 7);
	assert_int_equal(taken, 1);
	kv_lane_close(&lane);
	assert_int_equal(lane.state, KV_LANE_CLOSED);
	assert_int_equal(dial(&other, 20000), 0);
}

static void
a_refusal_has_its_status(void **state)
{
	static const struct {
		int status, rc;
	} cases[] = {
		{ KV_EGONE, -ESTALE },
		{ KV_EVERSION, -EPROTONOSUPPORT },
		{ KV_EDENIED, -EACCES },
		{ KV_EINVALID, -EINVAL },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		peer.hello_status = cases[i].status;
		assert_int_equal(dial(&other, 20000), cases[i].rc);
		assert_int_equal(lane.state, KV_LANE_LOST);
	}
}

static void
silence_ends_at_the_deadline(void **state)
{
	(void)state;
	peer.is_mute = true;
	assert_int_equal(dial(NULL, 100), -ETIMEDOUT);
	atomic_store(&closing, true);
	assert_int_equal(dial(NULL, 20000), -ESHUTDOWN);
	atomic_store(&closing, false);
}

static void
what_cannot_be_dialled(void **state)
{
	struct kv_wait wait = in_ms(20000);

	(void)state;
	kv_lane_init(&lane, loop, &own, NULL);
	kv_lane_dial(&lane, "127.0.0.1:1", wait.deadline_ns);
	assert_int_equal(kv_lane_settle(&lane, &wait), -EHOSTUNREACH);
	kv_lane_close(&lane);
	kv_lane_init(&lane, loop, &own, NULL);
	kv_lane_dial(&lane, "no-such-host.invalid:1", wait.deadline_ns);
	assert_int_equal(kv_lane_settle(&lane, &wait), -EHOSTUNREACH);
	kv_lane_close(&lane);
	kv_lane_init(&lane, loop, &own, NULL);
	kv_lane_dial(&lane, "unix:@kvpool-no-such-engine", wait.deadline_ns);
	assert_int_equal(kv_lane_settle(&lane, &wait), -EHOSTUNREACH);
}

static void
the_end_fails_what_is_asked(void **state)
{
	int taken;

	(void)state;
	assert_int_equal(dial(NULL, 20000), 0);
	manner = HANGS_UP;
	assert_int_equal(ping(&taken), -ECONNRESET);
	assert_int_equal(taken, 0);
	assert_int_equal(lane.state, KV_LANE_LOST);
	assert_int_equal(ping(&taken), -ENOTCONN);
}

/* Engines are asked, they do not ask. */
static void
a_request_from_there_is_refused(void **state)
{
	int taken;

	(void)state;
	assert_int_equal(dial(NULL, 20000), 0);
	manner = ASKS;
	assert_int_equal(ping(&taken), -EPROTO);
	assert_int_equal(lane.state, KV_LANE_LOST);
}

/* Closing in the middle of dialling and greeting leaves nothing. */
static void
it_can_be_closed_at_any_time(void **state)
{
	struct kv_wait wait = in_ms(20000);

	(void)state;
	peer.is_mute = true;
	for (int turns = 0; turns < 6; turns++) {
		kv_lane_init(&lane, loop, &own, NULL);
		kv_lane_dial(&lane, peer.addr, wait.deadline_ns);
		for (int i = 0; i < turns; i++)
			assert_true(kv_loop_turn(loop, 0) >= 0);
		kv_lane_close(&lane);
	}
}

#define MET(fn) cmocka_unit_test_setup_teardown(fn, start, end)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		MET(it_gets_ready_and_learns_who_answers),
		MET(a_refusal_has_its_status),
		MET(silence_ends_at_the_deadline),
		MET(what_cannot_be_dialled),
		MET(the_end_fails_what_is_asked),
		MET(a_request_from_there_is_refused),
		MET(it_can_be_closed_at_any_time),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
