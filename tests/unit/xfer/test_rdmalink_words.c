/* What a peer may say on the connection, and tell as ends. */
#include "xfer/rdmalink.h"

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
open_one(void)
{
	const struct railrig_opts o = { .n = { 1, 1 } };

	railrig_open(&o);
}

/* ---- on the connection ---- */

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
		{ .port = kv_le16(1), .layer = 2, .mtu = 5 },
		{ .port = kv_le16(1), .number = 1, .layer = 2, .mtu = 5 },
	};
	const struct kv_rails some = { .count = kv_le32(1) };

	(void)state;
	open_one();
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
	r[1].layer = 0;
	say_rails(2, r, 2);
	expect_broken(0);
	r[1].layer = 3;
	say_rails(2, r, 2);
	expect_broken(0);
	r[1].layer = 2;
	r[1].mtu = 0;
	say_rails(2, r, 2);
	expect_broken(0);
	r[1].mtu = 6;
	say_rails(2, r, 2);
	expect_broken(0);
	r[1].mtu = 5;
	r[1].zero[5] = 1;
	say_rails(2, r, 2);
	expect_broken(0);
	/* And who listens is not told any. */
	assert_false(kv_rdmalink_take(
		railrig[1].l,
		&(struct kv_msg){ .type = KV_MSG_RAILS, .body = &some }));
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
	open_one();
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
	open_one();
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
	open_one();
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
	open_one();
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
	open_one();
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
		TEST(broken_rails_are_seen),
		TEST(broken_fences_are_seen),
		TEST(unknown_names_are_answered),
		TEST(broken_answers_are_seen),
		TEST(ends_are_counted),
		TEST(ends_that_do_not_add_up_end_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
