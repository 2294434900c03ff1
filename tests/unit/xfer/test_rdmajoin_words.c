/* What is said of queue pairs that are joined, and what a peer may say. */
#include "xfer/rdmajoin.h"

#include <errno.h>
#include <string.h>

#include "base/status.h"
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
	const struct railrig_opts o = { .n = { 1, 1 },
					.no_ip = { 1, 1 },
					.pkeys = 2 };

	railrig_open(&o);
}

static unsigned
slots(int end)
{
	unsigned i, n = 0;

	for (i = 0; i < KV_RDMALINK_SLOTS; i++)
		n += railrig[end].l->slots[i] != NULL;
	return n;
}

/* An end that could be the dialler's; nobody is there. */
static struct kv_qpjoin
end_of(uint32_t qp)
{
	struct kv_qpjoin q = {
		.qp = kv_le32(qp),
		.qpn = kv_le32(0xabcdef),
		.psn = kv_le32(0xffffff),
		.layer = KV_RAIL_ETHERNET,
		.mtu = IBV_MTU_1024,
		.initiates = 1,
		.responds = 1,
	};

	memcpy(q.gid, &railrig[0].r.devs[0].gid, sizeof(q.gid));
	return q;
}

static void
say(int end, enum kv_msg_type type, const struct kv_qpjoin *q)
{
	struct kv_qpjoin *body = kv_conn_begin(railrig[end].c, type, 0, 0);

	assert_non_null(body);
	*body = *q;
	kv_conn_end(railrig[end].c);
	railrig_ms(1);
}

static void
say_state(int end, uint32_t qp, uint8_t status)
{
	struct kv_qpstate *body =
		kv_conn_begin(railrig[end].c, KV_MSG_QPSTATE, 0, 0);

	assert_non_null(body);
	*body = (struct kv_qpstate){ .qp = kv_le32(qp), .status = status };
	kv_conn_end(railrig[end].c);
	railrig_ms(1);
}

static void
expect_broken(int end)
{
	assert_true(railrig[end].is_broken);
	railrig[end].is_broken = false;
}

static void
expect_whole(int end)
{
	assert_false(railrig[end].is_broken);
}

/* Each field of an end beyond its bounds: of the one that says it. */
static void
broken_ends_are_seen(int from, enum kv_msg_type type)
{
	const struct kv_qpjoin good = end_of(7);
	struct kv_qpjoin q;

#define BROKEN(set)                   \
	do {                          \
		q = good;             \
		q.set;                \
		say(from, type, &q);  \
		expect_broken(!from); \
	} while (0)
	BROKEN(qpn = kv_le32(0));
	BROKEN(qpn = kv_le32(0x1000000));
	BROKEN(psn = kv_le32(0x1000000));
	BROKEN(lid = kv_le16(0xc000));
	BROKEN(layer = 0);
	BROKEN(layer = 3);
	BROKEN(mtu = 0);
	BROKEN(mtu = 6);
	BROKEN(initiates = 0);
	BROKEN(responds = 0);
	BROKEN(zero[0] = 1);
	BROKEN(zero[2] = 1);
#undef BROKEN
}

static void
broken_requests_are_seen(void **state)
{
	struct kv_qpjoin q;

	(void)state;
	open_one();
	broken_ends_are_seen(0, KV_MSG_QPJOIN);
	q = end_of(7);
	q.status = 1;
	say(0, KV_MSG_QPJOIN, &q);
	expect_broken(1);
	q = end_of(7);
	q.near = KV_RAILS_MAX;
	say(0, KV_MSG_QPJOIN, &q);
	expect_broken(1);
	q = end_of(7);
	q.far = 1;
	say(0, KV_MSG_QPJOIN, &q);
	expect_broken(1);
	/* Who listens dials nothing. */
	q = end_of(7);
	say(1, KV_MSG_QPJOIN, &q);
	expect_broken(0);
	say(0, KV_MSG_QPJOIN_R, &q);
	expect_broken(1);
	assert_int_equal(slots(1), 0);
	/* A name is used once. */
	say(0, KV_MSG_QPJOIN, &q);
	expect_whole(1);
	say(0, KV_MSG_QPJOIN, &q);
	expect_broken(1);
}

