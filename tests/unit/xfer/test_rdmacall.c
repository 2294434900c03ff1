/* Connections of frames, dialled and accepted on fake devices. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "net/conn.h"
#include "net/stream.h"
#include "rdmarig.h"
#include "test.h"
#include "xfer/rdmacall.h"
#include "xfer/rdmacore.h"

enum {
	PORT = 5555,
	STREAMS = 4,
	CROWD = 7, /* more than that */
	ENDS = 80,
};

/* One end of a connection, which counts what comes and answers pings. */
struct end {
	struct kv_conn *conn;
	unsigned pings, answers;
	bool is_used; /* accepted: something is under way for who asked */
	int closed;
};

static struct kv_rdma rdmas[2];
static struct kv_rdmacall *calls[2];
static struct end dialled[ENDS], accepted[ENDS];
static unsigned n_dialled, n_accepted;
static int last_status;
static struct kv_peer last_peer;

static void
on_msg(struct kv_conn *c, const struct kv_msg *msg)
{
	struct end *e = kv_conn_arg(c);

	if (msg->type == KV_MSG_PING_R) {
		e->answers++;
		return;
	}
	assert_int_equal(msg->type, KV_MSG_PING);
	e->pings++;
	assert_non_null(kv_conn_begin(c, KV_MSG_PING_R, msg->id, 0));
	kv_conn_end(c);
}

static void
on_close(struct kv_conn *c, int status)
{
	struct end *e = kv_conn_arg(c);

	e->closed = status;
	kv_conn_close(c);
	e->conn = NULL;
}

static const struct kv_conn_ops conn_ops = {
	.on_msg = on_msg,
	.on_close = on_close,
};

static void
end_open(struct end *e, struct kv_stream *s)
{
	e->conn = kv_conn_new(rdmarig_loop, s, &conn_ops, e);
	assert_non_null(e->conn);
}

static void
on_accept(void *arg, struct kv_stream *s, const struct kv_peer *peer)
{
	assert_ptr_equal(arg, calls[1]);
	last_peer = *peer;
	end_open(&accepted[n_accepted++], s);
}

static void
on_connect(void *arg, struct kv_stream *s, int status)
{
	struct end *e = arg;

	n_dialled++;
	last_status = status;
	if (s)
		end_open(e, s);
}

static struct kv_rdmacall_dial *
dial_to(const char *ip, uint16_t port)
{
	struct kv_rdmacall_to to = {
		.from = rdmas[0].devs[0].ips[0],
		.port = port,
		.deadline_ns = kv_loop_now(rdmarig_loop) + KV_NS_PER_S,
	};

	assert_int_equal(inet_pton(AF_INET6, ip, &to.to), 1);
	return kv_rdmacall_dial(calls[0], &to, on_connect, &dialled[n_dialled]);
}

static void
dial(void)
{
	assert_non_null(dial_to("::ffff:10.0.0.2", PORT));
	rdmarig_ms(20);
}

static void
ping(struct end *e)
{
	assert_non_null(kv_conn_begin(e->conn, KV_MSG_PING, 7, 0));
	kv_conn_end(e->conn);
}

static bool
is_used(const struct kv_stream *s)
{
	const struct end *e = kv_conn_arg(kv_conn_of(s));

	return e->is_used;
}

static void
call_open(int i)
{
	static const char *const ips[2] = { "::ffff:10.0.0.1",
					    "::ffff:10.0.0.2" };
	static const char *const names[2] = { "dev0", "dev1" };
	struct kv_rdmacall_opts o = {
		.rdma = &rdmas[i],
		.loop = rdmarig_loop,
		.receives = 32,
		.sends = 16,
		.streams = i == 0 ? ENDS : STREAMS,
		.is_used = is_used,
	};
	struct kv_rdma *r = &rdmas[i];

	memset(r, 0, sizeof(*r));
	kv_rdmawatch_open(&r->watched);
	r->v = rdmarig[i].v;
	kv_mcenv_read(&r->env, NULL);
	r->n = 1;
	r->nics[0] = rdmarig[i].nic;
	r->devs[0].port = 1;
	r->devs[0].n_ips = 1;
	snprintf(r->devs[0].name, sizeof(r->devs[0].name), "%s", names[i]);
	assert_int_equal(inet_pton(AF_INET6, ips[i], &r->devs[0].ips[0]), 1);
	calls[i] = kv_rdmacall_new(&o);
	assert_non_null(calls[i]);
}

