#ifndef KV_TEST_NETPAIR_H
#define KV_TEST_NETPAIR_H

/* Both ends of a connection on one loop, over the real network. */

#include <stdbool.h>

#include "event/loop.h"
#include "net/net.h"
#include "net/stream.h"

struct netpair {
	struct kv_loop *loop;
	struct kv_net *net;
	struct kv_listener *listener;
	char bound[KV_NET_BOUND_BYTES];
	struct kv_stream *near; /* dialled */
	struct kv_stream *far;  /* accepted last */
	struct kv_peer peer;    /* of far */
	int accepted;
	int status;     /* of the dial; 1: not told yet */
	uint32_t ready; /* last told to netpair_read() */
};

/* Listens only; open also connects. Failing fails the test. */
void netpair_listen(struct netpair *p, const char *addr);
void netpair_open(struct netpair *p, const char *addr);

/* Dials and waits for the outcome, which it returns. */
int netpair_dial(struct netpair *p, const char *addr, unsigned timeout_ms);

/* Turns until the condition holds, or fails the test after 10 s. */
#define NETPAIR_WAIT(p, condition)                                  \
	do {                                                        \
		uint64_t netpair_end = netpair_end_of_wait(p);      \
		while (!(condition))                                \
			netpair_turn((p), netpair_end, #condition); \
	} while (0)
uint64_t netpair_end_of_wait(struct netpair *p);
void netpair_turn(struct netpair *p, uint64_t end, const char *what);

/* Waits until the stream has bytes and takes them, or its end, or error. */
ssize_t netpair_read(struct netpair *p, struct kv_stream *s, void *buf,
		     size_t n);
ssize_t netpair_write(struct kv_stream *s, const char *text);

void netpair_close_stream(struct kv_stream **s);
void netpair_close(struct netpair *p);

/* Open descriptors of this process. */
int netpair_count_fds(void);

/* Fixtures of cmocka: no descriptor is left behind. A look-up that nobody waits
 * for any more ends on its own. */
int netpair_fds_before(void **state);
int netpair_fds_after(void **state);
#define NETPAIR_TIGHT(t)                                       \
	cmocka_unit_test_setup_teardown(t, netpair_fds_before, \
					netpair_fds_after)

#endif
