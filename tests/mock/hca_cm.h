#ifndef KV_MOCK_HCA_CM_H
#define KV_MOCK_HCA_CM_H

/* The connection manager: ids with their events (hca_cmid.c), and what they
 * do (hca_cmconn.c) and send each other (hca_cm.c). */

#include <netinet/in.h>

#include "hca_internal.h"

enum {
	HCA_REQ_BYTES = 56, /* private data, always so much is shown */
	HCA_REP_BYTES = 196,
	HCA_REJ_BYTES = 148,
	HCA_REJ_TIMEOUT = 4, /* reasons, as the standard numbers them */
	HCA_REJ_NOBODY = 8,
	HCA_REJ_CONSUMER = 28,
};

/* What the real one takes to give up: 16 times 4.3 s. */
#define HCA_CM_AGAIN_NS    (4096ull << 20)
#define HCA_CM_TRIES       16
#define HCA_CM_TIMEWAIT_NS (4096ull << 19)

struct hca_events {
	struct rdma_event_channel ch; /* first */
	struct kv_list link;
	struct hca_proc *proc;
	struct kv_list events;
	unsigned n_ids;
};

enum hca_cm_state {
	HCA_CM_IDLE,
	HCA_CM_BOUND,
	HCA_CM_ADDR_ASKED,
	HCA_CM_ADDR,
	HCA_CM_ROUTE_ASKED,
	HCA_CM_ROUTE,
	HCA_CM_LISTENING,
	HCA_CM_CONNECTING, /* has asked */
	HCA_CM_ANSWERED,   /* was told yes */
	HCA_CM_ASKED,
	HCA_CM_ACCEPTED, /* has said yes */
	HCA_CM_UP,
	HCA_CM_LEAVING, /* has said so */
	HCA_CM_DOWN,    /* TIMEWAIT_EXIT comes */
	HCA_CM_GONE,    /* nothing comes any more */
};

struct hca_id {
	struct rdma_cm_id id; /* first */
	struct kv_list link;
	struct hca *hca;
	struct hca_proc *proc;
	uint32_t serial;
	enum hca_cm_state state;
	struct hca_port *port; /* NULL: none yet, or all */
	struct in_addr ip, to_ip;
	uint16_t ip_port, to_ip_port;
	unsigned unacked;
	struct kv_timer timer; /* the end of waiting */
	uint64_t deadline_ns;
	struct hca_cm_fault fault; /* if set: how what it waits for ends */

	struct hca_port *peer;
	uint32_t peer_serial, peer_qpn, peer_psn;
	uint32_t qpn, psn;
	uint8_t responder_resources, initiator_depth, retry_cnt, rnr_retry;
	uint8_t ack_timeout; /* as an exponent */
};

enum hca_letter_kind {
	HCA_REQ,
	HCA_REP,
	HCA_RTU,
	HCA_REJ,
	HCA_DREQ,
	HCA_DREP,
};

struct hca_letter {
	struct kv_list link;
	struct kv_timer timer;
	struct hca *hca;
	struct hca_port *from, *to;
	enum hca_letter_kind kind;
	uint32_t src, dst; /* serials */
	uint16_t ip_port, to_ip_port;
	uint32_t qpn, psn;
	uint8_t responder_resources, initiator_depth, retry_cnt, rnr_retry;
	int status;
	unsigned tries;
	uint8_t data[HCA_REP_BYTES];
};

/* hca_cmid.c */
int hca_cm_result(int err); /* 0, or -1 with errno */
struct hca_id *hca_id_new(struct hca_events *ch, void *context);
void hca_id_bind(struct hca_id *id, struct hca_port *port);
/* An address as users of an id see it. */
void hca_id_show_addr(struct sockaddr_in *to, struct in_addr ip, uint16_t port);
/* With what a letter says (NULL: nothing). */
struct rdma_cm_event *hca_id_tell(struct hca_id *id,
				  enum rdma_cm_event_type type, int status,
				  const struct hca_letter *l);

/* True: this step is one that is to end like that. */
bool hca_id_draw_fault(struct hca_id *id, enum rdma_cm_event_type first,
		       enum rdma_cm_event_type last);

/* hca_cmconn.c */
void hca_cmconn_calls(struct kv_rdmaverbs *v);

/* hca_cm.c */
void hca_cm_wait(struct hca_id *id, uint64_t ns);
void hca_cm_wait_over(struct kv_timer *t);
/* To its peer; data may be NULL. */
void hca_cm_write(struct hca_id *id, enum hca_letter_kind kind,
		  const struct rdma_conn_param *param, int status);
/* It is being left: whoever is at the other end hears it. */
void hca_cm_leave(struct hca_id *id);

#endif
