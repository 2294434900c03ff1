#include "railrig.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "base/rng.h"
#include "test.h"

struct railrig_end railrig[2];
struct hca *railrig_hca;
struct simnet *railrig_net;
struct kv_loop *railrig_loop;

static struct kv_clock clock_;
static bool may_fail;
static struct kv_listener *listener;

static void
check_made(const void *p)
{
	if (!p && may_fail)
		exit(RAILRIG_FAILED);
	assert_non_null(p);
}

/* ---- ports ---- */

static void
ip_of(const struct railrig_opts *o, int end, unsigned port, char ip[32])
{
	unsigned net = o->is_crossed && end ? o->n[0] - 1 - port : port;

	if (o->is_flat)
		snprintf(ip, 32, "10.0.0.%u", 10 * (end + 1) + port);
	else
		snprintf(ip, 32, "10.0.%u.%d", net, end + 1);
}

static void
addr_make(struct railrig_end *e, unsigned i, const char *ip)
{
	static char name[] = "eth0";
	static struct sockaddr_in mask = { .sin_family = AF_INET };

	inet_pton(AF_INET, "255.255.255.0", &mask.sin_addr);
	e->ips[i].sin_family = AF_INET;
	inet_pton(AF_INET, ip, &e->ips[i].sin_addr);
	e->addrs[i] = (struct ifaddrs){
		.ifa_next = i ? &e->addrs[i - 1] : NULL,
		.ifa_name = name,
		.ifa_addr = (struct sockaddr *)&e->ips[i],
		.ifa_netmask = (struct sockaddr *)&mask,
	};
	e->r.addrs = &e->addrs[i];
}

/* As kv_rdma_open() has one that is down. */
static void
port_down(struct railrig_end *e, unsigned i)
{
	struct kv_rdmadev *dev = &e->r.devs[i];

	hca_port_up(e->ports[i], false);
	dev->is_awaited = true;
	dev->n_ips = 0;
	dev->gid_index = -1;
	e->r.watched.ports[i].is = KV_RDMAWATCH_DOWN;
}

static void
port_make(const struct railrig_opts *o, int end, unsigned i)
{
	struct railrig_end *e = &railrig[end];
	struct kv_rdmadev *dev = &e->r.devs[i];
	bool has_ip = !(o->no_ip[end] >> i & 1);
	char ip[32], mapped[48];
	const struct hca_port_opts port = {
		.ip = has_ip ? ip : NULL,
		.gbps = o->gbps[i],
		.infiniband = o->infiniband[end] >> i & 1,
		.mtu = o->mtu[end],
		.subnet = o->subnet[end],
		.pkeys = o->pkeys,
		.fabric = o->is_flat             ? 0
			  : o->is_crossed && end ? o->n[0] - 1 - i
						 : i,
	};

	ip_of(o, end, i, ip);
	addr_make(e, i, ip);
	snprintf(dev->name, sizeof(dev->name), "dev%u", i);
	e->devs[i] = hca_dev_add(e->host, dev->name);
	e->ports[i] = hca_port_add(e->devs[i], &port);
	dev->port = 1;
	dev->mbit_per_s =
		(uint32_t)(1000 * (o->gbps[i] > 0 ? o->gbps[i] : 100));
	dev->limits.cqe_max = 65536;
	dev->is_ethernet = !port.infiniband;
	dev->gid_index = dev->is_ethernet ? has_ip ? 3 : 1 : 0;
	dev->n_ips = has_ip;
	dev->ip_bits[0] = 120;
	snprintf(mapped, sizeof(mapped), "::ffff:%s", ip);
	assert_int_equal(inet_pton(AF_INET6, mapped, &dev->ips[0]), 1);
	if (o->down[end] >> i & 1)
		port_down(e, i);
}

