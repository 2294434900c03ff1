/* How rails come up, and what strangers and peers may say. */
#include "xfer/rdmalink.h"

#include <arpa/inet.h>
#include <endian.h>
#include <string.h>

#include "railrig.h"
#include "test.h"
#include "xfer/rdmalinkcore.h"

static int
teardown(void **state)
{
	(void)state;
	railrig_close();
	return 0;
}

static void
open_n(unsigned n0, unsigned n1)
{
	const struct railrig_opts o = { .n = { n0, n1 } };

	railrig_open(&o);
}

/* ---- ports ---- */

static void
ports_are_paired_by_network(void **state)
{
	const struct railrig_opts o = { .n = { 4, 4 }, .is_crossed = true };
	const struct kv_rdmalink *l;
	unsigned i;

	(void)state;
	railrig_open(&o);
	l = railrig[0].l;
	railrig_connect();
	assert_int_equal(kv_rdmalink_rails(l), 4);
	for (i = 0; i < 4; i++)
		assert_int_equal(l->rails[i].far, 3 - i);
	railrig_move(0, KV_RDMAXFER_WRITE, 0, 0, 1 << 20);
	railrig_move(1, KV_RDMAXFER_WRITE, 0, 0, 1 << 20);
}

/* Networks are not told: each tries the others. */
static void
ports_are_paired_by_trial(void **state)
{
	const struct railrig_opts o = { .n = { 3, 3 }, .is_crossed = true };
	struct kv_rdmalink *l;
	unsigned i;

	(void)state;
	railrig_open(&o);
	l = railrig[0].l;
	for (i = 0; i < 3; i++)
		railrig[0].r.devs[i].ip_bits[0] = 0;
	for (i = 0; i < 3; i++)
		railrig[1].r.devs[i].ip_bits[0] = 0;
	kv_rdmalink_tell(railrig[1].l);
	railrig_ms(600);
	assert_int_equal(railrig[0].n_settled, 1);
	railrig_ms(10000);
	assert_int_equal(kv_rdmalink_rails(l), 3);
	for (i = 0; i < 3; i++)
		assert_int_equal(l->rails[i].far, 2 - i);
	railrig_move(0, KV_RDMAXFER_WRITE, 0, 0, 1 << 20);
	railrig_move(1, KV_RDMAXFER_READ, 0, 0, 1 << 20);
}

static void
one_port_reaches_all_of_the_other_side(void **state)
{
	const struct railrig_opts o = { .n = { 1, 4 }, .is_flat = true };

	(void)state;
	railrig_open(&o);
	railrig_connect();
	assert_int_equal(kv_rdmalink_rails(railrig[0].l), 4);
	/* Each has its part of the port. */
	assert_true(railrig[0].l->share[0].speed == 12.5 / 4);
	railrig_move(0, KV_RDMAXFER_WRITE, 0, 0, 1 << 20);
}

static void
no_ports_are_settled_at_once(void **state)
{
	struct kv_rails *body;

	(void)state;
	open_n(1, 1);
	body = kv_conn_begin(railrig[1].c, KV_MSG_RAILS, 0, 0);
	assert_non_null(body);
	kv_conn_end(railrig[1].c);
	railrig_ms(1);
	assert_int_equal(railrig[0].n_settled, 1);
	assert_int_equal(kv_rdmalink_rails(railrig[0].l), 0);
	/* Others may follow. */
	kv_rdmalink_tell(railrig[1].l);
	railrig_ms(10);
	assert_int_equal(kv_rdmalink_rails(railrig[0].l), 1);
	assert_int_equal(railrig[0].n_settled, 1);
}

static void
who_is_not_reached_is_settled_in_half_a_second(void **state)
{
	(void)state;
	open_n(2, 2);
	hca_cut(railrig[0].ports[1], NULL, true);
	kv_rdmalink_tell(railrig[1].l);
	railrig_ms(490);
	assert_int_equal(railrig[0].n_settled, 0);
	railrig_ms(20);
	assert_int_equal(railrig[0].n_settled, 1);
	assert_int_equal(kv_rdmalink_rails(railrig[0].l), 1);
	hca_cut(railrig[0].ports[1], NULL, false);
	railrig_ms(10000);
	assert_int_equal(kv_rdmalink_rails(railrig[0].l), 2);
}

