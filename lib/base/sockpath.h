#ifndef KV_BASE_SOCKPATH_H
#define KV_BASE_SOCKPATH_H

#include "base/attr.h"

/* Where root's kvclient listens. */
#define KV_SOCKPATH_SYSTEM "/run/kvpool/kvclient.sock"

/*
 * Where kvclient listens, and its users look, if nobody says otherwise:
 *
 *   root           KV_SOCKPATH_SYSTEM
 *   anybody else   $XDG_RUNTIME_DIR/kvpool/kvclient.sock, if that variable is
 *                  an absolute path, else /tmp/kvpool-UID/kvclient.sock
 *
 * /tmp is everybody's: who listens there must own the folder, and who connects
 * must look at the credentials of the other side.
 *
 * Returns the length, or -ENAMETOOLONG if n bytes or a socket's address
 * (KV_SOCKPATH_BYTES_MAX) do not hold it: a path is never cut.
 */
KV_MUST_CHECK int kv_sockpath_default(char *buf, size_t n);

#endif
