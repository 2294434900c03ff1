#ifndef KV_SVC_PUTKEY_H
#define KV_SVC_PUTKEY_H

/*
 * One key of a put. nodeput.c takes a request apart and answers it; each of its
 * keys is meanwhile on its own way (putkey.c):
 *
 *   NEW -> EARLY     no master was heard of yet: wait for what counts here
 *   NEW -> TWIN      another put of this key is under way: wait for its end
 *   NEW -> PAGES     no space yet, the pool is still faulting in
 *   NEW -> FILLING   space is there; its bytes come into the mapping (SHM),
 *                    or over a data connection, or are read by RDMA (the
 *                    mover: putkey_move.c)
 *   NEW -> HIDDEN    in the index, not readable: the masters are asked
 *   any -> DONE
 *
 * EARLY and TWIN go back to NEW; PAGES goes on as NEW does; FILLING goes to
 * HIDDEN. Of all puts of a key at most one is its writer: the one that is past
 * NEW.
 *
 * A key can have its status, and the put its answer, before the key is DONE:
 * space that a requester may still write to, and a verdict that is still out,
 * are waited for without it.
 */

#include "svc/nodecore.h"

enum kv_putkey_state {
	KV_PUTKEY_NEW,
	KV_PUTKEY_EARLY,
	KV_PUTKEY_TWIN,
	KV_PUTKEY_PAGES,
	KV_PUTKEY_FILLING,
	KV_PUTKEY_HIDDEN,
	KV_PUTKEY_DONE,
};

struct kv_putkey {
	struct kv_htab_node writing; /* node->writing, by hash: the writer */
	struct kv_htab_node grant;   /* node->grants: FILLING */
	struct kv_list link;         /* TWIN: its writer's. EARLY, PAGES, and
				      * HIDDEN: the node's. FILLING, SHM: the
				      * process's */
	struct kv_list twins;        /* who waits for this writer */
	struct kv_list fresh;        /* put->fresh: GRANT_R is due */
	struct kv_nodeput *put;
	struct kv_hash hash;
	/* The message's, with the value until that is in the pool (inline);
	 * kept together by itself (is_kept); or the put's. */
	const uint8_t *key;
	const uint8_t *value;
	uint64_t size;
	struct kv_object *object; /* HIDDEN */
	union {
		struct kv_extent one;
		struct kv_extent *many; /* n_ext > 1 */
	} ext;
	uint32_t slot; /* record of the space, with a pool file; else 0 */
	uint16_t n_ext;
	uint16_t key_len;
	uint8_t state;
	uint8_t status;
	bool has_status;
	bool is_inline;
	bool is_writer;
	bool is_new; /* nothing of its hash was there when it became that; and
		      * while it is, nobody else puts anything of it there */
	bool is_repeat; /* an equal key stands before it in the put */
	bool is_kept;
	bool is_known; /* a master said that it stays */
	uint8_t waits; /* HIDDEN: bits of sessions whose verdict is out */
};

/* KV_MODE_DATA: the bytes of a key on their way in. */
struct kv_putkey_move {
	struct kv_move move;
	struct kv_putkey *key;
};

/* KV_MODE_RDMA: the bytes of a key being read. */
struct kv_putkey_pull {
	struct kv_transfermove move;
	struct kv_putkey *key;
	const struct kv_rdmarange *far; /* where they lie */
	struct kv_rdmarange *near;      /* &one, or allocated: where they go */
	struct kv_rdmarange one;
};

struct kv_nodeput {
	struct kv_list all;  /* node->puts */
	struct kv_list link; /* peer->puts */
	struct kv_node *node;
	struct kv_nodepeer *peer; /* NULL: answered, or lost */
	struct kv_proc *proc;
	struct kv_timer timer;
	uint64_t id;
	uint64_t random;
	uint32_t version;
	uint8_t mode; /* enum kv_mode */
	uint8_t flags;
	uint64_t data_token;
	uint64_t token;  /* of the connection it came on */
	uint16_t putter; /* kv_node_putter() */
	unsigned tenant;
	uint32_t epoch; /* of the tenant, when it came */
	unsigned count;
	unsigned weight; /* count, and windows and pieces as such */
	/* open at 0: it is answered, though keys may be under way still (see
	 * above). busy at 0, never before: it is freed. Who goes on with keys
	 * in a loop is a holder meanwhile, for the last one may end the put;
	 * nobody but kv_nodeput_drop() frees it. */
	unsigned open; /* keys without a status */
	unsigned busy; /* keys not DONE, and holders */
	struct kv_list fresh;
	struct kv_putkey_move *moves; /* count, KV_MODE_DATA only */
	struct kv_putkey_pull *pulls; /* count, KV_MODE_RDMA only, */
	struct kv_rdmamem *mems;      /* and the requester's windows */
	struct kv_putkey keys[];
};

