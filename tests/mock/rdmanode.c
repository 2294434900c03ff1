#include "rdmanode.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/num.h"
#include "base/status.h"
#include "hcahost.h"
#include "test.h"
#include "xfer/rdmaloop.h"

struct hca *rdmanode_hca;
struct rdmaside rdmanode, rdmareq;
uint8_t *rdmareq_mem;
struct simreq rdmareq_conns;
struct kv_rdmalink *rdmareq_link;
bool rdmareq_settled;

static struct kv_rdmaloop *req_loop;
static bool is_early, is_poor, has_no_ip;

/* ---- ports ---- */

static struct ibv_comp_channel *
none_left(struct ibv_context *ctx)
{
	(void)ctx;
	errno = EMFILE;
	return NULL;
}

static void
side_open(struct rdmaside *side, const char *name, unsigned number,
	  struct kv_loop *loop)
{
	static struct sockaddr_in sins[2][RDMANODE_PORTS];
	static struct ifaddrs addrs[2][RDMANODE_PORTS];
	static const char *const ips[2][RDMANODE_PORTS] = {
		{ "10.0.0.1", "10.0.1.1" },
		{ "10.0.0.2", "10.0.1.2" },
	};
	static struct kv_rdmaverbs verbs[2];
	struct kv_rdma_opts o = { .addrs = addrs[number] };
	struct ifaddrs *next = NULL;
	struct hca_dev *dev;
	char err[512] = "";

	memset(side, 0, sizeof(*side));
	side->host = hca_host_add(rdmanode_hca, name);
	dev = hca_dev_add(side->host, name);
	for (unsigned i = RDMANODE_PORTS; i-- > 0;) {
		hcahost_addr(&addrs[number][i], &sins[number][i],
			     ips[number][i], next);
		next = &addrs[number][i];
	}
	for (unsigned i = 0; i < RDMANODE_PORTS; i++) {
		const struct hca_port_opts po = {
			.ip = has_no_ip ? NULL : ips[number][i],
			.fabric = i,
		};

		side->ports[i] = hca_port_add(dev, &po);
	}
	side->v = hca_process(side->host, loop);
	verbs[number] = *side->v;
	if (is_poor && number == 0)
		verbs[number].create_comp_channel = none_left;
	o.verbs = &verbs[number];
	side->rdma = kv_rdma_open(&o, err, sizeof(err));
	if (!side->rdma)
		fail_msg("%s", err);
	assert_int_equal(kv_rdma_ports(side->rdma), RDMANODE_PORTS);
}

static void
side_close(struct rdmaside *side)
{
	kv_rdmaregion_free(side->region);
	kv_rdma_close(side->rdma);
	hca_process_exit(side->v);
}

static void
pool_registered(void *arg, int status, const char *why)
{
	(void)arg;
	if (status != 0)
		print_error("%s\n", why);
}

/* Its chunks are small, so that values lie in several. */
static void
pool_register(struct simnode *s)
{
	const struct kv_rdmaregion_pool_opts o = {
		.pool = s->pool,
		.bytes = SIMNODE_POOL,
		.chunk_bytes = RDMANODE_CHUNK,
		.done = pool_registered,
	};

	rdmanode.region = kv_rdmaregion_pool(rdmanode.rdma, &o);
	assert_non_null(rdmanode.region);
}

/* By the region's own thread. */
static void
pool_wait(void)
{
	kv_rdmaregion_ready(rdmanode.region, SIMNODE_POOL, true);
	for (int i = 0; !kv_rdmaregion_is_complete(rdmanode.region); i++) {
		assert_true(i < 10000);
		usleep(1000);
	}
}

