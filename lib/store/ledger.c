#include "store/ledger.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/attr.h"
#include "base/fault.h"
#include "base/num.h"

#define STEP_SLOTS (KV_LEDGER_STEP_BYTES / KV_RECORD_BYTES)

/* Heads of lists of slots: numbers that no slot has. */
enum {
	LIST_FREE = 1,
	LIST_NEW, /* objects without a sum */
	LIST_OLD, /* objects whose sum is to be checked */
	LISTS_END,
};

_Static_assert((int)LISTS_END <= (int)KV_RECORD_SLOT_MIN, "no slot has them");
_Static_assert(KV_POOLHEAD_BYTES < KV_LEDGER_STEP_BYTES, "slots in each");

/* What belongs to a slot, in this process. */
struct side {
	uint32_t prev; /* of its list; itself: in none */
	uint32_t next;
	uint32_t stamp;
};

struct kv_ledger {
	struct kv_ledger_opts o;
	uint8_t *file;
	uint64_t seed;
	uint64_t n_unsummed;
	unsigned n_steps;
	unsigned steps_max;
	struct side *steps[]; /* STEP_SLOTS each */
};

static struct side *
side_of(const struct kv_ledger *l, uint32_t slot)
{
	return &l->steps[slot / STEP_SLOTS][slot % STEP_SLOTS];
}

/* ---- lists ---- */

static void
list_init(struct kv_ledger *l, uint32_t slot)
{
	struct side *s = side_of(l, slot);

	s->prev = s->next = slot;
}

static void
list_del(struct kv_ledger *l, uint32_t slot)
{
	const struct side *s = side_of(l, slot);

	side_of(l, s->prev)->next = s->next;
	side_of(l, s->next)->prev = s->prev;
	list_init(l, slot);
}

static void
list_add(struct kv_ledger *l, uint32_t list, uint32_t slot)
{
	struct side *head = side_of(l, list), *s = side_of(l, slot);

	s->prev = head->prev;
	s->next = list;
	side_of(l, head->prev)->next = slot;
	head->prev = slot;
}

/* 0: it is empty. */
static uint32_t
list_first(const struct kv_ledger *l, uint32_t list)
{
	uint32_t first = side_of(l, list)->next;

	return first == list ? 0 : first;
}

/* ---- growth ---- */

/* What this process needs to know of one step more of the file. */
static int
step_add(struct kv_ledger *l)
{
	struct side *s =
		KV_FAULT_POINT() ? NULL : calloc(STEP_SLOTS, sizeof(*s));
	uint32_t slot = l->n_steps * STEP_SLOTS, end = slot + STEP_SLOTS;

	if (!s)
		return -ENOMEM;
	l->steps[l->n_steps++] = s;
	for (; slot < end; slot++)
		list_init(l, slot);
	return 0;
}

/* The new slots are free before the head says that they are there. */
static int
ledger_grow(struct kv_ledger *l)
{
	uint32_t slot, end = (l->n_steps + 1) * STEP_SLOTS;
	int rc;

	if (l->n_steps >= l->steps_max)
		return -ENOSPC;
	rc = l->o.grow(l->o.arg, (uint64_t)end * KV_RECORD_BYTES);
	if (rc == 0)
		rc = step_add(l);
	if (rc < 0)
		return rc;
	slot = end - STEP_SLOTS;
	if (slot < KV_RECORD_SLOT_MIN)
		slot = KV_RECORD_SLOT_MIN;
	for (; slot < end; slot++)
		kv_ledger_clear(l, slot);
	l->o.head.slots_end = end;
	kv_poolhead_build(l->file, &l->o.head);
	return 0;
}

struct kv_ledger *
kv_ledger_new(const struct kv_ledger_opts *opts)
{
	uint64_t max = opts->bytes_max / KV_LEDGER_STEP_BYTES;
	struct kv_ledger *l;
	uint64_t steps;
	int rc = 0;

	steps = kv_div_up_u64(opts->head.slots_end, STEP_SLOTS);
	max = kv_max_u64(max, kv_max_u64(steps, 1));
	max = kv_min_u64(max, UINT32_MAX / STEP_SLOTS);
	l = KV_FAULT_POINT()
		    ? NULL
		    : calloc(1, sizeof(*l) + max * sizeof(l->steps[0]));
	if (!l) {
		errno = ENOMEM;
		return NULL;
	}
	l->o = *opts;
	l->file = opts->file;
	l->seed = kv_record_seed(opts->head.pool);
	l->steps_max = (unsigned)max;
	while (rc == 0 && l->n_steps < steps)
		rc = step_add(l);
	if (rc == 0 && steps == 0)
		rc = ledger_grow(l);
	if (rc < 0) {
		kv_ledger_free(l);
		errno = -rc;
		return NULL;
	}
	kv_poolhead_build(l->file, &l->o.head);
	return l;
}

void
kv_ledger_free(struct kv_ledger *l)
{
	unsigned i;

	if (!l)
		return;
	for (i = 0; i < l->n_steps; i++)
		free(l->steps[i]);
	free(l);
}

const struct kv_poolhead *
kv_ledger_head(const struct kv_ledger *l)
{
	return &l->o.head;
}

