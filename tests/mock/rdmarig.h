#ifndef KV_MOCK_RDMARIG_H
#define KV_MOCK_RDMARIG_H

/*
 * Two processes on two hosts with a fake device each: what xfer/rdma*.c make of
 * a port, and a connection between them, dialled by end 0. Fails the running
 * test on any error.
 */

#include "hca.h"
#include "xfer/rdmacm.h"
#include "xfer/rdmacq.h"
#include "xfer/rdmamr.h"
#include "xfer/rdmanic.h"
#include "xfer/rdmaqp.h"

enum {
	RDMARIG_BYTES = 1 << 20,
	RDMARIG_DEPTH = 16,
	RDMARIG_IMMS = 64,
	RDMARIG_PORT = 4321,
};

struct rdmarig_end {
	const struct kv_rdmaverbs *v;
	struct hca_host *host;
	struct hca_dev *dev;
	struct hca_port *port;
	struct kv_rdmanic nic;
	struct kv_rdmacq *cq;
	struct kv_rdmacm *cm;
	struct kv_rdmaconn *conn;
	struct kv_rdmaqp *qp;
	struct kv_rdmamr mr;
	uint8_t *buf;
	bool is_ready;
	char word[KV_RDMACM_WORD_BYTES + 1]; /* of the other end */
	bool conn_over, qp_over;
	int conn_why, qp_why;
	unsigned n_imms;
	uint32_t imms[RDMARIG_IMMS];
};

extern struct rdmarig_end rdmarig[2];
extern struct hca *rdmarig_hca;
extern struct kv_loop *rdmarig_loop;
extern bool rdmarig_refuses; /* whoever dials */
extern bool rdmarig_waits;   /* before end 1 accepts */

/* Of a test: nothing is connected. */
int rdmarig_setup(void **state);
/* Connected. */
int rdmarig_setup_ready(void **state);
int rdmarig_teardown(void **state);

void rdmarig_us(unsigned us);
void rdmarig_ms(unsigned ms);
/* End 0 dials that address; it has so many milliseconds. */
void rdmarig_dial(const char *ip, unsigned ms);
/* End 1 accepts what it was asked for; it has so many milliseconds. */
int rdmarig_accept(unsigned ms);

/* A request of an end, which knows how it ended. */
struct rdmarig_work {
	struct kv_rdmawr w;
	struct ibv_sge sge;
	unsigned done; /* times */
	int status;
	unsigned order; /* of all that ended: from 1 on */
};

/* Between `at` of the own buffer and `far` of the other one. */
void rdmarig_work(struct rdmarig_work *k, int end, enum ibv_wr_opcode opcode,
		  uint32_t at, uint32_t far, uint32_t bytes);
void rdmarig_post(int end, struct rdmarig_work *works, unsigned n);

#endif
