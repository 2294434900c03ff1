/* GET at a node: what it holds for readers, and how long. */

#include <stdio.h>

#include "base/status.h"
#include "wire/msg.h"

#include "noderig.h"
#include "test.h"

static int
get_inline(struct simreq *r, const char *key, struct simgot *g)
{
	const struct simget_opts opts = { .inline_max = 65536 };

	return simreq_get_one(r, key, &opts, g);
}

/* ---- pins ---- */

static void
a_pinned_value_stays_until_released(void **state)
{
	struct simreq r;
	struct simgot g;

	(void)state;
	simreq_open_unix(&r, &sim, 0);
	assert_int_equal(simreq_put_one(&r, "k", blob, 100000), KV_OK);
	assert_int_equal(simreq_get_one(&r, "k", NULL, &g), KV_OK);
	assert_int_equal(simnode_stat(&sim, "pins"), 1);
	for (int i = 0; i < 20; i++) {
		char key[16];

		snprintf(key, sizeof(key), "f%d", i);
		assert_int_equal(simreq_put_one(&r, key, blob, 200000), KV_OK);
	}
	assert_memory_equal(sim.pool + g.ext_off, blob, 100000);
	simreq_release(&r, g.pin);
	assert_int_equal(simnode_stat(&sim, "pins"), 0);
	simreq_release(&r, g.pin);
	simreq_release(&r, 12345);
	assert_int_equal(simnode_stat(&sim, "pins"), 0);
	assert_false(r.control.is_lost);
	simreq_close(&r);
}

static void
nobody_releases_the_pins_of_others(void **state)
{
	struct simreq a, b;
	struct simgot g;

	(void)state;
	simreq_open_unix(&a, &sim, 0);
	simreq_open_unix(&b, &sim, 0);
	assert_int_equal(simreq_put_one(&a, "k", blob, 100000), KV_OK);
	assert_int_equal(simreq_get_one(&a, "k", NULL, &g), KV_OK);
	simreq_release(&b, g.pin);
	assert_int_equal(simnode_stat(&sim, "pins"), 1);
	simreq_close(&a);
	simreq_close(&b);
}

static void
pins_outlive_their_connection_not_their_process(void **state)
{
	struct simreq r;
	struct simgot g;

	(void)state;
	simreq_open_unix(&r, &sim, 0);
	assert_int_equal(simreq_put_one(&r, "k", blob, 100000), KV_OK);
	assert_int_equal(simreq_get_one(&r, "k", NULL, &g), KV_OK);
	simreq_close(&r);
	simnode_run(&sim, 5000);
	assert_int_equal(simnode_stat(&sim, "pins"), 1);
	kv_node_process_exit(sim.node, r.pid);
	assert_int_equal(simnode_stat(&sim, "pins"), 0);
	assert_int_equal(simnode_stat(&sim, "pinned_bytes"), 0);
	assert_int_equal(simnode_stat(&sim, "processes"), 0);
}

/* What a call that gave up may have left behind, unknown to its process. */
static void
a_closed_connection_can_be_forgotten(void **state)
{
	struct simput item = { "g", 10000, NULL };
	struct simget_opts zero_copy = { .flags = KV_GET_ZERO_COPY };
	struct simreq r, again, other;
	struct simgot copied, viewed;
	struct simgrant grant;
	uint64_t id, room;

	(void)state;
	simreq_open_unix(&r, &sim, 0);
	assert_int_equal(simreq_put_one(&r, "k", blob, 100000), KV_OK);
	room = simnode_stat(&sim, "free_bytes");
	assert_int_equal(simreq_get_one(&r, "k", NULL, &copied), KV_OK);
	assert_int_equal(simreq_get_one(&r, "k", &zero_copy, &viewed), KV_OK);
	id = simreq_put(&r, &item, 1, NULL);
	assert_true(simreq_grant(&r, id, 0, &grant));
	simreq_open_again(&again, &r);
	simreq_close(&r);
	simreq_open_unix(&other, &sim, 0);
	simreq_forget(&other, r.token);
	assert_int_equal(simnode_stat(&sim, "pins"), 2);
	simreq_forget(&again, r.token + 1);
	assert_int_equal(simnode_stat(&sim, "pins"), 2);
	simreq_forget(&again, r.token);
	assert_int_equal(simnode_stat(&sim, "pins"), 1);
	assert_int_equal(simnode_stat(&sim, "free_bytes"), room);
	simreq_release(&again, viewed.pin);
	assert_int_equal(simnode_stat(&sim, "pins"), 0);
	simreq_close(&again);
	simreq_close(&other);
}

