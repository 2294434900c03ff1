#ifndef KV_MEM_COPIER_H
#define KV_MEM_COPIER_H

#include <stddef.h>

/*
 * Threads that share the copies of a call. One thread moves 10 to 12 GB/s, a
 * machine several times as much; but to wake a thread costs as much as copying
 * some hundred KiB, so only large calls are shared. The caller copies along,
 * and whoever is free takes the next part: a helper that wakes late delays
 * nobody.
 */
#define KV_COPIER_THREADS_MAX 64

struct kv_copier;

struct kv_copier_piece {
	void *dst;
	const void *src;
	size_t len;
};

/* How many threads a process should give to it that did not say: half of the
 * CPUs that it may run on, at most 4. */
unsigned kv_copier_threads_usual(void);

/* For calls of `threads` threads, the calling one included; the others start
 * when they are first needed. NULL: no memory. */
struct kv_copier *kv_copier_new(unsigned threads);
/* Nobody is in kv_copier_run(). NULL is fine. */
void kv_copier_free(struct kv_copier *c);

/* Copies all pieces, of which none touches another. Nothing is touched any more
 * when it returns. c NULL: by the calling thread alone. Any thread, several at
 * once. */
void kv_copier_run(struct kv_copier *c, const struct kv_copier_piece *pieces,
		   size_t n);

#endif
