#ifndef KV_WIRE_PROTOXFER_H
#define KV_WIRE_PROTOXFER_H

/* Bodies of what engines say to each other: regions, transfers, notes. */

#include "base/le.h"

struct kv_regions {
	struct kv_le64 zero;
};

struct kv_regions_r {
	uint8_t status;
	uint8_t ports; /* RDMA ports of its process, at most KV_RAILS_MAX */
	uint8_t zero[2];
	struct kv_le32 count;
	struct kv_le64 epoch;      /* rises with each region that goes */
	struct kv_le64 token_addr; /* where the token lies, for attach; on a
				    * Unix socket only, else 0 */
	struct kv_le64 token[2];   /* random */
	/* tail: records, the region registered first comes first; then, of
	 * each that has KV_REGION_KEYS, in their order, a le32 a port: the key
	 * by which NICs read and write it at that port */
};

enum {
	KV_REGION_SHARED = 1, /* MEMORY gives a descriptor of it */
	KV_REGION_KEYS = 2,
};

struct kv_region_rec {
	struct kv_le64 addr; /* names the region to callers; never followed
			      * by the other side but through attach and
			      * RDMA */
	struct kv_le64 len;
	struct kv_le64 handle; /* what transfers name; never 0, never used
				* again */
	struct kv_le32 flags;
	struct kv_le32 zero;
};

struct kv_memory {
	struct kv_le64 handle; /* of a region; 0: the fence of this peer */
};

struct kv_memory_r {
	uint8_t status;
	uint8_t zero[7];
	struct kv_le64 bytes; /* of what the descriptor refers to */
};

#define KV_XFER_PIECES_MAX 1024 /* of one XFER */

enum kv_xfer_op {
	KV_XFER_WRITE = 1,
	KV_XFER_READ = 2,
};

struct kv_xfer {
	uint8_t op;
	uint8_t zero[3];
	struct kv_le32 count; /* at most KV_XFER_PIECES_MAX */
	/* tail: pieces. WRITE: payload, their bytes in order */
};

struct kv_xfer_piece {
	struct kv_le64 handle;
	struct kv_le64 off; /* in the region */
	struct kv_le64 len;
};

struct kv_xfer_r {
	uint8_t status;
	uint8_t zero[7];
	/* READ: payload, the bytes in order */
};

struct kv_note {
	struct kv_le16 name_len;
	struct kv_le16 zero;
	struct kv_le32 text_len;
	/* tail: name, text */
};

struct kv_note_r {
	uint8_t status;
	uint8_t zero[7];
};

KV_LE_SIZE(kv_regions_r, 40);
KV_LE_SIZE(kv_region_rec, 32);
KV_LE_SIZE(kv_memory_r, 16);
KV_LE_SIZE(kv_xfer_piece, 24);

#endif
