#ifndef KV_NET_UNIXSOCK_H
#define KV_NET_UNIXSOCK_H

/*
 * The file of a listening Unix socket. Who has it holds a lock on PATH.lock
 * until its end, so what a killed daemon left behind is known to be stale and
 * is replaced, a live one never is, and of two that start at once one wins.
 */

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/limits.h"

struct kv_unixsock {
	int lock_fd;
	dev_t dev; /* the file that bind made */
	ino_t ino;
	char path[KV_SOCKPATH_BYTES_MAX + 1];
};

/*
 * The bound socket, not yet listening, non-blocking; or -errno, logged:
 * -EADDRINUSE for a live one ("already running, pid N"), -EEXIST when the file
 * is no socket. Mode 0600; with a group (not -1) its, and 0660. The folder of
 * kv_sockpath_default() is made if missing, and refused (-EPERM) when somebody
 * else owns it or may write to it; another one must be there. "@NAME" is an
 * abstract name: no file, and the listener lets in the same user and root. The
 * caller closes the descriptor, after unbind.
 */
int kv_unixsock_bind(struct kv_unixsock *u, const char *path, gid_t group);

/* Whether the file is still the one that bind made. Abstract names are. */
bool kv_unixsock_is_there(const struct kv_unixsock *u);

/* When it is not: bind once more, with the lock that is held if that was not
 * removed too. The new socket, or -errno, logged. The old one is of no use. */
int kv_unixsock_rebind(struct kv_unixsock *u, gid_t group);

/* Removes the file, if it is still the one that bind made, and the lock. */
void kv_unixsock_unbind(struct kv_unixsock *u);

#endif
