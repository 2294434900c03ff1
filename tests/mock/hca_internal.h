#ifndef KV_MOCK_HCA_INTERNAL_H
#define KV_MOCK_HCA_INTERNAL_H

/* The parts of the fake device, for each other. See hca.h.
 *
 * A QP is two machines. The requester walks its send queue: `next` is the
 * request that is being sent, `done` the oldest that is not complete. The
 * responder expects byte `expect_off` of message number `expect`; what is
 * before that is a repetition, what is beyond it was sent after something that
 * got lost. Both count messages from 0: the number of a message is that of its
 * request. */

#include <netinet/in.h>
#include <pthread.h>

#include "base/clock.h"
#include "base/list.h"
#include "base/rng.h"
#include "hca.h"

enum {
	HCA_QP_WR_MAX = 16384,
	HCA_SGE_MAX = 30,
	HCA_INLINE_MAX = 1024,
	HCA_CQE_MAX = 1 << 22,
	HCA_SRQ_WR_MAX = 32767,
	HCA_RD_ATOMIC_MAX = 16,
	HCA_GIDS_MAX = 4,
	HCA_KEY_BITS = 20, /* of a key; those above are of the device */
};

#define HCA_MSG_BYTES_MAX (1u << 30)

struct hca_path {
	struct kv_list link;
	struct hca_port *from, *to; /* to NULL: all that have no own entry */
	bool cut;
	uint64_t delay_ns;
	double loss;
};

struct hca {
	struct kv_loop *loop;
	struct kv_clock *clock;
	struct hca_opts opts;
	struct kv_rng rng;
	struct kv_list hosts, paths, procs;
	struct kv_list flying; /* packets on their way */
	struct kv_list ids;    /* of all processes */
	struct kv_list mail;   /* of the connection manager */
	unsigned n_devs, n_ports;
	uint32_t next_qpn;
	uint32_t next_id;
};

/* The outcome of the next step that it fits. */
struct hca_cm_fault {
	bool is_set;
	enum rdma_cm_event_type type;
	int status;
	uint8_t data[148], bytes;
};

struct hca_host {
	struct kv_list link;
	struct hca *hca;
	char name[64];
	struct kv_list devs;
	uint64_t memlock, locked, mr_serial;
	pthread_mutex_t lock; /* those three, and the regions of devices */
	uint16_t next_port;
	struct hca_cm_fault cm_fault;
};

struct hca_dev {
	struct kv_list link;
	char name[IBV_SYSFS_NAME_MAX];
	struct hca_host *host;
	unsigned ordinal;
	bool removed, mute;
	struct kv_list ports, ctxs, qps;
	unsigned n_ports;
	struct hca_mr **keys;
	uint32_t *free_keys; /* the last one is used first */
	uint32_t n_keys, n_free;
};

struct hca_port {
	struct kv_list link;
	struct hca_dev *dev;
	struct hca_port_opts opts;
	uint8_t num;
	uint16_t lid;
	bool up;
	struct in_addr ip; /* 0: none */
	struct ibv_gid_entry gids[HCA_GIDS_MAX];
	unsigned n_gids;
	double rate;                     /* bytes/ns */
	uint64_t tx_free_ns, rx_free_ns; /* taken until then */
	struct hca_fault fault;
};

/* The table first: it is what the process knows. */
struct hca_proc {
	struct kv_rdmaverbs table;
	struct kv_list link;
	struct hca *hca;
	struct hca_host *host;
	struct kv_loop *loop; /* NULL: it has exited */
	struct kv_list views;
	struct kv_list ctxs; /* that it opened, and those of its ids */
	struct kv_list channels;
	unsigned slot;
};

/* A device as it is listed to one process. */
struct hca_view {
	struct ibv_device dev; /* first */
	struct kv_list link;
	struct hca_proc *proc;
	struct hca_dev *real;
};

