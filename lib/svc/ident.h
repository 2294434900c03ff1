#ifndef KV_SVC_IDENT_H
#define KV_SVC_IDENT_H

/* Who this process is to others. */

#include "wire/proto.h"

/* A random identity. 0 or -errno. */
int kv_ident_random(struct kv_id *out);

/* The same value in all processes that share this kernel and network name
 * space, so that an address means the same to them. 0 or -errno. */
int kv_ident_host(struct kv_id *out);

/* The same value as long as this kernel runs. root: prefix of /proc, "" but for
 * tests. 0 or -errno. */
int kv_ident_kernel(const char *root, struct kv_id *out);

#endif
