#include "store/tenants.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "base/limits.h"
#include "base/list.h"
#include "store/key.h"

enum {
	TENANTS_MAX = 65535,
};

struct kv_tenants_one {
	struct kv_htab_node node;
	uint32_t epoch;
	uint16_t number;
	uint8_t len;
	char name[KV_TENANT_BYTES_MAX + 1];
};

int
kv_tenants_init(struct kv_tenants *t)
{
	int rc;

	kv_htab_init(&t->names);
	t->list = NULL;
	t->count = 0;
	rc = kv_tenants_add(t, NULL, 0);
	return rc < 0 ? rc : 0;
}

void
kv_tenants_fini(struct kv_tenants *t)
{
	unsigned i;

	for (i = 0; i < t->count; i++)
		free(t->list[i]);
	free(t->list);
	kv_htab_fini(&t->names);
}

static void
name_default(const void **name, size_t *len)
{
	if (*len)
		return;
	*name = "default";
	*len = strlen(*name);
}

int
kv_tenants_find(const struct kv_tenants *t, const void *name, size_t len)
{
	const struct kv_tenants_one *one;
	struct kv_htab_node *n;
	uint64_t hash;

	name_default(&name, &len);
	hash = kv_key_seed(name, len);
	n = kv_htab_first(&t->names, hash);
	for (; n; n = kv_htab_next(&t->names, n)) {
		one = KV_CONTAINER_OF(n, struct kv_tenants_one, node);
		if (one->len == len && memcmp(one->name, name, len) == 0)
			return one->number;
	}
	return -ENOENT;
}

/* Room for one more; the array doubles. */
static int
list_grow(struct kv_tenants *t)
{
	unsigned n = t->count;
	void *grown;

	if (n >= TENANTS_MAX)
		return -ENOSPC;
	if (n & (n - 1))
		return 0;
	grown = KV_FAULT_POINT() ? NULL
				 : realloc(t->list, (n ? n * 2UL : 1) *
							    sizeof(t->list[0]));
	if (!grown)
		return -ENOMEM;
	t->list = grown;
	return 0;
}

int
kv_tenants_add(struct kv_tenants *t, const void *name, size_t len)
{
	int rc = kv_tenants_find(t, name, len);
	struct kv_tenants_one *one;

	if (rc >= 0)
		return rc;
	name_default(&name, &len);
	assert(len <= KV_TENANT_BYTES_MAX);
	rc = list_grow(t);
	if (rc < 0)
		return rc;
	one = KV_FAULT_POINT() ? NULL : calloc(1, sizeof(*one));
	if (!one)
		return -ENOMEM;
	rc = kv_htab_add(&t->names, &one->node, kv_key_seed(name, len));
	if (rc < 0) {
		free(one);
		return rc;
	}
	memcpy(one->name, name, len);
	one->len = (uint8_t)len;
	one->number = (uint16_t)t->count;
	t->list[t->count++] = one;
	return one->number;
}

const char *
kv_tenants_name(const struct kv_tenants *t, unsigned number, size_t *len)
{
	assert(number < t->count);
	*len = t->list[number]->len;
	return t->list[number]->name;
}

uint32_t
kv_tenants_epoch(const struct kv_tenants *t, unsigned number)
{
	assert(number < t->count);
	return t->list[number]->epoch;
}

void
kv_tenants_outdate(struct kv_tenants *t, unsigned number)
{
	assert(number < t->count);
	t->list[number]->epoch++;
}

void
kv_tenants_resume(struct kv_tenants *t, unsigned number, uint32_t epoch)
{
	assert(number < t->count);
	t->list[number]->epoch = epoch;
}