struct hca_ctx {
	struct ibv_context ctx; /* first */
	struct kv_list link, dev_link;
	struct hca_proc *proc;
	struct hca_dev *dev;
	struct kv_list events;
	struct kv_list channels;
	unsigned n_objects; /* made on it */
	bool of_cm;
};

struct hca_pd {
	struct ibv_pd pd; /* first */
	unsigned n_objects;
	unsigned n_mrs; /* under the lock of the host */
};

struct hca_mr {
	struct ibv_mr mr; /* first */
	struct hca_dev *dev;
	uint64_t iova;
	uint64_t serial; /* of no other region, unlike its key */
	unsigned access;
};

struct hca_channel {
	struct ibv_comp_channel ch; /* first */
	struct kv_list link;
	struct kv_list events;
	unsigned n_cqs;
};

struct hca_qp;

struct hca_cqe {
	struct ibv_wc wc;
	struct hca_qp *qp;
	uint64_t sent;          /* the send queue is free up to here, or */
	struct hca_ring *taken; /* a slot of this one is */
};

struct hca_cq {
	struct ibv_cq cq; /* first */
	struct hca_ctx *ctx;
	struct hca_cqe *cqes;
	unsigned head, count;
	bool armed, solicited_only, overrun;
	unsigned n_qps;
	unsigned unacked, async_unacked;
};

/* Receives that wait for messages. */
struct hca_recv {
	uint64_t wr_id;
	int n_sge;
	struct ibv_sge *sge;
};

struct hca_ring {
	struct hca_recv *slots;
	struct ibv_sge *sges;
	unsigned max_wr, max_sge;
	uint64_t posted, taken, freed;
};

struct hca_srq {
	struct ibv_srq srq; /* first */
	struct hca_ring ring;
	unsigned limit; /* 0: not armed */
	unsigned n_qps, async_unacked;
};

struct hca_wqe {
	uint64_t wr_id;
	enum ibv_wr_opcode opcode;
	unsigned flags;
	__be32 imm;
	uint64_t far;
	uint32_t rkey;
	int n_sge;
	struct ibv_sge *sge; /* one, of `inlined`, if that is set */
	uint8_t *inlined;
	uint64_t total, sent, got;
	bool is_out, read_done; /* a READ: asked for; answered */
	struct hca_fault fault; /* status SUCCESS: none */
	uint64_t fails_at;
	enum ibv_wc_status status; /* of its completion, when its turn comes */
};

/* What the responder owes, in the order of the messages. */
struct hca_answer {
	struct kv_list link;
	enum hca_kind {
		HCA_SEND,
		HCA_WRITE,
		HCA_READ,
		HCA_DATA, /* the answer to a READ */
		HCA_ACK,  /* all before (msn, off) */
		HCA_GAP,  /* the same, and what came was not (msn, off) */
		HCA_RNR,
		HCA_NAK,
	} kind;
	uint64_t msn, off, total;
	uint64_t far;
	uint32_t rkey;
	enum ibv_wc_status status;
};

struct hca_packet {
	struct kv_timer timer;
	struct kv_list link;
	struct hca *hca;
	struct hca_port *from, *to;
	uint32_t src_qpn, dst_qpn;
	enum hca_kind kind;
	uint32_t psn; /* at which the sender began */
	enum ibv_mtu mtu;
	uint16_t pkey_index;
	int gid_type; /* of the address it comes from; -1: a LID */
	uint64_t msn, off, total;
	uint64_t far;
	uint32_t rkey;
	bool last, has_imm, solicited;
	__be32 imm;
	enum ibv_wc_status status;
	uint8_t rnr_timer;
	uint8_t *place; /* where its bytes belong, in the region of this serial
			 */
	uint64_t serial;
	size_t len;
	uint8_t bytes[];
};

