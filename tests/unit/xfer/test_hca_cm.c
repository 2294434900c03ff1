/* The fake connection manager. */

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/epoll.h>

#include "hcarig.h"

#include "base/attr.h"

#include "test.h"

enum {
	IP_PORT = 4321,
};

/* The host that connects, and the one that listens. */
static struct hcarig rig;
static struct rdma_event_channel *channel[2];
static struct rdma_cm_id *listener, *id[2];

static struct sockaddr *
addr_of(const char *ip, uint16_t port)
{
	static union {
		struct sockaddr_in in;
		struct sockaddr any;
	} addr;

	addr.in = (struct sockaddr_in){ .sin_family = AF_INET,
					.sin_port = htons(port) };
	inet_pton(AF_INET, ip, &addr.in.sin_addr);
	return &addr.any;
}

static int
setup(void **state)
{
	struct hcarig_opts opts = { .hca.latency_ns = 1000 };

	(void)state;
	hcarig_open(&rig, &opts);
	for (int i = 0; i < 2; i++) {
		channel[i] = rig.end[i].v->create_event_channel();
		fcntl(channel[i]->fd, F_SETFL, O_NONBLOCK);
		id[i] = NULL;
	}
	assert_int_equal(
		rig.end[0].v->create_id(channel[0], &id[0], &rig, RDMA_PS_TCP),
		0);
	assert_int_equal(rig.end[1].v->create_id(channel[1], &listener,
						 &listener, RDMA_PS_TCP),
			 0);
	return 0;
}

static int
teardown(void **state)
{
	(void)state;
	for (int i = 0; i < 2; i++)
		if (id[i])
			rig.end[i].v->destroy_id(id[i]);
	if (listener)
		rig.end[1].v->destroy_id(listener);
	for (int i = 0; i < 2; i++)
		rig.end[i].v->destroy_event_channel(channel[i]);
	hcarig_close(&rig);
	return 0;
}

/* The next event of an end, to be acknowledged; NULL: none. */
static struct rdma_cm_event *
next_event(int end)
{
	struct rdma_cm_event *event;

	if (rig.end[end].v->get_cm_event(channel[end], &event) == 0)
		return event;
	assert_int_equal(errno, EAGAIN);
	return NULL;
}

/* It is this. */
static void
expect(int end, enum rdma_cm_event_type type, int status)
{
	struct rdma_cm_event *event = next_event(end);

	assert_non_null(event);
	assert_int_equal(event->event, type);
	assert_int_equal(event->status, status);
	if (type == RDMA_CM_EVENT_CONNECT_REQUEST)
		id[end] = event->id;
	rig.end[end].v->ack_cm_event(event);
}

static void
expect_none(int end)
{
	assert_null(next_event(end));
}

static void
listen_at(const char *ip)
{
	const struct kv_rdmaverbs *v = rig.end[1].v;

	assert_int_equal(v->bind_addr(listener, addr_of(ip, IP_PORT)), 0);
	assert_int_equal(v->listen(listener, 8), 0);
}

