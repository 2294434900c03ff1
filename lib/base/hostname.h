#ifndef KV_BASE_HOSTNAME_H
#define KV_BASE_HOSTNAME_H

/* What may stand for a host in an address. Nothing is looked up. */

#include <netinet/in.h>
#include <stdbool.h>

/*
 * NULL, or why S is neither a name nor an IPv4 address. A name has labels of 1
 * to 63 letters, digits, '-' and '_' between dots; a last dot is allowed. The C
 * library takes "10.1" and "50051" for addresses, which nobody means: what ends
 * in a number must be all four.
 */
const char *kv_hostname_fault(const char *s);

bool kv_hostname_is_ipv4(const char *s);

/* Whether S is an IPv6 address, without brackets, perhaps with a zone as in
 * "fe80::1%eth0"; then *out is it, less the zone. */
bool kv_hostname_ipv6(const char *s, struct in6_addr *out);

#endif
