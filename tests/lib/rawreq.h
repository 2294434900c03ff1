#ifndef KV_TEST_RAWREQ_H
#define KV_TEST_RAWREQ_H

/* A requester in single steps, written after kvproto(7): it can stop between
 * any two, or do what the library would never do. */

#include "forge.h"

#define RAWREQ_NAMES_MAX 64
#define RAWREQ_KEYS_MAX  16

struct rawreq_name { /* a grant, or a pin with what it pins */
	uint64_t name;
	uint32_t index; /* of the key */
	uint64_t size;  /* of a grant's value */
	uint32_t nextents;
	struct {
		uint64_t off;
		uint64_t len;
	} extents[8]; /* the first ones */
};

struct rawreq {
	struct forge *forge;
	uint8_t *frame; /* FORGE_BYTES_MAX */
	bool is_local;
	int control;
	int data; /* -1: none */
	uint64_t token;
	uint64_t data_token;
	uint8_t *pool; /* mapping; NULL: none */
	uint64_t pool_bytes;
	struct rawreq_name grants[RAWREQ_NAMES_MAX];
	size_t ngrants;
	struct rawreq_name pins[RAWREQ_NAMES_MAX];
	size_t npins;
	uint64_t id;                     /* of the last request */
	uint64_t sizes[RAWREQ_KEYS_MAX]; /* of the last put */
	uint8_t statuses[RAWREQ_KEYS_MAX];
	size_t nstatuses;
};

struct rawreq_key {
	const char *key; /* "": no key at all */
	uint64_t size;   /* put: of the value. get: room */
	uint64_t off;    /* get */
	uint8_t flags;
};

/* HELLO at a path (and the pool mapped) or at "host:port" (and a data
 * connection). */
bool rawreq_open(struct rawreq *r, struct forge *f, const char *target);
void rawreq_close(struct rawreq *r);

bool rawreq_put(struct rawreq *r, const struct rawreq_key *keys, size_t n,
		const struct kv_put *how);
bool rawreq_get(struct rawreq *r, const struct rawreq_key *keys, size_t n,
		const struct kv_get *how);
/* Of the id given, else of the last put. */
bool rawreq_filled(struct rawreq *r, const uint64_t *grants, size_t n,
		   uint8_t flags);
bool rawreq_data(struct rawreq *r, uint64_t grant, uint64_t off,
		 const void *bytes, uint32_t len);
bool rawreq_release(struct rawreq *r, const uint64_t *pins, size_t n);

/* Reads frames until one of this type has come. What they grant and pin, and
 * the statuses of PUT_R and GET_R, are kept. */
bool rawreq_wait(struct rawreq *r, enum kv_msg_type type, int timeout_ms);

#endif
