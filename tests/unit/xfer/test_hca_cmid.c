/* The fake connection manager: ids, addresses, channels. */

#include "hcacmrig.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/epoll.h>

#include "base/attr.h"

#include "test.h"

static void
addresses_may_not_resolve(void **state)
{
	const struct kv_rdmaverbs *v = hcacm_rig.end[0].v;

	(void)state;
	assert_int_equal(v->resolve_addr(hcacm_id[0],
					 hcacmrig_addr("10.0.0.2", 0),
					 hcacmrig_addr("10.0.0.2", 0), 100),
			 -1);
	assert_int_equal(errno, ENODEV); /* that is not our own */
	hca_cut(hcacm_rig.end[1].port, hcacm_rig.end[0].port, true);
	assert_int_equal(
		v->resolve_addr(hcacm_id[0], NULL,
				hcacmrig_addr("10.0.0.2", HCACMRIG_PORT), 100),
		0);
	hcarig_run(&hcacm_rig, 99 * KV_NS_PER_MS);
	hcacmrig_expect_none(0);
	hcarig_run(&hcacm_rig, 2 * KV_NS_PER_MS);
	hcacmrig_expect(0, RDMA_CM_EVENT_ADDR_ERROR, -ETIMEDOUT);
	assert_int_equal(v->resolve_route(hcacm_id[0], 100), -1);
	assert_int_equal(errno, EINVAL);
	/* Nobody has that one. */
	assert_int_equal(
		v->resolve_addr(hcacm_id[0], NULL,
				hcacmrig_addr("10.0.0.9", HCACMRIG_PORT), 100),
		0);
	hcarig_run(&hcacm_rig, 200 * KV_NS_PER_MS);
	hcacmrig_expect(0, RDMA_CM_EVENT_ADDR_ERROR, -ETIMEDOUT);
	hca_cut(hcacm_rig.end[1].port, NULL, false);
	hcacmrig_resolve("10.0.0.2");
}

static void
the_way_out_is_of_the_same_network(void **state)
{
	struct hca_host *h = hcacm_rig.end[0].host;
	struct hca_dev *dev = hca_dev_add(h, "mlx5_1");
	struct hca_host *far = hca_host_add(hcacm_rig.hca, "c");

	(void)state;
	hca_port_add(dev,
		     &(struct hca_port_opts){ .ip = "10.0.1.1", .fabric = 1 });
	hca_port_add(hca_dev_add(far, "mlx5_0"),
		     &(struct hca_port_opts){ .ip = "10.0.1.3", .fabric = 1 });
	hcacmrig_resolve("10.0.1.3");
	assert_string_equal(hcacm_id[0]->verbs->device->name, "mlx5_1");
}

