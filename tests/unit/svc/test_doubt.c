/* A copy that a node had when no master heard of it, and which one of them has
 * yet to decide. */

#include "simnode.h"

#include "base/status.h"
#include "test.h"

static struct simnode sim;
static struct simreq req;

/* Put while all masters were away; then the first one is told. */
static int
setup(void **state)
{
	(void)state;
	simnode_open(&sim, &(struct simnode_opts){ .masters = 2 });
	simreq_open_unix(&req, &sim, 0);
	assert_int_equal(simreq_put_inline(&req, "k", "abc"), KV_OK);
	sim.masters[0].verdict = KV_VERDICT_OPEN;
	sim.masters[1].by_hand = true;
	simnode_master_up(&sim, 0);
	simnode_run(&sim, 3000);
	assert_int_equal(kv_node_sessions(sim.node), 1);
	return 0;
}

static int
teardown(void **state)
{
	(void)state;
	simreq_close(&req);
	simnode_close(&sim);
	return 0;
}

/* What the other master is told of it when it begins; the put's id. */
static struct kv_publish_ent
told(void)
{
	struct kv_publish_ent e = { 0 };
	struct wireframe *f;

	simnode_master_up(&sim, 1);
	simnode_run(&sim, 6000);
	f = wirepeer_take(&sim.masters[1].peer, KV_MSG_PUBLISH);
	assert_non_null(f);
	assert_true(f->tail_len >= sizeof(e));
	memcpy(&e, f->tail, sizeof(e));
	wireframe_free(f);
	return e;
}

/* The master asks whether it stands above a copy of the same version that
 * somebody read, and that the chance of numbers puts below it. */
static bool
keeps(const struct kv_publish_ent *mine)
{
	const struct kv_check body = { .count = kv_le32(1) };
	struct kv_check_ent e = {
		.hash = mine->hash,
		.put_id = mine->put_id,
		.rival = { kv_le64(UINT64_MAX), kv_le32(0) },
		.flags = KV_PUBLISH_SHOWN,
	};
	struct wireframe *f;
	bool is_kept;

	wirepeer_send(&sim.masters[1].peer, KV_MSG_CHECK, 9, &body, &e,
		      sizeof(e));
	simnode_run(&sim, 20);
	f = wirepeer_take(&sim.masters[1].peer, KV_MSG_CHECK_R);
	assert_non_null(f);
	is_kept = f->tail[0];
	wireframe_free(f);
	return is_kept;
}

static void
it_gives_way_whoever_asks(void **state)
{
	struct kv_publish_ent e;

	(void)state;
	e = told();
	assert_int_equal(e.flags, 0);
	assert_false(keeps(&e));
}

static void
the_verdict_ends_it(void **state)
{
	struct kv_publish_ent e;

	(void)state;
	simnode_master_decide(&sim, 0, "k", 1001, KV_VERDICT_STAYS);
	simnode_run(&sim, 20);
	e = told();
	assert_int_equal(kv_get64(e.put_id.random), 1001);
	assert_int_equal(e.flags, KV_PUBLISH_SHOWN);
	assert_true(keeps(&e));
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(it_gives_way_whoever_asks),
		TEST(the_verdict_ends_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
