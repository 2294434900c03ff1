#ifndef KV_XFER_MCENV_H
#define KV_XFER_MCENV_H

/*
 * What somebody wants otherwise of RDMA, and says in the environment: the
 * variables of Mooncake's transfer engine (MC_*), as far as their meaning
 * exists here. All have a default that is good.
 */

#include <stdbool.h>
#include <stdint.h>

#define KV_MCENV_DEVICES_BYTES 256
#define KV_MCENV_QPS_MAX       4
/* Fewer and smaller slices than these cost more than they are worth. */
#define KV_MCENV_SLICE_BYTES_MIN (UINT64_C(64) << 10)
#define KV_MCENV_SLICE_BYTES_MAX (UINT64_C(1) << 30)

struct kv_mcenv {
	unsigned qps;         /* queue pairs of a rail, 1 to 4 */
	uint64_t slice_bytes; /* of a work request, 64 KiB to 1 GiB */
	int traffic_class;    /* 0 to 255; -1: as the system has it */
	/* Where no connection manager says so. -1, 0: found out. */
	int service_level; /* 0 to 15 */
	int gid_index;     /* 0 to 255 */
	int pkey_index;    /* 0 to 255 */
	unsigned mtu_bytes;
	unsigned port;   /* of each device, from 1; 0: all of them */
	bool is_ordered; /* no relaxed ordering of writes to memory */
	bool is_tcp;     /* RDMA is not wanted */
	char devices[KV_MCENV_DEVICES_BYTES]; /* white list; "": all */
};

/*
 * The defaults, and what the environment says (as environ is; NULL: nothing). A
 * value that is none gets a line in the log, and does not count.
 */
void kv_mcenv_read(struct kv_mcenv *m, const char *const *env);

/* One line that names all MC_* that mean nothing here; the first time in a
 * process, and if there are any. */
void kv_mcenv_warn(const char *const *env);

#endif
