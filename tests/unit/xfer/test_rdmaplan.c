#include <string.h>

#include "base/num.h"
#include "base/rng.h"
#include "test.h"
#include "xfer/rdmaplan.h"

enum {
	RANGES = 40,
	ROUNDS = 3000,
	MANY = 1 << 20,
};

static const struct kv_rdmamem a, b;
static struct kv_rdmarange near[RANGES], far[RANGES];
static struct kv_rdmaplan plan;
static struct kv_rdmapart part;

static void
begin(uint64_t bytes)
{
	kv_rdmaplan_init(&plan, near, far, bytes);
}

static void
near_is(unsigned i, uint64_t addr, uint64_t len)
{
	assert_true(i < part.n_near);
	assert_int_equal(part.near[i].addr, addr);
	assert_int_equal(part.near[i].len, len);
}

static void
far_is(uint64_t addr, uint64_t len)
{
	assert_int_equal(part.far.addr, addr);
	assert_int_equal(part.far.len, len);
}

static void
neighbours_are_joined(void **state)
{
	(void)state;
	near[0] = (struct kv_rdmarange){ 1000, 10, &a };
	near[1] = (struct kv_rdmarange){ 1010, 10, &a };
	near[2] = (struct kv_rdmarange){ 2000, 10, &a };
	far[0] = (struct kv_rdmarange){ 5000, 25, &b };
	far[1] = (struct kv_rdmarange){ 5025, 5, &b };
	begin(30);
	kv_rdmaplan_take(&plan, MANY, &part);
	far_is(5000, 30);
	assert_int_equal(part.n_near, 2);
	near_is(0, 1000, 20);
	near_is(1, 2000, 10);
	assert_int_equal(plan.left, 0);
}

static void
other_memory_is_no_neighbour(void **state)
{
	(void)state;
	near[0] = (struct kv_rdmarange){ 1000, 10, &a };
	near[1] = (struct kv_rdmarange){ 1010, 20, &b };
	far[0] = (struct kv_rdmarange){ 5000, 20, &b };
	far[1] = (struct kv_rdmarange){ 5020, 10, &a };
	begin(30);
	kv_rdmaplan_take(&plan, MANY, &part);
	far_is(5000, 20);
	assert_ptr_equal(part.far.mem, &b);
	assert_int_equal(part.n_near, 2);
	assert_ptr_equal(part.near[0].mem, &a);
	assert_ptr_equal(part.near[1].mem, &b);
	kv_rdmaplan_take(&plan, MANY, &part);
	far_is(5020, 10);
	assert_ptr_equal(part.far.mem, &a);
	near_is(0, 1020, 10);
}

static void
it_ends_where_the_rail_wants(void **state)
{
	(void)state;
	near[0] = (struct kv_rdmarange){ 1000, 0, &a };
	near[1] = (struct kv_rdmarange){ 2000, 10, &a };
	far[0] = (struct kv_rdmarange){ 5000, 10, &a };
	begin(10);
	kv_rdmaplan_take(&plan, 7, &part);
	far_is(5000, 7);
	near_is(0, 2000, 7);
	kv_rdmaplan_take(&plan, 7, &part);
	far_is(5007, 3);
	near_is(0, 2007, 3);
}

static void
so_many_ranges_here_and_no_more(void **state)
{
	unsigned i;

	(void)state;
	for (i = 0; i < KV_RDMAPLAN_NEAR_MAX + 1; i++)
		near[i] = (struct kv_rdmarange){ 1000 * (i + 1), 10, &a };
	far[0] = (struct kv_rdmarange){ 90000, 1000, &a };
	begin(10 * (KV_RDMAPLAN_NEAR_MAX + 1));
	kv_rdmaplan_take(&plan, MANY, &part);
	far_is(90000, 10 * KV_RDMAPLAN_NEAR_MAX);
	assert_int_equal(part.n_near, KV_RDMAPLAN_NEAR_MAX);
	kv_rdmaplan_take(&plan, MANY, &part);
	far_is(90000 + 10 * KV_RDMAPLAN_NEAR_MAX, 10);
	near_is(0, 1000 * (KV_RDMAPLAN_NEAR_MAX + 1), 10);
}

/* ---- whatever the lists are ---- */

/* The address of byte i of a list. */
static uint64_t
byte_at(const struct kv_rdmarange *list, uint64_t i)
{
	for (; i >= list->len; list++)
		i -= list->len;
	return list->addr + i;
}

static void
ranges_make(struct kv_rng *rng, struct kv_rdmarange *list, uint64_t bytes)
{
	uint64_t addr = 1 + kv_rng_below(rng, 1000);
	unsigned i;

	for (i = 0; i < RANGES; i++) {
		uint64_t len = i + 1 == RANGES ? bytes : kv_rng_below(rng, 20);

		len = kv_min_u64(len, bytes);
		list[i] =
			(struct kv_rdmarange){ addr, len,
					       kv_rng_below(rng, 2) ? &a : &b };
		bytes -= len;
		addr += len + (kv_rng_below(rng, 2) ? 0 : 7);
	}
}

static void
part_check(uint64_t at)
{
	uint64_t sum = 0, i;
	unsigned k;

	assert_in_range(part.n_near, 1, KV_RDMAPLAN_NEAR_MAX);
	for (k = 0; k < part.n_near; k++) {
		for (i = 0; i < part.near[k].len; i++)
			assert_int_equal(part.near[k].addr + i,
					 byte_at(near, at + sum + i));
		assert_true(part.near[k].len > 0);
		sum += part.near[k].len;
	}
	assert_int_equal(sum, part.far.len);
	for (i = 0; i < sum; i++)
		assert_int_equal(part.far.addr + i, byte_at(far, at + i));
}

static void
every_byte_has_its_place(void **state)
{
	struct kv_rng rng;
	uint64_t bytes, at, most;
	unsigned i;

	(void)state;
	kv_rng_seed(&rng, 7);
	for (i = 0; i < ROUNDS; i++) {
		bytes = 1 + kv_rng_below(&rng, 300);
		ranges_make(&rng, near, bytes);
		ranges_make(&rng, far, bytes);
		begin(bytes);
		for (at = 0; plan.left > 0; at += part.far.len) {
			most = 1 + kv_rng_below(&rng, 50);
			kv_rdmaplan_take(&plan, most, &part);
			assert_in_range(part.far.len, 1, most);
			part_check(at);
		}
		assert_int_equal(at, bytes);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(neighbours_are_joined),
		cmocka_unit_test(other_memory_is_no_neighbour),
		cmocka_unit_test(it_ends_where_the_rail_wants),
		cmocka_unit_test(so_many_ranges_here_and_no_more),
		cmocka_unit_test(every_byte_has_its_place),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
