#ifndef KV_SVC_RDMAOPEN_H
#define KV_SVC_RDMAOPEN_H

#include <stddef.h>
#include <stdint.h>

#include "kvpool.h"

struct kv_rdma;

struct kv_rdmaopen_opts {
	enum kv_protocol protocol;
	const char *devices;  /* NULL or "": all */
	unsigned qps;         /* 0: the environment's */
	uint64_t slice_bytes; /* the same */
	const char *root;     /* prefix of /sys, for tests; NULL: "" */
};

/*
 * What this process is to have of RDMA, by what was chosen; unless it must have
 * some, that may be ports none of which is up yet. *out: NULL when there is
 * none or none is wanted; a line in the log says what was found, or why it was
 * not: a warning if somebody named RDMA or a device, and only for who debugs on
 * machines that have no device. 0, and if there is none the reason in err (else
 * ""); or -errno with "what is wrong; what to do" in err when it must have
 * some.
 */
int kv_rdmaopen(const struct kv_rdmaopen_opts *opts, struct kv_rdma **out,
		char *err, size_t err_bytes);

#endif