static void
ports_of_hosts_are_taken_once(void **state)
{
	const struct kv_rdmaverbs *v = hcacm_rig.end[1].v;
	struct rdma_cm_id *other;

	(void)state;
	hcacmrig_listen("10.0.0.2");
	assert_int_equal(
		v->create_id(hcacm_channel[1], &other, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(
		v->bind_addr(other, hcacmrig_addr("0.0.0.0", HCACMRIG_PORT)),
		-1);
	assert_int_equal(errno, EADDRINUSE);
	assert_int_equal(v->bind_addr(other, hcacmrig_addr("10.0.0.1", 0)), -1);
	assert_int_equal(errno, ENODEV);
	assert_int_equal(v->bind_addr(other, hcacmrig_addr("0.0.0.0", 0)), 0);
	assert_int_not_equal(v->get_src_port(other), 0);
	assert_int_equal(v->listen(other, 1), 0);
	v->destroy_id(other);
}

struct watch {
	struct kv_io io;
	int calls;
};

static void
on_watch(struct kv_io *io, uint32_t ready)
{
	struct watch *w = KV_CONTAINER_OF(io, struct watch, io);

	assert_int_equal(ready, EPOLLIN);
	w->calls++;
	hcacmrig_expect(0, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
}

static void
channels_are_descriptors(void **state)
{
	struct watch w = { .io.fn = on_watch };

	(void)state;
	assert_int_equal(kv_loop_io_add(hcacm_rig.loop, &w.io,
					hcacm_channel[0]->fd, EPOLLIN),
			 0);
	assert_int_equal(
		hcacm_rig.end[0].v->resolve_addr(
			hcacm_id[0], NULL, hcacmrig_addr("10.0.0.2", 1), 1000),
		0);
	hcarig_run(&hcacm_rig, 10000);
	assert_int_equal(w.calls, 1);
	kv_loop_io_del(&w.io);
}

static void
ids_move_with_their_events(void **state)
{
	const struct kv_rdmaverbs *v = hcacm_rig.end[0].v;
	struct rdma_event_channel *old = hcacm_channel[0];

	(void)state;
	assert_int_equal(v->resolve_addr(hcacm_id[0], NULL,
					 hcacmrig_addr("10.0.0.2", 1), 1000),
			 0);
	hcarig_run(&hcacm_rig, 10000);
	hcacm_channel[0] = v->create_event_channel();
	fcntl(hcacm_channel[0]->fd, F_SETFL, O_NONBLOCK);
	assert_int_equal(v->migrate_id(hcacm_id[0], hcacm_channel[0]), 0);
	assert_ptr_equal(hcacm_id[0]->channel, hcacm_channel[0]);
	v->destroy_event_channel(old);
	hcacmrig_expect(0, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	assert_int_equal(v->migrate_id(hcacm_id[0], NULL), -1);
}

/* Another network, another kind of link: no way there. */
static void
other_wires_are_not_reached(void **state)
{
	const struct kv_rdmaverbs *v = hcacm_rig.end[0].v;
	struct hca_dev *dev =
		hca_dev_add(hca_host_add(hcacm_rig.hca, "c"), "mlx5_0");
	static const char *const ips[] = { "10.0.1.3", "10.0.2.3" };
	struct rdma_cm_id *id;

	(void)state;
	hca_port_add(dev, &(struct hca_port_opts){ .ip = ips[0], .fabric = 1 });
	hca_port_add(dev, &(struct hca_port_opts){ .ip = ips[1],
						   .infiniband = true });
	for (int i = 0; i < 2; i++) {
		assert_int_equal(
			v->create_id(hcacm_channel[0], &id, NULL, RDMA_PS_TCP),
			0);
		assert_int_equal(v->bind_addr(id, hcacmrig_addr("10.0.0.1", 0)),
				 0);
		assert_int_equal(
			v->resolve_addr(id, NULL, hcacmrig_addr(ips[i], 1), 1),
			0);
		hcarig_run(&hcacm_rig, 2 * KV_NS_PER_MS);
		hcacmrig_expect(0, RDMA_CM_EVENT_ADDR_ERROR, -ETIMEDOUT);
		v->destroy_id(id);
	}
}

static void
who_listens_first_has_the_port(void **state)
{
	const struct kv_rdmaverbs *v = hcacm_rig.end[1].v;
	struct sockaddr *addr = hcacmrig_addr("0.0.0.0", HCACMRIG_PORT);
	struct rdma_cm_id *other;

	(void)state;
	assert_int_equal(
		v->create_id(hcacm_channel[1], &other, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(v->bind_addr(other, addr), 0);
	assert_int_equal(v->bind_addr(hcacm_listener, addr), 0);
	assert_int_equal(v->listen(hcacm_listener, 1), 0);
	assert_int_equal(v->listen(other, 1), -1);
	assert_int_equal(errno, EADDRINUSE);
	v->destroy_id(other);
	/* On another host it is another one. */
	v = hcacm_rig.end[0].v;
	assert_int_equal(v->bind_addr(hcacm_id[0], addr), 0);
	assert_int_equal(v->listen(hcacm_id[0], 1), 0);
}

static void
after_an_exit_nothing_is_ready(void **state)
{
	const struct kv_rdmaverbs *v = hcacm_rig.end[0].v;
	struct watch w = { .io.fn = on_watch };

	(void)state;
	assert_int_equal(v->resolve_addr(hcacm_id[0], NULL,
					 hcacmrig_addr("10.0.0.2", 1), 1000),
			 0);
	hcarig_run(&hcacm_rig, 10000);
	hca_process_exit(v);
	assert_int_equal(kv_loop_io_add(hcacm_rig.loop, &w.io,
					hcacm_channel[0]->fd, EPOLLIN),
			 0);
	hcarig_run(&hcacm_rig, 10000);
	assert_int_equal(w.calls, 0);
	kv_loop_io_del(&w.io);
}

int
main(void)
{
#define TEST(t) \
	cmocka_unit_test_setup_teardown(t, hcacmrig_setup, hcacmrig_teardown)
	const struct CMUnitTest tests[] = {
		TEST(addresses_may_not_resolve),
		TEST(the_way_out_is_of_the_same_network),
		TEST(ports_of_hosts_are_taken_once),
		TEST(other_wires_are_not_reached),
		TEST(who_listens_first_has_the_port),
		TEST(after_an_exit_nothing_is_ready),
		TEST(channels_are_descriptors),
		TEST(ids_move_with_their_events),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
