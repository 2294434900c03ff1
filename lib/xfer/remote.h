#ifndef KV_XFER_REMOTE_H
#define KV_XFER_REMOTE_H

/*
 * The peers of an engine by address, each with its contact while it has one.
 * Connecting and asking is done by one thread at a time a peer (the gate), the
 * others wait for it, each until its own deadline. All functions: any thread.
 */

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/list.h"
#include "xfer/contact.h"

struct kv_railset;
struct kv_remote;
struct kv_tcp;

struct kv_remote_set {
	pthread_mutex_t lock;
	struct kv_list remotes; /* used last comes last */
	unsigned n;
	struct kv_id own;
	struct kv_contact_opts opts; /* but for the address */
};

/* Of the contacts to come; what it points to is copied or outlives the set. */
void kv_remote_init(struct kv_remote_set *set,
		    const struct kv_contact_opts *opts);
/* Closes all; nobody uses one. */
void kv_remote_fini(struct kv_remote_set *set);

/* The peer at addr ("host:port"). NULL with errno: EINVAL, ENOMEM; EBUSY: all
 * of KV_ENGINE_PEERS_MAX are in use. */
struct kv_remote *kv_remote_use(struct kv_remote_set *set, const char *addr);
void kv_remote_unuse(struct kv_remote *r);

/* Its contact, counted; connects when there is none. 0 or as
 * kv_contact_open(). */
int kv_remote_contact(struct kv_remote *r, const struct kv_wait *wait,
		      struct kv_contact **out);
/* It is of no use any more: the next call connects. */
void kv_remote_drop(struct kv_remote *r, struct kv_contact *c);

/* Its regions as they are known, counted. */
struct kv_regtable *kv_remote_table(struct kv_remote *r, struct kv_contact *c);
/* Asks for them, unless they are others than `old` already. */
int kv_remote_refresh(struct kv_remote *r, struct kv_contact *c,
		      const struct kv_regtable *old,
		      const struct kv_wait *wait);

/* kv_contact_ping() and kv_contact_note(), one at a time. */
int kv_remote_ping(struct kv_remote *r, struct kv_contact *c,
		   const struct kv_wait *wait);
int kv_remote_note(struct kv_remote *r, struct kv_contact *c,
		   const struct kv_wait *wait,
		   const struct kv_railnote_text *note);

/* The kernel refuses what it allowed before: from now on as between hosts. */
void kv_remote_demote(struct kv_remote *r, struct kv_contact *c, int err);
/* "attach: ...", "shm: ...", "rdma: ...", "tcp: ...", "self: ...", with the
 * reason. */
void kv_remote_describe(struct kv_remote *r, struct kv_contact *c, char *buf,
			size_t n);

/* A set of data connections, one thread's until it is given back; and only
 * when all went well. NULL with errno. */
struct kv_tcp *kv_remote_take_tcp(struct kv_remote *r, struct kv_contact *c);
void kv_remote_give_tcp(struct kv_remote *r, struct kv_contact *c,
			struct kv_tcp *t);

/*
 * The same of rails, connected. 0; 1: it must be TCP, for some seconds; or as
 * kv_railset_settle().
 */
int kv_remote_take_rails(struct kv_remote *r, struct kv_contact *c,
			 const struct kv_wait *wait, struct kv_railset **out);
void kv_remote_give_rails(struct kv_remote *r, struct kv_contact *c,
			  struct kv_railset *s);
/* Those that were taken have failed: for some seconds it is TCP. */
void kv_remote_rest_rails(struct kv_remote *r, struct kv_contact *c,
			  const char *why);
/* How many rails there are, or why not, is known to kv_remote_describe(). 0, or
 * why the peer cannot be reached at all. */
int kv_remote_try_rails(struct kv_remote *r, struct kv_contact *c,
			const struct kv_wait *wait);

#endif