static void
begin(struct simnode *s)
{
	const struct hca_opts o = {
		.seed = 1,
		.latency_ns = 2000,
		.jitter_ns = 500,
		.place_ns = 500,
		.flush_ns = 1000,
		.piece_bytes = 4096,
	};

	rdmanode_hca = hca_new(s->loop, &s->clock, &o);
	side_open(&rdmanode, "n", 0, s->loop);
	side_open(&rdmareq, "r", 1, s->loop);
	pool_register(s);
	if (!is_early)
		pool_wait();
	s->opts.rdma = rdmanode.rdma;
	s->opts.region = rdmanode.region;
	rdmareq_mem = aligned_alloc(4096, RDMANODE_MEM);
	assert_non_null(rdmareq_mem);
	memset(rdmareq_mem, 0, RDMANODE_MEM);
	rdmareq.region =
		kv_rdmaregion_new(rdmareq.rdma, rdmareq_mem, RDMANODE_MEM,
				  KV_RDMAREGION_FAR_WRITES);
	assert_non_null(rdmareq.region);
	req_loop = kv_rdmaloop_new(rdmareq.rdma, s->loop, false);
	assert_non_null(req_loop);
}

static void
end(struct simnode *s)
{
	(void)s;
	kv_rdmaloop_free(req_loop);
	side_close(&rdmareq);
	side_close(&rdmanode);
	hca_free(rdmanode_hca);
	free(rdmareq_mem);
}

int
rdmanode_setup_bare(void **state)
{
	(void)state;
	is_early = false;
	noderig_open(&(struct simnode_opts){ .begin = begin, .end = end });
	return 0;
}

int
rdmanode_setup(void **state)
{
	rdmanode_setup_bare(state);
	rdmareq_open();
	assert_int_equal(kv_rdmalink_rails(rdmareq_link), RDMANODE_PORTS);
	return 0;
}

int
rdmanode_setup_joined(void **state)
{
	has_no_ip = true;
	rdmanode_setup(state);
	has_no_ip = false;
	return 0;
}

int
rdmanode_setup_early(void **state)
{
	(void)state;
	is_early = true;
	noderig_open(&(struct simnode_opts){ .begin = begin, .end = end });
	rdmareq_open();
	return 0;
}

int
rdmanode_setup_poor(void **state)
{
	is_poor = true;
	rdmanode_setup_bare(state);
	is_poor = false;
	return 0;
}

int
rdmanode_setup_dry(void **state)
{
	const struct simnode_opts o = {
		.no_pages = true,
		.begin = begin,
		.end = end,
	};

	(void)state;
	is_early = false;
	noderig_open(&o);
	rdmareq_open();
	return 0;
}

int
rdmanode_teardown(void **state)
{
	rdmareq_close();
	return noderig_close(state);
}

void
rdmanode_register(bool is_good)
{
	if (is_good)
		pool_wait();
	kv_node_registered(sim.node, is_good);
	rdmanode_run(100);
}

/* ---- the requester ---- */

static void
settled(struct kv_rdmalink *l)
{
	(void)l;
	rdmareq_settled = true;
}

static bool
is_of_link(const struct wireframe *f)
{
	return kv_rdmalink_is_for(f->type);
}

static void
take(struct wireframe *f)
{
	const struct kv_msg msg = {
		.type = f->type,
		.id = f->id,
		.body = f->body,
		.tail = f->tail,
		.tail_len = f->tail_len,
	};

	kv_list_del(&f->link);
	assert_true(kv_rdmalink_take(rdmareq_link, &msg));
	wireframe_free(f);
}

void
rdmanode_run(unsigned ms)
{
	struct wireframe *f, *next;

	while (ms-- > 0) {
		simnode_run(&sim, 1);
		if (!rdmareq_link)
			continue;
		KV_LIST_FOREACH_SAFE(f, next, &rdmareq_conns.data.frames, link)
			if (is_of_link(f))
				take(f);
	}
}

void
rdmareq_open(void)
{
	static const struct kv_rdmalink_ops ops = { .settled = settled };
	struct kv_rdmalink_opts o = { .dials = true, .ops = &ops };

	simreq_open_with(&rdmareq_conns, &sim, KV_FEATURE_RDMA);
	rdmareq_settled = false;
	if (!(rdmareq_conns.features & KV_FEATURE_RDMA))
		return;
	o.token = rdmareq_conns.data_token;
	rdmareq_link = kv_rdmalink_new(req_loop, rdmareq_conns.data.c, &o);
	assert_non_null(rdmareq_link);
	for (int i = 0; i < 1000 && !rdmareq_settled; i++)
		rdmanode_run(1);
	assert_true(rdmareq_settled);
}

