#ifndef KV_TEST_MASTERRIG_H
#define KV_TEST_MASTERRIG_H

/*
 * One master on a virtual clock, and around it nodes and requesters that are
 * played frame by frame. There is one rig at a time. Everything that fails to
 * come fails the test. Peers and nodes are static variables of the tests: they
 * are closed at the end.
 */

#include "base/status.h"
#include "event/loop.h"
#include "simnet.h"
#include "store/key.h"
#include "svc/master.h"
#include "wirepeer.h"

#define RIG_MASTER "10.0.0.1" /* its host */

/* A connection to the master, and the process behind it. */
struct rigpeer {
	struct wirepeer w;
	struct kv_list link; /* of all */
	struct kv_net *net;
	pid_t pid;
	struct kv_stream *stream; /* that came, not yet taken */
	int status;               /* of the dial */
	struct kv_id boot;
	struct kv_id host;
	uint64_t next_id;
};

/* A node: also a port that answers probes. */
struct rignode {
	struct rigpeer p;
	struct kv_list link; /* of all */
	unsigned port;
	struct kv_listener *listener;
	struct kv_list probes; /* connections to the port */
	unsigned probed;
	bool is_frozen;    /* the port takes connections, nobody answers */
	bool beats;        /* rig_ms() sends its heartbeats */
	uint8_t masters;   /* that JOIN says it was told of */
	struct kv_id pool; /* as JOIN says */
	uint32_t missed;   /* as JOIN_R said */
	struct kv_heartbeat room;
};

struct rig {
	struct kv_clock clock;
	struct kv_loop *loop;
	struct simnet *sn;
	struct kv_net *net; /* the master's */
	pid_t pid;
	struct kv_master *m;
	struct kv_list peers;
	struct kv_list nodes;
	unsigned beat_in_ms;
};

extern struct rig rig;

/* Fixtures of cmocka. At the start the first ttl is over, so a miss is one. */
int rig_setup(void **state);
int rig_teardown(void **state);
#define RIG_TEST(f) cmocka_unit_test_setup_teardown(f, rig_setup, rig_teardown)
/* For tests that need other options: instead of rig_setup. */
void rig_open(const struct kv_master_opts *opts);

/* Lets so much time pass. */
void rig_ms(unsigned ms);
/* The master does not run for so long. */
void rig_stop(unsigned ms);

/* ---- any peer ---- */

/* Connects, from a process of its own on this host; no HELLO yet. */
void rig_dial(struct rigpeer *p, const char *host);
/* Says HELLO; returns the status of the answer. */
int rig_hello(struct rigpeer *p, enum kv_role role);
void rig_requester(struct rigpeer *p, const char *host);
void rig_close(struct rigpeer *p);
/* Sends a request; its id. */
uint64_t rig_send(struct rigpeer *p, enum kv_msg_type type, const void *body,
		  const void *tail, size_t tail_len);
/* Waits for the frame of this type. To be freed. */
struct wireframe *rig_wait(struct rigpeer *p, enum kv_msg_type type);
/* Sends and waits for the answer. */
struct wireframe *rig_ask(struct rigpeer *p, enum kv_msg_type type,
			  const void *body, const void *tail, size_t tail_len);
/* The master has dropped it, after ERROR_R or not. */
void rig_expect_dropped(struct rigpeer *p);

/* ---- nodes ---- */

/* A process that listens on host:port. boot: the first byte of its boot id. */
void rig_listen(struct rignode *n, const char *host, unsigned port,
		uint8_t boot);
void rig_unlisten(struct rignode *n);
/* And has said HELLO. */
void rig_node(struct rignode *n, const char *host, unsigned port, uint8_t boot);
/* JOIN with this address (NULL: ":port"); the status. */
int rig_join(struct rignode *n, const char *addr);
/* rig_node, JOIN, and it has nothing. */
void rig_up(struct rignode *n, const char *host, unsigned port, uint8_t boot);
/* It lost its connection to the master, and makes another one. */
void rig_again(struct rignode *n);
/* kill -9 */
void rig_kill(struct rignode *n);

struct kv_id rig_hash(unsigned key);
struct kv_publish_ent rig_ent(unsigned key, uint64_t random, uint32_t version);
/* The verdict on one key. */
int rig_put(struct rignode *n, unsigned key, uint64_t random, uint32_t version);
/* Of a key whose text is one letter. */
struct kv_id rig_letter(char k);
void rig_letter_put(struct rignode *n, char k, uint64_t random);
void rig_gone(struct rignode *n, unsigned key, uint64_t random);
/* PUBLISH; verdicts of the answer, or NULL if its status is not 0. To be
 * freed. */
struct wireframe *rig_publish(struct rignode *n, unsigned flags,
			      const struct kv_publish_ent *ents, unsigned added,
			      unsigned gone);
void rig_beat(struct rignode *n);
/* Answers the next CHECK: each key is there, or not. Returns how many. */
unsigned rig_confirm(struct rignode *n, bool is_there);
/* Answers the PING that comes after an answer to REMOVE by pattern, which tells
 * that all withdrawals have come. */
void rig_pong(struct rignode *n);
/* Waits for REMOVE of all (pattern "") or of what matches, and answers;
 * rig_pong too, where something was removed. */
void rig_serve_removal(struct rignode *n, const char *pattern,
		       unsigned removed);
/* Waits for a DECIDE of one key, checks key and id; the verdict. */
int rig_decided(struct rignode *n, unsigned key, uint64_t random);
unsigned rig_decides(struct rignode *n); /* DECIDE frames that came */

/* ---- requesters ---- */

/* LOOKUP with EXIST. */
bool rig_exists(struct rigpeer *p, unsigned key);
/* LOOKUP: a bit for each owner, by the first byte of its boot id. */
unsigned rig_owners(struct rigpeer *p, unsigned key);
bool rig_is_incomplete(struct rigpeer *p);
/* KV_LOOKUP_* of an answer to LOOKUP, of either kind. */
unsigned rig_flags(struct rigpeer *p);
/* Are owners left out? */
bool rig_hides(struct rigpeer *p);
void rig_report(struct rigpeer *p, const struct rignode *n, bool reachable);
/* State of the node in NODES; 0: it is not there. */
int rig_state(struct rigpeer *p, const struct rignode *n);
uint64_t rig_stat(struct rigpeer *p, const char *name);

#endif
