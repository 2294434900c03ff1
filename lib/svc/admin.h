#ifndef KV_SVC_ADMIN_H
#define KV_SVC_ADMIN_H

/*
 * The HTTP side of the daemons: health, metrics and, of a master, questions
 * about the pool, under the paths and with the words of Mooncake's programs.
 * kvmaster(8) and kvclient(8) describe it.
 */

#include <stddef.h>
#include <stdint.h>

struct kv_admin;
struct kv_loop;
struct kv_master;
struct kv_node;

struct kv_admin_opts {
	struct kv_loop *loop;
	const char *host; /* where to listen; NULL: on all addresses */
	uint16_t port;    /* 0: any */
	/* One of the two, which outlives it. */
	struct kv_master *master;
	struct kv_node *node;
};

/* Listens. NULL on failure with errno set and one line in err. */
struct kv_admin *kv_admin_new(const struct kv_admin_opts *opts, char *err,
			      size_t err_bytes);
/* NULL is fine. */
void kv_admin_free(struct kv_admin *a);

uint16_t kv_admin_port(const struct kv_admin *a);

/* The daemon ends: from now on /health says so, and what the pool would have
 * to answer is refused. NULL is fine. */
void kv_admin_drain(struct kv_admin *a);

#endif
