#ifndef KV_WIRE_PROTODIR_H
#define KV_WIRE_PROTODIR_H

/*
 * Bodies of what has to do with a master: the directory, the nodes that publish
 * to it, and what it passes on to all of them.
 */

#include "base/id.h"
#include "base/le.h"
#include "wire/protodata.h"

/* ---- generations of tenants ---- */

struct kv_generation_ent {
	struct kv_generation_le generation;
	uint8_t tenant_len;
	uint8_t zero[7];
	/* then: tenant */
};

struct kv_generation_news {
	struct kv_le32 count;
	struct kv_le32 zero;
	/* tail: entries, each with its tenant */
};

/* ---- from requesters (LOOKUP also to nodes) ---- */

enum {
	KV_LOOKUP_EXIST = 1, /* only whether; marks what is found as wanted */
};

struct kv_lookup {
	struct kv_le32 count;
	uint8_t flags;
	uint8_t zero[3];
	/* tail: count kv_id hashes */
};

/* Why a miss proves nothing (LOOKUP_R), or a list is not whole (NODES_R). */
enum {
	KV_LOOKUP_INCOMPLETE = 1, /* it does not know yet all that its nodes
				   * hold: another master or they may */
	KV_LOOKUP_HIDES = 2,      /* some owners are left out: suspect ones, and
				   * those that the asking host reported */
	KV_LOOKUP_LACKS = 4,      /* another master hears of nodes of which it
				   * does not, or may */
	KV_LOOKUP_UNSURE = 8,     /* another master may have some: nobody says
				   * what it has */
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
	uint8_t masters;  /* that it was told of */
	uint8_t sessions; /* with how many of them it has one */
	uint8_t zero[3];
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
	uint8_t flags; /* as in LOOKUP_R */
	uint8_t zero[2];
	struct kv_le32 count;
	struct kv_le64 master_keys; /* entries of the directory */
	struct kv_le32 lacking;     /* nodes that only other masters have */
	struct kv_le32 age_ms; /* since its start, or all nodes were lost, or
				* the first was back */

	/* tail: records with their strings */
};

struct kv_report {
	struct kv_id boot;
	uint8_t reachable;
	uint8_t status; /* what was seen, enum kv_status */
	uint8_t zero[6];
};

/* ---- from nodes, and to them ---- */

struct kv_join {
	struct kv_id host;
	struct kv_id pool; /* the same whoever serves it; zero: it ends with
			    * this node */
	struct kv_le64 pool_bytes;
	uint8_t addr_len; /* advertised "host:port"; an empty or unspecified
			   * host: the address that the master sees */
	uint8_t name_len;
	uint8_t masters; /* that the node was told of, this one too */
	uint8_t zero;
	struct kv_le16 generations;
	uint8_t zero2[2];
	/* tail: addr, name, kv_generation_ent's with their tenants */
};

struct kv_join_r {
	uint8_t status;
	uint8_t zero[3];
	struct kv_le32 heartbeat_ms;
	struct kv_le32 ttl_ms;
	struct kv_le32 missed; /* so many REMOVEs with that flag follow */
	struct kv_le64 stamp;  /* as in HEARTBEAT_R */
	struct kv_le16 generations;
	uint8_t zero2[6];
	/* tail: kv_generation_ent's with their tenants */
};

/*
 * Masters do not talk with each other: nodes tell each which nodes the others
 * know, by the first halves of their boot ids. As long as a master's digest is
 * the same these are the same, and they are not listed again on a session.
 */

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
	struct kv_le64 echo; /* the master's last stamp */
	uint8_t sessions;    /* with masters, this one too */
	uint8_t others;      /* entries that follow */
	uint8_t zero[6];
	/* tail: `others` times an entry, its ids */
};

/* Another master that the node has a session with. */
struct kv_heartbeat_ent {
	struct kv_id boot;
	struct kv_le64 stamp;  /* what it said with the following */
	struct kv_le64 digest; /* of its nodes */
	struct kv_le32 nodes;  /* how many these are */
	struct kv_le32 listed; /* le64 ids that follow: all of them, or none
				* when the digest is as it was */
};

enum {
	KV_HEARTBEAT_AGAIN = 1, /* list all nodes of all masters again */
};

struct kv_heartbeat_r {
	uint8_t status;
	uint8_t flags;
	uint8_t zero[2];
	struct kv_le32 nodes;  /* that this master has heard of lately */
	struct kv_le64 digest; /* of them */
	struct kv_le64 stamp;  /* its clock; the next HEARTBEAT repeats it */
	struct kv_le32 listed; /* le64 ids that follow, as above */
	struct kv_le32 zero2;
	/* tail: ids */
};

