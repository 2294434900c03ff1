#ifndef KV_SVC_DOCTOR_H
#define KV_SVC_DOCTOR_H

/*
 * What a pool and the machines of its users suffer from, and what helps:
 * rules over facts that somebody else has collected (kvdiag doctor asks the
 * daemons for them). Each check tells one finding at least, in words and
 * numbers; none asks anybody, and only doctor_host.c looks at this machine.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "kvpool.h"
#include "xfer/rdmadev.h"

enum kv_doctor_level {
	KV_DOCTOR_OK,
	KV_DOCTOR_WARNING, /* works, but not as its users think */
	KV_DOCTOR_FAULT,
};

#define KV_DOCTOR_TEXT_BYTES 512

struct kv_doctor_finding {
	enum kv_doctor_level level;
	const char *check;
	char fact[KV_DOCTOR_TEXT_BYTES];
	const char *advice; /* "": nothing is to be done */
};

struct kv_doctor {
	void (*tell)(void *arg, const struct kv_doctor_finding *f);
	void *arg;
	unsigned found[KV_DOCTOR_FAULT + 1]; /* findings of each level */
};

/* "ok", "warning", "fault". */
const char *kv_doctor_word(enum kv_doctor_level level);

KV_PRINTF(5, 6)
void kv_doctor_say(struct kv_doctor *d, enum kv_doctor_level level,
		   const char *check, const char *advice, const char *fmt, ...);

/* ---- doctor_host.c: this machine ---- */

struct kv_doctor_host {
	const char *root; /* prefix of /proc and /sys; "" but for tests */
	/* Of the pool that a kvclient of this configuration would have; 0:
	 * none is configured. Not looked at while one runs. */
	uint64_t pool_bytes;
	bool is_huge;
	const char *pool_file; /* "": none */
	int node_pid;          /* of the kvclient of this host; 0: none */
	uint64_t node_bytes;   /* its pool */
	uint64_t node_unready; /* of these, not yet faulted in */
	/* Of kv_rdmadev_list(); what it returned, and said if that is < 0. */
	const struct kv_rdmadev *ports;
	long n_ports;
	const char *ports_why;
	const char *wanted;   /* white list of devices; NULL: no RDMA at all, */
	const char *why_none; /* for that reason */
	bool is_must;         /* --protocol=rdma: nothing starts without it */
	bool is_wished;       /* the file says so */
};

/* Memory, huge pages, the pool file's place, RDMA devices, locked memory,
 * descriptors, cross-memory attach. */
void kv_doctor_host(struct kv_doctor *d, const struct kv_doctor_host *h);

/* The process that listens on that socket ("/path" or "@name"); 0: none. */
int kv_doctor_pid(const char *socket);

/* ---- doctor_pool.c: masters and nodes ---- */

/* A daemon that was asked at its own address. */
struct kv_doctor_daemon {
	const char *addr;
	int status;       /* 0, or why it did not answer */
	char why[256];    /* the same in words */
	uint64_t trip_ns; /* of a question and its answer */
	char *stats;      /* its counters, or NULL */
	int64_t ahead_ms; /* of the clock of this host; with `stats` */
	char version[32]; /* ""; with `stats` */
};

/* Takes version and clock out of its stats; asked_ms, heard_ms: the time of day
 * here when it was asked, when the answer came. */
void kv_doctor_read(struct kv_doctor_daemon *daemon, uint64_t asked_ms,
		    uint64_t heard_ms);
/* A counter; 0 when there is none of that name. */
uint64_t kv_doctor_stat(const struct kv_doctor_daemon *daemon,
			const char *name);

struct kv_doctor_master {
	struct kv_doctor_daemon d;
	struct kv_node_info *nodes;
	size_t n;
};

struct kv_doctor_node {
	struct kv_doctor_daemon d; /* status: as links say */
	struct kv_node_info info;
	uint64_t ready_before; /* its ready_bytes a while ago */
};

struct kv_doctor_pool {
	struct kv_doctor_master *masters;
	size_t n_masters;
	struct kv_doctor_node *nodes; /* of all masters, each once */
	size_t n_nodes;
	const struct kv_node_info *own; /* the node of this host, or NULL */
};

void kv_doctor_masters(struct kv_doctor *d, const struct kv_doctor_pool *p);
void kv_doctor_versions(struct kv_doctor *d, const struct kv_doctor_pool *p);
void kv_doctor_clocks(struct kv_doctor *d, const struct kv_doctor_pool *p);
void kv_doctor_members(struct kv_doctor *d, const struct kv_doctor_pool *p);
void kv_doctor_nodes(struct kv_doctor *d, const struct kv_doctor_pool *p);
void kv_doctor_addresses(struct kv_doctor *d, const struct kv_doctor_pool *p);
void kv_doctor_memory(struct kv_doctor *d, const struct kv_doctor_pool *p);
void kv_doctor_room(struct kv_doctor *d, const struct kv_doctor_pool *p);

/* Whether what the masters say may be of a moment only: ask again. */
bool kv_doctor_is_moving(const struct kv_doctor_pool *p);

/* ---- doctor_keys.c: engines whose keys never meet ---- */

/*
 * The mistake: engines that are to share a pool hash the same prompts to
 * different keys, since each has drawn another seed. All puts succeed, all
 * look-ups of the others' keys miss, and nothing fails.
 *
 * Told from the keys that are there: keys that differ in their hash alone (a
 * run of 16 hexadecimal digits or more) and that several processes put, each
 * KV_DOCTOR_PUTS or more, while none of them was read by another than who put
 * it, and KV_DOCTOR_ASKED keys or more were asked for. Ranks of one engine
 * name themselves in the keys beside the hash, so theirs are apart.
 */
#define KV_DOCTOR_PUTS  1000
#define KV_DOCTOR_ASKED 10000
#define KV_DOCTOR_KEYS  65536 /* looked at in a node */

struct kv_doctor_keys;

struct kv_doctor_keys *kv_doctor_keys_new(void); /* NULL: no memory */
void kv_doctor_keys_free(struct kv_doctor_keys *k);
void kv_doctor_keys_add(struct kv_doctor_keys *k, struct kv_key key,
			uint16_t putter, bool is_shared);
/* asked: keys whose existence was asked of masters. */
void kv_doctor_keys_judge(struct kv_doctor *d, const struct kv_doctor_keys *k,
			  uint64_t asked);

#endif
