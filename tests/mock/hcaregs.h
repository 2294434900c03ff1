#ifndef KV_MOCK_HCAREGS_H
#define KV_MOCK_HCAREGS_H

/*
 * The ports of hcahost.h, open, and a pool that is registered with them, for
 * tests of regions: sees each registration, and holds or fails it. What fails
 * in a thread of the region aborts.
 */

#include <pthread.h>
#include <semaphore.h>

#include "hcahost.h"
#include "madetree.h"
#include "xfer/rdmacore.h"
#include "xfer/rdmaregion.h"

enum {
	HCAREGS_CHUNK = 64 << 10,
	HCAREGS_CHUNKS = 8,
	HCAREGS_POOL = HCAREGS_CHUNKS * HCAREGS_CHUNK - 4096,
	HCAREGS_MAX = 64,
};

struct hcaregs {
	struct kv_rdma *r;
	struct kv_rdmaregion *g; /* freed at the end of the test */
	uint8_t *pool;
	char root[MADETREE_BYTES];

	/* What the region has told. */
	sem_t told;
	int status;
	char why[1024];

	pthread_mutex_t lock; /* guards what follows */
	pthread_cond_t moved;
	struct {
		struct ibv_mr *mr; /* NULL: given back */
		unsigned access;
	} mrs[HCAREGS_MAX]; /* in the order of their end */
	unsigned n;
	unsigned began; /* calls */
	unsigned inside[HCAHOST_DEVS], inside_max[HCAHOST_DEVS];

	/* Of tests. */
	unsigned gate;     /* so many calls may end; UINT_MAX at first */
	bool both;         /* none ends before each device had one */
	unsigned fail_nth; /* of all */
	int fail_err;
};

extern struct hcaregs hcaregs;

int hcaregs_setup(void **state);
int hcaregs_teardown(void **state);
/* What /proc/self says of it; "unlimited" at first. */
void hcaregs_limit(const char *locked);

/* NULL as kv_rdmaregion_pool(). */
struct kv_rdmaregion *hcaregs_pool_new(void);
void hcaregs_start(void);    /* g: a pool of which nothing is there */
void hcaregs_complete(void); /* and all of it is registered */

/* Until it has told how it went. */
void hcaregs_wait_told(void);
bool hcaregs_is_told(void);
/* Until so many calls have begun. */
void hcaregs_wait_began(unsigned n);
void hcaregs_open_gate(unsigned n);

/* What is registered: how many, and the one of a device where the address is.
 */
unsigned hcaregs_count(void);
const struct ibv_mr *hcaregs_mr_of(unsigned dev, uint64_t addr);

#endif
