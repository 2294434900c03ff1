#ifndef KV_SVC_FLOOR_H
#define KV_SVC_FLOOR_H

/*
 * What the machine itself can do, for kvbench to stand beside: the same bytes
 * moved by the barest means, with the same kinds of pages and sockets. The
 * processes that it takes are forks of this one and end with it.
 *
 * Functions that return an int64_t give the ns taken, or -errno; those that
 * return an int 0 or -errno. After a failed open, close is to be called, too.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "kvpool.h"

#define KV_FLOOR_THREADS_MAX 64

/* ---- copies ---- */

struct kv_floor;

/* Pieces of private memory (huge pages where they are to be had) and of shared
 * memory, had the same way as a pool's. */
struct kv_floor_opts {
	size_t bytes; /* of a piece */
	size_t pieces;
	bool hugepages; /* the pool is of hugetlbfs */
};

/* All faulted in. NULL: with a line in err that says what to do. */
struct kv_floor *kv_floor_new(const struct kv_floor_opts *o, char *err,
			      size_t errlen);
void kv_floor_free(struct kv_floor *f);

/* The private memory: kvbench uses it for its values, too. */
char *kv_floor_private(struct kv_floor *f);

/* Copies all pieces from one to the other. */
struct kv_floor_copies {
	bool into_shared;
	bool by_libc;       /* memcpy(), not kv_copy(): which is faster differs
			     * with direction, size and threads */
	const uint32_t *to; /* piece i goes to place to[i]; NULL: i */
	unsigned threads;
};
int64_t kv_floor_copy(const struct kv_floor *f,
		      const struct kv_floor_copies *how);

/* ---- the system call that raw transfers are made of ---- */

/* Writes each local piece to the remote one of the same number and length, in
 * the process `pid`. */
struct kv_floor_write {
	int pid;
	const struct iovec *local;
	const struct iovec *remote;
	size_t n;
	unsigned threads;
};
int64_t kv_floor_write(const struct kv_floor_write *w);

/* ---- chains ---- */

/* Bytes of the messages of a call for one key, or for n keys. */
struct kv_floor_hops {
	bool is_tcp;   /* the first hop: TCP, not a Unix socket */
	bool is_awake; /* all wait as our loops do: after a wait that was
			* short they look for input, and do not sleep at once */
	size_t ask;
	size_t hop;      /* over TCP to a third process; 0: there is none */
	size_t hop_back; /* and back */
	size_t back;
};
struct kv_floor_hops kv_floor_hops_put(size_t keys, size_t key_len,
				       size_t bytes);
struct kv_floor_hops kv_floor_hops_get(size_t key_len, size_t bytes);
struct kv_floor_hops kv_floor_hops_exist(size_t keys);

/* Bare epoll processes that pass on as many bytes the same way. */
struct kv_floor_chain {
	struct kv_floor_hops hops;
	bool is_brisk; /* the last wait was short */
	int fd;
	int epoll;
	int pids[2];
	char *buf;
};
int kv_floor_chain_open(struct kv_floor_chain *c,
			const struct kv_floor_hops *hops);
int64_t kv_floor_chain_round(struct kv_floor_chain *c);
/* A zeroed one is fine. */
void kv_floor_chain_close(struct kv_floor_chain *c);

/* ---- a stream ---- */

/* Where a stream over loopback is one beside it: whether what goes to
 * "host:port" does not leave this host. */
bool kv_floor_stream_is_loopback(const char *addr);

/*
 * One TCP connection to a process that has, like this one, so many bytes of
 * memory, of which each transfer takes the next ones: they are never in a
 * cache. Of a large pool 4 GiB are enough for that, or an eighth of what is
 * left of this host's memory.
 */
struct kv_floor_stream {
	int fd;
	int pid;
	char *buf;
	size_t bytes;
	size_t at;
};
/* netns: the far process lives there and is reached at addr (IPv4); -1: over
 * loopback. */
int kv_floor_stream_open(struct kv_floor_stream *s, size_t bytes, int netns,
			 const char *addr);
/* There and, by a byte that comes back, known to be; or from there to here. */
int64_t kv_floor_stream_give(struct kv_floor_stream *s, uint64_t bytes);
int64_t kv_floor_stream_take(struct kv_floor_stream *s, uint64_t bytes);
void kv_floor_stream_close(struct kv_floor_stream *s);

/* ---- a bare directory ---- */

/* Writes key i, of key_len bytes. */
typedef void kv_floor_key_fn(void *arg, uint64_t i, char *key);

struct kv_floor_probe_opts {
	uint64_t held; /* keys that it knows: those from `first` on */
	uint64_t first;
	size_t key_len;
	size_t ask_max; /* keys of one question */
	kv_floor_key_fn *key;
	void *arg;
};

/* Hashes are sent over TCP to a process that looks them up in a plain hash
 * table, so many at once that memory is read ahead. */
struct kv_floor_probe {
	int fd;
	int epoll;
	int pid;
	size_t max;
};
int kv_floor_probe_open(struct kv_floor_probe *p,
			const struct kv_floor_probe_opts *o);
/* found[i]: 1 or 0. */
int64_t kv_floor_probe_ask(struct kv_floor_probe *p, const struct kv_key *keys,
			   size_t n, uint8_t *found);
void kv_floor_probe_close(struct kv_floor_probe *p);

/* ---- bare puts of many small values ---- */

struct kv_floor_publish_opts {
	size_t keys;     /* of a call */
	unsigned flight; /* calls at once */
	size_t key_len;
	size_t bytes; /* of a value */
	uint64_t first;
	uint64_t keys_max;
	kv_floor_key_fn *key;
	void *arg;
};

/*
 * Three processes, this one among them: calls with keys and values go over a
 * Unix socket to one that hashes and keeps the keys, in memory that is new,
 * and copies the values to memory that was faulted in before; its hashes go
 * over TCP to one that keeps them, too, and then the answers back. Keys are
 * those from `first` on, for so long, or until there are keys_max.
 */
int64_t kv_floor_publish(const struct kv_floor_publish_opts *o, uint64_t ns,
			 uint64_t *keys);

#endif
