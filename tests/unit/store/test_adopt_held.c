/* What nobody gets of a pool that outlives its nodes: what those who attached
 * in earlier lives may touch, and what has no pages. */

#include "store/adopt.h"

#include "adoptrig.h"
#include "test.h"

/* ---- who attached before ---- */

static void
what_a_writer_may_fill_is_not_given_out(void **state)
{
	struct kv_extent ext[KV_EXTENTS_MAX];
	uint32_t slot;

	(void)state;
	slot = ledgerrig_reserve(&adopted, "filling", 5000, ext);
	adopted.attached = 1 << 1;
	ledgerrig_again(&adopted);
	assert_int_equal(adoptrig_state(slot), KV_RECORD_RESERVED);
	assert_int_equal(adopted.q.held_bytes, 5120);
	assert_int_equal(ledgerrig_free(&adopted), LEDGERRIG_POOL - 5120);
	adoptrig_adds_up();
	/* Over more lives, as long as that one is there. */
	ledgerrig_again(&adopted);
	ledgerrig_again(&adopted);
	assert_true(kv_quarantine_settle(&adopted.q));
	assert_int_equal(ledgerrig_free(&adopted), LEDGERRIG_POOL - 5120);
	/* Somebody else of a later life is nothing to it. */
	adopted.attached = 1 << 2;
	assert_false(kv_quarantine_settle(&adopted.q));
	assert_int_equal(ledgerrig_free(&adopted), LEDGERRIG_POOL);
	assert_int_equal(adoptrig_state(slot), KV_RECORD_FREE);
	adoptrig_adds_up();
}

static void
what_a_reader_views_stays_and_is_served(void **state)
{
	struct kv_object *o = ledgerrig_put(&adopted, "viewed", 5000);
	uint32_t slot = o->slot;

	(void)state;
	ledgerrig_sum(&adopted);
	kv_index_pin(adopted.ix, o, adopted.now);
	adopted.attached = 1 << 1;
	ledgerrig_again(&adopted);
	o = ledgerrig_find(&adopted, "viewed");
	assert_int_equal(o->pins, 1);
	assert_int_equal(kv_record_hold(adopted.file, slot).from, 1);
	assert_int_equal(kv_record_hold(adopted.file, slot).to, 2);
	/* It cannot be evicted, and removed it keeps its space. */
	while (kv_index_evict(adopted.ix))
		;
	assert_ptr_equal(ledgerrig_find(&adopted, "viewed"), o);
	kv_index_drop(adopted.ix, o);
	assert_null(ledgerrig_find(&adopted, "viewed"));
	assert_int_equal(ledgerrig_free(&adopted), LEDGERRIG_POOL - 5120);
	assert_int_equal(adoptrig_state(slot), KV_RECORD_RESERVED);
	/* The next life knows as well. */
	ledgerrig_again(&adopted);
	assert_int_equal(adopted.q.held_bytes, 5120);
	adopted.attached = 0;
	assert_false(kv_quarantine_settle(&adopted.q));
	assert_int_equal(ledgerrig_free(&adopted), LEDGERRIG_POOL);
}

static void
a_reader_of_this_life_holds_it_on(void **state)
{
	struct kv_object *o = ledgerrig_put(&adopted, "viewed", 5000);
	uint32_t slot = o->slot;

	(void)state;
	ledgerrig_sum(&adopted);
	kv_index_pin(adopted.ix, o, adopted.now);
	adopted.attached = 1 << 1;
	ledgerrig_again(&adopted);
	o = ledgerrig_find(&adopted, "viewed");
	kv_index_pin(adopted.ix, o, adopted.now);
	adopted.attached = 1 << 2;
	assert_false(kv_quarantine_settle(&adopted.q));
	assert_int_equal(o->pins, 1);
	assert_int_equal(kv_record_hold(adopted.file, slot).from, 2);
	assert_int_equal(kv_record_hold(adopted.file, slot).to, 2);
	ledgerrig_again(&adopted);
	assert_int_equal(ledgerrig_find(&adopted, "viewed")->pins, 1);
	adopted.attached = 0;
	assert_false(kv_quarantine_settle(&adopted.q));
	assert_int_equal(kv_record_hold(adopted.file, slot).to, 0);
	assert_int_equal(ledgerrig_find(&adopted, "viewed")->pins, 0);
}