#define KV_HEARTBEAT_TAIL_MAX                                      \
	((KV_MASTERS_MAX - 1) * (sizeof(struct kv_heartbeat_ent) + \
				 KV_NODES_MAX * sizeof(struct kv_le64)))
#define KV_HEARTBEAT_R_TAIL_MAX (KV_NODES_MAX * sizeof(struct kv_le64))

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

enum {
	KV_PUBLISH_SHOWN = 1, /* it is read, and masters know of it */
};

struct kv_publish_ent {
	struct kv_id hash;
	struct kv_put_id put_id;
	uint8_t flags;
	uint8_t zero[3];
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
	/* tail: count kv_check_ent */
};

/* Has the node this copy, and does it keep it against another one? It lets it
 * go for a better one: of a higher version; of the same, one that is read
 * already, unless its own is; else one with a lower random number. */
struct kv_check_ent {
	struct kv_id hash;
	struct kv_put_id put_id;
	struct kv_put_id rival;
	uint8_t flags; /* of the other one, as in PUBLISH */
	uint8_t zero[7];
};

struct kv_check_r {
	uint8_t status;
	uint8_t zero[3];
	struct kv_le32 count;
	/* tail: count bytes; 1: yes, 0: it has it not, or not any more */
};

struct kv_want {
	struct kv_le32 count;
	struct kv_le32 zero;
	/* tail: count kv_id */
};

struct kv_leave {
	struct kv_le64 zero;
};

/* ---- from requesters, passed on to nodes ---- */

enum kv_remove_op {
	KV_REMOVE_KEYS = 1,
	KV_REMOVE_REGEX = 2,
	KV_REMOVE_ALL = 3,
};

enum {
	KV_REMOVE_FORCE = 1,  /* hard-pinned ones too */
	KV_REMOVE_RECORD = 2, /* another master has done it: only remember it
			       * for nodes that are away from here */
	KV_REMOVE_MISSED = 4, /* to a node that was away meanwhile */
};

struct kv_remove {
	uint8_t op;
	uint8_t flags;
	uint8_t tenant_len;
	uint8_t zero;
	struct kv_le32 count; /* KEYS: keys. REGEX: bytes of the pattern */
	/* ALL. The one that will hold when nothing was kept anywhere; to a
	 * master: or number 0, it chooses. RECORD: the one that holds. */
	struct kv_generation_le generation;
	/* tail: tenant; KEYS: count le16 lengths, keys. REGEX: pattern */
};

struct kv_remove_r {
	uint8_t status; /* ALL: KV_EBUSY: that generation is not above */
	uint8_t flags;  /* of a master: gaps, as in kv_lookup_r; if there are
			 * some other masters may have nodes that it has not */
	uint8_t zero[2];
	struct kv_le32 count; /* statuses: KEYS only */
	struct kv_le64 removed;
	struct kv_le32 away;      /* nodes that were not reached */
	struct kv_le32 kept;      /* hard-pinned, and not forced */
	struct kv_le64 undecided; /* stay: the pattern takes too much work */
	struct kv_generation_le generation; /* ALL: holds */
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
	struct kv_le64 undecided; /* not here: the pattern takes too much */
				  /* tail: entries, keys */
};

enum {
	KV_KEYS_SHARED = 4, /* another process than its putter has read it */
};

struct kv_keys_ent {
	struct kv_le64 size;
	struct kv_le16 key_len;
	uint8_t flags; /* KV_PUT_SOFT_PIN, KV_PUT_HARD_PIN, KV_KEYS_SHARED */
	uint8_t zero;
	struct kv_le16 putter; /* who put it, to tell from others; 0: not
				* known */
	uint8_t zero2[2];
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

KV_LE_SIZE(kv_generation_ent, 24);
KV_LE_SIZE(kv_node_rec, 92);
KV_LE_SIZE(kv_heartbeat, 96);
KV_LE_SIZE(kv_heartbeat_ent, 40);
KV_LE_SIZE(kv_heartbeat_r, 32);
KV_LE_SIZE(kv_publish_ent, 32);
KV_LE_SIZE(kv_check_ent, 48);
KV_LE_SIZE(kv_decide_ent, 32);
KV_LE_SIZE(kv_query_rec, 72);

#endif
