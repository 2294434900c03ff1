#ifndef KV_MEM_ROOM_H
#define KV_MEM_ROOM_H

#include "base/attr.h"

#include <stdint.h>

/*
 * What this machine and this container leave for a pool. Asked before the
 * pool is promised, and again before each part of it is faulted in: when the
 * limit is met there, the kernel does not return an error but kills.
 *
 * root: prefix of /proc and /sys, "" but for tests.
 */

/* In bytes of the smallest limit that applies; UINT64_MAX when none is known:
 * memory available, and what is left in the control groups (version 1 or 2)
 * of this process and those above them. */
uint64_t kv_room_memory(const char *root);
/* The same of another process. */
uint64_t kv_room_memory_of(const char *root, int pid);

/* Left to the process beside a pool of that size, for its index, connections
 * and stacks: a part of it that is small for small ones. */
uint64_t kv_room_spare(uint64_t bytes);

/*
 * Whether a pool of normal pages, or of huge pages of 2 MiB, can be had; with
 * normal ones, beside kv_room_spare() and a little more. 0, or -ENOMEM with one
 * line in err that says what was wanted, what there is and what to do.
 */
KV_MUST_CHECK int kv_room_check(const char *root, uint64_t bytes, char *err,
				size_t errlen);
KV_MUST_CHECK int kv_room_check_huge(const char *root, uint64_t bytes,
				     char *err, size_t errlen);

struct kv_room_file {
	int fd;
	const char *path; /* for the message */
};

/*
 * Whether the file can be made that large where it lies, and the memory for it
 * be had when that is a file system in memory. 0, -ENOSPC, or -ENOMEM.
 */
KV_MUST_CHECK int kv_room_check_file(const char *root,
				     const struct kv_room_file *file,
				     uint64_t bytes, char *err, size_t errlen);

/*
 * Memory that the process may lock, 0: this one, in bytes; UINT64_MAX: any
 * amount (no limit, or CAP_IPC_LOCK), or not known.
 */
uint64_t kv_room_lockable(const char *root, int pid);

/*
 * Whether that suffices for a pool that so many RDMA devices want locked: each
 * counts for itself. 0, or -ENOMEM as above.
 */
KV_MUST_CHECK int kv_room_check_locked(const char *root, int pid,
				       uint64_t bytes, unsigned devices,
				       char *err, size_t errlen);

#endif