/* Lets go of the put; the last one frees it. */
void kv_nodeput_drop(struct kv_nodeput *put);
/* The same for who held it while its keys went on: what was granted to them is
 * told first. NULL is fine. */
void kv_nodeput_let_go(struct kv_nodeput *put);
/* Every key has a status. */
void kv_nodeput_answer(struct kv_nodeput *put);

/* Starts it on its way. k, and its put unless held, may be freed. */
void kv_putkey_admit(struct kv_putkey *k);
/* From NEW or PAGES: finds space, or waits, or fails. As above. */
void kv_putkey_place(struct kv_putkey *k);
/* Ends it where it is, as far as its requester is concerned. As above. */
void kv_putkey_give_up(struct kv_putkey *k, int status);
/* Nobody touches the granted space any more: the bytes are there (KV_OK), or
 * will not come. As above. */
void kv_putkey_filled(struct kv_putkey *k, int status);

/* The key that has this grant, or NULL. */
struct kv_putkey *kv_putkey_find_grant(struct kv_node *node, uint64_t grant);

static inline const struct kv_extent *
kv_putkey_extents(const struct kv_putkey *k)
{
	return k->n_ext > 1 ? k->ext.many : &k->ext.one;
}

/* Another epoch began: what is hidden of an earlier one goes. */
void kv_putkey_outdated(struct kv_node *node);
/* The process has ended, its grants come back. */
void kv_putkey_proc_gone(struct kv_proc *p);
/* The process has closed that connection: its grants come back. */
void kv_putkey_forget(struct kv_proc *p, uint64_t token);

/* For the two files of it: it has this status; who writes the key, or NULL. */
void kv_putkey_rest(struct kv_putkey *k, int status);
struct kv_putkey *kv_putkey_writer(struct kv_node *node, struct kv_hash hash);

/* ---- putkey_move.c ---- */

/* FILLING, not SHM: its bytes are expected, or read; kv_putkey_filled()
 * follows. Or -errno. */
int kv_putkey_move(struct kv_putkey *k);
/* It follows as soon as nothing is touched. */
void kv_putkey_move_cancel(struct kv_putkey *k);

/* ---- putkey_verdict.c ---- */

/* All masters that can have answered, and none of them knows a better copy: so
 * whatever is shown is known to each of them, and a miss of one is as good as
 * that of all. k, and its put unless held, may be freed. */
void kv_putkey_show(struct kv_putkey *k);
/* A master's verdict on something published, just now or long ago. */
void kv_putkey_verdict(struct kv_node *node, unsigned session,
		       const struct kv_id *hash, const struct kv_put_id *id,
		       enum kv_verdict verdict);
/* A copy that is shown, but was not known to masters all the time: while the
 * first one that was told of it has to decide it gives way to others, whichever
 * master asks. */
void kv_putkey_doubt(struct kv_node *node, const struct kv_id *hash,
		     const struct kv_put_id *id, bool is_doubted);
/* A master asks: does the node have this copy, and keep it against that one?
 * If not it is gone now. */
bool kv_putkey_keeps(struct kv_node *node, const struct kv_check_ent *e);
/* The session begins (what is hidden is published to it), or is lost. */
void kv_putkey_session_live(struct kv_node *node, unsigned session);
void kv_putkey_session_lost(struct kv_node *node, unsigned session);
/* Has it owed a verdict since before that time? */
bool kv_putkey_owes(struct kv_node *node, unsigned session, uint64_t before_ns);

#endif