static void
a_viewed_object_that_is_dropped_keeps_its_space(void **state)
{
	struct kv_object *o;
	uint32_t slot;

	(void)state;
	o = ledgerrig_put(&adopted, "unsummed", 5000);
	slot = o->slot;
	kv_index_pin(adopted.ix, o, adopted.now);
	o = ledgerrig_put(&adopted, "empty", 0);
	kv_index_pin(adopted.ix, o, adopted.now);
	adopted.attached = 1 << 1;
	ledgerrig_again(&adopted);
	assert_int_equal(adopted.report.unsummed, 2);
	assert_int_equal(adopted.report.keys, 0);
	assert_int_equal(adoptrig_state(slot), KV_RECORD_RESERVED);
	assert_int_equal(adopted.q.held_bytes, 5120);
	assert_int_equal(adoptrig_slots(), 2);
	adopted.attached = 0;
	assert_false(kv_quarantine_settle(&adopted.q));
	assert_int_equal(adoptrig_slots(), 0);
	adoptrig_adds_up();
}

/* A smaller pool, then the old one: the view at its end is still there. */
static void
a_view_outside_of_a_smaller_pool_is_not_forgotten(void **state)
{
	struct kv_object *o = NULL;
	char key[16];
	int i;

	(void)state;
	for (i = 0; i < 16; i++) {
		snprintf(key, sizeof(key), "k%d", i);
		o = ledgerrig_put(&adopted, key, LEDGERRIG_POOL / 16);
		kv_index_pin(adopted.ix, o, adopted.now);
	}
	ledgerrig_sum(&adopted);
	adopted.attached = 1 << 1;
	adopted.pool_bytes = LEDGERRIG_POOL / 2 + 256;
	ledgerrig_again(&adopted);
	assert_int_equal(adopted.report.keys, 8);
	assert_int_equal(adopted.report.missing, 8);
	assert_int_equal(adopted.q.held_bytes, 256);
	assert_int_equal(ledgerrig_free(&adopted), 0);
	adopted.pool_bytes = LEDGERRIG_POOL;
	ledgerrig_again(&adopted);
	assert_int_equal(adopted.report.keys, 8);
	assert_int_equal(ledgerrig_free(&adopted), 0);
	assert_int_equal(adopted.q.held_bytes, LEDGERRIG_POOL / 2);
	adopted.attached = 0;
	assert_false(kv_quarantine_settle(&adopted.q));
	assert_int_equal(ledgerrig_free(&adopted), LEDGERRIG_POOL / 2);
	adoptrig_adds_up();
}

static void
lost_records_hold_all_space_back(void **state)
{
	struct kv_extent ext[KV_EXTENTS_MAX];
	uint32_t slot;

	(void)state;
	ledgerrig_put(&adopted, "good", 1000);
	ledgerrig_sum(&adopted);
	slot = ledgerrig_reserve(&adopted, "filling", 5000, ext);
	adopted.file[slot * KV_RECORD_BYTES + 50] ^= 1;
	adopted.attached = 1 << 1;
	ledgerrig_again(&adopted);
	assert_int_equal(adopted.report.broken, 1);
	assert_int_equal(adopted.report.keys, 1);
	assert_int_equal(ledgerrig_free(&adopted), 0);
	assert_true(kv_quarantine_settle(&adopted.q));
	adopted.attached = 0;
	assert_false(kv_quarantine_settle(&adopted.q));
	assert_int_equal(ledgerrig_free(&adopted), LEDGERRIG_POOL - 1024);
	adoptrig_adds_up();
}

