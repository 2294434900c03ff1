/* What was removed as a whole stays removed at a node. */

#include <string.h>

#include "base/status.h"
#include "store/generation.h"
#include "wire/msg.h"

#include "nodereq.h"
#include "test.h"

static uint8_t large[100000];

/* A master passes on REMOVE of all. */
static struct kv_remove_r
remove_all_as(unsigned master, uint8_t flags, uint64_t g, uint64_t random)
{
	const struct kv_remove m = {
		.op = KV_REMOVE_ALL,
		.flags = flags,
		.generation = { kv_le64(g), kv_le64(random) },
	};
	struct kv_remove_r answer;
	struct wireframe *f;

	wirepeer_send(&sim.masters[master].peer, KV_MSG_REMOVE, 9, &m, NULL, 0);
	simnode_run(&sim, 20);
	f = wirepeer_take(&sim.masters[master].peer, KV_MSG_REMOVE_R);
	assert_non_null(f);
	memcpy(&answer, f->body, sizeof(answer));
	wireframe_free(f);
	return answer;
}

/* How many went. */
static uint64_t
remove_all(unsigned master, uint8_t flags, uint64_t g)
{
	struct kv_remove_r answer = remove_all_as(master, flags, g, 5);

	assert_int_equal(answer.status, KV_OK);
	return kv_get64(answer.removed);
}

static void
a_higher_one_drops_all(void **state)
{
	(void)state;
	nodereq_put("a");
	nodereq_put("b");
	nodereq_news(0, "other", 4, 4);
	assert_int_equal(nodereq_get("a"), KV_OK);
	nodereq_news(0, "default", 3, 1);
	assert_int_equal(nodereq_get("a"), KV_EMISS);
	assert_int_equal(nodereq_get("b"), KV_EMISS);
	assert_int_equal(nodereq_number(), 3);
	simnode_run(&sim, 20);
	assert_int_equal(simnode_stat(&sim, "outdated"), 2);
	assert_int_equal(simnode_stat(&sim, "keys"), 0);
	assert_false(simnode_master_has(&sim, 0, "a"));
	nodereq_put("a");
	/* What was heard before is no news. */
	nodereq_news(1, "", 3, 1);
	nodereq_news(1, "", 2, 9);
	assert_int_equal(nodereq_get("a"), KV_OK);
}

/* Both masters hear of what one of them said. */
static void
all_masters_are_told(void **state)
{
	unsigned i;

	(void)state;
	nodereq_news(0, "default", 3, 1);
	for (i = 0; i < 2; i++)
		assert_int_equal(
			wirepeer_count(&sim.masters[i].peer, KV_MSG_GENERATION),
			1);
	simnode_master_down(&sim, 0);
	simnode_master_up(&sim, 0);
	simnode_run(&sim, 3000);
	assert_int_equal(sim.masters[0].known, 1);
}

static void
two_of_one_number(void **state)
{
	(void)state;
	nodereq_news(0, "default", 3, 1);
	nodereq_put("a");
	nodereq_news(1, "default", 3, 2);
	assert_int_equal(nodereq_get("a"), KV_EMISS);
	assert_int_equal(nodereq_number(), 4);
}

static void
a_requester_tells(void **state)
{
	(void)state;
	nodereq_put("a");
	assert_int_equal(kv_get64(nodereq_greet(7, 7).number), 7);
	assert_int_equal(nodereq_get("a"), KV_EMISS);
	nodereq_put("a");
	assert_int_equal(kv_get64(nodereq_greet(6, 6).number), 7);
	assert_int_equal(nodereq_get("a"), KV_OK);
}

/* What was put since all was removed is not older than what that began. */
static void
what_came_after_the_removal_stays(void **state)
{
	(void)state;
	nodereq_put("a");
	assert_int_equal(remove_all(0, KV_REMOVE_FORCE, 1), 1);
	assert_int_equal(nodereq_get("a"), KV_EMISS);
	assert_int_equal(nodereq_number(), 0);
	nodereq_put("b");
	nodereq_news(0, "default", 1, 5);
	assert_int_equal(nodereq_number(), 1);
	assert_int_equal(nodereq_get("b"), KV_OK);
	/* One that was missed, but heard of. */
	assert_int_equal(remove_all(1, KV_REMOVE_FORCE | KV_REMOVE_MISSED, 1),
			 0);
	assert_int_equal(nodereq_get("b"), KV_OK);
	/* Another one began the same number. */
	nodereq_news(1, "default", 1, 6);
	assert_int_equal(nodereq_get("b"), KV_EMISS);
}

/* A master comes to it when another one has done it, or has begun another one
 * since: what is here is newer. */
