#include "base/clock.h"

#include <time.h>

#include "test.h"

static void
real_clock_goes_forward(void **state)
{
	const struct timespec ms5 = { .tv_nsec = 5000000 };
	const struct kv_clock c = { 0 };
	uint64_t before, after;

	(void)state;
	before = kv_clock_now(&c);
	nanosleep(&ms5, NULL);
	after = kv_clock_now(&c);
	assert_true(after - before >= 5 * KV_NS_PER_MS);
	assert_true(after - before < 100 * KV_NS_PER_S);
}

static void
virtual_clock_is_its_field(void **state)
{
	struct kv_clock c = { .is_virtual = true, .ns = 5 };

	(void)state;
	assert_int_equal(kv_clock_now(&c), 5);
	assert_int_equal(kv_clock_now(&c), 5);
	c.ns += KV_NS_PER_S;
	assert_int_equal(kv_clock_now(&c), 1000000005);
}

static void
wall_clock_is_unix_time(void **state)
{
	uint64_t s = kv_clock_wall_ms() / 1000, now = (uint64_t)time(NULL);

	(void)state;
	assert_true(s + 1 >= now && s <= now + 1);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(real_clock_goes_forward),
		cmocka_unit_test(virtual_clock_is_its_field),
		cmocka_unit_test(wall_clock_is_unix_time),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
