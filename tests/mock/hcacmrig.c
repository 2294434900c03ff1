#include "hcacmrig.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>

#include "test.h"

struct hcarig hcacm_rig;
struct rdma_event_channel *hcacm_channel[2];
struct rdma_cm_id *hcacm_listener, *hcacm_id[2];

struct sockaddr *
hcacmrig_addr(const char *ip, uint16_t port)
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

int
hcacmrig_setup(void **state)
{
	struct hcarig_opts opts = { .hca.latency_ns = 1000 };

	(void)state;
	hcarig_open(&hcacm_rig, &opts);
	for (int i = 0; i < 2; i++) {
		hcacm_channel[i] = hcacm_rig.end[i].v->create_event_channel();
		fcntl(hcacm_channel[i]->fd, F_SETFL, O_NONBLOCK);
		hcacm_id[i] = NULL;
	}
	assert_int_equal(hcacm_rig.end[0].v->create_id(hcacm_channel[0],
						       &hcacm_id[0], &hcacm_rig,
						       RDMA_PS_TCP),
			 0);
	assert_int_equal(
		hcacm_rig.end[1].v->create_id(hcacm_channel[1], &hcacm_listener,
					      &hcacm_listener, RDMA_PS_TCP),
		0);
	return 0;
}

int
hcacmrig_teardown(void **state)
{
	(void)state;
	for (int i = 0; i < 2; i++)
		if (hcacm_id[i])
			hcacm_rig.end[i].v->destroy_id(hcacm_id[i]);
	if (hcacm_listener)
		hcacm_rig.end[1].v->destroy_id(hcacm_listener);
	for (int i = 0; i < 2; i++)
		hcacm_rig.end[i].v->destroy_event_channel(hcacm_channel[i]);
	hcarig_close(&hcacm_rig);
	return 0;
}

/* The next event of an end, to be acknowledged; NULL: none. */
struct rdma_cm_event *
hcacmrig_event(int end)
{
	struct rdma_cm_event *event;

	if (hcacm_rig.end[end].v->get_cm_event(hcacm_channel[end], &event) == 0)
		return event;
	assert_int_equal(errno, EAGAIN);
	return NULL;
}

/* It is this. */
void
hcacmrig_expect(int end, enum rdma_cm_event_type type, int status)
{
	struct rdma_cm_event *event = hcacmrig_event(end);

	assert_non_null(event);
	assert_int_equal(event->event, type);
	assert_int_equal(event->status, status);
	if (type == RDMA_CM_EVENT_CONNECT_REQUEST)
		hcacm_id[end] = event->id;
	hcacm_rig.end[end].v->ack_cm_event(event);
}

void
hcacmrig_expect_none(int end)
{
	assert_null(hcacmrig_event(end));
}

void
hcacmrig_listen(const char *ip)
{
	const struct kv_rdmaverbs *v = hcacm_rig.end[1].v;

	assert_int_equal(
		v->bind_addr(hcacm_listener, hcacmrig_addr(ip, HCACMRIG_PORT)),
		0);
	assert_int_equal(v->listen(hcacm_listener, 8), 0);
}

void
hcacmrig_resolve(const char *ip)
{
	const struct kv_rdmaverbs *v = hcacm_rig.end[0].v;

	assert_int_equal(v->resolve_addr(hcacm_id[0], NULL,
					 hcacmrig_addr(ip, HCACMRIG_PORT),
					 1000),
			 0);
	hcarig_run(&hcacm_rig, 10000);
	hcacmrig_expect(0, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	assert_int_equal(v->resolve_route(hcacm_id[0], 1000), 0);
	hcarig_run(&hcacm_rig, 10000);
	hcacmrig_expect(0, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
}