static void
a_refusal_settles_at_once_and_is_told(void **state)
{
	(void)state;
	open_n(1, 1);
	kv_rdmalink_tell(railrig[1].l);
	kv_rdmalink_free(kv_steal_ptr(&railrig[1].l));
	railrig_ms(5);
	assert_int_equal(railrig[0].n_settled, 1);
	assert_int_equal(kv_rdmalink_rails(railrig[0].l), 0);
	assert_string_equal(kv_rdmalink_why(railrig[0].l),
			    "dev0 port 1 to 10.0.0.2: refused");
}

static void
pauses_grow(void **state)
{
	unsigned n;

	(void)state;
	open_n(1, 1);
	kv_rdmalink_tell(railrig[1].l);
	kv_rdmalink_free(kv_steal_ptr(&railrig[1].l));
	railrig_ms(10000);
	n = railrig[0].l->next_qp;
	/* 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5: two queue pairs each time. */
	assert_in_range(n, 10, 24);
	railrig_ms(50000);
	assert_in_range(railrig[0].l->next_qp - n, 16, 44);
}

static void
other_ports_take_their_place(void **state)
{
	struct kv_rail_rec recs[KV_RAILS_MAX];
	struct railrig_move m;
	struct kv_rails *body;
	void *tail;

	(void)state;
	open_n(2, 2);
	railrig_connect();
	railrig_prepare(&m, 0, KV_RDMAXFER_WRITE, 0, 0, 6 << 20);
	railrig_start(&m);
	railrig_us(50);
	/* Only the second one is left. */
	assert_int_equal(kv_rdmaloop_rails(railrig[1].rl, recs), 2);
	body = kv_conn_begin_tail(railrig[1].c, KV_MSG_RAILS, 0, 0,
				  sizeof(recs[1]), &tail);
	body->count = kv_le32(1);
	memcpy(tail, &recs[1], sizeof(recs[1]));
	kv_conn_end(railrig[1].c);
	railrig_ms(100);
	assert_int_equal(m.done, 1);
	assert_int_equal(m.status, 0);
	assert_true(railrig_is_same(&m));
	assert_int_equal(kv_rdmalink_rails(railrig[0].l), 1);
	assert_int_equal(kv_rdmalink_rails(railrig[1].l), 1);
	/* And the same list again changes nothing. */
	kv_rdmalink_tell(railrig[1].l);
	railrig_ms(100);
	assert_int_equal(kv_rdmalink_rails(railrig[0].l), 2);
	kv_rdmalink_tell(railrig[1].l);
	railrig_ms(100);
	assert_int_equal(kv_rdmalink_rails(railrig[0].l), 2);
	railrig_move(1, KV_RDMAXFER_READ, 0, 0, 1 << 20);
}

/* ---- strangers ---- */

static int stranger_why;
static struct kv_rdmaconn *stranger;
static struct kv_rdmaqp *stranger_qp;

static void
stranger_imm(struct kv_rdmaqp *qp, uint32_t imm)
{
	(void)qp;
	(void)imm;
}

static void
stranger_qp_over(struct kv_rdmaqp *qp, int why)
{
	(void)qp;
	(void)why;
}

static const struct kv_rdmaqp_ops stranger_qp_ops = {
	.imm = stranger_imm,
	.over = stranger_qp_over,
};

static struct kv_rdmaqp *
stranger_make(struct kv_rdmaconn *c, const char *device, unsigned port)
{
	const struct kv_rdmaqp_opts o = { .depth = 4, .ops = &stranger_qp_ops };

	(void)c;
	(void)device;
	(void)port;
	stranger_qp = kv_rdmaqp_new(railrig[0].rl->cqs[0], &o);
	return stranger_qp;
}

static void
stranger_ready(struct kv_rdmaconn *c, const void *word, size_t bytes)
{
	(void)c;
	(void)word;
	(void)bytes;
	stranger_why = 1;
}

static void
stranger_over(struct kv_rdmaconn *c, int why)
{
	(void)c;
	stranger_why = why;
}

