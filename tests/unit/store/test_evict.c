#include "store/evict.h"

#include "index_fixture.h"

/* Pinned and unpinned, or read in one go. */
static void
read_pinned(struct fixture *f, struct kv_object *o)
{
	kv_index_pin(f->ix, o, f->now++);
	kv_index_unpin(f->ix, o);
}

static void
read_at_once(struct fixture *f, struct kv_object *o)
{
	kv_index_touch(f->ix, o, f->now++);
}

/* a b c d by age; b is read, so it goes after d. */
static void
check_recency(void (*read)(struct fixture *f, struct kv_object *o))
{
	struct fixture f;
	struct kv_object *b;

	fixture_set_up(&f);
	put(&f, "a", POOL / 4);
	b = put(&f, "b", POOL / 4);
	put(&f, "c", POOL / 4);
	put(&f, "d", POOL / 4);
	assert_int_equal(kv_index_victim_idle(f.ix, f.now), 4);
	read(&f, b);
	make_room(&f, POOL / 4);
	assert_string_equal(f.left, "a");
	assert_int_equal(kv_index_victim_idle(f.ix, f.now), 3);
	assert_int_equal(make_room(&f, POOL), 1);
	assert_string_equal(f.left, "acdb");
	assert_int_equal(stats(&f).evicted_keys, 4);
	assert_int_equal(stats(&f).evicted_bytes, POOL);
	assert_int_equal(kv_index_victim_idle(f.ix, f.now), UINT64_MAX);
	fixture_tear_down(&f);
}

static void
test_least_recently_used_goes_first(void **state)
{
	(void)state;
	check_recency(read_pinned);
	check_recency(read_at_once);
}

/* What is read once more while it is pinned stays out of the order. */
static void
test_touched_while_pinned(void **state)
{
	struct kv_object *o;
	struct fixture f;

	(void)state;
	fixture_set_up(&f);
	o = put(&f, "a", POOL / 4);
	kv_index_pin(f.ix, o, f.now);
	kv_index_touch(f.ix, o, f.now);
	assert_false(kv_index_evict(f.ix));
	kv_index_unpin(f.ix, o);
	assert_true(kv_index_evict(f.ix));
	assert_string_equal(f.left, "a");
	assert_false(kv_index_evict(f.ix));
	fixture_tear_down(&f);
}

static void
test_order_of_leaving(void **state)
{
	struct fixture f;
	struct kv_object *w;

	(void)state;
	fixture_set_up(&f);
	put_flags(&f, "h", POOL / 8, KV_OBJ_HARD_PIN);
	put_flags(&f, "s", POOL / 8, KV_OBJ_SOFT_PIN);
	w = put(&f, "w", POOL / 8);
	put(&f, "p", POOL / 8);
	put(&f, "q", POOL / 8);
	insert(&f, "i", POOL / 8, 0);
	kv_index_pin(f.ix, put(&f, "r", POOL / 8), f.now);
	put(&f, "t", POOL / 8);
	kv_index_want(f.ix, w, f.now);
	kv_index_want(f.ix, find(&f, "s"), f.now);
	kv_index_want(f.ix, find(&f, "h"), f.now);
	kv_index_want(f.ix, find(&f, "i"), f.now);
	assert_int_equal(w->flags, KV_OBJ_WANTED);
	assert_int_equal(find(&f, "i")->flags, KV_OBJ_HIDDEN);
	assert_int_equal(make_room(&f, POOL), -ENOSPC);
	assert_int_equal(f.n_left, 0);
	assert_true(make_room(&f, POOL / 8 * 5) > 0);
	assert_string_equal(f.left, "pqtws");
	fixture_tear_down(&f);
}

/* A mark ends with the grace, and the object then is as one just used. A new
 * mark within it prolongs it. */
static void
test_mark_expires(void **state)
{
	struct fixture f;

	(void)state;
	fixture_set_up(&f);
	put(&f, "a", POOL / 4);
	put(&f, "b", POOL / 4);
	put(&f, "c", POOL / 4);
	put(&f, "d", POOL / 4);
	kv_index_want(f.ix, find(&f, "a"), f.now);
	kv_index_want(f.ix, find(&f, "b"), f.now);
	f.now += GRACE - 1;
	kv_index_want(f.ix, find(&f, "b"), f.now);
	make_room(&f, POOL / 4);
	assert_string_equal(f.left, "c");
	f.now += 1;
	put(&f, "e", POOL / 4);
	assert_int_equal(find(&f, "a")->flags, KV_OBJ_WANTED);
	make_room(&f, POOL / 2);
	assert_int_equal(find(&f, "a")->flags, 0);
	assert_string_equal(f.left, "cde");
	make_room(&f, POOL);
	assert_string_equal(f.left, "cdeab");
	fixture_tear_down(&f);
}

