#ifndef KV_NET_ANSWER_H
#define KV_NET_ANSWER_H

/* Answers that everybody who serves requests gives alike. Both are queued, and
 * dropped where kv_conn_begin() gives NULL. */

#include "net/conn.h"

/* PING_R, with what the PING brought. */
void kv_answer_ping(struct kv_conn *c, const struct kv_msg *ping);

/* ERROR_R: the whole request failed. text, cut to what fits, is for people;
 * NULL: the status says all. */
void kv_answer_error(struct kv_conn *c, uint64_t id, int status,
		     const char *text);

#endif
