#ifndef KV_SVC_ADMINCORE_H
#define KV_SVC_ADMINCORE_H

/* What the files of the HTTP side share. */

#include <stdbool.h>

#include "base/bytes.h"
#include "base/status.h"
#include "http/exchange.h"
#include "http/json.h"
#include "http/prom.h"
#include "svc/admin.h"
#include "wire/msg.h"

struct kv_admin {
	struct kv_master *master;
	struct kv_node *node;
	struct kv_server *server;
	bool is_draining;
};

/* adminmaster.c, adminnode.c */
extern const struct kv_exchange_route kv_adminmaster_routes[];
extern const size_t kv_adminmaster_n_routes;
extern const struct kv_exchange_route kv_adminnode_routes[];
extern const size_t kv_adminnode_n_routes;

/* ---- admin.c ---- */

/* 200 with what was built, unless status says that memory ended. Empties it. */
void kv_admin_answer(struct kv_exchange *x, const char *type, int status,
		     struct kv_bytes *body);
/* An answer of this HTTP status with Mooncake's code and the text of a
 * kv_status. */
void kv_admin_refuse(struct kv_exchange *x, unsigned http_status,
		     enum kv_status status);
/* Answers, if the daemon ends. */
bool kv_admin_is_over(struct kv_admin *a, struct kv_exchange *x);
/* The argument, or an answer that it is missing or there more than once, and
 * false. */
bool kv_admin_argument(struct kv_exchange *x, const char *name,
		       const struct kv_urlquery_text **value);
/* The argument as a name of at most so many bytes; empty when it is missing.
 * False: answered. */
bool kv_admin_tenant(struct kv_exchange *x, struct kv_urlquery_text *tenant);
/* "1" or "true". */
bool kv_admin_flag(struct kv_exchange *x, const char *name);
/* Metrics that every daemon has. */
void kv_admin_build_info(struct kv_prom *p);

/* 36 characters and a NUL. */
struct kv_admin_uuid {
	char s[37];
};
struct kv_admin_uuid kv_admin_uuid(struct kv_id id);

/* ---- adminkeys.c: what the master asks the nodes ---- */

void kv_adminkeys_list(struct kv_exchange *x, void *admin);
void kv_adminkeys_remove_all(struct kv_exchange *x, void *admin);

/* ---- adminquery.c ---- */

void kv_adminquery_one(struct kv_exchange *x, void *admin);
void kv_adminquery_batch(struct kv_exchange *x, void *admin);

#endif
