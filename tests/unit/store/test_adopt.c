/* What comes back of a pool that outlives its nodes, and what does not. */

#include "store/adopt.h"

#include <string.h>

#include "adoptrig.h"
#include "store/tenants.h"
#include "test.h"

/* ---- what comes back ---- */

static void
objects_come_back_whole(void **state)
{
	struct kv_object *o;
	struct kv_extent at;

	(void)state;
	o = ledgerrig_put(&adopted, "a", 1000);
	at = *kv_index_extents(o);
	ledgerrig_put(&adopted, "b", 70000);
	ledgerrig_put(&adopted, "empty", 0);
	ledgerrig_sum(&adopted);
	ledgerrig_again(&adopted);
	assert_int_equal(adopted.report.keys, 3);
	assert_int_equal(adopted.report.bytes, 71000);
	assert_int_equal(kv_ledger_head(adopted.ledger)->life, 2);
	o = ledgerrig_find(&adopted, "a");
	assert_non_null(o);
	assert_int_equal(o->size, 1000);
	assert_int_equal(o->id_random, 77);
	assert_int_equal(o->id_version, 3);
	assert_int_equal(o->flags, KV_OBJ_UNCHECKED | KV_OBJ_ADOPTED);
	assert_int_equal(kv_index_extents(o)->off, at.off);
	assert_int_equal(kv_index_extents(o)->len, at.len);
	assert_int_equal(ledgerrig_find(&adopted, "empty")->size, 0);
	assert_int_equal(adoptrig_stats().unchecked, 3);
	kv_index_checked(adopted.ix, o);
	kv_index_checked(adopted.ix, o);
	assert_int_equal(adoptrig_stats().unchecked, 2);
	adoptrig_adds_up();
	assert_int_equal(adoptrig_stats().unchecked, 0);
	assert_int_equal(adoptrig_slots(), 0);
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
			ledgerrig_put(&adopted, key, (uint64_t)i * 3000);
		}
		ledgerrig_sum(&adopted);
		ledgerrig_again(&adopted);
		assert_int_equal(adopted.report.keys, 5 * (life + 1));
	}
	assert_int_equal(kv_ledger_head(adopted.ledger)->life, 21);
	adoptrig_adds_up();
	assert_int_equal(adoptrig_slots(), 0);
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
	assert_int_equal(kv_ledger_reserve(adopted.ledger, &r, false, &slot),
			 0);
	kv_ledger_show(adopted.ledger, slot);
	ledgerrig_sum(&adopted);
	ledgerrig_again(&adopted);
	o = kv_index_find(
		adopted.ix, r.hash,
		(unsigned)kv_tenants_find(kv_index_tenants(adopted.ix), "t", 1),
		"k", 1);
	assert_non_null(o);
	assert_int_equal(o->flags, KV_OBJ_SOFT_PIN | KV_OBJ_HARD_PIN |
					   KV_OBJ_UNCHECKED | KV_OBJ_ADOPTED);
	assert_int_equal(adoptrig_stats().soft_pinned, 1);
	assert_int_equal(adoptrig_stats().hard_pinned, 1);
}

/* ---- what does not ---- */

static void
without_a_sum_there_is_no_object(void **state)
{
	(void)state;
	ledgerrig_put(&adopted, "a", 1000);
	ledgerrig_sum(&adopted);
	ledgerrig_put(&adopted, "late", 1000);
	ledgerrig_again(&adopted);
	assert_int_equal(adopted.report.keys, 1);
	assert_int_equal(adopted.report.unsummed, 1);
	assert_null(ledgerrig_find(&adopted, "late"));
	adoptrig_adds_up();
}

static void
what_was_not_shown_is_not_there(void **state)
{
	struct kv_extent ext[KV_EXTENTS_MAX];

	(void)state;
	ledgerrig_reserve(&adopted, "reserved", 1000, ext);
	ledgerrig_put_hidden(&adopted, "hidden", 1000);
	ledgerrig_again(&adopted);
	assert_int_equal(adopted.report.keys, 0);
	assert_int_equal(adopted.report.broken + adopted.report.unsummed, 0);
	assert_int_equal(adoptrig_slots(), 0);
	assert_int_equal(ledgerrig_free(&adopted), LEDGERRIG_POOL);
}

