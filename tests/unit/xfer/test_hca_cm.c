/* The fake connection manager: how connections are made and how they end. */

#include "hcacmrig.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include "test.h"

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
		.qp_num = hcacm_rig.end[end].qp->qp_num,
	};
}

/* Asked, and the other end has it. */
static void
ask(void)
{
	struct rdma_conn_param param = param_of(0, "who");
	struct rdma_cm_event *event;

	hcacmrig_resolve("10.0.0.2");
	assert_int_equal(hcacm_rig.end[0].v->connect(hcacm_id[0], &param), 0);
	hcarig_run(&hcacm_rig, 10000);
	event = hcacmrig_event(1);
	assert_non_null(event);
	assert_int_equal(event->event, RDMA_CM_EVENT_CONNECT_REQUEST);
	assert_ptr_equal(event->listen_id, hcacm_listener);
	assert_ptr_equal(event->id->context, &hcacm_listener);
	assert_int_equal(event->param.conn.private_data_len, 56);
	assert_memory_equal(event->param.conn.private_data, "who\0\0", 5);
	/* Theirs, as seen from here. */
	assert_int_equal(event->param.conn.responder_resources, 5);
	assert_int_equal(event->param.conn.initiator_depth, 3);
	assert_int_equal(event->param.conn.qp_num, hcacm_rig.end[0].qp->qp_num);
	hcacm_id[1] = event->id;
	hcacm_rig.end[1].v->ack_cm_event(event);
}

static void
to_state(int end, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = { .qp_state = state };
	int mask;

	assert_int_equal(
		hcacm_rig.end[end].v->init_qp_attr(hcacm_id[end], &attr, &mask),
		0);
	assert_int_equal(hcacm_rig.end[end].v->modify_qp(hcacm_rig.end[end].qp,
							 &attr, mask),
			 0);
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

	hcacmrig_listen("0.0.0.0");
	ask();
	/* Up to the state in which it can be sent to, then the word. */
	to_state(1, IBV_QPS_INIT);
	assert_int_equal(hcacm_rig.end[1].v->accept(hcacm_id[1], &param), 0);
	to_state(1, IBV_QPS_RTR);
	to_state(1, IBV_QPS_RTS);
	hcarig_run(&hcacm_rig, 10000);
	hcacmrig_expect_none(1);
	event = hcacmrig_event(0);
	assert_int_equal(event->event, RDMA_CM_EVENT_CONNECT_RESPONSE);
	assert_int_equal(event->param.conn.private_data_len, 196);
	assert_memory_equal(event->param.conn.private_data, "me\0", 3);
	assert_int_equal(event->param.conn.qp_num, hcacm_rig.end[1].qp->qp_num);
	hcacm_rig.end[0].v->ack_cm_event(event);
	to_rts(0);
	assert_int_equal(hcacm_rig.end[0].v->establish(hcacm_id[0]), 0);
	hcarig_run(&hcacm_rig, 10000);
	hcacmrig_expect(1, RDMA_CM_EVENT_ESTABLISHED, 0);
	hcacmrig_expect_none(0);
}

static void
a_connection_carries_data(void **state)
{
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;

	(void)state;
	make_connection();
	assert_int_equal(
		hcarig_do(&hcacm_rig, 0, &(struct hcarig_wr){ .bytes = 1000 }),
		IBV_WC_SUCCESS);
	assert_memory_equal(hcacm_rig.end[1].buf, hcacm_rig.end[0].buf, 1000);
	/* Each may have as many READs out as the other one takes. */
	hcacm_rig.end[0].v->query_qp(hcacm_rig.end[0].qp, &attr, IBV_QP_STATE,
				     &init);
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
	const struct kv_rdmaverbs *v = hcacm_rig.end[0].v;
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;

	(void)state;
	assert_int_equal(v->set_option(hcacm_id[0], RDMA_OPTION_ID,
				       RDMA_OPTION_ID_ACK_TIMEOUT, &timeout, 1),
			 0);
	assert_int_equal(v->set_option(hcacm_id[0], RDMA_OPTION_ID,
				       RDMA_OPTION_ID_TOS, &tos, 1),
			 0);
	assert_int_equal(v->set_option(hcacm_id[0], RDMA_OPTION_ID,
				       RDMA_OPTION_ID_TOS, &tos, 4),
			 -1);
	assert_int_equal(v->set_option(hcacm_id[0], RDMA_OPTION_IB, 1, &tos, 1),
			 -1);
	make_connection();
	v->query_qp(hcacm_rig.end[0].qp, &attr, IBV_QP_STATE, &init);
	assert_int_equal(attr.timeout, 14);
}