void
rdmareq_close(void)
{
	kv_rdmalink_free(rdmareq_link);
	rdmareq_link = NULL;
	simreq_close(&rdmareq_conns);
}

/* ---- its messages ---- */

static void
add(struct kv_bytes *b, const void *p, size_t n)
{
	assert_int_equal(kv_bytes_append(b, p, n), 0);
}

static uint8_t
ports_of(const struct rdmanode_how *how)
{
	return (uint8_t)(RDMANODE_PORTS + how->wrong_ports);
}

static void
add_window(struct kv_bytes *b, const struct rdmanode_how *how)
{
	const struct kv_rdmamem *mem = kv_rdmaregion_far(rdmareq.region);
	const struct kv_window w = {
		.addr = kv_le64(mem->addr),
		.len = kv_le64(how->window_bytes ? how->window_bytes
						 : mem->len),
	};

	add(b, &w, sizeof(w));
	for (unsigned i = 0; i < ports_of(how); i++) {
		struct kv_le32 key = kv_le32(
			i < RDMANODE_PORTS ? mem->keys[i] + how->wrong_keys
					   : 0);

		add(b, &key, sizeof(key));
	}
}

static unsigned
pieces_of(const struct rdmanode_key *k)
{
	if (k->value || k->size == 0)
		return k->n_pieces;
	if (k->cut)
		return (unsigned)kv_div_up_u64(k->size, k->cut);
	return k->n_pieces ? k->n_pieces : 1;
}

static void
add_piece(struct kv_bytes *b, uint64_t off, uint64_t len,
	  const struct rdmanode_how *how)
{
	const struct kv_piece p = {
		.off = kv_le64(off),
		.len = kv_le32((uint32_t)len),
		.window = kv_le32(how->wrong_window),
	};

	add(b, &p, sizeof(p));
}

static void
add_pieces(struct kv_bytes *b, const struct rdmanode_key *k,
	   const struct rdmanode_how *how)
{
	uint64_t at;

	for (unsigned i = 0; i < pieces_of(k); i++) {
		at = (uint64_t)i * k->cut;
		if (k->n_pieces)
			add_piece(b, k->pieces[i].at, k->pieces[i].len, how);
		else if (k->cut)
			add_piece(b, k->at + 2 * at,
				  kv_min_u64(k->size - at, k->cut), how);
		else
			add_piece(b, k->at, k->size, how);
	}
}

static void
add_ent(struct kv_bytes *b, const struct rdmanode_key *k, bool is_put)
{
	const struct kv_put_ent put = {
		.size = kv_le64(k->size),
		.key_len = kv_le16((uint16_t)strlen(k->key)),
		.flags = k->value ? KV_ENT_INLINE : 0,
		.pieces = kv_le32(pieces_of(k)),
	};
	const struct kv_get_ent get = {
		.off = kv_le64(k->off),
		.len = kv_le64(k->size),
		.key_len = kv_le16((uint16_t)strlen(k->key)),
		.flags = k->is_range ? KV_ENT_RANGE : 0,
		.pieces = kv_le32(pieces_of(k)),
	};

	if (is_put)
		add(b, &put, sizeof(put));
	else
		add(b, &get, sizeof(get));
}

static struct kv_bytes
tail_build(const struct rdmanode_key *keys, unsigned n,
	   const struct rdmanode_how *how, bool is_put)
{
	struct kv_bytes b = { 0 };

	add_window(&b, how);
	for (unsigned i = 0; i < n; i++)
		add_ent(&b, &keys[i], is_put);
	for (unsigned i = 0; i < n; i++)
		add(&b, keys[i].key, strlen(keys[i].key));
	for (unsigned i = 0; i < n; i++)
		if (keys[i].value)
			add(&b, keys[i].value, keys[i].size);
	for (unsigned i = 0; i < n; i++)
		add_pieces(&b, &keys[i], how);
	return b;
}

static const struct rdmanode_how nothing;