static void
a_smaller_pool_keeps_what_fits(void **state)
{
	char key[16];
	int i;

	(void)state;
	for (i = 0; i < 16; i++) {
		snprintf(key, sizeof(key), "k%d", i);
		ledgerrig_put(&adopted, key, LEDGERRIG_POOL / 16);
	}
	ledgerrig_sum(&adopted);
	adopted.pool_bytes = LEDGERRIG_POOL / 2 + 256;
	ledgerrig_again(&adopted);
	assert_int_equal(adopted.report.keys, 8);
	assert_int_equal(adopted.report.missing, 8);
	adoptrig_adds_up();
	adopted.pool_bytes = 2 * LEDGERRIG_POOL;
	adopted.data_end = 2 * LEDGERRIG_POOL;
	ledgerrig_put(&adopted, "new", 100);
	ledgerrig_sum(&adopted);
	ledgerrig_again(&adopted);
	assert_int_equal(adopted.report.keys, 1);
	assert_int_equal(ledgerrig_free(&adopted), 2 * LEDGERRIG_POOL - 256);
}

static void
what_the_file_lost_is_missing(void **state)
{
	char key[16];
	int i;

	(void)state;
	for (i = 0; i < 16; i++) {
		snprintf(key, sizeof(key), "k%d", i);
		ledgerrig_put(&adopted, key, LEDGERRIG_POOL / 16);
	}
	ledgerrig_sum(&adopted);
	adopted.data_end = LEDGERRIG_POOL - 1; /* cut by a byte */
	adopted.hole_off = LEDGERRIG_POOL / 4 + 100;
	adopted.hole_len = 1;
	ledgerrig_again(&adopted);
	assert_int_equal(adopted.report.keys, 14);
	assert_int_equal(adopted.report.missing, 2);
	adoptrig_adds_up();
}

static void
an_older_epoch_is_removed(void **state)
{
	struct kv_poolhead_tenant t = { .number = 1, .len = 7 };

	(void)state;
	memcpy(t.name, "default", 7);
	ledgerrig_put(&adopted, "a", 1000);
	ledgerrig_sum(&adopted);
	/* Not older than the generation: it came when room was made for that.
	 */
	assert_int_equal(kv_poolhead_tenant_put(adopted.file, &t), 0);
	ledgerrig_again(&adopted);
	assert_int_equal(adopted.report.keys, 1);
	t.epoch = 1;
	assert_int_equal(kv_poolhead_tenant_put(adopted.file, &t), 0);
	ledgerrig_again(&adopted);
	assert_int_equal(adopted.report.keys, 0);
	assert_int_equal(adopted.report.removed, 1);
	/* The next ones are of that epoch, also when nothing was adopted. */
	assert_int_equal(kv_tenants_epoch(kv_index_tenants(adopted.ix), 0), 1);
	/* Another tenant's, of the same length: nothing to this one. */
	memcpy(t.name, "another", 7);
	t.number = 5;
	t.epoch = 3;
	assert_int_equal(kv_poolhead_tenant_put(adopted.file, &t), 0);
	ledgerrig_again(&adopted);
	assert_int_equal(adopted.report.removed, 0);
}

static void
a_damaged_generation_removes_all_once(void **state)
{
	(void)state;
	ledgerrig_put(&adopted, "a", 1000);
	ledgerrig_sum(&adopted);
	adopted.file[8192 + 3 * 128] ^= 1;
	ledgerrig_again(&adopted);
	assert_int_equal(adopted.report.removed, 1);
	ledgerrig_put(&adopted, "b", 1000);
	ledgerrig_sum(&adopted);
	ledgerrig_again(&adopted);
	assert_int_equal(adopted.report.keys, 1);
}

static void
damaged_records_are_dropped_and_counted(void **state)
{
	struct kv_object *o;

	(void)state;
	o = ledgerrig_put(&adopted, "a", 1000);
	adopted.file[o->slot * KV_RECORD_BYTES + 100] ^= 1;
	o = ledgerrig_put(&adopted, "b", 1000);
	memset(adopted.file + o->slot * KV_RECORD_BYTES, 0, KV_RECORD_BYTES);
	ledgerrig_put(&adopted, "c", 1000);
	ledgerrig_sum(&adopted);
	ledgerrig_again(&adopted);
	assert_int_equal(adopted.report.keys, 1);
	assert_int_equal(adopted.report.broken, 2);
	assert_int_equal(adoptrig_slots(), 1);
	adoptrig_adds_up();
}

