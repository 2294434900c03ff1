/* More peers than queue pairs: a host with one loop, and peers with one each.
 */
#include "xfer/rdmalink.h"

#include <stdlib.h>
#include <string.h>

#include "railrig.h"
#include "test.h"
#include "xfer/rdmalinkcore.h"

enum {
	ROOM = 62, /* links of two queue pairs each */
	PEERS = 70,
	BYTES = 64 << 10, /* of each one's memory */
};

struct side {
	struct peer *peer;
	struct kv_conn *c;
	struct kv_rdmalink *l;
	bool is_broken;
};

struct peer {
	struct side sides[2]; /* as in railrig: 0 dials */
	struct kv_rdmaloop *rl;
	struct railrig_move m;
	unsigned by_rdma, by_tcp;
	bool is_asking; /* something is read, unseen by who dials */
};

static struct peer peers[PEERS];
static unsigned n_peers;
static int host; /* the end with one loop for all */
static struct kv_listener *listener;
static struct kv_stream *streams[2];

/* ---- connections ---- */

static void
on_msg(struct kv_conn *c, const struct kv_msg *msg)
{
	struct side *s = kv_conn_arg(c);

	if (s->l && !kv_rdmalink_take(s->l, msg))
		s->is_broken = true;
}

static void
on_close(struct kv_conn *c, int status)
{
	(void)c;
	(void)status;
}

static const struct kv_conn_ops conn_ops = {
	.on_msg = on_msg,
	.on_close = on_close,
};

static void
on_accept(void *arg, struct kv_stream *s, const struct kv_peer *peer)
{
	(void)arg;
	(void)peer;
	streams[1] = s;
}

static void
on_connect(void *arg, struct kv_stream *s, int status)
{
	(void)arg;
	assert_int_equal(status, 0);
	streams[0] = s;
}

static bool
is_used(const struct kv_rdmalink *l)
{
	const struct side *s = kv_rdmalink_arg(l);

	return s->peer->is_asking;
}

static void
on_settled(struct kv_rdmalink *l)
{
	(void)l;
}

static const struct kv_rdmalink_ops link_ops = { on_settled, is_used };

static void
side_open(struct peer *p, int end, bool is_unseen)
{
	struct kv_rdmalink_opts o = {
		.dials = end == 0,
		.is_unseen = end == 1 && is_unseen,
		.token = (uint64_t)(p - peers) + 1,
		.ops = end == 0 ? &link_ops : NULL,
		.arg = &p->sides[end],
	};
	struct side *s = &p->sides[end];

	s->peer = p;
	s->c = kv_conn_new(railrig_loop, streams[end], &conn_ops, s);
	assert_non_null(s->c);
	s->l = kv_rdmalink_new(end == host ? railrig[host].rl : p->rl, s->c,
			       &o);
	assert_non_null(s->l);
}

static void
peer_open(struct peer *p, bool is_unseen)
{
	*p = (struct peer){ 0 };
	p->rl = kv_rdmaloop_new(&railrig[!host].r, railrig_loop, host == 0);
	assert_non_null(p->rl);
	railrig[0].net->connect(railrig[0].net, railrig_loop, "tcp:b:5001",
				railrig_now() + KV_NS_PER_S, on_connect, NULL);
	railrig_us(200);
	side_open(p, 0, is_unseen);
	side_open(p, 1, is_unseen);
	kv_rdmalink_tell(p->sides[1].l);
}

static void
crowd_open(int the_host, unsigned n, bool is_unseen)
{
	const struct railrig_opts o = { 0 };
	char bound[KV_NET_BOUND_BYTES];
	int err;

	host = the_host;
	railrig_open(&o);
	listener = railrig[1].net->listen(railrig[1].net, railrig_loop,
					  "tcp:b:5001", on_accept, NULL, bound,
					  &err);
	assert_non_null(listener);
	/* So that something comes back all the time. */
	railrig[0].r.env.slice_bytes = BYTES;
	railrig[1].r.env.slice_bytes = BYTES;
	for (n_peers = 0; n_peers < n; n_peers++)
		peer_open(&peers[n_peers], is_unseen);
}

static void
peer_close(struct peer *p)
{
	int end;

	for (end = 0; end < 2; end++) {
		assert_false(p->sides[end].is_broken);
		kv_rdmalink_free(p->sides[end].l);
		kv_conn_close(p->sides[end].c);
	}
	kv_rdmaloop_free(p->rl);
}

