#ifndef KV_SVC_MASTERCORE_H
#define KV_SVC_MASTERCORE_H

/*
 * What the files of a master share: its state, its connections, the nodes that
 * it knows, and what each file does for the others.
 */

#include "base/bytes.h"
#include "base/clock.h"
#include "base/htab.h"
#include "base/list.h"
#include "base/log.h"
#include "base/rng.h"
#include "event/loop.h"
#include "net/conn.h"
#include "net/net.h"
#include "net/rpc.h"
#include "store/dir.h"
#include "store/generation.h"
#include "svc/master.h"
#include "svc/masterstats.h"
#include "svc/pending.h"
#include "svc/probe.h"

struct kv_intake;
struct kv_relay;

#define KV_MASTER_TICK_NS (100 * KV_NS_PER_MS)

/* Of which nodes tell; more than there are: some may have ended. */
#define KV_PEERMASTERS_MAX (2 * KV_MASTERS_MAX)

/* Another master, as nodes tell of it. */
struct kv_peermaster {
	struct kv_id boot;
	uint64_t told;       /* when there was news, by this master's loop */
	uint64_t stamp;      /* and when by its own */
	uint64_t digest;     /* of its nodes */
	bool is_listed;      /* these are ids: */
	struct kv_bytes ids; /* uint64_t, in order */
	bool is_known;       /* and the news is not old */
};

/* What is known of other masters, and what follows from it. */
struct kv_peermasters {
	struct kv_peermaster of[KV_PEERMASTERS_MAX];
	unsigned n;
	unsigned told_of; /* masters that nodes were given, this one too */

	/* Derived, up to `until` or the next change: */
	uint64_t until;
	struct kv_bytes mine;    /* nodes heard of lately: uint64_t, in order */
	struct kv_bytes theirs;  /* those of all others together */
	struct kv_bytes lacking; /* theirs and not mine */
	uint64_t digest;         /* of mine */
	unsigned silent;         /* nodes not heard of lately */
	unsigned known;  /* others of which it is known what they have */
	unsigned parted; /* members that others speak for */
	uint8_t flags;   /* KV_LOOKUP_LACKS, KV_LOOKUP_UNSURE */
};

enum kv_master_phase {
	KV_MASTER_RUNNING,
	KV_MASTER_DRAINING,
	KV_MASTER_STOPPED,
};

struct kv_master {
	struct kv_master_opts o;
	struct kv_loop *loop;
	struct kv_net *net;
	struct kv_id boot;
	struct kv_rng rng;
	struct kv_dir *dir;
	uint64_t stats[KV_MASTERSTATS];
	struct kv_bytes scratch; /* for an answer under construction */

	/* master.c */
	struct kv_listener *listeners[KV_MASTER_LISTEN_MAX];
	char bound[KV_MASTER_LISTEN_MAX][128];
	struct kv_list peers;
	unsigned n_peers;
	struct kv_list resting; /* peers that had their share of this turn */
	struct kv_defer rest;
	struct kv_timer tick;
	uint64_t tick_due;
	uint64_t stopped_ns; /* in which this process did not run */
	uint64_t started;    /* kv_master_now() then; or when the first node was
			      * back after all of them had fallen silent */
	struct kv_log_limit full_log, bad_log, stop_log, again_log;
	struct kv_log_limit twin_log;
	enum kv_master_phase phase;
	struct kv_timer drain;
	struct kv_defer stop;
	kv_master_done_fn *done;
	void *done_arg;

	/* member.c */
	struct kv_member *members[KV_NODES_MAX]; /* by slot */
	unsigned n_members;
	unsigned n_joining;
	unsigned n_missed; /* members that are hidden for what they missed */
	unsigned n_loopback;
	unsigned n_mute;
	bool is_deserted;   /* all nodes fell silent, none is back yet */
	unsigned slots_end; /* no member from here on */
	uint64_t last_serial;
	struct kv_defer sweep;

	/* suspect.c */
	unsigned n_reports; /* about all nodes */
	unsigned n_hidden;
	unsigned n_probes; /* under way */

	/* intake.c */
	struct kv_list jobs;
	struct kv_defer work;

	/* verdict.c */
	struct kv_htab opens; /* by key hash */
	struct kv_defer flush;

	/* peermasters.c */
	struct kv_peermasters others;

	/* locate.c */
	struct kv_locate_seen *seen;
	uint64_t n_wants; /* marks of all members, of this tick */

	/* missed.c */
	struct kv_pending pending;
	struct kv_generations generations;
	struct kv_log_limit missed_log;

	/* relay.c */
	struct kv_list relays;
	unsigned n_relays;
};

/* Adds to a counter. */
static inline void
kv_master_count(struct kv_master *m, enum kv_masterstat stat, uint64_t n)
{
	m->stats[stat] += n;
}

