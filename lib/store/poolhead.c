#include "store/poolhead.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <xxhash.h>

#include "base/le.h"
#include "base/num.h"
#include "store/tenants.h"

#define COPY_OFF    ((size_t)4096)
#define TENANTS_OFF 8192

static const uint8_t magic[8] = { 'k', 'v', 'p', 'o', 'o', 'l', 26, '\n' };

struct head {
	uint8_t magic[8];
	struct kv_le32 format;
	struct kv_le32 zero;
	struct kv_le64 sum; /* of what follows */
	struct kv_le64 writes;
	struct kv_id pool;
	struct kv_id kernel;
	struct kv_le64 dev;
	struct kv_le64 ino;
	struct kv_le64 pool_bytes;
	struct kv_le32 life;
	struct kv_le32 slots_end;
	struct kv_le32 pid;
	struct kv_le32 zero2;
};

/* States of an entry. 0 is none, so that zeroes that came from elsewhere are
 * not taken for a tenant that was never cleared. */
#define STATE_FREE 0x65657266 /* "free" in a dump */
#define STATE_SET  0x746e6574

struct tenant {
	struct kv_le32 state;
	uint8_t len;
	uint8_t zero[3];
	struct kv_le64 sum; /* of the length and what follows */
	struct kv_le64 number;
	struct kv_le64 random;
	uint8_t name[KV_TENANT_BYTES_MAX];
	struct kv_le32 epoch;
	uint8_t pad[28];
};

KV_LE_SIZE(head, 104);
KV_LE_SIZE(tenant, 128);
_Static_assert(sizeof(struct head) <= COPY_OFF, "two of them");
_Static_assert(TENANTS_OFF == 2 * COPY_OFF, "they follow");
_Static_assert(TENANTS_OFF + KV_POOLHEAD_TENANTS_MAX * sizeof(struct tenant) <=
		       KV_POOLHEAD_BYTES,
	       "the slots follow");

/* The sum of what lies behind the field `sum` of a struct. */
#define SUM_AFTER(p, seed)                                                \
	XXH3_64bits_withSeed(&(p)->sum + 1,                               \
			     sizeof(*(p)) - offsetof(typeof(*(p)), sum) - \
				     sizeof((p)->sum),                    \
			     (seed))

/* One store, after all that came before it in the program. */
static void
store32(struct kv_le32 *to, uint32_t v)
{
	__atomic_store_n((uint32_t *)(void *)to, htole32(v), __ATOMIC_RELEASE);
}

/* ---- the head ---- */

static const struct head *
head_at(const void *file, unsigned i)
{
	return (const void *)((const uint8_t *)file + i * COPY_OFF);
}

static bool
is_zero(const uint8_t *p, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++)
		if (p[i])
			return false;
	return true;
}

static bool
head_is_whole(const struct head *h)
{
	return memcmp(h->magic, magic, sizeof(magic)) == 0 &&
	       kv_get32(h->format) == KV_POOLHEAD_FORMAT &&
	       kv_get64(h->sum) == SUM_AFTER(h, KV_POOLHEAD_FORMAT);
}

static void
head_read(const struct head *h, struct kv_poolhead *out)
{
	out->pool = h->pool;
	out->kernel = h->kernel;
	out->dev = kv_get64(h->dev);
	out->ino = kv_get64(h->ino);
	out->pool_bytes = kv_get64(h->pool_bytes);
	out->writes = kv_get64(h->writes);
	out->life = kv_get32(h->life);
	out->slots_end = kv_get32(h->slots_end);
	out->pid = kv_get32(h->pid);
}

int
kv_poolhead_parse(const void *file, size_t len, struct kv_poolhead *out,
		  uint32_t *format)
{
	const struct head *h, *best = NULL;
	unsigned i;

	if (is_zero(file, kv_min_size(len, KV_POOLHEAD_BYTES)))
		return -ENOENT;
	for (i = 0; i < 2; i++) {
		h = head_at(file, i);
		if (len < i * COPY_OFF + sizeof(*h))
			break;
		if (memcmp(h->magic, magic, sizeof(magic)) == 0 &&
		    kv_get32(h->format) > KV_POOLHEAD_FORMAT) {
			*format = kv_get32(h->format);
			return -EPROTONOSUPPORT;
		}
		if (head_is_whole(h) &&
		    (!best || kv_get64(h->writes) > kv_get64(best->writes)))
			best = h;
	}
	if (!best || kv_get32(best->life) > KV_POOLHEAD_LIVES_MAX)
		return -EBADMSG;
	head_read(best, out);
	return 0;
}