struct hca_qp {
	struct ibv_qp qp; /* first */
	struct kv_list link;
	struct hca *hca;
	struct hca_ctx *ctx;
	struct hca_dev *dev;
	struct ibv_qp_cap cap;
	struct ibv_qp_attr attr;
	bool sig_all;
	struct hca_port *port, *peer; /* peer NULL: nobody is there */
	unsigned async_unacked;
	struct kv_timer flush;
	bool told_last; /* LAST_WQE_REACHED */

	/* the requester */
	struct hca_wqe *sq;
	struct ibv_sge *sges;
	uint8_t *inlined;
	uint64_t posted, next, done, freed;
	uint64_t acked, acked_off;
	unsigned reads_out, retries, rnr_tries;
	bool moved;          /* by the answer that is being taken */
	bool draining;       /* SQD, and not told yet that it is drained */
	uint64_t tx_len;     /* of the piece that is leaving */
	uint64_t arrives_ns; /* the last request */
	struct kv_timer tx, retry, rnr;

	/* the responder */
	struct hca_ring rq;
	struct hca_ring *recvs; /* its own, or that of the SRQ */
	uint64_t expect, expect_off;
	bool gap_told, refusing, is_heard;
	struct hca_recv cur; /* that a message is being received into */
	struct ibv_sge cur_sge[HCA_SGE_MAX];
	bool has_cur;
	struct kv_list answers;
	unsigned reads_in;
	uint64_t answer_len, answer_arrives_ns;
	struct kv_timer answer;
	struct kv_list placing;
};

/* Never NULL, zeroed. */
void *hca_alloc(size_t bytes);
uint64_t hca_now(const struct hca *h);
/* Uniform in [0, n]. */
uint64_t hca_upto(struct hca *h, uint64_t n);
bool hca_chance(struct hca *h, double p);
void hca_arm(struct hca *h, struct kv_timer *t, uint64_t at_ns);
/* A descriptor of a process: EPOLLIN, or nothing. */
int hca_fd_new(void);
void hca_fd_free(struct hca_proc *p, int fd);
void hca_fd_ready(struct hca_proc *p, int fd, bool is_ready);
/* -1 with EAGAIN: nothing is there. Aborts if the call would block. */
int hca_again(int fd);

/* hca.c: ways */
bool hca_reaches(struct hca_port *from, struct hca_port *to);
/* One way, without what its bytes take. */
uint64_t hca_latency(struct hca_port *from, struct hca_port *to);
bool hca_loses(struct hca_port *from, struct hca_port *to);
/* When so many bytes have left, if they are sent as soon as can be. */
uint64_t hca_leave(struct hca_port *port, uint64_t bytes);
/* When they have come in. */
uint64_t hca_arrive(struct hca_port *from, struct hca_port *to, uint64_t bytes);

/* hca_port.c */
struct hca_port *hca_port_of(struct hca_dev *dev, unsigned num);
struct hca_port *hca_port_by_gid(struct hca_port *from,
				 const union ibv_gid *gid);
struct hca_port *hca_port_by_lid(struct hca_port *from, uint16_t lid);
struct hca_port *hca_port_by_ip(struct hca *h, struct in_addr ip);

/* hca_dev.c: calls of the table, and contexts */
void hca_dev_calls(struct kv_rdmaverbs *v);
struct ibv_device **hca_dev_list(struct hca_proc *p, int *n);
struct hca_ctx *hca_ctx_new(struct hca_proc *p, struct hca_dev *dev);
void hca_ctx_free(struct hca_ctx *ctx);
void hca_async(struct hca_ctx *ctx, const struct ibv_async_event *event);
void hca_async_drop(struct hca_ctx *ctx, const void *element);

/* hca_mr.c */
void hca_mr_calls(struct kv_rdmaverbs *v);
/* Memory by key; NULL: not with this PD, these bounds, this access. */
uint8_t *hca_mr_find(struct hca_dev *dev, struct ibv_pd *pd, uint32_t key,
		     uint64_t addr, uint64_t bytes, unsigned access);
/* Of the region that has this key now; 0: none. */
uint64_t hca_mr_serial(struct hca_dev *dev, uint32_t key);
/* A part of what a list of pieces names, to or from `bytes`. False: one of them
 * is wrong, what was before it is done. */
