#include "base/htab.h"

#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "base/num.h"
#include "base/rng.h"
#include "base/warm.h"

#include "nth_fault.h"
#include "test.h"

/*
 * The model is the array itself: item i has key i, and says whether it is in
 * the table. hash_mask makes items share hashes, hash_ones buckets.
 */
struct item {
	struct kv_htab_node node;
	uint32_t key;
	uint32_t seen;
	bool present;
	bool stayed; /* in the table since the walk began */
};

enum {
	N = 450000
};

static struct item items[N];
static struct kv_htab table;
static struct kv_rng rng;
static uint64_t hash_mask;
static uint64_t hash_ones;

static uint64_t
hash_of(uint32_t key)
{
	return ((key + 1) * 0x9e3779b97f4a7c15u >> 13 & hash_mask) | hash_ones;
}

static void
set_up(uint64_t seed, uint64_t mask)
{
	uint32_t i;

	memset(items, 0, sizeof(items));
	for (i = 0; i < N; i++)
		items[i].key = i;
	kv_rng_seed(&rng, seed);
	kv_htab_init(&table);
	hash_mask = mask;
	hash_ones = 0;
}

static struct item *
item_of(struct kv_htab_node *n)
{
	return KV_CONTAINER_OF(n, struct item, node);
}

static struct item *
find(uint32_t key)
{
	uint64_t h = hash_of(key);
	struct kv_htab_node *n = kv_htab_first(&table, h);

	for (; n; n = kv_htab_next(&table, n)) {
		assert_int_equal(n->hash, h);
		if (item_of(n)->key == key)
			return item_of(n);
	}
	return NULL;
}

/* Bucket count moves by a bounded step in every operation. */
static void
toggle(struct item *it)
{
	size_t before = table.buckets;

	if (it->present) {
		kv_htab_del(&table, &it->node);
		memset(&it->node, 0xff, sizeof(it->node));
		assert_in_range(before - table.buckets, 0, 8);
	} else {
		assert_int_equal(
			kv_htab_add(&table, &it->node, hash_of(it->key)), 0);
		assert_true(before == 0 || table.buckets - before <= 1);
	}
	it->present = !it->present;
	it->stayed = false;
}

static void
check_all(uint32_t n)
{
	size_t count = 0;
	uint32_t i;

	for (i = 0; i < n; i++) {
		assert_ptr_equal(find(i), items[i].present ? &items[i] : NULL);
		count += items[i].present;
	}
	assert_int_equal(kv_htab_count(&table), count);
}

static void
random_changes_agree_with_the_model(void **state)
{
	uint32_t i, k, n;
	struct item *it;

	(void)state;
	set_up(1, UINT64_MAX);
	check_all(1000);
	/* The range swells and shrinks, and the table with it. */
	for (k = 0; k < 40; k++) {
		n = 1 + (uint32_t)kv_rng_below(&rng, k % 2 ? 2000 : 50000);
		for (i = 0; i < 30000; i++) {
			it = &items[kv_rng_below(&rng, n)];
			assert_ptr_equal(find(it->key),
					 it->present ? it : NULL);
			toggle(it);
		}
		for (i = n; i < 50000; i++)
			if (items[i].present && i % 16)
				toggle(&items[i]);
		if (k % 8 == 0)
			check_all(50000);
	}
	check_all(50000);
	kv_htab_fini(&table);
}

static void
grows_and_shrinks_with_its_content(void **state)
{
	uint32_t i;

	(void)state;
	set_up(2, UINT64_MAX);
	assert_null(kv_htab_first(&table, 1));
	kv_htab_prefetch(&table, 1);
	for (i = 0; i < N; i++) {
		toggle(&items[i]);
		kv_htab_prefetch(&table, hash_of(i));
	}
	assert_in_range(table.buckets, N / 2 - 1, N / 2 + 1);
	check_all(N);
	for (i = 0; i < N - 100; i++) {
		toggle(&items[i]);
		assert_true(table.buckets <= KV_HTAB_BUCKETS_MIN ||
			    table.buckets <= 2 * table.count + 8);
	}
	check_all(N);
	for (; i < N; i++)
		toggle(&items[i]);
	assert_int_equal(table.buckets, KV_HTAB_BUCKETS_MIN);
	check_all(N);
	toggle(&items[0]);
	assert_ptr_equal(find(0), &items[0]);
	kv_htab_fini(&table);
	assert_int_equal(kv_htab_count(&table), 0);
}

/* What is guessed is what is found, but for hashes that agree in the half that
 * is kept beside the nodes, and for nodes in chains. */
static void
a_guess_is_mostly_right(void **state)
{
	const struct kv_htab_node *n;
	uint32_t i, right = 0, wrong = 0;

	(void)state;
	set_up(6, UINT64_MAX);
	assert_null(kv_htab_guess(&table, 1));
	for (i = 0; i < 20000; i += 2)
		toggle(&items[i]);
	for (i = 0; i < 20000; i++) {
		n = kv_htab_guess(&table, hash_of(i));
		if (n == (i % 2 ? NULL : &items[i].node))
			right++;
		else if (n)
			wrong++;
	}
	assert_true(right > 19000);
	assert_true(wrong < 10);
	kv_htab_fini(&table);
}

