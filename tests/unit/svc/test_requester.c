/* The client's core beside a real node, on the simulated network. */
#include <string.h>

#include "simnode.h"
#include "svc/nodecore.h"
#include "svc/putop.h"
#include "test.h"

static struct simnode sim;
static struct kv_hub hub;
static struct kv_chan *ch;

static int
pool_map(void *arg, struct kv_hub_map *map, bool write)
{
	(void)arg;
	*(write ? &map->write : &map->read) = (char *)sim.pool;
	return 0;
}

static void
pool_unmap(void *arg, struct kv_hub_map *map)
{
	(void)arg;
	(void)map;
}

static int
start(bool is_local)
{
	struct kv_hub_opts o = {
		.local = is_local ? "unix:/node.sock" : NULL,
		.name = "test",
		.boot = { { 7 } },
		.host = { { is_local ? 9 : 10 } },
		.mapper = { .map = pool_map, .unmap = pool_unmap },
	};

	simnode_open(&sim, &(struct simnode_opts){ 0 });
	o.net = simnode_new_process(&sim, is_local);
	assert_int_equal(kv_hub_init(&hub, &o), 0);
	ch = kv_chan_new(&hub, sim.loop);
	assert_non_null(ch);
	return 0;
}

static int
setup(void **state)
{
	(void)state;
	return start(true);
}

/* On another host. */
static int
setup_away(void **state)
{
	(void)state;
	return start(false);
}

static int
teardown(void **state)
{
	(void)state;
	kv_chan_free(ch);
	kv_hub_fini(&hub);
	simnode_run(&sim, 10);
	simnode_close(&sim);
	return 0;
}

static bool is_done;

static void
put_done(struct kv_putop *op)
{
	(void)op;
	is_done = true;
}

static int
put_sized(const char *key, size_t size, uint64_t timeout_ns)
{
	static char value[100000];
	struct kv_buf buf = { value, size };
	struct kv_put_item item = {
		.key = { key, strlen(key) },
		.bufs = &buf,
		.nbufs = 1,
	};
	struct kv_putop op = {
		.items = &item,
		.n = 1,
		.replicas = 1,
		.deadline = sim.clock.ns + timeout_ns,
		.done = put_done,
	};

	is_done = false;
	kv_loop_refresh(sim.loop);
	assert_int_equal(kv_putop_start(ch, &op), 0);
	while (!is_done)
		simnode_run(&sim, 1);
	return item.status;
}

/* Of more bytes than fit into a message: the requester fills the pool. */
static int
put(const char *key)
{
	return put_sized(key, 100000, KV_NS_PER_S);
}

static void
who_lost_the_last_connection_attaches_again(void **state)
{
	(void)state;
	assert_int_equal(put("k"), 0);
	assert_int_equal(simnode_stat(&sim, "attaches"), 1);
	kv_link_drop(ch->local, -KV_ECONNLOST);
	simnode_run(&sim, 10);
	assert_int_equal(put("l"), 0);
	assert_int_equal(simnode_stat(&sim, "attaches"), 2);
}

/* A node of another host that the table has. */
static void
learn(const struct kv_id *boot, const char *addr)
{
	struct {
		struct kv_node_rec rec;
		char addr[16];
	} r = { .rec = {
			.boot = *boot,
			.state = KV_NODE_LIVE,
			.addr_len = (uint8_t)strlen(addr),
			.pool_bytes = kv_le64(SIMNODE_POOL),
			.ready_bytes = kv_le64(SIMNODE_POOL),
			.free_bytes = kv_le64(SIMNODE_POOL),
		} };
	struct kv_cut cut = { (const uint8_t *)&r, sizeof(r.rec) + strlen(addr),
			      false };

	memcpy(r.addr, addr, strlen(addr));
	assert_int_equal(
		kv_hub_roll_learn(&hub, kv_hub_roll_begin(&hub), &cut, 1), 0);
}

static void
a_put_elsewhere_is_no_trial_of_a_sick_node(void **state)
{
	const struct kv_id sick = { { 55 } };

	(void)state;
	learn(&sick, "r:50052");
	kv_hub_sick(&hub, &sick, sim.clock.ns);
	simnode_run(&sim, 2000);
	assert_int_equal(put("k"), 0); /* at the own node */
	assert_true(kv_hub_try(&hub, &sick, sim.clock.ns));
	assert_false(kv_hub_try(&hub, &sick, sim.clock.ns));
}

static void
the_local_node_is_well_when_it_answers_here(void **state)
{
	struct kv_id boot;

	(void)state;
	assert_int_equal(put("k"), 0);
	boot = ch->local->boot;
	kv_link_drop(ch->local, -KV_ECONNLOST);
	kv_hub_sick(&hub, &boot, sim.clock.ns); /* over TCP */
	assert_int_equal(put("l"), 0);
	assert_false(kv_hub_has_failed(&hub, &boot));
}

/* Else it could come after a removal of what was put elsewhere instead. */
static void
give_up(const char *before, const char *key, uint64_t timeout_ns)
{
	simnode_run(&sim, 10 * 1000); /* it may be tried again */
	assert_int_equal(put_sized(before, 10, KV_NS_PER_S), 0);
	simnet_cut(sim.sn, "r", "n");
	assert_int_not_equal(put_sized(key, 10, timeout_ns), 0);
	simnet_heal(sim.sn, "r", "n");
	simnode_run(&sim, 100);
}

static void
a_put_that_was_given_up_is_not_done_later(void **state)
{
	(void)state;
	learn(kv_node_boot(sim.node), "n:50052");
	give_up("a", "k", 5 * KV_NS_PER_S); /* the node is silent */
	assert_int_equal(simnode_stat(&sim, "puts"), 1);
	give_up("b", "l", KV_NS_PER_S); /* there is no more time */
	assert_int_equal(simnode_stat(&sim, "puts"), 2);
}

/* It had not heard of the removal, and still waits. */
static void
who_is_refused_for_a_removal_puts_again(void **state)
{
	const struct kv_generation g = { 9, 1 };

	(void)state;
	assert_int_equal(put("k"), 0);
	kv_nodegen_learn(sim.node, NULL, 0, g);
	assert_int_equal(put("k"), 0);
	assert_int_equal(put_sized("l", 10, KV_NS_PER_S), 0);
	assert_int_equal(simnode_stat(&sim, "puts_ok"), 3);
	assert_int_equal(simnode_stat(&sim, "puts"), 4);
	assert_true(kv_generation_is_equal(kv_hub_generation(&hub), g));
}

#define WITH(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
#define AWAY(f) cmocka_unit_test_setup_teardown(f, setup_away, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		WITH(who_lost_the_last_connection_attaches_again),
		WITH(a_put_elsewhere_is_no_trial_of_a_sick_node),
		WITH(the_local_node_is_well_when_it_answers_here),
		WITH(who_is_refused_for_a_removal_puts_again),
		AWAY(a_put_that_was_given_up_is_not_done_later),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