static int
teardown(void **state)
{
	(void)state;
	while (n_peers > 0)
		peer_close(&peers[--n_peers]);
	railrig[1].net->unlisten(railrig[1].net, listener);
	railrig_close();
	return 0;
}

/* ---- work ---- */

static unsigned
rails(const struct peer *p)
{
	return kv_rdmalink_rails(p->sides[0].l);
}

static unsigned
with_rails(void)
{
	unsigned i, n = 0;

	for (i = 0; i < n_peers; i++)
		n += rails(&peers[i]) > 0;
	return n;
}

static unsigned
dials(void)
{
	unsigned i, n = 0;

	for (i = 0; i < n_peers; i++)
		n += peers[i].sides[0].l->next_qp;
	return n;
}

static void
start(struct peer *p, int mover, enum kv_rdmaxfer_kind kind, uint64_t bytes)
{
	uint64_t at = (uint64_t)(p - peers) * BYTES;

	railrig_prepare(&p->m, mover, kind, at, at, bytes);
	if (kind == KV_RDMAXFER_WRITE) {
		kv_rdmalink_await(p->sides[!mover].l, &p->m.e);
		p->m.x.number = p->m.e.number;
	}
	kv_rdmalink_start(p->sides[mover].l, &p->m.x);
}

static void
check_done(const struct peer *p)
{
	assert_int_equal(p->m.done, 1);
	assert_int_equal(p->m.status, 0);
	assert_true(railrig_is_same(&p->m));
	if (p->m.x.kind != KV_RDMAXFER_WRITE)
		return;
	assert_int_equal(p->m.end_done, 1);
	assert_int_equal(p->m.end_status, 0);
}

/* A request of who dials, answered by who listens, as of a node; by other means
 * if there are no rails. False: so it was. */
static bool
request(struct peer *p, enum kv_rdmaxfer_kind kind)
{
	if (!rails(p)) {
		kv_rdmalink_wake(p->sides[0].l);
		p->by_tcp++;
		return false;
	}
	start(p, 1, kind, BYTES);
	railrig_ms(1);
	check_done(p);
	p->by_rdma++;
	return true;
}

/* ---- one after the other ---- */

static void
all_are_served_in_turn(int the_host)
{
	unsigned round, i, made;
	struct peer *p;

	crowd_open(the_host, PEERS, false);
	railrig_ms(500);
	assert_int_equal(with_rails(), ROOM);
	railrig_ms(20000);
	assert_int_equal(with_rails(), ROOM);
	made = dials();
	for (round = 0; round < 6; round++)
		for (i = 0; i < PEERS; i++) {
			p = &peers[i];
			if (!request(p, KV_RDMAXFER_WRITE)) {
				railrig_ms(20);
				assert_true(request(p, KV_RDMAXFER_WRITE));
			}
			assert_true(request(p, KV_RDMAXFER_READ));
			railrig_ms(20);
		}
	for (i = 0; i < PEERS; i++) {
		assert_int_equal(peers[i].by_rdma, 12);
		assert_true(peers[i].by_tcp <= 6);
	}
	/* Two queue pairs each time that somebody was without. */
	assert_true(dials() - made <= 2 * 6 * PEERS);
}

static void
who_listens_serves_all_in_turn(void **state)
{
	(void)state;
	all_are_served_in_turn(1);
}

static void
who_dials_is_served_by_all_in_turn(void **state)
{
	(void)state;
	all_are_served_in_turn(0);
}

/* ---- who is in use stays ---- */

static void
the_busy_stay(int the_host)
{
	unsigned i, n, made[ROOM], tcp = 0;

	crowd_open(the_host, ROOM, false);
	railrig_ms(100);
	assert_int_equal(with_rails(), ROOM);
	for (i = 0; i < ROOM; i++)
		made[i] = peers[i].sides[0].l->next_qp;
	for (; n_peers < PEERS; n_peers++)
		peer_open(&peers[n_peers], false);
	/* Each of them twice a second. */
	for (n = 0; n < 20; n++) {
		for (i = 0; i < ROOM; i++) {
			assert_true(request(&peers[i], KV_RDMAXFER_WRITE));
			railrig_ms(4);
		}
		for (; i < PEERS; i++)
			tcp += !request(&peers[i], KV_RDMAXFER_WRITE);
	}
	assert_int_equal(tcp, 20 * (PEERS - ROOM));
	for (i = 0; i < ROOM; i++)
		assert_int_equal(peers[i].sides[0].l->next_qp, made[i]);
	/* Pauses of the others grow to five seconds. */
	railrig_ms(7000);
	for (i = ROOM; i < PEERS; i++)
		assert_true(request(&peers[i], KV_RDMAXFER_WRITE));
	assert_int_equal(with_rails(), ROOM);
}

