#ifndef KV_STORE_TENANTS_H
#define KV_STORE_TENANTS_H

/*
 * Tenants by number, from 0 up, and their epochs: when one's epoch changes, all
 * that came to it before is outdated, in no time.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/htab.h"

struct kv_tenants_one;

struct kv_tenants {
	struct kv_htab names;
	struct kv_tenants_one **list; /* by number */
	unsigned count;
};

/* With the tenant "default", number 0. 0 or -ENOMEM; fini is due in any case.
 */
int kv_tenants_init(struct kv_tenants *t);
void kv_tenants_fini(struct kv_tenants *t);

/* The number of that name, of at most KV_TENANT_BYTES_MAX; it may be a new
 * one. len 0: "default". -ENOMEM, -ENOSPC (65,535 known). */
int kv_tenants_add(struct kv_tenants *t, const void *name, size_t len);
/* Its number, or -ENOENT. */
int kv_tenants_find(const struct kv_tenants *t, const void *name, size_t len);
/* Ends with a NUL. */
const char *kv_tenants_name(const struct kv_tenants *t, unsigned number,
			    size_t *len);

/* From 0; goes round after four thousand million changes. */
uint32_t kv_tenants_epoch(const struct kv_tenants *t, unsigned number);
void kv_tenants_outdate(struct kv_tenants *t, unsigned number);
/* As an earlier process left it, before anything comes to the tenant. */
void kv_tenants_resume(struct kv_tenants *t, unsigned number, uint32_t epoch);
/* Was it before that one? */
static inline bool
kv_tenants_is_earlier(uint32_t epoch, uint32_t than)
{
	return (int32_t)(epoch - than) < 0;
}

#endif
