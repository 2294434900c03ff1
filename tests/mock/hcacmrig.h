#ifndef KV_MOCK_HCACMRIG_H
#define KV_MOCK_HCACMRIG_H

/* Two hosts that are to be connected by the fake connection manager: end 0
 * asks, end 1 has a listener. Fails the running test on any error. */

#include "hcarig.h"

enum {
	HCACMRIG_PORT = 4321,
};

extern struct hcarig hcacm_rig;
extern struct rdma_event_channel *hcacm_channel[2];
/* NULL: not there, or destroyed by the test. id[1]: of the last who asked. */
extern struct rdma_cm_id *hcacm_listener, *hcacm_id[2];

/* Of a test: ids that are not bound yet. */
int hcacmrig_setup(void **state);
int hcacmrig_teardown(void **state);

/* Valid until the next call. */
struct sockaddr *hcacmrig_addr(const char *ip, uint16_t port);

/* The next event of an end, to be acknowledged; NULL: none. */
struct rdma_cm_event *hcacmrig_event(int end);
/* It is this. */
void hcacmrig_expect(int end, enum rdma_cm_event_type type, int status);
void hcacmrig_expect_none(int end);

void hcacmrig_listen(const char *ip);
/* Address and route of who listens there. */
void hcacmrig_resolve(const char *ip);

#endif
