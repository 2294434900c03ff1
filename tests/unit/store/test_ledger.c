/* The index file of a pool at work: slots are given and come back, the file
 * grows and stops growing, states follow the objects of an index. */

#include "store/ledger.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/le.h"
#include "ledgerrig.h"
#include "nth_fault.h"
#include "test.h"

static struct ledgerrig rig;

static int
setup(void **state)
{
	(void)state;
	ledgerrig_open(&rig);
	assert_int_equal(ledgerrig_begin(&rig, false), 0);
	return 0;
}

static int
teardown(void **state)
{
	(void)state;
	ledgerrig_close(&rig);
	return 0;
}

static enum kv_record_state
state_of(uint32_t slot)
{
	return kv_record_state(rig.file, slot);
}

static struct kv_record_hold
hold_of(uint32_t slot)
{
	return kv_record_hold(rig.file, slot);
}

/* Slots that are in no state but FREE. */
static unsigned
slots_used(void)
{
	uint32_t i, end = kv_ledger_head(rig.ledger)->slots_end;
	unsigned n = 0;

	for (i = KV_RECORD_SLOT_MIN; i < end; i++)
		n += state_of(i) != KV_RECORD_FREE;
	return n;
}

static void
a_new_file_has_free_slots_and_a_head(void **state)
{
	struct kv_poolhead h;
	uint32_t format;

	(void)state;
	assert_int_equal(
		kv_poolhead_parse(rig.file, rig.file_bytes, &h, &format), 0);
	assert_int_equal(h.life, 1);
	assert_int_equal(h.slots_end, 4096);
	assert_int_equal(rig.file_bytes, 1 << 20);
	assert_int_equal(slots_used(), 0);
}

static void
a_record_follows_its_object(void **state)
{
	struct kv_object *o;
	uint32_t slot;

	(void)state;
	o = ledgerrig_put_hidden(&rig, "k", 1000);
	slot = o->slot;
	assert_int_equal(state_of(slot), KV_RECORD_RESERVED);
	assert_int_equal(hold_of(slot).from, 1);
	assert_int_equal(hold_of(slot).to, 1);
	kv_index_show(rig.ix, o, rig.now);
	assert_int_equal(state_of(slot), KV_RECORD_OBJECT);
	assert_int_equal(hold_of(slot).to, 0);
	kv_index_pin(rig.ix, o, rig.now);
	assert_int_equal(hold_of(slot).to, 1);
	kv_index_pin(rig.ix, o, rig.now);
	kv_index_unpin(rig.ix, o);
	assert_int_equal(hold_of(slot).to, 1);
	kv_index_unpin(rig.ix, o);
	assert_int_equal(hold_of(slot).to, 0);
	kv_index_drop(rig.ix, o);
	assert_int_equal(state_of(slot), KV_RECORD_FREE);
	assert_int_equal(slots_used(), 0);
}

static void
what_is_dropped_while_read_stays_reserved(void **state)
{
	struct kv_object *o = ledgerrig_put(&rig, "k", 1000);
	uint32_t slot = o->slot;

	(void)state;
	kv_index_pin(rig.ix, o, rig.now);
	kv_index_drop(rig.ix, o);
	assert_int_equal(state_of(slot), KV_RECORD_RESERVED);
	assert_int_equal(hold_of(slot).to, 1);
	kv_index_unpin(rig.ix, o);
	assert_int_equal(state_of(slot), KV_RECORD_FREE);
}

static void
a_hidden_loser_frees_its_record(void **state)
{
	struct kv_object *o = ledgerrig_put_hidden(&rig, "k", 1000);

	(void)state;
	kv_index_drop(rig.ix, o);
	assert_int_equal(slots_used(), 0);
}

static void
eviction_frees_records(void **state)
{
	char key[16];
	int i;

	(void)state;
	for (i = 0; i < 300; i++) {
		snprintf(key, sizeof(key), "k%d", i);
		assert_non_null(ledgerrig_put(&rig, key, 8192));
	}
	assert_int_equal(slots_used(), LEDGERRIG_POOL / 8192);
	while (kv_index_evict(rig.ix))
		;
	assert_int_equal(slots_used(), 0);
}