void
kv_poolhead_build(void *file, struct kv_poolhead *h)
{
	struct head new = {
		.format = kv_le32(KV_POOLHEAD_FORMAT),
		.writes = kv_le64(++h->writes),
		.pool = h->pool,
		.kernel = h->kernel,
		.dev = kv_le64(h->dev),
		.ino = kv_le64(h->ino),
		.pool_bytes = kv_le64(h->pool_bytes),
		.life = kv_le32(h->life),
		.slots_end = kv_le32(h->slots_end),
		.pid = kv_le32(h->pid),
	};
	unsigned i;

	memcpy(new.magic, magic, sizeof(magic));
	new.sum = kv_le64(SUM_AFTER(&new, KV_POOLHEAD_FORMAT));
	for (i = 0; i < 2; i++) {
		memcpy((uint8_t *)file + i * COPY_OFF, &new, sizeof(new));
		/* The second is not begun before the first is whole. */
		__atomic_signal_fence(__ATOMIC_SEQ_CST);
	}
}

/* ---- generations of tenants ---- */

static struct tenant *
tenant_at(void *file, unsigned i)
{
	return (struct tenant *)(void *)((uint8_t *)file + TENANTS_OFF) + i;
}

void
kv_poolhead_init(void *file)
{
	unsigned i;

	memset(file, 0, KV_POOLHEAD_BYTES);
	for (i = 0; i < KV_POOLHEAD_TENANTS_MAX; i++)
		store32(&tenant_at(file, i)->state, STATE_FREE);
}

static const struct tenant *
tenant_peek(const void *file, unsigned i)
{
	return (const struct tenant *)(const void *)((const uint8_t *)file +
						     TENANTS_OFF) +
	       i;
}

static uint64_t
tenant_sum(const struct tenant *t)
{
	return SUM_AFTER(t, t->len);
}

int
kv_poolhead_tenant_get(const void *file, unsigned i,
		       struct kv_poolhead_tenant *out)
{
	const struct tenant *t = tenant_peek(file, i);
	uint32_t state = kv_get32(t->state);

	if (state == STATE_FREE)
		return 0;
	if (state != STATE_SET || t->len == 0 || t->len > sizeof(t->name) ||
	    kv_get64(t->sum) != tenant_sum(t))
		return -EBADMSG;
	out->number = kv_get64(t->number);
	out->random = kv_get64(t->random);
	out->epoch = kv_get32(t->epoch);
	out->len = t->len;
	memcpy(out->name, t->name, sizeof(out->name));
	return 1;
}

static bool
is_newer(const struct kv_poolhead_tenant *t,
	 const struct kv_poolhead_tenant *than)
{
	return t->number > than->number ||
	       (t->number == than->number &&
		kv_tenants_is_earlier(than->epoch, t->epoch));
}

/* Two of one name: the second was being written when the process ended. */
int
kv_poolhead_tenant_find(const void *file, const void *name, size_t len,
			struct kv_poolhead_tenant *out)
{
	struct kv_poolhead_tenant t;
	int rc, found = 0;
	unsigned i;

	for (i = 0; i < KV_POOLHEAD_TENANTS_MAX; i++) {
		rc = kv_poolhead_tenant_get(file, i, &t);
		if (rc < 0)
			return rc;
		if (rc == 0 || t.len != len || memcmp(t.name, name, len) != 0)
			continue;
		if (!found || is_newer(&t, out))
			*out = t;
		found = 1;
	}
	return found;
}

void
kv_poolhead_tenant_mend(void *file)
{
	struct kv_poolhead_tenant t;
	unsigned i;

	for (i = 0; i < KV_POOLHEAD_TENANTS_MAX; i++)
		if (kv_poolhead_tenant_get(file, i, &t) < 0)
			store32(&tenant_at(file, i)->state, STATE_FREE);
}

int
kv_poolhead_tenant_put(void *file, const struct kv_poolhead_tenant *t)
{
	struct tenant *to = NULL, *e;
	struct kv_poolhead_tenant old;
	unsigned i, at = 0;
	int rc;

	assert(t->len > 0 && t->len <= KV_TENANT_BYTES_MAX);
	for (i = 0; i < KV_POOLHEAD_TENANTS_MAX && !to; i++) {
		e = tenant_at(file, i);
		if (kv_get32(e->state) == STATE_FREE)
			to = e;
		at = i;
	}
	if (!to)
		return -ENOSPC;
	memset(&to->len, 0, sizeof(*to) - offsetof(struct tenant, len));
	to->len = t->len;
	to->number = kv_le64(t->number);
	to->random = kv_le64(t->random);
	to->epoch = kv_le32(t->epoch);
	memcpy(to->name, t->name, t->len);
	to->sum = kv_le64(tenant_sum(to));
	store32(&to->state, STATE_SET);
	for (i = 0; i < KV_POOLHEAD_TENANTS_MAX; i++) {
		rc = kv_poolhead_tenant_get(file, i, &old);
		if (i != at && rc > 0 && old.len == t->len &&
		    memcmp(old.name, t->name, t->len) == 0)
			store32(&tenant_at(file, i)->state, STATE_FREE);
	}
	return 0;
}
