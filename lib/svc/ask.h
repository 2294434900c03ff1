#ifndef KV_SVC_ASK_H
#define KV_SVC_ASK_H

/* A request to the first master that answers; when none does, and or_local is
 * set, to the local node; with local_only, to that alone. One that failed is
 * asked when there is no other; else it is but dialled again, now and then, and
 * the call does not wait for that. Nor does it for one that is silent when
 * another one is there, or there again. */

#include "svc/chan.h"

struct kv_ask {
	/* Set by the caller: */
	enum kv_msg_type type;
	bool or_local;
	bool local_only;
	bool is_extra;     /* another one has answered, and that will do: none
			    * that failed is waited for */
	unsigned skip;     /* bits of masters that are not asked */
	uint64_t deadline; /* of the whole, ns */
	uint64_t try_ns;   /* what one of them may take; 0: a second. So long
			    * only while it answers PINGs beside the request:
			    * who is silent is given up in less */
	/* Fills body and tail (kv_conn_tail); 0 or -errno, which ends it. Runs
	 * once for each one that is asked. */
	int (*build)(struct kv_ask *ask, struct kv_conn *c, void *body);
	/* Once, deferred: 0 and the answer, or -kv_status and NULL. */
	void (*fn)(struct kv_ask *ask, int status, const struct kv_msg *msg);

	/* Set by kv_ask_start: */
	struct kv_chan *ch;
	struct kv_call call;
	struct kv_call ping;
	struct kv_timer beside; /* the next ping, or look at the others */
	struct kv_link_wait wait;
	struct kv_defer defer;
	struct kv_link *link; /* whom it asks now; NULL: nobody */
	int master;           /* which that is; KV_HUB_MASTERS_MAX: local */
	unsigned tried;       /* bits */
	int status;           /* the last failure */
	bool from_local;      /* out: the local node answered, no master */
	bool starting;        /* kv_ask_start has not returned yet */
	bool over;            /* ended while starting: told in the next turn */
};

void kv_ask_start(struct kv_chan *ch, struct kv_ask *ask);
/* fn is not called any more. Harmless when it is over or never began. */
void kv_ask_cancel(struct kv_ask *ask);

#endif
