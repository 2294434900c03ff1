/*
 * One life after the other on one pool: what was whole comes back, what was
 * not, or may be somebody's, does not, and no byte of the pool is anybody's
 * twice.
 */

#include "store/adopt.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "base/rng.h"
#include "ledgerrig.h"
#include "nth_fault.h"
#include "store/tenants.h"
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

static unsigned
slots_used(void)
{
	uint32_t i, end = kv_ledger_head(rig.ledger)->slots_end;
	unsigned n = 0;

	for (i = KV_RECORD_SLOT_MIN; i < end; i++)
		n += state_of(i) != KV_RECORD_FREE;
	return n;
}

static struct kv_index_stats
stats(void)
{
	struct kv_index_stats s;

	kv_index_stats(rig.ix, &s);
	return s;
}

/* Takes all there is, byte by byte: the rest must be somebody's. */
static void
assert_space_adds_up(void)
{
	struct kv_extent ext[KV_EXTENTS_MAX];
	uint64_t want = ledgerrig_free(&rig);
	int n = kv_slab_alloc(rig.slab, want, ext, KV_EXTENTS_MAX);
	uint64_t gaps = 0;
	size_t i;

	assert_true(n > 0 || want == 0);
	kv_slab_release(rig.slab, ext, (unsigned)n);
	while (kv_index_evict(rig.ix))
		;
	for (i = rig.q.gap_next; i < rig.q.n_gaps; i++)
		gaps += rig.q.gaps[i].len;
	assert_int_equal(ledgerrig_free(&rig) + stats().pinned_bytes +
				 rig.q.held_bytes + gaps,
			 rig.pool_bytes);
}

/* ---- what comes back ---- */

static void
objects_come_back_whole(void **state)
{
	struct kv_object *o;
	struct kv_extent at;

	(void)state;
	o = ledgerrig_put(&rig, "a", 1000);
	at = *kv_index_extents(o);
	ledgerrig_put(&rig, "b", 70000);
	ledgerrig_put(&rig, "empty", 0);
	ledgerrig_sum(&rig);
	ledgerrig_again(&rig);
	assert_int_equal(rig.report.keys, 3);
	assert_int_equal(rig.report.bytes, 71000);
	assert_int_equal(kv_ledger_head(rig.ledger)->life, 2);
	o = ledgerrig_find(&rig, "a");
	assert_non_null(o);
	assert_int_equal(o->size, 1000);
	assert_int_equal(o->id_random, 77);
	assert_int_equal(o->id_version, 3);
	assert_int_equal(o->flags, KV_OBJ_UNCHECKED | KV_OBJ_ADOPTED);
	assert_int_equal(kv_index_extents(o)->off, at.off);
	assert_int_equal(kv_index_extents(o)->len, at.len);
	assert_int_equal(ledgerrig_find(&rig, "empty")->size, 0);
	assert_int_equal(stats().unchecked, 3);
	kv_index_checked(rig.ix, o);
	kv_index_checked(rig.ix, o);
	assert_int_equal(stats().unchecked, 2);
	assert_space_adds_up();
	assert_int_equal(stats().unchecked, 0);
	assert_int_equal(slots_used(), 0);
}

static void
they_come_back_again_and_again(void **state)
{
	char key[600];
	int life, i;

	(void)state;
	for (life = 0; life < 20; life++) {
		for (i = 0; i < 5; i++) {
			memset(key, 'x', sizeof(key));
			snprintf(key + i * 100, 100, "%d-%d", life, i);
			ledgerrig_put(&rig, key, (uint64_t)i * 3000);
		}
		ledgerrig_sum(&rig);
		ledgerrig_again(&rig);
		assert_int_equal(rig.report.keys, 5 * (life + 1));
	}
	assert_int_equal(kv_ledger_head(rig.ledger)->life, 21);
	assert_space_adds_up();
	assert_int_equal(slots_used(), 0);
}

