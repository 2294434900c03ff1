#ifndef KV_MOCK_HCA_H
#define KV_MOCK_HCA_H

/*
 * RDMA devices and a connection manager that are none: hosts with devices with
 * ports, and for each process on a host a filled struct kv_rdmaverbs. Checks
 * like a HCA and fails like one. On a virtual loop; the same seed and the same
 * calls give the same run.
 *
 * What is as strict as the hardware is, or stricter:
 * - Of a message the source is read, and the destination written, in pieces at
 *   some time between post and completion; what has come before a failure
 *   stays. Every piece is checked against the keys as they are then. A WRITE
 *   may complete at the requester before its bytes are in memory; a later
 *   message of the same QP finds them there.
 * - A packet is dropped unless the ways of both ends lead to each other, and
 *   they agree in numbers of QPs and packets, in the partition, and in the
 *   version of RoCE.
 * - From the return of the call that ends a QP (to ERR or RESET, destroyed) or
 *   from its error completion on, its NIC touches no memory for it. Packets
 *   that come for it are dropped, so the far end runs into its time-out.
 * - Completions of flushed requests come some time after that.
 * - A key is used again as soon as its region is deregistered. No key of one
 *   device is one of another.
 * - A slot of a queue is free when the completion of it, or of a later request
 *   of the send queue, has been polled.
 * - A completion queue that is armed with completions in it tells of the next
 *   one only. Of a failed completion all but wr_id, status, qp_num and
 *   vendor_err is noise.
 * - A removed device fails every call but those that destroy, which succeed;
 *   nothing completes on it any more, what was posted is not flushed.
 * - Calls that would block (descriptors not set to O_NONBLOCK, objects with
 *   events handed out and not acknowledged) abort. So does a leak: a context
 *   closed with objects, a channel with ids.
 *
 * Not there: atomics, windows, other types of QP than RC, IPv6, migration of
 * paths.
 *
 * One thread, that of the loop; but for reg_mr, reg_mr_iova2 and dereg_mr,
 * which any thread may call.
 */

#include <stdint.h>

#include "event/loop.h"
#include "xfer/rdmaverbs.h"

struct hca;
struct hca_host;
struct hca_dev;
struct hca_port;

struct hca_opts {
	uint64_t seed;
	uint64_t latency_ns;  /* one way between ports */
	uint64_t jitter_ns;   /* up to so much later is each piece sent, and
			       * again so much later received; no order but
			       * that within a QP is kept */
	uint64_t place_ns;    /* up to so long after they are acknowledged
			       * written bytes are in memory */
	uint64_t flush_ns;    /* up to so long after the end of a QP its
			       * requests complete as flushed */
	uint32_t piece_bytes; /* the largest piece; 0: 256 KiB. Pieces are of
			       * random size if there is jitter. */
};

struct hca_port_opts {
	double gbps;      /* each way; 0: 100. Of slower pieces see hca_rate */
	bool infiniband;  /* else Ethernet: RoCE */
	enum ibv_mtu mtu; /* 0: 4096 */
	const char *ip;   /* IPv4; NULL: none */
	unsigned fabric;  /* ports of one reach each other */
	/* InfiniBand: of its GID; LIDs lead to ports of the same one only. */
	uint8_t subnet;
	uint16_t pkeys; /* in its table, those of all ports are equal; 0: 1 */
};

/* `loop` is virtual, on `clock`. Both outlive it. Never NULL. */
struct hca *hca_new(struct kv_loop *loop, struct kv_clock *clock,
		    const struct hca_opts *opts);

/* Every process has given back what it had (asserted). */
void hca_free(struct hca *h);

/* Turns the loop, moving the clock from event to event, until `until_ns`, where
 * the clock then stands. Loops of processes are turned by others. */
void hca_run(struct hca *h, uint64_t until_ns);

/* Of the whole world, until hca_free(). Nothing is copied but names. */
struct hca_host *hca_host_add(struct hca *h, const char *name);
/* Its devices are listed in the order in which they came. */
struct hca_dev *hca_dev_add(struct hca_host *host, const char *name);
/* Its number is that of the ports of the device, from 1 on. Active. */
struct hca_port *hca_port_add(struct hca_dev *dev,
			      const struct hca_port_opts *opts);

/* A process on the host, which waits for descriptors on that loop (virtual, on
 * the same clock; it lives until the process has exited, or hca_free()). Valid
 * until hca_free(), or until it has exited and given everything back. 64
 * processes at a time. */
const struct kv_rdmaverbs *hca_process(struct hca_host *host,
				       struct kv_loop *loop);
/* It has ended: its QPs touch nothing any more, its connections are closed as
 * the kernel would. No events, no completions come. What it has of objects must
 * be given up as always. */
void hca_process_exit(const struct kv_rdmaverbs *v);

/* ---- what goes wrong ---- */

/* What all processes of the host may register together. At first: all. */
void hca_memlock(struct hca_host *host, uint64_t bytes);

/* The way from one port to another (NULL: to all; those added later, too). */
void hca_cut(struct hca_port *from, struct hca_port *to, bool cut);
void hca_delay(struct hca_port *from, struct hca_port *to, uint64_t ns);
/* Of so many of 1 packets each is lost. */
void hca_loss(struct hca_port *from, struct hca_port *to, double chance);

/* What the port takes each way from now on, whatever it says of its speed. */
void hca_rate(struct hca_port *port, double bytes_per_ns);
/* Down: nothing passes, and the contexts of the device are told, both times. */
void hca_port_up(struct hca_port *port, bool up);
/* From now on nobody is told anything of the ports of the device. */
void hca_dev_mute(struct hca_dev *dev, bool mute);
/* It has no GID (and no address) any more, or the first ones, and this address
 * (IPv4; NULL: none): the contexts of the device are told, both times. */
void hca_port_bare(struct hca_port *port);
void hca_port_address(struct hca_port *port, const char *ip);
/* IBV_EVENT_DEVICE_FATAL, RDMA_CM_EVENT_DEVICE_REMOVAL; no way back. */
void hca_dev_remove(struct hca_dev *dev);

/* IBV_EVENT_CQ_ERR, IBV_EVENT_SRQ_ERR: as if it had overrun, of which polling
 * says nothing; the queue pairs end. */
void hca_cq_lose(struct ibv_cq *cq);
void hca_srq_lose(struct ibv_srq *srq);

/* A request fails somewhere on its way, some of its bytes moved. */
struct hca_fault {
	enum ibv_wc_status status;
	uint32_t vendor_err;
	unsigned nth;  /* of those that the port's QPs are posted from now on,
			* from 1 on; 0: each with this chance: */
	double chance; /* 0: none any more */
};

/* In place of the last such fault. The far end is not told of it. */
void hca_fail_wr(struct hca_port *port, const struct hca_fault *fault);

/* The next step of a connection on that host of which this can be the outcome
 * has it: ADDR_ERROR, ROUTE_ERROR, CONNECT_ERROR, UNREACHABLE, REJECTED (with
 * up to 148 bytes of private data). */
void hca_fail_cm(struct hca_host *host, enum rdma_cm_event_type type,
		 int status, const void *data, uint8_t bytes);
/* It is told this out of the blue: DISCONNECTED, ADDR_CHANGE, ... */
void hca_cm_event(struct rdma_cm_id *id, enum rdma_cm_event_type type,
		  int status);

#endif
