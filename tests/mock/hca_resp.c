/* The responder: does what is asked, in order, and says so. */

#include "hca_internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/num.h"

/* ---- bytes that have been acknowledged and are not in memory yet ---- */

static void
place_first(struct hca_qp *qp)
{
	struct hca_packet *p =
		KV_LIST_FIRST(&qp->placing, struct hca_packet, link);

	if (p->serial == hca_mr_serial(qp->dev, p->rkey))
		memcpy(p->place, p->bytes, p->len);
	hca_packet_free(p);
}

void
hca_resp_place_all(struct hca_qp *qp)
{
	while (!kv_list_is_empty(&qp->placing))
		place_first(qp);
}

/* What came before is there before it. */
static void
run_place(struct kv_timer *t)
{
	struct hca_packet *p = KV_CONTAINER_OF(t, struct hca_packet, timer);
	struct hca_qp *qp = hca_qp_find(p->to->dev, p->dst_qpn);
	bool is_placed = false;

	while (!is_placed) {
		is_placed = kv_list_first(&qp->placing) == &p->link;
		place_first(qp);
	}
}

/* The packet is kept: true. */
static bool
place(struct hca_qp *qp, struct hca_packet *p, uint8_t *to, uint64_t skip)
{
	uint64_t delay = hca_upto(qp->hca, qp->hca->opts.place_ns);

	memmove(p->bytes, p->bytes + skip, p->len - skip);
	p->len -= skip;
	p->place = to;
	p->serial = hca_mr_serial(qp->dev, p->rkey);
	if (delay == 0 && kv_list_is_empty(&qp->placing)) {
		memcpy(to, p->bytes, p->len);
		return false;
	}
	p->timer.fn = run_place;
	kv_list_add_tail(&qp->placing, &p->link);
	hca_arm(qp->hca, &p->timer, hca_now(qp->hca) + delay);
	return true;
}

/* ---- answers, in the order of what they answer ---- */

static void
answer_free(struct hca_qp *qp, struct hca_answer *a)
{
	if (a->kind == HCA_DATA)
		qp->reads_in--;
	kv_list_del(&a->link);
	free(a);
}

static void
send_answer(struct hca_qp *qp, const struct hca_answer *a)
{
	struct hca_packet *p = hca_packet_new(qp, a->kind, 0);

	p->msn = a->msn;
	p->off = a->off;
	p->status = a->status;
	p->rnr_timer = qp->attr.min_rnr_timer;
	hca_packet_send(p, &qp->answer_arrives_ns);
}

static void
pump(struct hca_qp *qp)
{
	struct hca_answer *a;
	uint64_t at;

	if (qp->answer.loop)
		return;
	while ((a = KV_LIST_FIRST(&qp->answers, struct hca_answer, link))) {
		bool is_end = a->kind == HCA_NAK;

		if (a->kind == HCA_DATA)
			break;
		send_answer(qp, a);
		answer_free(qp, a);
		if (is_end) {
			hca_qp_end(qp);
			return;
		}
	}
	if (!a)
		return;
	qp->answer_len = hca_piece(qp->port, a->total - a->off);
	at = hca_leave(qp->port, qp->answer_len);
	hca_arm(qp->hca, &qp->answer,
		at + hca_upto(qp->hca, qp->hca->opts.jitter_ns));
}

static void
answer(struct hca_qp *qp, const struct hca_answer *what)
{
	struct hca_answer *a;

	if (qp->qp.state == IBV_QPS_ERR) /* by what it just did */
		return;
	a = hca_alloc(sizeof(*a));
	*a = *what;
	if (a->kind == HCA_DATA)
		qp->reads_in++;
	kv_list_add_tail(&qp->answers, &a->link);
	pump(qp);
}

static void
answer_state(struct hca_qp *qp, enum hca_kind kind)
{
	answer(qp, &(struct hca_answer){
			   .kind = kind,
			   .msn = qp->expect,
			   .off = qp->expect_off,
		   });
}

