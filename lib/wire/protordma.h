#ifndef KV_WIRE_PROTORDMA_H
#define KV_WIRE_PROTORDMA_H

/* Bodies of what two sides say of RDMA between them, on the connection beside
 * it: where one listens, and which queue pairs count no more. */

#include "base/le.h"

/* HELLO (of DATA and ENGINE): the dialler can use RDMA, and would. HELLO_R:
 * RAILS follows, at once. */
#define KV_FEATURE_RDMA UINT64_C(1)
/* HELLO_R to a requester: connections of frames are also taken at the RDMA
 * addresses of this side. */
#define KV_FEATURE_CALL UINT64_C(2)

struct kv_rails {
	/* 0: not now; another RAILS may follow. From who dials, to whom that
	 * was said: where now? */
	struct kv_le32 count;
	struct kv_le32 zero;
	/* tail: records */
};

/* What a port is linked by. */
enum kv_rail_layer {
	KV_RAIL_INFINIBAND = 1,
	KV_RAIL_ETHERNET = 2,
};

/* A port of the side that listens, and where its connection manager does. */
struct kv_rail_rec {
	uint8_t ip[16];      /* IPv4 as ::ffff:a.b.c.d; of port 0: its GID */
	struct kv_le16 port; /* 0: it is joined to (QPJOIN) */
	uint8_t bits;        /* of the ip that name its network, of 128 */
	uint8_t number;      /* among those of its process */
	struct kv_le32 mbit_per_s;
	uint8_t layer; /* enum kv_rail_layer */
	uint8_t mtu;   /* the most that it uses: 128 << mtu bytes, 1 to 5 */
	uint8_t zero[6];
};

#define KV_RAILS_MAX      16 /* ports of one process */
#define KV_RAILS_TAIL_MAX (KV_RAILS_MAX * sizeof(struct kv_rail_rec))

#define KV_RAIL_MAGIC 0x3152564bu /* "KVR1" */

/* Not in a frame: what the connection manager hands over with a request for a
 * connection. */
struct kv_rail_word {
	struct kv_le32 magic;
	struct kv_le32 qp;    /* names this queue pair to both, never again */
	struct kv_le64 token; /* of the connection beside it */
	uint8_t near;         /* numbers of the ports: of who dials, */
	uint8_t far;          /* and of who listens */
	uint8_t mtu;          /* as of a record, of who dials */
	uint8_t zero;
};

#define KV_CALL_MAGIC 0x3153564bu /* "KVS1" */

/* The same, of a connection of frames: one queue pair, at the port of the
 * process's TCP address. */
struct kv_call_word {
	struct kv_le32 magic;
	struct kv_le16 bytes;   /* of a message, at most */
	struct kv_le16 credits; /* messages that are taken at first */
};

/*
 * Where no connection manager does it: an end of a queue pair, that of who
 * dials (QPJOIN) and of who was dialled (QPJOIN_R). It counts as up when the
 * former, whose packets were acknowledged, has said so (QPSTATE).
 */
struct kv_qpjoin {
	struct kv_le32 qp;  /* as in struct kv_rail_word */
	struct kv_le32 qpn; /* 24 bits, as of what follows: */
	struct kv_le32 psn; /* of its first packet */
	uint8_t near;       /* as in struct kv_rail_word, in both, */
	uint8_t far;        /* and so is this */
	struct kv_le16 lid; /* 0: none */
	uint8_t gid[16];    /* zero: none */
	uint8_t layer;      /* enum kv_rail_layer */
	uint8_t mtu;        /* the most that it uses */
	uint8_t initiates;  /* READs at once: its own, */
	uint8_t responds;   /* and those it serves */
	uint8_t status; /* enum kv_status; QPJOIN_R: not 0: it is refused, and
			 * what is not named above this is 0 */
	uint8_t zero[3];
};

/* What has become of a queue pair that was joined; of any, when the port of one
 * end has gone down. */
struct kv_qpstate {
	struct kv_le32 qp;
	uint8_t status; /* enum kv_status: 0: it is ready, as who dialled says;
			 * else it is over, as either may say */
	uint8_t zero[3];
};

/*
 * From the side that moves to the side whose memory it moves: its ends of these
 * queue pairs count no more, and the transfers begin another round, or are
 * given up. It is answered when nothing that had been posted to them can touch
 * memory any more.
 */
struct kv_qpfence {
	struct kv_le32 qps;
	struct kv_le32 xfers;
	/* tail: qps le32; xfers records */
};

struct kv_qpfence_xfer {
	struct kv_le32 number;
	uint8_t round;  /* the new one */
	uint8_t status; /* enum kv_status: not 0: it is given up */
	uint8_t zero[2];
};

struct kv_qpfence_r {
	struct kv_le32 qps;
	struct kv_le32 xfers; /* only those not ended before */
			      /* tail: qps le32; xfers le32, their numbers */
};

/* A message that ends a transfer on one queue pair carries 32 bits: */
#define KV_RAIL_NUMBER_BITS 20 /* of the transfer, the low ones */
#define KV_RAIL_ROUND_BITS  4  /* above it */
#define KV_RAIL_ENDS_BITS   8  /* how many such messages end this round */

KV_LE_SIZE(kv_rail_rec, 32);
KV_LE_SIZE(kv_rail_word, 20);
KV_LE_SIZE(kv_call_word, 8);
KV_LE_SIZE(kv_qpjoin, 40);
KV_LE_SIZE(kv_qpstate, 8);
KV_LE_SIZE(kv_qpfence_xfer, 8);

#endif
