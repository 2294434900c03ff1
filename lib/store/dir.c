#include "store/dir.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "base/attr.h"
#include "base/warm.h"
#include "store/dirtab.h"

/*
 * A table that is too full or too empty gets a successor of twice or half
 * the size, and every change moves a few homes to it: those before the cursor
 * are there, all others here, none in both.
 */

enum {
	GROUPS_MIN = 16,
	/* Halves of an entry a group on average: from so many on the table
	 * doubles, below so many it shrinks. A group of 232 bytes then costs 42
	 * to 93 an entry, and with the successor less than 150. */
	FILL_MAX_HALVES = 11,
	FILL_MIN_HALVES = 5,
	/* Homes wait for the successor's memory to be faulted in, until there
	 * are so many. */
	FILL_WAIT_HALVES = 13,
	/* Homes that a change moves: so many that the fill hardly changes until
	 * all have moved. */
	MOVES = 2,
	/* The same to a smaller one, which must keep up with the deletions. */
	MOVES_DOWN = 8,
	EXIST_AHEAD = 24, /* keys: enough for the latency of memory */
};

_Static_assert(GROUPS_MIN % MOVES_DOWN == 0 && MOVES_DOWN % MOVES == 0,
	       "a move ends with a table's end");

struct slot {
	uint64_t entries;
	bool live;
	bool shown; /* live and not hidden */
};

struct kv_dir {
	struct kv_dirtab tab[2]; /* the second one only during a move */
	size_t cursor;           /* homes before it have moved */
	struct kv_warm warm;     /* for the second one, if it is larger */
	size_t swept;            /* groups that the sweep has seen */
	uint64_t entries;
	uint64_t dead; /* entries of closed slots */
	uint64_t keys;
	unsigned slots;
	struct slot slot[];
};

struct kv_dir *
kv_dir_new(unsigned slots)
{
	struct kv_dir *d;

	assert(slots <= KV_NODES_MAX);
	d = calloc(1, sizeof(*d) + slots * sizeof(d->slot[0]));
	if (!d)
		return NULL;
	d->slots = slots;
	kv_warm_init(&d->warm);
	if (kv_dirtab_init(&d->tab[0], GROUPS_MIN) < 0) {
		kv_warm_fini(&d->warm);
		free(d);
		return NULL;
	}
	return d;
}

void
kv_dir_free(struct kv_dir *d)
{
	if (!d)
		return;
	kv_warm_fini(&d->warm);
	kv_dirtab_fini(&d->tab[0]);
	kv_dirtab_fini(&d->tab[1]);
	free(d);
}

static bool
is_moving(const struct kv_dir *d)
{
	return d->tab[1].groups != 0;
}

/* Number of the one table that may have entries of this hash. */
static unsigned
tab_of(const struct kv_dir *d, struct kv_hash h)
{
	return is_moving(d) && kv_dirtab_home(&d->tab[0], h) < d->cursor;
}

static KV_INLINE void
walk(const struct kv_dir *d, struct kv_hash h, struct kv_dirtab_walk *w)
{
	kv_dirtab_walk(w, &d->tab[tab_of(d, h)], h);
}

static bool
is_growing(const struct kv_dir *d)
{
	return d->tab[1].groups > d->tab[0].groups;
}

/* Whether so many more homes have memory to go to. */
static bool
has_room(struct kv_dir *d, unsigned n)
{
	size_t reach = kv_dirtab_reach(&d->tab[1], 2 * (d->cursor + n) - 1);

	return kv_warm_reaches(&d->warm, reach) ||
	       d->entries * 2 >= d->tab[0].groups * FILL_WAIT_HALVES;
}

/* A part of a move under way, if there is one. */
static void
move_on(struct kv_dir *d)
{
	unsigned i, n;

	if (!is_moving(d))
		return;
	n = is_growing(d) ? MOVES : MOVES_DOWN;
	if (is_growing(d) && !has_room(d, n))
		return;
	for (i = 0; i < n; i++)
		kv_dirtab_move(&d->tab[0], &d->tab[1], d->cursor++);
	if (d->cursor < d->tab[0].groups) {
		kv_dirtab_release(&d->tab[0], d->cursor);
		return;
	}
	kv_dirtab_fini(&d->tab[0]);
	d->tab[0] = d->tab[1];
	d->tab[1] = (struct kv_dirtab){ 0 };
	d->cursor = 0;
	d->swept = 0;
}

static int
successor_init(struct kv_dir *d, size_t groups)
{
	struct kv_dirtab *t = &d->tab[1];
	int rc = kv_dirtab_init(t, groups);

	if (rc == 0)
		kv_warm_set(&d->warm, t->words,
			    is_growing(d) ? kv_dirtab_reach(t, groups) : 0);
	return rc;
}

