/* The fake device: what a process sees of devices and ports. */

#include "hca.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/attr.h"

#include "test.h"

struct world {
	struct kv_clock clock;
	struct kv_loop *loop;
	struct hca *hca;
	struct hca_host *host;
	const struct kv_rdmaverbs *v;
};

static int
setup(void **state)
{
	static struct world w;

	w = (struct world){ .clock.is_virtual = true };
	w.loop = kv_loop_new(&w.clock);
	w.hca = hca_new(w.loop, &w.clock, &(struct hca_opts){ .seed = 1 });
	w.host = hca_host_add(w.hca, "a");
	w.v = hca_process(w.host, w.loop);
	*state = &w;
	return 0;
}

static int
teardown(void **state)
{
	struct world *w = *state;

	hca_free(w->hca);
	kv_loop_free(w->loop);
	return 0;
}

/* The only device, opened. */
static struct ibv_context *
open_dev(struct world *w, int i)
{
	struct ibv_device **list = w->v->get_device_list(NULL);
	struct ibv_context *ctx = w->v->open_device(list[i]);

	w->v->free_device_list(list);
	assert_non_null(ctx);
	return ctx;
}

static void
devices_are_listed_in_order(void **state)
{
	struct world *w = *state;
	const struct kv_rdmaverbs *other;
	struct hca_host *far = hca_host_add(w->hca, "b");
	struct ibv_device **list, **again;
	int n;

	hca_dev_add(w->host, "mlx5_1");
	hca_dev_add(w->host, "mlx5_0");
	hca_dev_add(far, "mlx5_7");
	list = w->v->get_device_list(&n);
	assert_int_equal(n, 2);
	assert_string_equal(w->v->get_device_name(list[0]), "mlx5_1");
	assert_string_equal(w->v->get_device_name(list[1]), "mlx5_0");
	assert_null(list[2]);
	again = w->v->get_device_list(&n);
	assert_ptr_equal(again[0], list[0]);
	w->v->free_device_list(again);
	w->v->free_device_list(list);
	/* Each process sees those of its own host. */
	other = hca_process(far, w->loop);
	list = other->get_device_list(&n);
	assert_int_equal(n, 1);
	assert_string_equal(other->get_device_name(list[0]), "mlx5_7");
	other->free_device_list(list);
}

static void
ports_say_what_they_are(void **state)
{
	static const struct {
		double gbps;
		uint8_t width, speed;
	} speeds[] = {
		{ 25, 1, 32 }, { 100, 2, 32 }, { 200, 2, 64 }, { 400, 2, 128 }
	};
	struct world *w = *state;
	struct hca_dev *dev = hca_dev_add(w->host, "mlx5_0");
	struct hca_port *port = NULL;
	struct ibv_port_attr attr;
	struct _compat_ibv_port_attr *compat = (void *)&attr;
	struct ibv_context *ctx;

	for (size_t i = 0; i < KV_ARRAY_LEN(speeds); i++)
		port = hca_port_add(dev, &(struct hca_port_opts){
						 .gbps = speeds[i].gbps,
						 .infiniband = i == 3,
						 .mtu = i ? 0 : IBV_MTU_1024 });
	ctx = open_dev(w, 0);
	for (uint8_t i = 0; i < KV_ARRAY_LEN(speeds); i++) {
		memset(&attr, 0, sizeof(attr));
		assert_int_equal(w->v->query_port(ctx, i + 1, compat), 0);
		assert_int_equal(attr.active_width, speeds[i].width);
		assert_int_equal(attr.active_speed, speeds[i].speed);
		assert_int_equal(attr.state, IBV_PORT_ACTIVE);
		assert_int_equal(attr.active_mtu,
				 i ? IBV_MTU_4096 : IBV_MTU_1024);
		assert_int_equal(attr.link_layer,
				 i == 3 ? IBV_LINK_LAYER_INFINIBAND
					: IBV_LINK_LAYER_ETHERNET);
		assert_int_equal(attr.lid != 0, i == 3);
	}
	hca_port_up(port, false);
	assert_int_equal(w->v->query_port(ctx, 4, compat), 0);
	assert_int_equal(attr.state, IBV_PORT_DOWN);
	assert_int_equal(w->v->query_port(ctx, 5, compat), EINVAL);
	w->v->close_device(ctx);
}

