#ifndef KV_XFER_CROSSMEM_H
#define KV_XFER_CROSSMEM_H

/*
 * Bytes between the memories of two processes of one host, by a system call of
 * this one (cross-memory attach). Only the thread that calls moves them: when
 * it has returned nothing does any more.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "base/id.h"

/* An address in another process, as the system call wants it. */
static inline void *
kv_crossmem_ptr(uint64_t addr)
{
	union {
		uintptr_t number;
		void *pointer;
	} u = { .number = (uintptr_t)addr };

	return u.pointer;
}

/*
 * Whether the process `pid` is the one with this token at this address, and
 * its memory may be reached. 0, or -errno with a text for people: -EPERM and
 * what else the system call gives, -ESRCH for another process.
 */
int kv_crossmem_try(pid_t pid, uint64_t token_addr, const struct kv_id *token,
		    const char **why);

/*
 * Moves as many bytes as both lists have (the same number), to the other
 * process when `write`. Both lists are changed. 0, -EFAULT (a part is not
 * mapped here or there), -ESRCH (the process is gone), -EPERM, other -errno.
 */
int kv_crossmem_move(pid_t pid, bool write, struct iovec *local, int n_local,
		     struct iovec *remote, int n_remote);

/* The same within this process. */
void kv_crossmem_copy(bool write, const struct iovec *local, int n_local,
		      const struct iovec *remote, int n_remote);

#endif
