#ifndef KV_MOCK_RAILHOSTS_H
#define KV_MOCK_RAILHOSTS_H

/*
 * Two hosts with up to three ports each, port i of one reaches all of the
 * other; an engine that serves its memory on one, rails to it on the other.
 * Fails the running test on any error.
 */

#include "hca.h"
#include "simpair.h"
#include "xfer/guest.h"
#include "xfer/note.h"
#include "xfer/railset.h"
#include "xfer/region.h"
#include "xfer/regtable.h"
#include "xfer/serve.h"

enum {
	RAILHOSTS_PORTS_MAX = 3,
	RAILHOSTS_BYTES = 3 << 20,
};

struct railhosts_side {
	struct hca_host *host;
	struct hca_port *ports[RAILHOSTS_PORTS_MAX];
	const struct kv_rdmaverbs *v;
	struct kv_rdma *rdma; /* NULL: no ports */
	struct kv_region_set regions;
	uint8_t *memory; /* registered, zero */
};

struct railhosts {
	struct simpair pair;
	struct hca *hca;
	struct railhosts_side near, far;
	struct kv_guest_set guests;
	struct kv_note_queue notes;
	struct kv_serve *serve; /* the far one's */
	struct kv_railset *rails;
	struct kv_railbatch *batch; /* empty */
	struct kv_regtable *table;  /* as of the beginning */
	atomic_bool closing;
	/* Called after each turn of a wait; NULL: nothing. */
	void (*meanwhile)(void);
};

extern struct railhosts rh;
extern const struct kv_id railhosts_own, railhosts_boot;

/* Fixtures of cmocka: so many ports on each side; three that no connection
 * manager reaches; none there. */
int railhosts_one(void **state);
int railhosts_three(void **state);
int railhosts_joined(void **state);
int railhosts_none(void **state);
int railhosts_close(void **state);

void railhosts_us(uint64_t us);
/* Of virtual time. */
struct kv_wait railhosts_in_ms(unsigned ms);
/* There are so many rails. */
void railhosts_settle(unsigned n);

#endif