static void
an_id_tells_where_it_is(void **state)
{
	(void)state;
	make_connection();
	for (int i = 0; i < 2; i++) {
		assert_int_equal(hcacm_id[i]->port_num, 1);
		/* The manager's own context, of the same device. */
		assert_ptr_not_equal(hcacm_id[i]->verbs, hcacm_rig.end[i].ctx);
		assert_string_equal(hcacm_id[i]->verbs->device->name, "mlx5_0");
	}
	assert_null(hcacm_listener->verbs);
	assert_int_equal(
		ntohs(hcacm_rig.end[1].v->get_src_port(hcacm_listener)),
		HCACMRIG_PORT);
	assert_int_equal(ntohs(hcacm_rig.end[1].v->get_src_port(hcacm_id[1])),
			 HCACMRIG_PORT);
	assert_int_equal(
		hcacm_id[0]->route.addr.src_sin.sin_addr.s_addr,
		((struct sockaddr_in *)(void *)hcacmrig_addr("10.0.0.1", 0))
			->sin_addr.s_addr);
}

static void
both_ends_hear_of_the_end(void **state)
{
	(void)state;
	make_connection();
	assert_int_equal(hcacm_rig.end[0].v->disconnect(hcacm_id[0]), 0);
	hcarig_run(&hcacm_rig, 10000);
	hcacmrig_expect(0, RDMA_CM_EVENT_DISCONNECTED, 0);
	hcacmrig_expect(1, RDMA_CM_EVENT_DISCONNECTED, 0);
	/* The QPs are the business of who made them. */
	assert_int_equal(hcacm_rig.end[1].qp->state, IBV_QPS_RTS);
	hcarig_run(&hcacm_rig, 5 * KV_NS_PER_S);
	hcacmrig_expect(0, RDMA_CM_EVENT_TIMEWAIT_EXIT, 0);
	hcacmrig_expect(1, RDMA_CM_EVENT_TIMEWAIT_EXIT, 0);
}

static void
a_destroyed_id_is_missed(void **state)
{
	(void)state;
	make_connection();
	assert_int_equal(hcacm_rig.end[0].v->destroy_id(hcacm_id[0]), 0);
	hcacm_id[0] = NULL;
	hcarig_run(&hcacm_rig, 10000);
	hcacmrig_expect(1, RDMA_CM_EVENT_DISCONNECTED, 0);
}

static void
a_process_that_exits_is_missed(void **state)
{
	(void)state;
	make_connection();
	hca_process_exit(hcacm_rig.end[1].v);
	hcarig_run(&hcacm_rig, 10000);
	hcacmrig_expect(0, RDMA_CM_EVENT_DISCONNECTED, 0);
	hcacmrig_expect_none(1);
}

static void
a_cut_way_is_heard_of_late(void **state)
{
	(void)state;
	make_connection();
	hca_cut(hcacm_rig.end[0].port, NULL, true);
	assert_int_equal(hcacm_rig.end[0].v->disconnect(hcacm_id[0]), 0);
	hcarig_run(&hcacm_rig, 60 * KV_NS_PER_S);
	hcacmrig_expect_none(0);
	hcarig_run(&hcacm_rig, 10 * KV_NS_PER_S);
	hcacmrig_expect(0, RDMA_CM_EVENT_DISCONNECTED, 0);
	hcacmrig_expect_none(1);
}

