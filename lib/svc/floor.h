#ifndef KV_SVC_FLOOR_H
#define KV_SVC_FLOOR_H

/*
 * What the machine itself can do, for kvbench to stand beside: the same bytes
 * moved by the barest means, with the same kinds of pages and sockets.
 * Functions that return an int64_t give ns taken, or -errno.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct kv_floor;

/*
 * `bytes` of private memory (huge pages where they are to be had) and as much
 * of shared memory of a pool's kind, both faulted in. NULL, errno.
 */
struct kv_floor *kv_floor_new(size_t bytes);
void kv_floor_free(struct kv_floor *f);

/* The private memory: kvbench uses it for its values, too. */
char *kv_floor_private(struct kv_floor *f);

/* Copies [off, off + len) from one to the other, by the faster of memcpy and
 * kv_copy (chosen when the floor was made). Any thread. */
void kv_floor_copy(const struct kv_floor *f, bool into_shared, size_t off,
		   size_t len);

/*
 * A chain of bare epoll processes: this one sends `ask` bytes over a Unix
 * socket (or TCP), the next forwards `hop` bytes over TCP, and back come `back`
 * bytes. hop 0: two processes only. One round; the first call starts the
 * processes.
 */
struct kv_floor_chain {
	int fd;
	int epoll;
	int pids[2];
	char *buf;
	size_t ask;
	size_t hop;
	size_t back;
};
int kv_floor_chain_open(struct kv_floor_chain *c, bool over_tcp, size_t ask,
			size_t hop, size_t back);
int64_t kv_floor_chain_round(struct kv_floor_chain *c);
void kv_floor_chain_close(struct kv_floor_chain *c);

/* One plain TCP stream over loopback to a process that reads all bytes into
 * cold memory. */
int64_t kv_floor_stream(struct kv_floor *f);

#endif
