#ifndef KV_MOCK_RDMANODE_H
#define KV_MOCK_RDMANODE_H

/*
 * The node of noderig.h with two fake ports, and a requester with two, played
 * in single steps: its messages by hand, and the link that dials. Fails the
 * running test on any error.
 */

#include "hca.h"
#include "noderig.h"
#include "xfer/rdmalink.h"
#include "xfer/rdmaregion.h"

enum {
	RDMANODE_PORTS = 2,
	RDMANODE_MEM = 1 << 20,
	RDMANODE_PIECES = 8,
	RDMANODE_CHUNK = 1 << 18, /* of the node's pool */
};

/* A process with its ports. */
struct rdmaside {
	struct hca_host *host;
	struct hca_port *ports[RDMANODE_PORTS];
	const struct kv_rdmaverbs *v;
	struct kv_rdma *rdma;
	struct kv_rdmaregion *region;
};

extern struct hca *rdmanode_hca;
extern struct rdmaside rdmanode; /* the node: its pool */
extern struct rdmaside rdmareq;  /* the requester: rdmareq_mem */
extern uint8_t *rdmareq_mem;
extern struct simreq rdmareq_conns;
extern struct kv_rdmalink *rdmareq_link; /* NULL: none */
extern bool rdmareq_settled;

/* Of a test. The pool is registered, and the requester has both rails; nothing
 * is connected yet; or connected, and the pool not registered; or registered,
 * and no page of it announced. */
int rdmanode_setup(void **state);
int rdmanode_setup_bare(void **state);
int rdmanode_setup_early(void **state);
int rdmanode_setup_dry(void **state);
/* Bare; the node gets no channel for completions. */
int rdmanode_setup_poor(void **state);
/* As the first one; no port has an IP. */
int rdmanode_setup_joined(void **state);
int rdmanode_teardown(void **state);

/* Connects the requester; it has no rail where there was no way. */
void rdmareq_open(void);
/* It gives up: what was written for it has ended when this returns. */
void rdmareq_close(void);
/* Lets time pass, for both. */
void rdmanode_run(unsigned ms);
/* All of the pool is registered, or will not be. */
void rdmanode_register(bool is_good);

struct rdmanode_key {
	const char *key;
	uint64_t size;     /* put: of the value. get: room */
	const void *value; /* put: inline */
	uint32_t at;       /* in rdmareq_mem: one piece there; unless: */
	uint32_t cut; /* pieces of so many bytes, with gaps as large; or: */
	unsigned n_pieces;
	struct {
		uint32_t at, len;
	} pieces[RDMANODE_PIECES];
	bool is_range; /* get */
	uint64_t off;
};

struct rdmanode_how {
	uint32_t budget_ms;  /* 0: 1000 */
	uint32_t inline_max; /* get */
	uint32_t number;     /* get */
	/* What is wrong with it. */
	uint32_t wrong_keys;   /* added to the keys of the window */
	uint32_t wrong_window; /* to the pieces' window */
	uint8_t wrong_ports;   /* to the number of ports, with keys */
	uint64_t window_bytes; /* 0: all of rdmareq_mem */
	uint32_t wrong_count;  /* to the number of windows */
};

/* Sends it; its id. how NULL: nothing is particular. */
uint64_t rdmanode_put(const struct rdmanode_key *keys, unsigned n,
		      const struct rdmanode_how *how);
uint64_t rdmanode_get(const struct rdmanode_key *keys, unsigned n,
		      const struct rdmanode_how *how);

/* A GET whose end is awaited. */
struct rdmanode_got {
	struct kv_rdmaend end;
	bool is_over;
	int status;
	uint64_t id;
};
void rdmanode_get_await(struct rdmanode_got *g, const struct rdmanode_key *keys,
			unsigned n, const struct rdmanode_how *how);

/* What was answered: to a put, -1: not yet; to a get. */
int rdmanode_put_status(uint64_t id, unsigned i);
struct simgot rdmanode_got_of(uint64_t id, unsigned i);
/* A put of one key, from `at` of the memory, to its end: the status. */
int rdmanode_put_one(const char *key, uint32_t at, uint64_t size);
/* Nothing is reserved or pinned, nothing under way. */
void rdmanode_expect_idle(void);

/* Another requester finds just these bytes, over TCP. */
void rdmanode_expect(const char *key, const void *bytes, size_t n);
/* It has no such key. */
void rdmanode_expect_none(const char *key);

#endif
