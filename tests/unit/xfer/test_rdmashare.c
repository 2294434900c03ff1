/* Rails in a model: each moves its slices one after the other at its speed, and
 * has the news of one's end half a round trip later. */

#include "base/attr.h"
#include "base/num.h"
#include "test.h"
#include "xfer/rdmashare.h"

enum {
	RAILS = 8,
	SLOTS = 64,
	MIB = 1 << 20,
	FIRST = 125000, /* bytes of a slice */
};

#define GBIT      0.125 /* bytes a nanosecond */
#define ROUND_NS  5000.0
#define SPEED_MAX (400 * GBIT)

static struct kv_rdmashare share;

struct rail {
	double speed;   /* what it does */
	double free_ns; /* its last slice has left */
	unsigned first, n;
	double done_ns[SLOTS]; /* of slices under way: when that is known */
	uint64_t bytes[SLOTS];
};

static struct rail rails[RAILS];
static uint32_t distant; /* bits of them */
static uint64_t whole;   /* of what is moved */
static double clock_ns;
static double longest_ns; /* from the post of a slice to its end */

static int
pick(unsigned n, uint64_t left, double now, uint64_t *bytes)
{
	uint32_t which = kv_rdmashare_near(&share, (1u << n) - 1, distant,
					   kv_max_u64(whole, left));

	return kv_rdmashare_pick(&share, which, left, (uint64_t)now, bytes);
}

static void
setup_deep(double speed, unsigned deep)
{
	unsigned i;

	distant = 0;
	whole = 0;
	clock_ns = longest_ns = 0;
	kv_rdmashare_init(&share, MIB, 64 << 10, deep);
	for (i = 0; i < RAILS; i++) {
		rails[i] = (struct rail){ .speed = speed };
		kv_rdmashare_speed(&share, i, speed);
	}
}

static void
setup(double speed)
{
	setup_deep(speed, 2);
}

static void
post(unsigned i, double now, uint64_t bytes)
{
	struct rail *r = &rails[i];
	unsigned at = (r->first + r->n) % SLOTS;
	double begin = now + ROUND_NS / 2;

	assert_true(r->n < SLOTS);
	r->free_ns = (r->free_ns > begin ? r->free_ns : begin) +
		     (double)bytes / r->speed;
	r->done_ns[at] = r->free_ns + ROUND_NS / 2;
	r->bytes[at] = bytes;
	r->n++;
	if (r->done_ns[at] - now > longest_ns)
		longest_ns = r->done_ns[at] - now;
	kv_rdmashare_post(&share, i, (uint64_t)now, bytes);
}

/* The next end of a slice; its time, or -1. */
static double
step(void)
{
	int i, best = -1;
	struct rail *r;
	double t;

	for (i = 0; i < RAILS; i++)
		if (rails[i].n &&
		    (best < 0 ||
		     rails[i].done_ns[rails[i].first] <
			     rails[best].done_ns[rails[best].first]))
			best = i;
	if (best < 0)
		return -1;
	r = &rails[best];
	t = r->done_ns[r->first];
	kv_rdmashare_done(&share, (unsigned)best, (uint64_t)t,
			  r->bytes[r->first]);
	r->first = (r->first + 1) % SLOTS;
	r->n--;
	return t;
}

/* Moves so many bytes; when it is over. */
static double
move_from(double now, uint64_t bytes)
{
	uint64_t b = 0;
	double t;
	int i;

	for (;;) {
		while (bytes > 0 && (i = pick(RAILS, bytes, now, &b)) >= 0) {
			assert_in_range(b, 1, MIB + share.least_bytes / 2);
			post((unsigned)i, now, b);
			bytes -= b;
		}
		t = step();
		if (t < 0)
			break;
		now = t;
	}
	assert_int_equal(bytes, 0);
	return now;
}

static double
move(uint64_t bytes)
{
	return move_from(0, bytes);
}