static void
gids_are_those_of_a_kernel(void **state)
{
	struct world *w = *state;
	struct hca_dev *dev = hca_dev_add(w->host, "mlx5_0");
	struct ibv_gid_entry e;
	struct ibv_context *ctx;
	union ibv_gid gid;
	struct in_addr ip;

	hca_port_add(dev, &(struct hca_port_opts){ .ip = "10.1.2.3" });
	hca_port_add(dev, &(struct hca_port_opts){ 0 });
	hca_port_add(dev, &(struct hca_port_opts){ .infiniband = true,
						   .ip = "10.1.2.4" });
	ctx = open_dev(w, 0);
	assert_int_equal(w->v->query_gid_ex(ctx, 1, 3, &e, 0, sizeof(e)), 0);
	assert_int_equal(e.gid_type, IBV_GID_TYPE_ROCE_V2);
	assert_int_not_equal(e.ndev_ifindex, 0);
	inet_pton(AF_INET, "10.1.2.3", &ip);
	assert_memory_equal(e.gid.raw + 12, &ip, 4);
	assert_int_equal(w->v->query_gid(ctx, 1, 2, &gid), 0);
	assert_memory_equal(&gid, &e.gid, sizeof(gid));
	assert_int_equal(w->v->query_gid(ctx, 1, 4, &gid), -1);
	/* Without an address the local ones only; InfiniBand has one. */
	assert_int_equal(w->v->query_gid(ctx, 2, 1, &gid), 0);
	assert_int_equal(gid.raw[0], 0xfe);
	assert_int_equal(w->v->query_gid(ctx, 2, 2, &gid), -1);
	assert_int_equal(w->v->query_gid_ex(ctx, 3, 0, &e, 0, sizeof(e)), 0);
	assert_int_equal(e.gid_type, IBV_GID_TYPE_IB);
	assert_int_equal(w->v->query_gid(ctx, 3, 1, &gid), -1);
	w->v->close_device(ctx);
}

static void
no_key_is_valid_on_two_devices(void **state)
{
	struct world *w = *state;
	struct ibv_context *ctx[2];
	struct ibv_pd *pd[2];
	struct ibv_mr *mr[2];
	uint8_t buf[8];

	hca_dev_add(w->host, "mlx5_0");
	hca_dev_add(w->host, "mlx5_1");
	for (int i = 0; i < 2; i++) {
		ctx[i] = open_dev(w, i);
		pd[i] = w->v->alloc_pd(ctx[i]);
		mr[i] = w->v->reg_mr(pd[i], buf, sizeof(buf), 0);
	}
	assert_int_not_equal(mr[0]->lkey, mr[1]->lkey);
	for (int i = 0; i < 2; i++) {
		w->v->dereg_mr(mr[i]);
		w->v->dealloc_pd(pd[i]);
		w->v->close_device(ctx[i]);
	}
}

static void
processes_share_what_may_be_locked(void **state)
{
	struct world *w = *state;
	const struct kv_rdmaverbs *v[2] = { w->v,
					    hca_process(w->host, w->loop) };
	struct ibv_context *ctx[2];
	struct ibv_pd *pd[2];
	struct ibv_mr *mr;
	static uint8_t buf[3 * 4096];

	hca_dev_add(w->host, "mlx5_0");
	hca_memlock(w->host, 4 * 4096);
	for (int i = 0; i < 2; i++) {
		struct ibv_device **list = v[i]->get_device_list(NULL);

		ctx[i] = v[i]->open_device(list[0]);
		v[i]->free_device_list(list);
		pd[i] = v[i]->alloc_pd(ctx[i]);
	}
	mr = v[0]->reg_mr(pd[0], buf, sizeof(buf), 0);
	assert_non_null(mr);
	assert_null(v[1]->reg_mr(pd[1], buf, 4097, 0));
	assert_int_equal(errno, ENOMEM);
	v[0]->dereg_mr(mr);
	mr = v[1]->reg_mr(pd[1], buf, 4097, 0);
	assert_non_null(mr);
	v[1]->dereg_mr(mr);
	for (int i = 0; i < 2; i++) {
		v[i]->dealloc_pd(pd[i]);
		v[i]->close_device(ctx[i]);
	}
}

/* What another thread does while the loop runs. */
struct crew {
	const struct kv_rdmaverbs *v;
	struct ibv_pd *pd;
	pthread_t thread;
	uint8_t buf[64];
};

static void *
register_much(void *arg)
{
	struct crew *c = arg;

	for (int i = 0; i < 2000; i++) {
		struct ibv_mr *mr = c->v->reg_mr(c->pd, c->buf, 64, 0);

		assert(mr);
		c->v->dereg_mr(mr);
	}
	return NULL;
}

