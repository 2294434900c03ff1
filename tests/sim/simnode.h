#ifndef KV_SIM_SIMNODE_H
#define KV_SIM_SIMNODE_H

/*
 * One node among masters and requesters that a test plays, on the simulated
 * network: hosts "n" (the node, port 50052 and /node.sock), "m0" and "m1"
 * (masters), "r" (requesters over TCP).
 */

#include <stdbool.h>

#include "simnet.h"
#include "simpool.h"
#include "svc/node.h"
#include "wirepeer.h"

enum {
	SIMNODE_POOL = 1 << 20,
	SIMNODE_MASTERS = 2,
	SIMNODE_NODE_PID = 100,
};

struct simnode;

/* A master that knows what was published to it. */
struct simmaster {
	struct simnode *s;
	struct kv_net *net;
	struct kv_listener *listener; /* NULL: it is down */
	struct wirepeer peer;         /* the session, the last one accepted */
	bool has_peer;
	bool is_mute;      /* answers nothing */
	bool by_hand;      /* PUBLISH is left to the test */
	uint8_t verdict;   /* on all adds; 0: STAYS */
	uint8_t refuse;    /* JOIN_R says this, */
	uint32_t missed;   /* this, */
	uint8_t news[128]; /* and these generations */
	size_t news_len;
	uint16_t n_news;
	uint16_t known; /* generations in the last JOIN */
	unsigned hellos, joins, beats, publishes, syncs, sync_ends, leaves;
	struct kv_id pool;        /* of the last JOIN */
	uint8_t boot;             /* first byte of its boot id */
	struct kv_heartbeat beat; /* the last one, */
	uint8_t told[256];        /* and what it told of others */
	size_t told_len;
	struct kv_heartbeat_r beat_r; /* the answer: stamp is filled in */
	struct kv_le64 ids[8];        /* what it lists */
	struct kv_publish_ent *held;
	size_t n_held;
};

struct simnode {
	struct kv_clock clock;
	struct kv_loop *loop;
	struct simnet *sn;
	uint8_t *pool;
	struct kv_net *net;
	struct kv_node *node; /* NULL: it has crashed */
	struct kv_node_opts opts;
	void (*end)(struct simnode *s); /* as in the options */
	struct simpool file;            /* with has_file */
	bool has_file;
	bool is_done; /* kv_node_stop's callback ran */
	struct simmaster masters[SIMNODE_MASTERS];
	uint64_t next_id;
	pid_t next_pid;
};

/* A node that knows the first `masters` of them, which are down. All pages are
 * ready unless `no_pages`. */
struct simnode_opts {
	unsigned masters;
	bool no_pages;
	bool has_file; /* its pool outlives it */
	unsigned conns_max;
	/* Before it is there: may add to its options. After it has gone, before
	 * its loop and its pool have. NULL: nothing. */
	void (*begin)(struct simnode *s);
	void (*end)(struct simnode *s);
};

void simnode_open(struct simnode *s, const struct simnode_opts *opts);
/* Requesters were closed. */
void simnode_close(struct simnode *s);
/* It ends without a word. */
void simnode_crash(struct simnode *s);
/* Another one takes its place; of its pages none are ready. */
void simnode_restart(struct simnode *s);

/* Lets time pass; masters answer what they are asked meanwhile. */
void simnode_run(struct simnode *s, uint64_t ms);

/* The network of a new process, on the node's host or on "r". */
struct kv_net *simnode_new_process(struct simnode *s, bool is_local);

/* m0, m1: starts to listen, or vanishes with its connection. */
void simnode_master_up(struct simnode *s, unsigned i);
void simnode_master_down(struct simnode *s, unsigned i);
bool simnode_master_has(const struct simnode *s, unsigned i, const char *key);
/* The entry of a key, as a master would name it. */
struct kv_id simnode_hash(const char *key);
/* Answers the PUBLISH that is waiting (by_hand) with this verdict for all of
 * its adds, or fails the test. */
