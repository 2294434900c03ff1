/*
 * Lives of a pool full of random work and damage, and with too little memory:
 * no byte of it is anybody's twice.
 */

#include "store/adopt.h"

#include <stdlib.h>
#include <string.h>

#include "adoptrig.h"
#include "base/rng.h"
#include "nth_fault.h"
#include "test.h"

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
	uint32_t life = kv_ledger_head(adopted.ledger)->life, i;
	static struct kv_record_copy c;
	size_t kept = 0, j;

	for (j = 0; j < n_claims; j++)
		if (adopted.attached & UINT64_C(1) << claims[j].life)
			claims[kept++] = claims[j];
	n_claims = kept;
	for (i = KV_RECORD_SLOT_MIN;
	     i < kv_ledger_head(adopted.ledger)->slots_end; i++) {
		if (kv_record_parse(adopted.file,
				    kv_ledger_head(adopted.ledger)->slots_end,
				    i, kv_ledger_seed(adopted.ledger),
				    &c) < 0 ||
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

		if (!(adopted.attached & UINT64_C(1) << c->life))
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

	n = kv_slab_alloc(adopted.slab, ledgerrig_free(&adopted), ext,
			  KV_EXTENTS_MAX);
	assert_true(n >= 0);
	for (i = 0; i < n; i++)
		assert_nobody_claims(&ext[i]);
	kv_slab_release(adopted.slab, ext, (unsigned)n);
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
		o = ledgerrig_find(&adopted, key);
		switch (kv_rng_below(rng, 6)) {
		case 0:
		case 1:
			if (!o)
				ledgerrig_put(&adopted, key,
					      kv_rng_below(rng, 80000));
			break;
		case 2:
			if (o && !(o->flags & KV_OBJ_HIDDEN))
				kv_index_pin(adopted.ix, o, adopted.now);
			break;
		case 3:
			if (o)
				kv_index_drop(adopted.ix, o);
			break;
		case 4:
			if (!o)
				ledgerrig_reserve(&adopted, key,
						  kv_rng_below(rng, 30000),
						  ext);
			break;
		default:
			ledgerrig_sum(&adopted);
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
		adopted.file[i] = (uint8_t)kv_rng_u64(rng);
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
		adopted.attached |= UINT64_C(1) << (life - 1);
		adopted.attached &= kv_rng_u64(&rng) | kv_rng_u64(&rng);
		claims_note();
		if (life % 7 == 0)
			damage(&rng);
		ledgerrig_again(&adopted);
		assert_claims_are_kept();
		if (life % 3 == 0) {
			adoptrig_adds_up();
			assert_claims_are_kept();
		}
		adopted.attached &= kv_rng_u64(&rng) | kv_rng_u64(&rng);
		kv_quarantine_settle(&adopted.q);
		assert_claims_are_kept();
	}
	adopted.attached = 0;
	ledgerrig_again(&adopted);
	assert_false(kv_quarantine_settle(&adopted.q));
	adoptrig_adds_up();
	assert_int_equal(ledgerrig_free(&adopted), LEDGERRIG_POOL);
	assert_int_equal(adoptrig_slots(), 0);
}

static int
adopt_with_faults(void)
{
	char key[16];
	int i, rc;

	memset(&adopted, 0, sizeof(adopted));
	ledgerrig_open(&adopted);
	if (ledgerrig_begin(&adopted, false) < 0)
		exit(3);
	for (i = 0; i < 12; i++) {
		snprintf(key, sizeof(key), "k%d", i);
		if (ledgerrig_put(&adopted, key, 70000) && i % 2)
			kv_index_pin(adopted.ix, ledgerrig_find(&adopted, key),
				     1);
	}
	ledgerrig_sum(&adopted);
	adopted.attached = 1 << 1;
	ledgerrig_end(&adopted);
	rc = ledgerrig_begin(&adopted, false);
	if (rc < 0) {
		/* The next try finds all that was there. */
		ledgerrig_end(&adopted);
		if (ledgerrig_begin(&adopted, false) < 0 ||
		    adopted.report.keys < 11)
			exit(3);
	}
	ledgerrig_close(&adopted);
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
	const struct CMUnitTest tests[] = {
		nth_fault_test(each_want_of_memory_is_survived),
		ADOPTRIG_TEST(random_lives_stay_consistent),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
