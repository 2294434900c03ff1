#ifndef KV_SVC_HUB_H
#define KV_SVC_HUB_H

/*
 * What the channels of one client share: who it is, where masters and the
 * local node are, what was learnt of other nodes (addresses, room, health),
 * and the mapping of the local node's pool. All functions may be called by any
 * thread; what they return is a copy.
 *
 * Times are ns of the channels' loops, which all read one clock.
 */

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "base/log.h"
#include "store/generation.h"
#include "store/key.h"
#include "svc/ranges.h"
#include "wire/map.h"

#define KV_HUB_MASTERS_MAX 4
#define KV_HUB_ADDR_BYTES  (KV_NAME_BYTES_MAX + 8)
#define KV_HUB_WHY_BYTES   256

struct kv_copier;
struct kv_loop;
struct kv_net;
struct kv_hub_sick; /* hub.c */

/* A connection to the local node that was given up: the node still holds what
 * it granted there. It is told as soon as it is reached again. */
struct kv_hub_orphan {
	struct kv_id boot; /* of the node */
	uint64_t token;
};

/* Another process's pool in this one's memory: two mappings of the same bytes,
 * NULL while nobody asked. Counted: a view that points into it keeps it. */
struct kv_hub_map {
	struct kv_id boot; /* whose pool */
	uint64_t bytes;
	uint64_t ready; /* of its start, in memory, as last heard; atomic */
	uint8_t flags;  /* KV_POOL_SEALED, KV_POOL_HUGETLB */
	char *read;
	char *write;
	unsigned refs;
	int fd;     /* -1 in the simulator */
	void *priv; /* of the mapper */
};

/* How a descriptor becomes a mapping: mem/seg.c, or the simulator's own. */
struct kv_hub_mapper {
	/* Sets map->read or map->write; 0 or -errno. */
	int (*map)(void *arg, struct kv_hub_map *map, bool write);
	/* Undoes both and closes the descriptor. */
	void (*unmap)(void *arg, struct kv_hub_map *map);
	/* These bytes are about to be copied. NULL: nothing to do. */
	void (*ahead)(void *arg, struct kv_hub_map *map, uint64_t off,
		      uint64_t len, bool write);
	void *arg;
};

struct kv_hub_opts {
	struct kv_net *net;
	const char *masters; /* "host:port,..." or NULL */
	const char *local;   /* "unix:/path", or NULL */
	const char *tenant;  /* NULL: "default" */
	const char *name;
	struct kv_id boot;
	struct kv_id host;
	uint64_t rng_seed;
	struct kv_hub_mapper mapper;
	unsigned copy_threads; /* of one call; 0: 1 */
	/* NULL: this process uses no RDMA. Outlives the hub. */
	struct kv_rdma *rdma;
	const char *no_rdma; /* then: why not, for people; or NULL */
	bool rdma_only;      /* values go by it alone, but small ones */
};

/* How values travel to and from a node. */
enum kv_hub_path {
	KV_HUB_PATH_NONE, /* not known yet */
	KV_HUB_PATH_TCP,
	KV_HUB_PATH_RDMA,
};

struct kv_hub_node {
	struct kv_id boot;
	struct kv_id host;
	char addr[KV_HUB_ADDR_BYTES];
	char name[KV_NAME_BYTES_MAX + 1];
	uint8_t state; /* enum kv_node_state; 0: only its address is known */
	uint64_t pool_bytes;
	uint64_t ready_bytes;
	uint64_t free_bytes;
	uint64_t pinned_bytes;
	uint64_t keys;
	uint64_t victim_age_ms;
	uint32_t heard_ms;
	uint8_t masters;  /* that it was told of */
	uint8_t sessions; /* with how many of them it has one */
	unsigned listed;  /* number of the last roll it was in; 0: none */
	uint8_t path;     /* enum kv_hub_path, as it was told last, and */
	uint8_t short_of; /* RDMA: so many rails, and some missing; else 0 */
	char why[KV_HUB_WHY_BYTES]; /* why by no better one */
};

/* Counters of this client. */
struct kv_hub_stats {
	uint64_t puts, put_bytes, put_fails;
	uint64_t puts_short; /* fewer replicas than asked */
	uint64_t gets, hits, get_bytes;
	uint64_t rdma_put_bytes, rdma_get_bytes; /* moved so, of those */
	uint64_t exists, finds;
};