/* It is told so after all that is owed before; then this end is in ERR. */
static void
refuse(struct hca_qp *qp, enum ibv_wc_status status)
{
	hca_qp_event(qp, status == IBV_WC_REM_ACCESS_ERR
				 ? IBV_EVENT_QP_ACCESS_ERR
				 : IBV_EVENT_QP_REQ_ERR);
	qp->refusing = true;
	answer(qp, &(struct hca_answer){
			   .kind = HCA_NAK,
			   .msn = qp->expect,
			   .off = qp->expect_off,
			   .status = status,
		   });
}

/* A READ whose region has gone since it was asked for. */
static void
refuse_data(struct hca_qp *qp, struct hca_answer *a)
{
	hca_qp_event(qp, IBV_EVENT_QP_ACCESS_ERR);
	qp->reads_in--;
	qp->refusing = true;
	a->kind = HCA_NAK;
	a->off = 0;
	a->status = IBV_WC_REM_ACCESS_ERR;
	pump(qp);
}

static void
run_answer(struct kv_timer *t)
{
	struct hca_qp *qp = KV_CONTAINER_OF(t, struct hca_qp, answer);
	struct hca_answer *a =
		KV_LIST_FIRST(&qp->answers, struct hca_answer, link);
	struct hca_packet *p;
	const uint8_t *from = NULL;

	hca_resp_place_all(qp);
	if (qp->answer_len) {
		from = hca_mr_find(qp->dev, qp->qp.pd, a->rkey, a->far + a->off,
				   qp->answer_len, IBV_ACCESS_REMOTE_READ);
		if (!from) {
			refuse_data(qp, a);
			return;
		}
	}
	p = hca_packet_new(qp, HCA_DATA, qp->answer_len);
	if (from)
		memcpy(p->bytes, from, p->len);
	p->msn = a->msn;
	p->off = a->off;
	a->off += p->len;
	p->last = a->off == a->total;
	if (p->last)
		answer_free(qp, a);
	hca_packet_send(p, &qp->answer_arrives_ns);
	pump(qp);
}

void
hca_resp_drop(struct hca_qp *qp)
{
	struct hca_answer *a;

	kv_loop_timer_del(&qp->answer);
	while ((a = KV_LIST_FIRST(&qp->answers, struct hca_answer, link)))
		answer_free(qp, a);
}

/* ---- requests ---- */

static bool
may_access(struct hca_qp *qp, const struct hca_packet *p, unsigned access)
{
	if (!(qp->attr.qp_access_flags & access))
		return false;
	return p->total == 0 || hca_mr_find(qp->dev, qp->qp.pd, p->rkey, p->far,
					    p->total, access);
}

/* So many bytes more, perhaps the last ones, of the message expected. */
static void
advance(struct hca_qp *qp, const struct hca_packet *p)
{
	qp->expect_off = p->off + p->len;
	if (p->last) {
		qp->expect++;
		qp->expect_off = 0;
	}
}

static bool
do_write(struct hca_qp *qp, struct hca_packet *p)
{
	uint64_t skip = qp->expect_off - p->off;
	uint8_t *to;
	bool is_kept = false;

	if (!may_access(qp, p, IBV_ACCESS_REMOTE_WRITE)) {
		refuse(qp, IBV_WC_REM_ACCESS_ERR);
		return false;
	}
	if (p->last && p->has_imm && !hca_recv_take(qp)) {
		answer_state(qp, HCA_RNR);
		return false;
	}
	to = hca_mr_find(qp->dev, qp->qp.pd, p->rkey, p->far + qp->expect_off,
			 p->len - skip, IBV_ACCESS_REMOTE_WRITE);
	advance(qp, p);
	if (p->len > skip)
		is_kept = place(qp, p, to, skip);
	if (p->last && p->has_imm) {
		struct hca_packet head = *p; /* it goes when it is placed */

		hca_resp_place_all(qp);
		hca_complete_recv(qp, IBV_WC_SUCCESS, &head);
	}
	answer_state(qp, HCA_ACK);
	return is_kept;
}

