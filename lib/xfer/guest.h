#ifndef KV_XFER_GUEST_H
#define KV_XFER_GUEST_H

/*
 * The processes of this host that reach this engine's memory by themselves,
 * each with its fence. A guest stays until it says that it left or its process
 * is gone, whatever becomes of its connection. All functions: any thread.
 */

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"

struct kv_guest;

struct kv_guest_set {
	pthread_mutex_t lock;
	pthread_cond_t flipped;
	struct kv_list guests;
	unsigned n;
	uint64_t epoch;
	bool flipping;
};

void kv_guest_init(struct kv_guest_set *set);
/* Frees all of them. */
void kv_guest_fini(struct kv_guest_set *set);

/* A guest with a fence. The pidfd (of its process) is duplicated. *fd: of the
 * fence, to be passed on, valid as long as the guest. -EBUSY: there are
 * KV_ENGINE_GUESTS_MAX; -errno. */
int kv_guest_add(struct kv_guest_set *set, int pidfd, struct kv_guest **out,
		 int *fd);
/* Its connection is closed: nobody will ask for it by name any more. */
void kv_guest_let_go(struct kv_guest_set *set, struct kv_guest *g);

/* To be read before the table that it stands for. */
uint64_t kv_guest_epoch(struct kv_guest_set *set);

/* Returns when no guest uses a table any more that was made before the call:
 * 0, or -ETIMEDOUT. */
int kv_guest_flip(struct kv_guest_set *set, uint64_t deadline_ns);

#endif
