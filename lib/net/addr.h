#ifndef KV_NET_ADDR_H
#define KV_NET_ADDR_H

/*
 * The one parser of addresses, and the one way to write them:
 *
 *   host:port  1.2.3.4:port  [v6]:port   TCP; "tcp:" may stand before it.
 *              Without :port the default port, if there is one.
 *              An empty host or "*" is every address of this host.
 *   unix:PATH  a Unix socket, at most 107 bytes; unix:@NAME an abstract one
 *   rdma:...   -ENOTSUP
 *
 * A word before the first colon that is one of the three is the scheme, so a
 * host of that name needs "tcp:" before it. No I/O here: names stay names.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum kv_addr_kind {
	KV_ADDR_TCP = 1,
	KV_ADDR_UNIX
};

#define KV_ADDR_NAME_BYTES_MAX 253 /* a host name of the DNS */
#define KV_ADDR_TEXT_BYTES_MAX (KV_ADDR_NAME_BYTES_MAX + 16) /* with NUL */
#define KV_ADDR_ERROR_BYTES    256 /* what the longest error text needs */

struct kv_addr {
	enum kv_addr_kind kind;
	uint16_t port; /* TCP; 0: any free one, for who listens */
	/* Host name, numeric address without brackets, "" for every address;
	 * or the path of the socket. */
	char name[KV_ADDR_NAME_BYTES_MAX + 1];
};

/*
 * 0, or one line that says what is wrong with which text in err (n bytes) and
 * -EINVAL, -ERANGE for a port, -ENAMETOOLONG for a path, -ENOTSUP. default_port
 * 0: a port has to be given.
 */
int kv_addr_parse(const char *text, uint16_t default_port, struct kv_addr *out,
		  char *err, size_t n);

/* "A,B": how many there are, at most max, or as above, and -E2BIG for more.
 * Blanks around each are no part of it. A path with a comma cannot be in a
 * list. */
int kv_addr_parse_list(const char *text, uint16_t default_port,
		       struct kv_addr *out, int max, char *err, size_t n);

/* "host:port", "[v6]:port", "unix:PATH": parsed again it gives the same. buf
 * has KV_ADDR_TEXT_BYTES_MAX bytes. Gives buf. */
const char *kv_addr_format(const struct kv_addr *a, char *buf);

/* Means this host wherever it is read: 127/8, ::1, localhost and names below
 * it, a Unix socket. Other names that may resolve to such are not known here.
 */
bool kv_addr_is_loopback(const struct kv_addr *a);

/* No address to dial: "", 0.0.0.0, ::. */
bool kv_addr_is_unspecified(const struct kv_addr *a);

/* A numeric address: using it needs no look-up. */
bool kv_addr_is_numeric(const struct kv_addr *a);

#endif
