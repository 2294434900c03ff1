#ifndef KV_SIM_SIMPOOL_H
#define KV_SIM_SIMPOOL_H

/* The index of a pool that outlives its nodes, in memory. A test says who is
 * still attached; or the locks of the descriptors that nodes give out do, as
 * with a real file. */

#include "store/ledger.h"
#include "svc/node.h"

enum {
	SIMPOOL_INDEX_MAX = 4 << 20,
};

struct simpool {
	uint8_t *index;
	uint64_t index_max; /* it does not grow beyond */
	struct kv_poolhead head;
	struct kv_ledger *ledger; /* NULL: no node runs */
	struct kv_node_file file;
	uint64_t attached; /* bit n: somebody of life n is there */
	int locks;         /* a file for them, or -1 */
	uint64_t data_end;
	unsigned settled; /* times that this was said */
};

void simpool_open(struct simpool *p, uint64_t pool_bytes);
void simpool_close(struct simpool *p);

/* From now on locks say who is attached. */
void simpool_lock(struct simpool *p);
bool simpool_is_attached(struct simpool *p);

/* For the next node. */
const struct kv_node_file *simpool_begin(struct simpool *p);
/* That one has ended. */
void simpool_end(struct simpool *p);

#endif