static void
pins_of_operators_come_back(void **state)
{
	struct kv_record r = {
		.hash = kv_key_hash(kv_key_seed("t", 1), "k", 1),
		.flags = KV_RECORD_SOFT_PIN | KV_RECORD_HARD_PIN,
		.tenant = "t",
		.tenant_len = 1,
		.key = "k",
		.key_len = 1,
	};
	struct kv_object *o;
	uint32_t slot;

	(void)state;
	assert_int_equal(kv_ledger_reserve(rig.ledger, &r, false, &slot), 0);
	kv_ledger_show(rig.ledger, slot);
	ledgerrig_sum(&rig);
	ledgerrig_again(&rig);
	o = kv_index_find(
		rig.ix, r.hash,
		(unsigned)kv_tenants_find(kv_index_tenants(rig.ix), "t", 1),
		"k", 1);
	assert_non_null(o);
	assert_int_equal(o->flags, KV_OBJ_SOFT_PIN | KV_OBJ_HARD_PIN |
					   KV_OBJ_UNCHECKED | KV_OBJ_ADOPTED);
	assert_int_equal(stats().soft_pinned, 1);
	assert_int_equal(stats().hard_pinned, 1);
}

/* ---- what does not ---- */

static void
without_a_sum_there_is_no_object(void **state)
{
	(void)state;
	ledgerrig_put(&rig, "a", 1000);
	ledgerrig_sum(&rig);
	ledgerrig_put(&rig, "late", 1000);
	ledgerrig_again(&rig);
	assert_int_equal(rig.report.keys, 1);
	assert_int_equal(rig.report.unsummed, 1);
	assert_null(ledgerrig_find(&rig, "late"));
	assert_space_adds_up();
}

static void
what_was_not_shown_is_not_there(void **state)
{
	struct kv_extent ext[KV_EXTENTS_MAX];

	(void)state;
	ledgerrig_reserve(&rig, "reserved", 1000, ext);
	ledgerrig_put_hidden(&rig, "hidden", 1000);
	ledgerrig_again(&rig);
	assert_int_equal(rig.report.keys, 0);
	assert_int_equal(rig.report.broken + rig.report.unsummed, 0);
	assert_int_equal(slots_used(), 0);
	assert_int_equal(ledgerrig_free(&rig), LEDGERRIG_POOL);
}

static void
a_smaller_pool_keeps_what_fits(void **state)
{
	char key[16];
	int i;

	(void)state;
	for (i = 0; i < 16; i++) {
		snprintf(key, sizeof(key), "k%d", i);
		ledgerrig_put(&rig, key, LEDGERRIG_POOL / 16);
	}
	ledgerrig_sum(&rig);
	rig.pool_bytes = LEDGERRIG_POOL / 2 + 256;
	ledgerrig_again(&rig);
	assert_int_equal(rig.report.keys, 8);
	assert_int_equal(rig.report.missing, 8);
	assert_space_adds_up();
	rig.pool_bytes = 2 * LEDGERRIG_POOL;
	rig.data_end = 2 * LEDGERRIG_POOL;
	ledgerrig_put(&rig, "new", 100);
	ledgerrig_sum(&rig);
	ledgerrig_again(&rig);
	assert_int_equal(rig.report.keys, 1);
	assert_int_equal(ledgerrig_free(&rig), 2 * LEDGERRIG_POOL - 256);
}

static void
what_the_file_lost_is_missing(void **state)
{
	char key[16];
	int i;

	(void)state;
	for (i = 0; i < 16; i++) {
		snprintf(key, sizeof(key), "k%d", i);
		ledgerrig_put(&rig, key, LEDGERRIG_POOL / 16);
	}
	ledgerrig_sum(&rig);
	rig.data_end = LEDGERRIG_POOL - 1; /* cut by a byte */
	rig.hole_off = LEDGERRIG_POOL / 4 + 100;
	rig.hole_len = 1;
	ledgerrig_again(&rig);
	assert_int_equal(rig.report.keys, 14);
	assert_int_equal(rig.report.missing, 2);
	assert_space_adds_up();
}