struct kv_hub {
	pthread_mutex_t lock;
	struct kv_net *net;
	char masters[KV_HUB_MASTERS_MAX][KV_HUB_ADDR_BYTES];
	unsigned n_masters;
	char local[KV_SOCKPATH_BYTES_MAX + 8]; /* "": none */
	char tenant[KV_TENANT_BYTES_MAX + 1];
	char name[KV_NAME_BYTES_MAX + 1];
	uint64_t key_seed; /* of the tenant */
	struct kv_id boot;
	struct kv_id host;
	struct kv_hub_mapper mapper;
	struct kv_copier *copier;       /* NULL: callers copy alone */
	struct kv_ranges ranges;        /* what the caller has registered */
	struct kv_rdma *rdma;           /* NULL: there is none here */
	char no_rdma[KV_HUB_WHY_BYTES]; /* then: for people */
	bool rdma_only;
	bool is_opening; /* what fails is told by kv_client_open() */
	char *named;     /* masters, by the local node; NULL: none, or opened */
	/* Atomic. The local node's pool could not be mapped: it is a node as
	 * others are until then. 0: none such. */
	uint64_t map_again_at;

	/* under lock */
	uint64_t rng_seed;
	struct kv_hub_node *nodes;
	unsigned n_nodes;
	unsigned rolls;    /* begun */
	uint64_t nodes_at; /* when one ended with an answer; 0: never */
	struct kv_hub_sick *sick;
	unsigned n_sick;
	struct kv_hub_map *map; /* of the local node as of now */
	uint64_t master_retry_at[KV_HUB_MASTERS_MAX];
	uint64_t master_trial_at[KV_HUB_MASTERS_MAX]; /* the next */
	uint64_t master_backoff[KV_HUB_MASTERS_MAX];
	const char *master_why[KV_HUB_MASTERS_MAX]; /* NULL: it answered */
	struct kv_log_limit master_log[KV_HUB_MASTERS_MAX];
	struct kv_log_limit prefer_log;
	struct kv_hub_stats stats;
	struct kv_generation generation; /* of the tenant, as heard */
	struct kv_list views;            /* of viewop.c: what is pinned now */
	struct kv_hub_orphan *orphans;
	unsigned n_orphans;
};

/* 0 or -errno (-EINVAL: a name or list is too long or malformed; -ENOMEM). */
int kv_hub_init(struct kv_hub *hub, const struct kv_hub_opts *opts);
void kv_hub_fini(struct kv_hub *hub);

/* The generation of the tenant that this client knows of; one was heard of. */
struct kv_generation kv_hub_generation(struct kv_hub *hub);
void kv_hub_heard(struct kv_hub *hub, struct kv_generation g);

/* A seed for one channel's choices. */
uint64_t kv_hub_seed(struct kv_hub *hub);

/* Masters "host:port,..." more; before anybody else uses the hub. 0, -EINVAL.
 */
int kv_hub_add_masters(struct kv_hub *hub, const char *list);

/* Adds the addresses of a LOOKUP_R. -EPROTO, -ENOMEM. */
int kv_hub_learn(struct kv_hub *hub, struct kv_cut *records, unsigned count);
/* A roll is the table of nodes, as one or several NODES_R tell it. begin gives
 * it a number. end: it is over; drop: who was not in it is no node any more. */
unsigned kv_hub_roll_begin(struct kv_hub *hub);
int kv_hub_roll_learn(struct kv_hub *hub, unsigned roll, struct kv_cut *records,
		      unsigned count);
void kv_hub_roll_end(struct kv_hub *hub, unsigned roll, bool drop,
		     uint64_t now);
/* One record alone, kept nowhere. 0, -EPROTO. */
int kv_hub_node_parse(struct kv_hub_node *out, const struct kv_map_node *m);
/* A copy of all nodes, *n of them, to be freed. NULL: no memory; *n is 0. */
struct kv_hub_node *kv_hub_nodes(struct kv_hub *hub, unsigned *n);
bool kv_hub_node(struct kv_hub *hub, const struct kv_id *boot,
		 struct kv_hub_node *out);
/* The node of that name or address, as the table has it. */
bool kv_hub_node_named(struct kv_hub *hub, const char *name,
		       struct kv_id *boot);
bool kv_hub_node_is_named(const struct kv_hub_node *n, const char *name);
/* How the node is reached, and why by no better path (""). Whether that is
 * another one than the last that was told: worth a line, and `out` is filled.
 */
