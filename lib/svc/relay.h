#ifndef KV_SVC_RELAY_H
#define KV_SVC_RELAY_H

/*
 * Questions that only the nodes can answer: REMOVE, KEYS, QUERY. A master
 * passes them on, waits two seconds for each node, and merges what comes.
 * Nodes that did not answer are `away`.
 */

#include <stdbool.h>

#include "svc/master.h"
#include "wire/msg.h"

struct kv_relay;

/* Once, deferred. The answer as a requester would get it: of the question's
 * type + 128, or ERROR_R; valid during the call. */
typedef void kv_relay_fn(void *arg, const struct kv_msg *answer);

/*
 * Asks on behalf of nobody who is connected (the HTTP server). Of `question`
 * the type, body and tail count; it is used during the call only. Any tenant.
 * NULL with errno EPROTO (malformed), EBUSY (too many are under way), ENOMEM.
 */
struct kv_relay *kv_relay_ask(struct kv_master *m,
			      const struct kv_msg *question, kv_relay_fn *fn,
			      void *arg);
/* fn is not called any more; what was asked for goes on. To be called before
 * fn ran only. */
void kv_relay_forget(struct kv_relay *r);

/* ---- for the other files of a master ---- */

struct kv_masterpeer;

int kv_relay_msg(struct kv_masterpeer *p, const struct kv_msg *msg);
/* Nobody waits for its answers any more. */
void kv_relay_peer_lost(struct kv_masterpeer *p);
/* All end, unanswered. */
void kv_relay_fini(struct kv_master *m);

#endif
