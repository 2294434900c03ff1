#ifndef KV_NET_HOST_H
#define KV_NET_HOST_H

#include "wire/proto.h"

/*
 * Equal in two processes when they share one running kernel and one network:
 * made of the kernel's boot id and the network namespace. Where /proc does not
 * tell these it is random, so no other process counts as being on this host:
 * ask once and keep it.
 */
struct kv_id kv_host_id(void);

#endif
