#ifndef KV_SVC_CLIENT_H
#define KV_SVC_CLIENT_H

/*
 * Inside of struct kv_client (kvpool.h), shared by client.c (life, channels),
 * client_open.c (the first contact), client_data.c (put, get, exist, views),
 * client_admin.c (remove, list, query) and client_info.c (nodes, counters).
 *
 * A call takes a channel, runs its loop until its operation is over, and puts
 * the channel back. So a call costs no thread switch in this process, and
 * concurrent calls meet in nothing but the list of idle channels.
 */

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "event/mbox.h"
#include "kvpool.h"
#include "svc/ask.h"
#include "svc/chan.h"
#include "svc/hub.h"

#define KV_CLIENT_CHANS_MAX 256 /* calls at once; more wait for one */

struct kv_client_chan {
	struct kv_list link; /* idle or busy */
	struct kv_client *c;
	struct kv_loop *loop;
	struct kv_chan *ch;
	struct kv_mbox mbox;
	struct kv_mail wake; /* close() interrupts the call */
	bool woken;          /* c->lock: wake is posted */
	bool is_closing;     /* the channel's thread */
};

struct kv_client {
	struct kv_hub hub;
	struct kv_net *net;
	struct kv_rdma *rdma;              /* NULL: none */
	struct kv_pool *pool;              /* the embedded node, or NULL */
	char node_addr[KV_HUB_ADDR_BYTES]; /* its, as others know it */
	uint32_t timeout_ms;
	unsigned forks; /* of this process, when it was opened */

	pthread_mutex_t lock; /* guards all below */
	pthread_cond_t idle_more;
	struct kv_list idle;
	struct kv_list busy;
	unsigned n_chans;
	unsigned n_waiting; /* calls that wait for a channel */
	bool closing;
	struct kv_op_crew *crew; /* made by the first submit */
};

/* Of kv_client_open() and kv_client_close(): with nothing in it. NULL: out of
 * memory. */
struct kv_client *kv_client_new(const struct kv_client_opts *o);
void kv_client_free(struct kv_client *c);

/* Takes a channel for a call of timeout_ms (0: the client's). NULL and
 * *status: -KV_ECLOSED, -KV_ETIMEOUT (all are busy), -KV_ENOMEM. */
struct kv_client_chan *kv_client_enter(struct kv_client *c, uint32_t timeout_ms,
				       uint64_t *deadline, int *status);
void kv_client_leave(struct kv_client_chan *cc);

/* Runs the channel until *done. When the client is closed meanwhile abort(op)
 * is called, once, and must lead to *done. */
void kv_client_run(struct kv_client_chan *cc, const bool *done,
		   void (*abort)(void *op), void *op);

/* Connects to the local node. 0 or -kv_status. */
int kv_client_open_local(struct kv_client_chan *cc, uint64_t deadline);

/* One question and what becomes of its answer. */
struct kv_client_question {
	struct kv_ask ask; /* set: type, build, or_local, ... */
	/* Reads the answer; 0 or -kv_status. */
	int (*take)(struct kv_client_question *q, const struct kv_msg *msg);
	bool is_done;
	int status;
	/* The local node alone was there to answer, and masters are named: what
	 * other nodes hold is not in it. */
	bool is_partial;
};

/* Asks and waits. 0 or -kv_status. */
int kv_client_ask(struct kv_client *c, struct kv_client_question *q);

/* Asks masters for the table of nodes, which goes to the hub. timeout_ms 0: the
 * client's; *young_ms: see struct kv_roll. 0 or -kv_status. */
int kv_client_ask_nodes(struct kv_client *c, uint32_t timeout_ms,
			unsigned *young_ms);

/* Whether it is a pattern for kv_client_list() and others: 0, or -KV_EINVALID
 * with one line in err that says what is wrong with it and where. */
int kv_client_check_pattern(const char *pattern, char *err, size_t err_bytes);

struct kv_client_listed {
	struct kv_key key;
	uint64_t size;
	const char *node; /* its name */
	uint16_t putter;  /* who put it, to tell from others; 0: not known */
	bool is_shared;   /* another than its putter has read it */
};

/* kv_client_list(), with more about each. fn also runs before those
 * of each page, with NULL. */
typedef int kv_client_listed_fn(void *arg, const struct kv_client_listed *l);
long kv_client_list_all(struct kv_client *c, const char *pattern,
			kv_client_listed_fn *fn, void *arg, uint64_t *undecided,
			uint32_t *away);

/* For a program that uses values once: of the local node's pool no more is
 * mapped than is used. Right after opening. */
void kv_client_map_exactly(struct kv_client *c);

/* 32 hex digits. */
void kv_client_hex(char out[33], const struct kv_id *id);

#endif
