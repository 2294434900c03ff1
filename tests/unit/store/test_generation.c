#include "store/generation.h"

#include <errno.h>
#include <string.h>

#include "test.h"

static struct kv_generation
gen(uint64_t number, uint64_t random)
{
	return (struct kv_generation){ number, random };
}

static void
assert_same(struct kv_generation a, struct kv_generation b)
{
	assert_int_equal(a.number, b.number);
	assert_int_equal(a.random, b.random);
}

static void
test_the_higher_one_holds(void **state)
{
	(void)state;
	assert_same(kv_generation_merge(gen(0, 0), gen(0, 0)), gen(0, 0));
	assert_same(kv_generation_merge(gen(1, 9), gen(2, 3)), gen(2, 3));
	assert_same(kv_generation_merge(gen(2, 3), gen(1, 9)), gen(2, 3));
	assert_same(kv_generation_merge(gen(2, 3), gen(2, 3)), gen(2, 3));
}

/* Two of one number: one above both, whoever sees them. */
static void
test_twins_make_a_third(void **state)
{
	struct kv_generation a = gen(4, 1), b = gen(4, 2), c = gen(4, 3);
	struct kv_generation ab = kv_generation_merge(a, b);

	(void)state;
	assert_int_equal(ab.number, 5);
	assert_int_not_equal(ab.random, a.random);
	assert_int_not_equal(ab.random, b.random);
	assert_same(kv_generation_merge(b, a), ab);
	assert_same(kv_generation_merge(ab, a), ab);
	assert_same(kv_generation_merge(b, ab), ab);
	assert_int_not_equal(kv_generation_merge(a, c).random, ab.random);
	/* There is none above. */
	a.number = b.number = UINT64_MAX;
	assert_int_equal(kv_generation_merge(a, b).number, UINT64_MAX);
}

/* It is above what others make of theirs, however many there were at once. */
static void
test_the_next_one(void **state)
{
	const uint64_t step = KV_GENERATION_STEP;
	struct kv_generation many = gen(0, 0);
	struct kv_generation first = kv_generation_next(gen(0, 0), 1);
	uint64_t i;

	(void)state;
	assert_same(first, gen(step, 1));
	assert_same(kv_generation_next(gen(step + 5, 9), 2), gen(2 * step, 2));
	for (i = 0; i < 9; i++)
		many = kv_generation_merge(
			many, kv_generation_merge(
				      first, kv_generation_next(gen(0, 0), i)));
	assert_true(kv_generation_next(first, 3).number > many.number);
	/* There are none so far above. */
	assert_same(kv_generation_next(gen(UINT64_MAX - step, 1), 4),
		    gen(UINT64_MAX - step + 1, 4));
	assert_same(kv_generation_next(gen(UINT64_MAX, 1), 4),
		    gen(UINT64_MAX, 4));
}

static void
test_table(void **state)
{
	struct kv_generations t = { 0 };

	(void)state;
	assert_same(kv_generation_get(&t, "a", 1), gen(0, 0));
	assert_int_equal(kv_generation_learn(&t, "a", 1, gen(0, 5)), 0);
	assert_int_equal(t.count, 0);
	assert_int_equal(kv_generation_learn(&t, "a", 1, gen(3, 1)), 1);
	assert_int_equal(kv_generation_learn(&t, "a", 1, gen(3, 1)), 0);
	assert_int_equal(kv_generation_learn(&t, "a", 1, gen(2, 7)), 0);
	assert_int_equal(kv_generation_learn(&t, "ab", 2, gen(9, 1)), 1);
	assert_same(kv_generation_get(&t, "a", 1), gen(3, 1));
	assert_same(kv_generation_get(&t, "ab", 2), gen(9, 1));
	assert_int_equal(kv_generation_learn(&t, "a", 1, gen(3, 2)), 1);
	assert_same(kv_generation_get(&t, "a", 1),
		    kv_generation_merge(gen(3, 1), gen(3, 2)));
	assert_int_equal(kv_generation_learn(&t, "", 0, gen(1, 1)), 1);
	assert_same(kv_generation_get(&t, "default", 7), gen(1, 1));
	kv_generation_fini(&t);
	assert_int_equal(t.count, 0);
}

static void
test_bound(void **state)
{
	struct kv_generations t = { 0 };
	unsigned i;

	(void)state;
	for (i = 0; i < KV_GENERATIONS_MAX; i++)
		assert_int_equal(kv_generation_learn(&t, (const char *)&i,
						     sizeof(i), gen(1, i)),
				 1);
	assert_int_equal(kv_generation_learn(&t, "more", 4, gen(1, 1)),
			 -ENOSPC);
	i = 77;
	assert_int_equal(
		kv_generation_learn(&t, (const char *)&i, sizeof(i), gen(2, 2)),
		1);
	assert_same(kv_generation_get(&t, (const char *)&i, sizeof(i)),
		    gen(2, 2));
	kv_generation_fini(&t);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_the_higher_one_holds),
		cmocka_unit_test(test_twins_make_a_third),
		cmocka_unit_test(test_the_next_one),
		cmocka_unit_test(test_table),
		cmocka_unit_test(test_bound),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