static void
nics_open(const struct railrig_opts *o, int end)
{
	struct railrig_end *e = &railrig[end];
	struct ibv_device **list;
	union ibv_gid gid;
	unsigned i;
	int n;

	list = e->v->get_device_list(&n);
	assert_int_equal(n, e->n);
	for (i = 0; i < e->n; i++) {
		e->r.nics[i] = (struct kv_rdmanic){
			.v = &e->calls,
			.ctx = e->v->open_device(list[i]),
			.number = i,
			.port = 1,
			.initiates = 16,
			.responds = 16,
			.gid_index = e->r.devs[i].gid_index,
			.local_gid_index = e->r.devs[i].is_ethernet ? 1 : -1,
			.mtu = (uint8_t)(o->mtu[end] ? o->mtu[end]
						     : IBV_MTU_4096),
		};
		assert_non_null(e->r.nics[i].ctx);
		if (!e->r.devs[i].is_awaited) {
			assert_int_equal(e->v->query_gid(e->r.nics[i].ctx, 1,
							 e->r.devs[i].gid_index,
							 &gid),
					 0);
			memcpy(&e->r.devs[i].gid, &gid, sizeof(gid));
		}
		e->r.nics[i].pd = e->v->alloc_pd(e->r.nics[i].ctx);
		assert_non_null(e->r.nics[i].pd);
		e->r.ports[i] = &e->r.nics[i];
	}
	e->v->free_device_list(list);
}

static uint64_t
bytes_of(const struct railrig_opts *o)
{
	return o->bytes ? o->bytes : RAILRIG_BYTES;
}

static void
end_open(const struct railrig_opts *o, int end)
{
	struct railrig_end *e = &railrig[end];
	unsigned i;

	*e = (struct railrig_end){ .n = o->n[end] ? o->n[end] : 1 };
	kv_rdmawatch_open(&e->r.watched);
	e->host = hca_host_add(railrig_hca, end ? "b" : "a");
	for (i = 0; i < e->n; i++)
		port_make(o, end, i);
	e->v = hca_process(e->host, railrig_loop);
	e->calls = *e->v;
	if (o->no_cm[end])
		e->calls.create_event_channel = NULL;
	e->r.v = &e->calls;
	kv_mcenv_read(&e->r.env, NULL);
	e->r.n = e->n;
	nics_open(o, end);
	e->rl = kv_rdmaloop_new(&e->r, railrig_loop, end == 1);
	check_made(e->rl);
	e->buf = malloc(bytes_of(o));
	if (kv_rdmamr_register(&e->mr, e->r.ports, e->n, e->buf, bytes_of(o),
			       KV_RDMAREGION_FAR_WRITES) < 0)
		check_made(NULL);
}

/* ---- the connection ---- */

static void
on_msg(struct kv_conn *c, const struct kv_msg *msg)
{
	struct railrig_end *e = kv_conn_arg(c);

	if (!e->l && msg->type == KV_MSG_QPJOIN)
		kv_rdmajoin_refuse(c, msg->body, -ENOSPC);
	if (e->l && !kv_rdmalink_take(e->l, msg))
		e->is_broken = true;
}

static void
on_close(struct kv_conn *c, int status)
{
	(void)status;
	railrig_end_free(kv_conn_arg(c) == &railrig[1]);
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
	railrig[1].stream = s;
}

static void
on_connect(void *arg, struct kv_stream *s, int status)
{
	(void)arg;
	assert_int_equal(status, 0);
	railrig[0].stream = s;
}

