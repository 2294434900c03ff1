/*
 * What a queue pair costs that is connected and idle, and what many of them
 * share: the memory bars of RDMA, on fake devices.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "railrig.h"
#include "test.h"
#include "xfer/rdmacall.h"
#include "xfer/rdmalinkcore.h"

enum {
	BAR = 64 << 10, /* bytes of a queue pair */
	PEERS = 200,
	SOME = 31,        /* that all have queue pairs at once */
	LOOP_LINKS = 62,  /* of two queue pairs each, for which one has room */
	WQE_ALIGN = 64,   /* of a send queue, as mlx5 lays it out, */
	WQE_FIXED = 32,   /* of one that reads or writes, and so much a piece */
	WQE_PIECE = 16,   /* of memory */
	CQE_BYTES = 128,  /* the larger kind */
	BYTES = 64 << 10, /* that each one moves */
	PORT = 5555,
	/* As a node has it. */
	RECEIVES = 512,
	SENDS = 256,
	STREAMS = 512,
};

/* ---- what end 1 asks of its device ---- */

static struct asked {
	uint64_t registered; /* bytes */
	uint64_t receives;   /* of all queues */
	uint64_t completions;
	uint64_t qps;
	uint64_t qp_bytes; /* the largest queues of one */
	size_t fake;       /* bytes of heap that are the fake's queue pairs */
} asked;

static uint64_t
power_above(uint64_t n)
{
	uint64_t p = 1;

	while (p < n)
		p *= 2;
	return p;
}

/* Its own queue, and its share of the completion queue. */
static uint64_t
queue_bytes(const struct ibv_qp_cap *cap)
{
	uint64_t wqe = WQE_FIXED + (uint64_t)cap->max_send_sge * WQE_PIECE;

	wqe = (wqe + WQE_ALIGN - 1) / WQE_ALIGN * WQE_ALIGN;
	return power_above(cap->max_send_wr) * wqe +
	       (uint64_t)cap->max_send_wr * CQE_BYTES;
}

/* Of all of this process: both ends, and the fakes. 0: not known. */
static size_t
heap_bytes(void)
{
	struct mallinfo2 m = mallinfo2();

	return m.uordblks + m.hblkhd;
}

static struct ibv_qp *
create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	uint64_t bytes = queue_bytes(&attr->cap);
	size_t heap = heap_bytes();
	struct ibv_qp *qp = railrig[1].v->create_qp(pd, attr);

	assert_non_null(attr->srq);
	assert_int_equal(attr->cap.max_inline_data, 0);
	asked.receives += attr->cap.max_recv_wr;
	asked.qps++;
	if (bytes > asked.qp_bytes)
		asked.qp_bytes = bytes;
	asked.fake += heap_bytes() - heap;
	return qp;
}

static struct ibv_srq *
create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
	asked.receives += attr->attr.max_wr;
	return railrig[1].v->create_srq(pd, attr);
}

static struct ibv_cq *
create_cq(struct ibv_context *ctx, int cqe, void *arg,
	  struct ibv_comp_channel *channel, int vector)
{
	asked.completions += (unsigned)cqe;
	return railrig[1].v->create_cq(ctx, cqe, arg, channel, vector);
}

static struct ibv_mr *
reg_mr(struct ibv_pd *pd, void *addr, size_t bytes, int access)
{
	asked.registered += bytes;
	return railrig[1].v->reg_mr(pd, addr, bytes, access);
}

static struct ibv_mr *
reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t bytes, uint64_t iova,
	     unsigned access)
{
	asked.registered += bytes;
	return railrig[1].v->reg_mr_iova2(pd, addr, bytes, iova, access);
}

static void
count_from_now(void)
{
	struct kv_rdmaverbs *v = &railrig[1].calls;

	asked = (struct asked){ 0 };
	v->create_qp = create_qp;
	v->create_srq = create_srq;
	v->create_cq = create_cq;
	v->reg_mr = reg_mr;
	v->reg_mr_iova2 = reg_mr_iova2;
}