static int
setup(void **state)
{
	rdmarig_setup(state);
	memset(dialled, 0, sizeof(dialled));
	memset(accepted, 0, sizeof(accepted));
	n_dialled = n_accepted = 0;
	last_status = 1;
	call_open(0);
	call_open(1);
	kv_rdmacall_listen(calls[1], PORT, on_accept, calls[1]);
	assert_int_equal(kv_rdmacall_listens(calls[1]), 1);
	return 0;
}

static int
teardown(void **state)
{
	unsigned i;

	for (i = 0; i < ENDS; i++) {
		kv_conn_close(dialled[i].conn);
		kv_conn_close(accepted[i].conn);
	}
	kv_rdmacall_free(calls[0]);
	kv_rdmacall_free(calls[1]);
	kv_rdmawatch_close(&rdmas[0].watched);
	kv_rdmawatch_close(&rdmas[1].watched);
	return rdmarig_teardown(state);
}

/* ---- tests ---- */

static void
frames_go_both_ways(void **state)
{
	(void)state;
	dial();
	assert_int_equal(last_status, 0);
	assert_int_equal(n_dialled, 1);
	assert_int_equal(n_accepted, 1);
	assert_non_null(strstr(last_peer.addr, "10.0.0.1:"));
	assert_false(last_peer.is_unix);
	assert_int_equal(last_peer.pidfd, -1);
	ping(&dialled[0]);
	ping(&accepted[0]);
	rdmarig_ms(1);
	assert_int_equal(accepted[0].pings, 1);
	assert_int_equal(dialled[0].pings, 1);
	assert_int_equal(accepted[0].answers, 1);
	assert_int_equal(dialled[0].answers, 1);
}

static void
last_words_come_before_the_end(void **state)
{
	(void)state;
	dial();
	ping(&dialled[0]);
	kv_conn_flush(dialled[0].conn);
	kv_conn_close(dialled[0].conn);
	dialled[0].conn = NULL;
	rdmarig_ms(100);
	assert_int_equal(accepted[0].pings, 1);
	assert_int_equal(accepted[0].closed, -ECONNRESET);
}

static void
nobody_listens(void **state)
{
	(void)state;
	kv_rdmacall_unlisten(calls[1]);
	dial();
	assert_int_equal(n_dialled, 1);
	assert_int_equal(last_status, -ECONNREFUSED);
	assert_null(dialled[0].conn);
}

static void
nobody_is_there(void **state)
{
	(void)state;
	assert_non_null(dial_to("::ffff:10.9.9.9", PORT));
	rdmarig_ms(1100);
	assert_int_equal(n_dialled, 1);
	assert_true(last_status == -ETIMEDOUT || last_status == -EHOSTUNREACH);
}

static void
a_cut_is_given_up_in_time(void **state)
{
	(void)state;
	hca_cut(rdmarig[0].port, NULL, true);
	dial();
	rdmarig_ms(1000);
	assert_int_equal(n_dialled, 1);
	assert_true(last_status < 0);
}

static void
cancelled_it_says_nothing(void **state)
{
	struct kv_rdmacall_dial *d;
	unsigned us;

	(void)state;
	for (us = 1; us < 100; us++) {
		d = dial_to("::ffff:10.0.0.2", PORT);
		assert_non_null(d);
		rdmarig_us(us);
		if (n_dialled > 0)
			break;
		kv_rdmacall_cancel(d);
		rdmarig_ms(1100);
		assert_int_equal(n_dialled, 0);
		if (n_accepted > 0) {
			kv_conn_close(accepted[0].conn);
			memset(accepted, 0, sizeof(accepted));
			n_accepted = 0;
		}
		rdmarig_ms(10);
	}
	assert_in_range(us, 5, 99);
}

static void
so_many_and_no_more(void **state)
{
	unsigned i;

	(void)state;
	for (i = 0; i < STREAMS; i++)
		dial();
	assert_int_equal(last_status, 0);
	assert_int_equal(n_accepted, STREAMS);
	dial();
	assert_true(last_status < 0);
	kv_conn_close(dialled[0].conn);
	dialled[0].conn = NULL;
	rdmarig_ms(100);
	n_dialled = 0;
	dial();
	assert_int_equal(last_status, 0);
	n_dialled = STREAMS;
}