static void
a_no_comes_with_its_reason(void **state)
{
	struct rdma_cm_event *event;

	(void)state;
	hcacmrig_listen("10.0.0.2");
	ask();
	assert_int_equal(hcacm_rig.end[1].v->reject(hcacm_id[1], "full", 4), 0);
	hcarig_run(&hcacm_rig, 10000);
	event = hcacmrig_event(0);
	assert_int_equal(event->event, RDMA_CM_EVENT_REJECTED);
	assert_int_equal(event->status, 28);
	assert_int_equal(event->param.conn.private_data_len, 148);
	assert_memory_equal(event->param.conn.private_data, "full\0", 5);
	hcacm_rig.end[0].v->ack_cm_event(event);
}

static void
who_has_not_asked_is_not_refused(void **state)
{
	(void)state;
	assert_int_equal(hcacm_rig.end[0].v->reject(hcacm_id[0], NULL, 0), -1);
	assert_int_equal(errno, EINVAL);
}

/* The last word is missing. */
static void
who_accepts_does_not_wait_for_ever(void **state)
{
	struct rdma_conn_param param = param_of(1, NULL);

	(void)state;
	hcacmrig_listen("10.0.0.2");
	ask();
	hca_cut(hcacm_rig.end[0].port, NULL, true);
	assert_int_equal(hcacm_rig.end[1].v->accept(hcacm_id[1], &param), 0);
	hcarig_run(&hcacm_rig, 70 * KV_NS_PER_S);
	hcacmrig_expect(1, RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT);
}

static void
who_gives_up_says_so(void **state)
{
	(void)state;
	hcacmrig_listen("10.0.0.2");
	ask();
	hcacm_rig.end[0].v->destroy_id(hcacm_id[0]);
	hcacm_id[0] = NULL;
	hcarig_run(&hcacm_rig, 10000);
	hcacmrig_expect(1, RDMA_CM_EVENT_REJECTED, 4);
}

/* Nobody could say that it has gone; asked, its host does. */
static void
a_forgotten_end_is_answered_for(void **state)
{
	(void)state;
	make_connection();
	hca_cut(hcacm_rig.end[1].port, NULL, true);
	hcacm_rig.end[1].v->destroy_id(hcacm_id[1]);
	hcacm_id[1] = NULL;
	hcarig_run(&hcacm_rig, 80 * KV_NS_PER_S);
	hca_cut(hcacm_rig.end[1].port, NULL, false);
	hcarig_run(&hcacm_rig, 80 * KV_NS_PER_S);
	hcacmrig_expect_none(0);
	assert_int_equal(hcacm_rig.end[0].v->disconnect(hcacm_id[0]), 0);
	hcarig_run(&hcacm_rig, 10000);
	hcacmrig_expect(0, RDMA_CM_EVENT_DISCONNECTED, 0);
}

/* At this address, not at the other one of the host. */
static void
nobody_listens_there(void **state)
{
	struct rdma_conn_param param = param_of(0, NULL);

	(void)state;
	hca_port_add(hcacm_rig.end[1].dev,
		     &(struct hca_port_opts){ .ip = "10.0.0.3" });
	hcacmrig_listen("10.0.0.2");
	hcacmrig_resolve("10.0.0.3");
	assert_int_equal(hcacm_rig.end[0].v->connect(hcacm_id[0], &param), 0);
	hcarig_run(&hcacm_rig, 10000);
	hcacmrig_expect(0, RDMA_CM_EVENT_REJECTED, 8);
}

static void
nobody_listens(void **state)
{
	struct rdma_conn_param param = param_of(0, NULL);

	(void)state;
	hcacmrig_resolve("10.0.0.2");
	assert_int_equal(hcacm_rig.end[0].v->connect(hcacm_id[0], &param), 0);
	hcarig_run(&hcacm_rig, 10000);
	hcacmrig_expect(0, RDMA_CM_EVENT_REJECTED, 8);
}