void simnode_master_verdict(struct simnode *s, unsigned i, uint8_t verdict);
void simnode_master_decide(struct simnode *s, unsigned i, const char *key,
			   uint64_t random, uint8_t verdict);

uint64_t simnode_stat(struct simnode *s, const char *name);

/* ---- requesters ---- */

struct simreq {
	struct simnode *s;
	struct kv_net *net;
	pid_t pid;
	struct wirepeer control;
	struct wirepeer data;
	uint64_t token;      /* of the control connection */
	uint64_t data_token; /* of the data connection; 0: none */
	uint64_t features;   /* that its HELLO says, then of the answer */
	struct kv_id boot;
};

/* A connected stream to the node, or NULL when it is refused. */
struct kv_stream *simreq_dial(struct simnode *s, struct kv_net *net,
			      bool is_unix);
/* Over TCP, with a data connection. */
void simreq_open_tcp(struct simreq *r, struct simnode *s);
/* The same; the data connection says that it has these. */
void simreq_open_with(struct simreq *r, struct simnode *s, uint64_t features);
/* Over the Unix socket, attached for writing. pid 0: a new process. */
void simreq_open_unix(struct simreq *r, struct simnode *s, pid_t pid);
/* Another Unix connection of the same process, not attached. */
void simreq_open_again(struct simreq *again, const struct simreq *r);
/* Its connections end; the process lives. */
void simreq_close(struct simreq *r);
/* Sends HELLO and takes the answer, whatever it says. */
struct wireframe *simreq_hello(struct wirepeer *p, struct simnode *s,
			       const struct kv_hello *h);

struct simput {
	const char *key;
	uint64_t size;
	const void *value; /* inline; NULL: to be filled */
};

struct simput_opts {
	uint8_t flags;
	uint32_t budget_ms; /* 0: 1000 */
	uint32_t version;
	uint64_t random; /* 0: 1000 + id */
	/* That it says; NULL: the one that the node has. */
	const struct kv_generation *generation;
};

/* Sends a PUT; its id. */
uint64_t simreq_put(struct simreq *r, const struct simput *items, unsigned n,
		    const struct simput_opts *opts);
/* The answer's status of key `i`; -1: there is none yet. It stays. */
int simreq_put_status(struct simreq *r, uint64_t id, unsigned i);
/* The status of a put that was refused as a whole; -1: no answer. */
int simreq_put_refusal(struct simreq *r, uint64_t id);

struct simgrant {
	uint64_t grant;
	uint64_t off; /* of the first extent; SHM */
	uint32_t extents;
};

/* The grant of key `i`, from whatever GRANT_R came; false: none yet. */
bool simreq_grant(struct simreq *r, uint64_t id, unsigned i,
		  struct simgrant *out);
void simreq_filled(struct simreq *r, uint64_t id, uint64_t grant, bool give_up);
/* A whole put of one key: grant, bytes, verdict; its status. */
int simreq_put_one(struct simreq *r, const char *key, const void *value,
		   size_t n);
int simreq_put_inline(struct simreq *r, const char *key, const char *value);

struct simget_opts {
	uint8_t flags;
	uint32_t inline_max;
	uint32_t budget_ms; /* 0: 1000 */
	bool is_range;
	uint64_t off, len; /* len 0: no bound */
};

struct simgot {
	int status;
	uint8_t how;
	uint64_t size;
	uint64_t pin;
	uint16_t extents;
	uint64_t ext_off, ext_len; /* the first one */
	uint32_t inline_len;
	uint8_t bytes[256]; /* inline, its start */
};

uint64_t simreq_get(struct simreq *r, const char *const *keys, unsigned n,
		    const struct simget_opts *opts);
/* Entry `i` of the answer to a GET; false: there is none yet. It stays. */
bool simreq_got(struct simreq *r, uint64_t id, unsigned i, struct simgot *out);
int simreq_get_one(struct simreq *r, const char *key,
		   const struct simget_opts *opts, struct simgot *out);
void simreq_release(struct simreq *r, uint64_t pin);
/* Says that a connection with this token is closed. */
void simreq_forget(struct simreq *r, uint64_t token);

#endif