static void
an_older_generation_is_removed(void **state)
{
	struct kv_poolhead_tenant t = { .number = 1, .len = 7 };

	(void)state;
	memcpy(t.name, "default", 7);
	ledgerrig_put(&rig, "a", 1000);
	ledgerrig_sum(&rig);
	assert_int_equal(kv_poolhead_tenant_put(rig.file, &t), 0);
	ledgerrig_again(&rig);
	assert_int_equal(rig.report.keys, 0);
	assert_int_equal(rig.report.removed, 1);
	/* Another tenant's, of the same length: nothing to this one. */
	memcpy(t.name, "another", 7);
	t.number = 5;
	assert_int_equal(kv_poolhead_tenant_put(rig.file, &t), 0);
	ledgerrig_again(&rig);
	assert_int_equal(rig.report.removed, 0);
}

static void
a_damaged_generation_removes_all_once(void **state)
{
	(void)state;
	ledgerrig_put(&rig, "a", 1000);
	ledgerrig_sum(&rig);
	rig.file[8192 + 3 * 128] ^= 1;
	ledgerrig_again(&rig);
	assert_int_equal(rig.report.removed, 1);
	ledgerrig_put(&rig, "b", 1000);
	ledgerrig_sum(&rig);
	ledgerrig_again(&rig);
	assert_int_equal(rig.report.keys, 1);
}

static void
damaged_records_are_dropped_and_counted(void **state)
{
	struct kv_object *o;

	(void)state;
	o = ledgerrig_put(&rig, "a", 1000);
	rig.file[o->slot * KV_RECORD_BYTES + 100] ^= 1;
	o = ledgerrig_put(&rig, "b", 1000);
	memset(rig.file + o->slot * KV_RECORD_BYTES, 0, KV_RECORD_BYTES);
	ledgerrig_put(&rig, "c", 1000);
	ledgerrig_sum(&rig);
	ledgerrig_again(&rig);
	assert_int_equal(rig.report.keys, 1);
	assert_int_equal(rig.report.broken, 2);
	assert_int_equal(slots_used(), 1);
	assert_space_adds_up();
}

static void
chains_without_a_record_are_freed(void **state)
{
	struct kv_object *o;
	char key[1001];

	(void)state;
	memset(key, 'x', 1000);
	key[1000] = 0;
	o = ledgerrig_put(&rig, key, 100);
	ledgerrig_sum(&rig);
	kv_record_set_state(rig.file, o->slot, KV_RECORD_FREE);
	ledgerrig_again(&rig);
	assert_int_equal(rig.report.keys + rig.report.broken, 0);
	assert_int_equal(slots_used(), 0);
}

/* Writes a record that says what no node would. */
static void
forge(const char *key, uint64_t random, struct kv_extent ext)
{
	const struct kv_record r = {
		.hash = kv_key_hash(kv_key_seed(NULL, 0), key, strlen(key)),
		.size = ext.len,
		.id_random = random,
		.id_version = 3,
		.tenant = "default",
		.tenant_len = 7,
		.key = key,
		.key_len = (uint16_t)strlen(key),
		.n_ext = 1,
		.ext = &ext,
	};
	uint32_t slot;

	assert_int_equal(kv_ledger_reserve(rig.ledger, &r, false, &slot), 0);
	kv_ledger_show(rig.ledger, slot);
}

static void
two_that_claim_one_place_are_both_dropped(void **state)
{
	(void)state;
	forge("whole", 1, (struct kv_extent){ 0, 65536 });
	forge("inside", 1, (struct kv_extent){ 4096, 256 });
	forge("at its end", 1, (struct kv_extent){ 65280, 512 });
	forge("beside", 1, (struct kv_extent){ 65792, 256 });
	forge("far", 1, (struct kv_extent){ LEDGERRIG_POOL - 256, 256 });
	forge("over the end", 1,
	      (struct kv_extent){ LEDGERRIG_POOL - 256, 512 });
	forge("outside", 1, (struct kv_extent){ 1ull << 50, 512 });
	ledgerrig_sum(&rig);
	ledgerrig_again(&rig);
	assert_int_equal(rig.report.keys, 1);
	assert_int_equal(rig.report.doubtful, 5);
	assert_int_equal(rig.report.missing, 1);
	assert_non_null(ledgerrig_find(&rig, "beside"));
	assert_space_adds_up();
}