/* ---- master.c ---- */

/* Time in ns in which this process ran: what deadlines of nodes are measured
 * in. After a stop it stands where it stood before. */
uint64_t kv_master_now(struct kv_master *m);
/* A relay is over: perhaps it was the last that draining waits for. */
void kv_master_drained(struct kv_master *m);

/* ---- masterpeer.c: connections ---- */

enum kv_masterpeer_from {
	KV_MASTERPEER_STRANGER = 0, /* no HELLO yet */
	KV_MASTERPEER_REQUESTER = 1,
	KV_MASTERPEER_NODE = 2,
	KV_MASTERPEER_REFUSED = 4, /* the answer is on its way */
};

enum { /* why nothing is read from it */
	KV_MASTERPEER_PAUSE_FULL = 1,
	KV_MASTERPEER_PAUSE_REST = 2,
	KV_MASTERPEER_PAUSE_JOB = 4,
};

/* A connection that was accepted. */
struct kv_masterpeer {
	struct kv_list link; /* master->peers */
	struct kv_list rest; /* master->resting, or alone */
	struct kv_master *m;
	struct kv_conn *conn;
	struct kv_timer timer; /* until HELLO came, or the refusal was read */
	enum kv_masterpeer_from from;
	struct kv_id boot;
	struct kv_id host; /* its boot id when it told none */
	char addr[64];     /* as the kernel says */
	bool is_local;     /* from a loopback address of this host */
	uint8_t tenant_len;
	char tenant[KV_TENANT_BYTES_MAX];
	char name[KV_NAME_BYTES_MAX + 1];
	unsigned paused;
	size_t spent; /* keys, since it rested */

	/* of a node */
	struct kv_member *member; /* after JOIN, until LEAVE */
	bool has_left;
	struct kv_intake *job; /* a frame being worked on */

	/* of a requester */
	struct kv_list relays; /* that it waits for */
	unsigned n_relays;
};

/* Of a listener. */
void kv_masterpeer_accepted(void *arg, struct kv_stream *s,
			    const struct kv_peer *who);
void kv_masterpeer_pause(struct kv_masterpeer *p, unsigned why, bool pause);
/* Work for so many keys was done for it: after its share it rests until the
 * next turn, so that no one connection holds up the others. */
void kv_masterpeer_charge(struct kv_masterpeer *p, size_t keys);
void kv_masterpeer_rested(struct kv_defer *d);
/* Ends the connection and frees it. Not for the peer whose message is being
 * handled. */
void kv_masterpeer_drop(struct kv_masterpeer *p);

/* ---- member.c: nodes ---- */

#define KV_MEMBER_ADDR_MAX (KV_NAME_BYTES_MAX + 8) /* "[host]:65535" */
#define KV_MEMBER_RECORD_MAX \
	(sizeof(struct kv_node_rec) + KV_MEMBER_ADDR_MAX + KV_NAME_BYTES_MAX)
_Static_assert(KV_NODES_MAX *KV_MEMBER_RECORD_MAX < KV_TAIL_MAX / 2,
	       "all records fit in an answer, and then some");

/*
 * One session of a node, and what of it outlives the connection for a time.
 *
 *   JOINING -> LIVE -> gone
 *       ^  \   ^ |
 *       |   v  | v
 *       +-- SUSPECT
 *
 * When a node comes back with the same boot id, its new session is another
 * member with a slot of its own; the old one is shown until the new one has
 * published everything: `heir` then names that.
 */
struct kv_member {
	struct kv_master *m;
	uint64_t serial; /* no other has had it */
	uint16_t slot;
	enum kv_node_state state;
	bool is_synced;
	struct kv_masterpeer *peer; /* NULL: no session */
	struct kv_rpc rpc;          /* while there is a session */
	struct kv_member *heir;
	bool is_heir; /* of others */
	struct kv_id boot;
	struct kv_id host;
	struct kv_id pool;                 /* zero: it ends with the node */
	char addr[KV_MEMBER_ADDR_MAX + 1]; /* "host:port" to be handed out */
	char name[KV_NAME_BYTES_MAX + 1];
	uint8_t addr_len;
	uint8_t name_len;
	bool is_loopback;   /* its address means another host elsewhere */
	bool is_mute;       /* it lost its session, and may live: what it has
			     * got since was not published */
	uint8_t masters;    /* that it was given */
	uint64_t heard;     /* heartbeat; kv_master_now() */
	uint64_t progress;  /* of its sync */
	uint64_t withdrawn; /* keys, in all */
	struct kv_heartbeat room;
	struct kv_log_limit loopback_log;

	/* peermasters.c */
	uint64_t fresh_until; /* its last word counts; the loop's time */
	uint64_t listed;      /* digest of the nodes that it was told, */
	bool was_listed;      /* if it was */
	bool is_parted;       /* not fresh, but another master speaks for it */

