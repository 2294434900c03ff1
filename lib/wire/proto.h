#ifndef KV_WIRE_PROTO_H
#define KV_WIRE_PROTO_H

/*
 * The wire protocol: one header, one body struct a message, the rest of a
 * message (entries, keys, small values) in its tail. Same frames over Unix
 * sockets, TCP and, later, RDMA sends. Little-endian typed bytes, alignment 1.
 * Addresses never cross the wire: offsets into named regions do.
 *
 * A connection starts with HELLO / HELLO_R. Requests carry an id that their
 * answers repeat; answers with KV_FLAG_MORE are followed by others.
 */

#include "base/id.h"
#include "base/le.h"
#include "base/limits.h"

#define KV_WIRE_MAGIC   0x3150564bu /* "KVP1" */
#define KV_WIRE_VERSION 1

enum {
	KV_FLAG_MORE = 1, /* an answer that is not the last one */
};

struct kv_header {
	struct kv_le32 magic;
	uint8_t version;
	uint8_t flags;
	struct kv_le16 type;
	struct kv_le32 len;     /* body and tail */
	struct kv_le32 payload; /* bytes behind them, under no sum */
	struct kv_le64 id;
	struct kv_le32 body_sum; /* low half of XXH3-64 of body and tail; seed:
				  * id XOR type shifted left by 48 */
	struct kv_le32 head_sum; /* low half of XXH3-64, seed 0, of the 28
				  * bytes before it */
};
#define KV_HEADER_BYTES 32

/* Body and tail of one frame; and what is left of it for a tail. */
#define KV_TAIL_MAX        (KV_FRAME_BYTES_MAX - 128)
#define KV_NAMES_MAX       1024
#define KV_PAYLOAD_MAX     (1u << 30)
#define KV_XFER_PIECES_MAX 1024 /* of one XFER */

enum kv_msg_type {
#define KV_MSG(number, NAME, body, tmin, tmax, text) KV_MSG_##NAME = number,
#include "wire/proto.def"
#undef KV_MSG
};

/* ---- both ends of every connection ---- */

enum kv_role {
	KV_ROLE_REQUESTER = 1, /* a client, to a node or to a master */
	KV_ROLE_DATA = 2,      /* a client's data connection to a node */
	KV_ROLE_NODE = 3,      /* a node, to a master */
	KV_ROLE_PROBE = 4,     /* a master, to a node's port */
	KV_ROLE_ENGINE = 5,    /* raw transfers between engines */
};

struct kv_hello {
	struct kv_le16 version_min;
	struct kv_le16 version_max;
	uint8_t role;
	uint8_t tenant_len; /* 0: "default" */
	uint8_t name_len;   /* for people: program or host name */
	uint8_t zero;
	struct kv_le64 features;
	struct kv_id boot; /* the dialler */
	struct kv_id want; /* whom it means to reach; zero: whoever it is */
	struct kv_id host; /* same value: same host (kernel boot id and network
			    * name space) */
	struct kv_le64 token; /* DATA: of its control connection */
	struct kv_le32 pid;
	struct kv_le32 zero2;
	/* tail: tenant, name */
};

struct kv_hello_r {
	uint8_t status; /* enum kv_status; then text says why */
	uint8_t zero;
	struct kv_le16 version;
	struct kv_le16 text_len;
	struct kv_le16 zero2;
	struct kv_le64 features;
	struct kv_id boot;    /* the answering side */
	struct kv_le64 token; /* random name of this connection */

	/* tail: text */
};

struct kv_ping {
	struct kv_le64 stamp; /* comes back as it was */
};

struct kv_error_r {
	uint8_t status;
	uint8_t zero[3];
	struct kv_le32 text_len;
	/* tail: text */
};

/* ---- requester and node ---- */

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
};

/* The version of a value: every replica of one put has the same. */
struct kv_put_id {
	struct kv_le64 random;
	struct kv_le32 version; /* upsert raises it; the higher one wins */
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
	struct kv_le32 budget_ms; /* the owner gives up after it */
	uint8_t mode;
	uint8_t flags;
	uint8_t zero[6];
	struct kv_le64 data_token; /* KV_MODE_DATA: where bytes will come */
	/* tail: count entries, keys, small values, all in order */
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
	uint8_t zero[5];
};

struct kv_extent_le {
	struct kv_le64 off; /* in the pool */
	struct kv_le64 len;
};

struct kv_grant_r {
	struct kv_le32 count;
	struct kv_le32 zero;
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
	uint8_t zero[2];
	struct kv_le64 data_token;
	/* tail: count entries, keys */
};

struct kv_get_ent {
	struct kv_le64 off;
	struct kv_le64 len; /* room at the requester */
	struct kv_le16 key_len;
	uint8_t flags;
	uint8_t zero[5];
};