static void
a_removal_that_comes_late(void **state)
{
	struct kv_remove_r answer;

	(void)state;
	assert_int_equal(remove_all(0, KV_REMOVE_FORCE, 3), 0);
	nodereq_news(0, "default", 3, 5);
	nodereq_put("a");
	assert_int_equal(remove_all(1, KV_REMOVE_FORCE, 3), 0);
	answer = remove_all_as(1, KV_REMOVE_FORCE, 3, 6);
	assert_int_equal(answer.status, KV_EBUSY);
	assert_int_equal(kv_get64(answer.generation.number), 3);
	assert_int_equal(kv_get64(answer.generation.random), 5);
	answer = remove_all_as(1, KV_REMOVE_FORCE, 2, 6);
	assert_int_equal(answer.status, KV_EBUSY);
	assert_int_equal(nodereq_get("a"), KV_OK);
	assert_int_equal(remove_all(1, KV_REMOVE_FORCE, 4), 1);
	assert_int_equal(nodereq_get("a"), KV_EMISS);
}

/* Of two that were begun at once one was refused, and begun again. A master
 * that was silent comes to these two only then. */
static void
two_removals_at_once_that_come_late(void **state)
{
	const struct kv_generation none = { 0 };
	struct kv_generation a = kv_generation_next(none, 1);
	struct kv_generation b = kv_generation_next(none, 2);
	struct kv_generation again = kv_generation_next(a, 3);
	struct kv_generation late = kv_generation_merge(a, b);

	(void)state;
	remove_all_as(0, KV_REMOVE_FORCE, a.number, a.random);
	nodereq_news(0, "default", a.number, a.random);
	remove_all_as(0, KV_REMOVE_FORCE, again.number, again.random);
	nodereq_news(0, "default", again.number, again.random);
	nodereq_put("new");
	nodereq_news(1, "default", late.number, late.random);
	assert_int_equal(nodereq_get("new"), KV_OK);
	assert_int_equal(nodereq_number(), again.number);
}

static void
two_removals_at_once(void **state)
{
	(void)state;
	assert_int_equal(remove_all_as(0, KV_REMOVE_FORCE, 3, 5).status, KV_OK);
	assert_int_equal(remove_all_as(1, KV_REMOVE_FORCE, 3, 6).status, KV_OK);
	nodereq_put("a");
	nodereq_news(0, "default", 3, 5);
	assert_int_equal(nodereq_get("a"), KV_OK);
	nodereq_news(1, "default", 3, 6);
	assert_int_equal(nodereq_number(), 4);
	assert_int_equal(nodereq_get("a"), KV_OK);
}

/* A put that says this generation: its status, or why it was refused. */
static int
put_of(uint64_t g, uint64_t random, struct kv_generation_le *holds)
{
	const struct kv_generation generation = { g, random };
	const struct simput item = { "late", 3, "abc" };
	const struct simput_opts opts = { .generation = &generation };
	struct wireframe *f;
	int status;

	simreq_put(&req, &item, 1, &opts);
	simnode_run(&sim, 5);
	f = wirepeer_take(&req.control, KV_MSG_PUT_R);
	assert_non_null(f);
	*holds = ((struct kv_put_r *)(void *)f->body)->generation;
	status = f->body[0] ? f->body[0] : f->tail[0];
	wireframe_free(f);
	return status;
}

/* One that was on its way while all was removed is not done any more. */
static void
an_old_put_is_refused(void **state)
{
	struct kv_generation_le holds;

	(void)state;
	assert_int_equal(put_of(0, 0, &holds), KV_OK);
	nodereq_news(0, "default", 5, 1);
	assert_int_equal(put_of(0, 0, &holds), KV_EBUSY);
	assert_int_equal(kv_get64(holds.number), 5);
	assert_int_equal(kv_get64(holds.random), 1);
	assert_int_equal(put_of(5, 2, &holds), KV_EBUSY);
	assert_int_equal(nodereq_get("late"), KV_EMISS);
	nodereq_put("a");
	assert_int_equal(put_of(5, 1, &holds), KV_OK);
	assert_int_equal(nodereq_get("late"), KV_OK);
	assert_int_equal(nodereq_get("a"), KV_OK);
	/* The node hears of another one. */
	assert_int_equal(put_of(6, 1, &holds), KV_OK);
	assert_int_equal(kv_get64(holds.number), 0);
	assert_int_equal(nodereq_get("late"), KV_OK);
	assert_int_equal(nodereq_get("a"), KV_EMISS);
	assert_int_equal(nodereq_number(), 6);
}

static void
hard_pins_are_kept(void **state)
{
	struct simput item = { "hard", 3, "abc" };
	struct simput_opts opts = { .flags = KV_PUT_HARD_PIN };
	uint64_t id;

	(void)state;
	id = simreq_put(&req, &item, 1, &opts);
	simnode_run(&sim, 5);
	assert_int_equal(simreq_put_status(&req, id, 0), KV_OK);
	nodereq_put("soft");
	assert_int_equal(remove_all(0, 0, 1), 1);
	assert_int_equal(nodereq_get("hard"), KV_OK);
	nodereq_put("soft");
	assert_int_equal(remove_all(0, KV_REMOVE_FORCE, 1), 2);
	assert_int_equal(nodereq_get("hard"), KV_EMISS);
}

