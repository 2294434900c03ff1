#ifndef KV_SVC_FLOORCORE_H
#define KV_SVC_FLOORCORE_H

/* What the floors share: memory, sockets and processes as bare as can be. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "store/key.h"

uint64_t kv_floor_io_now(void);

struct kv_seg;

/* Private memory, aligned to huge pages and faulted in. Forks do not get it.
 * NULL, errno. */
char *kv_floor_io_map(size_t bytes);
void kv_floor_io_unmap(char *p, size_t bytes);
/* Shared memory as a pool has it, faulted in. NULL: with a line in err. */
struct kv_seg *kv_floor_io_share(size_t bytes, bool hugepages, char *err,
				 size_t errlen);

/* Until there is input. */
int kv_floor_io_wait(int epoll);
/* The same as event/loop.c does it: awake after a wait that was short. */
int kv_floor_io_wait_awake(int epoll, bool *is_brisk);
/* Exactly n bytes, by non-blocking reads and epoll as a daemon does it. Where
 * nothing can be there yet, waiting first saves a read in vain. */
int kv_floor_io_take(int epoll, int fd, void *buf, size_t n);
int kv_floor_io_give(int fd, const void *buf, size_t n);
/* An epoll descriptor that waits for input of fd. */
int kv_floor_io_watch(int fd);

/* A connected pair of TCP sockets over loopback. */
int kv_floor_io_pair(int fds[2]);
int kv_floor_io_listen(uint16_t *port);
int kv_floor_io_dial(const char *addr, uint16_t port);
void kv_floor_io_nodelay(int fd);

/* Hashes of keys, by open addressing with linear probing; all zero is a free
 * place. Memory is read ahead of the keys of a call. It ends with the process.
 */
struct kv_floor_table {
	struct kv_hash *at;
	uint64_t mask;
};

/* With room for so many, faulted in. 0 or -errno. */
int kv_floor_table_init(struct kv_floor_table *t, uint64_t keys);
/* They are not there yet. */
void kv_floor_table_add(const struct kv_floor_table *t, const struct kv_hash *h,
			size_t n);
/* found[i]: 1 or 0. */
void kv_floor_table_find(const struct kv_floor_table *t,
			 const struct kv_hash *h, size_t n, uint8_t *found);

/* As fork(); the child ends when this process does. */
pid_t kv_floor_io_fork(void);
/* Harmless when pid is not above 0. */
void kv_floor_io_end(pid_t pid);

#endif