enum kv_how {
	KV_HOW_NONE = 0,
	KV_HOW_INLINE = 1,
	KV_HOW_EXTENTS = 2, /* pinned until RELEASE */
	KV_HOW_DATA = 3,    /* came, comes on the data connection */
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

/* ---- requester and master (LOOKUP also: requester and node) ---- */

enum {
	KV_LOOKUP_EXIST = 1, /* only whether; marks what is found as wanted */
};

struct kv_lookup {
	struct kv_le32 count;
	uint8_t flags;
	uint8_t zero[3];
	/* tail: count kv_id hashes */
};

enum {
	KV_LOOKUP_INCOMPLETE = 1, /* a miss here proves nothing */
};

struct kv_lookup_r {
	struct kv_le32 count;
	struct kv_le16 nodes;
	uint8_t status;
	uint8_t flags;
	/* tail, EXIST: count bytes, 0 or 1. Else: count bytes, owners of each;
	 * their le16 indexes into the nodes, in order; node records. */
};

enum kv_node_state {
	KV_NODE_JOINING = 1, /* publishing what it has */
	KV_NODE_LIVE = 2,
	KV_NODE_SUSPECT = 3, /* the master's own probe failed too */
	KV_NODE_LEAVING = 4,
};

struct kv_node_rec {
	struct kv_id boot;
	struct kv_id host;
	uint8_t state;
	uint8_t addr_len;
	uint8_t name_len;
	uint8_t zero;
	struct kv_le32 heard_ms; /* age of the last heartbeat */
	struct kv_le64 pool_bytes;
	struct kv_le64 ready_bytes; /* faulted in so far */
	struct kv_le64 free_bytes;  /* of these, with nothing in them */
	struct kv_le64 pinned_bytes;
	struct kv_le64 keys;
	struct kv_le64 victim_age_ms; /* idle time of the next to go; 0: none */

	/* then: addr ("host:port"), name */
};

struct kv_nodes {
	struct kv_le64 zero;
};

struct kv_nodes_r {
	uint8_t status;
	uint8_t zero[3];
	struct kv_le32 count;
	struct kv_le64 master_keys; /* entries of the directory */