static void
equal_hashes_are_all_candidates(void **state)
{
	uint32_t i;

	(void)state;
	set_up(3, 0xff);
	for (i = 0; i < 5000; i++)
		toggle(&items[i]);
	check_all(5000);
	for (i = 0; i < 5000; i += 3)
		toggle(&items[i]);
	check_all(5000);
	kv_htab_fini(&table);
}

static void
mark_seen(void *arg, struct kv_htab_node *n)
{
	uint32_t *calls = arg;

	assert_true(item_of(n)->present);
	item_of(n)->seen++;
	(*calls)++;
}

static void
quiet_walk_sees_each_once(void **state)
{
	static const uint32_t sizes[] = { 0, 1, 15, 16, 17, 100, 1000, 65536 };
	uint32_t k, i, calls;
	uint64_t cursor;

	(void)state;
	for (k = 0; k < KV_ARRAY_LEN(sizes); k++) {
		set_up(k, UINT64_MAX);
		for (i = 0; i < sizes[k]; i++)
			toggle(&items[i]);
		calls = 0;
		cursor = 0;
		do
			cursor = kv_htab_scan(&table, cursor, 7, mark_seen,
					      &calls);
		while (cursor);
		assert_int_equal(calls, sizes[k]);
		for (i = 0; i < sizes[k]; i++)
			assert_int_equal(items[i].seen, 1);
		kv_htab_fini(&table);
	}
}

/* A caller has room for so many, and what may share two buckets. */
static void
a_step_sees_no_more_than_asked(void **state)
{
	uint32_t n, i, before, calls = 0;
	uint64_t cursor = 0;

	(void)state;
	set_up(7, UINT64_MAX);
	for (n = 1000; n < N; n *= 2) {
		for (i = n / 2; i < n; i++)
			if (!items[i].present)
				toggle(&items[i]);
		do {
			before = calls;
			cursor = kv_htab_scan(&table, cursor, 512, mark_seen,
					      &calls);
			assert_in_range(calls - before, cursor ? 256 : 0,
					512 + 64);
		} while (cursor);
	}
	kv_htab_fini(&table);
}

/* One walk, with the table growing and shrinking by much in between. */
static void
walk_with_changes(uint32_t n, int bias)
{
	uint32_t i, calls = 0;
	uint64_t cursor = 0;

	for (i = 0; i < n; i++) {
		items[i].stayed = items[i].present;
		items[i].seen = 0;
	}
	do {
		cursor = kv_htab_scan(&table, cursor,
				      1 + (unsigned)kv_rng_below(&rng, 20),
				      mark_seen, &calls);
		for (i = (uint32_t)kv_rng_below(&rng, 100); i > 0; i--) {
			struct item *it = &items[kv_rng_below(&rng, n)];

			/* bias: which change is made more often */
			if (it->present == (bias > 0) &&
			    kv_rng_below(&rng, 10) > 0)
				continue;
			toggle(it);
		}
	} while (cursor);
	for (i = 0; i < n; i++)
		if (items[i].stayed)
			assert_true(items[i].seen >= 1);
}

static void
walk_survives_resizes(void **state)
{
	uint32_t k, i;

	(void)state;
	set_up(9, UINT64_MAX);
	for (i = 0; i < 20000; i++)
		toggle(&items[i]);
	for (k = 0; k < 60; k++) {
		/* From nearly empty to nearly full and back. */
		walk_with_changes(60000, k % 4 < 2 ? -1 : 1);
		assert_true(kv_htab_count(&table) > 0);
	}
	check_all(60000);
	kv_htab_fini(&table);
}

struct purge {
	uint32_t one_in;
	uint32_t deleted;
};

static void
purge_some(void *arg, struct kv_htab_node *n)
{
	struct purge *p = arg;
	struct item *it = item_of(n);

	it->seen++;
	if (it->key % p->one_in == 0)
		return;
	toggle(it);
	p->deleted++;
}

/* fn deletes what it is given, so buckets merge under the walk. */
static void
walk_may_delete_what_it_sees(void **state)
{
	static const uint64_t masks[] = { UINT64_MAX, 0xffff, 0x3 };
	struct purge p = { .one_in = 1000 };
	uint32_t i, k, n = 20000;
	uint64_t cursor;

	(void)state;
	for (k = 0; k < KV_ARRAY_LEN(masks); k++) {
		n = masks[k] == 3 ? 2000 : 20000;
		set_up(k, masks[k]);
		for (i = 0; i < n; i++)
			toggle(&items[i]);
		p.deleted = 0;
		cursor = 0;
		do
			cursor =
				kv_htab_scan(&table, cursor, 3, purge_some, &p);
		while (cursor);
		for (i = 0; i < n; i++)
			assert_true(items[i].seen >= 1);
		assert_int_equal(p.deleted, n - kv_div_up_u64(n, p.one_in));
		check_all(n);
		kv_htab_fini(&table);
	}
}

