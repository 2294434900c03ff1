#ifndef KV_STORE_POOLHEAD_H
#define KV_STORE_POOLHEAD_H

/*
 * The head of the index file of a pool that outlives its node, as bytes. No
 * I/O: the file is memory here.
 *
 *      0  head, and at 4096 the same again: a write that was cut short, or one
 *         page that is lost, leaves one of them
 *   8192  generations of tenants
 * 131072  records, see record.h
 */

#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/id.h"
#include "base/limits.h"

enum {
	KV_POOLHEAD_FORMAT = 1, /* of the whole file */
	KV_POOLHEAD_BYTES = 131072,
	KV_POOLHEAD_LIVES_MAX = 2000000000,
	KV_POOLHEAD_TENANTS_MAX = 512,
};

struct kv_poolhead {
	struct kv_id pool;   /* the store's identity, whoever runs it */
	struct kv_id kernel; /* under which it was last used: another one means
			      * that what is in memory may be newer than what
			      * came to the file, and counts for nothing */
	uint64_t dev;        /* of the file with the bytes */
	uint64_t ino;
	uint64_t pool_bytes;
	uint64_t writes;    /* of this head; the library's */
	uint32_t life;      /* starts of a node on this pool; from 1 */
	uint32_t slots_end; /* one more than the last one's number */
	uint32_t pid;       /* of the node, for people */
};

/* Makes KV_POOLHEAD_BYTES those of a new file, but for the head. */
void kv_poolhead_init(void *file);
/*
 * Reads the head from the first `len` bytes of a file. 0; -ENOENT when they are
 * all zero or none: nothing was written yet; -EPROTONOSUPPORT: of a format that
 * this program does not know, *format says which; -EBADMSG: anything else.
 */
KV_MUST_CHECK int kv_poolhead_parse(const void *file, size_t len,
				    struct kv_poolhead *out, uint32_t *format);
/* Writes it, twice. */
void kv_poolhead_build(void *file, struct kv_poolhead *h);

/* ---- generations of tenants ---- */

struct kv_poolhead_tenant {
	uint64_t number; /* of its generation */
	uint64_t random;
	uint32_t epoch; /* records of earlier ones are removed */
	uint8_t len;    /* from 1 */
	char name[KV_TENANT_BYTES_MAX];
};

/* Entry i of KV_POOLHEAD_TENANTS_MAX: 1; 0 when it is empty; -EBADMSG. */
int kv_poolhead_tenant_get(const void *file, unsigned i,
			   struct kv_poolhead_tenant *out);
/* Finds the one of that name: 1, 0, or -EBADMSG: any entry is damaged, so
 * that nobody knows. */
int kv_poolhead_tenant_find(const void *file, const void *name, size_t len,
			    struct kv_poolhead_tenant *out);
/* Adds it or takes the place of the one of that name; the old one stays until
 * the new one is whole. 0, or -ENOSPC. */
KV_MUST_CHECK int kv_poolhead_tenant_put(void *file,
					 const struct kv_poolhead_tenant *t);

/* Nothing of the earlier generations is left: damaged entries are free. */
void kv_poolhead_tenant_mend(void *file);

#endif