static double
efficiency(uint64_t bytes)
{
	double sum = 0;
	unsigned i;

	for (i = 0; i < RAILS; i++)
		sum += rails[i].speed;
	return (double)bytes / sum / move(bytes);
}

static void
one_value_has_all_rails(void **state)
{
	(void)state;
	setup(SPEED_MAX);
	assert_true(efficiency(40000000) >= 0.90);
}

static void
many_values_fill_them(void **state)
{
	(void)state;
	setup(SPEED_MAX);
	assert_true(efficiency(64 * UINT64_C(40000000)) >= 0.97);
}

/* It is not known to be slow. */
static void
a_slow_rail_takes_less(void **state)
{
	(void)state;
	setup(SPEED_MAX);
	rails[3].speed /= 2;
	assert_true(efficiency(64 * UINT64_C(40000000)) >= 0.95);
}

static void
is(unsigned i, double speed)
{
	rails[i].speed = speed;
	kv_rdmashare_speed(&share, i, speed);
}

static void
speeds_may_differ(void **state)
{
	(void)state;
	setup(SPEED_MAX);
	is(0, 25 * GBIT);
	is(1, 100 * GBIT);
	assert_true(efficiency(64 * UINT64_C(40000000)) >= 0.95);
	setup(SPEED_MAX);
	is(0, 25 * GBIT);
	is(1, 100 * GBIT);
	assert_true(efficiency(40000000) >= 0.85);
}

static void
one_out_of_use_takes_nothing(void **state)
{
	(void)state;
	setup(SPEED_MAX);
	kv_rdmashare_speed(&share, 5, 0);
	move(40000000);
	assert_true(rails[5].free_ns == 0);
}

static void
none_in_use_is_none(void **state)
{
	uint64_t b;

	(void)state;
	setup(0);
	assert_int_equal(pick(RAILS, 1, 0, &b), -1);
}

static void
whoever_is_full_waits(void **state)
{
	uint64_t b;

	(void)state;
	setup(SPEED_MAX);
	kv_rdmashare_post(&share, 0, 0, 2 * MIB);
	assert_int_equal(pick(1, MIB, 0, &b), -1);
	kv_rdmashare_done(&share, 0, 0, 1);
	assert_int_equal(pick(1, MIB, 0, &b), 0);
}

/* But rails share it where that is quicker. */
static void
what_is_small_goes_in_one(void **state)
{
	uint64_t b;

	(void)state;
	setup(SPEED_MAX);
	assert_true(pick(RAILS, 90000, 0, &b) >= 0);
	assert_int_equal(b, 90000);
	assert_true(pick(RAILS, 1, 0, &b) >= 0);
	assert_int_equal(b, 1);
	assert_true(pick(RAILS, 8 * 100000, 0, &b) >= 0);
	assert_int_equal(b, 100000);
}

/* ---- distant ones ---- */

/* Every second one is distant. */
#define ODD 0xaau

static uint32_t
near_for(uint64_t bytes)
{
	return kv_rdmashare_near(&share, 0xff, distant, bytes);
}

/* The near ones move two millions in ten microseconds. */
static void
distant_rails_help_with_much_only(void **state)
{
	(void)state;
	setup(SPEED_MAX);
	assert_int_equal(near_for(1), 0xff);
	distant = ODD;
	assert_int_equal(near_for(1), 0x55);
	assert_int_equal(near_for(2000000), 0x55);
	assert_int_equal(near_for(2000001), 0xff);
	/* What the near ones have counts, of the others it does not. */
	kv_rdmashare_post(&share, 1, 0, MIB);
	assert_int_equal(near_for(2000000), 0x55);
	kv_rdmashare_post(&share, 2, 0, MIB);
	assert_int_equal(near_for(2000000 - MIB), 0x55);
	assert_int_equal(near_for(2000001 - MIB), 0xff);
	kv_rdmashare_done(&share, 2, 0, MIB);
	assert_int_equal(near_for(2000000), 0x55);
}