/* All in bucket 100 + 2048, the upper half of a pair: when it has been walked
 * and emptied, the table has shrunk and the lower half is gone too. */
static void
walk_may_empty_its_bucket(void **state)
{
	struct purge p = { .one_in = UINT32_MAX };
	uint64_t cursor = 0;
	uint32_t i;

	(void)state;
	set_up(5, ~0xfffull);
	hash_ones = 100 + 2048;
	for (i = 0; i < 6000; i++)
		toggle(&items[i]);
	assert_in_range(table.buckets, 100 + 2048 + 1, 3000);
	do
		cursor = kv_htab_scan(&table, cursor, 100, purge_some, &p);
	while (cursor);
	/* Item 0 is the one that is kept. */
	assert_int_equal(kv_htab_count(&table), 1);
	assert_int_equal(table.buckets, KV_HTAB_BUCKETS_MIN);
	check_all(6000);
	kv_htab_fini(&table);
}

static void
any_cursor_is_safe(void **state)
{
	uint32_t i, calls;

	(void)state;
	set_up(4, UINT64_MAX);
	calls = 0;
	assert_int_equal(kv_htab_scan(&table, 77, 5, mark_seen, &calls), 0);
	for (i = 0; i < 1000; i++)
		toggle(&items[i]);
	for (i = 0; i < 10000; i++)
		(void)!kv_htab_scan(&table, kv_rng_u64(&rng), 2, mark_seen,
				    &calls);
	assert_true(calls > 0);
	kv_htab_fini(&table);
}

static int
add_first(void)
{
	set_up(1, UINT64_MAX);
	if (kv_htab_add(&table, &items[0].node, hash_of(0)) == 0)
		return 1;
	return kv_htab_count(&table) == 0 && !find(0) ? 0 : 2;
}

/* The segment for the second 4 buckets is refused once, then comes. */
static int
add_100(void)
{
	uint32_t i;

	set_up(1, UINT64_MAX);
	for (i = 0; i < 9; i++)
		toggle(&items[i]);
	if (table.buckets != 4)
		return 1;
	for (; i < 100; i++)
		toggle(&items[i]);
	check_all(200);
	kv_htab_fini(&table);
	return 0;
}

static void
only_the_first_add_can_fail(void **state)
{
	(void)state;
	assert_int_equal(nth_fault_run(1, add_first), 0);
	assert_int_equal(nth_fault_run(2, add_100), 0);
}

/* Buckets of large segments that are in use or come next were faulted in; a
 * table that had to wait for that is as wide as ever in the end. */
static void
a_warm_table_waits_for_its_memory(void **state)
{
	struct kv_warm warm;
	uint32_t i, tries;

	(void)state;
	set_up(12, UINT64_MAX);
	kv_warm_init(&warm);
	kv_htab_warm(&table, &warm);
	for (i = 0; i < N; i++) {
		toggle(&items[i]);
		assert_in_range(2 * table.count, 1,
				kv_max_size(table.buckets, 4) * 6 + 2);
		if (i % 30000 == 0)
			check_all(i + 1);
	}
	check_all(N);
	for (tries = 0; 2 * table.count > table.buckets * 4; tries++) {
		assert_in_range(tries, 0, 10000);
		usleep(1000);
		for (i = 0; i < 2000; i++)
			toggle(&items[i]);
		for (i = 0; i < 2000; i++)
			toggle(&items[i]);
	}
	for (i = 1; i < KV_HTAB_SEGMENTS_MAX && table.segs[i]; i++)
		;
	assert_int_equal((uintptr_t)table.segs[i - 1] % (2 << 20), 0);
	check_all(N);
	for (i = 0; i < N; i++)
		toggle(&items[i]);
	assert_in_range(table.buckets, 1, 16);
	kv_htab_fini(&table);
	kv_warm_fini(&warm);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		nth_fault_test(only_the_first_add_can_fail),
		cmocka_unit_test(random_changes_agree_with_the_model),
		cmocka_unit_test(grows_and_shrinks_with_its_content),
		cmocka_unit_test(a_guess_is_mostly_right),
		cmocka_unit_test(equal_hashes_are_all_candidates),
		cmocka_unit_test(quiet_walk_sees_each_once),
		cmocka_unit_test(a_step_sees_no_more_than_asked),
		cmocka_unit_test(walk_survives_resizes),
		cmocka_unit_test(walk_may_delete_what_it_sees),
		cmocka_unit_test(walk_may_empty_its_bucket),
		cmocka_unit_test(any_cursor_is_safe),
		cmocka_unit_test(a_warm_table_waits_for_its_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
