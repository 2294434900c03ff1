#ifndef KV_STORE_DIR_H
#define KV_STORE_DIR_H

/*
 * The directory: key hash -> version and owners. Owners are slot numbers that
 * the master gives to node sessions. No I/O, no clock, one thread.
 *
 * Open addressing, grown in small steps so that no call takes long; a dead
 * slot's entries are invisible at once and swept in slices. At most 150 bytes
 * a key and replica, whatever the fill.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/limits.h"
#include "store/key.h"

struct kv_dir;

struct kv_dir_id {
	uint64_t random;
	uint32_t version;
};

/* What is known of a key, as far as its owners live. */
struct kv_dir_view {
	struct kv_dir_id id;
	unsigned n; /* live owners; 0: a miss */
	uint16_t slots[KV_REPLICAS_MAX];
};

/* slots: numbers are below it (at most KV_NODES_MAX). NULL: no memory. */
struct kv_dir *kv_dir_new(unsigned slots);
void kv_dir_free(struct kv_dir *d);

/* A slot starts (or starts again, once swept) to count as live. */
void kv_dir_slot_open(struct kv_dir *d, unsigned slot);
/* Its entries vanish now; the slot is free again when kv_dir_slot_is_swept. */
void kv_dir_slot_close(struct kv_dir *d, unsigned slot);
bool kv_dir_slot_is_swept(const struct kv_dir *d, unsigned slot);
/* Sweeps about `steps` table places; true while there is more to do. Also
 * finishes a growth under way. */
bool kv_dir_sweep(struct kv_dir *d, unsigned steps);
/* Hidden: owners of a slot are not shown by find (a suspect node). */
void kv_dir_slot_hide(struct kv_dir *d, unsigned slot, bool hide);

/*
 * The slot's node says that it has the key with this id.
 * 1: it is (now) an owner, of the only or the same id.
 * 0: another id is there with live owners: *view says which; nothing changed.
 * -ENOSPC: KV_REPLICAS_MAX owners already: *view says which; nothing changed.
 * -ENOMEM.
 * Owners of dead slots do not count. Hidden ones do.
 */
int kv_dir_add(struct kv_dir *d, struct kv_hash h, struct kv_dir_id id,
	       unsigned slot, struct kv_dir_view *view);
/* Not an owner any more; false: it was none with this id. */
bool kv_dir_del(struct kv_dir *d, struct kv_hash h, struct kv_dir_id id,
		unsigned slot);
/* All owners of another id go (their copies were told to): the key is free for
 * a new id. Used when a higher version wins. */
void kv_dir_clear(struct kv_dir *d, struct kv_hash h);

/* False: a miss. view may be NULL (existence). Live, not hidden owners. */
bool kv_dir_find(const struct kv_dir *d, struct kv_hash h,
		 struct kv_dir_view *view);
/* Answers n keys with memory latency hidden: out[i] = 1 or 0. */
size_t kv_dir_exist(const struct kv_dir *d, const struct kv_hash *h, size_t n,
		    uint8_t *out);
/* For many keys, so that they wait for memory together: asks for what says
 * where the key is, and, when that has come, for where it is, or will be. */
void kv_dir_prefetch_word(const struct kv_dir *d, struct kv_hash h);
void kv_dir_prefetch(const struct kv_dir *d, struct kv_hash h);

uint64_t kv_dir_keys(const struct kv_dir *d); /* about, while sweeping */
uint64_t kv_dir_slot_keys(const struct kv_dir *d, unsigned slot);
uint64_t kv_dir_bytes(const struct kv_dir *d); /* memory held */

#endif