	/* missed.c */
	bool has_missed;     /* removals: until it was told it is hidden */
	bool is_ended;       /* its process is gone */
	struct kv_call told; /* one of them */

	/* suspect.c */
	bool is_hidden;
	bool probe_wanted;
	struct kv_bytes reports; /* by hosts that cannot reach it */
	struct kv_probe probe;
	uint64_t probe_last;    /* when it began */
	uint64_t probe_at;      /* the next one not before */
	uint64_t probe_gap;     /* while it is suspect */
	uint64_t probe_stopped; /* master->stopped_ns when it began */
	struct kv_log_limit suspect_log;

	/* verdict.c */
	struct kv_list asking;   /* others' keys, for it to confirm a rival */
	unsigned n_checks;       /* CHECKs that it has not answered */
	struct kv_bytes decides; /* entries of the next DECIDE */
	bool is_deaf;            /* some of them are lost: it must sync */
	uint64_t silent_since;   /* the first CHECK that it did not answer */

	/* locate.c */
	struct kv_bytes wants; /* hashes of the next WANT */
};

/* The next member from slot *at on, which moves behind it; NULL at the end:
 *	for (at = 0; (mb = kv_member_next(m, &at));)
 * The body may close mb. */
static inline struct kv_member *
kv_member_next(const struct kv_master *m, unsigned *at)
{
	while (*at < m->slots_end)
		if (m->members[(*at)++])
			return m->members[*at - 1];
	return NULL;
}

int kv_member_join(struct kv_masterpeer *p, const struct kv_msg *msg);
int kv_member_heartbeat(struct kv_masterpeer *p, const struct kv_msg *msg);
int kv_member_leave(struct kv_masterpeer *p, const struct kv_msg *msg);
/* Its connection is lost. */
void kv_member_lost(struct kv_member *mb);
/* Everything that it has was published. */
void kv_member_synced(struct kv_member *mb);
/* It is gone: its keys are misses from now on. Frees it; its connection, if
 * there is one, stays. */
void kv_member_close(struct kv_member *mb, const char *why);
/* The same with everything that belongs to it, unasked. */
void kv_member_dead(struct kv_member *mb, const char *why);
void kv_member_set_state(struct kv_member *mb, enum kv_node_state next,
			 const char *why);
void kv_member_tick(struct kv_master *m);

/* The one that speaks for it: itself, or its heir. */
static inline struct kv_member *
kv_member_now(struct kv_member *mb)
{
	return mb->heir ? mb->heir : mb;
}

/* NULL: no such node. Never one that has an heir. */
struct kv_member *kv_member_find(struct kv_master *m, struct kv_id boot);
/* The first one after `boot` in the order of boot ids, or NULL. */
struct kv_member *kv_member_after(struct kv_master *m, struct kv_id boot);
/* Does this master not know yet all that nodes hold? */
bool kv_member_is_incomplete(struct kv_master *m);
/* Shows, or hides, what its sessions published. */
void kv_member_show(struct kv_member *mb);
/* The node does not hold this (any more), whichever session published it. */
bool kv_member_forget(struct kv_member *mb, struct kv_hash h,
		      struct kv_dir_id id);
/* May the requester dial its address? Logs why not. p NULL: anybody may. */
bool kv_member_is_for(struct kv_member *mb, const struct kv_masterpeer *p);

size_t kv_member_record_bytes(const struct kv_member *mb);
/* Writes the record with its strings; returns its length. */
size_t kv_member_record(struct kv_member *mb, uint8_t *to);
/* Appends the records of all that are for p. 0 or -ENOMEM. */
int kv_member_records(struct kv_master *m, const struct kv_masterpeer *p,
		      struct kv_bytes *out, unsigned *count);

/* ---- suspect.c: nodes that cannot be reached ---- */

int kv_suspect_report(struct kv_masterpeer *p, const struct kv_msg *msg);
/* Did a process of this host say that it cannot reach the node? */
bool kv_suspect_is_reported(struct kv_member *mb, const struct kv_id *host);
/* What was reported of the node holds for its new session. */
void kv_suspect_inherit(struct kv_member *mb, struct kv_member *old);
/* Somebody saw it fail: look for ourselves, as soon as that is due. */
void kv_suspect_probe(struct kv_member *mb);
/* There is news of it (its session broke): look soon, whatever the back-off. */
void kv_suspect_lost(struct kv_member *mb);
/* Starts the probe that is due, if one is. */
void kv_suspect_tick(struct kv_member *mb);
void kv_suspect_end(struct kv_member *mb);

/* ---- intake.c ---- */