/* So many bytes more for `qps` queue pairs more of end 1. */
static void
check_bar(const char *what, size_t heap, unsigned qps)
{
	size_t each = heap / qps + asked.qp_bytes;

	if (heap_bytes() == 0)
		skip();
	assert_true(asked.qp_bytes > 0);
	print_message("# %s, idle: at most %zu bytes, of which %ju are queues "
		      "of the device\n",
		      what, each, (uintmax_t)asked.qp_bytes);
	assert_true(each <= BAR);
}

static void
check_same_buffers(const struct asked *one)
{
	assert_true(asked.qps > one->qps);
	assert_int_equal(asked.registered, one->registered);
	assert_int_equal(asked.receives, one->receives);
	assert_int_equal(asked.completions, one->completions);
}

/* ---- peers ---- */

struct peer {
	struct kv_stream *streams[2];
	struct kv_conn *c[2];
	struct kv_rdmalink *l[2];
	unsigned answers;
};

static struct peer peers[PEERS];
static unsigned n_peers, n_links, n_ended;
static bool may_end;
static struct kv_listener *listener;
static struct kv_rdmaloop *host, *loops[PEERS / LOOP_LINKS + 1];
static struct kv_rdmacall *calls[2];

static void
on_msg(struct kv_conn *c, const struct kv_msg *msg)
{
	struct peer *p = kv_conn_arg(c);

	if (msg->type == KV_MSG_PING_R) {
		p->answers++;
	} else if (msg->type == KV_MSG_PING) {
		assert_non_null(kv_conn_begin(c, KV_MSG_PING_R, msg->id, 0));
		kv_conn_end(c);
	} else {
		assert_true(kv_rdmalink_take(p->l[c == p->c[1]], msg));
	}
}

static void
on_close(struct kv_conn *c, int status)
{
	struct peer *p = kv_conn_arg(c);

	assert_true(may_end);
	assert_int_equal(status, -ECONNRESET);
	n_ended++;
	p->c[c == p->c[1]] = NULL;
	kv_conn_close(c);
}

static const struct kv_conn_ops conn_ops = {
	.on_msg = on_msg,
	.on_close = on_close,
};

static void
conn_open(int end, struct kv_stream *s)
{
	struct peer *p = &peers[n_peers];

	assert_non_null(s);
	p->c[end] = kv_conn_new(railrig_loop, s, &conn_ops, p);
	assert_non_null(p->c[end]);
}

static void
on_accept(void *arg, struct kv_stream *s, const struct kv_peer *peer)
{
	(void)arg;
	(void)peer;
	conn_open(1, s);
}

static void
on_connect(void *arg, struct kv_stream *s, int status)
{
	(void)arg;
	assert_int_equal(status, 0);
	conn_open(0, s);
}

static int
setup(void **state)
{
	const struct railrig_opts o = { 0 };

	(void)state;
	memset(peers, 0, sizeof(peers));
	n_peers = n_links = n_ended = 0;
	may_end = false;
	railrig_open(&o);
	railrig[0].r.env.slice_bytes = BYTES;
	railrig[1].r.env.slice_bytes = BYTES;
	count_from_now();
	return 0;
}

static int
teardown(void **state)
{
	unsigned i;
	int end;

	(void)state;
	for (i = 0; i < n_peers; i++)
		for (end = 0; end < 2; end++) {
			kv_rdmalink_free(peers[i].l[end]);
			kv_conn_close(peers[i].c[end]);
		}
	for (i = 0; i < KV_ARRAY_LEN(loops); i++)
		kv_rdmaloop_free(kv_steal_ptr(&loops[i]));
	kv_rdmaloop_free(kv_steal_ptr(&host));
	kv_rdmacall_free(kv_steal_ptr(&calls[0]));
	kv_rdmacall_free(kv_steal_ptr(&calls[1]));
	if (listener)
		railrig[1].net->unlisten(railrig[1].net,
					 kv_steal_ptr(&listener));
	railrig_close();
	return 0;
}

/* ---- links ---- */

