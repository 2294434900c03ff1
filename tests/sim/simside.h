#ifndef KV_SIM_SIMSIDE_H
#define KV_SIM_SIMSIDE_H

/* Two connections that face each other, and owners of them that keep what they
 * are told: what tests of connections share. */

#include "net/conn.h"
#include "simpair.h"

enum {
	SIMSIDE_TOLD_MAX = 64
};

struct simside {
	struct kv_conn *c; /* NULL: closed */
	int msgs, payloads, closes, drains;
	int status; /* of on_close */
	enum kv_msg_type types[SIMSIDE_TOLD_MAX];
	uint64_t ids[SIMSIDE_TOLD_MAX];
	uint8_t *room; /* where payload goes; NULL: it is dropped */
	int refuse;    /* on_payload returns this */
	bool pause_at_msg;
	bool close_at_msg, close_at_payload, close_at_close, close_at_drain;
};

struct simside_sent {
	struct kv_conn_sent sent;
	int calls, status;
	struct simside *closes; /* in the call */
};

extern struct simpair simside_pair;
extern struct simside simside_a, simside_b;
extern const struct kv_conn_ops simside_ops;

/* Fixtures of cmocka: over TCP, over a Unix socket. */
int simside_setup(void **state);
int simside_setup_unix(void **state);
int simside_teardown(void **state);
#define ON_TCP(f) \
	cmocka_unit_test_setup_teardown(f, simside_setup, simside_teardown)
#define ON_UNIX(f) \
	cmocka_unit_test_setup_teardown(f, simside_setup_unix, simside_teardown)

void simside_end(struct simside *s);
void simside_run_ms(uint64_t ms);

void simside_ping(struct simside *s, uint64_t id);
/* A STATS_R with such a tail. False: the connection took it no more. */
bool simside_stats(struct simside *s, size_t tail);
void simside_data(struct simside *s, void *bytes, size_t n,
		  struct simside_sent *sent);

#endif