/* A mark that is for another reader too outlives the first one's read. */
static void
test_mark_outlives_a_read(void **state)
{
	struct fixture f;
	struct kv_object *o;

	(void)state;
	fixture_set_up(&f);
	o = put(&f, "w", POOL / 4);
	kv_index_want(f.ix, o, f.now++);
	kv_index_pin(f.ix, o, f.now++);
	kv_index_unpin(f.ix, o);
	put(&f, "a", POOL / 4);
	put(&f, "b", POOL / 2);
	make_room(&f, POOL / 4);
	assert_string_equal(f.left, "a");
	make_room(&f, POOL);
	assert_string_equal(f.left, "abw");
	o = put(&f, "x", POOL / 2);
	kv_index_pin(f.ix, o, f.now);
	kv_index_want(f.ix, o, f.now++);
	put(&f, "c", POOL / 2);
	kv_index_unpin(f.ix, o);
	make_room(&f, POOL / 2);
	assert_string_equal(f.left, "abwc");
	fixture_tear_down(&f);
}

/* However many marks end at once, no call works them all off. */
static void
test_many_marks_expire_in_slices(void **state)
{
	enum {
		MANY = 1000,
	};
	struct fixture f;
	unsigned i, marked;
	char key[16];

	(void)state;
	fixture_set_up(&f);
	for (i = 0; i < MANY; i++) {
		snprintf(key, sizeof(key), "%u", i);
		kv_index_want(f.ix, put(&f, key, 1), f.now);
	}
	put(&f, "last", 1);
	f.now += 2 * GRACE;
	kv_index_want(f.ix, find(&f, "last"), f.now);
	for (i = marked = 0; i < MANY; i++) {
		snprintf(key, sizeof(key), "%u", i);
		marked += (find(&f, key)->flags & KV_OBJ_WANTED) != 0;
	}
	assert_in_range(marked, MANY - 100, MANY - 1);
	for (i = 0; i < MANY / 10; i++)
		kv_index_want(f.ix, find(&f, "last"), f.now);
	for (i = marked = 0; i < MANY; i++) {
		snprintf(key, sizeof(key), "%u", i);
		marked += (find(&f, key)->flags & KV_OBJ_WANTED) != 0;
	}
	assert_int_equal(marked, 0);
	fixture_tear_down(&f);
}

/* A request that cannot be met costs nobody anything. */
static void
test_enospc_evicts_nothing(void **state)
{
	struct kv_extent ext[EXTENTS];
	struct fixture f;
	struct kv_object *o;

	(void)state;
	fixture_set_up(&f);
	put(&f, "a", POOL / 4);
	o = put(&f, "b", POOL / 4);
	kv_index_pin(f.ix, o, f.now);
	assert_int_equal(make_room(&f, POOL / 4 * 3 + 1), -ENOSPC);
	assert_int_equal(make_room(&f, POOL + 1), -ENOSPC);
	assert_int_equal(make_room(&f, UINT64_MAX), -ENOSPC);
	assert_int_equal(kv_index_reserve(f.ix, POOL, false, f.now, ext, 9),
			 -ENOSPC);
	assert_int_equal(
		kv_index_reserve(f.ix, POOL / 4 * 3, false, f.now, ext, 9),
		-EAGAIN);
	assert_int_equal(f.n_left, 0);
	kv_index_drop(f.ix, o); /* still pinned: not free yet */
	assert_int_equal(make_room(&f, POOL), -ENOSPC);
	assert_int_equal(f.n_left, 0);
	assert_true(make_room(&f, POOL / 4 * 3) > 0);
	assert_string_equal(f.left, "a");
	kv_index_unpin(f.ix, o);
	assert_int_equal(make_room(&f, POOL), 1);
	fixture_tear_down(&f);
}

/* Bytes are enough, pieces are too many: more leave, but not all. */
static void
test_too_many_pieces(void **state)
{
	struct kv_extent ext[2];
	struct fixture f;
	char key[16];
	unsigned i;

	(void)state;
	fixture_set_up(&f);
	fill(&f);
	for (i = 0; i < POOL / KIB; i += 2) {
		snprintf(key, sizeof(key), "%c%u", i < 512 ? 'A' : 'B', i);
		kv_index_drop(f.ix, find(&f, key));
	}
	assert_int_equal(kv_index_reserve(f.ix, 64 * KIB, false, f.now, ext, 2),
			 -EAGAIN);
	assert_in_range(kv_index_reserve(f.ix, 64 * KIB, true, f.now, ext, 2),
			1, 2);
	assert_in_range(f.n_left, 1, 128);
	for (i = 512; i < POOL / KIB; i++) {
		struct kv_object *o;

		snprintf(key, sizeof(key), "B%u", i);
		o = find(&f, key);
		if (o && i % 3)
			kv_index_pin(f.ix, o, f.now);
	}
	/* All leave, and the pinned ones still are in between. */
	assert_int_equal(kv_index_reserve(f.ix, 700 * KIB, true, f.now, ext, 2),
			 -ENOSPC);
	fixture_tear_down(&f);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_least_recently_used_goes_first),
		cmocka_unit_test(test_touched_while_pinned),
		cmocka_unit_test(test_order_of_leaving),
		cmocka_unit_test(test_mark_expires),
		cmocka_unit_test(test_mark_outlives_a_read),
		cmocka_unit_test(test_many_marks_expire_in_slices),
		cmocka_unit_test(test_enospc_evicts_nothing),
		cmocka_unit_test(test_too_many_pieces),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
