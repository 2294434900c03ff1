#include "store/quarantine.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "base/num.h"
#include "mem/slab.h"
#include "store/index.h"
#include "store/ledger.h"

/* Gaps are cut here, so that one whose pages come in steps is of use before the
 * last of them. */
#define GRID_BYTES (UINT64_C(32) << 20)

struct kv_quarantine_space {
	struct kv_record_hold hold;
	/* What it is, one of: */
	struct kv_object *object;
	struct kv_extent ext;
	uint32_t slot;
};

void
kv_quarantine_init(struct kv_quarantine *q,
		   const struct kv_quarantine_opts *opts)
{
	memset(q, 0, sizeof(*q));
	q->o = *opts;
}

void
kv_quarantine_fini(struct kv_quarantine *q)
{
	free(q->gaps);
	free(q->held);
	q->gaps = NULL;
	q->held = NULL;
	q->n_gaps = q->gap_next = q->n_held = 0;
}

/* Room for one more in an array of n; its size doubles. */
static int
array_grow(void *array, size_t n, size_t bytes)
{
	void *grown;

	if (n & (n - 1) || (n && n < 8))
		return 0;
	grown = KV_FAULT_POINT()
			? NULL
			: realloc(*(void **)array, (n ? 2 * n : 8) * bytes);
	if (!grown)
		return -ENOMEM;
	*(void **)array = grown;
	return 0;
}

static int
gap_add(struct kv_quarantine *q, uint64_t off, uint64_t len)
{
	int rc = array_grow(&q->gaps, q->n_gaps, sizeof(q->gaps[0]));

	if (rc == 0)
		rc = kv_slab_reserve(q->o.slab, off, len);
	if (rc == 0)
		q->gaps[q->n_gaps++] = (struct kv_extent){ off, len };
	return rc;
}

int
kv_quarantine_gap(struct kv_quarantine *q, uint64_t off, uint64_t len)
{
	uint64_t end = off + len, cut;
	int rc = 0;

	for (; off < end && rc == 0; off = cut) {
		cut = kv_min_u64(
			kv_round_down_u64(off, GRID_BYTES) + GRID_BYTES, end);
		rc = gap_add(q, off, cut - off);
	}
	return rc;
}

/* A hold of this life is nobody's of an earlier one. */
static struct kv_record_hold
hold_before(const struct kv_quarantine *q, struct kv_record_hold h)
{
	uint32_t last = kv_ledger_head(q->o.ledger)->life - 1;

	if (h.to > last)
		h.to = last;
	return h;
}

static int
held_add(struct kv_quarantine *q, const struct kv_quarantine_space *s)
{
	int rc = array_grow(&q->held, q->n_held, sizeof(q->held[0]));

	if (rc < 0)
		return rc;
	q->held[q->n_held] = *s;
	q->held[q->n_held++].hold = hold_before(q, s->hold);
	q->held_bytes += s->ext.len;
	return 0;
}

int
kv_quarantine_taken(struct kv_quarantine *q, struct kv_record_hold h,
		    uint64_t off, uint64_t len)
{
	return held_add(q, &(struct kv_quarantine_space){
				   .hold = h,
				   .ext = { off, len },
			   });
}

int
kv_quarantine_space(struct kv_quarantine *q, struct kv_record_hold h,
		    uint64_t off, uint64_t len)
{
	int rc = len ? kv_slab_reserve(q->o.slab, off, len) : 0;

	return rc < 0 ? rc : kv_quarantine_taken(q, h, off, len);
}

int
kv_quarantine_record(struct kv_quarantine *q, struct kv_record_hold h,
		     uint32_t slot)
{
	return held_add(q, &(struct kv_quarantine_space){
				   .hold = h,
				   .slot = slot,
			   });
}

int
kv_quarantine_object(struct kv_quarantine *q, struct kv_object *o,
		     struct kv_record_hold h, uint64_t now)
{
	const struct kv_quarantine_space s = { .hold = h, .object = o };
	int rc = held_add(q, &s);

	if (rc == 0)
		kv_index_pin(q->o.index, o, now);
	return rc;
}

void
kv_quarantine_hold_gaps(struct kv_quarantine *q)
{
	q->holds_gaps = true;
}

static int
compare_held(const void *a, const void *b)
{
	const struct kv_quarantine_space *x = a, *y = b;

	if (x->hold.from != y->hold.from)
		return x->hold.from < y->hold.from ? -1 : 1;
	if (x->hold.to != y->hold.to)
		return x->hold.to < y->hold.to ? -1 : 1;
	return 0;
}

void
kv_quarantine_begin(struct kv_quarantine *q)
{
	/* What is held by the same lives is asked for once, and goes at once:
	 * all spaces of one record do. */
	if (q->n_held)
		qsort(q->held, q->n_held, sizeof(q->held[0]), compare_held);
}

bool
kv_quarantine_is_held(const struct kv_quarantine *q, struct kv_record_hold h)
{
	h = hold_before(q, h);
	return h.from && h.from <= h.to &&
	       q->o.is_attached(q->o.arg, h.from, h.to);
}

static void
gaps_give(struct kv_quarantine *q)
{
	const struct kv_extent *e;

	for (; q->gap_next < q->n_gaps && !q->holds_gaps; q->gap_next++) {
		e = &q->gaps[q->gap_next];
		if (e->off + e->len > q->ready_end)
			return;
		kv_slab_release(q->o.slab, e, 1);
	}
	if (q->gap_next == q->n_gaps) {
		free(q->gaps);
		q->gaps = NULL;
		q->n_gaps = q->gap_next = 0;
	}
}

void
kv_quarantine_ready(struct kv_quarantine *q, uint64_t end)
{
	q->ready_end = end;
	gaps_give(q);
}

static void
held_give(struct kv_quarantine *q, const struct kv_quarantine_space *s)
{
	if (s->slot)
		kv_ledger_release(q->o.ledger, s->slot);
	if (s->ext.len)
		kv_slab_release(q->o.slab, &s->ext, 1);
	q->held_bytes -= s->ext.len;
	if (!s->object)
		return;
	if (s->object->pins > 1)
		kv_ledger_rehold(q->o.ledger, s->object->slot);
	kv_index_unpin(q->o.index, s->object);
}

bool
kv_quarantine_settle(struct kv_quarantine *q)
{
	const struct kv_record_hold everybody = { 1, UINT32_MAX };
	struct kv_record_hold last = { 0 };
	bool is_held = false;
	size_t i, kept = 0;

	if (q->holds_gaps && !kv_quarantine_is_held(q, everybody)) {
		q->holds_gaps = false;
		gaps_give(q);
	}
	for (i = 0; i < q->n_held; i++) {
		const struct kv_quarantine_space *s = &q->held[i];

		if (i == 0 || s->hold.from != last.from ||
		    s->hold.to != last.to) {
			last = s->hold;
			is_held = kv_quarantine_is_held(q, last);
		}
		if (is_held || s->ext.off + s->ext.len > q->ready_end)
			q->held[kept++] = *s;
		else
			held_give(q, s);
	}
	q->n_held = kept;
	return kept || q->holds_gaps;
}
