/* Two streams over a queue pair each, on fake devices. */
#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/num.h"
#include "base/rng.h"
#include "rdmarig.h"
#include "test.h"
#include "xfer/rdmastream.h"

enum {
	PORT = 5555,
	RECEIVES = 64,
	LETTERS = 24,
	BYTES = 1 << 20,
	STREAMS = 8,
};

/* One end of a stream, which writes all of `out` and reads all that comes. */
struct end {
	int side;
	struct kv_rdmastream *s;
	struct kv_stream *stream; /* NULL: closed */
	struct kv_rdmaconn *conn;
	bool is_up;
	uint8_t *out, *in;
	size_t to_write, written, n_read;
	size_t read_max;  /* at once; 0: it does not read */
	ssize_t read_end; /* 0 or -errno, when it came; 1: not yet */
	ssize_t write_end;
};

static struct end ends[STREAMS][2];
static unsigned n_streams; /* dialled */
static unsigned n_asked;
static struct kv_rdmacq *cqs[2];
static struct kv_rdmapost *posts[2];
static struct kv_rdmalisten *listener;
static struct kv_rng rng;

/* ---- ends ---- */

static void
interest(struct end *e)
{
	uint32_t want = 0;

	if (e->read_max && e->read_end == 1)
		want |= EPOLLIN;
	if (e->written < e->to_write && e->write_end == 1)
		want |= EPOLLOUT;
	e->stream->ops->want(e->stream, want);
}

static void
end_read(struct end *e)
{
	struct iovec iov[2];
	size_t n = kv_min_size(e->read_max, BYTES - e->n_read);
	ssize_t got;

	iov[0] = (struct iovec){ e->in + e->n_read, n / 3 };
	iov[1] = (struct iovec){ e->in + e->n_read + n / 3, n - n / 3 };
	got = e->stream->ops->readv(e->stream, iov, 2);
	if (got > 0)
		e->n_read += (size_t)got;
	else if (got != -EAGAIN)
		e->read_end = got;
}

static void
end_write(struct end *e)
{
	struct iovec iov[3];
	size_t left = e->to_write - e->written, n = left / 2;
	ssize_t took;

	if (left == 0)
		return;
	iov[0] = (struct iovec){ e->out + e->written, n };
	iov[1] = (struct iovec){ e->out, 0 };
	iov[2] = (struct iovec){ e->out + e->written + n, left - n };
	took = e->stream->ops->writev(e->stream, iov, 3);
	assert_true(took != 0);
	if (took > 0)
		e->written += (size_t)took;
	else if (took != -EAGAIN)
		e->write_end = took;
}

static void
on_ready(struct kv_stream *stream, uint32_t events)
{
	struct end *e = stream->arg;

	assert_true(events != 0);
	if (events & EPOLLIN)
		end_read(e);
	if (events & EPOLLOUT)
		end_write(e);
	interest(e);
}

static struct kv_rdmaqp *
end_make(struct end *e, int side)
{
	e->side = side;
	e->read_end = e->write_end = 1;
	e->read_max = BYTES;
	e->out = calloc(1, BYTES);
	e->in = calloc(1, BYTES);
	kv_rng_bytes(&rng, e->out, BYTES);
	e->s = kv_rdmastream_new(posts[side]);
	assert_non_null(e->s);
	e->stream = kv_rdmastream_base(e->s);
	e->stream->ready = on_ready;
	e->stream->arg = e;
	return kv_rdmastream_qp(e->s);
}

static void
end_close(struct end *e, bool reset)
{
	if (!e->stream)
		return;
	if (reset)
		e->stream->ops->reset(e->stream);
	else
		e->stream->ops->close(e->stream);
	e->stream = NULL;
}

static struct kv_rdmaqp *
on_make(struct kv_rdmaconn *c, const char *device, unsigned port)
{
	(void)device;
	(void)port;
	return end_make(kv_rdmacm_arg(c), 0);
}

static void
on_up(struct kv_rdmaconn *c, const void *word, size_t bytes)
{
	struct end *e = kv_rdmacm_arg(c);

	(void)word;
	(void)bytes;
	e->is_up = true;
	kv_rdmastream_up(e->s, c);
}

static void
on_over(struct kv_rdmaconn *c, int why)
{
	(void)c;
	fail_msg("%d", why);
}

static const struct kv_rdmaconn_ops conn_ops = { on_make, on_up, on_over };

static struct kv_rdmaconn_opts
opts_of(struct end *e)
{
	return (struct kv_rdmaconn_opts){
		.ops = &conn_ops,
		.arg = e,
		.deadline_ns = kv_loop_now(rdmarig_loop) + KV_NS_PER_S,
	};
}

static void
on_asked(void *arg, struct kv_rdmaconn *c, const char *device, unsigned port,
	 const void *word, size_t bytes)
{
	struct end *e = &ends[n_asked++][1];
	struct kv_rdmaconn_opts o = opts_of(e);

	(void)arg;
	(void)device;
	(void)port;
	(void)word;
	(void)bytes;
	e->conn = c;
	assert_int_equal(kv_rdmacm_accept(c, end_make(e, 1), &o), 0);
}