struct hca_part {
	struct hca_dev *dev;
	struct ibv_pd *pd;
	const struct ibv_sge *sge;
	int n_sge;
	uint64_t off, len;
};
bool hca_gather(const struct hca_part *part, uint8_t *bytes);
bool hca_scatter(const struct hca_part *part, const uint8_t *bytes);
uint64_t hca_sge_bytes(const struct ibv_sge *sge, int n);

/* hca_cq.c */
void hca_cq_calls(struct kv_rdmaverbs *v);
int hca_cq_poll(struct ibv_cq *cq, int n, struct ibv_wc *wc);
int hca_cq_notify(struct ibv_cq *cq, int solicited_only);
void hca_cq_push(struct hca_cq *cq, const struct hca_cqe *e, bool solicited);
/* What there is of it in the queue. */
void hca_cq_forget(struct hca_cq *cq, const struct hca_qp *qp);

/* hca_srq.c: receives of a QP, too */
void hca_srq_calls(struct kv_rdmaverbs *v);
void hca_ring_init(struct hca_ring *r, unsigned max_wr, unsigned max_sge);
void hca_ring_fini(struct hca_ring *r);
int hca_ring_post(struct hca_ring *r, struct ibv_recv_wr *wr,
		  struct ibv_recv_wr **bad);
int hca_srq_post(struct ibv_srq *srq, struct ibv_recv_wr *wr,
		 struct ibv_recv_wr **bad);
/* The next receive becomes the current one; false: there is none. */
bool hca_recv_take(struct hca_qp *qp);

/* hca_qp.c */
void hca_qp_calls(struct kv_rdmaverbs *v);
struct hca_qp *hca_qp_find(struct hca_dev *dev, uint32_t qpn);
/* To ERR, at once; what was posted is flushed later. */
void hca_qp_end(struct hca_qp *qp);
void hca_qp_event(struct hca_qp *qp, enum ibv_event_type type);
/* Nothing of it runs any more, its bytes are where they belong. */
void hca_qp_still(struct hca_qp *qp);

/* hca_post.c */
int hca_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr,
		  struct ibv_send_wr **bad);
int hca_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr,
		  struct ibv_recv_wr **bad);
void hca_flush_arm(struct hca_qp *qp);
void hca_flush_run(struct kv_timer *t);
void hca_complete_send(struct hca_qp *qp, enum ibv_wc_status status);
void hca_complete_recv(struct hca_qp *qp, enum ibv_wc_status status,
		       const struct hca_packet *p);

/* hca_req.c: the requester */
void hca_req_init(struct hca_qp *qp);
void hca_req_pump(struct hca_qp *qp);
void hca_req_answer(struct hca_qp *qp, const struct hca_packet *p);

/* hca_resp.c: the responder */
void hca_resp_init(struct hca_qp *qp);
/* Takes p over if it returns true. */
bool hca_resp_request(struct hca_qp *qp, struct hca_packet *p);
void hca_resp_place_all(struct hca_qp *qp);
void hca_resp_drop(struct hca_qp *qp);

/* hca_wire.c */
struct hca_packet *hca_packet_new(struct hca_qp *qp, enum hca_kind kind,
				  size_t bytes);
void hca_packet_send(struct hca_packet *p, uint64_t *arrives_ns);
void hca_packet_free(struct hca_packet *p);
/* How much leaves at once. */
uint64_t hca_piece(const struct hca_port *port, uint64_t left);

/* hca_cm.c, hca_cmid.c, hca_cmconn.c: the connection manager */
struct rdma_event_channel *hca_cm_channel(struct hca_proc *p);
void hca_cm_calls(struct kv_rdmaverbs *v);
void hca_cm_exit(struct hca_proc *p);
void hca_cm_removed(struct hca_dev *dev);
void hca_cm_free(struct hca *h);

#endif
