#ifndef KV_XFER_RAILBATCHCORE_H
#define KV_XFER_RAILBATCHCORE_H

/* The inside of a batch: railbatch.c has what it consists of, railbatch_pack.c
 * what of it goes through the ring. */

#include "xfer/railbatch.h"

/* The piece at the cursor, in memory that NICs know: it should be packed. */
bool kv_railbatch_pack_is_wanted(struct kv_railbatch *b,
				 const struct kv_regtable *table,
				 const struct kv_slice_cursor *c,
				 const struct kv_slice_piece *p);
/* Bytes that can be packed now: of at most `left`, that begin with `first`. */
uint64_t kv_railbatch_pack_room(struct kv_railbatch *b, const char *first,
				uint64_t left);
/* Could be if there were any more, in this batch or another one. */
bool kv_railbatch_pack_is_of_use(struct kv_railbatch *b);
/* So much of a piece is packed, which has room. */
void kv_railbatch_pack_add(struct kv_railbatch *b, char *local, uint64_t len);
/* No more comes. */
void kv_railbatch_pack_end(struct kv_railbatch *b);

#endif