static void
links_begin(void)
{
	char bound[KV_NET_BOUND_BYTES];
	int err;

	host = kv_rdmaloop_new(&railrig[1].r, railrig_loop, true);
	assert_non_null(host);
	listener = railrig[1].net->listen(railrig[1].net, railrig_loop,
					  "tcp:b:5001", on_accept, NULL, bound,
					  &err);
	assert_non_null(listener);
}

static void
on_settled(struct kv_rdmalink *l)
{
	(void)l;
}

static const struct kv_rdmalink_ops link_ops = { .settled = on_settled };

static void
link_open(int end, struct kv_rdmaloop *rl)
{
	struct peer *p = &peers[n_links];
	const struct kv_rdmalink_opts o = {
		.dials = end == 0,
		.token = n_links + 1,
		.ops = end == 0 ? &link_ops : NULL,
		.arg = p,
	};

	p->l[end] = kv_rdmalink_new(rl, p->c[end], &o);
	assert_non_null(p->l[end]);
}

/* End 1 moves some for it, either way, and then no more. */
static void
link_use(struct peer *p)
{
	static const enum kv_rdmaxfer_kind kinds[] = { KV_RDMAXFER_READ,
						       KV_RDMAXFER_WRITE };
	static struct railrig_move m;
	unsigned i;

	for (i = 0; i < 2; i++) {
		railrig_prepare(&m, 1, kinds[i], 0, 0, BYTES);
		if (kinds[i] == KV_RDMAXFER_WRITE) {
			kv_rdmalink_await(p->l[0], &m.e);
			m.x.number = m.e.number;
		}
		kv_rdmalink_start(p->l[1], &m.x);
		railrig_ms(1);
		assert_int_equal(m.done, 1);
		assert_int_equal(m.status, 0);
		assert_true(railrig_is_same(&m));
	}
}

/* Asks something, and is answered: it has what it needs to read and write. */
static void
ask(struct peer *p)
{
	assert_non_null(p->c[0]);
	assert_non_null(p->c[1]);
	assert_non_null(kv_conn_begin(p->c[0], KV_MSG_PING, 7, 0));
	kv_conn_end(p->c[0]);
	railrig_ms(1);
	assert_int_equal(p->answers, 1);
}

/* Connections that links will stand beside. */
static void
conns_add(unsigned n)
{
	for (; n_peers < n; n_peers++) {
		railrig[0].net->connect(
			railrig[0].net, railrig_loop, "tcp:b:5001",
			railrig_now() + KV_NS_PER_S, on_connect, NULL);
		railrig_us(200);
		ask(&peers[n_peers]);
	}
}

static void
link_add(void)
{
	struct kv_rdmaloop **rl = &loops[n_links / LOOP_LINKS];
	struct peer *p = &peers[n_links];

	if (!*rl)
		*rl = kv_rdmaloop_new(&railrig[0].r, railrig_loop, false);
	assert_non_null(*rl);
	link_open(0, *rl);
	link_open(1, host);
	n_links++;
	kv_rdmalink_tell(p->l[1]);
	railrig_ms(50);
	if (kv_rdmalink_rails(p->l[1]))
		link_use(p);
}

static void
an_idle_queue_pair_of_data_is_small(void **state)
{
	uint64_t qps;
	size_t heap, fake;

	(void)state;
	links_begin();
	conns_add(1 + SOME);
	link_add();
	railrig_ms(2000);
	heap = heap_bytes();
	qps = asked.qps;
	fake = asked.fake;
	while (n_links < 1 + SOME)
		link_add();
	railrig_ms(2000);
	assert_int_equal(asked.qps - qps, 2 * SOME);
	/* With what the other ends have. */
	check_bar("a queue pair of data",
		  heap_bytes() - heap - (asked.fake - fake), 2 * SOME);
}

