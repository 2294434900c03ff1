#include "rdmarig.h"

#include <arpa/inet.h>
#include <endian.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "base/rng.h"
#include "test.h"

struct rdmarig_end rdmarig[2];
struct hca *rdmarig_hca;
struct kv_loop *rdmarig_loop;
bool rdmarig_refuses, rdmarig_waits;

static struct kv_clock clock_;
static struct kv_rdmalisten *listener;
static unsigned ended;

static const char *const ips[2] = { "10.0.0.1", "10.0.0.2" };

/* ---- what is told ---- */

static void
on_imm(struct kv_rdmaqp *qp, uint32_t number)
{
	struct rdmarig_end *e = qp->arg;

	assert_true(e->n_imms < RDMARIG_IMMS);
	e->imms[e->n_imms++] = number;
}

static void
on_qp_over(struct kv_rdmaqp *qp, int why)
{
	struct rdmarig_end *e = qp->arg;

	assert_false(e->qp_over);
	e->qp_over = true;
	e->qp_why = why;
}

static const struct kv_rdmaqp_ops qp_ops = {
	.imm = on_imm,
	.over = on_qp_over,
};

static struct kv_rdmaqp *
qp_new(struct rdmarig_end *e)
{
	const struct kv_rdmaqp_opts o = {
		.depth = RDMARIG_DEPTH,
		.ops = &qp_ops,
		.arg = e,
	};

	e->qp = kv_rdmaqp_new(e->cq, &o);
	assert_non_null(e->qp);
	return e->qp;
}

static struct kv_rdmaqp *
on_make(struct kv_rdmaconn *c, const char *device, unsigned port)
{
	struct rdmarig_end *e = kv_rdmacm_arg(c);

	assert_string_equal(device, "dev0");
	assert_int_equal(port, 1);
	return qp_new(e);
}

static void
on_ready(struct kv_rdmaconn *c, const void *word, size_t bytes)
{
	struct rdmarig_end *e = kv_rdmacm_arg(c);

	assert_false(e->is_ready);
	e->is_ready = true;
	if (word)
		memcpy(e->word, word, kv_min_size(bytes, KV_RDMACM_WORD_BYTES));
}

static void
on_conn_over(struct kv_rdmaconn *c, int why)
{
	struct rdmarig_end *e = kv_rdmacm_arg(c);

	assert_false(e->conn_over);
	e->conn_over = true;
	e->conn_why = why;
}

static const struct kv_rdmaconn_ops conn_ops = { on_make, on_ready,
						 on_conn_over };

static struct kv_rdmaconn_opts
conn_opts(int end, unsigned ms)
{
	return (struct kv_rdmaconn_opts){
		.ops = &conn_ops,
		.arg = &rdmarig[end],
		.word = end ? "listener" : "dialler",
		.bytes = end ? 9 : 8,
		.deadline_ns = clock_.ns + ms * KV_NS_PER_MS,
	};
}

static void
on_asked(void *arg, struct kv_rdmaconn *c, const char *device, unsigned port,
	 const void *word, size_t bytes)
{
	struct rdmarig_end *e = arg;

	assert_string_equal(device, "dev1");
	assert_int_equal(port, 1);
	if (rdmarig_refuses) {
		kv_rdmacm_refuse(c);
		return;
	}
	memcpy(e->word, word, bytes);
	e->conn = c;
	if (!rdmarig_waits)
		assert_int_equal(rdmarig_accept(1000), 0);
}

int
rdmarig_accept(unsigned ms)
{
	struct kv_rdmaconn_opts o = conn_opts(1, ms);
	struct rdmarig_end *e = &rdmarig[1];

	return kv_rdmacm_accept(e->conn, qp_new(e), &o);
}

/* ---- set-up ---- */

static struct sockaddr_in
addr_of(const char *ip, uint16_t port)
{
	struct sockaddr_in a = {
		.sin_family = AF_INET,
		.sin_port = htons(port),
	};

	assert_int_equal(inet_pton(AF_INET, ip, &a.sin_addr), 1);
	return a;
}

static void
nic_open(struct rdmarig_end *e)
{
	struct ibv_device **list;
	int n;

	list = e->v->get_device_list(&n);
	assert_int_equal(n, 1);
	e->nic = (struct kv_rdmanic){
		.v = e->v,
		.ctx = e->v->open_device(list[0]),
		.port = 1,
		.initiates = 16,
		.responds = 16,
	};
	e->v->free_device_list(list);
	assert_non_null(e->nic.ctx);
	e->nic.pd = e->v->alloc_pd(e->nic.ctx);
	assert_non_null(e->nic.pd);
}