static void
the_busy_stay_where_they_dialled(void **state)
{
	(void)state;
	the_busy_stay(1);
}

static void
the_busy_stay_where_they_were_dialled(void **state)
{
	(void)state;
	the_busy_stay(0);
}

/* ---- what takes long ---- */

/* The first one has work that takes two seconds, and is the only one that was
 * not used within the last one when others come. */
static void
work_keeps_them(int the_host, int mover, enum kv_rdmaxfer_kind kind)
{
	struct peer *p = &peers[0];
	unsigned i, made;

	crowd_open(the_host, ROOM, kind == KV_RDMAXFER_WRITE_ALONE);
	railrig_ms(1500);
	hca_rate(railrig[0].ports[0], (double)RAILRIG_BYTES / 2e9);
	made = p->sides[0].l->next_qp;
	p->is_asking = true;
	start(p, mover, kind, RAILRIG_BYTES);
	railrig_ms(1100);
	for (i = 1; i < ROOM; i++)
		kv_rdmalink_wake(peers[i].sides[host].l);
	for (; n_peers < PEERS; n_peers++)
		peer_open(&peers[n_peers], kind == KV_RDMAXFER_WRITE_ALONE);
	railrig_ms(700);
	assert_int_equal(p->m.done, 0);
	railrig_ms(500);
	check_done(p);
	p->is_asking = false;
	assert_int_equal(p->sides[0].l->next_qp, made);
	assert_int_equal(rails(p), 1);
	railrig_ms(10000);
	/* It was asked to go, perhaps, and somebody else in its stead. */
	assert_in_range(with_rails(), ROOM - 1, ROOM);
	for (i = ROOM; i < PEERS; i++)
		assert_int_equal(rails(&peers[i]), 1);
}

static void
a_write_keeps_its_queue_pairs(void **state)
{
	(void)state;
	work_keeps_them(1, 1, KV_RDMAXFER_WRITE);
}

static void
a_read_keeps_its_queue_pairs(void **state)
{
	(void)state;
	work_keeps_them(1, 1, KV_RDMAXFER_READ);
}

static void
an_awaited_write_keeps_its_queue_pairs(void **state)
{
	(void)state;
	work_keeps_them(0, 1, KV_RDMAXFER_WRITE);
}

static void
what_was_asked_for_keeps_its_queue_pairs(void **state)
{
	(void)state;
	work_keeps_them(0, 1, KV_RDMAXFER_READ);
}

static void
what_is_not_seen_keeps_its_queue_pairs(void **state)
{
	(void)state;
	work_keeps_them(1, 0, KV_RDMAXFER_WRITE_ALONE);
}

/* ---- unseen ---- */

/* Who dials moves, and lets them go himself: at once when he was idle. */
static void
who_dialled_lets_them_go(void **state)
{
	(void)state;
	crowd_open(1, ROOM, true);
	railrig_ms(1500);
	peer_open(&peers[n_peers++], true);
	railrig_ms(5);
	assert_int_equal(rails(&peers[0]), 0);
	assert_int_equal(rails(&peers[ROOM]), 0);
	railrig_ms(150);
	assert_int_equal(rails(&peers[ROOM]), 1);
	/* It has them again when it wants them. */
	kv_rdmalink_wake(peers[0].sides[0].l);
	railrig_ms(400);
	assert_int_equal(rails(&peers[0]), 1);
	assert_int_equal(with_rails(), ROOM);
	start(&peers[0], 0, KV_RDMAXFER_WRITE_ALONE, BYTES);
	railrig_ms(1);
	check_done(&peers[0]);
}