static void
near_rails_that_are_slow_have_help_soon(void **state)
{
	(void)state;
	setup(SPEED_MAX);
	distant = ODD;
	is(0, 25 * GBIT);
	is(2, 25 * GBIT);
	is(4, 0);
	is(6, 0);
	assert_int_equal(near_for(62500), 0x05);
	assert_int_equal(near_for(62501), 0xff);
}

static void
where_all_are_distant_none_is(void **state)
{
	(void)state;
	setup(SPEED_MAX);
	distant = 0xff;
	assert_int_equal(near_for(1), 0xff);
	distant = 0xfe;
	assert_int_equal(near_for(1), 0x01);
	kv_rdmashare_speed(&share, 0, 0);
	assert_int_equal(near_for(1), 0xff);
	assert_int_equal(kv_rdmashare_near(&share, 0, distant, 1), 0);
}

static void
small_work_stays_near(void **state)
{
	double now = 0;
	unsigned i;

	(void)state;
	setup(SPEED_MAX);
	distant = ODD;
	for (i = 0; i < 1000; i++)
		now = move_from(now, 1 + i * 1000);
	for (i = 0; i < RAILS; i++)
		assert_true((rails[i].free_ns > 0) == !(ODD >> i & 1));
}

/* As much as if they were all alike, at the end of it, too. */
static void
large_work_has_all_rails(void **state)
{
	double least, most = 0;
	unsigned i;

	(void)state;
	setup(SPEED_MAX);
	distant = ODD;
	whole = 40000000;
	least = move(whole);
	for (i = 0; i < RAILS; i++) {
		assert_true(rails[i].free_ns > 0);
		least = rails[i].free_ns < least ? rails[i].free_ns : least;
		most = rails[i].free_ns > most ? rails[i].free_ns : most;
	}
	assert_true(least >= 0.90 * most);
	setup(SPEED_MAX);
	distant = ODD;
	whole = 40000000;
	assert_true(efficiency(whole) >= 0.90);
}

/* Of which the last ones stay near. */
static void
many_small_ones_at_once_have_all_rails(void **state)
{
	(void)state;
	setup(SPEED_MAX);
	distant = ODD;
	whole = 4096;
	assert_true(efficiency(64 * UINT64_C(40000000)) >= 0.97);
}

/* ---- acknowledgements in time ---- */

/* As soft devices say. Their first slices take 100 us if that is true. */
#define SPEED_SAID (10 * GBIT)

/* A NIC asks for them so often before it gives up. */
#define ASKS_NS     67e6
#define GIVES_UP_NS (7 * ASKS_NS)

/* Whatever they say of themselves. */
static void
do_each(double speed)
{
	unsigned i;

	for (i = 0; i < RAILS; i++)
		rails[i].speed = speed;
}

/* Does more of it. */
static double
go_on(uint64_t bytes)
{
	double began = clock_ns;

	clock_ns = move_from(began, bytes);
	return clock_ns - began;
}

static bool
goes_well(void)
{
	return (64 << 20) / (RAILS * rails[0].speed) / go_on(64 << 20) >= 0.9;
}

/* Of the first rail. */
static uint64_t
slice(void)
{
	uint64_t b = 0;

	assert_int_equal(pick(1, 64 << 20, clock_ns, &b), 0);
	return b;
}

static void
a_slow_rail_has_less_under_way(void **state)
{
	static const double mbit[] = { 20, 40, 100, 130, 300, 1000 };
	unsigned i;

	(void)state;
	for (i = 0; i < sizeof(mbit) / sizeof(mbit[0]); i++) {
		setup_deep(SPEED_SAID, 4);
		do_each(mbit[i] / 1000 * GBIT);
		go_on(8 << 20);
		/* It was not known at first. */
		assert_true(longest_ns < GIVES_UP_NS);
		if (mbit[i] < 40)
			continue;
		assert_true(longest_ns < 2 * ASKS_NS);
		if (mbit[i] < 100)
			continue;
		longest_ns = 0;
		assert_true(goes_well());
		assert_true(longest_ns < ASKS_NS);
	}
}