static void
do_send(struct hca_qp *qp, struct hca_packet *p)
{
	uint64_t skip = qp->expect_off - p->off;
	struct hca_part part = {
		.dev = qp->dev,
		.pd = qp->qp.srq ? qp->qp.srq->pd : qp->qp.pd,
		.sge = qp->cur_sge,
		.off = qp->expect_off,
		.len = p->len - skip,
	};

	if (!qp->has_cur && !hca_recv_take(qp)) {
		answer_state(qp, HCA_RNR);
		return;
	}
	part.n_sge = qp->cur.n_sge;
	if (p->off + p->len > hca_sge_bytes(qp->cur_sge, qp->cur.n_sge)) {
		hca_complete_recv(qp, IBV_WC_LOC_LEN_ERR, NULL);
		refuse(qp, IBV_WC_REM_INV_REQ_ERR);
		return;
	}
	if (!hca_scatter(&part, p->bytes + skip)) {
		hca_complete_recv(qp, IBV_WC_LOC_PROT_ERR, NULL);
		refuse(qp, IBV_WC_REM_OP_ERR);
		return;
	}
	advance(qp, p);
	if (p->last) {
		hca_resp_place_all(qp);
		hca_complete_recv(qp, IBV_WC_SUCCESS, p);
	}
	answer_state(qp, HCA_ACK);
}

static void
owe_data(struct hca_qp *qp, const struct hca_packet *p)
{
	answer(qp, &(struct hca_answer){
			   .kind = HCA_DATA,
			   .msn = p->msn,
			   .off = p->off,
			   .total = p->total,
			   .far = p->far,
			   .rkey = p->rkey,
		   });
}

static void
do_read(struct hca_qp *qp, const struct hca_packet *p)
{
	if (!may_access(qp, p, IBV_ACCESS_REMOTE_READ)) {
		refuse(qp, IBV_WC_REM_ACCESS_ERR);
		return;
	}
	if (qp->reads_in >= qp->attr.max_dest_rd_atomic) {
		refuse(qp, IBV_WC_REM_INV_REQ_ERR);
		return;
	}
	qp->expect++;
	owe_data(qp, p);
}

/* A READ is answered anew, from where it is asked for, and those after it are
 * asked for again; of all else it is said how far it has come. */
static void
repeat(struct hca_qp *qp, const struct hca_packet *p)
{
	struct hca_answer *a, *tmp;

	if (p->kind != HCA_READ) {
		answer_state(qp, HCA_ACK);
		return;
	}
	kv_loop_timer_del(&qp->answer);
	KV_LIST_FOREACH_SAFE(a, tmp, &qp->answers, link)
		if (a->kind == HCA_DATA && a->msn >= p->msn)
			answer_free(qp, a);
	if (may_access(qp, p, IBV_ACCESS_REMOTE_READ))
		owe_data(qp, p);
	else
		pump(qp);
}

static bool
is_too_long(const struct hca_qp *qp, const struct hca_packet *p)
{
	return p->mtu > qp->attr.path_mtu && p->len > 128u << qp->attr.path_mtu;
}

bool
hca_resp_request(struct hca_qp *qp, struct hca_packet *p)
{
	bool is_next = p->msn == qp->expect;

	if (qp->refusing)
		return false;
	if (!qp->is_heard && qp->qp.state == IBV_QPS_RTR)
		hca_qp_event(qp, IBV_EVENT_COMM_EST);
	qp->is_heard = true;
	if (p->msn > qp->expect || (is_next && p->off > qp->expect_off)) {
		if (!qp->gap_told)
			answer_state(qp, HCA_GAP);
		qp->gap_told = true;
		return false;
	}
	if (!is_next || (!p->last && p->off + p->len <= qp->expect_off)) {
		repeat(qp, p);
		return false;
	}
	qp->gap_told = false;
	if (is_too_long(qp, p))
		refuse(qp, IBV_WC_REM_INV_REQ_ERR);
	else if (p->kind == HCA_WRITE)
		return do_write(qp, p);
	else if (p->kind == HCA_SEND)
		do_send(qp, p);
	else
		do_read(qp, p);
	return false;
}

void
hca_resp_init(struct hca_qp *qp)
{
	qp->answer.fn = run_answer;
	kv_list_init(&qp->answers);
	kv_list_init(&qp->placing);
}