/* A put that began before is over with the others. */
static void
puts_under_way(void **state)
{
	struct simput items[] = { { "filled", 1000, NULL },
				  { "hidden", 3, "abc" } };
	struct simgrant g;
	uint64_t id;

	(void)state;
	sim.masters[0].by_hand = true;
	id = simreq_put(&req, items, 2, NULL);
	simnode_run(&sim, 5);
	assert_true(simreq_grant(&req, id, 0, &g));
	assert_int_equal(simnode_stat(&sim, "hidden_keys"), 1);
	nodereq_news(0, "default", 1, 1);
	assert_int_equal(simnode_stat(&sim, "hidden_keys"), 0);
	simreq_filled(&req, id, g.grant, false);
	simnode_run(&sim, 5);
	assert_int_equal(simreq_put_status(&req, id, 0), KV_OK);
	assert_int_equal(simreq_put_status(&req, id, 1), KV_OK);
	sim.masters[0].by_hand = false;
	simnode_run(&sim, 5);
	assert_int_equal(nodereq_get("filled"), KV_EMISS);
	assert_int_equal(nodereq_get("hidden"), KV_EMISS);
	assert_int_equal(simnode_stat(&sim, "reserved_bytes"), 0);
	nodereq_put("filled");
	assert_int_equal(nodereq_get("filled"), KV_OK);
}

/* Who reads on reads what he has. */
static void
readers_end_in_peace(void **state)
{
	struct simgot got;

	(void)state;
	assert_int_equal(simreq_put_one(&req, "a", large, sizeof(large)),
			 KV_OK);
	assert_int_equal(
		simreq_get_one(&req, "a", &(struct simget_opts){ 0 }, &got),
		KV_OK);
	nodereq_news(0, "default", 1, 1);
	simnode_run(&sim, 20);
	assert_int_equal(nodereq_get("a"), KV_EMISS);
	assert_true(simnode_stat(&sim, "zombie_bytes") >= sizeof(large));
	simreq_release(&req, got.pin);
	simnode_run(&sim, 5);
	assert_int_equal(simnode_stat(&sim, "zombie_bytes"), 0);
}

/* Many are dropped bit by bit, and none of them is seen meanwhile. */
static void
dropped_in_slices(void **state)
{
	char key[16];
	unsigned i;

	(void)state;
	for (i = 0; i < 3000; i++) {
		snprintf(key, sizeof(key), "k%u", i);
		assert_int_equal(simreq_put_inline(&req, key, ""), KV_OK);
	}
	nodereq_news(0, "default", 1, 1);
	nodereq_news(0, "default", 2, 1);
	assert_int_equal(nodereq_get("k2999"), KV_EMISS);
	nodereq_put("new");
	simnode_run(&sim, 100);
	assert_int_equal(simnode_stat(&sim, "keys"), 1);
	assert_int_equal(simnode_stat(&sim, "outdated"), 3000);
	assert_int_equal(nodereq_get("new"), KV_OK);
}

/* What a master that comes says holds before anything is published. */
static void
heard_when_joining(void **state)
{
	struct simmaster *m = &sim.masters[0];

	(void)state;
	simnode_master_down(&sim, 0);
	simnode_run(&sim, 1500);
	nodereq_put("a");
	m->news_len = nodereq_ent(m->news, "default", 5, 5);
	m->n_news = 1;
	simnode_master_up(&sim, 0);
	simnode_run(&sim, 3000);
	assert_int_equal(nodereq_get("a"), KV_EMISS);
	assert_false(simnode_master_has(&sim, 0, "a"));
	assert_int_equal(nodereq_number(), 5);
}

static void
broken_news(void **state)
{
	struct kv_generation_news m = { .count = kv_le32(2) };
	uint8_t tail[128];
	size_t n = nodereq_ent(tail, "default", 5, 5);

	(void)state;
	wirepeer_send(&sim.masters[0].peer, KV_MSG_GENERATION, 0, &m, tail, n);
	simnode_run(&sim, 5);
	assert_int_equal(kv_node_sessions(sim.node), 1);
	sim.masters[0].n_news = 1;
	simnode_run(&sim, 3000);
	assert_int_equal(kv_node_sessions(sim.node), 1);
	sim.masters[0].n_news = 0;
	simnode_run(&sim, 3000);
	assert_int_equal(kv_node_sessions(sim.node), 2);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, nodereq_two, nodereq_close)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_higher_one_drops_all),
		TEST(all_masters_are_told),
		TEST(two_of_one_number),
		TEST(a_requester_tells),
		TEST(what_came_after_the_removal_stays),
		TEST(a_removal_that_comes_late),
		TEST(two_removals_at_once_that_come_late),
		TEST(two_removals_at_once),
		TEST(an_old_put_is_refused),
		TEST(hard_pins_are_kept),
		TEST(puts_under_way),
		TEST(readers_end_in_peace),
		TEST(dropped_in_slices),
		TEST(heard_when_joining),
		TEST(broken_news),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