static void
pinned_bytes_have_a_bound(void **state)
{
	const char *keys[] = { "a", "b", "c", "d" };
	struct simreq r, other;
	struct simgot g[4];
	unsigned busy = 0;
	uint64_t id;

	(void)state;
	simreq_open_unix(&r, &sim, 0);
	for (int i = 0; i < 4; i++)
		assert_int_equal(simreq_put_one(&r, keys[i], blob, 200000),
				 KV_OK);
	/* Half of the pool holds two of them. */
	id = simreq_get(&r, keys, 4, NULL);
	for (int i = 0; i < 4; i++) {
		assert_true(simreq_got(&r, id, i, &g[i]));
		busy += g[i].status == KV_EBUSY;
	}
	assert_int_equal(busy, 2);
	assert_int_equal(simnode_stat(&sim, "gets_busy"), 2);
	/* Everybody may have one, however much is pinned. */
	simreq_open_unix(&other, &sim, 0);
	assert_int_equal(simreq_get_one(&other, "c", NULL, NULL), KV_OK);
	assert_int_equal(simreq_get_one(&other, "d", NULL, NULL), KV_EBUSY);
	/* What is released may be had again. */
	for (int i = 0; i < 2; i++)
		simreq_release(&r, g[i].pin);
	assert_int_equal(simreq_get_one(&r, "a", NULL, NULL), KV_OK);
	simreq_close(&r);
	simreq_close(&other);
}

/* ---- bytes on their way ---- */

static void
a_reader_that_stops_is_given_up(void **state)
{
	struct simget_opts opts = { .budget_ms = 500 };
	struct simreq r;

	(void)state;
	simreq_open_tcp(&r, &sim);
	assert_int_equal(simreq_put_one(&r, "k", blob, 500000), KV_OK);
	kv_conn_pause(r.data.c, true);
	assert_int_equal(simreq_get_one(&r, "k", &opts, NULL), KV_OK);
	simnode_run(&sim, 1000);
	assert_int_equal(simnode_stat(&sim, "pinned_bytes"), 500224);
	simnode_run(&sim, 600);
	assert_int_equal(simnode_stat(&sim, "pinned_bytes"), 0);
	assert_false(r.control.is_lost);
	kv_conn_pause(r.data.c, false);
	simnode_run(&sim, 50);
	assert_true(r.data.is_lost);
	simreq_close(&r);
}

/* Each of them costs the node more than the value. */
static void
pins_of_small_values_have_a_bound(void **state)
{
	struct simget_opts zero_copy = { .flags = KV_GET_ZERO_COPY };
	static const char *keys[SIMNODE_POOL / 2 / KV_PIN_BYTES_MIN + 1];
	enum {
		N = sizeof(keys) / sizeof(keys[0])
	};
	struct simreq r;
	struct simgot g;
	uint64_t id;

	(void)state;
	simreq_open_unix(&r, &sim, 0);
	assert_int_equal(simreq_put_one(&r, "k", blob, 1), KV_OK);
	for (int i = 0; i < N; i++)
		keys[i] = "k";
	id = simreq_get(&r, keys, N, &zero_copy);
	assert_true(simreq_got(&r, id, N - 1, &g));
	assert_int_equal(g.status, KV_EBUSY);
	assert_int_equal(simnode_stat(&sim, "pins"), N - 1);
	simreq_close(&r);
}

static void
a_lost_reader_unpins(void **state)
{
	struct simreq r;

	(void)state;
	simreq_open_tcp(&r, &sim);
	assert_int_equal(simreq_put_one(&r, "k", blob, 500000), KV_OK);
	kv_conn_pause(r.data.c, true);
	assert_int_equal(simreq_get_one(&r, "k", NULL, NULL), KV_OK);
	assert_int_equal(simnode_stat(&sim, "pinned_bytes"), 500224);
	simreq_close(&r);
	simnode_run(&sim, 5);
	assert_int_equal(simnode_stat(&sim, "pinned_bytes"), 0);
	assert_int_equal(simnode_stat(&sim, "processes"), 0);
}

static void
without_a_data_connection_only_inline(void **state)
{
	struct simgot g;
	struct simreq r;

	(void)state;
	simreq_open_tcp(&r, &sim);
	assert_int_equal(simreq_put_one(&r, "k", blob, 1000), KV_OK);
	wirepeer_close(&r.data);
	simnode_run(&sim, 5);
	assert_int_equal(simreq_get_one(&r, "k", NULL, &g), KV_ECONNLOST);
	assert_int_equal(g.size, 1000);
	assert_int_equal(get_inline(&r, "k", &g), KV_OK);
	simreq_close(&r);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, noderig_alone, noderig_close)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_pinned_value_stays_until_released),
		TEST(nobody_releases_the_pins_of_others),
		TEST(a_closed_connection_can_be_forgotten),
		TEST(pins_outlive_their_connection_not_their_process),
		TEST(pinned_bytes_have_a_bound),
		TEST(pins_of_small_values_have_a_bound),
		TEST(a_reader_that_stops_is_given_up),
		TEST(a_lost_reader_unpins),
		TEST(without_a_data_connection_only_inline),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