int kv_intake_msg(struct kv_masterpeer *p, const struct kv_msg *msg);
void kv_intake_peer_lost(struct kv_masterpeer *p);
void kv_intake_work(struct kv_defer *d);

/* ---- verdict.c: two values of one key ---- */

/* The node has the key with this id, and gives it out (is_shown) or waits: an
 * enum kv_verdict, or -ENOMEM. */
int kv_verdict_add(struct kv_member *mb, struct kv_hash h, struct kv_dir_id id,
		   bool is_shown);
/* It has it no more: nothing is to be decided. */
void kv_verdict_cancel(struct kv_member *mb, struct kv_hash h,
		       struct kv_dir_id id);
/* A copy of that key is gone: if it was the last one, somebody whose verdict
 * was open need not wait for it. */
void kv_verdict_gone(struct kv_master *m, struct kv_hash h);
/* Its session ended: what it was to confirm is not confirmed. */
void kv_verdict_lost(struct kv_member *mb);
void kv_verdict_flush(struct kv_defer *d);
void kv_verdict_tick(struct kv_master *m);
void kv_verdict_fini(struct kv_master *m);

/* ---- peermasters.c: what other masters know ---- */

/*
 * A master that has not heard of a node for KV_MASTER_WORD_MS, while another
 * one has, does not answer for it: its keys are hidden, and misses are marked.
 */

/* Why a miss is no proof: KV_LOOKUP_* bits, 0 if it is one. To be asked before
 * the directory is. */
uint8_t kv_peermasters_flags(struct kv_master *m);
/* Was it heard of lately, without doubt? Else it may have what it could not
 * publish: as when the master was stopped. */
bool kv_peermasters_is_fresh(const struct kv_member *mb);
/* A node began, ended, or was hidden. */
void kv_peermasters_changed(struct kv_master *m);
/* It may be that the node does without this master by now: another one speaks
 * for it, or could do so, for all that is told here. */
bool kv_peermasters_is_apart(const struct kv_member *mb);
/* The node joined. */
void kv_peermasters_joined(struct kv_member *mb);
/* What a heartbeat says of others, and the answer to it. -EPROTO: broken. */
int kv_peermasters_heartbeat(struct kv_masterpeer *p, const struct kv_msg *msg);
/* How many nodes only others have. */
unsigned kv_peermasters_lacking(struct kv_master *m);
/* First halves of the boot ids of those lacking that are no members; how many
 * it wrote. */
unsigned kv_peermasters_absent(struct kv_master *m, uint64_t *ids,
			       unsigned max);
void kv_peermasters_fini(struct kv_master *m);

/* ---- missed.c: what was removed stays removed ---- */

/* The store of the node: its pool's identity, or its own. */
struct kv_id kv_missed_store(const struct kv_member *mb);
/* The pool that it had has a session of another member now. */
bool kv_missed_is_taken_over(const struct kv_member *mb);
/* The node is lost, or has left: it may come back with what it has. */
void kv_missed_away(struct kv_member *mb);
void kv_missed_left(struct kv_member *mb);
/* It joined: how many removals it has to be told. */
uint32_t kv_missed_joined(struct kv_member *mb);
/* Tells it the next one, if it is time for that. */
void kv_missed_tell(struct kv_member *mb);
void kv_missed_session_end(struct kv_member *mb);
/* The node of that store did not answer this. 0 or -ENOMEM. */
KV_MUST_CHECK int kv_missed_add(struct kv_master *m, struct kv_id store,
				struct kv_id boot, const struct kv_remove *body,
				const void *tail, size_t len);
void kv_missed_tick(struct kv_master *m);

struct kv_generation kv_missed_generation(const struct kv_master *m,
					  const char *tenant, size_t len);
/* One that comes after it; number 0: there cannot be one. */
struct kv_generation kv_missed_next(struct kv_master *m, const char *tenant,
				    size_t len);
/* Somebody names this one: when it is news all nodes are told. */
void kv_missed_learn(struct kv_master *m, const char *tenant, size_t len,
		     struct kv_generation heard);
/* Is this the rest of a message? */
bool kv_missed_check(struct kv_cut cut, unsigned count);
/* Learns a table that was checked. */
void kv_missed_take(struct kv_master *m, struct kv_cut cut, unsigned count);
int kv_missed_msg(struct kv_masterpeer *p, const struct kv_msg *msg);

void kv_missed_init(struct kv_master *m);
void kv_missed_fini(struct kv_master *m);

/* ---- locate.c ---- */

int kv_locate_msg(struct kv_masterpeer *p, const struct kv_msg *msg);
int kv_locate_nodes(struct kv_masterpeer *p, const struct kv_msg *msg);
/* Sends the marks that came together. */
void kv_locate_tick(struct kv_master *m);
int kv_locate_init(struct kv_master *m);
void kv_locate_fini(struct kv_master *m);

#endif
