#ifndef KV_SVC_LINKCORE_H
#define KV_SVC_LINKCORE_H

/* The inside of a link: link.c has its connections, link_rails.c the queue
 * pairs beside the data connection, link_fast.c a way for requests beside the
 * control connection. */

#include "svc/link.h"

/* link.c: the end is up, and who waits for it is told. */
void kv_link_is_up(struct kv_link_end *e);
/* link.c: a stream for it is here; or not, and why (-errno). */
void kv_link_connected(void *arg, struct kv_stream *s, int status);
/* link.c: what the end has is closed; calls fail. */
void kv_link_end_close(struct kv_link_end *e, int status);

/* link_rails.c. The other side of the data connection answered, with these
 * features. True: rails are waited for, and kv_link_is_up() comes. */
bool kv_link_rails_begin(struct kv_link *l, uint64_t features);
/* Of a link that is up, to be used. True: there are none, and nothing goes
 * without, so they are waited for as above. */
bool kv_link_rails_await(struct kv_link *l);
/* Takes what is said of them, and tells whether it is fine. False: that is
 * another message. */
bool kv_link_rails_take(struct kv_link *l, const struct kv_msg *msg,
			bool *is_good);
/* The data connection goes: nothing reaches memory by them any more. */
void kv_link_rails_end(struct kv_link *l);

/* link_fast.c. There are rails: dials, if that is of use. */
void kv_link_fast_begin(struct kv_link *l);
/* It is up. */
void kv_link_fast_up(struct kv_link *l);
/* The link goes, or the rails. */
void kv_link_fast_end(struct kv_link *l, int status);

#endif
