#ifndef KV_WIRE_PROTODATA_H
#define KV_WIRE_PROTODATA_H

/* Bodies of what a requester and a node say: attaching, puts, gets. */

#include "base/le.h"

enum {
	KV_ATTACH_WRITE = 1, /* else the descriptor is read-only */
};

struct kv_attach {
	uint8_t flags;
	uint8_t zero[7];
};

enum {
	KV_POOL_SEALED = 1, /* the descriptor's size cannot change */
	KV_POOL_HUGETLB = 2,
};

struct kv_attach_r {
	uint8_t status;
	uint8_t flags;
	uint8_t zero[6];
	struct kv_le64 pool_bytes;
	struct kv_le64 ready_bytes; /* this much of its start is faulted in */
};

/* Where the bytes of a put lie, of a get go. */
enum kv_mode {
	KV_MODE_SHM = 1,  /* requester fills, reads the pool's mapping */
	KV_MODE_DATA = 2, /* DATA frames on the data connection named */
	KV_MODE_RDMA = 3, /* the owner reads, writes the requester's memory by
			   * the queue pairs beside the data connection named
			   */
};

/*
 * KV_MODE_RDMA: memory of the requester that pieces lie in. `ports` le32 follow
 * each: the remote key for each port of the requester, 0: none for that one.
 */
struct kv_window {
	struct kv_le64 addr;
	struct kv_le64 len;
};

/* KV_MODE_RDMA: where a part of a value lies, or goes. */
struct kv_piece {
	struct kv_le64 off; /* in the window */
	struct kv_le32 len; /* > 0 */
	struct kv_le32 window;
};

/* The version of a value: every replica of one put has the same. */
struct kv_put_id {
	struct kv_le64 random;
	struct kv_le32 version; /* upsert raises it; the higher one wins */
};

struct kv_generation_le {
	struct kv_le64 number; /* 0: none */
	struct kv_le64 random;
};

enum {
	KV_PUT_SOFT_PIN = 1,
	KV_PUT_HARD_PIN = 2,
	KV_PUT_NO_EVICT = 4, /* KV_ENOROOM rather than evict something */
	KV_PUT_UPSERT = 8,   /* replace an older version */
};

struct kv_put {
	struct kv_put_id put_id;
	struct kv_le32 count;
	struct kv_le32 budget_ms; /* the owner gives up after it, at most
				   * KV_BUDGET_MS_MAX */
	uint8_t mode;
	uint8_t flags;
	uint8_t ports; /* KV_MODE_RDMA: keys of a window */
	uint8_t zero;
	struct kv_le32 windows;             /* KV_MODE_RDMA */
	struct kv_le64 data_token;          /* but with KV_MODE_SHM */
	struct kv_generation_le generation; /* of the tenant, as the requester
					     * knows it */
	/* tail: windows; count entries, keys, small values, pieces, all in the
	 * order of the entries */
};

enum {
	KV_ENT_INLINE = 1, /* put: the value is in the tail */
	KV_ENT_RANGE = 2,  /* get: off, len are a part of the object; a value
			    * longer than len is no error */
};

struct kv_put_ent {
	struct kv_le64 size;
	struct kv_le16 key_len;
	uint8_t flags;
	uint8_t zero;
	struct kv_le32 pieces; /* KV_MODE_RDMA, not inline: as long as size */
};

struct kv_extent_le {
	struct kv_le64 off; /* in the pool */
	struct kv_le64 len;
};

struct kv_grant_r {
	struct kv_le32 count;
	struct kv_le32 zero;
	struct kv_le64 ready_bytes; /* see kv_attach_r */
	/* tail: count entries, then (KV_MODE_SHM) their extents in order */
};

struct kv_grant_ent {
	struct kv_le64 grant;   /* the reservation's name at this node */
	struct kv_le32 index;   /* of the key in the put */
	struct kv_le32 extents; /* 0 with KV_MODE_DATA. The last one may be
				 * longer than what is left of the value. */
};

enum {
	KV_FILLED_GIVE_UP = 1, /* free them instead of committing */
};

struct kv_filled { /* id: the put's; no answer of its own */
	struct kv_le32 count;
	uint8_t flags;
	uint8_t zero[3];
	/* tail: count le64 grants */
};

struct kv_put_r {
	uint8_t status; /* not 0: all keys failed so, count is 0 */
	uint8_t zero[3];
	struct kv_le32 count;
	struct kv_generation_le generation; /* KV_EBUSY: if its number is not
					     * 0, all was removed since the
					     * requester began, and this holds
					     */
	/* tail: count bytes, enum kv_status each */
};

struct kv_data {
	struct kv_le64 ref;   /* put: the grant. get: id of the GET */
	struct kv_le64 off;   /* from the start of the value, of the range */
	struct kv_le32 index; /* get: of the key. put: 0 */
	uint8_t zero[4];
	/* payload: the bytes */
};

enum {
	KV_GET_ZERO_COPY = 1, /* extents whatever the size; never inline */
};

struct kv_get {
	struct kv_le32 count;
	struct kv_le32 budget_ms;
	struct kv_le32 inline_max; /* values up to this may ride in GET_R */
	uint8_t mode;
	uint8_t flags;
	uint8_t ports; /* KV_MODE_RDMA: keys of a window */
	uint8_t zero;
	struct kv_le64 data_token;
	/* KV_MODE_RDMA. All that is written for this GET is one transfer: */
	struct kv_le32 number;
	struct kv_le32 windows;
	/* tail: windows; count entries, keys, pieces */
};

struct kv_get_ent {
	struct kv_le64 off;
	struct kv_le64 len; /* room at the requester */
	struct kv_le16 key_len;
	uint8_t flags;
	uint8_t zero;
	struct kv_le32 pieces; /* KV_MODE_RDMA: as long as len */
};

enum kv_how {
	KV_HOW_NONE = 0,
	KV_HOW_INLINE = 1,
	KV_HOW_EXTENTS = 2, /* pinned until RELEASE */
	KV_HOW_DATA = 3,    /* came, comes on the data connection */
	KV_HOW_RDMA = 4,    /* is written; there when the transfer has ended */
};

struct kv_get_r {
	uint8_t status; /* not 0: all keys failed so, count is 0 */
	uint8_t zero[3];
	struct kv_le32 count;
	/* tail: count entries, extents of what was asked for in order, inline
	 * values in order */
};

struct kv_get_ent_r {
	uint8_t status;
	uint8_t how;
	struct kv_le16 extents;
	struct kv_le32 inline_len;
	struct kv_le64 size; /* of the whole object; also with KV_ETOOBIG */
	struct kv_le64 pin;
};

struct kv_release {
	struct kv_le32 count;
	struct kv_le32 zero;
	/* 0, or the token of a connection that this process has closed: its
	 * grants, and its pins without KV_GET_ZERO_COPY, are let go, too. */
	struct kv_le64 closed;
	/* tail: count le64 pins */
};

KV_LE_SIZE(kv_attach_r, 24);
KV_LE_SIZE(kv_window, 16);
KV_LE_SIZE(kv_piece, 16);
KV_LE_SIZE(kv_put, 52);
KV_LE_SIZE(kv_put_ent, 16);
KV_LE_SIZE(kv_grant_ent, 16);
KV_LE_SIZE(kv_data, 24);
KV_LE_SIZE(kv_get, 32);
KV_LE_SIZE(kv_get_ent, 24);
KV_LE_SIZE(kv_get_ent_r, 24);

#endif
