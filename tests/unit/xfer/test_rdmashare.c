/* Rails in a model: each moves its slices one after the other at its speed, and
 * has the news of one's end half a round trip later. */

#include "base/attr.h"
#include "test.h"
#include "xfer/rdmashare.h"

enum {
	RAILS = 8,
	SLOTS = 64,
	MIB = 1 << 20,
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

static int
pick(unsigned n, uint64_t left, double now, uint64_t *bytes)
{
	return kv_rdmashare_pick(&share, (1u << n) - 1, left, (uint64_t)now,
				 bytes);
}

static void
setup(double speed)
{
	unsigned i;

	kv_rdmashare_init(&share, MIB, 64 << 10, 2);
	for (i = 0; i < RAILS; i++) {
		rails[i] = (struct rail){ .speed = speed };
		kv_rdmashare_speed(&share, i, speed);
	}
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

/* Moves so many bytes; nanoseconds. */
static double
move(uint64_t bytes)
{
	double now = 0, t;
	uint64_t b = 0;
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
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