static void
conns_open(uint64_t seed)
{
	const struct simnet_opts o = { .seed = seed, .latency_ns = 20000 };
	char bound[KV_NET_BOUND_BYTES];
	int i, err;

	railrig_net = simnet_new(railrig_loop, &clock_, &o);
	for (i = 0; i < 2; i++)
		railrig[i].net =
			simnet_process(railrig_net, i ? "b" : "a", i + 1);
	listener = railrig[1].net->listen(railrig[1].net, railrig_loop,
					  "tcp:b:5000", on_accept, NULL, bound,
					  &err);
	check_made(listener);
	railrig[0].net->connect(railrig[0].net, railrig_loop, "tcp:b:5000",
				clock_.ns + KV_NS_PER_S, on_connect, NULL);
	railrig_ms(1);
	for (i = 0; i < 2; i++) {
		assert_non_null(railrig[i].stream);
		railrig[i].c = kv_conn_new(railrig_loop, railrig[i].stream,
					   &conn_ops, &railrig[i]);
		check_made(railrig[i].c);
	}
}

static void
on_settled(struct kv_rdmalink *l)
{
	struct railrig_end *e = kv_rdmalink_arg(l);

	e->n_settled++;
}

static const struct kv_rdmalink_ops link_ops = { .settled = on_settled };

static void
links_open(void)
{
	int i;

	for (i = 0; i < 2; i++) {
		const struct kv_rdmalink_opts lo = {
			.dials = i == 0,
			.token = RAILRIG_TOKEN,
			.ops = i == 0 ? &link_ops : NULL,
			.arg = &railrig[i],
		};

		railrig[i].l =
			kv_rdmalink_new(railrig[i].rl, railrig[i].c, &lo);
		check_made(railrig[i].l);
	}
}

/* ---- life ---- */

static void
on_never(struct kv_timer *t)
{
	(void)t;
}

/* The network aborts where there is no memory for a timer. */
static void
loop_grow(void)
{
	static struct kv_timer timers[512];
	unsigned i;

	for (i = 0; i < KV_ARRAY_LEN(timers); i++) {
		timers[i].fn = on_never;
		if (kv_loop_timer_set(railrig_loop, &timers[i], clock_.ns + i) <
		    0)
			check_made(NULL);
	}
	for (i = 0; i < KV_ARRAY_LEN(timers); i++)
		kv_loop_timer_del(&timers[i]);
}

void
railrig_open(const struct railrig_opts *opts)
{
	const struct hca_opts o = {
		.seed = opts->seed,
		.latency_ns = 2000,
		.jitter_ns = 300,
		.place_ns = 5000,
		.flush_ns = 5000,
		.piece_bytes = opts->piece_bytes ? opts->piece_bytes : 4096,
	};
	struct kv_rng rng;
	int i;

	may_fail = opts->may_fail;
	clock_ = (struct kv_clock){ .is_virtual = true, .ns = KV_NS_PER_S };
	railrig_loop = kv_loop_new(&clock_);
	check_made(railrig_loop);
	if (may_fail)
		loop_grow();
	railrig_hca = hca_new(railrig_loop, &clock_, &o);
	kv_rng_seed(&rng, opts->seed);
	for (i = 0; i < 2; i++) {
		end_open(opts, i);
		kv_rng_bytes(&rng, railrig[i].buf, bytes_of(opts));
	}
	conns_open(opts->seed);
	links_open();
}

void
railrig_connect(void)
{
	unsigned i;

	kv_rdmalink_tell(railrig[1].l);
	for (i = 0; i < 60 && !railrig[0].n_settled; i++)
		railrig_ms(10);
	assert_int_equal(railrig[0].n_settled, 1);
	assert_true(kv_rdmalink_is_settled(railrig[0].l));
	assert_true(kv_rdmalink_rails(railrig[0].l) > 0);
	assert_int_equal(kv_rdmalink_rails(railrig[0].l),
			 kv_rdmalink_rails(railrig[1].l));
}

void
railrig_end_free(int end)
{
	struct railrig_end *e = &railrig[end];

	kv_rdmalink_free(kv_steal_ptr(&e->l));
	kv_conn_close(kv_steal_ptr(&e->c));
}