uint64_t
rdmanode_put(const struct rdmanode_key *keys, unsigned n,
	     const struct rdmanode_how *how)
{
	uint64_t id = ++sim.next_id;
	struct kv_put m = {
		.put_id.random = kv_le64(1000 + id),
		.count = kv_le32(n),
		.mode = KV_MODE_RDMA,
		.data_token = kv_le64(rdmareq_conns.data_token),
	};
	struct kv_bytes tail;

	how = how ? how : &nothing;
	m.budget_ms = kv_le32(how->budget_ms ? how->budget_ms : 1000);
	m.ports = ports_of(how);
	m.windows = kv_le32(1 + how->wrong_count);
	tail = tail_build(keys, n, how, true);
	wirepeer_send(&rdmareq_conns.control, KV_MSG_PUT, id, &m, tail.data,
		      tail.len);
	kv_bytes_fini(&tail);
	return id;
}

uint64_t
rdmanode_get(const struct rdmanode_key *keys, unsigned n,
	     const struct rdmanode_how *how)
{
	uint64_t id = ++sim.next_id;
	struct kv_get m = {
		.count = kv_le32(n),
		.mode = KV_MODE_RDMA,
		.data_token = kv_le64(rdmareq_conns.data_token),
	};
	struct kv_bytes tail;

	how = how ? how : &nothing;
	m.budget_ms = kv_le32(how->budget_ms ? how->budget_ms : 1000);
	m.inline_max = kv_le32(how->inline_max);
	m.ports = ports_of(how);
	m.windows = kv_le32(1 + how->wrong_count);
	m.number = kv_le32(how->number);
	tail = tail_build(keys, n, how, false);
	wirepeer_send(&rdmareq_conns.control, KV_MSG_GET, id, &m, tail.data,
		      tail.len);
	kv_bytes_fini(&tail);
	return id;
}

static void
got(struct kv_rdmaend *e, int status)
{
	struct rdmanode_got *g = KV_CONTAINER_OF(e, struct rdmanode_got, end);

	assert_false(g->is_over);
	g->is_over = true;
	g->status = status;
}

void
rdmanode_get_await(struct rdmanode_got *g, const struct rdmanode_key *keys,
		   unsigned n, const struct rdmanode_how *how)
{
	struct rdmanode_how h = how ? *how : nothing;

	memset(g, 0, sizeof(*g));
	g->end.done = got;
	kv_rdmalink_await(rdmareq_link, &g->end);
	h.number = g->end.number;
	g->id = rdmanode_get(keys, n, &h);
}

/* ---- what is there ---- */

int
rdmanode_put_status(uint64_t id, unsigned i)
{
	return simreq_put_status(&rdmareq_conns, id, i);
}

struct simgot
rdmanode_got_of(uint64_t id, unsigned i)
{
	struct simgot g;

	assert_true(simreq_got(&rdmareq_conns, id, i, &g));
	return g;
}

int
rdmanode_put_one(const char *key, uint32_t at, uint64_t size)
{
	const struct rdmanode_key k = { .key = key, .size = size, .at = at };
	uint64_t id = rdmanode_put(&k, 1, NULL);

	rdmanode_run(20);
	return rdmanode_put_status(id, 0);
}

void
rdmanode_expect_idle(void)
{
	assert_int_equal(simnode_stat(&sim, "reserved_bytes"), 0);
	assert_int_equal(simnode_stat(&sim, "pinned_bytes"), 0);
}

void
rdmanode_expect(const char *key, const void *bytes, size_t n)
{
	struct wireframe *f;
	struct simreq r;
	struct simgot g;

	simreq_open_tcp(&r, &sim);
	assert_int_equal(simreq_get_one(&r, key, NULL, &g), KV_OK);
	assert_int_equal(g.size, n);
	simnode_run(&sim, 20);
	f = wirepeer_take(&r.data, KV_MSG_DATA);
	assert_non_null(f);
	assert_int_equal(f->payload_len, n);
	assert_memory_equal(f->payload, bytes, n);
	wireframe_free(f);
	simreq_close(&r);
}

void
rdmanode_expect_none(const char *key)
{
	struct simreq r;

	simreq_open_tcp(&r, &sim);
	assert_int_equal(simreq_get_one(&r, key, NULL, NULL), KV_EMISS);
	simreq_close(&r);
}
