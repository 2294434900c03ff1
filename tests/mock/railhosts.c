#include "railhosts.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "hcahost.h"
#include "test.h"

struct railhosts rh;

enum {
	PORT = 7000
};

static bool has_no_ip;

const struct kv_id railhosts_own = { .b = "dialler" };
const struct kv_id railhosts_boot = { .b = "engine" };

/* ---- time ---- */

void
railhosts_us(uint64_t us)
{
	simpair_run(&rh.pair, us * KV_NS_PER_US);
}

static int
turn(struct kv_loop *loop, uint64_t until_ns)
{
	uint64_t step = rh.pair.clock.ns + 20 * KV_NS_PER_US;

	assert_ptr_equal(loop, rh.pair.loop);
	simnet_run(rh.pair.sn, until_ns < step ? until_ns : step);
	if (rh.meanwhile)
		rh.meanwhile();
	return 0;
}

struct kv_wait
railhosts_in_ms(unsigned ms)
{
	return (struct kv_wait){
		.deadline_ns = rh.pair.clock.ns + ms * KV_NS_PER_MS,
		.closing = &rh.closing,
		.clock = &rh.pair.clock,
		.turn = turn,
	};
}

/* ---- the world ---- */

static void
side_open(struct railhosts_side *s, const char *name, unsigned ports,
	  unsigned net)
{
	static struct ifaddrs addrs[2 * RAILHOSTS_PORTS_MAX];
	static struct sockaddr_in sins[2 * RAILHOSTS_PORTS_MAX];
	struct kv_rdma_opts o = { 0 };
	char err[KV_RDMADEV_WHY_BYTES], ip[32], dev[32];

	s->host = hca_host_add(rh.hca, name);
	for (unsigned i = 0; i < ports; i++) {
		struct hca_port_opts p = { .gbps = 10,
					   .ip = has_no_ip ? NULL : ip };
		unsigned n = net * RAILHOSTS_PORTS_MAX + i;

		snprintf(ip, sizeof(ip), "10.0.%u.%u", i, net + 1);
		snprintf(dev, sizeof(dev), "%s%u", name, i);
		s->ports[i] = hca_port_add(hca_dev_add(s->host, dev), &p);
		hcahost_addr(&addrs[n], &sins[n], ip,
			     i + 1 < ports ? &addrs[n + 1] : NULL);
	}
	s->v = hca_process(s->host, rh.pair.loop);
	o.verbs = s->v;
	o.addrs = &addrs[net * RAILHOSTS_PORTS_MAX];
	s->rdma = ports ? kv_rdma_open(&o, err, sizeof(err)) : NULL;
	assert_int_equal(s->rdma != NULL, ports > 0);
	kv_region_init(&s->regions, s->rdma);
	s->memory = calloc(1, RAILHOSTS_BYTES);
	assert_int_equal(
		kv_region_add(&s->regions, s->memory, RAILHOSTS_BYTES, NULL),
		0);
}

static void
side_close(struct railhosts_side *s)
{
	for (size_t i = 0; i < s->regions.n_addr; i++)
		assert_int_equal(s->regions.by_addr[i]->users, 0);
	kv_region_fini(&s->regions);
	kv_rdma_close(s->rdma);
	hca_process_exit(s->v);
	free(s->memory);
}

/* What the dialler knows of the regions there, as of now. */
static void
set_table(void)
{
	static struct kv_le64 tail[64];
	struct kv_regions_r body = { 0 };
	struct kv_msg msg = {
		.type = KV_MSG_REGIONS_R,
		.body = &body,
		.tail = (void *)tail,
	};
	uint32_t n;

	kv_regtable_unref(rh.table);
	msg.tail_len = kv_region_list(&rh.far.regions, tail, sizeof(tail), &n);
	body.count = kv_le32(n);
	if (rh.far.rdma)
		body.ports = (uint8_t)kv_rdma_ports(rh.far.rdma);
	rh.table = kv_regtable_parse(&msg);
	assert_non_null(rh.table);
}

static void
quiet(void *arg, enum kv_log_level level, const char *msg)
{
	(void)arg;
	(void)level;
	(void)msg;
}

static int
open_world(unsigned near_ports, unsigned far_ports)
{
	const struct simnet_opts so = { .seed = 1, .latency_ns = 20000 };
	const struct hca_opts ho = {
		.seed = 1,
		.latency_ns = 2000,
		.jitter_ns = 1000,
		.place_ns = 5000,
		.flush_ns = 10000,
		.piece_bytes = 8192,
	};
	struct kv_serve_opts opts = {
		.regions = &rh.far.regions,
		.guests = &rh.guests,
		.notes = &rh.notes,
		.boot = railhosts_boot,
		.token = &railhosts_boot,
	};
	struct kv_railset_opts ro = { .own = &railhosts_own,
				      .boot = &railhosts_boot,
				      .port = PORT };
	struct kv_peer peer = { .addr = "a" };

	kv_log_set_sink(quiet, NULL);
	memset(&rh, 0, sizeof(rh));
	simpair_open(&rh.pair, &so, false);
	rh.hca = hca_new(rh.pair.loop, &rh.pair.clock, &ho);
	side_open(&rh.near, "near", near_ports, 0);
	side_open(&rh.far, "far", far_ports, 1);
	kv_guest_init(&rh.guests);
	kv_note_init(&rh.notes);
	opts.loop = ro.loop = rh.pair.loop;
	rh.serve = kv_serve_new(&opts);
	assert_non_null(rh.serve);
	kv_serve_listen_call(rh.serve, PORT);
	kv_serve_accept(rh.serve, rh.pair.stream[1], &peer);
	ro.rdma = rh.near.rdma;
	rh.rails = kv_railset_new(&ro);
	assert_non_null(rh.rails);
	kv_railset_greet(rh.rails, rh.pair.stream[0],
			 rh.pair.clock.ns + KV_NS_PER_S);
	rh.batch = kv_railbatch_new(&rh.near.regions, KV_ENGINE_WRITE);
	assert_non_null(rh.batch);
	set_table();
	return 0;
}

int
railhosts_one(void **state)
{
	(void)state;
	return open_world(1, 1);
}

int
railhosts_three(void **state)
{
	(void)state;
	return open_world(3, 3);
}

int
railhosts_joined(void **state)
{
	int rc;

	has_no_ip = true;
	rc = railhosts_three(state);
	has_no_ip = false;
	return rc;
}

int
railhosts_none(void **state)
{
	(void)state;
	return open_world(1, 0);
}

int
railhosts_close(void **state)
{
	(void)state;
	rh.meanwhile = NULL;
	kv_railset_free(rh.rails);
	kv_railbatch_free(rh.batch);
	kv_regtable_unref(rh.table);
	railhosts_us(100000);
	kv_serve_free(rh.serve);
	railhosts_us(100000);
	kv_note_fini(&rh.notes);
	kv_guest_fini(&rh.guests);
	side_close(&rh.near);
	side_close(&rh.far);
	hca_free(rh.hca);
	simpair_close(&rh.pair);
	kv_log_set_sink(NULL, NULL);
	return 0;
}

void
railhosts_settle(unsigned n)
{
	struct kv_wait wait = railhosts_in_ms(2000);

	assert_int_equal(kv_railset_settle(rh.rails, &wait), 0);
	assert_int_equal(kv_railset_rails(rh.rails), n);
}