static void
of_two_with_one_key_the_lower_number_stays(void **state)
{
	(void)state;
	forge("k", 5, (struct kv_extent){ 0, 256 });
	forge("k", 3, (struct kv_extent){ 256, 256 });
	forge("k", 4, (struct kv_extent){ 512, 256 });
	forge("k", 3, (struct kv_extent){ 768, 256 });
	ledgerrig_sum(&rig);
	ledgerrig_again(&rig);
	assert_int_equal(rig.report.keys, 1);
	assert_int_equal(rig.report.bytes, 256);
	assert_int_equal(rig.report.doubtful, 3);
	assert_int_equal(ledgerrig_find(&rig, "k")->id_random, 3);
	assert_int_equal(kv_index_extents(ledgerrig_find(&rig, "k"))->off, 256);
	assert_int_equal(ledgerrig_free(&rig), LEDGERRIG_POOL - 256);
	assert_space_adds_up();
}

static void
another_kernel_means_an_empty_start(void **state)
{
	struct kv_adopt_opts ao = {
		.pool_bytes = LEDGERRIG_POOL,
		.is_void = true,
	};

	(void)state;
	ledgerrig_put(&rig, "a", 1000);
	ledgerrig_sum(&rig);
	ledgerrig_again(&rig);
	/* The same life again, as if nothing had been taken over. */
	kv_quarantine_fini(&rig.q);
	kv_index_free(rig.ix);
	kv_slab_free(rig.slab);
	rig.slab = kv_slab_new(LEDGERRIG_POOL);
	rig.ix = kv_index_new(&(struct kv_index_opts){ .slab = rig.slab,
						       .ledger = rig.ledger });
	rig.q.o.slab = rig.slab;
	rig.q.o.index = rig.ix;
	ao.ledger = rig.ledger;
	ao.index = rig.ix;
	ao.slab = rig.slab;
	ao.quarantine = &rig.q;
	assert_int_equal(kv_adopt(&ao, &rig.report), 0);
	assert_int_equal(rig.report.keys, 0);
	assert_int_equal(slots_used(), 0);
	assert_false(kv_quarantine_settle(&rig.q));
	kv_quarantine_ready(&rig.q, LEDGERRIG_POOL);
	assert_int_equal(ledgerrig_free(&rig), LEDGERRIG_POOL);
}

/* ---- who attached before ---- */

static void
what_a_writer_may_fill_is_not_given_out(void **state)
{
	struct kv_extent ext[KV_EXTENTS_MAX];
	uint32_t slot;

	(void)state;
	slot = ledgerrig_reserve(&rig, "filling", 5000, ext);
	rig.attached = 1 << 1;
	ledgerrig_again(&rig);
	assert_int_equal(state_of(slot), KV_RECORD_RESERVED);
	assert_int_equal(rig.q.held_bytes, 5120);
	assert_int_equal(ledgerrig_free(&rig), LEDGERRIG_POOL - 5120);
	assert_space_adds_up();
	/* Over more lives, as long as that one is there. */
	ledgerrig_again(&rig);
	ledgerrig_again(&rig);
	assert_true(kv_quarantine_settle(&rig.q));
	assert_int_equal(ledgerrig_free(&rig), LEDGERRIG_POOL - 5120);
	/* Somebody else of a later life is nothing to it. */
	rig.attached = 1 << 2;
	assert_false(kv_quarantine_settle(&rig.q));
	assert_int_equal(ledgerrig_free(&rig), LEDGERRIG_POOL);
	assert_int_equal(state_of(slot), KV_RECORD_FREE);
	assert_space_adds_up();
}