void *
kv_ledger_file(const struct kv_ledger *l)
{
	return l->file;
}

uint64_t
kv_ledger_seed(const struct kv_ledger *l)
{
	return l->seed;
}

/* ---- taking over ---- */

void
kv_ledger_keep(struct kv_ledger *l, uint32_t slot)
{
	list_add(l, LIST_OLD, slot);
}

void
kv_ledger_clear(struct kv_ledger *l, uint32_t slot)
{
	kv_record_set_state(l->file, slot, KV_RECORD_FREE);
	list_del(l, slot);
	list_add(l, LIST_FREE, slot);
}

/* ---- records ---- */

static int
slots_take(struct kv_ledger *l, uint32_t *slots, unsigned n)
{
	unsigned i;
	int rc = 0;

	for (i = 0; i < n && rc == 0; i += rc == 0) {
		slots[i] = list_first(l, LIST_FREE);
		if (!slots[i]) {
			rc = ledger_grow(l);
			slots[i] = list_first(l, LIST_FREE);
		}
		if (rc == 0)
			list_del(l, slots[i]);
	}
	while (rc < 0 && i > 0)
		list_add(l, LIST_FREE, slots[--i]);
	return rc;
}

int
kv_ledger_reserve(struct kv_ledger *l, const struct kv_record *r, bool is_held,
		  uint32_t *slot)
{
	uint32_t slots[KV_RECORD_CHAIN_MAX];
	int rc = slots_take(l, slots, kv_record_slots(r));

	if (rc < 0)
		return rc;
	kv_record_build(l->file, slots, l->seed, r);
	if (is_held)
		kv_ledger_hold(l, slots[0]);
	kv_record_set_state(l->file, slots[0], KV_RECORD_RESERVED);
	*slot = slots[0];
	return 0;
}

void
kv_ledger_show(struct kv_ledger *l, uint32_t slot)
{
	kv_record_set_state(l->file, slot, KV_RECORD_OBJECT);
	kv_ledger_unhold(l, slot);
	list_add(l, LIST_NEW, slot);
	l->n_unsummed++;
}

static void
forget_unsummed(struct kv_ledger *l, uint32_t slot)
{
	if (kv_record_state(l->file, slot) == KV_RECORD_OBJECT &&
	    !kv_record_value_sum(l->file, slot) && l->n_unsummed)
		l->n_unsummed--;
}

void
kv_ledger_hide(struct kv_ledger *l, uint32_t slot)
{
	forget_unsummed(l, slot);
	kv_record_set_state(l->file, slot, KV_RECORD_RESERVED);
	list_del(l, slot);
}

void
kv_ledger_release(struct kv_ledger *l, uint32_t slot)
{
	uint32_t head = slot, next;

	forget_unsummed(l, slot);
	do {
		next = kv_record_next(l->file, slot);
		side_of(l, slot)->stamp++;
		kv_ledger_clear(l, slot);
		slot = next;
		/* The file is memory that others could write to. */
	} while (slot >= KV_RECORD_SLOT_MIN && slot < l->o.head.slots_end &&
		 slot != head &&
		 kv_record_state(l->file, slot) == KV_RECORD_MORE);
}

void
kv_ledger_hold(struct kv_ledger *l, uint32_t slot)
{
	struct kv_record_hold h = kv_record_hold(l->file, slot);

	if (!h.to)
		h.from = l->o.head.life;
	h.to = l->o.head.life;
	kv_record_set_hold(l->file, slot, h);
}

void
kv_ledger_unhold(struct kv_ledger *l, uint32_t slot)
{
	if (kv_record_hold(l->file, slot).to)
		kv_record_set_hold(l->file, slot, (struct kv_record_hold){ 0 });
}

void
kv_ledger_rehold(struct kv_ledger *l, uint32_t slot)
{
	kv_record_set_hold(
		l->file, slot,
		(struct kv_record_hold){ l->o.head.life, l->o.head.life });
}

/* ---- sums ---- */

bool
kv_ledger_take(struct kv_ledger *l, bool only_new, struct kv_ledger_taken *out)
{
	uint32_t slot = list_first(l, LIST_NEW);

	if (!slot && !only_new)
		slot = list_first(l, LIST_OLD);
	if (!slot)
		return false;
	list_del(l, slot);
	out->slot = slot;
	out->stamp = side_of(l, slot)->stamp;
	return true;
}

bool
kv_ledger_is_current(const struct kv_ledger *l, const struct kv_ledger_taken *t)
{
	return side_of(l, t->slot)->stamp == t->stamp &&
	       kv_record_state(l->file, t->slot) == KV_RECORD_OBJECT;
}

bool
kv_ledger_sum(struct kv_ledger *l, uint32_t slot, uint64_t sum)
{
	uint64_t has = kv_record_value_sum(l->file, slot);

	sum = kv_ledger_sum_of(sum);
	if (has)
		return has == sum;
	kv_record_set_value_sum(l->file, slot, sum);
	l->n_unsummed--;
	return true;
}

uint64_t
kv_ledger_unsummed(const struct kv_ledger *l)
{
	return l->n_unsummed;
}