static void
many_links_have_the_buffers_of_one(void **state)
{
	struct asked one;
	unsigned i, served = 0;

	(void)state;
	links_begin();
	conns_add(PEERS);
	link_add();
	one = asked;
	while (n_links < PEERS) {
		link_add();
		railrig_ms(50);
	}
	railrig_ms(1000);
	check_same_buffers(&one);
	/* All at once have fewer queue pairs. */
	for (i = 0; i < PEERS; i++)
		served += kv_rdmalink_rails(peers[i].l[1]) > 0;
	assert_int_equal(served, LOOP_LINKS);
}

/* ---- streams ---- */

static void
calls_begin(void)
{
	struct kv_rdmacall_opts o = {
		.loop = railrig_loop,
		.receives = RECEIVES,
		.sends = SENDS,
		.streams = STREAMS,
	};
	int i;

	for (i = 0; i < 2; i++) {
		o.rdma = &railrig[i].r;
		calls[i] = kv_rdmacall_new(&o);
		assert_non_null(calls[i]);
	}
	kv_rdmacall_listen(calls[1], PORT, on_accept, NULL);
	assert_int_equal(kv_rdmacall_listens(calls[1]), 1);
}

/* Which asks something, and is answered. */
static void
stream_add(void)
{
	struct kv_rdmacall_to to = {
		.from = railrig[0].r.devs[0].ips[0],
		.to = railrig[1].r.devs[0].ips[0],
		.port = PORT,
		.deadline_ns = railrig_now() + KV_NS_PER_S,
	};
	struct peer *p = &peers[n_peers];

	assert_non_null(kv_rdmacall_dial(calls[0], &to, on_connect, NULL));
	railrig_ms(20);
	ask(p);
	n_peers++;
}

static void
an_idle_stream_is_small(void **state)
{
	size_t heap, fake;

	(void)state;
	calls_begin();
	stream_add();
	railrig_ms(2000);
	heap = heap_bytes();
	fake = asked.fake;
	while (n_peers < 1 + SOME)
		stream_add();
	railrig_ms(2000);
	/* Both ends are of a kind, and have a fake queue pair each. */
	check_bar("a stream, with its connection",
		  heap_bytes() - heap - 2 * (asked.fake - fake), 2 * SOME);
}

/* More than its messages may hold. */
static void
ask_unread(unsigned i)
{
	unsigned n;

	kv_conn_pause(peers[i].c[1], true);
	for (n = 0; n < 16; n++) {
		assert_non_null(
			kv_conn_begin(peers[i].c[0], KV_MSG_PING, n, 0));
		kv_conn_end(peers[i].c[0]);
		railrig_us(50); /* a message each */
	}
}

/* Those whose questions are not read, as they read no answers, hold no more
 * than half of what all share. */
static void
who_is_not_read_leaves_others_room(void **state)
{
	const unsigned unread = RECEIVES / 16;
	unsigned i, n;

	(void)state;
	may_end = true;
	calls_begin();
	while (n_peers < unread + 2)
		stream_add();
	for (i = 0; i < unread; i++)
		ask_unread(i);
	railrig_ms(500);
	assert_int_equal(n_ended, 0);
	/* There is no receive for it. */
	assert_non_null(kv_conn_begin(peers[unread].c[0], KV_MSG_PING, 7, 0));
	kv_conn_end(peers[unread].c[0]);
	railrig_ms(1);
	assert_int_equal(peers[unread].answers, 1);
	railrig_ms(1000);
	assert_int_equal(peers[unread].answers, 2);
	for (i = n = 0; i < unread; i++)
		n += !peers[i].c[0];
	assert_int_equal(n, unread / 2);
	assert_non_null(peers[unread + 1].c[0]);
}

static void
many_streams_have_the_buffers_of_one(void **state)
{
	struct asked one;

	(void)state;
	calls_begin();
	stream_add();
	one = asked;
	while (n_peers < PEERS)
		stream_add();
	railrig_ms(2000);
	check_same_buffers(&one);
	assert_int_equal(asked.qps, PEERS);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(an_idle_queue_pair_of_data_is_small),
		TEST(many_links_have_the_buffers_of_one),
		TEST(an_idle_stream_is_small),
		TEST(many_streams_have_the_buffers_of_one),
		TEST(who_is_not_read_leaves_others_room),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
