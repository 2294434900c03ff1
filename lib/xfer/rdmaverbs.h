#ifndef KV_XFER_RDMAVERBS_H
#define KV_XFER_RDMAVERBS_H

/*
 * libibverbs and librdmacm as they are found at run time: nothing is linked, so
 * that the same binary starts where they are not installed. Seen by rdma*.c
 * alone, which are not built where there are no headers of them (rdma_none.c
 * is, instead).
 *
 * Only what goes through the table may be called of them, and the inline
 * functions that go through a context's own table alone: ibv_post_send,
 * ibv_post_recv, ibv_post_srq_recv, ibv_poll_cq, ibv_req_notify_cq. Tests put
 * another table in its place (tests/mock/hca.h).
 */

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include "base/attr.h"

#undef ibv_get_device_list
#undef ibv_query_port
#undef ibv_reg_mr

struct kv_rdmaverbs {
	/* libibverbs: as the functions of that name, with ibv_ before it. */
	struct ibv_device **(*get_device_list)(int *n);
	void (*free_device_list)(struct ibv_device **list);
	const char *(*get_device_name)(struct ibv_device *dev);
	struct ibv_context *(*open_device)(struct ibv_device *dev);
	int (*close_device)(struct ibv_context *ctx);
	int (*get_async_event)(struct ibv_context *ctx,
			       struct ibv_async_event *event);
	void (*ack_async_event)(struct ibv_async_event *event);
	int (*query_device)(struct ibv_context *ctx,
			    struct ibv_device_attr *attr);
	/* attr is zeroed before; what is new since 2014 in it is not set */
	int (*query_port)(struct ibv_context *ctx, uint8_t port,
			  struct _compat_ibv_port_attr *attr);
	int (*query_gid)(struct ibv_context *ctx, uint8_t port, int index,
			 union ibv_gid *gid);
	/* _ibv_query_gid_ex; NULL: an old library */
	int (*query_gid_ex)(struct ibv_context *ctx, uint32_t port,
			    uint32_t index, struct ibv_gid_entry *entry,
			    uint32_t flags, size_t entry_bytes);
	struct ibv_pd *(*alloc_pd)(struct ibv_context *ctx);
	int (*dealloc_pd)(struct ibv_pd *pd);
	struct ibv_mr *(*reg_mr)(struct ibv_pd *pd, void *addr, size_t bytes,
				 int access);
	/* The same for access bits that an old library does not know; NULL. */
	struct ibv_mr *(*reg_mr_iova2)(struct ibv_pd *pd, void *addr,
				       size_t bytes, uint64_t iova,
				       unsigned access);
	int (*dereg_mr)(struct ibv_mr *mr);
	struct ibv_comp_channel *(*create_comp_channel)(struct ibv_context *);
	int (*destroy_comp_channel)(struct ibv_comp_channel *ch);
	struct ibv_cq *(*create_cq)(struct ibv_context *ctx, int cqe, void *arg,
				    struct ibv_comp_channel *ch, int vector);
	int (*destroy_cq)(struct ibv_cq *cq);
	int (*get_cq_event)(struct ibv_comp_channel *ch, struct ibv_cq **cq,
			    void **arg);
	void (*ack_cq_events)(struct ibv_cq *cq, unsigned n);
	struct ibv_srq *(*create_srq)(struct ibv_pd *pd,
				      struct ibv_srq_init_attr *attr);
	int (*modify_srq)(struct ibv_srq *srq, struct ibv_srq_attr *attr,
			  int mask);
	int (*destroy_srq)(struct ibv_srq *srq);
	struct ibv_qp *(*create_qp)(struct ibv_pd *pd,
				    struct ibv_qp_init_attr *attr);
	int (*modify_qp)(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask);
	int (*query_qp)(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask,
			struct ibv_qp_init_attr *init);
	int (*destroy_qp)(struct ibv_qp *qp);

	/* librdmacm: as the functions of that name, with rdma_ before it. All
	 * NULL where that library is missing. */
	struct rdma_event_channel *(*create_event_channel)(void);
	void (*destroy_event_channel)(struct rdma_event_channel *ch);
	int (*create_id)(struct rdma_event_channel *ch, struct rdma_cm_id **id,
			 void *arg, enum rdma_port_space ps);
	int (*destroy_id)(struct rdma_cm_id *id);
	int (*bind_addr)(struct rdma_cm_id *id, struct sockaddr *addr);
	int (*listen)(struct rdma_cm_id *id, int backlog);
	int (*resolve_addr)(struct rdma_cm_id *id, struct sockaddr *src,
			    struct sockaddr *dst, int timeout_ms);
	int (*resolve_route)(struct rdma_cm_id *id, int timeout_ms);
	/* The QP is of our own making: its attributes for a state. */
	int (*init_qp_attr)(struct rdma_cm_id *id, struct ibv_qp_attr *attr,
			    int *mask);
	int (*connect)(struct rdma_cm_id *id, struct rdma_conn_param *p);
	int (*accept)(struct rdma_cm_id *id, struct rdma_conn_param *p);
	int (*establish)(struct rdma_cm_id *id);
	int (*reject)(struct rdma_cm_id *id, const void *data, uint8_t bytes);
	int (*disconnect)(struct rdma_cm_id *id);
	int (*migrate_id)(struct rdma_cm_id *id, struct rdma_event_channel *ch);
	int (*set_option)(struct rdma_cm_id *id, int level, int name,
			  void *value, size_t bytes);
	int (*get_cm_event)(struct rdma_event_channel *ch,
			    struct rdma_cm_event **event);
	int (*ack_cm_event)(struct rdma_cm_event *event);
	uint16_t (*get_src_port)(struct rdma_cm_id *id); /* network order */
};

/*
 * The table; NULL with a text for people in *why (static): libibverbs is not
 * installed, or too old. With a table *why is "", or why librdmacm is not to be
 * had. Loaded once a process and never unloaded. Any thread.
 */
const struct kv_rdmaverbs *kv_rdmaverbs_load(const char **why);

/*
 * The same of libraries of these names, for tests; not twice a process with
 * real ones. 0, -ENOENT (not loaded), -ENOTSUP (lacks a function); on failure
 * the table stays as it is.
 */
KV_MUST_CHECK int kv_rdmaverbs_open(struct kv_rdmaverbs *v, const char *verbs,
				    const char *cm, char *why, size_t n);

#endif