static void
what_a_reader_views_stays_and_is_served(void **state)
{
	struct kv_object *o = ledgerrig_put(&rig, "viewed", 5000);
	uint32_t slot = o->slot;

	(void)state;
	ledgerrig_sum(&rig);
	kv_index_pin(rig.ix, o, rig.now);
	rig.attached = 1 << 1;
	ledgerrig_again(&rig);
	o = ledgerrig_find(&rig, "viewed");
	assert_int_equal(o->pins, 1);
	assert_int_equal(kv_record_hold(rig.file, slot).from, 1);
	assert_int_equal(kv_record_hold(rig.file, slot).to, 2);
	/* It cannot be evicted, and removed it keeps its space. */
	while (kv_index_evict(rig.ix))
		;
	assert_ptr_equal(ledgerrig_find(&rig, "viewed"), o);
	kv_index_drop(rig.ix, o);
	assert_null(ledgerrig_find(&rig, "viewed"));
	assert_int_equal(ledgerrig_free(&rig), LEDGERRIG_POOL - 5120);
	assert_int_equal(state_of(slot), KV_RECORD_RESERVED);
	/* The next life knows as well. */
	ledgerrig_again(&rig);
	assert_int_equal(rig.q.held_bytes, 5120);
	rig.attached = 0;
	assert_false(kv_quarantine_settle(&rig.q));
	assert_int_equal(ledgerrig_free(&rig), LEDGERRIG_POOL);
}

static void
a_reader_of_this_life_holds_it_on(void **state)
{
	struct kv_object *o = ledgerrig_put(&rig, "viewed", 5000);
	uint32_t slot = o->slot;

	(void)state;
	ledgerrig_sum(&rig);
	kv_index_pin(rig.ix, o, rig.now);
	rig.attached = 1 << 1;
	ledgerrig_again(&rig);
	o = ledgerrig_find(&rig, "viewed");
	kv_index_pin(rig.ix, o, rig.now);
	rig.attached = 1 << 2;
	assert_false(kv_quarantine_settle(&rig.q));
	assert_int_equal(o->pins, 1);
	assert_int_equal(kv_record_hold(rig.file, slot).from, 2);
	assert_int_equal(kv_record_hold(rig.file, slot).to, 2);
	ledgerrig_again(&rig);
	assert_int_equal(ledgerrig_find(&rig, "viewed")->pins, 1);
	rig.attached = 0;
	assert_false(kv_quarantine_settle(&rig.q));
	assert_int_equal(kv_record_hold(rig.file, slot).to, 0);
	assert_int_equal(ledgerrig_find(&rig, "viewed")->pins, 0);
}

static void
a_viewed_object_that_is_dropped_keeps_its_space(void **state)
{
	struct kv_object *o;
	uint32_t slot;

	(void)state;
	o = ledgerrig_put(&rig, "unsummed", 5000);
	slot = o->slot;
	kv_index_pin(rig.ix, o, rig.now);
	o = ledgerrig_put(&rig, "empty", 0);
	kv_index_pin(rig.ix, o, rig.now);
	rig.attached = 1 << 1;
	ledgerrig_again(&rig);
	assert_int_equal(rig.report.unsummed, 2);
	assert_int_equal(rig.report.keys, 0);
	assert_int_equal(state_of(slot), KV_RECORD_RESERVED);
	assert_int_equal(rig.q.held_bytes, 5120);
	assert_int_equal(slots_used(), 2);
	rig.attached = 0;
	assert_false(kv_quarantine_settle(&rig.q));
	assert_int_equal(slots_used(), 0);
	assert_space_adds_up();
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
		o = ledgerrig_put(&rig, key, LEDGERRIG_POOL / 16);
		kv_index_pin(rig.ix, o, rig.now);
	}
	ledgerrig_sum(&rig);
	rig.attached = 1 << 1;
	rig.pool_bytes = LEDGERRIG_POOL / 2 + 256;
	ledgerrig_again(&rig);
	assert_int_equal(rig.report.keys, 8);
	assert_int_equal(rig.report.missing, 8);
	assert_int_equal(rig.q.held_bytes, 256);
	assert_int_equal(ledgerrig_free(&rig), 0);
	rig.pool_bytes = LEDGERRIG_POOL;
	ledgerrig_again(&rig);
	assert_int_equal(rig.report.keys, 8);
	assert_int_equal(ledgerrig_free(&rig), 0);
	assert_int_equal(rig.q.held_bytes, LEDGERRIG_POOL / 2);
	rig.attached = 0;
	assert_false(kv_quarantine_settle(&rig.q));
	assert_int_equal(ledgerrig_free(&rig), LEDGERRIG_POOL / 2);
	assert_space_adds_up();
}