static int
grow_if_full(struct kv_dir *d)
{
	size_t groups = d->tab[0].groups;

	if (is_moving(d) || d->entries * 2 < groups * FILL_MAX_HALVES)
		return 0;
	return successor_init(d, groups * 2);
}

/* Without memory for it the table stays as it is. */
static void
shrink_if_sparse(struct kv_dir *d)
{
	size_t groups = d->tab[0].groups;

	if (!is_moving(d) && groups > GROUPS_MIN &&
	    d->entries * 2 < groups * FILL_MIN_HALVES)
		(void)successor_init(d, groups / 2);
}

static bool
has_entry(const struct kv_dir *d, struct kv_hash h)
{
	struct kv_dirtab_walk w;

	walk(d, h, &w);
	return kv_dirtab_step(&w) != NULL;
}

static void
entry_del(struct kv_dir *d, struct kv_dirtab_entry *e)
{
	struct slot *s = &d->slot[e->slot];
	struct kv_hash h = e->hash;

	kv_dirtab_del(&d->tab[tab_of(d, h)], e);
	s->entries--;
	d->entries--;
	if (!s->live)
		d->dead--;
	if (!has_entry(d, h))
		d->keys--;
}

void
kv_dir_slot_open(struct kv_dir *d, unsigned slot)
{
	assert(kv_dir_slot_is_swept(d, slot));
	d->slot[slot].live = true;
	d->slot[slot].shown = true;
}

void
kv_dir_slot_close(struct kv_dir *d, unsigned slot)
{
	assert(slot < d->slots);
	if (!d->slot[slot].live)
		return;
	d->slot[slot].live = false;
	d->slot[slot].shown = false;
	d->dead += d->slot[slot].entries;
}

bool
kv_dir_slot_is_swept(const struct kv_dir *d, unsigned slot)
{
	assert(slot < d->slots);
	return !d->slot[slot].live && d->slot[slot].entries == 0;
}

void
kv_dir_slot_hide(struct kv_dir *d, unsigned slot, bool hide)
{
	assert(slot < d->slots);
	d->slot[slot].shown = d->slot[slot].live && !hide;
}

/*
 * The group to be swept next: their numbers' bits in reverse order, so that
 * what is left lies everywhere at any time. From one end to the other a half of
 * the table would be empty and the other one as full as before: if it shrank
 * then, entries would go past hundreds of groups to find a place.
 */
static size_t
sweep_next(struct kv_dir *d)
{
	uint64_t r = __builtin_bswap64(d->swept++);

	r = (r >> 4 & 0x0f0f0f0f0f0f0f0f) | (r & 0x0f0f0f0f0f0f0f0f) << 4;
	r = (r >> 2 & 0x3333333333333333) | (r & 0x3333333333333333) << 2;
	r = (r >> 1 & 0x5555555555555555) | (r & 0x5555555555555555) << 1;
	return r >> d->tab[0].shift;
}

static void
sweep_group(struct kv_dir *d, size_t g)
{
	uint64_t used = kv_dirtab_used(d->tab[0].words[g]);
	struct kv_dirtab_entry *e;

	for (; used; used &= used - 1) {
		e = kv_dirtab_at(&d->tab[0], g, kv_dirtab_first(used));
		if (!d->slot[e->slot].live)
			entry_del(d, e);
	}
	shrink_if_sparse(d);
}

bool
kv_dir_sweep(struct kv_dir *d, unsigned steps)
{
	unsigned cost;

	while (steps > 0 && (is_moving(d) || d->dead)) {
		cost = KV_DIRTAB_PLACES;
		if (is_moving(d)) {
			move_on(d);
			cost *= MOVES_DOWN;
		} else {
			sweep_group(d, sweep_next(d));
		}
		steps -= steps < cost ? steps : cost;
	}
	return is_moving(d) || d->dead;
}

static bool
id_is_equal(const struct kv_dirtab_entry *e, struct kv_dir_id id)
{
	return e->random == id.random && e->version == id.version;
}

static void
view_add(struct kv_dir_view *view, const struct kv_dirtab_entry *e)
{
	assert(view->n < KV_REPLICAS_MAX);
	view->id.random = e->random;
	view->id.version = e->version;
	view->slots[view->n++] = e->slot;
}

/* All live owners: what another id met. */
static void
view_fill(const struct kv_dir *d, struct kv_hash h, struct kv_dir_view *view)
{
	const struct kv_dirtab_entry *e;
	struct kv_dirtab_walk w;

	walk(d, h, &w);
	view->n = 0;
	while ((e = kv_dirtab_step(&w)))
		if (d->slot[e->slot].live)
			view_add(view, e);
}