/* The first that ends says that it is not that slow. */
static void
slices_grow_at_once_where_they_can(void **state)
{
	(void)state;
	setup_deep(SPEED_SAID, 4);
	assert_int_equal(slice(), FIRST);
	post(0, clock_ns, FIRST);
	step();
	assert_int_equal(slice(), MIB);
	assert_true(goes_well());
}

static void
who_is_said_to_be_fast_begins_with_whole_ones(void **state)
{
	(void)state;
	setup_deep(100 * GBIT, 4);
	assert_int_equal(slice(), MIB);
}

static void
one_that_becomes_slow_has_less(void **state)
{
	(void)state;
	setup_deep(SPEED_SAID, 4);
	go_on(64 << 20);
	do_each(0.5 * GBIT);
	go_on(256 << 20);
	assert_in_range(slice(), MIB / 2, MIB - 1);
	do_each(0.04 * GBIT);
	go_on(64 << 20);
	longest_ns = 0;
	go_on(64 << 20);
	assert_true(longest_ns < ASKS_NS);
}

static void
one_that_becomes_fast_has_more(void **state)
{
	(void)state;
	setup_deep(SPEED_SAID, 4);
	do_each(0.04 * GBIT);
	go_on(64 << 20);
	assert_true(slice() < FIRST);
	do_each(SPEED_SAID);
	go_on(256 << 20);
	assert_int_equal(slice(), MIB);
}

/* It is seen to do this; nothing is under way. */
static void
one_that_is_said_to_be_another_takes_more(void **state)
{
	uint64_t b;
	unsigned i;

	(void)state;
	setup_deep(100 * GBIT, 4);
	go_on(256 << 20);
	for (i = 0; i < RAILS; i++)
		kv_rdmashare_speed(&share, i, 90 * GBIT);
	assert_int_equal(pick(RAILS, 64 << 20, clock_ns, &b), 0);
	assert_int_equal(b, MIB);
}

static void
one_that_failed_begins_anew(void **state)
{
	(void)state;
	setup_deep(SPEED_SAID, 4);
	go_on(64 << 20);
	assert_int_equal(slice(), MIB);
	kv_rdmashare_post(&share, 0, (uint64_t)clock_ns, MIB);
	kv_rdmashare_drop(&share, 0, (uint64_t)clock_ns, MIB);
	assert_int_equal(slice(), FIRST);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_value_has_all_rails),
		cmocka_unit_test(many_values_fill_them),
		cmocka_unit_test(a_slow_rail_takes_less),
		cmocka_unit_test(speeds_may_differ),
		cmocka_unit_test(one_out_of_use_takes_nothing),
		cmocka_unit_test(none_in_use_is_none),
		cmocka_unit_test(whoever_is_full_waits),
		cmocka_unit_test(what_is_small_goes_in_one),
		cmocka_unit_test(distant_rails_help_with_much_only),
		cmocka_unit_test(near_rails_that_are_slow_have_help_soon),
		cmocka_unit_test(where_all_are_distant_none_is),
		cmocka_unit_test(small_work_stays_near),
		cmocka_unit_test(large_work_has_all_rails),
		cmocka_unit_test(many_small_ones_at_once_have_all_rails),
		cmocka_unit_test(a_slow_rail_has_less_under_way),
		cmocka_unit_test(slices_grow_at_once_where_they_can),
		cmocka_unit_test(who_is_said_to_be_fast_begins_with_whole_ones),
		cmocka_unit_test(one_that_becomes_slow_has_less),
		cmocka_unit_test(one_that_becomes_fast_has_more),
		cmocka_unit_test(one_that_is_said_to_be_another_takes_more),
		cmocka_unit_test(one_that_failed_begins_anew),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