static void
lost_records_hold_all_space_back(void **state)
{
	struct kv_extent ext[KV_EXTENTS_MAX];
	uint32_t slot;

	(void)state;
	ledgerrig_put(&rig, "good", 1000);
	ledgerrig_sum(&rig);
	slot = ledgerrig_reserve(&rig, "filling", 5000, ext);
	rig.file[slot * KV_RECORD_BYTES + 50] ^= 1;
	rig.attached = 1 << 1;
	ledgerrig_again(&rig);
	assert_int_equal(rig.report.broken, 1);
	assert_int_equal(rig.report.keys, 1);
	assert_int_equal(ledgerrig_free(&rig), 0);
	assert_true(kv_quarantine_settle(&rig.q));
	rig.attached = 0;
	assert_false(kv_quarantine_settle(&rig.q));
	assert_int_equal(ledgerrig_free(&rig), LEDGERRIG_POOL - 1024);
	assert_space_adds_up();
}

static void
a_damaged_hold_is_one_of_all_earlier_lives(void **state)
{
	struct kv_object *o;

	(void)state;
	ledgerrig_again(&rig);
	ledgerrig_again(&rig);
	o = ledgerrig_put(&rig, "a", 1000);
	ledgerrig_sum(&rig);
	rig.file[o->slot * KV_RECORD_BYTES + 12] ^= 1;
	rig.attached = 1 << 2 | 1 << 4;
	ledgerrig_again(&rig);
	assert_int_equal(ledgerrig_find(&rig, "a")->pins, 1);
	rig.attached = 1 << 4;
	assert_false(kv_quarantine_settle(&rig.q));
	assert_int_equal(ledgerrig_find(&rig, "a")->pins, 0);
}

static void
who_lives_is_asked_once_for_all_of_a_kind(void **state)
{
	char key[16];
	int i;

	(void)state;
	for (i = 0; i < 200; i++) {
		snprintf(key, sizeof(key), "k%d", i);
		kv_index_pin(rig.ix, ledgerrig_put(&rig, key, 256), rig.now);
	}
	ledgerrig_sum(&rig);
	rig.attached = 1 << 1;
	ledgerrig_again(&rig);
	rig.asked = 0;
	assert_true(kv_quarantine_settle(&rig.q));
	assert_int_equal(rig.asked, 1);
}

/* ---- pages ---- */

static void
gaps_are_free_as_their_pages_come(void **state)
{
	const uint64_t mib = 1 << 20;

	(void)state;
	ledgerrig_put(&rig, "a", 65536);
	ledgerrig_sum(&rig);
	ledgerrig_end(&rig);
	rig.pool_bytes = rig.data_end = 100 * mib;
	assert_int_equal(ledgerrig_begin(&rig, true), 0);
	assert_int_equal(ledgerrig_free(&rig), 0);
	assert_non_null(ledgerrig_find(&rig, "a"));
	kv_quarantine_ready(&rig.q, 31 * mib);
	assert_int_equal(ledgerrig_free(&rig), 0);
	kv_quarantine_ready(&rig.q, 32 * mib);
	assert_int_equal(ledgerrig_free(&rig), 32 * mib - 65536);
	kv_quarantine_ready(&rig.q, 70 * mib);
	assert_int_equal(ledgerrig_free(&rig), 64 * mib - 65536);
	kv_quarantine_ready(&rig.q, 100 * mib);
	assert_int_equal(ledgerrig_free(&rig), 100 * mib - 65536);
	assert_space_adds_up();
}

static void
held_space_waits_for_its_pages_too(void **state)
{
	struct kv_extent ext[KV_EXTENTS_MAX];

	(void)state;
	ledgerrig_reserve(&rig, "filling", 5000, ext);
	rig.attached = 1 << 1;
	ledgerrig_end(&rig);
	assert_int_equal(ledgerrig_begin(&rig, true), 0);
	rig.attached = 0;
	assert_true(kv_quarantine_settle(&rig.q));
	assert_int_equal(ledgerrig_free(&rig), 0);
	kv_quarantine_ready(&rig.q, LEDGERRIG_POOL);
	assert_false(kv_quarantine_settle(&rig.q));
	assert_int_equal(ledgerrig_free(&rig), LEDGERRIG_POOL);
}

