#ifndef KV_STORE_RECORD_H
#define KV_STORE_RECORD_H

/*
 * Records of objects in the index file of a pool that outlives its node
 * (poolhead.h has the rest of that file), as bytes. No I/O: the file is memory
 * here.
 *
 * From KV_POOLHEAD_BYTES on the file has slots of 256 bytes, to its end. A
 * slot's number is its offset / 256.
 *
 * A record is a slot, and more of them chained to it when its key is long or
 * its pieces are many. It is written whole before its state says what it is,
 * and from then on only the state, the hold and the value's sum change, each
 * by itself. So whenever the process is killed every record is what it was
 * before a change or after it. (For a machine that loses power nothing is
 * promised, and nothing needed: see struct kv_poolhead.)
 *
 * Everything but these three is under a sum; the sum knows the pool and the
 * slot, so bytes that belong elsewhere are no record.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/id.h"
#include "base/limits.h"
#include "mem/extent.h"
#include "store/key.h"
#include "store/poolhead.h"

enum {
	KV_RECORD_BYTES = 256, /* of a slot */
	KV_RECORD_SLOT_MIN = KV_POOLHEAD_BYTES / KV_RECORD_BYTES,
	/* What follows a record's fixed part, and slots that takes. */
	KV_RECORD_DATA_MAX =
		KV_EXTENTS_MAX * 16 + KV_TENANT_BYTES_MAX + KV_KEY_BYTES_MAX,
	KV_RECORD_CHAIN_MAX = 1 + (KV_RECORD_DATA_MAX + 223) / 224,
};

enum kv_record_state {
	KV_RECORD_BROKEN, /* none of the others */
	KV_RECORD_FREE,
	KV_RECORD_RESERVED, /* space that somebody may still use; no object */
	KV_RECORD_OBJECT,
	KV_RECORD_MORE, /* belongs to the record before it in a chain */
};

enum {
	KV_RECORD_SOFT_PIN = 1,
	KV_RECORD_HARD_PIN = 2,
};

struct kv_record {
	struct kv_hash hash;
	uint64_t size;
	uint64_t id_random;
	uint32_t epoch; /* of the tenant, see tenants.h */
	uint32_t id_version;
	uint8_t flags;
	uint8_t tenant_len;
	uint16_t key_len;
	uint16_t n_ext;
	const void *tenant;
	const void *key;
	const struct kv_extent *ext; /* as long together as the value takes */
};

/* Lives in which somebody attached who may still use the record's space; both
 * 0: nobody. */
struct kv_record_hold {
	uint32_t from;
	uint32_t to;
};

/* A record as it was parsed. */
struct kv_record_copy {
	struct kv_record r; /* points to what follows */
	struct kv_record_hold hold;
	uint64_t value_sum; /* 0: none */
	enum kv_record_state state;
	unsigned n_slots;
	uint32_t slots[KV_RECORD_CHAIN_MAX];
	struct kv_extent ext[KV_EXTENTS_MAX];
	uint8_t data[KV_RECORD_DATA_MAX];
};

/* The seed of the sums of a pool's records. */
uint64_t kv_record_seed(struct kv_id pool);

enum kv_record_state kv_record_state(const void *file, uint32_t slot);
/* One store. */
void kv_record_set_state(void *file, uint32_t slot, enum kv_record_state s);
void kv_record_set_hold(void *file, uint32_t slot, struct kv_record_hold h);
/* Of a record; what is no hold is one of all lives. */
struct kv_record_hold kv_record_hold(const void *file, uint32_t slot);
/* One store. */
void kv_record_set_value_sum(void *file, uint32_t slot, uint64_t sum);
uint64_t kv_record_value_sum(const void *file, uint32_t slot);
struct kv_hash kv_record_hash(const void *file, uint32_t slot);
/* The next one of a chain; 0: none. */
uint32_t kv_record_next(const void *file, uint32_t slot);

/* How many slots it needs. */
unsigned kv_record_slots(const struct kv_record *r);
/* Writes it to these slots (as many as it needs, all free), with no value's
 * sum, no hold, and the first one still free: it becomes a record by
 * kv_record_set_state(). */
void kv_record_build(void *file, const uint32_t *slots, uint64_t seed,
		     const struct kv_record *r);

/*
 * Reads the record that begins at a slot < slots_end. 0: out is whole and
 * consistent in itself; whether its pieces are inside of the pool, and its
 * alone, is for the caller to check. -EBADMSG: it is none.
 */
KV_MUST_CHECK int kv_record_parse(const void *file, uint32_t slots_end,
				  uint32_t slot, uint64_t seed,
				  struct kv_record_copy *out);

#endif
