#include "adoptrig.h"

#include "test.h"

struct ledgerrig adopted;

int
adoptrig_setup(void **state)
{
	(void)state;
	ledgerrig_open(&adopted);
	assert_int_equal(ledgerrig_begin(&adopted, false), 0);
	return 0;
}

int
adoptrig_teardown(void **state)
{
	(void)state;
	ledgerrig_close(&adopted);
	return 0;
}

enum kv_record_state
adoptrig_state(uint32_t slot)
{
	return kv_record_state(adopted.file, slot);
}

unsigned
adoptrig_slots(void)
{
	uint32_t i, end = kv_ledger_head(adopted.ledger)->slots_end;
	unsigned n = 0;

	for (i = KV_RECORD_SLOT_MIN; i < end; i++)
		n += adoptrig_state(i) != KV_RECORD_FREE;
	return n;
}

struct kv_index_stats
adoptrig_stats(void)
{
	struct kv_index_stats s;

	kv_index_stats(adopted.ix, &s);
	return s;
}

void
adoptrig_adds_up(void)
{
	struct kv_extent ext[KV_EXTENTS_MAX];
	uint64_t want = ledgerrig_free(&adopted);
	int n = kv_slab_alloc(adopted.slab, want, ext, KV_EXTENTS_MAX);
	uint64_t gaps = 0;
	size_t i;

	assert_true(n > 0 || want == 0);
	kv_slab_release(adopted.slab, ext, (unsigned)n);
	while (kv_index_evict(adopted.ix))
		;
	for (i = adopted.q.gap_next; i < adopted.q.n_gaps; i++)
		gaps += adopted.q.gaps[i].len;
	assert_int_equal(ledgerrig_free(&adopted) +
				 adoptrig_stats().pinned_bytes +
				 adopted.q.held_bytes + gaps,
			 adopted.pool_bytes);
}
