#include "store/record.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <xxhash.h>

#include "base/le.h"
#include "base/num.h"

/* The state of a slot; 0 is none of them, so that zeroes that came from
 * elsewhere are not taken for free space. */
#define STATE_FREE     0x65657266 /* "free" in a dump */
#define STATE_RESERVED 0x76736572
#define STATE_OBJECT   0x746a626f
#define STATE_MORE     0x65726f6d

struct slot {
	struct kv_le32 state;
	struct kv_le32 held_from;
	struct kv_le32 held_to;
	struct kv_le32 held_check;
	struct kv_le64 value_sum;
	struct kv_le64 sum; /* of what follows */
	struct kv_le64 hash_lo;
	struct kv_le64 hash_hi;
	struct kv_le64 size;
	struct kv_le64 id_random;
	struct kv_le32 epoch;
	struct kv_le32 zero32;
	struct kv_le32 id_version;
	struct kv_le32 next; /* 0: none */
	struct kv_le16 key_len;
	struct kv_le16 n_ext;
	uint8_t tenant_len;
	uint8_t flags;
	uint8_t zero[2];
	uint8_t data[168]; /* pieces as two le64, tenant, key */
};

struct more {
	struct kv_le32 state;
	struct kv_le32 zero;
	struct kv_le64 sum;   /* of what follows */
	struct kv_le32 owner; /* the record's first slot */
	struct kv_le32 next;
	struct kv_le32 place; /* in the chain, from 1 */
	struct kv_le32 zero2;
	uint8_t data[224];
};

KV_LE_SIZE(slot, KV_RECORD_BYTES);
KV_LE_SIZE(more, KV_RECORD_BYTES);

#define EXT_BYTES (2 * sizeof(struct kv_le64)) /* a piece in the data */

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

static void
store64(struct kv_le64 *to, uint64_t v)
{
	__atomic_store_n((uint64_t *)(void *)to, htole64(v), __ATOMIC_RELEASE);
}

/* ---- slots ---- */

static struct slot *
slot_at(void *file, uint32_t slot)
{
	return (struct slot *)(void *)((uint8_t *)file +
				       (uint64_t)slot * KV_RECORD_BYTES);
}

static const struct slot *
slot_peek(const void *file, uint32_t slot)
{
	return (const struct slot *)(const void *)((const uint8_t *)file +
						   (uint64_t)slot *
							   KV_RECORD_BYTES);
}

static struct more *
more_at(void *file, uint32_t slot)
{
	return (struct more *)(void *)slot_at(file, slot);
}

static const struct more *
more_peek(const void *file, uint32_t slot)
{
	return (const struct more *)(const void *)slot_peek(file, slot);
}

uint64_t
kv_record_seed(struct kv_id pool)
{
	return XXH3_64bits(pool.b, sizeof(pool.b));
}

static const uint32_t states[] = {
	[KV_RECORD_BROKEN] = 0,
	[KV_RECORD_FREE] = STATE_FREE,
	[KV_RECORD_RESERVED] = STATE_RESERVED,
	[KV_RECORD_OBJECT] = STATE_OBJECT,
	[KV_RECORD_MORE] = STATE_MORE,
};

enum kv_record_state
kv_record_state(const void *file, uint32_t slot)
{
	uint32_t v = kv_get32(slot_peek(file, slot)->state);
	unsigned i;

	for (i = KV_RECORD_FREE; i < KV_ARRAY_LEN(states); i++)
		if (states[i] == v)
			return i;
	return KV_RECORD_BROKEN;
}

void
kv_record_set_state(void *file, uint32_t slot, enum kv_record_state s)
{
	store32(&slot_at(file, slot)->state, states[s]);
}

/* So that half of a change, or damage, is no hold but a sign of one. */
static uint32_t
hold_check(struct kv_record_hold h)
{
	return (h.from * 2654435761u ^ h.to * 2246822519u) + 0x9e3779b9u;
}

void
kv_record_set_hold(void *file, uint32_t slot, struct kv_record_hold h)
{
	struct slot *s = slot_at(file, slot);

	store32(&s->held_check, 0);
	store32(&s->held_from, h.from);
	store32(&s->held_to, h.to);
	store32(&s->held_check, hold_check(h));
}

struct kv_record_hold
kv_record_hold(const void *file, uint32_t slot)
{
	const struct slot *s = slot_peek(file, slot);
	struct kv_record_hold h = {
		.from = kv_get32(s->held_from),
		.to = kv_get32(s->held_to),
	};

	if (kv_get32(s->held_check) != hold_check(h) || h.from > h.to ||
	    h.to > KV_POOLHEAD_LIVES_MAX || (h.to && !h.from))
		h = (struct kv_record_hold){ 1, KV_POOLHEAD_LIVES_MAX };
	return h;
}