static void
other_threads_may_register(void **state)
{
	struct world *w = *state;
	struct ibv_context *ctx;
	struct crew crew[2];

	hca_dev_add(w->host, "mlx5_0");
	ctx = open_dev(w, 0);
	for (int i = 0; i < 2; i++) {
		crew[i] = (struct crew){ .v = w->v, .pd = w->v->alloc_pd(ctx) };
		assert_int_equal(pthread_create(&crew[i].thread, NULL,
						register_much, &crew[i]),
				 0);
	}
	for (int i = 0; i < 100; i++)
		w->v->dealloc_pd(w->v->alloc_pd(ctx));
	for (int i = 0; i < 2; i++) {
		pthread_join(crew[i].thread, NULL);
		assert_int_equal(w->v->dealloc_pd(crew[i].pd), 0);
	}
	w->v->close_device(ctx);
}

static void
slots_of_processes_come_back(void **state)
{
	struct world *w = *state;

	hca_dev_add(w->host, "mlx5_0");
	for (int i = 0; i < 200; i++) {
		const struct kv_rdmaverbs *v = hca_process(w->host, w->loop);
		struct ibv_device **list = v->get_device_list(NULL);
		struct ibv_context *ctx = v->open_device(list[0]);

		v->free_device_list(list);
		hca_process_exit(v);
		v->close_device(ctx);
	}
}

static void
events_come_to_all_contexts(void **state)
{
	struct world *w = *state;
	struct hca_dev *dev = hca_dev_add(w->host, "mlx5_0");
	struct hca_port *port;
	struct ibv_async_event event;
	struct ibv_context *ctx[2];

	hca_port_add(dev, &(struct hca_port_opts){ 0 });
	port = hca_port_add(dev, &(struct hca_port_opts){ 0 });
	for (int i = 0; i < 2; i++) {
		ctx[i] = open_dev(w, 0);
		fcntl(ctx[i]->async_fd, F_SETFL, O_NONBLOCK);
	}
	hca_port_up(port, false);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(w->v->get_async_event(ctx[i], &event), 0);
		assert_int_equal(event.event_type, IBV_EVENT_PORT_ERR);
		assert_int_equal(event.element.port_num, 2);
		w->v->ack_async_event(&event);
		assert_int_equal(w->v->get_async_event(ctx[i], &event), -1);
		assert_int_equal(errno, EAGAIN);
		w->v->close_device(ctx[i]);
	}
}

struct watch {
	struct kv_io io;
	int calls;
};

static void
on_watch(struct kv_io *io, uint32_t ready)
{
	(void)ready;
	KV_CONTAINER_OF(io, struct watch, io)->calls++;
}

/* Each process on its own loop: there its descriptors are ready. */
static void
a_process_waits_on_its_own_loop(void **state)
{
	struct world *w = *state;
	struct hca_dev *dev = hca_dev_add(w->host, "mlx5_0");
	struct hca_port *port = hca_port_add(dev, &(struct hca_port_opts){ 0 });
	struct kv_loop *own = kv_loop_new(&w->clock);
	struct watch watch = { .io.fn = on_watch };
	struct ibv_context *ctx;

	w->v = hca_process(w->host, own);
	ctx = open_dev(w, 0);
	assert_int_equal(kv_loop_io_add(own, &watch.io, ctx->async_fd, EPOLLIN),
			 0);
	hca_port_up(port, false);
	assert_int_equal(kv_loop_next(w->loop), UINT64_MAX);
	assert_int_equal(kv_loop_next(own), w->clock.ns);
	assert_int_equal(kv_loop_turn(own, 0), 1);
	assert_int_equal(watch.calls, 1);
	/* It exits without having looked. */
	hca_process_exit(w->v);
	assert_int_equal(kv_loop_next(own), UINT64_MAX);
	kv_loop_io_del(&watch.io);
	kv_loop_free(own);
	w->v->close_device(ctx);
}

int
main(void)
{
#define TEST(t) cmocka_unit_test_setup_teardown(t, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(devices_are_listed_in_order),
		TEST(ports_say_what_they_are),
		TEST(gids_are_those_of_a_kernel),
		TEST(no_key_is_valid_on_two_devices),
		TEST(processes_share_what_may_be_locked),
		TEST(other_threads_may_register),
		TEST(a_process_waits_on_its_own_loop),
		TEST(slots_of_processes_come_back),
		TEST(events_come_to_all_contexts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