/* All of them at the same time; streams are new, or have just been used. */
static void
fill(void)
{
	while (n_dialled < STREAMS)
		dial();
	assert_int_equal(last_status, 0);
	assert_int_equal(n_accepted, STREAMS);
}

static void
answered(unsigned i)
{
	unsigned before = dialled[i].answers;

	ping(&dialled[i]);
	rdmarig_ms(1);
	assert_int_equal(dialled[i].answers, before + 1);
}

static void
who_was_used_longest_ago_goes(void **state)
{
	unsigned i;

	(void)state;
	fill();
	rdmarig_ms(1000);
	for (i = 0; i < STREAMS; i++)
		if (i != 2)
			answered(i);
	dial();
	assert_int_equal(last_status, 0);
	rdmarig_ms(1);
	for (i = 0; i < STREAMS; i++) {
		assert_int_equal(dialled[i].closed, i == 2 ? -ECONNRESET : 0);
		assert_int_equal(accepted[i].closed, i == 2 ? -ECONNRESET : 0);
	}
	answered(STREAMS);
	/* The others have been used within a second. */
	dial();
	assert_int_equal(last_status, -ECONNREFUSED);
	for (i = 0; i <= STREAMS; i++)
		if (i != 2)
			answered(i);
}

static void
who_is_used_stays(void **state)
{
	unsigned i;

	(void)state;
	fill();
	for (i = 0; i < STREAMS; i++)
		accepted[i].is_used = i != 3;
	rdmarig_ms(5000);
	dial();
	assert_int_equal(last_status, 0);
	assert_int_equal(dialled[3].closed, -ECONNRESET);
	accepted[STREAMS].is_used = true;
	rdmarig_ms(5000);
	dial();
	assert_int_equal(last_status, -ECONNREFUSED);
	for (i = 0; i <= STREAMS; i++)
		if (i != 3)
			answered(i);
}

/* What came and was not looked at is somebody's question. */
static void
who_is_not_read_stays(void **state)
{
	unsigned i;

	(void)state;
	fill();
	for (i = 0; i < STREAMS; i++) {
		kv_conn_pause(accepted[i].conn, true);
		ping(&dialled[i]);
	}
	rdmarig_ms(5000);
	dial();
	assert_int_equal(last_status, -ECONNREFUSED);
	for (i = 0; i < STREAMS; i++)
		kv_conn_pause(accepted[i].conn, false);
	rdmarig_ms(1);
	for (i = 0; i < STREAMS; i++)
		assert_int_equal(dialled[i].answers, 1);
}

/* A crowd of which each asks now and then, and dials if it has none. */
static void
a_crowd_is_served_in_turn(void **state)
{
	unsigned of[CROWD], round, i, asked = 0, dials;

	(void)state;
	for (i = 0; i < CROWD; i++)
		of[i] = ENDS;
	for (round = 0; round < 8; round++) {
		for (i = 0; i < CROWD; i++) {
			if (of[i] == ENDS || dialled[of[i]].closed) {
				of[i] = n_dialled;
				dial();
				assert_int_equal(last_status, 0);
			}
			answered(of[i]);
			asked++;
			rdmarig_ms(300);
		}
	}
	dials = n_dialled;
	assert_true(dials > CROWD && dials <= asked);
	/* Nobody dials who does not ask. */
	rdmarig_ms(20000);
	assert_int_equal(n_dialled, dials);
}

static int stranger_why;

static struct kv_rdmaqp *
stranger_make(struct kv_rdmaconn *c, const char *device, unsigned port)
{
	const struct kv_rdmaqp_opts o = { .depth = 4 };

	(void)c;
	(void)device;
	(void)port;
	rdmarig[0].qp = kv_rdmaqp_new(rdmarig[0].cq, &o);
	return rdmarig[0].qp;
}

static void
stranger_ready(struct kv_rdmaconn *c, const void *word, size_t bytes)
{
	(void)c;
	(void)word;
	(void)bytes;
	stranger_why = 0;
}

static void
stranger_over(struct kv_rdmaconn *c, int why)
{
	(void)c;
	stranger_why = why;
}