static void
broken_answers_are_seen(void **state)
{
	struct kv_qpjoin q;

	(void)state;
	open_one();
	broken_ends_are_seen(1, KV_MSG_QPJOIN_R);
	kv_conn_pause(railrig[1].c, true);
	kv_rdmalink_tell(railrig[1].l);
	railrig_ms(1);
	assert_int_equal(slots(0), 2);
	/* Another pair of ports was asked for. */
	q = end_of(0);
	q.near = 1;
	say(1, KV_MSG_QPJOIN_R, &q);
	expect_broken(0);
	q = end_of(0);
	q.far = 1;
	say(1, KV_MSG_QPJOIN_R, &q);
	expect_broken(0);
	/* It is not for who was dialled to say that it is ready. */
	say_state(1, 0, 0);
	expect_broken(0);
	/* One answer. */
	q = end_of(0);
	say(1, KV_MSG_QPJOIN_R, &q);
	expect_whole(0);
	say(1, KV_MSG_QPJOIN_R, &q);
	expect_broken(0);
	/* Of one that is not, or not any more. */
	q = end_of(4711);
	say(1, KV_MSG_QPJOIN_R, &q);
	say_state(1, 4711, 0);
	say_state(1, 4711, 9);
	expect_whole(0);
}

static void
broken_states_are_seen(void **state)
{
	struct kv_qpstate *body;

	(void)state;
	open_one();
	body = kv_conn_begin(railrig[0].c, KV_MSG_QPSTATE, 0, 0);
	body->zero[1] = 1;
	kv_conn_end(railrig[0].c);
	railrig_ms(1);
	expect_broken(1);
}

/* ---- time ---- */

static void
who_does_not_answer_is_given_up(void **state)
{
	(void)state;
	open_one();
	kv_conn_pause(railrig[1].c, true);
	kv_rdmalink_tell(railrig[1].l);
	railrig_ms(990);
	assert_string_equal(kv_rdmalink_why(railrig[0].l), "");
	railrig_ms(20);
	assert_string_equal(kv_rdmalink_why(railrig[0].l),
			    "dev0 port 1 to fe80::200:0:0:2: no answer");
	/* What it says then is too late: both know it. */
	kv_conn_pause(railrig[1].c, false);
	railrig_ms(5000);
	expect_whole(0);
	expect_whole(1);
	assert_int_equal(kv_rdmalink_rails(railrig[0].l), 1);
	assert_int_equal(slots(0), 2);
	assert_int_equal(slots(1), 2);
	railrig_move(0, KV_RDMAXFER_WRITE, 0, 0, 1 << 20);
}

static void
who_never_says_that_it_is_ready_is_given_up(void **state)
{
	struct kv_qpjoin q;

	(void)state;
	open_one();
	q = end_of(7);
	say(0, KV_MSG_QPJOIN, &q);
	assert_int_equal(slots(1), 1);
	assert_int_equal(railrig[1].l->up, 0);
	railrig_ms(990);
	assert_int_equal(slots(1), 1);
	railrig_ms(20);
	assert_int_equal(slots(1), 0);
	expect_whole(0);
}

static void
who_says_so_is_up(void **state)
{
	struct kv_qpjoin q;

	(void)state;
	open_one();
	q = end_of(7);
	say(0, KV_MSG_QPJOIN, &q);
	say_state(0, 7, 0);
	assert_int_equal(kv_rdmalink_rails(railrig[1].l), 1);
	/* Once. */
	say_state(0, 7, 0);
	expect_broken(1);
	say_state(0, 7, KV_ECONNLOST);
	assert_int_equal(kv_rdmalink_rails(railrig[1].l), 0);
	assert_int_equal(slots(1), 0);
	say_state(0, 7, KV_ECONNLOST);
	expect_whole(1);
}

/* Of a pair of ports that has more than there may be the oldest goes. */
static void
old_ones_make_room(void **state)
{
	struct kv_qpjoin q;
	unsigned i;

	(void)state;
	open_one();
	for (i = 1; i <= KV_RDMALINK_QPS_MAX + 1; i++) {
		q = end_of(i);
		say(0, KV_MSG_QPJOIN, &q);
	}
	assert_int_equal(slots(1), KV_RDMALINK_QPS_MAX);
	assert_null(kv_rdmarail_find(railrig[1].l, 1));
	expect_whole(1);
}

/* ---- refusals ---- */