int
kv_dir_add(struct kv_dir *d, struct kv_hash h, struct kv_dir_id id,
	   unsigned slot, struct kv_dir_view *view)
{
	unsigned any = 0, owners = 0;
	struct kv_dirtab_entry *e;
	struct kv_dirtab_walk w;

	assert(slot < d->slots);
	assert(d->slot[slot].live);
	move_on(d);
	walk(d, h, &w);
	for (; (e = kv_dirtab_step(&w)); any++) {
		if (!d->slot[e->slot].live)
			continue;
		if (!id_is_equal(e, id)) {
			view_fill(d, h, view);
			return 0;
		}
		if (e->slot == slot)
			return 1;
		owners++;
	}
	if (owners >= KV_REPLICAS_MAX) {
		view_fill(d, h, view);
		return -ENOSPC;
	}
	if (grow_if_full(d) < 0)
		return -ENOMEM;
	e = kv_dirtab_add(&d->tab[tab_of(d, h)], h);
	*e = (struct kv_dirtab_entry){
		.hash = h,
		.random = id.random,
		.version = id.version,
		.slot = (uint16_t)slot,
	};
	d->slot[slot].entries++;
	d->entries++;
	d->keys += any == 0;
	return 1;
}

bool
kv_dir_del(struct kv_dir *d, struct kv_hash h, struct kv_dir_id id,
	   unsigned slot)
{
	struct kv_dirtab_entry *e;
	struct kv_dirtab_walk w;

	assert(slot < d->slots);
	move_on(d);
	if (!d->slot[slot].live)
		return false;
	walk(d, h, &w);
	while ((e = kv_dirtab_step(&w)))
		if (e->slot == slot && id_is_equal(e, id)) {
			entry_del(d, e);
			shrink_if_sparse(d);
			return true;
		}
	return false;
}

void
kv_dir_clear(struct kv_dir *d, struct kv_hash h)
{
	struct kv_dirtab_entry *e;
	struct kv_dirtab_walk w;

	for (;;) {
		move_on(d);
		walk(d, h, &w);
		e = kv_dirtab_step(&w);
		if (!e)
			return;
		entry_del(d, e);
		shrink_if_sparse(d);
	}
}

bool
kv_dir_find(const struct kv_dir *d, struct kv_hash h, struct kv_dir_view *view)
{
	const struct kv_dirtab_entry *e;
	struct kv_dirtab_walk w;

	walk(d, h, &w);
	if (view)
		view->n = 0;
	while ((e = kv_dirtab_step(&w))) {
		if (!d->slot[e->slot].shown)
			continue;
		if (!view)
			return true;
		view_add(view, e);
	}
	return view && view->n > 0;
}

/* The entry that is likely the one, or else, to add it, its likely place. */
static KV_INLINE void
prefetch_entry(const struct kv_dir *d, struct kv_hash h, bool to_add)
{
	const struct kv_dirtab *t = &d->tab[tab_of(d, h)];
	size_t g = kv_dirtab_home(t, h);
	uint64_t found = kv_dirtab_match(t->words[g], kv_dirtab_tag(h));

	if (!found && to_add)
		found = kv_dirtab_match(t->words[g], 0);
	if (found)
		__builtin_prefetch(kv_dirtab_at(t, g, kv_dirtab_first(found)));
}

static KV_INLINE void
prefetch_word(const struct kv_dir *d, struct kv_hash h)
{
	const struct kv_dirtab *t = &d->tab[tab_of(d, h)];

	__builtin_prefetch(&t->words[kv_dirtab_home(t, h)]);
}

void
kv_dir_prefetch_word(const struct kv_dir *d, struct kv_hash h)
{
	prefetch_word(d, h);
}

void
kv_dir_prefetch(const struct kv_dir *d, struct kv_hash h)
{
	prefetch_entry(d, h, true);
}

/* Each key goes through three stages, and others lie between them. */
size_t
kv_dir_exist(const struct kv_dir *d, const struct kv_hash *h, size_t n,
	     uint8_t *out)
{
	size_t found = 0, i, at;

	for (i = 0; i < n + EXIST_AHEAD + EXIST_AHEAD; i++) {
		if (i < n)
			prefetch_word(d, h[i]);
		at = i - EXIST_AHEAD;
		if (at < n)
			prefetch_entry(d, h[at], false);
		at -= EXIST_AHEAD;
		if (at < n) {
			out[at] = kv_dir_find(d, h[at], NULL);
			found += out[at];
		}
	}
	return found;
}

uint64_t
kv_dir_keys(const struct kv_dir *d)
{
	return d->keys;
}

uint64_t
kv_dir_slot_keys(const struct kv_dir *d, unsigned slot)
{
	assert(slot < d->slots);
	return d->slot[slot].live ? d->slot[slot].entries : 0;
}

uint64_t
kv_dir_bytes(const struct kv_dir *d)
{
	return sizeof(*d) + d->slots * sizeof(d->slot[0]) +
	       kv_dirtab_bytes(&d->tab[0]) + kv_dirtab_bytes(&d->tab[1]);
}
