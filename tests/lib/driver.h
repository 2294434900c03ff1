#ifndef KV_TEST_DRIVER_H
#define KV_TEST_DRIVER_H

/* What the programs of tests/promise have in common: their command line, and
 * the client that it describes. */

#include <stdint.h>

#include "kvpool.h"

enum driver_kind {
	DRIVER_TEXT,   /* const char * */
	DRIVER_NUMBER, /* uint64_t; sizes may have units */
	DRIVER_FLAG,   /* uint64_t, 1 when given */
};

struct driver_opt {
	const char *name; /* of --name=value; NULL ends the table */
	enum driver_kind kind;
	void *to; /* holds the default */
};

struct driver {
	const char *master;
	const char *socket;
	const char *node_addr;
	const char *tenant;
	uint64_t segment_bytes;
	uint64_t timeout_ms;
	uint64_t open_timeout_ms;
	uint64_t seed; /* 0: one by chance, said on stderr */
};

/* Reads the options of all drivers and its own; exits with 64 after a line
 * about what it does not know. */
void driver_parse(struct driver *d, const struct driver_opt *own, char **argv);

/* Exits with 69 after the library's line. */
struct kv_client *driver_open(const struct driver *d);

/* The value of a counter or gauge of kv_client_stats; -1: there is none. */
int64_t driver_stat(struct kv_client *c, const char *whose, const char *name);

#endif
