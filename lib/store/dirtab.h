#ifndef KV_STORE_DIRTAB_H
#define KV_STORE_DIRTAB_H

/*
 * The directory's hash table. It has one entry for each (key, owner), so that
 * a further replica costs what the first one does and nothing hangs off it.
 *
 * Places come in groups of seven. A word a group holds a tag byte (part of
 * the hash) for each place, 0 when it is free, and in its top byte how many
 * entries found the group full and lie in a later one. So most look-ups touch
 * one word and one entry, a miss the word alone, and a deletion takes its
 * traces with it: there are no tombstones.
 *
 * The top bits of a hash number its home group. A table of twice or half the
 * size therefore has the same order, and moving to it home by home reads and
 * writes memory in sequence.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/key.h"

enum {
	KV_DIRTAB_PLACES = 7, /* of a group */
	KV_DIRTAB_PASSED_SHIFT = 8 * KV_DIRTAB_PLACES,
};

/* Of each tag in a word: its lowest bit, its highest bit, all others. */
#define KV_DIRTAB_LOW  0x0001010101010101u
#define KV_DIRTAB_HIGH 0x0080808080808080u
#define KV_DIRTAB_REST 0x007f7f7f7f7f7f7fu

struct kv_dirtab_entry {
	struct kv_hash hash;
	uint64_t random;
	uint32_t version;
	uint16_t slot;
};

_Static_assert(sizeof(struct kv_dirtab_entry) == 32, "two a cache line");

struct kv_dirtab {
	void *map;
	size_t map_bytes;
	struct kv_dirtab_entry *entries;
	uint64_t *words;
	size_t groups;   /* a power of two; 0: no table */
	size_t released; /* bytes of entries that the system has back */
	unsigned shift;  /* from hash to home */
};

/* groups: a power of two, above 1. 0 or -ENOMEM. */
int kv_dirtab_init(struct kv_dirtab *t, size_t groups);
void kv_dirtab_fini(struct kv_dirtab *t);
/* From `words` on so many bytes are in use once all homes up to this one are;
 * 0: of a table that has no huge pages. */
size_t kv_dirtab_reach(const struct kv_dirtab *t, size_t home);
uint64_t kv_dirtab_bytes(const struct kv_dirtab *t);

/* The place of a new entry of this hash, which the caller fills in with it.
 * There must be a free one; that few are is the caller's care. */
struct kv_dirtab_entry *kv_dirtab_add(struct kv_dirtab *t, struct kv_hash h);
void kv_dirtab_del(struct kv_dirtab *t, const struct kv_dirtab_entry *e);

/* Moves all entries of one home. */
void kv_dirtab_move(struct kv_dirtab *from, struct kv_dirtab *to, size_t home);
/* Homes before this one have moved: their memory goes back. */
void kv_dirtab_release(struct kv_dirtab *t, size_t home);

static inline size_t
kv_dirtab_home(const struct kv_dirtab *t, struct kv_hash h)
{
	return h.lo >> t->shift;
}

static inline uint64_t
kv_dirtab_tag(struct kv_hash h)
{
	uint8_t tag = (uint8_t)h.lo;

	return tag ? tag : 1;
}

/* The highest bit of each tag of the word that equals this one. */
static inline uint64_t
kv_dirtab_match(uint64_t word, uint64_t tag)
{
	uint64_t x = word ^ tag * KV_DIRTAB_LOW;

	return ~(((x & KV_DIRTAB_REST) + KV_DIRTAB_REST) | x) & KV_DIRTAB_HIGH;
}

static inline uint64_t
kv_dirtab_used(uint64_t word)
{
	return kv_dirtab_match(word, 0) ^ KV_DIRTAB_HIGH;
}

/* Place of the first such bit; bits is not 0. */
static inline unsigned
kv_dirtab_first(uint64_t bits)
{
	return (unsigned)__builtin_ctzll(bits) / 8;
}

/* How many went past the group. */
static inline unsigned
kv_dirtab_passed(uint64_t word)
{
	return (unsigned)(word >> KV_DIRTAB_PASSED_SHIFT);
}

static inline struct kv_dirtab_entry *
kv_dirtab_at(const struct kv_dirtab *t, size_t group, unsigned place)
{
	return &t->entries[group * KV_DIRTAB_PLACES + place];
}

static inline size_t
kv_dirtab_next(const struct kv_dirtab *t, size_t group)
{
	return (group + 1) & (t->groups - 1);
}

/* The entries of a hash, one after the other. */
struct kv_dirtab_walk {
	const struct kv_dirtab *t;
	struct kv_hash hash;
	uint64_t found; /* places of the group still to look at */
	size_t group;
	size_t left; /* groups not looked at */
};

static inline void
kv_dirtab_walk(struct kv_dirtab_walk *w, const struct kv_dirtab *t,
	       struct kv_hash h)
{
	w->t = t;
	w->hash = h;
	w->group = kv_dirtab_home(t, h);
	w->found = kv_dirtab_match(t->words[w->group], kv_dirtab_tag(h));
	w->left = t->groups - 1;
}

/* NULL at the end. The entry may be deleted, but nothing else. */
static inline struct kv_dirtab_entry *
kv_dirtab_step(struct kv_dirtab_walk *w)
{
	const struct kv_dirtab *t = w->t;
	struct kv_dirtab_entry *e;

	for (;;) {
		while (w->found) {
			e = kv_dirtab_at(t, w->group,
					 kv_dirtab_first(w->found));
			w->found &= w->found - 1;
			if (kv_key_hash_is_equal(e->hash, w->hash))
				return e;
		}
		if (!kv_dirtab_passed(t->words[w->group]) || !w->left--)
			return NULL;
		w->group = kv_dirtab_next(t, w->group);
		w->found = kv_dirtab_match(t->words[w->group],
					   kv_dirtab_tag(w->hash));
	}
}

#endif
