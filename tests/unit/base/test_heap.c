#include "base/heap.h"

#include <stdbool.h>

#include "base/rng.h"

#include "nth_fault.h"
#include "test.h"

enum {
	N = 20000
};

static int
compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static void
gives_the_order_of_qsort(void **state)
{
	static struct kv_heap_node nodes[N];
	static uint64_t keys[N];
	struct kv_heap_node *n;
	struct kv_heap h;
	struct kv_rng r;
	int i;

	(void)state;
	kv_rng_seed(&r, 1);
	kv_heap_init(&h);
	assert_null(kv_heap_first(&h));
	for (i = 0; i < N; i++) {
		/* Few values, so that many keys are equal. */
		keys[i] = kv_rng_below(&r, N / 4);
		assert_int_equal(kv_heap_add(&h, &nodes[i], keys[i]), 0);
	}
	qsort(keys, N, sizeof(keys[0]), compare);
	for (i = 0; i < N; i++) {
		n = kv_heap_first(&h);
		assert_non_null(n);
		assert_int_equal(n->key, keys[i]);
		kv_heap_del(&h, n);
		assert_int_equal(n->pos, 0);
	}
	assert_null(kv_heap_first(&h));
	kv_heap_fini(&h);
}

static uint64_t
least_of(const struct kv_heap_node *nodes, size_t n)
{
	uint64_t least = UINT64_MAX;
	size_t i;

	for (i = 0; i < n; i++)
		if (nodes[i].pos && nodes[i].key < least)
			least = nodes[i].key;
	return least;
}

static void
check_order(const struct kv_heap *h)
{
	size_t i;

	for (i = 0; i < h->count; i++) {
		assert_int_equal(h->nodes[i]->pos, i + 1);
		if (i > 0)
			assert_true(h->nodes[(i - 1) / 2]->key <=
				    h->nodes[i]->key);
	}
}

/* Random additions, deletions and moves anywhere; the first stays right. */
static void
first_is_least_under_random_changes(void **state)
{
	struct kv_heap_node nodes[100] = { 0 }, *n;
	struct kv_heap h;
	struct kv_rng r;
	size_t present = 0;
	int i;

	(void)state;
	kv_rng_seed(&r, 2);
	kv_heap_init(&h);
	for (i = 0; i < 50000; i++) {
		n = &nodes[kv_rng_below(&r, KV_ARRAY_LEN(nodes))];
		if (!n->pos) {
			assert_int_equal(
				kv_heap_add(&h, n, kv_rng_below(&r, 1000)), 0);
			present++;
		} else if (kv_rng_below(&r, 3) == 0) {
			kv_heap_del(&h, n);
			present--;
		} else {
			kv_heap_update(&h, n, kv_rng_below(&r, 1000));
		}
		assert_int_equal(h.count, present);
		check_order(&h);
		n = kv_heap_first(&h);
		assert_int_equal(n ? n->key : UINT64_MAX,
				 least_of(nodes, KV_ARRAY_LEN(nodes)));
	}
	kv_heap_fini(&h);
}

static int
add_17(void)
{
	struct kv_heap_node nodes[17] = { 0 };
	struct kv_heap h;
	int added;
	size_t i;

	kv_heap_init(&h);
	for (i = 0; i < KV_ARRAY_LEN(nodes); i++)
		if (kv_heap_add(&h, &nodes[i], 100 - i) < 0)
			break;
	added = (int)i;
	if (h.count != i || (i < 17 && nodes[i].pos != 0))
		added = 99;
	if (kv_heap_first(&h) != (i > 0 ? &nodes[i - 1] : NULL))
		added = 98;
	kv_heap_fini(&h);
	return added;
}

static void
without_memory_nothing_changes(void **state)
{
	(void)state;
	assert_int_equal(nth_fault_run(1, add_17), 0);
	assert_int_equal(nth_fault_run(2, add_17), 16);
	assert_int_equal(nth_fault_run(3, add_17), 17);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		nth_fault_test(without_memory_nothing_changes),
		cmocka_unit_test(gives_the_order_of_qsort),
		cmocka_unit_test(first_is_least_under_random_changes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
