#ifndef KV_EVENT_OP_H
#define KV_EVENT_OP_H

/*
 * Calls in the background: what kvpool.h's submit functions return. A crew is
 * a bounded set of threads, started as work comes; each runs one op at a time
 * to its end. The ops of one crew start in order.
 */

#include "kvpool.h"

struct kv_op_crew;

/* At most `threads` of them, at most `queue` ops waiting. NULL: no memory. */
struct kv_op_crew *kv_op_crew_new(const char *name, unsigned threads,
				  unsigned queue);
/* Waits for what runs; what waits ends with -KV_ECLOSED. Ops stay valid until
 * waited for. NULL is fine. */
void kv_op_crew_free(struct kv_op_crew *crew);

/* run(arg) gives the result; drop(arg), if not NULL, frees arg afterwards, also
 * when run was never called. NULL (drop was called): no memory, or the queue
 * is full. */
struct kv_op *kv_op_start(struct kv_op_crew *crew, long (*run)(void *arg),
			  void (*drop)(void *arg), void *arg);

#endif