bool kv_hub_path_is_news(struct kv_hub *hub, const struct kv_id *boot,
			 enum kv_hub_path path, const char *why,
			 struct kv_hub_node *out);
/* The same of a node that is reached by so many rails, and some are missing:
 * news also if their number is another one, and some were or are. */
bool kv_hub_rails_are_news(struct kv_hub *hub, const struct kv_id *boot,
			   unsigned rails, bool is_short,
			   struct kv_hub_node *out);
/* The table is older than max_age_ns, or was never heard. */
bool kv_hub_is_stale(struct kv_hub *hub, uint64_t now, uint64_t max_age_ns);
/* A put of so many bytes went there: until the next table it has less. */
void kv_hub_spend(struct kv_hub *hub, const struct kv_id *boot, uint64_t bytes);

/* Health of owners, by what this process saw; zero: the local node, whoever
 * it is. A sick one is not asked until its back-off (100 ms doubling to 1.5 s)
 * is over. Both return whether that is news, worth a REPORT. */
bool kv_hub_sick(struct kv_hub *hub, const struct kv_id *boot, uint64_t now);
bool kv_hub_well(struct kv_hub *hub, const struct kv_id *boot);
bool kv_hub_is_sick(struct kv_hub *hub, const struct kv_id *boot, uint64_t now);
/* Whether the caller may ask it now. A sick one whose back-off is over is
 * tried by one call at a time. */
bool kv_hub_try(struct kv_hub *hub, const struct kv_id *boot, uint64_t now);
/* It failed, and has not been reached since; is there any such one? */
bool kv_hub_has_failed(struct kv_hub *hub, const struct kv_id *boot);
bool kv_hub_has_sick(struct kv_hub *hub);

/* The same for masters, by their place in the list (back-off to 1 s). why: a
 * text that stays; it is logged, unless the client is being opened. */
void kv_hub_master_down(struct kv_hub *hub, unsigned i, uint64_t now,
			const char *why);
void kv_hub_master_up(struct kv_hub *hub, unsigned i);
bool kv_hub_master_is_down(struct kv_hub *hub, unsigned i, uint64_t now);
/* It is due to be dialled again: by the caller, and by nobody else for now. */
bool kv_hub_master_try(struct kv_hub *hub, unsigned i, uint64_t now);
/* It failed, and did not answer since, so a short wait must do: others know the
 * nodes meanwhile. False as long as the client is being opened. */
bool kv_hub_master_has_failed(struct kv_hub *hub, unsigned i);
/* Is there one that did not fail, besides these (bits)? */
bool kv_hub_master_has_other(struct kv_hub *hub, unsigned but);

/* The mapping of that node's pool with one reference more, or NULL. */
struct kv_hub_map *kv_hub_map_ref(struct kv_hub *hub, const struct kv_id *boot);
/* Makes one of a descriptor (its owner from here on, also on failure) and what
 * came with it, the current one of the local node. 0 or -errno. */
int kv_hub_map_set(struct kv_hub *hub, const struct kv_id *boot,
		   const struct kv_attach_r *r, int fd);
void kv_hub_map_unref(struct kv_hub *hub, struct kv_hub_map *map);
/* The pool's bytes [off, off + len), for reading or writing; maps on first
 * use. NULL, errno: EPROTO out of range, ENOMEM it cannot be mapped, or could
 * not be a moment ago. */
char *kv_hub_map_at(struct kv_hub *hub, struct kv_hub_map *map, uint64_t off,
		    uint64_t len, bool write);

/* So much of the pool's start is in memory, its owner says. */
void kv_hub_map_ready(struct kv_hub_map *map, uint64_t bytes);

/* Can it not be mapped at present? */
bool kv_hub_map_is_out(struct kv_hub *hub, uint64_t now);

void kv_hub_orphan_add(struct kv_hub *hub, const struct kv_id *boot,
		       uint64_t token);
/* Takes one of that node's; 0: there is none. */
uint64_t kv_hub_orphan_take(struct kv_hub *hub, const struct kv_id *boot);

/* A node that a put prefers is not in the table: a line, now and then. */
void kv_hub_node_missed(struct kv_hub *hub, const char *node, uint64_t now);

/* Adds to the counters. */
void kv_hub_count(struct kv_hub *hub, const struct kv_hub_stats *more);

#endif
