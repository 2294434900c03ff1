#ifndef KV_XFER_DEVLIST_H
#define KV_XFER_DEVLIST_H

/* Questions to a list of kv_rdmadev_list(). No I/O. */

#include <stddef.h>

#include "base/attr.h"

struct in6_addr;
struct kv_mcenv;
struct kv_rdmadev;

/*
 * Whether each pattern of the white list means a device of the list; else
 * -ENODEV, and err says which does not, and what names there are.
 */
KV_MUST_CHECK int kv_devlist_check(const char *wanted,
				   const struct kv_rdmadev *list, size_t n,
				   char *err, size_t errlen);

/* The devices of the list that have usable ports. */
unsigned kv_devlist_usable(const struct kv_rdmadev *list, size_t n);

/*
 * Marks what the environment leaves out, or does in another way, in words that
 * name the variable. wanted: the white list that the list was made by, if it is
 * not the environment's.
 */
void kv_devlist_env(const struct kv_mcenv *m, const char *wanted,
		    struct kv_rdmadev *list, size_t n);

/* "10.77.0.1", "fd00::1"; INET6_ADDRSTRLEN bytes. Gives buf. */
const char *kv_devlist_ip(char *buf, size_t n, const struct in6_addr *ip);

#endif
