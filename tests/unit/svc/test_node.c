/* The beginning and the end of a node. */

#include "simnode.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/status.h"

#include "test.h"

static struct simnode sim;
static uint8_t blob[200000];
static int done;

static int
setup(void **state)
{
	const struct simnode_opts opts = { .masters = 1 };

	(void)state;
	done = 0;
	simnode_open(&sim, &opts);
	simnode_master_up(&sim, 0);
	simnode_run(&sim, 300);
	return 0;
}

static int
teardown(void **state)
{
	(void)state;
	simnode_close(&sim);
	return 0;
}

static void
on_done(void *arg)
{
	assert_ptr_equal(arg, &sim);
	done++;
}

static void
stop(void)
{
	kv_node_stop(sim.node, on_done, &sim);
	assert_int_equal(done, 0);
}

static void
an_idle_node_ends_at_once(void **state)
{
	struct simreq r;

	(void)state;
	simreq_open_tcp(&r, &sim);
	stop();
	simnode_run(&sim, 5);
	assert_int_equal(done, 1);
	assert_int_equal(sim.masters[0].leaves, 1);
	assert_true(r.control.is_lost);
	assert_true(r.data.is_lost);
	assert_null(simreq_dial(&sim, r.net, false));
	simreq_close(&r);
}

static void
puts_under_way_may_end(void **state)
{
	struct simput items[] = { { "k", 1000, NULL } };
	struct simput other = { "other", 3, "abc" };
	struct simgrant g;
	struct simreq r;
	uint64_t id, late;

	(void)state;
	simreq_open_unix(&r, &sim, 0);
	id = simreq_put(&r, items, 1, NULL);
	assert_true(simreq_grant(&r, id, 0, &g));
	stop();
	simnode_run(&sim, 100);
	assert_int_equal(done, 0);
	/* What comes from now on is refused. */
	late = simreq_put(&r, &other, 1, NULL);
	assert_int_equal(simreq_put_refusal(&r, late), KV_ECLOSED);
	simreq_filled(&r, id, g.grant, false);
	simnode_run(&sim, 10);
	assert_int_equal(simreq_put_status(&r, id, 0), KV_OK);
	assert_int_equal(done, 1);
	simreq_close(&r);
}

static void
they_are_not_waited_for_for_ever(void **state)
{
	struct simput items[] = { { "k", 1000, NULL } };
	struct simput_opts opts = { .budget_ms = 60000 };
	struct simreq r;

	(void)state;
	simreq_open_unix(&r, &sim, 0);
	simreq_put(&r, items, 1, &opts);
	stop();
	simnode_run(&sim, 4900);
	assert_int_equal(done, 0);
	simnode_run(&sim, 200);
	assert_int_equal(done, 1);
	simreq_close(&r);
}

static void
the_second_stop_ends_it_at_once(void **state)
{
	struct simput items[] = { { "k", 1000, NULL } };
	struct simreq r;

	(void)state;
	simreq_open_unix(&r, &sim, 0);
	simreq_put(&r, items, 1, NULL);
	stop();
	simnode_run(&sim, 10);
	assert_int_equal(done, 0);
	stop();
	simnode_run(&sim, 2);
	assert_int_equal(done, 1);
	kv_node_stop(sim.node, on_done, &sim);
	simnode_run(&sim, 10);
	assert_int_equal(done, 1);
	simreq_close(&r);
}

static void
a_lost_requester_is_not_waited_for(void **state)
{
	struct simput items[] = { { "k", 1000, NULL } };
	struct simreq r;

	(void)state;
	simreq_open_unix(&r, &sim, 0);
	simreq_put(&r, items, 1, NULL);
	stop();
	simnode_run(&sim, 10);
	simreq_close(&r);
	simnode_run(&sim, 5);
	assert_int_equal(done, 1);
}

