#ifndef KV_TEST_LEDGERRIG_H
#define KV_TEST_LEDGERRIG_H

/*
 * A pool that outlives its nodes, in memory: its index file, and one life after
 * the other of a ledger, an index and a slab on it.
 */

#include <stdbool.h>
#include <stdint.h>

#include "mem/slab.h"
#include "store/adopt.h"
#include "store/index.h"
#include "store/ledger.h"
#include "store/quarantine.h"

enum {
	LEDGERRIG_POOL = 1 << 20,
	LEDGERRIG_FILE_MAX = 8 << 20,
};

struct ledgerrig {
	uint8_t *file;
	uint64_t file_bytes; /* as far as it was grown */
	uint64_t file_max;   /* it does not grow beyond */
	struct kv_poolhead head;
	uint64_t pool_bytes; /* of the next life */
	uint64_t data_end;   /* where the file with the bytes ends */
	uint64_t hole_off;   /* and what is missing in it */
	uint64_t hole_len;
	uint64_t attached; /* bit n: somebody of life n is there */
	unsigned asked;    /* how often that was looked at */

	/* A life: */
	struct kv_ledger *ledger;
	struct kv_slab *slab;
	struct kv_index *ix;
	struct kv_quarantine q;
	struct kv_adopt_report report;
	uint64_t now;
};

/* A new file. */
void ledgerrig_open(struct ledgerrig *r);
void ledgerrig_close(struct ledgerrig *r);

/* The next life: adopts what is there. 0 or -errno; all pages are there then
 * unless is_late. */
int ledgerrig_begin(struct ledgerrig *r, bool is_late);
/* It ends as by a kill: nothing is changed any more. */
void ledgerrig_end(struct ledgerrig *r);
/* Both. */
void ledgerrig_again(struct ledgerrig *r);

/* What a put does, until it is shown, of the tenant "default". */
struct kv_object *ledgerrig_put_hidden(struct ledgerrig *r, const char *key,
				       uint64_t size);
struct kv_object *ledgerrig_put(struct ledgerrig *r, const char *key,
				uint64_t size);
struct kv_object *ledgerrig_find(struct ledgerrig *r, const char *key);
/* Gives every object that has none the sum 7. */
void ledgerrig_sum(struct ledgerrig *r);
/* Reserves space and a record for it without an object; the slot. */
uint32_t ledgerrig_reserve(struct ledgerrig *r, const char *key, uint64_t size,
			   struct kv_extent *ext);
uint64_t ledgerrig_free(const struct ledgerrig *r);

#endif