static void
dial(void)
{
	struct sockaddr_in from = { .sin_family = AF_INET };
	struct sockaddr_in to = { .sin_family = AF_INET,
				  .sin_port = htons(PORT) };
	struct end *e = &ends[n_streams++][0];
	struct kv_rdmaconn_opts o = opts_of(e);

	inet_pton(AF_INET, "10.0.0.1", &from.sin_addr);
	inet_pton(AF_INET, "10.0.0.2", &to.sin_addr);
	e->conn = kv_rdmacm_dial(rdmarig[0].cm, (struct sockaddr *)&from,
				 (struct sockaddr *)&to, &o);
	assert_non_null(e->conn);
	rdmarig_ms(10);
	assert_true(ends[n_streams - 1][0].is_up);
	assert_true(ends[n_streams - 1][1].is_up);
}

/* ---- set-up ---- */

static int
setup(void **state)
{
	const struct kv_rdmacq_opts o = {
		.sends = STREAMS * (KV_RDMASTREAM_DEPTH + 1),
		.receives = RECEIVES,
		.recv_bytes = KV_RDMASTREAM_BYTES,
	};
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_port = htons(PORT) };
	int i;

	rdmarig_setup(state);
	kv_rng_seed(&rng, 7);
	memset(ends, 0, sizeof(ends));
	n_streams = n_asked = 0;
	for (i = 0; i < 2; i++) {
		cqs[i] = kv_rdmacq_new(&rdmarig[i].nic, rdmarig_loop, &o);
		assert_non_null(cqs[i]);
		posts[i] = kv_rdmastream_post_new(cqs[i], LETTERS);
		assert_non_null(posts[i]);
	}
	inet_pton(AF_INET, "10.0.0.2", &at.sin_addr);
	listener = kv_rdmacm_listen(rdmarig[1].cm, (struct sockaddr *)&at,
				    on_asked, NULL);
	assert_non_null(listener);
	dial();
	return 0;
}

static int
teardown(void **state)
{
	unsigned i;

	for (i = 0; i < 2 * STREAMS; i++) {
		struct end *e = &ends[i / 2][i % 2];

		end_close(e, true);
		free(e->out);
		free(e->in);
	}
	kv_rdmacm_unlisten(listener);
	for (i = 0; i < 2; i++) {
		kv_rdmastream_post_free(posts[i]);
		kv_rdmacq_free(cqs[i]);
	}
	return rdmarig_teardown(state);
}

static void
write_all(struct end *e, size_t bytes)
{
	e->to_write = bytes;
	interest(e);
}

static void
arrived(unsigned n, int side, size_t bytes)
{
	const struct end *from = &ends[n][side], *to = &ends[n][!side];

	assert_int_equal(to->n_read, bytes);
	assert_memory_equal(to->in, from->out, bytes);
}

/* ---- tests ---- */

static void
bytes_go_both_ways(void **state)
{
	struct end *a = &ends[0][0], *b = &ends[0][1];

	(void)state;
	interest(a);
	interest(b);
	write_all(a, 100);
	rdmarig_ms(5);
	arrived(0, 0, 100);
	write_all(a, BYTES);
	write_all(b, BYTES / 2);
	rdmarig_ms(500);
	arrived(0, 0, BYTES);
	arrived(0, 1, BYTES / 2);
	assert_int_equal(a->read_end, 1);
	assert_int_equal(b->read_end, 1);
}

/* Credits come alone then. */
static void
one_way_needs_no_other(void **state)
{
	struct end *b = &ends[0][1];

	(void)state;
	b->read_max = 1000;
	interest(b);
	write_all(&ends[0][0], BYTES);
	rdmarig_ms(2000);
	arrived(0, 0, BYTES);
}

static void
who_does_not_read_is_sent_no_more(void **state)
{
	struct end *a = &ends[0][0], *b = &ends[0][1];

	(void)state;
	b->read_max = 0;
	write_all(a, BYTES);
	rdmarig_ms(1000);
	assert_int_equal(a->written,
			 KV_RDMASTREAM_CREDITS * KV_RDMASTREAM_BYTES);
	assert_int_equal(a->write_end, 1);
	b->read_max = BYTES;
	interest(b);
	rdmarig_ms(1000);
	arrived(0, 0, BYTES);
}

/* They have fewer letters and receives than credits, together. */
static void
streams_share(void **state)
{
	unsigned i;

	(void)state;
	while (n_streams < STREAMS)
		dial();
	for (i = 0; i < STREAMS; i++) {
		ends[i][0].read_max = ends[i][1].read_max = 5000;
		write_all(&ends[i][0], BYTES);
		write_all(&ends[i][1], BYTES);
	}
	rdmarig_ms(10000);
	for (i = 0; i < STREAMS; i++) {
		arrived(i, 0, BYTES);
		arrived(i, 1, BYTES);
	}
}