void
kv_record_set_value_sum(void *file, uint32_t slot, uint64_t sum)
{
	store64(&slot_at(file, slot)->value_sum, sum);
}

uint64_t
kv_record_value_sum(const void *file, uint32_t slot)
{
	return kv_get64(slot_peek(file, slot)->value_sum);
}

struct kv_hash
kv_record_hash(const void *file, uint32_t slot)
{
	const struct slot *s = slot_peek(file, slot);

	return (struct kv_hash){
		.lo = kv_get64(s->hash_lo),
		.hi = kv_get64(s->hash_hi),
	};
}

uint32_t
kv_record_next(const void *file, uint32_t slot)
{
	if (kv_record_state(file, slot) == KV_RECORD_MORE)
		return kv_get32(more_peek(file, slot)->next);
	return kv_get32(slot_peek(file, slot)->next);
}

static uint64_t
slot_seed(uint64_t seed, uint32_t slot)
{
	return seed + slot * UINT64_C(0x9e3779b97f4a7c15);
}

/* ---- writing ---- */

static size_t
data_bytes(const struct kv_record *r)
{
	return r->n_ext * EXT_BYTES + r->tenant_len + r->key_len;
}

static unsigned
slots_for(size_t data)
{
	const size_t first = sizeof(((struct slot *)0)->data);
	const size_t each = sizeof(((struct more *)0)->data);

	return 1 + (data > first ? (unsigned)((data - first + each - 1) / each)
				 : 0);
}

unsigned
kv_record_slots(const struct kv_record *r)
{
	return slots_for(data_bytes(r));
}

/* The data of a record, as it goes slot by slot. */
struct writer {
	void *file;
	const uint32_t *slots;
	unsigned i; /* of the slot that is being filled */
	uint8_t *p;
	size_t room;
};

static void
write_bytes(struct writer *w, const void *from, size_t n)
{
	const uint8_t *p = from;
	size_t part;

	for (; n; n -= part, p += part) {
		if (!w->room) {
			struct more *m = more_at(w->file, w->slots[++w->i]);

			w->p = m->data;
			w->room = sizeof(m->data);
		}
		part = kv_min_size(n, w->room);
		memcpy(w->p, p, part);
		w->p += part;
		w->room -= part;
	}
}

static void
chain_begin(void *file, const uint32_t *slots, unsigned n)
{
	unsigned i;

	for (i = 1; i < n; i++) {
		struct more *m = more_at(file, slots[i]);

		memset(&m->zero, 0, sizeof(*m) - sizeof(m->state));
		m->owner = kv_le32(slots[0]);
		m->next = kv_le32(i + 1 < n ? slots[i + 1] : 0);
		m->place = kv_le32(i);
	}
}

static void
chain_end(void *file, const uint32_t *slots, unsigned n, uint64_t seed)
{
	unsigned i;

	for (i = 1; i < n; i++) {
		struct more *m = more_at(file, slots[i]);

		m->sum = kv_le64(SUM_AFTER(m, slot_seed(seed, slots[i])));
		kv_record_set_state(file, slots[i], KV_RECORD_MORE);
	}
}

void
kv_record_build(void *file, const uint32_t *slots, uint64_t seed,
		const struct kv_record *r)
{
	struct slot *s = slot_at(file, slots[0]);
	unsigned i, n = kv_record_slots(r);
	struct writer w = { file, slots, 0, s->data, sizeof(s->data) };

	chain_begin(file, slots, n);
	memset(&s->held_from, 0, sizeof(*s) - sizeof(s->state));
	s->held_check = kv_le32(hold_check((struct kv_record_hold){ 0 }));
	s->hash_lo = kv_le64(r->hash.lo);
	s->hash_hi = kv_le64(r->hash.hi);
	s->size = kv_le64(r->size);
	s->id_random = kv_le64(r->id_random);
	s->id_version = kv_le32(r->id_version);
	s->epoch = kv_le32(r->epoch);
	s->next = kv_le32(n > 1 ? slots[1] : 0);
	s->key_len = kv_le16(r->key_len);
	s->n_ext = kv_le16(r->n_ext);
	s->tenant_len = r->tenant_len;
	s->flags = r->flags;
	for (i = 0; i < r->n_ext; i++) {
		const struct kv_le64 ext[2] = { kv_le64(r->ext[i].off),
						kv_le64(r->ext[i].len) };

		write_bytes(&w, ext, sizeof(ext));
	}
	write_bytes(&w, r->tenant, r->tenant_len);
	write_bytes(&w, r->key, r->key_len);
	s->sum = kv_le64(SUM_AFTER(s, slot_seed(seed, slots[0])));
	chain_end(file, slots, n, seed);
}