/* And who uses them meanwhile keeps them, and goes on if he is told to. */
static void
who_dialled_lets_go_when_he_is_idle(void **state)
{
	struct kv_rdmalink *l;
	unsigned i, made;

	(void)state;
	crowd_open(1, ROOM, true);
	railrig_ms(1500);
	l = peers[0].sides[0].l;
	made = l->next_qp;
	start(&peers[0], 0, KV_RDMAXFER_WRITE_ALONE, BYTES);
	peer_open(&peers[n_peers++], true);
	railrig_ms(5);
	check_done(&peers[0]);
	assert_true(l->is_leaving);
	for (i = 0; i < 4; i++) {
		start(&peers[0], 0, KV_RDMAXFER_READ, BYTES);
		railrig_ms(700);
		check_done(&peers[0]);
	}
	/* What is lost is not dialled again. */
	railrig_ms(1300);
	assert_false(l->is_leaving);
	assert_int_equal(rails(&peers[0]), 0);
	assert_int_equal(l->next_qp, made);
	kv_rdmalink_wake(l);
	railrig_ms(400);
	assert_int_equal(rails(&peers[0]), 1);
	/* Told that there are ports again, it stays. */
	railrig_ms(1500);
	l = peers[9].sides[0].l;
	kv_rdmarest_use(l);
	peers[9].sides[1].l->is_resting = true;
	assert_true(kv_rdmarest_leave(l));
	kv_rdmalink_tell(peers[9].sides[1].l);
	peers[9].sides[1].l->is_resting = false;
	railrig_ms(3000);
	assert_false(l->is_leaving);
	assert_int_equal(rails(&peers[9]), 1);
}

/* ---- wishes ---- */

static bool
says(struct side *s, uint32_t count, uint32_t zero, size_t tail)
{
	const struct kv_rails body = { kv_le32(count), kv_le32(zero) };
	static const uint8_t bytes[64];

	return kv_rdmalink_take(s->l, &(struct kv_msg){ .type = KV_MSG_RAILS,
							.body = &body,
							.tail = bytes,
							.tail_len = tail });
}

static void
a_wish_changes_nothing_where_nobody_rests(void **state)
{
	unsigned made;

	(void)state;
	crowd_open(1, 1, false);
	railrig_ms(100);
	made = dials();
	assert_true(says(&peers[0].sides[1], 0, 0, 0));
	assert_false(kv_rdmalink_wake(peers[0].sides[0].l));
	assert_false(kv_rdmalink_wake(peers[0].sides[1].l));
	railrig_ms(100);
	assert_int_equal(dials(), made);
	assert_int_equal(rails(&peers[0]), 1);
	assert_false(says(&peers[0].sides[1], 1, 0, 0));
	assert_false(says(&peers[0].sides[1], 0, 1, 0));
	assert_false(says(&peers[0].sides[1], 0, 0, 24));
}

/* Who listens has no ports: he is asked once a second. */
static void
wishes_are_not_frequent(void **state)
{
	struct kv_rdmalink *l;
	unsigned i, n = 0;

	(void)state;
	crowd_open(1, 1, false);
	railrig_ms(100);
	assert_true(says(&peers[0].sides[0], 0, 0, 0));
	railrig_ms(1500);
	l = peers[0].sides[0].l;
	assert_int_equal(rails(&peers[0]), 0);
	for (i = 0; i < 100; i++) {
		n += kv_rdmalink_wake(l);
		railrig_ms(50);
	}
	assert_in_range(n, 5, 6);
	assert_int_equal(rails(&peers[0]), 0);
}

#define TEST(f) cmocka_unit_test_teardown(f, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(who_listens_serves_all_in_turn),
		TEST(who_dials_is_served_by_all_in_turn),
		TEST(the_busy_stay_where_they_dialled),
		TEST(the_busy_stay_where_they_were_dialled),
		TEST(a_write_keeps_its_queue_pairs),
		TEST(a_read_keeps_its_queue_pairs),
		TEST(an_awaited_write_keeps_its_queue_pairs),
		TEST(what_was_asked_for_keeps_its_queue_pairs),
		TEST(what_is_not_seen_keeps_its_queue_pairs),
		TEST(who_dialled_lets_them_go),
		TEST(who_dialled_lets_go_when_he_is_idle),
		TEST(a_wish_changes_nothing_where_nobody_rests),
		TEST(wishes_are_not_frequent),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
