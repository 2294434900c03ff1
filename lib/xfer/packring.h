#ifndef KV_XFER_PACKRING_H
#define KV_XFER_PACKRING_H

/*
 * Memory that NICs know, through which bytes are copied that lie in pieces too
 * small for a work request each, or in memory that NICs do not know and that is
 * not worth to be registered. Spans of it are taken for work under way, one
 * behind the other and round again, and given back in any order. There is one
 * for a process, made when it is first needed; nothing is kept for a peer.
 * Taking and giving back neither allocate nor ask the kernel.
 */

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "xfer/rdmaregion.h"

enum {
	/* Of several calls at a time, each what 400 Gbit/s move in 40 us. It is
	 * smaller, down to the least, if the limit of locked memory does not
	 * allow for that. */
	KV_PACKRING_BYTES = 8 << 20,
	KV_PACKRING_BYTES_LEAST = 1 << 20,
	KV_PACKRING_SPANS =
		4, /* of the greatest length, that it has room for */
	KV_PACKRING_SPAN_BYTES = KV_PACKRING_BYTES / KV_PACKRING_SPANS,

	/* A piece of less is not worth a work request of its own. */
	KV_PACKRING_SMALL_BYTES = 16 << 10,
	/* Memory in one stretch of so much is not worth a copy: to register it
	 * costs some ten microseconds a time and NIC. */
	KV_PACKRING_LARGE_BYTES = 256 << 10,
};

struct kv_packring {
	struct kv_rdma *rdma; /* NULL: there are no NICs */
	enum kv_rdmaregion_use use;
	pthread_mutex_t lock;
	bool is_being_made;
	uint64_t again_at;            /* it could not be made; not before */
	struct kv_rdmaregion *region; /* NULL: it is not made */
	char *base;
	size_t bytes;
	struct kv_list spans; /* that are taken, by address */
	struct kv_list *last; /* behind which room is looked for */
};

struct kv_packring_span {
	struct kv_packring *from; /* NULL: none is taken */
	char *at;
	size_t bytes;
	struct kv_list link;
};

void kv_packring_init(struct kv_packring *r, struct kv_rdma *rdma,
		      enum kv_rdmaregion_use use);
/* All spans were given back. */
void kv_packring_fini(struct kv_packring *r);

/* How long a span may be; makes it, if need be. 0: there is none for now;
 * -errno: it could not be made, which is not tried again for a while. Any
 * thread, as all that follows. */
long kv_packring_begin(struct kv_packring *r);
/* So many bytes, > 0, which lie in their page as `like` does in its own: copies
 * from and to addresses a little apart in that take five times as long. False:
 * it has no room now. */
bool kv_packring_take(struct kv_packring *r, const void *like, size_t bytes,
		      struct kv_packring_span *s);
/* Less will do: at least a byte, and no more than it has. */
void kv_packring_cut(struct kv_packring_span *s, size_t bytes);
/* No NIC reaches it any more. Harmless when none is taken. */
void kv_packring_give(struct kv_packring_span *s);

#endif