static void
nobody_answers(void **state)
{
	struct rdma_conn_param param = param_of(0, NULL);

	(void)state;
	hcacmrig_listen("10.0.0.2");
	hcacmrig_resolve("10.0.0.2");
	hca_cut(hcacm_rig.end[0].port, hcacm_rig.end[1].port, true);
	assert_int_equal(hcacm_rig.end[0].v->connect(hcacm_id[0], &param), 0);
	hcarig_run(&hcacm_rig, 68 * KV_NS_PER_S);
	hcacmrig_expect_none(0);
	hcarig_run(&hcacm_rig, 2 * KV_NS_PER_S);
	hcacmrig_expect(0, RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT);
	hcacmrig_expect_none(1);
}

static void
a_request_waits_for_the_way_to_heal(void **state)
{
	struct rdma_conn_param param = param_of(0, NULL);

	(void)state;
	hcacmrig_listen("10.0.0.2");
	hcacmrig_resolve("10.0.0.2");
	hca_cut(hcacm_rig.end[0].port, NULL, true);
	assert_int_equal(hcacm_rig.end[0].v->connect(hcacm_id[0], &param), 0);
	hcarig_run(&hcacm_rig, 10 * KV_NS_PER_S);
	hca_cut(hcacm_rig.end[0].port, NULL, false);
	hcarig_run(&hcacm_rig, 5 * KV_NS_PER_S);
	hcacmrig_expect(1, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
}

static void
a_request_that_is_never_seen_is_sent_away(void **state)
{
	struct rdma_conn_param param = param_of(0, NULL);

	(void)state;
	hcacmrig_listen("10.0.0.2");
	hcacmrig_resolve("10.0.0.2");
	assert_int_equal(hcacm_rig.end[0].v->connect(hcacm_id[0], &param), 0);
	hcarig_run(&hcacm_rig, 1500);
	hcacm_rig.end[1].v->destroy_id(hcacm_listener);
	hcacm_listener = NULL;
	hcarig_run(&hcacm_rig, 10000);
	hcacmrig_expect(0, RDMA_CM_EVENT_REJECTED, 28);
}

static void
steps_fail_as_they_are_told(void **state)
{
	struct hca_host *h = hcacm_rig.end[0].host;
	const struct kv_rdmaverbs *v = hcacm_rig.end[0].v;
	struct rdma_conn_param param = param_of(0, NULL);
	struct rdma_cm_event *event;

	(void)state;
	hcacmrig_listen("10.0.0.2");
	hca_fail_cm(h, RDMA_CM_EVENT_ADDR_ERROR, -EHOSTUNREACH, NULL, 0);
	v->resolve_addr(hcacm_id[0], NULL,
			hcacmrig_addr("10.0.0.2", HCACMRIG_PORT), 1000);
	hcarig_run(&hcacm_rig, 10000);
	hcacmrig_expect(0, RDMA_CM_EVENT_ADDR_ERROR, -EHOSTUNREACH);
	hca_fail_cm(h, RDMA_CM_EVENT_ROUTE_ERROR, -ENETUNREACH, NULL, 0);
	v->resolve_addr(hcacm_id[0], NULL,
			hcacmrig_addr("10.0.0.2", HCACMRIG_PORT), 1000);
	hcarig_run(&hcacm_rig, 10000);
	hcacmrig_expect(0, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	v->resolve_route(hcacm_id[0], 1000);
	hcarig_run(&hcacm_rig, 10000);
	hcacmrig_expect(0, RDMA_CM_EVENT_ROUTE_ERROR, -ENETUNREACH);
	v->resolve_route(hcacm_id[0], 1000);
	hcarig_run(&hcacm_rig, 10000);
	hcacmrig_expect(0, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
	hca_fail_cm(h, RDMA_CM_EVENT_REJECTED, 28, "no", 2);
	assert_int_equal(v->connect(hcacm_id[0], &param), 0);
	hcarig_run(&hcacm_rig, 10000);
	event = hcacmrig_event(0);
	assert_int_equal(event->event, RDMA_CM_EVENT_REJECTED);
	assert_memory_equal(event->param.conn.private_data, "no\0", 3);
	v->ack_cm_event(event);
	hcacmrig_expect_none(1);
	hca_cm_event(hcacm_id[0], RDMA_CM_EVENT_ADDR_CHANGE, 0);
	hcacmrig_expect(0, RDMA_CM_EVENT_ADDR_CHANGE, 0);
}

static void
a_removed_device_is_told_of(void **state)
{
	(void)state;
	make_connection();
	hca_dev_remove(hcacm_rig.end[1].dev);
	hcacmrig_expect(1, RDMA_CM_EVENT_DEVICE_REMOVAL, 0);
	assert_int_equal(hcacm_rig.end[1].v->disconnect(hcacm_id[1]), -1);
	assert_int_equal(hcarig_async(&hcacm_rig, 1), IBV_EVENT_DEVICE_FATAL);
}

static void
private_data_has_its_limit(void **state)
{
	static const char data[200];
	struct rdma_conn_param param = param_of(0, NULL);
	const struct kv_rdmaverbs *v = hcacm_rig.end[0].v;

	(void)state;
	hcacmrig_listen("10.0.0.2");
	hcacmrig_resolve("10.0.0.2");
	param.private_data = data;
	param.private_data_len = 57;
	assert_int_equal(v->connect(hcacm_id[0], &param), -1);
	assert_int_equal(errno, EINVAL);
	param.private_data_len = 56;
	param.initiator_depth = 17; /* more than the device has */
	assert_int_equal(v->connect(hcacm_id[0], &param), -1);
	param.initiator_depth = 16;
	assert_int_equal(v->connect(hcacm_id[0], &param), 0);
	hcarig_run(&hcacm_rig, 10000);
	hcacmrig_expect(1, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	assert_int_equal(v->connect(hcacm_id[0], &param), -1);
}

static void
before_an_answer_only_so_much_is_known(void **state)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT };
	const struct kv_rdmaverbs *v = hcacm_rig.end[0].v;
	int mask = 0;

	(void)state;
	assert_int_equal(v->init_qp_attr(hcacm_id[0], &attr, &mask), -1);
	hcacmrig_listen("10.0.0.2");
	ask();
	assert_int_equal(v->init_qp_attr(hcacm_id[0], &attr, &mask), 0);
	assert_int_equal(attr.port_num, 1);
	assert_int_equal(mask, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
				       IBV_QP_ACCESS_FLAGS);
	attr.qp_state = IBV_QPS_RTR;
	assert_int_equal(v->init_qp_attr(hcacm_id[0], &attr, &mask), -1);
	/* Who was asked knows. */
	assert_int_equal(
		hcacm_rig.end[1].v->init_qp_attr(hcacm_id[1], &attr, &mask), 0);
	assert_int_equal(attr.dest_qp_num, hcacm_rig.end[0].qp->qp_num);
}

int
main(void)
{
#define TEST(t) \
	cmocka_unit_test_setup_teardown(t, hcacmrig_setup, hcacmrig_teardown)
	const struct CMUnitTest tests[] = {
		TEST(a_connection_carries_data),
		TEST(the_time_out_is_an_option),
		TEST(an_id_tells_where_it_is),
		TEST(both_ends_hear_of_the_end),
		TEST(a_destroyed_id_is_missed),
		TEST(a_process_that_exits_is_missed),
		TEST(a_cut_way_is_heard_of_late),
		TEST(a_no_comes_with_its_reason),
		TEST(who_has_not_asked_is_not_refused),
		TEST(who_accepts_does_not_wait_for_ever),
		TEST(who_gives_up_says_so),
		TEST(a_forgotten_end_is_answered_for),
		TEST(nobody_listens_there),
		TEST(nobody_listens),
		TEST(nobody_answers),
		TEST(a_request_waits_for_the_way_to_heal),
		TEST(a_request_that_is_never_seen_is_sent_away),
		TEST(steps_fail_as_they_are_told),
		TEST(a_removed_device_is_told_of),
		TEST(private_data_has_its_limit),
		TEST(before_an_answer_only_so_much_is_known),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