static void
after_detaching_nothing_is_written(void **state)
{
	struct kv_object *o = ledgerrig_put(&rig, "k", 1000);
	struct kv_object *p = ledgerrig_put(&rig, "p", 1000);
	uint32_t slot = o->slot, pinned = p->slot;

	(void)state;
	kv_index_pin(rig.ix, p, rig.now);
	kv_index_detach(rig.ix);
	kv_index_unpin(rig.ix, p);
	kv_index_drop(rig.ix, o);
	assert_int_equal(state_of(slot), KV_RECORD_OBJECT);
	assert_int_equal(hold_of(pinned).to, 1);
}

static void
long_keys_take_and_give_chains(void **state)
{
	char key[1001];
	struct kv_object *o;

	(void)state;
	memset(key, 'x', 1000);
	key[1000] = 0;
	o = ledgerrig_put(&rig, key, 100);
	assert_int_equal(slots_used(), 5);
	assert_int_equal(state_of(kv_record_next(rig.file, o->slot)),
			 KV_RECORD_MORE);
	kv_index_drop(rig.ix, o);
	assert_int_equal(slots_used(), 0);
}

/* The file is foreign memory to others: a chain that was bent ends. */
static void
releasing_a_bent_chain_ends(void **state)
{
	const struct kv_le32 wrong[] = { kv_le32(UINT32_MAX), kv_le32(3) };
	char key[1001];
	unsigned i;

	(void)state;
	memset(key, 'x', 1000);
	key[1000] = 0;
	for (i = 0; i < 3; i++) {
		struct kv_object *o = ledgerrig_put(&rig, key, 100);
		uint32_t more = kv_record_next(rig.file, o->slot);
		struct kv_le32 to = i < 2 ? wrong[i] : kv_le32(o->slot);

		memcpy(rig.file + more * KV_RECORD_BYTES + 20, &to, sizeof(to));
		kv_index_drop(rig.ix, o);
	}
}

static void
the_file_grows_and_stops(void **state)
{
	struct kv_extent ext[KV_EXTENTS_MAX];
	unsigned n = 0, per_step = 4096;
	uint32_t slot, last = 0;
	char key[32];

	(void)state;
	rig.file_max = 2 << 20;
	do {
		snprintf(key, sizeof(key), "empty%u", n);
		slot = ledgerrig_reserve(&rig, key, 0, ext);
		last = slot ? slot : last;
	} while (slot && ++n < 3 * per_step);
	assert_int_equal(errno, ENOSPC);
	assert_int_equal(n, 2 * per_step - KV_RECORD_SLOT_MIN);
	assert_int_equal(rig.file_bytes, 2 << 20);
	assert_int_equal(kv_ledger_head(rig.ledger)->slots_end, 2 * per_step);
	/* One comes back, one can be had; no chain can, and leaves nothing. */
	kv_ledger_release(rig.ledger, last);
	memset(key, 'x', 31);
	key[31] = 0;
	assert_int_equal(ledgerrig_reserve(&rig, key, 0, ext), last);
	kv_ledger_release(rig.ledger, last);
	{
		char longer[1001];

		memset(longer, 'x', 1000);
		longer[1000] = 0;
		assert_int_equal(ledgerrig_reserve(&rig, longer, 0, ext), 0);
	}
	assert_int_equal(ledgerrig_reserve(&rig, key, 0, ext), last);
}

static void
the_ledger_itself_has_a_bound(void **state)
{
	struct kv_extent ext[KV_EXTENTS_MAX];
	unsigned n = 0;
	char key[32];

	(void)state;
	do
		snprintf(key, sizeof(key), "empty%u", n++);
	while (ledgerrig_reserve(&rig, key, 0, ext));
	assert_int_equal(errno, ENOSPC);
	assert_int_equal(rig.file_bytes, LEDGERRIG_FILE_MAX);
}

/* ---- sums ---- */