/* ---- anything at all ---- */

/* What a process that attached in some life may still touch. */
struct claim {
	struct kv_extent ext;
	uint32_t life;
};

static struct claim claims[20000];
static size_t n_claims;

/* Of the life that ends. */
static void
claims_note(void)
{
	uint32_t life = kv_ledger_head(rig.ledger)->life, i;
	static struct kv_record_copy c;
	size_t kept = 0, j;

	for (j = 0; j < n_claims; j++)
		if (rig.attached & UINT64_C(1) << claims[j].life)
			claims[kept++] = claims[j];
	n_claims = kept;
	for (i = KV_RECORD_SLOT_MIN; i < kv_ledger_head(rig.ledger)->slots_end;
	     i++) {
		if (kv_record_parse(rig.file,
				    kv_ledger_head(rig.ledger)->slots_end, i,
				    kv_ledger_seed(rig.ledger), &c) < 0 ||
		    c.hold.from > life || c.hold.to < life)
			continue;
		for (j = 0; j < c.r.n_ext; j++) {
			assert_true(n_claims < 20000);
			claims[n_claims++] = (struct claim){ c.r.ext[j], life };
		}
	}
}

static void
assert_nobody_claims(const struct kv_extent *e)
{
	size_t j;

	for (j = 0; j < n_claims; j++) {
		const struct claim *c = &claims[j];

		if (!(rig.attached & UINT64_C(1) << c->life))
			continue;
		assert_true(c->ext.off + c->ext.len <= e->off ||
			    c->ext.off >= e->off + e->len);
	}
}

/* All that can be had, before and after eviction of all that may leave. */
static void
assert_claims_are_kept(void)
{
	struct kv_extent ext[KV_EXTENTS_MAX];
	int i, n;

	n = kv_slab_alloc(rig.slab, ledgerrig_free(&rig), ext, KV_EXTENTS_MAX);
	assert_true(n >= 0);
	for (i = 0; i < n; i++)
		assert_nobody_claims(&ext[i]);
	kv_slab_release(rig.slab, ext, (unsigned)n);
}

/* Lives of random work, each ended at random; some of the file damaged now and
 * then. */
static void
live(struct kv_rng *rng, unsigned turns)
{
	struct kv_extent ext[KV_EXTENTS_MAX];
	struct kv_object *o;
	char key[300];
	unsigned i;

	for (i = 0; i < turns; i++) {
		memset(key, 'k', sizeof(key));
		snprintf(key + kv_rng_below(rng, 2) * 250, 50, "%u",
			 (unsigned)kv_rng_below(rng, 60));
		o = ledgerrig_find(&rig, key);
		switch (kv_rng_below(rng, 6)) {
		case 0:
		case 1:
			if (!o)
				ledgerrig_put(&rig, key,
					      kv_rng_below(rng, 80000));
			break;
		case 2:
			if (o && !(o->flags & KV_OBJ_HIDDEN))
				kv_index_pin(rig.ix, o, rig.now);
			break;
		case 3:
			if (o)
				kv_index_drop(rig.ix, o);
			break;
		case 4:
			if (!o)
				ledgerrig_reserve(&rig, key,
						  kv_rng_below(rng, 30000),
						  ext);
			break;
		default:
			ledgerrig_sum(&rig);
		}
	}
}

static void
damage(struct kv_rng *rng)
{
	uint64_t i, at = kv_rng_below(rng, 1 << 20);

	/* The head is another test's. */
	if (at < 2 * 4096)
		return;
	for (i = at; i < at + 300 && i < 1 << 20; i++)
		rig.file[i] = (uint8_t)kv_rng_u64(rng);
}

