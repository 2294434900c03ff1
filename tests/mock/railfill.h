#ifndef KV_MOCK_RAILFILL_H
#define KV_MOCK_RAILFILL_H

/*
 * Batches of what NICs move (xfer/railbatch.h), by a process of fake devices,
 * of memory of a peer that is a table alone.
 */

#include "kvpool.h"
#include "xfer/railbatch.h"
#include "xfer/region.h"
#include "xfer/regtable.h"

enum {
	RAILFILL_FAR = 1 << 20, /* address of the peer's first region */
	RAILFILL_FAR_BYTES = 1 << 30,
	RAILFILL_BIG = (int)KV_RAILBATCH_REGISTER_BYTES,
	RAILFILL_BYTES = 4 << 20, /* of railfill_local */
};

extern char *railfill_local; /* pages of its own */
extern struct kv_region_set railfill_set;
/* Three regions of the peer: with keys, mapped, and without keys. */
extern struct kv_regtable *railfill_table;
extern struct kv_railbatch *railfill_batch; /* of a WRITE */
extern unsigned railfill_registered;        /* with devices */
/* The devices: any memory; a ring. */
extern bool railfill_refuses, railfill_no_ring;

int railfill_set_up(void **state);
int railfill_tear_down(void **state); /* all was given back */

void railfill_add_region(size_t at, size_t len);
struct kv_xfer_item railfill_item(size_t at, uint64_t far, size_t len);
struct kv_slice_cursor railfill_cursor(const struct kv_xfer_item *items,
				       size_t n);
/* Fills it; so many bytes are for NICs, or so many for TCP. */
void railfill_expect(struct kv_slice_cursor *c, uint64_t bytes, uint64_t other);

#endif
