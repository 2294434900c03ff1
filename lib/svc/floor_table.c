#include <errno.h>
#include <sys/mman.h>

#include "base/num.h"
#include "svc/floorcore.h"

/* Of so many keys the places are fetched together. */
#define GROUP 16

int
kv_floor_table_init(struct kv_floor_table *t, uint64_t keys)
{
	uint64_t places = 1024;
	void *map;

	while (places < keys + keys / 2)
		places *= 2;
	map = mmap(NULL, places * sizeof(*t->at), PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (map == MAP_FAILED)
		return -errno;
	madvise(map, places * sizeof(*t->at), MADV_HUGEPAGE);
	/* Whoever cannot do that faults it in with use. */
	madvise(map, places * sizeof(*t->at), MADV_POPULATE_WRITE);
	t->at = map;
	t->mask = places - 1;
	return 0;
}

static bool
is_free(const struct kv_hash *h)
{
	return h->lo == 0 && h->hi == 0;
}

static void
add(const struct kv_floor_table *t, struct kv_hash h)
{
	uint64_t i = h.lo & t->mask;

	while (!is_free(&t->at[i]))
		i = (i + 1) & t->mask;
	t->at[i] = h;
}

static uint8_t
find(const struct kv_floor_table *t, struct kv_hash h)
{
	uint64_t i = h.lo & t->mask;

	for (; !is_free(&t->at[i]); i = (i + 1) & t->mask)
		if (kv_key_hash_is_equal(t->at[i], h))
			return 1;
	return 0;
}

static void
prefetch(const struct kv_floor_table *t, const struct kv_hash *h, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++)
		__builtin_prefetch(&t->at[h[i].lo & t->mask]);
}

void
kv_floor_table_add(const struct kv_floor_table *t, const struct kv_hash *h,
		   size_t n)
{
	size_t i, j, m;

	for (i = 0; i < n; i += m) {
		m = kv_min_size(n - i, GROUP);
		prefetch(t, h + i, m);
		for (j = i; j < i + m; j++)
			add(t, h[j]);
	}
}

void
kv_floor_table_find(const struct kv_floor_table *t, const struct kv_hash *h,
		    size_t n, uint8_t *found)
{
	size_t i, j, m;

	for (i = 0; i < n; i += m) {
		m = kv_min_size(n - i, GROUP);
		prefetch(t, h + i, m);
		for (j = i; j < i + m; j++)
			found[j] = find(t, h[j]);
	}
}
