#ifndef KV_MOCK_HCARIG_H
#define KV_MOCK_HCARIG_H

/* Two hosts with a fake device each, and an RC connection between them, for
 * tests of the fake itself. Fails the running test on any error. */

#include "hca.h"

enum {
	HCARIG_BYTES = 1 << 16,
};

struct hcarig_opts {
	struct hca_opts hca;            /* seed 0: 1; latency 0: 1 us */
	unsigned send_wr, recv_wr, cqe; /* 0: 64, 64, 256 */
	uint8_t timeout, retry_cnt;     /* timeout 0: 14 */
	uint8_t rnr_retry, min_rnr_timer;
	uint8_t max_rd[2], max_dest_rd[2]; /* of each end; 0: 16 */
	unsigned no_access;                /* flags that no end's QP has */
	bool srq;                          /* at end 1, of recv_wr */
	bool sig_all;
	bool infiniband; /* ports without addresses, found by their LID */
};

struct hcarig_end {
	const struct kv_rdmaverbs *v;
	struct hca_host *host;
	struct hca_dev *dev;
	struct hca_port *port;
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_comp_channel *ch;
	struct ibv_cq *cq;
	struct ibv_srq *srq;
	struct ibv_qp *qp;
	struct ibv_mr *mr; /* all access, of buf */
	uint8_t buf[HCARIG_BYTES];
};

struct hcarig {
	struct hcarig_opts opts;
	struct kv_clock clock;
	struct kv_loop *loop;
	struct hca *hca;
	struct hcarig_end end[2];
};

/* Up to QPs in RESET; the buffers are random bytes. */
void hcarig_open(struct hcarig *r, const struct hcarig_opts *opts);
/* Both QPs to RTS, to each other. */
void hcarig_connect(struct hcarig *r);
/* What is NULL of the ends was given back before. */
void hcarig_close(struct hcarig *r);

struct ibv_qp *hcarig_qp(struct hcarig *r, int end);
/* The attributes that take a QP of that end to the state; the mask. */
int hcarig_attr(struct hcarig *r, int end, enum ibv_qp_state state,
		struct ibv_qp_attr *attr);
int hcarig_modify(struct hcarig *r, int end, enum ibv_qp_state state);
void hcarig_run(struct hcarig *r, uint64_t ns);

/* From or to `at` of the own buffer, to or from `far` of the other one. */
struct hcarig_wr {
	uint64_t id;
	enum ibv_wr_opcode opcode;
	unsigned flags;
	uint32_t at, bytes, far;
	uint32_t lkey, rkey; /* 0: the right ones */
};
int hcarig_post(struct hcarig *r, int end, const struct hcarig_wr *wr);
/* Posted, signalled, run until it completes: its status. */
enum ibv_wc_status hcarig_do(struct hcarig *r, int end,
			     const struct hcarig_wr *wr);
/* To the QP, or its SRQ. */
int hcarig_recv(struct hcarig *r, int end, uint64_t id, uint32_t at,
		uint32_t bytes);
/* The next completion, if there is one. */
bool hcarig_poll(struct hcarig *r, int end, struct ibv_wc *wc);
/* There is one: this. */
void hcarig_expect(struct hcarig *r, int end, uint64_t id,
		   enum ibv_wc_status status);
void hcarig_expect_none(struct hcarig *r, int end);
/* The next asynchronous event (acknowledged); -1: none. */
int hcarig_async(struct hcarig *r, int end);

#endif