void
railrig_close(void)
{
	struct railrig_end *e;
	unsigned i;

	for (e = railrig; e < railrig + 2; e++) {
		railrig_end_free(e == &railrig[1]);
		kv_rdmaloop_free(e->rl);
		kv_rdmamr_give_up(&e->mr);
		for (i = 0; i < e->n; i++) {
			e->v->dealloc_pd(e->r.nics[i].pd);
			e->v->close_device(e->r.nics[i].ctx);
		}
		kv_rdmawatch_close(&e->r.watched);
		hca_process_exit(e->v);
		free(e->buf);
	}
	railrig[1].net->unlisten(railrig[1].net, listener);
	railrig_ms(1);
	hca_free(railrig_hca);
	simnet_free(railrig_net);
	kv_loop_free(railrig_loop);
}

void
railrig_us(unsigned us)
{
	hca_run(railrig_hca, clock_.ns + us * KV_NS_PER_US);
}

void
railrig_ms(unsigned ms)
{
	railrig_us(1000 * ms);
}

uint64_t
railrig_now(void)
{
	return clock_.ns;
}

/* ---- transfers ---- */

static void
on_done(struct kv_rdmaxfer *x, int status)
{
	struct railrig_move *m = KV_CONTAINER_OF(x, struct railrig_move, x);

	m->done++;
	m->status = status;
	m->done_ns = clock_.ns;
	if (m->on_done)
		m->on_done(m);
}

static void
on_end(struct kv_rdmaend *e, int status)
{
	struct railrig_move *m = KV_CONTAINER_OF(e, struct railrig_move, e);

	m->end_done++;
	m->end_status = status;
	if (m->on_end)
		m->on_end(m);
}

void
railrig_prepare(struct railrig_move *m, int mover, enum kv_rdmaxfer_kind kind,
		uint64_t at, uint64_t far, uint64_t bytes)
{
	const struct railrig_end *e = &railrig[mover],
				 *other = &railrig[!mover];

	*m = (struct railrig_move){ .mover = mover };
	m->near[0] = (struct kv_rdmarange){ (uintptr_t)e->buf + at, bytes,
					    &e->mr.near };
	m->far[0] = (struct kv_rdmarange){ (uintptr_t)other->buf + far, bytes,
					   &other->mr.far };
	m->x.kind = kind;
	m->x.near = m->near;
	m->x.far = m->far;
	m->x.bytes = bytes;
	m->x.done = on_done;
	m->e.done = on_end;
}

void
railrig_start(struct railrig_move *m)
{
	if (m->x.kind == KV_RDMAXFER_WRITE) {
		kv_rdmalink_await(railrig[!m->mover].l, &m->e);
		m->x.number = m->e.number;
	}
	kv_rdmalink_start(railrig[m->mover].l, &m->x);
}

static const uint8_t *
place(uint64_t addr)
{
	return (const uint8_t *)(uintptr_t)addr;
}

bool
railrig_is_same(const struct railrig_move *m)
{
	uint64_t near = 0, far = 0, left = m->x.bytes, n;
	const struct kv_rdmarange *a = m->near, *b = m->far;

	while (left > 0) {
		for (; near == a->len; near = 0)
			a++;
		for (; far == b->len; far = 0)
			b++;
		n = kv_min_u64(a->len - near, b->len - far);
		n = kv_min_u64(n, left);
		if (memcmp(place(a->addr + near), place(b->addr + far), n) != 0)
			return false;
		near += n;
		far += n;
		left -= n;
	}
	return true;
}

void
railrig_move(int mover, enum kv_rdmaxfer_kind kind, uint64_t at, uint64_t far,
	     uint64_t bytes)
{
	struct railrig_move m;

	railrig_prepare(&m, mover, kind, at, far, bytes);
	railrig_start(&m);
	railrig_ms(1000);
	assert_int_equal(m.done, 1);
	assert_int_equal(m.status, 0);
	assert_true(railrig_is_same(&m));
	if (kind != KV_RDMAXFER_WRITE)
		return;
	assert_int_equal(m.end_done, 1);
	assert_int_equal(m.end_status, 0);
}