/* What it is told; 1: it got in. */
static int
knock_and_stay(const void *word, size_t bytes)
{
	static const struct kv_rdmaconn_ops ops = { stranger_make,
						    stranger_ready,
						    stranger_over };
	const struct kv_rdmaconn_opts o = {
		.ops = &ops,
		.word = word,
		.bytes = bytes,
		.deadline_ns = railrig_now() + KV_NS_PER_S,
	};
	struct kv_rail_rec recs[KV_RAILS_MAX];
	struct sockaddr_storage from, to;

	assert_true(kv_rdmaloop_rails(railrig[1].rl, recs) > 0);
	kv_rdmaloop_addr(&railrig[0].r.devs[0].ips[0], 0, &from);
	kv_rdmaloop_addr(recs[0].ip, kv_get16(recs[0].port), &to);
	stranger_why = 0;
	stranger = kv_rdmacm_dial(railrig[0].rl->cm, (struct sockaddr *)&from,
				  (struct sockaddr *)&to, &o);
	assert_non_null(stranger);
	railrig_ms(10);
	return stranger_why;
}

static int
knock(const void *word, size_t bytes)
{
	int why = knock_and_stay(word, bytes);

	kv_rdmacm_give_up(kv_steal_ptr(&stranger));
	kv_rdmaqp_free(kv_steal_ptr(&stranger_qp));
	railrig_ms(10);
	return why;
}

static void
strangers_are_refused(void **state)
{
	const struct kv_rail_word good = {
		.magic = kv_le32(KV_RAIL_MAGIC),
		.qp = kv_le32(77),
		.token = kv_le64(RAILRIG_TOKEN),
	};
	struct kv_rail_word w;

	(void)state;
	open_n(1, 2);
	railrig_connect();
	assert_int_equal(knock(&good, sizeof(good)), 1);
	w = good;
	w.magic = kv_le32(KV_RAIL_MAGIC + 1);
	assert_int_equal(knock(&w, sizeof(w)), -ECONNREFUSED);
	w = good;
	w.token = kv_le64(RAILRIG_TOKEN + 1);
	assert_int_equal(knock(&w, sizeof(w)), -ECONNREFUSED);
	w = good;
	w.far = 1; /* another port than it dialled */
	assert_int_equal(knock(&w, sizeof(w)), -ECONNREFUSED);
	w = good;
	w.near = KV_RAILS_MAX;
	assert_int_equal(knock(&w, sizeof(w)), -ECONNREFUSED);
	w = good;
	w.zero[1] = 1;
	assert_int_equal(knock(&w, sizeof(w)), -ECONNREFUSED);
	w = good;
	w.qp = kv_le32(0); /* there is one of that name */
	assert_int_equal(knock(&w, sizeof(w)), -ECONNREFUSED);
	assert_int_equal(knock("?", 1), -ECONNREFUSED);
	assert_int_equal(knock(NULL, 0), -ECONNREFUSED);
	railrig_move(1, KV_RDMAXFER_WRITE, 0, 0, 1 << 20);
}

/* Whoever dials keeps two of a pair of ports: of more the oldest goes. */
static void
old_ones_make_room(void **state)
{
	struct kv_rdmalink *l;
	struct kv_rail_word w = {
		.magic = kv_le32(KV_RAIL_MAGIC),
		.token = kv_le64(RAILRIG_TOKEN),
	};
	struct kv_rdmaconn *conns[3];
	struct kv_rdmaqp *qps[3];
	unsigned i;

	(void)state;
	open_n(1, 1);
	l = railrig[1].l;
	railrig_connect();
	for (i = 0; i < 3; i++) {
		w.qp = kv_le32(77 + i);
		assert_int_equal(knock_and_stay(&w, sizeof(w)), 1);
		conns[i] = kv_steal_ptr(&stranger);
		qps[i] = kv_steal_ptr(&stranger_qp);
		if (i == 1)
			assert_non_null(kv_rdmarail_find(l, 0));
	}
	assert_null(kv_rdmarail_find(l, 0));
	assert_non_null(kv_rdmarail_find(l, 1));
	assert_int_equal(__builtin_popcountll(l->rails[0].slots), 4);
	for (i = 0; i < 3; i++) {
		kv_rdmacm_give_up(conns[i]);
		kv_rdmaqp_free(qps[i]);
	}
	railrig_ms(1000);
	assert_int_equal(__builtin_popcountll(l->rails[0].slots), 2);
}

/* ---- what the other side says ---- */

static void
say_rails(uint32_t count, const struct kv_rail_rec *recs, unsigned n)
{
	struct kv_rails *body;
	void *tail;

	body = kv_conn_begin_tail(railrig[1].c, KV_MSG_RAILS, 0, 0,
				  n * sizeof(*recs), &tail);
	assert_non_null(body);
	body->count = kv_le32(count);
	if (n)
		memcpy(tail, recs, n * sizeof(*recs));
	kv_conn_end(railrig[1].c);
}

