#include "store/dirtab.h"

#include <errno.h>
#include <sys/mman.h>

#include "base/fault.h"
#include "base/num.h"

enum {
	PASSED_MAX = 255, /* stays, since how many more is not known */
};

#define PASSED_ONE  ((uint64_t)1 << KV_DIRTAB_PASSED_SHIFT)
#define HUGE_BYTES  ((size_t)2 << 20)
#define WORD_BYTES  sizeof(uint64_t)
#define GROUP_BYTES (KV_DIRTAB_PLACES * sizeof(struct kv_dirtab_entry))

uint64_t
kv_dirtab_bytes(const struct kv_dirtab *t)
{
	return t->groups * (GROUP_BYTES + WORD_BYTES) - t->released;
}

/*
 * Zero pages, so that a new table costs nothing; huge ones where they pay. The
 * words come first: the end of a mapping seldom is a whole huge page.
 */
int
kv_dirtab_init(struct kv_dirtab *t, size_t groups)
{
	size_t bytes = groups * (WORD_BYTES + GROUP_BYTES);
	size_t slack = bytes < HUGE_BYTES ? 0 : HUGE_BYTES;
	void *map = MAP_FAILED;

	if (!KV_FAULT_POINT())
		map = mmap(NULL, bytes + slack, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (map == MAP_FAILED)
		return -ENOMEM;
	if (slack)
		madvise(map, bytes + slack, MADV_HUGEPAGE);
	*t = (struct kv_dirtab){
		.map = map,
		.map_bytes = bytes + slack,
		.groups = groups,
		.shift = 64 - (unsigned)__builtin_ctzl(groups),
	};
	slack = slack ? -(uintptr_t)map % HUGE_BYTES : 0;
	t->words = (void *)((char *)map + slack);
	t->entries = (void *)(t->words + groups);
	return 0;
}

void
kv_dirtab_fini(struct kv_dirtab *t)
{
	if (t->groups)
		munmap(t->map, t->map_bytes);
	*t = (struct kv_dirtab){ 0 };
}

size_t
kv_dirtab_reach(const struct kv_dirtab *t, size_t home)
{
	size_t bytes = t->groups * (WORD_BYTES + GROUP_BYTES);

	return bytes < HUGE_BYTES
		       ? 0
		       : t->groups * WORD_BYTES +
				 kv_min_size(home + 1, t->groups) * GROUP_BYTES;
}

static void
passed_add(uint64_t *word)
{
	if (kv_dirtab_passed(*word) < PASSED_MAX)
		*word += PASSED_ONE;
}

static void
passed_del(uint64_t *word)
{
	if (kv_dirtab_passed(*word) < PASSED_MAX)
		*word -= PASSED_ONE;
}

struct kv_dirtab_entry *
kv_dirtab_add(struct kv_dirtab *t, struct kv_hash h)
{
	size_t g = kv_dirtab_home(t, h);
	uint64_t unused;
	unsigned i;

	while (!(unused = kv_dirtab_match(t->words[g], 0))) {
		passed_add(&t->words[g]);
		g = kv_dirtab_next(t, g);
	}
	i = kv_dirtab_first(unused);
	t->words[g] |= kv_dirtab_tag(h) << 8 * i;
	return kv_dirtab_at(t, g, i);
}

void
kv_dirtab_del(struct kv_dirtab *t, const struct kv_dirtab_entry *e)
{
	size_t at = (size_t)(e - t->entries);
	size_t end = at / KV_DIRTAB_PLACES, g = kv_dirtab_home(t, e->hash);

	t->words[end] &= ~((uint64_t)0xff << 8 * (at % KV_DIRTAB_PLACES));
	for (; g != end; g = kv_dirtab_next(t, g))
		passed_del(&t->words[g]);
}

void
kv_dirtab_move(struct kv_dirtab *from, struct kv_dirtab *to, size_t home)
{
	size_t g = home, left = from->groups;
	struct kv_dirtab_entry *e;
	uint64_t used;

	do {
		used = kv_dirtab_used(from->words[g]);
		for (; used; used &= used - 1) {
			e = kv_dirtab_at(from, g, kv_dirtab_first(used));
			if (kv_dirtab_home(from, e->hash) != home)
				continue;
			*kv_dirtab_add(to, e->hash) = *e;
			kv_dirtab_del(from, e);
		}
		if (!kv_dirtab_passed(from->words[g]))
			break;
		g = kv_dirtab_next(from, g);
	} while (--left);
}

/*
 * Only entries of the last homes, that went round the end of the table, can
 * still lie there; then it waits. Whole huge pages: they are not split.
 */
void
kv_dirtab_release(struct kv_dirtab *t, size_t home)
{
	size_t from = kv_round_up_u64((uintptr_t)t->entries, HUGE_BYTES) +
		      t->released;
	size_t to = kv_round_down_u64((uintptr_t)kv_dirtab_at(t, home, 0),
				      HUGE_BYTES);
	size_t g;

	if (to <= from)
		return;
	for (g = t->released / GROUP_BYTES; g < home; g++)
		if (kv_dirtab_used(t->words[g]))
			return;
	madvise((char *)t->entries + (from - (uintptr_t)t->entries), to - from,
		MADV_DONTNEED);
	t->released += to - from;
}
