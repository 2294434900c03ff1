/*
 * How near puts and gets come to what their rails can do: 8 of 400 Gbit/s, 5 us
 * there and back, for whole calls of real cores. Time is virtual, so the
 * figures are the same everywhere; what processors cost is not in them.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/num.h"
#include "railcall.h"
#include "test.h"

enum {
	MIB = 1 << 20,
	RAILS = 8,
	LARGE = 40 * 1000 * 1000,
	REQUESTS = 64,
	EACH = 8 * MIB,
	CUT = 5, /* the rail that is */
};

#define GBPS         400.0
#define LIMITED_GBPS 100.0
#define ONE_WAY_NS   UINT64_C(2500)

static struct railcall calls[REQUESTS];
static char names[REQUESTS][16];

static void
begin(unsigned n_rails, double gbps)
{
	const struct railcall_opts o = {
		.rails = { .seed = 1,
			   .rails = n_rails,
			   .gbps = gbps,
			   .latency_ns = ONE_WAY_NS },
		.pool_bytes = 1536ull * MIB,
		.latency_ns = ONE_WAY_NS,
	};

	railcall_begin_with(&o);
	/* The first call makes the connections. */
	railcall_put_value("first", 4 * MIB, true);
	railcall_get_value("first", 4 * MIB, true);
	cluster_run(cl, KV_NS_PER_S);
	assert_int_equal(kv_link_rails(railcall_link()), n_rails);
}

static int
setup(void **state)
{
	(void)state;
	begin(RAILS, GBPS);
	return 0;
}

static int
teardown(void **state)
{
	(void)state;
	railcall_end();
	return 0;
}

/* Of what so many rails can do. */
static double
part_of(uint64_t bytes, uint64_t ns, double n_rails)
{
	return (double)bytes / ((double)ns * n_rails * GBPS / 8);
}

static void
bar(const char *what, double part, double least)
{
	print_message("# %s: %.3f (bar %.2f)\n", what, part, least);
	if (part < least)
		fail_msg("%s: %.3f is less than %.2f", what, part, least);
}

static void
start(unsigned n, bool is_put, char first)
{
	unsigned i;

	for (i = 0; i < n; i++) {
		snprintf(names[i], sizeof(names[i]), "%c%u", first, i);
		calls[i].is_done = false;
		if (is_put)
			railcall_put(&calls[i], names[i], 5 * KV_NS_PER_S);
		else
			railcall_get(&calls[i], names[i], 5 * KV_NS_PER_S);
	}
}

/* Since when, until the last one was done. */
static uint64_t
finish(unsigned n, size_t size, bool is_put, uint64_t began_ns)
{
	uint64_t last = 0;
	unsigned i;

	for (i = 0; i < n; i++) {
		railcall_wait(&calls[i]);
		assert_int_equal(is_put ? calls[i].pitem.status
					: calls[i].gitem.status,
				 0);
		if (!is_put)
			railcall_check(&calls[i], names[i], 0, size);
		last = kv_max_u64(last, calls[i].done_ns);
	}
	return last - began_ns;
}

/* Starts all and waits for all; how long the last one took. */
static uint64_t
run(unsigned n, size_t size, bool is_put)
{
	uint64_t began = cl->clock.ns;

	start(n, is_put, 'k');
	return finish(n, size, is_put, began);
}

static void
calls_new(unsigned n, size_t size)
{
	unsigned i;

	for (i = 0; i < n; i++)
		railcall_new(&calls[i], size, true);
}

static void
calls_free(unsigned n)
{
	unsigned i;

	for (i = 0; i < n; i++)
		railcall_free(&calls[i]);
}

static void
one_request(void **state)
{
	uint64_t put, get;

	(void)state;
	calls_new(1, LARGE);
	put = run(1, LARGE, true);
	get = run(1, LARGE, false);
	calls_free(1);
	print_message("# one put of 40 MB, with its publishing: %.3f\n",
		      part_of(LARGE, put, RAILS));
	/* A master is told before it returns. */
	bar("one put of 40 MB, less the master's round trip",
	    part_of(LARGE, put - 2 * ONE_WAY_NS, RAILS), 0.90);
	bar("one get of 40 MB", part_of(LARGE, get, RAILS), 0.90);
}