static void
chains_without_a_record_are_freed(void **state)
{
	struct kv_object *o;
	char key[1001];

	(void)state;
	memset(key, 'x', 1000);
	key[1000] = 0;
	o = ledgerrig_put(&adopted, key, 100);
	ledgerrig_sum(&adopted);
	kv_record_set_state(adopted.file, o->slot, KV_RECORD_FREE);
	ledgerrig_again(&adopted);
	assert_int_equal(adopted.report.keys + adopted.report.broken, 0);
	assert_int_equal(adoptrig_slots(), 0);
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

	assert_int_equal(kv_ledger_reserve(adopted.ledger, &r, false, &slot),
			 0);
	kv_ledger_show(adopted.ledger, slot);
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
	ledgerrig_sum(&adopted);
	ledgerrig_again(&adopted);
	assert_int_equal(adopted.report.keys, 1);
	assert_int_equal(adopted.report.doubtful, 5);
	assert_int_equal(adopted.report.missing, 1);
	assert_non_null(ledgerrig_find(&adopted, "beside"));
	adoptrig_adds_up();
}

static void
of_two_with_one_key_the_lower_number_stays(void **state)
{
	(void)state;
	forge("k", 5, (struct kv_extent){ 0, 256 });
	forge("k", 3, (struct kv_extent){ 256, 256 });
	forge("k", 4, (struct kv_extent){ 512, 256 });
	forge("k", 3, (struct kv_extent){ 768, 256 });
	ledgerrig_sum(&adopted);
	ledgerrig_again(&adopted);
	assert_int_equal(adopted.report.keys, 1);
	assert_int_equal(adopted.report.bytes, 256);
	assert_int_equal(adopted.report.doubtful, 3);
	assert_int_equal(ledgerrig_find(&adopted, "k")->id_random, 3);
	assert_int_equal(kv_index_extents(ledgerrig_find(&adopted, "k"))->off,
			 256);
	assert_int_equal(ledgerrig_free(&adopted), LEDGERRIG_POOL - 256);
	adoptrig_adds_up();
}

static void
another_kernel_means_an_empty_start(void **state)
{
	struct kv_adopt_opts ao = {
		.pool_bytes = LEDGERRIG_POOL,
		.is_void = true,
	};

	(void)state;
	ledgerrig_put(&adopted, "a", 1000);
	ledgerrig_sum(&adopted);
	ledgerrig_again(&adopted);
	/* The same life again, as if nothing had been taken over. */
	kv_quarantine_fini(&adopted.q);
	kv_index_free(adopted.ix);
	kv_slab_free(adopted.slab);
	adopted.slab = kv_slab_new(LEDGERRIG_POOL);
	adopted.ix = kv_index_new(&(struct kv_index_opts){
		.slab = adopted.slab, .ledger = adopted.ledger });
	adopted.q.o.slab = adopted.slab;
	adopted.q.o.index = adopted.ix;
	ao.ledger = adopted.ledger;
	ao.index = adopted.ix;
	ao.slab = adopted.slab;
	ao.quarantine = &adopted.q;
	assert_int_equal(kv_adopt(&ao, &adopted.report), 0);
	assert_int_equal(adopted.report.keys, 0);
	assert_int_equal(adoptrig_slots(), 0);
	assert_false(kv_quarantine_settle(&adopted.q));
	kv_quarantine_ready(&adopted.q, LEDGERRIG_POOL);
	assert_int_equal(ledgerrig_free(&adopted), LEDGERRIG_POOL);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		ADOPTRIG_TEST(objects_come_back_whole),
		ADOPTRIG_TEST(they_come_back_again_and_again),
		ADOPTRIG_TEST(pins_of_operators_come_back),
		ADOPTRIG_TEST(without_a_sum_there_is_no_object),
		ADOPTRIG_TEST(what_was_not_shown_is_not_there),
		ADOPTRIG_TEST(a_smaller_pool_keeps_what_fits),
		ADOPTRIG_TEST(what_the_file_lost_is_missing),
		ADOPTRIG_TEST(an_older_epoch_is_removed),
		ADOPTRIG_TEST(a_damaged_generation_removes_all_once),
		ADOPTRIG_TEST(damaged_records_are_dropped_and_counted),
		ADOPTRIG_TEST(chains_without_a_record_are_freed),
		ADOPTRIG_TEST(two_that_claim_one_place_are_both_dropped),
		ADOPTRIG_TEST(of_two_with_one_key_the_lower_number_stays),
		ADOPTRIG_TEST(another_kernel_means_an_empty_start),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