/* ---- reading ---- */

/* The chain's data, in one piece, and its slots. */
static int
data_read(const void *file, uint32_t slots_end, uint64_t seed,
	  struct kv_record_copy *out, size_t left)
{
	const struct slot *s = slot_peek(file, out->slots[0]);
	size_t n = kv_min_size(left, sizeof(s->data));
	uint32_t next = kv_get32(s->next);
	uint8_t *to = out->data;

	memcpy(to, s->data, n);
	for (to += n, left -= n; left; to += n, left -= n) {
		const struct more *m;

		if (next < KV_RECORD_SLOT_MIN || next >= slots_end)
			return -EBADMSG;
		m = more_peek(file, next);
		if (kv_record_state(file, next) != KV_RECORD_MORE ||
		    kv_get32(m->owner) != out->slots[0] ||
		    kv_get32(m->place) != out->n_slots ||
		    kv_get64(m->sum) != SUM_AFTER(m, slot_seed(seed, next)))
			return -EBADMSG;
		out->slots[out->n_slots++] = next;
		n = kv_min_size(left, sizeof(m->data));
		memcpy(to, m->data, n);
		next = kv_get32(m->next);
	}
	return next ? -EBADMSG : 0;
}

/* Pieces are whole granules, together as many as the value takes. */
static int
extents_read(struct kv_record_copy *out)
{
	uint64_t sum = 0, want, end;
	unsigned i;

	if (out->r.size > KV_OBJECT_BYTES_MAX)
		return -EBADMSG;
	want = kv_round_up_u64(out->r.size, KV_GRANULE_BYTES);
	for (i = 0; i < out->r.n_ext; i++) {
		struct kv_extent *e = &out->ext[i];
		struct kv_le64 le[2];

		memcpy(le, out->data + i * sizeof(le), sizeof(le));
		e->off = kv_get64(le[0]);
		e->len = kv_get64(le[1]);
		if (e->len == 0 || e->len > want ||
		    (e->len | e->off) % KV_GRANULE_BYTES ||
		    kv_add_u64(e->off, e->len, &end) || end > INT64_MAX)
			return -EBADMSG;
		sum += e->len;
	}
	return sum == want ? 0 : -EBADMSG;
}

static void
fixed_read(const struct slot *s, struct kv_record *r)
{
	r->hash.lo = kv_get64(s->hash_lo);
	r->hash.hi = kv_get64(s->hash_hi);
	r->size = kv_get64(s->size);
	r->id_random = kv_get64(s->id_random);
	r->id_version = kv_get32(s->id_version);
	r->epoch = kv_get32(s->epoch);
	r->flags = s->flags;
	r->tenant_len = s->tenant_len;
	r->key_len = kv_get16(s->key_len);
	r->n_ext = kv_get16(s->n_ext);
}

int
kv_record_parse(const void *file, uint32_t slots_end, uint32_t slot,
		uint64_t seed, struct kv_record_copy *out)
{
	const struct slot *s = slot_peek(file, slot);
	struct kv_record *r = &out->r;
	int rc;

	out->state = kv_record_state(file, slot);
	if ((out->state != KV_RECORD_OBJECT &&
	     out->state != KV_RECORD_RESERVED) ||
	    kv_get64(s->sum) != SUM_AFTER(s, slot_seed(seed, slot)))
		return -EBADMSG;
	fixed_read(s, r);
	if (r->n_ext > KV_EXTENTS_MAX || r->tenant_len == 0 ||
	    r->tenant_len > KV_TENANT_BYTES_MAX ||
	    r->key_len < KV_KEY_BYTES_MIN || r->key_len > KV_KEY_BYTES_MAX ||
	    r->flags & ~(KV_RECORD_SOFT_PIN | KV_RECORD_HARD_PIN))
		return -EBADMSG;
	out->slots[0] = slot;
	out->n_slots = 1;
	rc = data_read(file, slots_end, seed, out, data_bytes(r));
	if (rc == 0)
		rc = extents_read(out);
	if (rc < 0)
		return rc;
	r->ext = out->ext;
	r->tenant = out->data + r->n_ext * EXT_BYTES;
	r->key = (const uint8_t *)r->tenant + r->tenant_len;
	if (!kv_key_hash_is_equal(
		    r->hash, kv_key_hash(kv_key_seed(r->tenant, r->tenant_len),
					 r->key, r->key_len)))
		return -EBADMSG;
	out->hold = kv_record_hold(file, slot);
	out->value_sum = kv_get64(s->value_sum);
	return 0;
}