static void
resolve(const char *ip)
{
	const struct kv_rdmaverbs *v = rig.end[0].v;

	assert_int_equal(
		v->resolve_addr(id[0], NULL, addr_of(ip, IP_PORT), 1000), 0);
	hcarig_run(&rig, 10000);
	expect(0, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	assert_int_equal(v->resolve_route(id[0], 1000), 0);
	hcarig_run(&rig, 10000);
	expect(0, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
}

static struct rdma_conn_param
param_of(int end, const char *data)
{
	return (struct rdma_conn_param){
		.private_data = data,
		.private_data_len = data ? (uint8_t)strlen(data) : 0,
		.responder_resources = 3,
		.initiator_depth = 5,
		.retry_count = 4,
		.rnr_retry_count = 6,
		.qp_num = rig.end[end].qp->qp_num,
	};
}

/* Asked, and the other end has it. */
static void
ask(void)
{
	struct rdma_conn_param param = param_of(0, "who");
	struct rdma_cm_event *event;

	resolve("10.0.0.2");
	assert_int_equal(rig.end[0].v->connect(id[0], &param), 0);
	hcarig_run(&rig, 10000);
	event = next_event(1);
	assert_non_null(event);
	assert_int_equal(event->event, RDMA_CM_EVENT_CONNECT_REQUEST);
	assert_ptr_equal(event->listen_id, listener);
	assert_ptr_equal(event->id->context, &listener);
	assert_int_equal(event->param.conn.private_data_len, 56);
	assert_memory_equal(event->param.conn.private_data, "who\0\0", 5);
	/* Theirs, as seen from here. */
	assert_int_equal(event->param.conn.responder_resources, 5);
	assert_int_equal(event->param.conn.initiator_depth, 3);
	assert_int_equal(event->param.conn.qp_num, rig.end[0].qp->qp_num);
	id[1] = event->id;
	rig.end[1].v->ack_cm_event(event);
}

static void
to_state(int end, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = { .qp_state = state };
	int mask;

	assert_int_equal(rig.end[end].v->init_qp_attr(id[end], &attr, &mask),
			 0);
	assert_int_equal(
		rig.end[end].v->modify_qp(rig.end[end].qp, &attr, mask), 0);
}

static void
to_rts(int end)
{
	to_state(end, IBV_QPS_INIT);
	to_state(end, IBV_QPS_RTR);
	to_state(end, IBV_QPS_RTS);
}

/* What both ends do, up to the last word. */
static void
make_connection(void)
{
	struct rdma_conn_param param = param_of(1, "me");
	struct rdma_cm_event *event;

	listen_at("0.0.0.0");
	ask();
	/* Up to the state in which it can be sent to, then the word. */
	to_state(1, IBV_QPS_INIT);
	assert_int_equal(rig.end[1].v->accept(id[1], &param), 0);
	to_state(1, IBV_QPS_RTR);
	to_state(1, IBV_QPS_RTS);
	hcarig_run(&rig, 10000);
	expect_none(1);
	event = next_event(0);
	assert_int_equal(event->event, RDMA_CM_EVENT_CONNECT_RESPONSE);
	assert_int_equal(event->param.conn.private_data_len, 196);
	assert_memory_equal(event->param.conn.private_data, "me\0", 3);
	assert_int_equal(event->param.conn.qp_num, rig.end[1].qp->qp_num);
	rig.end[0].v->ack_cm_event(event);
	to_rts(0);
	assert_int_equal(rig.end[0].v->establish(id[0]), 0);
	hcarig_run(&rig, 10000);
	expect(1, RDMA_CM_EVENT_ESTABLISHED, 0);
	expect_none(0);
}

static void
a_connection_carries_data(void **state)
{
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;

	(void)state;
	make_connection();
	assert_int_equal(
		hcarig_do(&rig, 0, &(struct hcarig_wr){ .bytes = 1000 }),
		IBV_WC_SUCCESS);
	assert_memory_equal(rig.end[1].buf, rig.end[0].buf, 1000);
	/* Each may have as many READs out as the other one takes. */
	rig.end[0].v->query_qp(rig.end[0].qp, &attr, IBV_QP_STATE, &init);
	assert_int_equal(attr.max_rd_atomic, 3);
	assert_int_equal(attr.max_dest_rd_atomic, 5);
	assert_int_equal(attr.retry_cnt, 4);
	assert_int_equal(attr.timeout, 19);
	assert_int_equal(attr.path_mtu, IBV_MTU_4096);
}

static void
the_time_out_is_an_option(void **state)
{
	uint8_t timeout = 14, tos = 104;
	const struct kv_rdmaverbs *v = rig.end[0].v;
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;

	(void)state;
	assert_int_equal(v->set_option(id[0], RDMA_OPTION_ID,
				       RDMA_OPTION_ID_ACK_TIMEOUT, &timeout, 1),
			 0);
	assert_int_equal(v->set_option(id[0], RDMA_OPTION_ID,
				       RDMA_OPTION_ID_TOS, &tos, 1),
			 0);
	assert_int_equal(v->set_option(id[0], RDMA_OPTION_ID,
				       RDMA_OPTION_ID_TOS, &tos, 4),
			 -1);
	assert_int_equal(v->set_option(id[0], RDMA_OPTION_IB, 1, &tos, 1), -1);
	make_connection();
	v->query_qp(rig.end[0].qp, &attr, IBV_QP_STATE, &init);
	assert_int_equal(attr.timeout, 14);
}

static void
an_id_tells_where_it_is(void **state)
{
	(void)state;
	make_connection();
	for (int i = 0; i < 2; i++) {
		assert_int_equal(id[i]->port_num, 1);
		/* The manager's own context, of the same device. */
		assert_ptr_not_equal(id[i]->verbs, rig.end[i].ctx);
		assert_string_equal(id[i]->verbs->device->name, "mlx5_0");
	}
	assert_null(listener->verbs);
	assert_int_equal(ntohs(rig.end[1].v->get_src_port(listener)), IP_PORT);
	assert_int_equal(ntohs(rig.end[1].v->get_src_port(id[1])), IP_PORT);
	assert_int_equal(id[0]->route.addr.src_sin.sin_addr.s_addr,
			 ((struct sockaddr_in *)(void *)addr_of("10.0.0.1", 0))
				 ->sin_addr.s_addr);
}

static void
both_ends_hear_of_the_end(void **state)
{
	(void)state;
	make_connection();
	assert_int_equal(rig.end[0].v->disconnect(id[0]), 0);
	hcarig_run(&rig, 10000);
	expect(0, RDMA_CM_EVENT_DISCONNECTED, 0);
	expect(1, RDMA_CM_EVENT_DISCONNECTED, 0);
	/* The QPs are the business of who made them. */
	assert_int_equal(rig.end[1].qp->state, IBV_QPS_RTS);
	hcarig_run(&rig, 5 * KV_NS_PER_S);
	expect(0, RDMA_CM_EVENT_TIMEWAIT_EXIT, 0);
	expect(1, RDMA_CM_EVENT_TIMEWAIT_EXIT, 0);
}

static void
a_destroyed_id_is_missed(void **state)
{
	(void)state;
	make_connection();
	assert_int_equal(rig.end[0].v->destroy_id(id[0]), 0);
	id[0] = NULL;
	hcarig_run(&rig, 10000);
	expect(1, RDMA_CM_EVENT_DISCONNECTED, 0);
}

static void
a_process_that_exits_is_missed(void **state)
{
	(void)state;
	make_connection();
	hca_process_exit(rig.end[1].v);
	hcarig_run(&rig, 10000);
	expect(0, RDMA_CM_EVENT_DISCONNECTED, 0);
	expect_none(1);
}

static void
a_cut_way_is_heard_of_late(void **state)
{
	(void)state;
	make_connection();
	hca_cut(rig.end[0].port, NULL, true);
	assert_int_equal(rig.end[0].v->disconnect(id[0]), 0);
	hcarig_run(&rig, 60 * KV_NS_PER_S);
	expect_none(0);
	hcarig_run(&rig, 10 * KV_NS_PER_S);
	expect(0, RDMA_CM_EVENT_DISCONNECTED, 0);
	expect_none(1);
}

static void
a_no_comes_with_its_reason(void **state)
{
	struct rdma_cm_event *event;

	(void)state;
	listen_at("10.0.0.2");
	ask();
	assert_int_equal(rig.end[1].v->reject(id[1], "full", 4), 0);
	hcarig_run(&rig, 10000);
	event = next_event(0);
	assert_int_equal(event->event, RDMA_CM_EVENT_REJECTED);
	assert_int_equal(event->status, 28);
	assert_int_equal(event->param.conn.private_data_len, 148);
	assert_memory_equal(event->param.conn.private_data, "full\0", 5);
	rig.end[0].v->ack_cm_event(event);
}

static void
nobody_listens(void **state)
{
	struct rdma_conn_param param = param_of(0, NULL);

	(void)state;
	resolve("10.0.0.2");
	assert_int_equal(rig.end[0].v->connect(id[0], &param), 0);
	hcarig_run(&rig, 10000);
	expect(0, RDMA_CM_EVENT_REJECTED, 8);
}

static void
nobody_answers(void **state)
{
	struct rdma_conn_param param = param_of(0, NULL);

	(void)state;
	listen_at("10.0.0.2");
	resolve("10.0.0.2");
	hca_cut(rig.end[0].port, rig.end[1].port, true);
	assert_int_equal(rig.end[0].v->connect(id[0], &param), 0);
	hcarig_run(&rig, 68 * KV_NS_PER_S);
	expect_none(0);
	hcarig_run(&rig, 2 * KV_NS_PER_S);
	expect(0, RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT);
	expect_none(1);
}

static void
a_request_waits_for_the_way_to_heal(void **state)
{
	struct rdma_conn_param param = param_of(0, NULL);

	(void)state;
	listen_at("10.0.0.2");
	resolve("10.0.0.2");
	hca_cut(rig.end[0].port, NULL, true);
	assert_int_equal(rig.end[0].v->connect(id[0], &param), 0);
	hcarig_run(&rig, 10 * KV_NS_PER_S);
	hca_cut(rig.end[0].port, NULL, false);
	hcarig_run(&rig, 5 * KV_NS_PER_S);
	expect(1, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
}

static void
a_request_that_is_never_seen_is_sent_away(void **state)
{
	struct rdma_conn_param param = param_of(0, NULL);

	(void)state;
	listen_at("10.0.0.2");
	resolve("10.0.0.2");
	assert_int_equal(rig.end[0].v->connect(id[0], &param), 0);
	hcarig_run(&rig, 1500);
	rig.end[1].v->destroy_id(listener);
	listener = NULL;
	hcarig_run(&rig, 10000);
	expect(0, RDMA_CM_EVENT_REJECTED, 28);
}

static void
addresses_may_not_resolve(void **state)
{
	const struct kv_rdmaverbs *v = rig.end[0].v;

	(void)state;
	assert_int_equal(v->resolve_addr(id[0], addr_of("10.0.0.2", 0),
					 addr_of("10.0.0.2", 0), 100),
			 -1);
	assert_int_equal(errno, ENODEV); /* that is not our own */
	hca_cut(rig.end[1].port, rig.end[0].port, true);
	assert_int_equal(
		v->resolve_addr(id[0], NULL, addr_of("10.0.0.2", IP_PORT), 100),
		0);
	hcarig_run(&rig, 99 * KV_NS_PER_MS);
	expect_none(0);
	hcarig_run(&rig, 2 * KV_NS_PER_MS);
	expect(0, RDMA_CM_EVENT_ADDR_ERROR, -ETIMEDOUT);
	assert_int_equal(v->resolve_route(id[0], 100), -1);
	assert_int_equal(errno, EINVAL);
	/* Nobody has that one. */
	assert_int_equal(
		v->resolve_addr(id[0], NULL, addr_of("10.0.0.9", IP_PORT), 100),
		0);
	hcarig_run(&rig, 200 * KV_NS_PER_MS);
	expect(0, RDMA_CM_EVENT_ADDR_ERROR, -ETIMEDOUT);
	hca_cut(rig.end[1].port, NULL, false);
	resolve("10.0.0.2");
}

static void
the_way_out_is_of_the_same_network(void **state)
{
	struct hca_host *h = rig.end[0].host;
	struct hca_dev *dev = hca_dev_add(h, "mlx5_1");
	struct hca_host *far = hca_host_add(rig.hca, "c");

	(void)state;
	hca_port_add(dev,
		     &(struct hca_port_opts){ .ip = "10.0.1.1", .fabric = 1 });
	hca_port_add(hca_dev_add(far, "mlx5_0"),
		     &(struct hca_port_opts){ .ip = "10.0.1.3", .fabric = 1 });
	resolve("10.0.1.3");
	assert_string_equal(id[0]->verbs->device->name, "mlx5_1");
}

static void
steps_fail_as_they_are_told(void **state)
{
	struct hca_host *h = rig.end[0].host;
	const struct kv_rdmaverbs *v = rig.end[0].v;
	struct rdma_conn_param param = param_of(0, NULL);
	struct rdma_cm_event *event;

	(void)state;
	listen_at("10.0.0.2");
	hca_fail_cm(h, RDMA_CM_EVENT_ADDR_ERROR, -EHOSTUNREACH, NULL, 0);
	v->resolve_addr(id[0], NULL, addr_of("10.0.0.2", IP_PORT), 1000);
	hcarig_run(&rig, 10000);
	expect(0, RDMA_CM_EVENT_ADDR_ERROR, -EHOSTUNREACH);
	hca_fail_cm(h, RDMA_CM_EVENT_ROUTE_ERROR, -ENETUNREACH, NULL, 0);
	v->resolve_addr(id[0], NULL, addr_of("10.0.0.2", IP_PORT), 1000);
	hcarig_run(&rig, 10000);
	expect(0, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	v->resolve_route(id[0], 1000);
	hcarig_run(&rig, 10000);
	expect(0, RDMA_CM_EVENT_ROUTE_ERROR, -ENETUNREACH);
	v->resolve_route(id[0], 1000);
	hcarig_run(&rig, 10000);
	expect(0, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
	hca_fail_cm(h, RDMA_CM_EVENT_REJECTED, 28, "no", 2);
	assert_int_equal(v->connect(id[0], &param), 0);
	hcarig_run(&rig, 10000);
	event = next_event(0);
	assert_int_equal(event->event, RDMA_CM_EVENT_REJECTED);
	assert_memory_equal(event->param.conn.private_data, "no\0", 3);
	v->ack_cm_event(event);
	expect_none(1);
	hca_cm_event(id[0], RDMA_CM_EVENT_ADDR_CHANGE, 0);
	expect(0, RDMA_CM_EVENT_ADDR_CHANGE, 0);
}

static void
a_removed_device_is_told_of(void **state)
{
	(void)state;
	make_connection();
	hca_dev_remove(rig.end[1].dev);
	expect(1, RDMA_CM_EVENT_DEVICE_REMOVAL, 0);
	assert_int_equal(rig.end[1].v->disconnect(id[1]), -1);
	assert_int_equal(hcarig_async(&rig, 1), IBV_EVENT_DEVICE_FATAL);
}

static void
private_data_has_its_limit(void **state)
{
	static const char data[200];
	struct rdma_conn_param param = param_of(0, NULL);
	const struct kv_rdmaverbs *v = rig.end[0].v;

	(void)state;
	listen_at("10.0.0.2");
	resolve("10.0.0.2");
	param.private_data = data;
	param.private_data_len = 57;
	assert_int_equal(v->connect(id[0], &param), -1);
	assert_int_equal(errno, EINVAL);
	param.private_data_len = 56;
	param.initiator_depth = 17; /* more than the device has */
	assert_int_equal(v->connect(id[0], &param), -1);
	param.initiator_depth = 16;
	assert_int_equal(v->connect(id[0], &param), 0);
	hcarig_run(&rig, 10000);
	expect(1, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	assert_int_equal(v->connect(id[0], &param), -1);
}

static void
ports_of_hosts_are_taken_once(void **state)
{
	const struct kv_rdmaverbs *v = rig.end[1].v;
	struct rdma_cm_id *other;

	(void)state;
	listen_at("10.0.0.2");
	assert_int_equal(v->create_id(channel[1], &other, NULL, RDMA_PS_TCP),
			 0);
	assert_int_equal(v->bind_addr(other, addr_of("0.0.0.0", IP_PORT)), -1);
	assert_int_equal(errno, EADDRINUSE);
	assert_int_equal(v->bind_addr(other, addr_of("10.0.0.1", 0)), -1);
	assert_int_equal(errno, ENODEV);
	assert_int_equal(v->bind_addr(other, addr_of("0.0.0.0", 0)), 0);
	assert_int_not_equal(v->get_src_port(other), 0);
	assert_int_equal(v->listen(other, 1), 0);
	v->destroy_id(other);
}

static void
before_an_answer_only_so_much_is_known(void **state)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT };
	const struct kv_rdmaverbs *v = rig.end[0].v;
	int mask = 0;

	(void)state;
	assert_int_equal(v->init_qp_attr(id[0], &attr, &mask), -1);
	listen_at("10.0.0.2");
	ask();
	assert_int_equal(v->init_qp_attr(id[0], &attr, &mask), 0);
	assert_int_equal(attr.port_num, 1);
	assert_int_equal(mask, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
				       IBV_QP_ACCESS_FLAGS);
	attr.qp_state = IBV_QPS_RTR;
	assert_int_equal(v->init_qp_attr(id[0], &attr, &mask), -1);
	/* Who was asked knows. */
	assert_int_equal(rig.end[1].v->init_qp_attr(id[1], &attr, &mask), 0);
	assert_int_equal(attr.dest_qp_num, rig.end[0].qp->qp_num);
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
	expect(0, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
}

static void
channels_are_descriptors(void **state)
{
	struct watch w = { .io.fn = on_watch };

	(void)state;
	assert_int_equal(
		kv_loop_io_add(rig.loop, &w.io, channel[0]->fd, EPOLLIN), 0);
	assert_int_equal(rig.end[0].v->resolve_addr(
				 id[0], NULL, addr_of("10.0.0.2", 1), 1000),
			 0);
	hcarig_run(&rig, 10000);
	assert_int_equal(w.calls, 1);
	kv_loop_io_del(&w.io);
}

static void
ids_move_with_their_events(void **state)
{
	const struct kv_rdmaverbs *v = rig.end[0].v;
	struct rdma_event_channel *old = channel[0];

	(void)state;
	assert_int_equal(
		v->resolve_addr(id[0], NULL, addr_of("10.0.0.2", 1), 1000), 0);
	hcarig_run(&rig, 10000);
	channel[0] = v->create_event_channel();
	fcntl(channel[0]->fd, F_SETFL, O_NONBLOCK);
	assert_int_equal(v->migrate_id(id[0], channel[0]), 0);
	assert_ptr_equal(id[0]->channel, channel[0]);
	v->destroy_event_channel(old);
	expect(0, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	assert_int_equal(v->migrate_id(id[0], NULL), -1);
}

int
main(void)
{
#define TEST(t) cmocka_unit_test_setup_teardown(t, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(a_connection_carries_data),
		TEST(the_time_out_is_an_option),
		TEST(an_id_tells_where_it_is),
		TEST(both_ends_hear_of_the_end),
		TEST(a_destroyed_id_is_missed),
		TEST(a_process_that_exits_is_missed),
		TEST(a_cut_way_is_heard_of_late),
		TEST(a_no_comes_with_its_reason),
		TEST(nobody_listens),
		TEST(nobody_answers),
		TEST(a_request_waits_for_the_way_to_heal),
		TEST(a_request_that_is_never_seen_is_sent_away),
		TEST(addresses_may_not_resolve),
		TEST(the_way_out_is_of_the_same_network),
		TEST(steps_fail_as_they_are_told),
		TEST(a_removed_device_is_told_of),
		TEST(private_data_has_its_limit),
		TEST(ports_of_hosts_are_taken_once),
		TEST(before_an_answer_only_so_much_is_known),
		TEST(channels_are_descriptors),
		TEST(ids_move_with_their_events),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
