#ifndef KV_SVC_SESSION_H
#define KV_SVC_SESSION_H

/*
 * A node's session with one master: session.c opens it, keeps it and drops it;
 * heartbeat.c says on it that the node lives and what other masters know;
 * publish.c says what the node holds. What others of the node may ask of them
 * stands in nodecore.h.
 */

#include "base/bytes.h"
#include "net/rpc.h"
#include "svc/nodecore.h"

/*
 *   WAITING -> DIALING -> GREETING -> JOINING -> LIVE
 *
 * and from each of them back to WAITING.
 */
enum kv_session_state {
	KV_SESSION_WAITING,
	KV_SESSION_DIALING,
	KV_SESSION_GREETING,
	KV_SESSION_JOINING,
	KV_SESSION_LIVE,
};

/* What was told of another master. */
struct kv_session_told {
	struct kv_id boot;
	uint64_t digest;
};

struct kv_session {
	struct kv_node *node;
	unsigned number; /* place in node->sessions */
	const char *addr;
	enum kv_session_state state;
	struct kv_dial *dial;
	struct kv_conn *conn;
	struct kv_nodepeer *peer; /* LIVE: asks the node for things */
	struct kv_rpc rpc;
	struct kv_call call;   /* HELLO, JOIN, HEARTBEAT: one at a time */
	struct kv_timer timer; /* back-off, heartbeat */
	struct kv_timer watch; /* while an answer is owed */
	uint64_t watch_ns;     /* when it is to look */
	uint64_t busy_ns;      /* since then one always was */
	uint64_t answered_ns;  /* the last one came */
	uint64_t backoff_ns;
	uint64_t heartbeat_ns;
	uint64_t beat_ns; /* when the last one was sent, and what it said: */
	uint64_t told_keys, told_ready;
	bool is_hurried; /* the next one comes early */
	struct kv_log_limit log;
	uint32_t missed;   /* LIVE: REMOVEs that are still to come */
	uint64_t live_ns;  /* since then it is */
	bool was_live;     /* ever */
	struct kv_id boot; /* of the master; of the last one, when not LIVE */
	bool is_twin;      /* it turned out to be a master that has one */
	/*
	 * The session broke, but its master may answer for this node for a
	 * moment yet: until then nothing is settled without it.
	 */
	bool is_held;
	struct kv_timer hold;

	/* heartbeat.c */
	uint64_t heard_ns;     /* when the last answer came */
	uint64_t stamp;        /* of it */
	uint64_t digest;       /* of the master's nodes, */
	uint32_t nodes;        /* their number, */
	struct kv_bytes ids;   /* le64 each, */
	uint64_t digest_stamp; /* and when it said so; 0: never */
	struct kv_session_told told[KV_MASTERS_MAX]; /* by session */

	/* publish.c */
	struct kv_defer turn;
	struct kv_bytes adds;  /* of kv_publish_ent, not sent */
	struct kv_bytes gones; /* the same; leave after all adds */
	struct kv_bytes scan;
	uint64_t cursor;    /* of the sync */
	bool has_published; /* or has begun to */
	bool is_syncing;
	bool is_broken;  /* out of memory, or too much to say */
	unsigned frames; /* unanswered */
	unsigned sync_frames;
};

/* Begins a call that the watch looks after; as kv_rpc_begin. */
void *kv_session_begin(struct kv_session *s, struct kv_call *call,
		       enum kv_msg_type type);
/* Drops it, and tries again later. Not from within a call of kv_session_publish
 * or kv_session_withdraw. */
void kv_session_lost(struct kv_session *s, const char *why);
/* Part of the index was published, and its verdicts have come. */
void kv_session_told(struct kv_session *s);

/* The next heartbeat, unless the last one is not answered yet. */
void kv_heartbeat_send(struct kv_session *s);
/* The answer; false: it is broken, or no answer. */
bool kv_heartbeat_take(struct kv_session *s, const struct kv_msg *msg);
/* The session begins: nothing was said on it yet. stamp: of JOIN_R. */
void kv_heartbeat_start(struct kv_session *s, uint64_t stamp);
void kv_heartbeat_fini(struct kv_session *s);
/*
 * The session broke. While a master has heard of this node lately its misses
 * are taken for true. So what is put now, and it cannot be told of, waits until
 * that is over, which this node knows by the last answer. With one master
 * nobody else could be asked: there is nothing to wait for.
 */
void kv_heartbeat_hold(struct kv_session *s);
/* Nobody answers for this node there (any more). */
void kv_heartbeat_let_go(struct kv_session *s);

/* JOIN_R: what this master knows of generations, and what the node missed.
 * False: it is broken. */
bool kv_nodegen_joined(struct kv_session *s, const struct kv_msg *msg);
/* What the node missed should have been told long ago. */
bool kv_nodegen_is_owed(const struct kv_session *s);

/* Everything is to be published. */
void kv_publish_start(struct kv_session *s);
/* Sends what may be sent now. */
void kv_publish_turn(struct kv_session *s);
/* It is over: forgets everything. No frame is under way. */
void kv_publish_reset(struct kv_session *s);
void kv_publish_fini(struct kv_session *s);
void kv_publish_add(struct kv_session *s, const struct kv_object *o);
void kv_publish_gone(struct kv_session *s, const struct kv_object *o);

#endif
