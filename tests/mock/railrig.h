#ifndef KV_MOCK_RAILRIG_H
#define KV_MOCK_RAILRIG_H

/*
 * Two processes on two hosts with several ports each, a connection between
 * them, and a link beside it: end 0 dials, end 1 listens, either may move.
 * Port i of each has a device of its own. An end whose link is gone refuses to
 * join. Fails the running test on any error.
 */

#include <ifaddrs.h>

#include "hca.h"
#include "net/conn.h"
#include "simnet.h"
#include "xfer/rdmacore.h"
#include "xfer/rdmajoin.h"
#include "xfer/rdmalink.h"
#include "xfer/rdmamr.h"

enum {
	RAILRIG_PORTS = 4,
	RAILRIG_BYTES = 8 << 20,
	RAILRIG_RANGES = 40,
	RAILRIG_FAILED = 2, /* exit code */
};

#define RAILRIG_TOKEN UINT64_C(0x5eed0fa11)

struct railrig_end {
	unsigned n;
	const struct kv_rdmaverbs *v; /* of the process; what is called is */
	struct kv_rdmaverbs calls;    /* the same, unless a test changes it */
	struct hca_host *host;
	struct hca_dev *devs[RAILRIG_PORTS];
	struct hca_port *ports[RAILRIG_PORTS];
	struct ifaddrs addrs[RAILRIG_PORTS]; /* of the name space */
	struct sockaddr_in ips[RAILRIG_PORTS];
	struct kv_rdma r;
	struct kv_rdmaloop *rl;
	struct kv_net *net;
	struct kv_stream *stream;
	struct kv_conn *c;
	struct kv_rdmalink *l;
	struct kv_rdmamr mr;
	uint8_t *buf;
	unsigned n_settled;
	bool is_broken; /* what came for its link was */
};

struct railrig_opts {
	unsigned n[2];              /* ports; 0: 1 */
	double gbps[RAILRIG_PORTS]; /* 0: 100 */
	uint64_t seed;
	uint32_t piece_bytes; /* 0: 4096 */
	uint64_t bytes;       /* of memory; 0: RAILRIG_BYTES */
	/* All ports reach each other, and are of one network; else each pair
	 * is one by itself. */
	bool is_flat;
	/* Port i of end 1 is in the network of the i-th last of end 0. */
	bool is_crossed;
	/* Bits of ports: without an IP, so that they are joined; InfiniBand. */
	unsigned no_ip[2], infiniband[2];
	/* Bits of those that are down, of which nothing is known. */
	unsigned down[2];
	enum ibv_mtu mtu[2]; /* 0: 4096 */
	uint8_t subnet[2];   /* of InfiniBand */
	uint16_t pkeys;      /* of each port; 0: 1 */
	bool no_cm[2];       /* there is no librdmacm */
	bool may_fail;       /* then the process ends with RAILRIG_FAILED */
};

extern struct railrig_end railrig[2];
extern struct hca *railrig_hca;
extern struct simnet *railrig_net;
extern struct kv_loop *railrig_loop;

void railrig_open(const struct railrig_opts *o);
/* Links are made, and all rails are up. */
void railrig_connect(void);
void railrig_close(void);
void railrig_us(unsigned us);
void railrig_ms(unsigned ms);
uint64_t railrig_now(void);
/* Its link and its connection go. */
void railrig_end_free(int end);

/* A transfer by an end, which knows how it ended. */
struct railrig_move {
	struct kv_rdmaxfer x;
	struct kv_rdmaend e; /* at the other end, of a WRITE */
	int mover;
	struct kv_rdmarange near[RAILRIG_RANGES], far[RAILRIG_RANGES];
	unsigned done, end_done; /* times */
	int status, end_status;
	uint64_t done_ns;
	/* Called in each `done`: of who moves; of who awaits. */
	void (*on_done)(struct railrig_move *m);
	void (*on_end)(struct railrig_move *m);
	void *arg;
};

/* From `at` of the mover's buffer to `far` of the other one's, or back, in so
 * many ranges. Zeroed. Not started. */
void railrig_prepare(struct railrig_move *m, int mover,
		     enum kv_rdmaxfer_kind kind, uint64_t at, uint64_t far,
		     uint64_t bytes);
void railrig_start(struct railrig_move *m);
/* Prepared, started, over within a second, and well; compared. */
void railrig_move(int mover, enum kv_rdmaxfer_kind kind, uint64_t at,
		  uint64_t far, uint64_t bytes);
/* The two places of it have the same bytes. */
bool railrig_is_same(const struct railrig_move *m);

#endif