/* It dials with these words. Why it is refused; 0: it is not. */
static int
stranger_dials(const void *word, size_t bytes)
{
	static const struct kv_rdmaconn_ops ops = {
		stranger_make,
		stranger_ready,
		stranger_over,
	};
	const struct kv_rdmaconn_opts o = {
		.ops = &ops,
		.word = word,
		.bytes = bytes,
		.deadline_ns = kv_loop_now(rdmarig_loop) + KV_NS_PER_S,
	};
	struct sockaddr_storage from, to;
	struct kv_rdmaconn *c;

	kv_rdma_sockaddr(&rdmas[0].devs[0].ips[0], 0, &from);
	kv_rdma_sockaddr(&rdmas[1].devs[0].ips[0], PORT, &to);
	stranger_why = 1;
	c = kv_rdmacm_dial(rdmarig[0].cm, (struct sockaddr *)&from,
			   (struct sockaddr *)&to, &o);
	assert_non_null(c);
	rdmarig_ms(20);
	kv_rdmacm_give_up(c);
	kv_rdmaqp_free(rdmarig[0].qp);
	rdmarig[0].qp = NULL;
	return stranger_why;
}

/* With other words, or of other measures. */
static void
strangers_are_refused(void **state)
{
	struct kv_call_word word = {
		.magic = kv_le32(KV_CALL_MAGIC),
		.bytes = kv_le16(4096),
		.credits = kv_le16(16),
	};

	(void)state;
	assert_int_equal(stranger_dials("hello", 5), -ECONNREFUSED);
	assert_int_equal(stranger_dials(NULL, 0), -ECONNREFUSED);
	assert_int_equal(stranger_dials(&word, sizeof(word)), -ECONNREFUSED);
	word.bytes = kv_le16(8192);
	assert_int_equal(stranger_dials(&word, 4), -ECONNREFUSED);
	assert_int_equal(n_accepted, 0);
	assert_int_equal(stranger_dials(&word, sizeof(word)), 0);
}

static void
a_process_that_exits_ends_them(void **state)
{
	(void)state;
	dial();
	hca_process_exit(rdmarig[1].v);
	rdmarig_ms(1000);
	assert_int_equal(dialled[0].closed, -ECONNRESET);
}

/* The other side hears of it when it sends something. */
static void
a_port_that_goes_down_ends_them(void **state)
{
	(void)state;
	dial();
	hca_port_up(rdmarig[0].port, false);
	rdmarig_ms(5);
	assert_int_equal(dialled[0].closed, -ECONNRESET);
	assert_null(dialled[0].conn);
	hca_port_up(rdmarig[0].port, true);
	n_dialled = 1;
	dial();
	assert_int_equal(last_status, 0);
	ping(&dialled[1]);
	rdmarig_ms(5);
	assert_int_equal(dialled[1].answers, 1);
}

/* As the device made it last. */
static struct ibv_cq *last_cq;

static struct ibv_cq *
create_cq(struct ibv_context *ctx, int cqe, void *arg,
	  struct ibv_comp_channel *ch, int vector)
{
	last_cq = rdmarig[0].v->create_cq(ctx, cqe, arg, ch, vector);
	return last_cq;
}

static void
so_does_a_queue_that_is_lost(void **state)
{
	static struct kv_rdmaverbs v;

	(void)state;
	v = *rdmarig[0].v;
	v.create_cq = create_cq;
	rdmas[0].nics[0].v = &v;
	dial();
	hca_cq_lose(last_cq);
	rdmarig_ms(5);
	assert_int_equal(dialled[0].closed, -ECONNRESET);
	n_dialled = 1;
	dial();
	assert_true(last_status < 0);
}

static void
and_a_device_that_is_gone(void **state)
{
	(void)state;
	dial();
	hca_dev_remove(rdmarig[1].dev);
	rdmarig_ms(5);
	assert_int_equal(accepted[0].closed, -ENODEV);
	n_dialled = 1;
	dial();
	rdmarig_ms(1000);
	assert_true(last_status < 0);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(frames_go_both_ways),
		TEST(last_words_come_before_the_end),
		TEST(nobody_listens),
		TEST(nobody_is_there),
		TEST(a_cut_is_given_up_in_time),
		TEST(cancelled_it_says_nothing),
		TEST(so_many_and_no_more),
		TEST(who_was_used_longest_ago_goes),
		TEST(who_is_used_stays),
		TEST(who_is_not_read_stays),
		TEST(a_crowd_is_served_in_turn),
		TEST(strangers_are_refused),
		TEST(a_process_that_exits_ends_them),
		TEST(a_port_that_goes_down_ends_them),
		TEST(so_does_a_queue_that_is_lost),
		TEST(and_a_device_that_is_gone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
