/* How rails come up, and what strangers may say. */
#include "xfer/rdmalink.h"

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
	assert_true(railrig[0].l->share.said[0] == 12.5 / 4);
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
	assert_int_equal(railrig[0].n_settled, 2);
}

static void
who_is_not_reached_is_settled_in_half_a_second(void **state)
{
	char why[256];

	(void)state;
	open_n(2, 2);
	hca_cut(railrig[0].ports[1], NULL, true);
	kv_rdmalink_tell(railrig[1].l);
	railrig_ms(490);
	assert_int_equal(railrig[0].n_settled, 0);
	railrig_ms(20);
	assert_int_equal(railrig[0].n_settled, 1);
	assert_int_equal(kv_rdmalink_rails(railrig[0].l), 1);
	assert_int_equal(kv_rdmalink_pairs(railrig[0].l, why, sizeof(why)), 2);
	assert_string_equal(why, "dev1 port 1 to 10.0.1.2: being connected");
	railrig_ms(5000);
	assert_int_equal(kv_rdmalink_pairs(railrig[0].l, why, sizeof(why)), 2);
	assert_string_equal(why, "dev1 port 1 to 10.0.1.2: no answer");
	hca_cut(railrig[0].ports[1], NULL, false);
	railrig_ms(10000);
	assert_int_equal(kv_rdmalink_rails(railrig[0].l), 2);
	assert_int_equal(kv_rdmalink_pairs(railrig[0].l, why, sizeof(why)), 2);
	assert_string_equal(why, "");
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
			    "dev0 port 1 to 10.0.0.2: there are too many "
			    "queue pairs");
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
	/* 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5: two queue pairs each time, by the
	 * connection manager and without. */
	assert_in_range(n, 20, 48);
	railrig_ms(50000);
	assert_in_range(railrig[0].l->next_qp - n, 32, 88);
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
	assert_string_equal(kv_rdmalink_why(railrig[0].l),
			    "dev0 port 1 to 10.0.0.2: the other side does not "
			    "offer that port any more");
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
	kv_rdma_sockaddr(&railrig[0].r.devs[0].ips[0], 0, &from);
	kv_rdma_sockaddr(recs[0].ip, kv_get16(recs[0].port), &to);
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
		.mtu = IBV_MTU_4096,
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
	w.zero = 1;
	assert_int_equal(knock(&w, sizeof(w)), -ECONNREFUSED);
	w = good;
	w.mtu = 0;
	assert_int_equal(knock(&w, sizeof(w)), -ECONNREFUSED);
	w.mtu = 6;
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
		.mtu = IBV_MTU_4096,
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
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
