#ifndef KV_XFER_NOTE_H
#define KV_XFER_NOTE_H

/* The messages that came and were not fetched yet: a bounded queue between the
 * thread that serves and those that ask. */

#include <pthread.h>
#include <stddef.h>

#include "base/list.h"
#include "kvpool.h"

#define KV_NOTE_NAME_BYTES_MAX (sizeof(((struct kv_note_in *)0)->name) - 1)

struct kv_note_queue {
	pthread_mutex_t lock;
	struct kv_list notes;
	size_t n, bytes;
};

void kv_note_init(struct kv_note_queue *q);
void kv_note_fini(struct kv_note_queue *q);

/* Copies; the name is cut to KV_NOTE_NAME_BYTES_MAX. -EBUSY: full; -ENOMEM. */
int kv_note_push(struct kv_note_queue *q, const void *name, size_t name_len,
		 const void *text, size_t text_len);

/* Moves up to max to out, oldest first; returns how many. */
size_t kv_note_pop(struct kv_note_queue *q, struct kv_note_in *out, size_t max);

#endif
