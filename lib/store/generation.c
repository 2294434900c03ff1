#include "store/generation.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "base/num.h"
#include "store/sum.h"

struct kv_generation
kv_generation_merge(struct kv_generation a, struct kv_generation b)
{
	uint64_t both[2];

	if (a.number != b.number)
		return a.number > b.number ? a : b;
	if (a.random == b.random)
		return a;
	both[0] = kv_min_u64(a.random, b.random);
	both[1] = kv_max_u64(a.random, b.random);
	a.number += a.number < UINT64_MAX;
	a.random = kv_sum_of(both, sizeof(both));
	return a;
}

struct kv_generation
kv_generation_next(struct kv_generation known, uint64_t random)
{
	const uint64_t step = KV_GENERATION_STEP;
	uint64_t n = known.number;

	if (n < UINT64_MAX - step)
		n += step - n % step;
	else
		n += n < UINT64_MAX;
	return (struct kv_generation){ n, random };
}

void
kv_generation_fini(struct kv_generations *t)
{
	free(t->ents);
	memset(t, 0, sizeof(*t));
}

static struct kv_generations_ent *
ent_find(const struct kv_generations *t, const char *name, size_t len)
{
	unsigned i;

	for (i = 0; i < t->count; i++)
		if (t->ents[i].len == len &&
		    memcmp(t->ents[i].name, name, len) == 0)
			return &t->ents[i];
	return NULL;
}

static void
name_default(const char **name, size_t *len)
{
	if (*len)
		return;
	*name = "default";
	*len = strlen(*name);
}

struct kv_generation
kv_generation_get(const struct kv_generations *t, const char *name, size_t len)
{
	const struct kv_generations_ent *e;

	name_default(&name, &len);
	e = ent_find(t, name, len);
	return e ? e->g : (struct kv_generation){ 0 };
}

static struct kv_generations_ent *
ent_add(struct kv_generations *t, const char *name, size_t len)
{
	struct kv_generations_ent *e = t->ents;

	/* It doubles. */
	if (!(t->count & (t->count - 1)))
		e = KV_FAULT_POINT()
			    ? NULL
			    : realloc(e, (t->count ? t->count * 2UL : 1) *
						 sizeof(*e));
	if (!e)
		return NULL;
	t->ents = e;
	e += t->count++;
	memset(e, 0, sizeof(*e));
	e->len = (uint8_t)len;
	memcpy(e->name, name, len);
	return e;
}

int
kv_generation_learn(struct kv_generations *t, const char *name, size_t len,
		    struct kv_generation g)
{
	struct kv_generations_ent *e;
	struct kv_generation now;

	assert(len <= KV_TENANT_BYTES_MAX);
	if (g.number == 0)
		return 0;
	name_default(&name, &len);
	e = ent_find(t, name, len);
	if (!e && t->count == KV_GENERATIONS_MAX)
		return -ENOSPC;
	if (!e)
		e = ent_add(t, name, len);
	if (!e)
		return -ENOMEM;
	now = kv_generation_merge(e->g, g);
	if (kv_generation_is_equal(now, e->g))
		return 0;
	e->g = now;
	return 1;
}
