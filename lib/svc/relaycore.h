#ifndef KV_SVC_RELAYCORE_H
#define KV_SVC_RELAYCORE_H

/* What the kinds of questions share: relay.c and relayleg.c drive, relayrm.c
 * (REMOVE) and relayls.c (KEYS, QUERY) know what is asked and how answers are
 * merged. */

#include "base/bytes.h"
#include "store/dir.h"
#include "svc/mastercore.h"
#include "svc/relay.h"

/* The part of a question that one node is asked. */
struct kv_relayleg {
	struct kv_list link; /* relay->legs */
	struct kv_call call;
	struct kv_relay *r;
	struct kv_id boot;
	struct kv_id store; /* kv_missed_store() */
	uint64_t deadline_ns;
	/* REMOVE: */
	struct kv_bytes index; /* uint32_t numbers of the keys; when it is
				* empty: of all keys */
	bool is_settling;      /* removed; withdrawals may be on their way */
	uint64_t withdrawn;    /* member->withdrawn at the last look */
};

enum kv_relayleg_next {
	KV_RELAYLEG_AWAY,
	KV_RELAYLEG_OVER,
	KV_RELAYLEG_GOES_ON, /* its call is under way again */
};

struct kv_relay_kind {
	/* Checks the question and sends the legs. 0, or a status, or -EPROTO
	 * for a malformed one. */
	int (*start)(struct kv_relay *r, const struct kv_msg *msg);
	/* An answer. */
	enum kv_relayleg_next (*take)(struct kv_relayleg *leg,
				      const struct kv_msg *msg);
	/* The node did not give one. May be NULL. */
	void (*away)(struct kv_relayleg *leg);
	/* Completes relay->out: body and tail of the answer. False: no
	 * memory. */
	bool (*finish)(struct kv_relay *r);
};

/* A key of a REMOVE, and what the directory says of it. */
struct kv_relay_key {
	struct kv_hash hash;
	struct kv_dir_id id;
	bool is_known; /* so id means something */
	uint32_t off;  /* where it lies among the keys of the question */
	uint8_t status;
};

struct kv_relay {
	struct kv_list link; /* master->relays */
	struct kv_list mine; /* peer->relays, or alone */
	struct kv_master *m;
	const struct kv_relay_kind *kind;
	enum kv_msg_type type;
	struct kv_masterpeer *p; /* who asks; NULL: */
	uint64_t id;
	kv_relay_fn *fn; /* or NULL: nobody any more */
	void *arg;
	struct kv_defer end;
	bool is_asked; /* all legs were made: the last one's end is the end */
	struct kv_list legs;
	struct kv_bytes away; /* kv_id */
	struct kv_bytes out;
	int error; /* a status: all of it failed so */
	char text[513];

	/* REMOVE */
	struct kv_remove asked;
	struct kv_bytes tail;            /* of the question, for who is away */
	struct kv_generation generation; /* ALL: will hold; or number 0 */
	bool is_late;                    /* another one holds already */
	uint8_t op;
	struct kv_relay_key *keys;
	uint32_t count;
	uint64_t removed;
	uint32_t kept;
	uint64_t undecided;

	/* KEYS */
	struct kv_id node;

	/* QUERY */
	uint32_t records;
};

/* ---- relayleg.c ---- */

/* A leg to the node, not sent. NULL: no memory. */
struct kv_relayleg *kv_relayleg_new(struct kv_relay *r,
				    const struct kv_member *mb);
/* Sends it, with body and tail of the question; or the node is away. */
void kv_relayleg_send(struct kv_relayleg *leg, struct kv_member *mb,
		      const void *body, const void *tail, size_t tail_len);
/* It is over, perhaps the last one. */
void kv_relayleg_end(struct kv_relayleg *leg);
void kv_relayleg_free(struct kv_relayleg *leg);

/* ---- relay.c ---- */

/* May it have what the directory has not? Then it is asked for everything,
 * also where the directory names it. */
bool kv_relay_is_doubted(const struct kv_member *mb);
/* The question as it is to every node (or every doubted one). False: no
 * memory. */
bool kv_relay_send_all(struct kv_relay *r, const struct kv_msg *msg,
		       bool only_doubted);
/* May the asking side name this tenant? */
bool kv_relay_may_ask(const struct kv_relay *r, const char *tenant, size_t len);

extern const struct kv_relay_kind kv_relayrm_kind;
extern const struct kv_relay_kind kv_relayls_keys;
extern const struct kv_relay_kind kv_relayls_query;

#endif
