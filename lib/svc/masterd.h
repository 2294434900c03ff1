#ifndef KV_SVC_MASTERD_H
#define KV_SVC_MASTERD_H

/* A master on real sockets, with its HTTP side: what kvmaster is made of. */

#include <stddef.h>
#include <stdint.h>

#include "svc/master.h"

struct kv_masterd;

struct kv_masterd_opts {
	const char *listen; /* addresses or names, separated by commas; "": all
			     * addresses of this host */
	uint16_t port;      /* 0: a free one */
	/* One address or name for HTTP; "": all; NULL: the first of `listen` */
	const char *http_listen;
	uint16_t http_port; /* 0: no HTTP */
	uint64_t ttl_ns;    /* as in struct kv_master_opts */
	uint64_t grace_ns;
};

/* NULL on failure with errno set: EINVAL when `listen` is no such list or
 * `http_listen` no such address. err is
 * one line for people, or "" when that was logged where it failed. */
struct kv_masterd *kv_masterd_start(const struct kv_masterd_opts *opts,
				    struct kv_loop *loop, char *err,
				    size_t err_bytes);

/* As kv_master_stop(). */
void kv_masterd_stop(struct kv_masterd *d, kv_master_done_fn *done, void *arg);

/* After done. NULL is fine. */
void kv_masterd_free(struct kv_masterd *d);

/* Where it listens, the first address: "host:port". */
const char *kv_masterd_addr(const struct kv_masterd *d);
uint16_t kv_masterd_http_port(const struct kv_masterd *d); /* 0: none */

#endif