static void
expect_broken(int end)
{
	railrig_ms(5);
	assert_true(railrig[end].is_broken);
	railrig[end].is_broken = false;
}

static void
broken_rails_are_seen(void **state)
{
	struct kv_rail_rec r[KV_RAILS_MAX + 1] = {
		{ .port = kv_le16(1) },
		{ .port = kv_le16(1), .number = 1 },
	};

	(void)state;
	open_n(1, 1);
	say_rails(2, r, 1);
	expect_broken(0);
	say_rails(1, r, 2);
	expect_broken(0);
	r[1].number = 0;
	say_rails(2, r, 2);
	expect_broken(0);
	r[1].number = KV_RAILS_MAX;
	say_rails(2, r, 2);
	expect_broken(0);
	r[1].number = 1;
	r[1].bits = 129;
	say_rails(2, r, 2);
	expect_broken(0);
	r[1].bits = 0;
	r[1].port = kv_le16(0);
	say_rails(2, r, 2);
	expect_broken(0);
	/* And who listens is not told any. */
	assert_false(kv_rdmalink_take(
		railrig[1].l, &(struct kv_msg){ .type = KV_MSG_RAILS }));
	assert_false(kv_rdmalink_take(
		railrig[1].l, &(struct kv_msg){ .type = KV_MSG_HELLO }));
	kv_rdmalink_tell(railrig[1].l);
	railrig_ms(10);
	assert_int_equal(kv_rdmalink_rails(railrig[0].l), 1);
}

static void
say_fence(const void *tail, size_t n, uint32_t qps, uint32_t xfers)
{
	struct kv_qpfence *body;
	void *to;

	body = kv_conn_begin_tail(railrig[0].c, KV_MSG_QPFENCE, 1, 0, n, &to);
	assert_non_null(body);
	*body = (struct kv_qpfence){ kv_le32(qps), kv_le32(xfers) };
	if (n)
		memcpy(to, tail, n);
	kv_conn_end(railrig[0].c);
}

static void
say_fence_xfer(const struct kv_qpfence_xfer *x)
{
	say_fence(x, sizeof(*x), 0, 1);
}

static void
broken_fences_are_seen(void **state)
{
	static const struct kv_le32 many[KV_RDMALINK_SLOTS + 1];
	struct kv_qpfence_xfer x = { .round = 1 };

	(void)state;
	open_n(1, 1);
	railrig_connect();
	say_fence(many, 4, 2, 0);
	expect_broken(1);
	say_fence(many, 4, UINT32_MAX, UINT32_MAX);
	expect_broken(1);
	say_fence(many, sizeof(many), KV_RDMALINK_SLOTS + 1, 0);
	expect_broken(1);
	x.number = kv_le32(1u << KV_RAIL_NUMBER_BITS);
	say_fence_xfer(&x);
	expect_broken(1);
	x.number = kv_le32(1);
	x.round = 16;
	say_fence_xfer(&x);
	expect_broken(1);
	x.round = 1;
	x.zero[0] = 1;
	say_fence_xfer(&x);
	expect_broken(1);
	/* Two at a time: the second one comes while the first one waits. */
	say_fence(many, 4, 1, 0);
	say_fence(many, 4, 1, 0);
	expect_broken(1);
}

/* Names of nothing are answered; nobody had asked at the other end. */
static void
unknown_names_are_answered(void **state)
{
	struct kv_le32 name = kv_le32(4711);
	struct kv_qpfence_xfer x = { .number = kv_le32(5), .status = 14 };

	(void)state;
	open_n(1, 1);
	railrig_connect();
	say_fence(&name, sizeof(name), 1, 0);
	expect_broken(0);
	say_fence_xfer(&x);
	expect_broken(0);
	assert_false(railrig[1].is_broken);
}

/* An answer to another question than was asked. */
static void
broken_answers_are_seen(void **state)
{
	struct railrig_move m;
	struct kv_qpfence_r *body;
	void *tail;

	(void)state;
	open_n(1, 1);
	railrig_connect();
	railrig_prepare(&m, 0, KV_RDMAXFER_WRITE, 0, 0, 6 << 20);
	railrig_start(&m);
	railrig_us(50);
	kv_rdmalink_cancel(&m.x);
	railrig_us(1);
	body = kv_conn_begin_tail(railrig[1].c, KV_MSG_QPFENCE_R, 1, 0, 4,
				  &tail);
	body->qps = kv_le32(1);
	memset(tail, 0x77, 4);
	kv_conn_end(railrig[1].c);
	expect_broken(0);
	assert_int_equal(m.done, 1);
	assert_int_equal(m.end_status, -EIO);
}