static void
many_requests(void **state)
{
	uint64_t bytes = (uint64_t)REQUESTS * EACH, put, get;

	(void)state;
	calls_new(REQUESTS, EACH);
	put = run(REQUESTS, EACH, true);
	get = run(REQUESTS, EACH, false);
	bar("64 puts", part_of(bytes, put, RAILS), 0.97);
	bar("64 gets", part_of(bytes, get, RAILS), 0.97);
	calls_free(REQUESTS);
}

static void
one_rail_at_half_speed(void **state)
{
	uint64_t bytes = (uint64_t)REQUESTS * EACH, put, get;

	(void)state;
	calls_new(REQUESTS, EACH);
	hca_rate(simrails_port(rails, "n0", 3), GBPS / 8 / 2);
	put = run(REQUESTS, EACH, true);
	get = run(REQUESTS, EACH, false);
	bar("64 puts, one rail at half speed", part_of(bytes, put, RAILS - 0.5),
	    0.95);
	bar("64 gets, one rail at half speed", part_of(bytes, get, RAILS - 0.5),
	    0.95);
	calls_free(REQUESTS);
}

static void
cut_meanwhile(bool is_put)
{
	start(REQUESTS, is_put, 'k');
	cluster_run(cl, 300 * KV_NS_PER_US);
	simrails_cut(rails, NULL, CUT, true);
	finish(REQUESTS, EACH, is_put, 0);
}

/* Nothing fails when it is cut, and from its detection on the others do what
 * they can. */
static void
one_rail_cut_under_gets(void **state)
{
	uint64_t bytes = (uint64_t)REQUESTS * EACH, get;

	(void)state;
	calls_new(REQUESTS, EACH);
	run(REQUESTS, EACH, true);
	cut_meanwhile(false);
	assert_int_equal(kv_link_rails(railcall_link()), RAILS - 1);
	get = run(REQUESTS, EACH, false);
	calls_free(REQUESTS);
	bar("64 gets, one rail cut", part_of(bytes, get, RAILS - 1), 0.95);
}

static void
one_rail_cut_under_puts(void **state)
{
	uint64_t bytes = (uint64_t)REQUESTS * EACH, began, put;

	(void)state;
	calls_new(REQUESTS, EACH);
	cut_meanwhile(true);
	run(REQUESTS, EACH, false);
	began = cl->clock.ns;
	start(REQUESTS, true, 'l');
	put = finish(REQUESTS, EACH, true, began);
	calls_free(REQUESTS);
	bar("64 puts, one rail cut", part_of(bytes, put, RAILS - 1), 0.95);
}

/* One put and one get by so many rails of LIMITED_GBPS, whose ports say that
 * they do `said`; how long they took. */
static void
run_limited(unsigned n_rails, double said, uint64_t ns[2])
{
	unsigned i;

	begin(n_rails, said);
	for (i = 0; i < n_rails; i++)
		hca_rate(simrails_port(rails, "n0", i), LIMITED_GBPS / 8);
	calls_new(1, LARGE);
	ns[0] = run(1, LARGE, true);
	ns[1] = run(1, LARGE, false);
	calls_free(1);
	railcall_end();
}

static void
two_limited_rails_are_twice_one(void **state)
{
	static const double said[] = { LIMITED_GBPS, GBPS };
	uint64_t one[2], two[2];
	unsigned i;

	(void)state;
	for (i = 0; i < KV_ARRAY_LEN(said); i++) {
		run_limited(1, said[i], one);
		run_limited(2, said[i], two);
		bar("a put by two limited rails, beside one",
		    (double)one[0] / (double)two[0], 1.95);
		bar("a get by two limited rails, beside one",
		    (double)one[1] / (double)two[1], 1.95);
	}
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(one_request),
		TEST(many_requests),
		TEST(one_rail_at_half_speed),
		TEST(one_rail_cut_under_gets),
		TEST(one_rail_cut_under_puts),
		cmocka_unit_test(two_limited_rails_are_twice_one),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
