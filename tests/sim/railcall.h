#ifndef KV_SIM_RAILCALL_H
#define KV_SIM_RAILCALL_H

/*
 * A node and a requester on another host, with rails between them, and calls of
 * one key whose value follows from its name. Fails the running test when a byte
 * is wrong.
 */

#include "clustercore.h"
#include "simrails.h"
#include "svc/getop.h"
#include "svc/putop.h"

extern struct simrails *rails;
extern struct cluster *cl;
extern struct sim_requester *far; /* beside no node */

void railcall_begin(unsigned n_rails, uint64_t seed);
struct railcall_opts {
	struct simrails_opts rails;
	uint64_t pool_bytes;
	uint64_t latency_ns; /* of everything else, as of rails */
};
void railcall_begin_with(const struct railcall_opts *o);
/* Which looks for what is left pinned. */
void railcall_end(void);

enum {
	RAILCALL_PARTS_MAX = 1024,
};

/* One key, whose value lies in two parts of its memory, or in many. */
struct railcall {
	union {
		struct kv_putop put;
		struct kv_getop get;
	};
	struct sim_requester *r;
	struct kv_put_item pitem;
	struct kv_get_item gitem;
	struct kv_buf bufs[RAILCALL_PARTS_MAX];
	unsigned n_bufs;
	size_t cut; /* parts have so much, and as much behind them; 0: two */
	char *bytes;
	size_t room; /* of that memory */
	size_t size;
	bool is_registered;
	bool is_done;
	uint64_t done_ns; /* when */
};

void railcall_new(struct railcall *c, size_t size, bool is_registered);
void railcall_new_cut(struct railcall *c, size_t size, size_t cut,
		      bool is_registered);
void railcall_free(struct railcall *c);
/* For so long. Of a name, which stays. */
void railcall_put(struct railcall *c, const char *name, uint64_t ns);
void railcall_get(struct railcall *c, const char *name, uint64_t ns);
/* Until it is over; how long that took. */
uint64_t railcall_wait(struct railcall *c);
/* These are the bytes of the value from `at` on. */
void railcall_check(const struct railcall *c, const char *name, size_t at,
		    size_t size);
/* Memory that a call gave back stays as it is from then on. */
void railcall_check_untouched(struct railcall *c);

/* Whole calls, which succeed: whether they went by RDMA. */
bool railcall_put_value(const char *name, size_t size, bool is_registered);
bool railcall_get_value(const char *name, size_t size, bool is_registered);
/* A value that is there, put by who is beside the node. */
void railcall_give(const char *name, size_t size);

/* The link of the requester to the node. */
struct kv_link *railcall_link(void);
/* All ports of these rails. */
void railcall_cut(unsigned from, unsigned n, bool cut);

#endif
