#include "mem/arena.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/rng.h"

#include "resident.h"
#include "test.h"

#define PIECES 20000

struct piece {
	uint8_t *p;
	size_t bytes;
	uint8_t fill;
};

static void
piece_check(const struct piece *x)
{
	size_t i;

	for (i = 0; i < x->bytes; i++)
		assert_int_equal(x->p[i], x->fill);
}

/* Nothing overlaps, and everything is aligned, whatever comes and goes. */
static void
test_pieces_are_apart(void **state)
{
	struct piece *all = calloc(PIECES, sizeof(*all));
	struct kv_arena a;
	struct kv_rng rng;
	unsigned i, n;

	(void)state;
	assert_non_null(all);
	kv_rng_seed(&rng, 7);
	kv_arena_init(&a);
	for (n = 0; n < 10 * PIECES; n++) {
		struct piece *x = &all[kv_rng_below(&rng, PIECES)];

		if (x->p) {
			piece_check(x);
			kv_arena_release(&a, x->p, x->bytes);
			x->p = NULL;
			continue;
		}
		x->bytes = 1 + kv_rng_below(&rng, 300);
		x->fill = (uint8_t)kv_rng_below(&rng, 256);
		x->p = kv_arena_alloc(&a, x->bytes);
		assert_non_null(x->p);
		assert_int_equal((uintptr_t)x->p % KV_ARENA_STEP_BYTES, 0);
		memset(x->p, x->fill, x->bytes);
	}
	for (i = 0; i < PIECES; i++)
		if (all[i].p)
			piece_check(&all[i]);
	kv_arena_fini(&a);
	free(all);
}

static void
fill_and_empty(struct kv_arena *a, void **p, size_t bytes)
{
	unsigned i;

	for (i = 0; i < PIECES; i++) {
		p[i] = kv_arena_alloc(a, bytes);
		assert_non_null(p[i]);
		memset(p[i], 1, bytes);
	}
	for (i = 0; i < PIECES; i++)
		kv_arena_release(a, p[i], bytes);
}

/* What was released serves the next ones, also those of another size. */
static void
test_memory_is_used_again(void **state)
{
	void **p = calloc(PIECES, sizeof(*p));
	struct kv_arena a;
	size_t before;

	(void)state;
	assert_non_null(p);
	kv_arena_init(&a);
	fill_and_empty(&a, p, 272);
	before = a.bytes;
	assert_in_range(before, PIECES * 272, PIECES * 272 + (4 << 20));
	fill_and_empty(&a, p, 272);
	assert_int_equal(a.bytes, before);
	fill_and_empty(&a, p, 265);
	assert_int_equal(a.bytes, before);
	fill_and_empty(&a, p, 160);
	assert_int_equal(a.bytes, before);
	kv_arena_fini(&a);
	assert_int_equal(a.bytes, 0);
	free(p);
}

/* The largest ones, and a small arena: a few runs. */
static void
test_a_few_pieces_take_little(void **state)
{
	struct kv_arena a;
	void *p[64];
	unsigned i;

	(void)state;
	kv_arena_init(&a);
	for (i = 0; i < 64; i++) {
		p[i] = kv_arena_alloc(&a, KV_ARENA_PIECE_BYTES_MAX);
		assert_non_null(p[i]);
		memset(p[i], 2, KV_ARENA_PIECE_BYTES_MAX);
	}
	assert_in_range(a.bytes, 64 * KV_ARENA_PIECE_BYTES_MAX, 256 << 10);
	for (i = 0; i < 64; i++)
		kv_arena_release(&a, p[i], KV_ARENA_PIECE_BYTES_MAX);
	kv_arena_fini(&a);
}

/* What a large one hands out of its large chunk is in memory; where it cannot
 * wait it takes others. */
static void
test_a_large_one_is_faulted_in_ahead(void **state)
{
	size_t most = 90 << 20, taken = 0, runs = 0;
	struct kv_arena a;
	uint8_t *p;

	(void)state;
	kv_arena_init(&a);
	while (a.bytes < most) {
		p = kv_arena_alloc(&a, KV_ARENA_PIECE_BYTES_MAX);
		assert_non_null(p);
		if (a.taken != taken) {
			taken = a.taken;
			runs++;
			assert_int_equal(resident_bytes(a.large->mem, taken),
					 taken);
		}
		memset(p, 3, KV_ARENA_PIECE_BYTES_MAX);
		if (a.bytes > 8 << 20 && a.bytes % (1 << 20) == 0)
			usleep(100);
	}
	assert_in_range(runs, 1, most / 65536);
	kv_arena_fini(&a);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_pieces_are_apart),
		cmocka_unit_test(test_memory_is_used_again),
		cmocka_unit_test(test_a_few_pieces_take_little),
		cmocka_unit_test(test_a_large_one_is_faulted_in_ahead),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
