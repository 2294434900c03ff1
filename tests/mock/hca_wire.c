/* Packets on their way from one QP to another. */

#include "hca_internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/num.h"

enum {
	PIECE_NS = 100000,
	PIECE_BYTES_MIN = 4096,
};

/* The version of RoCE that it speaks, and the other end is to speak. */
static int
gid_type(const struct hca_qp *qp)
{
	const struct ibv_ah_attr *ah = &qp->attr.ah_attr;

	if (qp->port->opts.infiniband || !ah->is_global)
		return -1;
	return (int)qp->port->gids[ah->grh.sgid_index].gid_type;
}

struct hca_packet *
hca_packet_new(struct hca_qp *qp, enum hca_kind kind, size_t bytes)
{
	struct hca_packet *p = malloc(sizeof(*p) + bytes);
	bool is_request = kind <= HCA_READ;

	assert(p);
	memset(p, 0, sizeof(*p));
	p->hca = qp->hca;
	p->from = qp->port;
	p->to = qp->peer;
	p->src_qpn = qp->qp.qp_num;
	p->dst_qpn = qp->attr.dest_qp_num;
	p->kind = kind;
	p->psn = is_request ? qp->attr.sq_psn : qp->attr.rq_psn;
	p->mtu = qp->attr.path_mtu;
	p->pkey_index = qp->attr.pkey_index;
	p->gid_type = gid_type(qp);
	p->len = bytes;
	kv_list_init(&p->link);
	return p;
}

void
hca_packet_free(struct hca_packet *p)
{
	kv_loop_timer_del(&p->timer);
	kv_list_del(&p->link);
	free(p);
}

/* The QP that the packet is for, if it takes any from there. */
static struct hca_qp *
receiver_of(const struct hca_packet *p)
{
	struct hca_qp *qp = hca_qp_find(p->to->dev, p->dst_qpn);
	bool is_request = p->kind <= HCA_READ;

	/* Numbers of QPs are of the whole world. */
	if (!qp || qp->port != p->to || qp->peer != p->from ||
	    qp->attr.dest_qp_num != p->src_qpn)
		return NULL;
	if (qp->attr.pkey_index != p->pkey_index || gid_type(qp) != p->gid_type)
		return NULL;
	if (qp->qp.state != IBV_QPS_RTS && qp->qp.state != IBV_QPS_SQD &&
	    !(is_request && qp->qp.state == IBV_QPS_RTR))
		return NULL;
	if (p->psn != (is_request ? qp->attr.rq_psn : qp->attr.sq_psn))
		return NULL;
	return qp;
}

static void
arrive(struct kv_timer *t)
{
	struct hca_packet *p = KV_CONTAINER_OF(t, struct hca_packet, timer);
	struct hca_qp *qp = NULL;

	kv_list_del(&p->link);
	if (hca_reaches(p->from, p->to))
		qp = receiver_of(p);
	if (qp && p->kind <= HCA_READ) {
		if (hca_resp_request(qp, p))
			return;
	} else if (qp) {
		hca_req_answer(qp, p);
	}
	hca_packet_free(p);
}

void
hca_packet_send(struct hca_packet *p, uint64_t *arrives_ns)
{
	struct hca *h = p->hca;
	uint64_t at;

	if (!p->to || !hca_reaches(p->from, p->to) ||
	    hca_loses(p->from, p->to)) {
		hca_packet_free(p);
		return;
	}
	at = hca_arrive(p->from, p->to, p->len) +
	     hca_upto(h, h->opts.jitter_ns);
	/* Of timers that are due at once any may come first. */
	*arrives_ns = kv_max_u64(*arrives_ns + 1, at);
	p->timer.fn = arrive;
	kv_list_add_tail(&h->flying, &p->link);
	hca_arm(h, &p->timer, *arrives_ns);
}

/* No larger than what the port takes in a time that is short to any time-out:
 * what moves, however slowly, is seen to move. */
uint64_t
hca_piece(const struct hca_port *port, uint64_t left)
{
	struct hca *h = port->dev->host->hca;
	uint64_t fair = (uint64_t)(port->rate * (double)PIECE_NS);
	uint64_t n = kv_min_u64(left, h->opts.piece_bytes);

	n = kv_min_u64(n, kv_max_u64(fair, PIECE_BYTES_MIN));
	if (h->opts.jitter_ns && n > 1 && hca_upto(h, 1))
		return 1 + hca_upto(h, n - 2);
	return n;
}