static void
expect_why(const char *why)
{
	char want[KV_RDMALINK_WHY_BYTES];

	kv_rdmalink_tell(railrig[1].l);
	railrig_ms(2000);
	assert_int_equal(kv_rdmalink_rails(railrig[0].l), 0);
	snprintf(want, sizeof(want), "dev0 port 1 to fe80::200:0:0:2: %s", why);
	assert_string_equal(kv_rdmalink_why(railrig[0].l), want);
	expect_whole(0);
	expect_whole(1);
	/* And nothing stays behind. */
	kv_rdmalink_free(kv_steal_ptr(&railrig[0].l));
	railrig_ms(1000);
	assert_int_equal(slots(1), 0);
	railrig_close();
	open_one();
}

static int
no_gid(struct ibv_context *ctx, uint8_t port, int index, union ibv_gid *gid)
{
	(void)ctx;
	(void)port;
	(void)index;
	(void)gid;
	errno = EIO;
	return -1;
}

static int
no_port(struct ibv_context *ctx, uint8_t port, struct _compat_ibv_port_attr *a)
{
	(void)ctx;
	(void)port;
	(void)a;
	return EIO;
}

static struct ibv_qp *
no_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	(void)pd;
	(void)attr;
	errno = ENOMEM;
	return NULL;
}

static void
what_is_wrong_is_told(void **state)
{
	(void)state;
	open_one();
	railrig[0].calls.query_gid = no_gid;
	expect_why("the port has no such GID");
	railrig[1].calls.query_gid = no_gid;
	expect_why("no way leads there");
	railrig[0].r.nics[0].gid_index = -1;
	railrig[0].r.nics[0].local_gid_index = -1;
	expect_why("the port has no such GID");
	railrig[0].calls.query_port = no_port;
	expect_why("the device is gone, or its queues are full");
	railrig[0].r.nics[0].pkey_index = 2;
	expect_why(strerror(EINVAL));
	railrig[1].r.nics[0].pkey_index = 2;
	expect_why(strerror(EINVAL));
	railrig[0].calls.create_qp = no_qp;
	expect_why(strerror(ENOMEM));
	hca_port_up(railrig[0].ports[0], false);
	expect_why("the port is down");
}

/* Ends that do not agree have no way. */
static void
what_does_not_agree_is_not_up(void **state)
{
	(void)state;
	open_one();
	railrig[0].r.nics[0].pkey_index = 1;
	expect_why("no answer");
	railrig[1].r.nics[0].local_gid_index = 0; /* RoCE v1 */
	expect_why("no answer");
	hca_cut(railrig[1].ports[0], railrig[0].ports[0], true);
	expect_why("no answer");
}

/* A peer that told another link layer before. */
static void
another_link_layer_is_refused(void **state)
{
	struct kv_qpjoin q;

	(void)state;
	open_one();
	q = end_of(7);
	q.layer = KV_RAIL_INFINIBAND;
	q.lid = kv_le16(1);
	say(0, KV_MSG_QPJOIN, &q);
	expect_whole(1);
	assert_int_equal(slots(1), 0);
	q = end_of(8);
	memset(q.gid, 0, sizeof(q.gid));
	say(0, KV_MSG_QPJOIN, &q);
	expect_whole(1);
	assert_int_equal(slots(1), 0);
	/* The same of an answer. */
	kv_conn_pause(railrig[1].c, true);
	kv_rdmalink_tell(railrig[1].l);
	railrig_ms(1);
	q = end_of(0);
	q.layer = KV_RAIL_INFINIBAND;
	q.lid = kv_le16(1);
	say(1, KV_MSG_QPJOIN_R, &q);
	assert_string_equal(kv_rdmalink_why(railrig[0].l),
			    "dev0 port 1 to fe80::200:0:0:2: InfiniBand at one "
			    "end, Ethernet at the other");
	expect_whole(0);
}

#define TEST(f) cmocka_unit_test_teardown(f, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(broken_requests_are_seen),
		TEST(broken_answers_are_seen),
		TEST(broken_states_are_seen),
		TEST(who_does_not_answer_is_given_up),
		TEST(who_never_says_that_it_is_ready_is_given_up),
		TEST(who_says_so_is_up),
		TEST(old_ones_make_room),
		TEST(what_is_wrong_is_told),
		TEST(what_does_not_agree_is_not_up),
		TEST(another_link_layer_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