static void
end_open(int i)
{
	static const char *const names[2] = { "host0", "host1" };
	static const char *const devs[2] = { "dev0", "dev1" };
	const struct kv_rdmacq_opts o = { .sends = 256, .receives = 64 };
	struct rdmarig_end *e = &rdmarig[i];
	const struct hca_port_opts port = { .ip = ips[i] };
	static const struct kv_rdmanic *nics[2];

	*e = (struct rdmarig_end){ 0 };
	e->host = hca_host_add(rdmarig_hca, names[i]);
	e->dev = hca_dev_add(e->host, devs[i]);
	e->port = hca_port_add(e->dev, &port);
	e->v = hca_process(e->host, rdmarig_loop);
	nic_open(e);
	e->cq = kv_rdmacq_new(&e->nic, rdmarig_loop, &o);
	assert_non_null(e->cq);
	e->cm = kv_rdmacm_new(e->v, rdmarig_loop, -1);
	assert_non_null(e->cm);
	e->buf = malloc(RDMARIG_BYTES);
	nics[i] = &e->nic;
	assert_int_equal(kv_rdmamr_register(&e->mr, &nics[i], 1, e->buf,
					    RDMARIG_BYTES,
					    KV_RDMAREGION_FAR_WRITES),
			 0);
}

int
rdmarig_setup(void **state)
{
	const struct hca_opts o = {
		.seed = 1,
		.latency_ns = 1000,
		.jitter_ns = 300,
		.place_ns = 2000,
		.flush_ns = 5000,
		.piece_bytes = 4096,
	};
	struct sockaddr_in at = addr_of(ips[1], RDMARIG_PORT);
	struct kv_rng rng;
	int i;

	(void)state;
	clock_ = (struct kv_clock){ .is_virtual = true, .ns = KV_NS_PER_S };
	rdmarig_loop = kv_loop_new(&clock_);
	assert_non_null(rdmarig_loop);
	rdmarig_hca = hca_new(rdmarig_loop, &clock_, &o);
	rdmarig_refuses = rdmarig_waits = false;
	ended = 0;
	kv_rng_seed(&rng, 1);
	for (i = 0; i < 2; i++) {
		end_open(i);
		kv_rng_bytes(&rng, rdmarig[i].buf, RDMARIG_BYTES);
	}
	listener = kv_rdmacm_listen(rdmarig[1].cm, (struct sockaddr *)&at,
				    on_asked, &rdmarig[1]);
	assert_non_null(listener);
	return 0;
}

int
rdmarig_setup_ready(void **state)
{
	rdmarig_setup(state);
	rdmarig_dial(ips[1], 1000);
	rdmarig_ms(10);
	assert_true(rdmarig[0].is_ready && rdmarig[1].is_ready);
	return 0;
}

int
rdmarig_teardown(void **state)
{
	struct rdmarig_end *e;

	(void)state;
	kv_rdmacm_unlisten(listener);
	for (e = rdmarig; e < rdmarig + 2; e++) {
		kv_rdmacm_give_up(e->conn);
		kv_rdmaqp_free(e->qp);
		kv_rdmacm_free(e->cm);
		kv_rdmamr_give_up(&e->mr);
		kv_rdmacq_free(e->cq);
		e->v->dealloc_pd(e->nic.pd);
		e->v->close_device(e->nic.ctx);
		hca_process_exit(e->v);
		free(e->buf);
	}
	hca_free(rdmarig_hca);
	kv_loop_free(rdmarig_loop);
	return 0;
}

void
rdmarig_us(unsigned us)
{
	hca_run(rdmarig_hca, clock_.ns + us * KV_NS_PER_US);
}

void
rdmarig_ms(unsigned ms)
{
	rdmarig_us(1000 * ms);
}

void
rdmarig_dial(const char *ip, unsigned ms)
{
	struct sockaddr_in from = addr_of(ips[0], 0);
	struct sockaddr_in to = addr_of(ip, RDMARIG_PORT);
	struct kv_rdmaconn_opts o = conn_opts(0, ms);

	rdmarig[0].conn =
		kv_rdmacm_dial(rdmarig[0].cm, (struct sockaddr *)&from,
			       (struct sockaddr *)&to, &o);
	assert_non_null(rdmarig[0].conn);
}

/* ---- work ---- */

static void
on_done(struct kv_rdmawr *w, int status)
{
	struct rdmarig_work *k = KV_CONTAINER_OF(w, struct rdmarig_work, w);

	k->done++;
	k->status = status;
	k->order = ++ended;
}

void
rdmarig_work(struct rdmarig_work *k, int end, enum ibv_wr_opcode opcode,
	     uint32_t at, uint32_t far, uint32_t bytes)
{
	const struct rdmarig_end *e = &rdmarig[end], *other = &rdmarig[!end];

	*k = (struct rdmarig_work){
		.w = { .done = on_done },
		.sge = { .addr = (uintptr_t)(e->buf + at),
			 .length = bytes,
			 .lkey = e->mr.near.keys[0] },
	};
	k->w.wr.opcode = opcode;
	k->w.wr.sg_list = &k->sge;
	k->w.wr.num_sge = bytes > 0;
	k->w.wr.wr.rdma.remote_addr = (uintptr_t)(other->buf + far);
	k->w.wr.wr.rdma.rkey = other->mr.far.keys[0];
}

void
rdmarig_post(int end, struct rdmarig_work *works, unsigned n)
{
	struct kv_rdmawr *list[RDMARIG_DEPTH];
	unsigned i;

	assert_true(n <= RDMARIG_DEPTH);
	for (i = 0; i < n; i++)
		list[i] = &works[i].w;
	kv_rdmaqp_post(rdmarig[end].qp, list, n);
}