/* ---- ends ---- */

static void
imm_done(struct kv_rdmawr *w, int status)
{
	(void)w;
	assert_int_equal(status, 0);
}

static void
say_end(unsigned slot, uint32_t imm)
{
	static struct kv_rdmawr w;
	struct kv_rdmawr *list = &w;

	w = (struct kv_rdmawr){ .done = imm_done };
	w.wr.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
	w.wr.imm_data = htobe32(imm);
	kv_rdmaqp_post(railrig[0].l->slots[slot]->qp, &list, 1);
	railrig_us(100);
}

static unsigned n_ended;
static int ended;

static void
on_ended(struct kv_rdmaend *e, int status)
{
	(void)e;
	n_ended++;
	ended = status;
}

static void
ends_are_counted(void **state)
{
	struct kv_rdmaend e = { .done = on_ended };
	uint32_t n;

	(void)state;
	open_n(1, 1);
	railrig_connect();
	n_ended = 0;
	kv_rdmalink_await(railrig[1].l, &e);
	n = e.number;
	say_end(0, kv_rdmaend_word(n + 1, 0, 1)); /* nobody awaits it */
	say_end(0, kv_rdmaend_word(n, 1, 1));     /* another round */
	say_end(0, kv_rdmaend_word(n, 0, 2));
	assert_int_equal(n_ended, 0);
	say_end(1, kv_rdmaend_word(n, 0, 2));
	assert_int_equal(n_ended, 1);
	assert_int_equal(ended, 0);
	say_end(1, kv_rdmaend_word(n, 0, 2));
	assert_int_equal(n_ended, 1);
	assert_int_equal(kv_rdmalink_rails(railrig[1].l), 1);
	/* What is forgotten is not told. */
	kv_rdmalink_await(railrig[1].l, &e);
	say_end(1, kv_rdmaend_word(e.number, 0, 1));
	kv_rdmalink_await(railrig[1].l, &e);
	kv_rdmalink_forget(&e);
	kv_rdmalink_forget(&e);
	say_end(1, kv_rdmaend_word(e.number, 0, 1));
	assert_int_equal(n_ended, 2);
}

static void
ends_that_do_not_add_up_end_it(void **state)
{
	struct kv_rdmaend e = { .done = on_ended };

	(void)state;
	open_n(1, 1);
	railrig_connect();
	n_ended = 0;
	kv_rdmalink_await(railrig[1].l, &e);
	say_end(0, kv_rdmaend_word(e.number, 0, 2));
	assert_int_equal(kv_rdmalink_rails(railrig[1].l), 1);
	say_end(1, kv_rdmaend_word(e.number, 0, 3));
	assert_int_equal(kv_rdmalink_rails(railrig[1].l), 0);
	assert_int_equal(n_ended, 0);
	railrig_ms(1000);
	assert_int_equal(kv_rdmalink_rails(railrig[1].l), 1);
	say_end(0, kv_rdmaend_word(e.number, 0, 0));
	assert_int_equal(kv_rdmalink_rails(railrig[1].l), 0);
	kv_rdmalink_forget(&e);
	assert_int_equal(n_ended, 0);
}

#define TEST(f) cmocka_unit_test_teardown(f, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(ports_are_paired_by_network),
		TEST(ports_are_paired_by_trial),
		TEST(one_port_reaches_all_of_the_other_side),
		TEST(no_ports_are_settled_at_once),
		TEST(who_is_not_reached_is_settled_in_half_a_second),
		TEST(a_refusal_settles_at_once_and_is_told),
		TEST(pauses_grow),
		TEST(other_ports_take_their_place),
		TEST(strangers_are_refused),
		TEST(old_ones_make_room),
		TEST(broken_rails_are_seen),
		TEST(broken_fences_are_seen),
		TEST(unknown_names_are_answered),
		TEST(broken_answers_are_seen),
		TEST(ends_are_counted),
		TEST(ends_that_do_not_add_up_end_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
