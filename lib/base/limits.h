#ifndef KV_BASE_LIMITS_H
#define KV_BASE_LIMITS_H

#include <assert.h>

/* Every bound of the system, and what the bounds owe one another. */

/* Names. Bytes, no terminating NUL counted. */
#define KV_KEY_BYTES_MIN      1
#define KV_KEY_BYTES_MAX      1024
#define KV_TENANT_BYTES_MAX   64
#define KV_NAME_BYTES_MAX     128 /* node name, host */
#define KV_SOCKPATH_BYTES_MAX 107 /* sockaddr_un.sun_path less its NUL */

/* Values. */
#define KV_OBJECT_BYTES_MAX (1ull << 40) /* as large as the largest pool */

/* Wire. */
#define KV_FRAME_BYTES_MAX  (1u << 20) /* body of a control frame */
#define KV_INLINE_BYTES_MAX 65536      /* value carried in a message */
#define KV_BATCH_KEYS_MAX   4096       /* keys of one frame */

/* Send queue of a connection; what lies elsewhere (payload) is not counted.
 * Above the high mark its owner holds back until the low mark is reached. */
#define KV_CONN_QUEUE_BYTES_HIGH (4u << 20)
#define KV_CONN_QUEUE_BYTES_LOW  (1u << 20)
#define KV_CONN_QUEUE_BYTES_MAX  (64u << 20)

/* Network. */
#define KV_SOCK_STALL_MS    10000 /* bytes unacknowledged: the peer is lost */
#define KV_LOOKUPS_MAX      32    /* names being resolved in this process */
#define KV_LOOKUP_ADDRS_MAX 16    /* addresses tried for one name */

/* Cluster. */
#define KV_NODES_MAX    1024 /* slots of a master */
#define KV_REPLICAS_MAX 8    /* copies of one object */
#define KV_MASTERS_MAX  4    /* that a node or a client knows */

/* Several masters. One that has not heard of a node for so long does not answer
 * for it any more; and so long after a master's last word the node does without
 * it. (man/kvpool.7 says why.) Who waits for a master asks it so often, and
 * gives it up when it owes an answer for so long: then a call takes less than a
 * second, whatever else it waits for. */
#define KV_MASTER_WORD_MS   650
#define KV_NODE_HOLD_MS     700
#define KV_NODE_BEAT_MS     150 /* heartbeats, with several masters */
#define KV_MASTER_PING_MS   200
#define KV_MASTER_SILENT_MS 700

/* A master. */
#define KV_MASTER_CONNS_MAX  10000 /* connections */
#define KV_MASTER_RELAYS_MAX 1024  /* questions to nodes under way */
#define KV_MASTER_PROBES_MAX 64    /* nodes being probed at once */

/* A node. */
#define KV_NODE_CONNS_MAX    4096       /* connections */
#define KV_BUDGET_MS_MAX     3600000    /* a node takes a longer one for it */
#define KV_PEER_REQUESTS_MAX 256        /* under way on one of them */
#define KV_PEER_KEYS_MAX     (1u << 16) /* being put or sent, of these */
#define KV_NODE_KEYS_MAX     (1u << 20) /* the same, of everybody */
#define KV_NODE_JOBS_MAX     4096       /* requests that take their time */
#define KV_PIN_BYTES_MIN     512 /* what the pin of a small value counts */
#define KV_NODE_KEPT_BYTES_MAX \
	(256u << 20) /* small values that wait, of everybody */

/* An engine: raw transfers. */
#define KV_ENGINE_REGIONS_MAX     16384 /* registered at once */
#define KV_ENGINE_PEERS_MAX       1024  /* that it knows */
#define KV_ENGINE_CONNS_MAX       4096  /* that it serves */
#define KV_ENGINE_GUESTS_MAX      512   /* processes that reach its memory */
#define KV_ENGINE_READS_MAX       16    /* being answered on one connection */
#define KV_ENGINE_NOTES_MAX       4096  /* waiting to be fetched */
#define KV_ENGINE_NOTES_BYTES_MAX (64u << 20)
#define KV_ENGINE_OPS_MAX         4096 /* submitted, not yet begun */

/* Memory. */
#define KV_POOL_BYTES_MIN (1u << 20)
#define KV_EXTENTS_MAX    1024 /* pieces of one object */
#define KV_GRANULE_BYTES  256  /* unit and alignment of an extent */

/* Control plane. */
#define KV_LOG_LINE_BYTES_MAX 4096 /* with newline; PIPE_BUF, so atomic */
#define KV_LOG_REPEAT_NS      10000000000ull /* a repeated message at most */

_Static_assert(KV_KEY_BYTES_MIN <= KV_KEY_BYTES_MAX, "a key can exist");
_Static_assert(KV_KEY_BYTES_MAX + KV_TENANT_BYTES_MAX + KV_INLINE_BYTES_MAX <=
		       KV_FRAME_BYTES_MAX / 2,
	       "an inline value fits in a frame with its key");
_Static_assert(KV_FRAME_BYTES_MAX / KV_BATCH_KEYS_MAX >= 128,
	       "a full batch of ordinary keys fits in a frame");
_Static_assert(KV_CONN_QUEUE_BYTES_LOW < KV_CONN_QUEUE_BYTES_HIGH,
	       "a full queue drains");
_Static_assert(KV_CONN_QUEUE_BYTES_HIGH + 4 * KV_FRAME_BYTES_MAX <=
		       KV_CONN_QUEUE_BYTES_MAX,
	       "who looks at the high mark is far from the limit");
_Static_assert(KV_PEER_KEYS_MAX >= 2 * KV_BATCH_KEYS_MAX &&
		       KV_PEER_KEYS_MAX < KV_NODE_KEYS_MAX,
	       "several batches at a time, of several peers");
_Static_assert(KV_NODE_JOBS_MAX >= 2 * KV_MASTER_RELAYS_MAX,
	       "what two masters pass on finds room");
_Static_assert((KV_GRANULE_BYTES & (KV_GRANULE_BYTES - 1)) == 0,
	       "granule is a power of two");
_Static_assert(KV_MASTER_WORD_MS < KV_NODE_HOLD_MS,
	       "no node does without a master that answers for it");
_Static_assert(2 * KV_NODE_BEAT_MS < KV_MASTER_WORD_MS,
	       "a heartbeat has time to come");
_Static_assert(KV_NODE_BEAT_MS + KV_MASTER_SILENT_MS < 1000 &&
		       KV_NODE_HOLD_MS < 1000,
	       "a node gives up a master in time");
_Static_assert(KV_REPLICAS_MAX <= KV_NODES_MAX,
	       "replicas lie on different nodes");

#endif