static void
a_damaged_hold_is_one_of_all_earlier_lives(void **state)
{
	struct kv_object *o;

	(void)state;
	ledgerrig_again(&adopted);
	ledgerrig_again(&adopted);
	o = ledgerrig_put(&adopted, "a", 1000);
	ledgerrig_sum(&adopted);
	adopted.file[o->slot * KV_RECORD_BYTES + 12] ^= 1;
	adopted.attached = 1 << 2 | 1 << 4;
	ledgerrig_again(&adopted);
	assert_int_equal(ledgerrig_find(&adopted, "a")->pins, 1);
	adopted.attached = 1 << 4;
	assert_false(kv_quarantine_settle(&adopted.q));
	assert_int_equal(ledgerrig_find(&adopted, "a")->pins, 0);
}

static void
who_lives_is_asked_once_for_all_of_a_kind(void **state)
{
	char key[16];
	int i;

	(void)state;
	for (i = 0; i < 200; i++) {
		snprintf(key, sizeof(key), "k%d", i);
		kv_index_pin(adopted.ix, ledgerrig_put(&adopted, key, 256),
			     adopted.now);
	}
	ledgerrig_sum(&adopted);
	adopted.attached = 1 << 1;
	ledgerrig_again(&adopted);
	adopted.asked = 0;
	assert_true(kv_quarantine_settle(&adopted.q));
	assert_int_equal(adopted.asked, 1);
}

/* ---- pages ---- */

static void
gaps_are_free_as_their_pages_come(void **state)
{
	const uint64_t mib = 1 << 20;

	(void)state;
	ledgerrig_put(&adopted, "a", 65536);
	ledgerrig_sum(&adopted);
	ledgerrig_end(&adopted);
	adopted.pool_bytes = adopted.data_end = 100 * mib;
	assert_int_equal(ledgerrig_begin(&adopted, true), 0);
	assert_int_equal(ledgerrig_free(&adopted), 0);
	assert_non_null(ledgerrig_find(&adopted, "a"));
	kv_quarantine_ready(&adopted.q, 31 * mib);
	assert_int_equal(ledgerrig_free(&adopted), 0);
	kv_quarantine_ready(&adopted.q, 32 * mib);
	assert_int_equal(ledgerrig_free(&adopted), 32 * mib - 65536);
	kv_quarantine_ready(&adopted.q, 70 * mib);
	assert_int_equal(ledgerrig_free(&adopted), 64 * mib - 65536);
	kv_quarantine_ready(&adopted.q, 100 * mib);
	assert_int_equal(ledgerrig_free(&adopted), 100 * mib - 65536);
	adoptrig_adds_up();
}

static void
held_space_waits_for_its_pages_too(void **state)
{
	struct kv_extent ext[KV_EXTENTS_MAX];

	(void)state;
	ledgerrig_reserve(&adopted, "filling", 5000, ext);
	adopted.attached = 1 << 1;
	ledgerrig_end(&adopted);
	assert_int_equal(ledgerrig_begin(&adopted, true), 0);
	adopted.attached = 0;
	assert_true(kv_quarantine_settle(&adopted.q));
	assert_int_equal(ledgerrig_free(&adopted), 0);
	kv_quarantine_ready(&adopted.q, LEDGERRIG_POOL);
	assert_false(kv_quarantine_settle(&adopted.q));
	assert_int_equal(ledgerrig_free(&adopted), LEDGERRIG_POOL);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		ADOPTRIG_TEST(what_a_writer_may_fill_is_not_given_out),
		ADOPTRIG_TEST(what_a_reader_views_stays_and_is_served),
		ADOPTRIG_TEST(a_reader_of_this_life_holds_it_on),
		ADOPTRIG_TEST(a_viewed_object_that_is_dropped_keeps_its_space),
		ADOPTRIG_TEST(
			a_view_outside_of_a_smaller_pool_is_not_forgotten),
		ADOPTRIG_TEST(lost_records_hold_all_space_back),
		ADOPTRIG_TEST(a_damaged_hold_is_one_of_all_earlier_lives),
		ADOPTRIG_TEST(who_lives_is_asked_once_for_all_of_a_kind),
		ADOPTRIG_TEST(gaps_are_free_as_their_pages_come),
		ADOPTRIG_TEST(held_space_waits_for_its_pages_too),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