static void
sums_are_asked_for_once_new_ones_first(void **state)
{
	struct kv_ledger_taken t;
	uint32_t a, b;

	(void)state;
	a = ledgerrig_put(&rig, "a", 100)->slot;
	assert_true(kv_ledger_take(rig.ledger, true, &t));
	assert_int_equal(t.slot, a);
	assert_true(kv_ledger_is_current(rig.ledger, &t));
	assert_int_equal(kv_ledger_unsummed(rig.ledger), 1);
	assert_true(kv_ledger_sum(rig.ledger, a, 0));
	assert_int_equal(kv_ledger_unsummed(rig.ledger), 0);
	assert_int_equal(kv_record_value_sum(rig.file, a), 1);
	assert_false(kv_ledger_take(rig.ledger, false, &t));
	ledgerrig_again(&rig);
	a = ledgerrig_find(&rig, "a")->slot;
	b = ledgerrig_put(&rig, "b", 100)->slot;
	assert_int_equal(kv_ledger_unsummed(rig.ledger), 1);
	assert_true(kv_ledger_take(rig.ledger, false, &t));
	assert_int_equal(t.slot, b);
	assert_false(kv_ledger_take(rig.ledger, true, &t));
	assert_true(kv_ledger_take(rig.ledger, false, &t));
	assert_int_equal(t.slot, a);
	assert_true(kv_ledger_sum(rig.ledger, a, 0));
	assert_true(kv_ledger_sum(rig.ledger, a, 1));
	assert_false(kv_ledger_sum(rig.ledger, a, 2));
	assert_int_equal(kv_record_value_sum(rig.file, a), 1);
}

static void
a_sum_that_comes_late_is_for_nobody(void **state)
{
	struct kv_ledger_taken t;
	struct kv_object *o = ledgerrig_put(&rig, "a", 100), *p;

	(void)state;
	assert_true(kv_ledger_take(rig.ledger, true, &t));
	kv_index_drop(rig.ix, o);
	assert_false(kv_ledger_is_current(rig.ledger, &t));
	/* Nor for another object in the same slot. */
	while ((p = ledgerrig_put(&rig, "b", 100))->slot != t.slot)
		kv_index_drop(rig.ix, p);
	assert_false(kv_ledger_is_current(rig.ledger, &t));
	/* Dropped while somebody reads it. */
	assert_true(kv_ledger_take(rig.ledger, true, &t));
	kv_index_pin(rig.ix, p, rig.now);
	kv_index_drop(rig.ix, p);
	assert_false(kv_ledger_is_current(rig.ledger, &t));
	assert_int_equal(kv_ledger_unsummed(rig.ledger), 0);
	kv_index_unpin(rig.ix, p);
	assert_false(kv_ledger_take(rig.ledger, false, &t));
	kv_index_drop(rig.ix, ledgerrig_put(&rig, "c", 100));
	assert_int_equal(kv_ledger_unsummed(rig.ledger), 0);
}

static int
begin_with_faults(void)
{
	struct kv_extent ext[KV_EXTENTS_MAX];
	unsigned n = 0;
	char key[32];

	memset(&rig, 0, sizeof(rig));
	ledgerrig_open(&rig);
	if (ledgerrig_begin(&rig, false) < 0) {
		ledgerrig_close(&rig);
		return 1;
	}
	do
		snprintf(key, sizeof(key), "empty%u", n++);
	while (ledgerrig_reserve(&rig, key, 0, ext) && n < 5000);
	ledgerrig_close(&rig);
	return n < 5000 ? 2 : 0;
}

static void
each_want_of_memory_is_survived(void **state)
{
	unsigned n = 0;
	int rc, seen = 0;

	(void)state;
	do {
		rc = nth_fault_run(++n, begin_with_faults);
		assert_true(rc >= 0 && rc <= 2);
		seen |= 1 << rc;
	} while (rc != 0 && n < 100);
	assert_int_equal(seen, 7);
}

int
main(void)
{
#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
	const struct CMUnitTest tests[] = {
		nth_fault_test(each_want_of_memory_is_survived),
		TEST(a_new_file_has_free_slots_and_a_head),
		TEST(a_record_follows_its_object),
		TEST(what_is_dropped_while_read_stays_reserved),
		TEST(a_hidden_loser_frees_its_record),
		TEST(eviction_frees_records),
		TEST(after_detaching_nothing_is_written),
		TEST(long_keys_take_and_give_chains),
		TEST(releasing_a_bent_chain_ends),
		TEST(the_file_grows_and_stops),
		TEST(the_ledger_itself_has_a_bound),
		TEST(sums_are_asked_for_once_new_ones_first),
		TEST(a_sum_that_comes_late_is_for_nobody),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