/* In the middle of everything: nothing is left, nothing is touched again. */
static void
a_crash_leaves_nothing(void **state)
{
	struct simput items[] = {
		{ "a", 1000, NULL },
		{ "b", 3, "abc" },
	};
	struct simreq shm, tcp, waiter;
	struct simgot g;

	(void)state;
	simreq_open_unix(&shm, &sim, 0);
	simreq_open_unix(&waiter, &sim, 0);
	simreq_open_tcp(&tcp, &sim);
	assert_int_equal(simreq_put_one(&shm, "big", blob, sizeof(blob)),
			 KV_OK);
	assert_int_equal(simreq_get_one(&shm, "big", NULL, &g), KV_OK);
	kv_conn_pause(tcp.data.c, true);
	assert_int_equal(simreq_get_one(&tcp, "big", NULL, NULL), KV_OK);
	sim.masters[0].by_hand = true;
	simreq_put(&shm, items, 2, NULL);
	simreq_put(&waiter, items, 2, NULL);
	items[0].key = "c";
	simreq_put(&tcp, items, 2, NULL);
	kv_node_free(sim.node);
	sim.node = NULL;
	simnode_run(&sim, 10);
	assert_true(shm.control.is_lost);
	assert_true(tcp.control.is_lost);
	assert_int_equal(sim.masters[0].leaves, 0);
	simreq_close(&shm);
	simreq_close(&waiter);
	simreq_close(&tcp);
}

static void
what_cannot_be_is_told(void **state)
{
	struct kv_node_opts o = {
		.loop = sim.loop,
		.net = sim.net,
		.pool = sim.pool,
		.listen = { "tcp:n:50052" },
	};
	char err[256] = "", name[KV_NAME_BYTES_MAX + 2];
	char wide[KV_NAME_BYTES_MAX + 1];
	const char *const no_addrs[] = { "a b", "::1", "unix:/a", "10.1",
					 wide };

	(void)state;
	memset(wide, 'x', sizeof(wide));
	wide[60] = wide[120] = '.';
	wide[KV_NAME_BYTES_MAX] = '\0';
	assert_null(kv_node_new(&o, err, sizeof(err)));
	assert_int_equal(errno, EINVAL);
	assert_non_null(strstr(err, "too small"));
	o.pool_bytes = SIMNODE_POOL;
	assert_null(kv_node_new(&o, err, sizeof(err)));
	assert_int_equal(errno, EADDRINUSE);
	assert_non_null(strstr(err, "tcp:n:50052"));
	memset(name, 'x', sizeof(name));
	name[sizeof(name) - 1] = '\0';
	o.name = name;
	assert_null(kv_node_new(&o, err, sizeof(err)));
	assert_int_equal(errno, EINVAL);
	o.name = NULL;
	o.listen[0] = "tcp:n:50053";
	for (size_t i = 0; i < KV_ARRAY_LEN(no_addrs); i++) {
		o.addr = no_addrs[i];
		assert_null(kv_node_new(&o, err, sizeof(err)));
		assert_int_equal(errno, EINVAL);
		assert_non_null(strstr(err, "address '"));
	}
	o.addr = "somewhere";
	{
		struct kv_node *n = kv_node_new(&o, err, sizeof(err));

		assert_non_null(n);
		assert_string_equal(kv_node_addr(n), "somewhere:50053");
		kv_node_free(n);
	}
	kv_node_free(NULL);
}

static void
pages_are_announced_once(void **state)
{
	(void)state;
	assert_int_equal(kv_node_ready(sim.node, 0, 4096), -EEXIST);
	assert_int_equal(kv_node_ready(sim.node, SIMNODE_POOL, 4096), -EINVAL);
	assert_int_equal(simnode_stat(&sim, "ready_bytes"), SIMNODE_POOL);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(an_idle_node_ends_at_once),
		TEST(puts_under_way_may_end),
		TEST(they_are_not_waited_for_for_ever),
		TEST(the_second_stop_ends_it_at_once),
		TEST(a_lost_requester_is_not_waited_for),
		TEST(a_crash_leaves_nothing),
		TEST(what_cannot_be_is_told),
		TEST(pages_are_announced_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