static void
random_lives_stay_consistent(void **state)
{
	struct kv_rng rng;
	unsigned life;

	(void)state;
	kv_rng_seed(&rng, 20);
	for (life = 2; life < 60; life++) {
		live(&rng, 150);
		assert_claims_are_kept();
		rig.attached |= UINT64_C(1) << (life - 1);
		rig.attached &= kv_rng_u64(&rng) | kv_rng_u64(&rng);
		claims_note();
		if (life % 7 == 0)
			damage(&rng);
		ledgerrig_again(&rig);
		assert_claims_are_kept();
		if (life % 3 == 0) {
			assert_space_adds_up();
			assert_claims_are_kept();
		}
		rig.attached &= kv_rng_u64(&rng) | kv_rng_u64(&rng);
		kv_quarantine_settle(&rig.q);
		assert_claims_are_kept();
	}
	rig.attached = 0;
	ledgerrig_again(&rig);
	assert_false(kv_quarantine_settle(&rig.q));
	assert_space_adds_up();
	assert_int_equal(ledgerrig_free(&rig), LEDGERRIG_POOL);
	assert_int_equal(slots_used(), 0);
}

static int
adopt_with_faults(void)
{
	char key[16];
	int i, rc;

	memset(&rig, 0, sizeof(rig));
	ledgerrig_open(&rig);
	if (ledgerrig_begin(&rig, false) < 0)
		exit(3);
	for (i = 0; i < 12; i++) {
		snprintf(key, sizeof(key), "k%d", i);
		if (ledgerrig_put(&rig, key, 70000) && i % 2)
			kv_index_pin(rig.ix, ledgerrig_find(&rig, key), 1);
	}
	ledgerrig_sum(&rig);
	rig.attached = 1 << 1;
	ledgerrig_end(&rig);
	rc = ledgerrig_begin(&rig, false);
	if (rc < 0) {
		/* The next try finds all that was there. */
		ledgerrig_end(&rig);
		if (ledgerrig_begin(&rig, false) < 0 || rig.report.keys < 11)
			exit(3);
	}
	ledgerrig_close(&rig);
	return rc < 0;
}

static void
each_want_of_memory_is_survived(void **state)
{
	unsigned n = 0, failed = 0, row = 0;
	int rc;

	(void)state;
	do {
		rc = nth_fault_run(++n, adopt_with_faults);
		failed += rc == 1;
		row = rc == 0 ? row + 1 : 0;
		assert_true(rc == 0 || rc == 1 || rc == 3);
	} while (row < 40 && n < 400);
	assert_true(failed > 5);
}

int
main(void)
{
#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
	const struct CMUnitTest tests[] = {
		nth_fault_test(each_want_of_memory_is_survived),
		TEST(objects_come_back_whole),
		TEST(they_come_back_again_and_again),
		TEST(pins_of_operators_come_back),
		TEST(without_a_sum_there_is_no_object),
		TEST(what_was_not_shown_is_not_there),
		TEST(a_smaller_pool_keeps_what_fits),
		TEST(what_the_file_lost_is_missing),
		TEST(an_older_generation_is_removed),
		TEST(a_damaged_generation_removes_all_once),
		TEST(damaged_records_are_dropped_and_counted),
		TEST(chains_without_a_record_are_freed),
		TEST(two_that_claim_one_place_are_both_dropped),
		TEST(of_two_with_one_key_the_lower_number_stays),
		TEST(another_kernel_means_an_empty_start),
		TEST(what_a_writer_may_fill_is_not_given_out),
		TEST(what_a_reader_views_stays_and_is_served),
		TEST(a_reader_of_this_life_holds_it_on),
		TEST(a_viewed_object_that_is_dropped_keeps_its_space),
		TEST(a_view_outside_of_a_smaller_pool_is_not_forgotten),
		TEST(lost_records_hold_all_space_back),
		TEST(a_damaged_hold_is_one_of_all_earlier_lives),
		TEST(who_lives_is_asked_once_for_all_of_a_kind),
		TEST(gaps_are_free_as_their_pages_come),
		TEST(held_space_waits_for_its_pages_too),
		TEST(random_lives_stay_consistent),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