static void
losses_are_mended(void **state)
{
	(void)state;
	hca_loss(rdmarig[0].port, NULL, 0.02);
	hca_loss(rdmarig[1].port, NULL, 0.02);
	write_all(&ends[0][0], BYTES);
	write_all(&ends[0][1], BYTES);
	rdmarig_ms(20000);
	arrived(0, 0, BYTES);
	arrived(0, 1, BYTES);
}

static void
last_words_arrive(void **state)
{
	struct end *a = &ends[0][0], *b = &ends[0][1];

	(void)state;
	write_all(a, 30000);
	end_write(a);
	assert_int_equal(a->written, 30000);
	end_close(a, false);
	rdmarig_ms(100);
	interest(b);
	rdmarig_ms(100);
	arrived(0, 0, 30000);
	assert_int_equal(b->read_end, 0);
}

static void
reset_sends_nothing_more(void **state)
{
	struct end *a = &ends[0][0], *b = &ends[0][1];

	(void)state;
	write_all(a, 30000);
	end_write(a);
	end_close(a, true);
	interest(b);
	rdmarig_ms(100);
	assert_true(b->n_read < 30000);
	assert_true(b->read_end <= 0);
}

static void
a_cut_ends_it_within_a_second(void **state)
{
	struct end *a = &ends[0][0];

	(void)state;
	interest(a);
	hca_cut(rdmarig[0].port, NULL, true);
	write_all(a, 100000);
	rdmarig_ms(1000);
	assert_int_equal(a->write_end < 0 ? a->write_end : a->read_end,
			 -ECONNRESET);
}

/* Last words of one that is cut off do not stay for ever. */
static void
leaving_takes_a_second_at_most(void **state)
{
	(void)state;
	hca_cut(rdmarig[0].port, NULL, true);
	write_all(&ends[0][0], 100000);
	end_write(&ends[0][0]);
	end_close(&ends[0][0], false);
	rdmarig_ms(1100);
	assert_int_equal(kv_htab_count(&cqs[0]->qps), 0);
}

static void
the_post_ends_what_is_leaving(void **state)
{
	(void)state;
	write_all(&ends[0][0], 100000);
	end_write(&ends[0][0]);
	end_close(&ends[0][0], false);
	assert_int_equal(kv_htab_count(&cqs[0]->qps), 1);
}

static void
an_exit_of_the_other_process_is_an_end(void **state)
{
	struct end *a = &ends[0][0];

	(void)state;
	interest(a);
	hca_process_exit(rdmarig[1].v);
	rdmarig_ms(1000);
	assert_true(a->read_end <= 0);
}

static void
descriptors_do_not_travel(void **state)
{
	struct kv_stream *s = ends[0][0].stream;

	(void)state;
	assert_int_equal(s->ops->send_fd(s, 0), -ENOTSUP);
	assert_int_equal(s->ops->recv_fd(s), -1);
	assert_null(s->ops->move);
}

/* Whoever sends more than it may, or takes credits that it was not given. */
static void
credits_are_not_made_up(void **state)
{
	struct end *a = &ends[0][0], *b = &ends[0][1];
	struct rdmarig_work k;
	struct kv_rdmawr *w = &k.w;

	(void)state;
	rdmarig_work(&k, 1, IBV_WR_SEND_WITH_IMM, 0, 0, 0);
	k.w.wr.imm_data = htobe32(1);
	kv_rdmaqp_post(kv_rdmastream_qp(b->s), &w, 1);
	interest(a);
	rdmarig_ms(10);
	assert_int_equal(a->read_end, -EPROTO);
}

static void
more_than_credits_allow_is_refused(void **state)
{
	static struct rdmarig_work k[KV_RDMASTREAM_CREDITS + 1];
	struct end *a = &ends[0][0], *b = &ends[0][1];
	struct kv_rdmawr *w;
	unsigned i;

	(void)state;
	for (i = 0; i <= KV_RDMASTREAM_CREDITS; i++) {
		rdmarig_work(&k[i], 1, IBV_WR_SEND, 0, 0, 10);
		w = &k[i].w;
		kv_rdmaqp_post(kv_rdmastream_qp(b->s), &w, 1);
	}
	rdmarig_ms(10);
	interest(a);
	rdmarig_ms(10);
	assert_int_equal(a->n_read, 10 * KV_RDMASTREAM_CREDITS);
	assert_int_equal(a->read_end, -EPROTO);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(bytes_go_both_ways),
		TEST(one_way_needs_no_other),
		TEST(who_does_not_read_is_sent_no_more),
		TEST(streams_share),
		TEST(losses_are_mended),
		TEST(last_words_arrive),
		TEST(reset_sends_nothing_more),
		TEST(a_cut_ends_it_within_a_second),
		TEST(leaving_takes_a_second_at_most),
		TEST(the_post_ends_what_is_leaving),
		TEST(an_exit_of_the_other_process_is_an_end),
		TEST(descriptors_do_not_travel),
		TEST(credits_are_not_made_up),
		TEST(more_than_credits_allow_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