	/* tail: records with their strings */
};

struct kv_report {
	struct kv_id boot;
	uint8_t reachable;
	uint8_t status; /* what was seen, enum kv_status */
	uint8_t zero[6];
};

/* ---- node and master ---- */

struct kv_join {
	struct kv_id host;
	struct kv_le64 pool_bytes;
	uint8_t addr_len; /* advertised "host:port"; an empty or unspecified
			   * host: the address that the master sees */
	uint8_t name_len;
	uint8_t zero[6];
	/* tail: addr, name */
};

struct kv_join_r {
	uint8_t status;
	uint8_t zero[3];
	struct kv_le32 heartbeat_ms;
	struct kv_le32 ttl_ms;
	struct kv_le32 zero2;
};

struct kv_heartbeat {
	struct kv_le64 pool_bytes;
	struct kv_le64 ready_bytes;
	struct kv_le64 free_bytes;
	struct kv_le64 pinned_bytes;
	struct kv_le64 keys;
	struct kv_le64 victim_age_ms;
	struct kv_le64 evicted_keys; /* counters since the node's start */
	struct kv_le64 evicted_bytes;
	struct kv_le64 put_fails;
	struct kv_le64 soft_pinned;
};

struct kv_heartbeat_r {
	uint8_t status;
	uint8_t zero[7];
};

enum {
	KV_PUBLISH_SYNC = 1,     /* part of the node's whole index */
	KV_PUBLISH_SYNC_END = 2, /* and its last part */
};

struct kv_publish {
	struct kv_le32 added;
	struct kv_le32 gone;
	uint8_t flags;
	uint8_t zero[7];
	/* tail: added entries, gone entries */
};

struct kv_publish_ent {
	struct kv_id hash;
	struct kv_put_id put_id;
	uint8_t zero[4];
};

enum kv_verdict {
	KV_VERDICT_STAYS = 1,
	KV_VERDICT_GOES = 2, /* another value of this key stays */
	KV_VERDICT_OPEN = 3, /* DECIDE follows */
};

struct kv_publish_r {
	uint8_t status;
	uint8_t zero[3];
	struct kv_le32 count;
	/* tail: count bytes, enum kv_verdict */
};

struct kv_decide {
	struct kv_le32 count;
	struct kv_le32 zero;
	/* tail: count entries */
};

struct kv_decide_ent {
	struct kv_id hash;
	struct kv_put_id put_id;
	uint8_t verdict;
	uint8_t zero[3];
};

struct kv_check {
	struct kv_le32 count;
	struct kv_le32 zero;
	/* tail: count kv_publish_ent */
};

struct kv_check_r {
	uint8_t status;
	uint8_t zero[3];
	struct kv_le32 count;
	/* tail: count bytes */
};

struct kv_want {
	struct kv_le32 count;
	struct kv_le32 zero;
	/* tail: count kv_id */
};

struct kv_leave {
	struct kv_le64 zero;
};

/* ---- requester to master, passed on by it to nodes ---- */

enum kv_remove_op {
	KV_REMOVE_KEYS = 1,
	KV_REMOVE_REGEX = 2,
	KV_REMOVE_ALL = 3,
};

enum {
	KV_REMOVE_FORCE = 1, /* hard-pinned ones too */
};

struct kv_remove {
	uint8_t op;
	uint8_t flags;
	uint8_t tenant_len;
	uint8_t zero;
	struct kv_le32 count; /* KEYS: keys. REGEX: bytes of the pattern */
	/* tail: tenant; KEYS: count le16 lengths, keys. REGEX: pattern */
};

struct kv_remove_r {
	uint8_t status;
	uint8_t zero[3];
	struct kv_le32 count; /* statuses: KEYS only */
	struct kv_le64 removed;
	struct kv_le32 away; /* nodes that were not reached */
	struct kv_le32 zero2;
	/* tail: count bytes, away kv_id */
};

struct kv_keys {
	struct kv_id node;          /* zero: the first one */
	struct kv_le64 cursor;      /* 0: from the start */
	struct kv_le32 limit;       /* keys, about */
	struct kv_le16 pattern_len; /* 0: all */
	uint8_t tenant_len;
	uint8_t zero;
	/* tail: tenant, pattern */
};

struct kv_keys_r {
	struct kv_id node; /* whose keys these are */
	struct kv_id next; /* where to go on; zero: that was all */
	struct kv_le64 cursor;
	struct kv_le32 count;
	uint8_t status; /* not 0: this node gave none, go on with the next */
	uint8_t zero[3];
	/* tail: entries, keys */
};

struct kv_keys_ent {
	struct kv_le64 size;
	struct kv_le16 key_len;
	uint8_t flags; /* KV_PUT_SOFT_PIN, KV_PUT_HARD_PIN */
	uint8_t zero[5];
};

enum {
	KV_QUERY_SUM = 1, /* compute checksums */
};

struct kv_query {
	struct kv_le16 key_len;
	uint8_t tenant_len;
	uint8_t flags;
	uint8_t zero[4];
	/* tail: tenant, key */
};

struct kv_query_r {
	uint8_t status;
	uint8_t zero[3];
	struct kv_le32 count;
	struct kv_le32 away;
	struct kv_le32 zero2;
	/* tail: records, each with its strings */
};

struct kv_query_rec {
	struct kv_id boot;
	struct kv_le64 size;
	struct kv_put_id put_id;
	struct kv_le32 pins;
	struct kv_le64 idle_ms;
	struct kv_le64 sum; /* XXH3-64 of the value */
	struct kv_le64 off; /* of the first extent in the pool */
	struct kv_le16 extents;
	uint8_t flags;
	uint8_t addr_len;
	uint8_t name_len;
	uint8_t zero[3];
	/* then: addr, name (filled in by the master) */
};

struct kv_stats {
	struct kv_le64 zero;
};

struct kv_stats_r {
	uint8_t status;
	uint8_t zero[7];
	/* tail: "name value\n" ... */
};

/* ---- engines ---- */

struct kv_regions {
	struct kv_le64 zero;
};

struct kv_regions_r {
	uint8_t status;
	uint8_t zero[3];
	struct kv_le32 count;
	struct kv_le64 epoch;      /* rises with each region that goes */
	struct kv_le64 token_addr; /* where the token lies, for attach; on a
				    * Unix socket only, else 0 */
	struct kv_le64 token[2];   /* random */
	/* tail: records, the region registered first comes first */
};

enum {
	KV_REGION_SHARED = 1, /* MEMORY gives a descriptor of it */
};

struct kv_region_rec {
	struct kv_le64 addr; /* names the region to callers; never followed
			      * by the other side but through attach */
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

#define KV_SIZE(type, bytes) \
	_Static_assert(sizeof(struct type) == (bytes), "size of " #type)
KV_SIZE(kv_header, KV_HEADER_BYTES);
KV_SIZE(kv_hello, 80);
KV_SIZE(kv_hello_r, 40);
KV_SIZE(kv_error_r, 8);
KV_SIZE(kv_attach_r, 24);
KV_SIZE(kv_put, 36);
KV_SIZE(kv_put_ent, 16);
KV_SIZE(kv_grant_ent, 16);
KV_SIZE(kv_data, 24);
KV_SIZE(kv_get, 24);
KV_SIZE(kv_get_ent, 24);
KV_SIZE(kv_get_ent_r, 24);
KV_SIZE(kv_node_rec, 88);
KV_SIZE(kv_heartbeat, 80);
KV_SIZE(kv_publish_ent, 32);
KV_SIZE(kv_decide_ent, 32);
KV_SIZE(kv_query_rec, 72);
KV_SIZE(kv_regions_r, 40);
KV_SIZE(kv_region_rec, 32);
KV_SIZE(kv_memory_r, 16);
KV_SIZE(kv_xfer_piece, 24);
#undef KV_SIZE

#endif
