#ifndef KVPOOL_H
#define KVPOOL_H

/*
 * libkvpool: one cache for the KV blocks of LLM inference out of the memory of
 * many machines, and raw transfers between the memories of two processes.
 *
 * Conventions of all functions here:
 *  - Sizes and lengths are bytes. Durations say their unit in their name.
 *  - Results are 0 (or a count) or a negative error number: -(enum kv_status),
 *    see kv_status_text(). No errno.
 *  - A struct kv_client and a struct kv_engine may be used by any number of
 *    threads at once. A struct kv_op belongs to one thread at a time.
 *  - Keys and values are copied or read only during the call (what the _submit
 *    functions start: until kv_op_wait returned 0) and stay the caller's.
 *  - No function changes signals, the locale or other process-wide settings,
 *    none ends the process. After fork() the child may only exec or _exit;
 *    calls of the child on objects of the parent fail with -KV_ECLOSED.
 *  - Warnings and errors that no call could return go to stderr, a line each.
 *  - Every call ends: with its result, or with -KV_ETIMEOUT after the
 *    timeout (kv_client_opts.timeout_ms unless the call names its own). When
 *    a call has returned nothing reaches its buffers any more.
 */

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What stands here is what the shared library exports. */
#pragma GCC visibility push(default)

#define KVPOOL_VERSION "0.1.0"

/* ---- errors ---- */

/* Numbers never change; new ones are added. */
enum kv_status {
	KV_OK = 0,
	KV_EMISS = 1,        /* no such key */
	KV_EEXISTS = 2,      /* the key has a value already; it stays */
	KV_ENOSPACE = 3,     /* free and evictable memory are too small */
	KV_ENOROOM = 4,      /* inside the pool only: try another owner */
	KV_EINVALID = 5,     /* a bad argument */
	KV_ETOOBIG = 6,      /* the buffers are too small for the value, or
			      * the value is larger than the pool */
	KV_EBUSY = 7,        /* pinned memory is at its bound, or two writers
			      * of one key met: try again */
	KV_ETIMEOUT = 8,     /* the deadline passed */
	KV_EUNREACHABLE = 9, /* nobody answers there */
	KV_ECONNLOST = 10,   /* the connection broke during the call */
	KV_EPROTO = 11,      /* the peer sent what it must not */
	KV_EVERSION = 12,    /* the peer speaks other versions */
	KV_EDENIED = 13,     /* not allowed */
	KV_ETRANSFER = 14,   /* bytes could not be moved */
	KV_ECHECKSUM = 15,   /* bytes arrived damaged */
	KV_ECANCELED = 16,   /* given up by the caller */
	KV_ECLOSED = 17,     /* the object is being closed, or this is a fork */
	KV_ENOMEM = 18,      /* this process is out of memory or descriptors */
	KV_EGONE = 19,       /* the object or the peer went away meanwhile */
	KV_ELEASED = 20,     /* Mooncake's "object has a lease"; there are
			      * none here, so no call returns it */
	KV_EINTERNAL = 21,   /* a bug; the log says more */
	KV_ENOTSUP = 22,     /* not built in, or not for this kind of peer */
};

/* A short English text for 0, an error number or its negative. */
const char *kv_status_text(int status);
/* "EMISS". */
const char *kv_status_name(int status);

/* ---- clients ---- */

struct kv_client;

/* How values travel between hosts; small ones go with the messages. */
enum kv_protocol {
	KV_PROTOCOL_AUTO = 0, /* by RDMA where both sides have it, else TCP */
	KV_PROTOCOL_TCP = 1,
	KV_PROTOCOL_RDMA = 2, /* by RDMA; who cannot be reached so cannot be
			       * reached. Fails without a device. */
	KV_PROTOCOL_RDMA_OR_TCP = 3, /* as AUTO, with a warning where there is
				      * no device */
};

struct kv_client_opts {
	size_t size; /* sizeof(struct kv_client_opts); as in all options here,
		      * another size is an error */

	/* "host:port" of the master; several separated by commas. NULL: those
	 * that the local node uses. "", or none there: that node's own keys
	 * only. */
	const char *master;

	/* Unix socket of the kvclient of this host. NULL: the default path
	 * when something listens there. "": none. */
	const char *socket;

	/* Who asks: key spaces of different tenants are apart. NULL:
	 * "default". At most 64 bytes. */
	const char *tenant;

	/* A name for logs and kvdiag. NULL: the program's. */
	const char *name;

	/* > 0: this process is a node itself ("embedded") and gives so much
	 * memory to the pool, at node_addr ("host:port", what other hosts dial;
	 * NULL: a free port at the address that the master sees). */
	uint64_t segment_bytes;
	const char *node_addr;
	int hugepages; /* the node's memory from hugetlbfs */
	/* Keep the node's memory in this file, so that the next process that
	 * names it has what is in it. NULL: it ends with this process. */
	const char *pool_file;

	/* Default deadline of each call. 0: 10,000 ms. */
	uint32_t timeout_ms;

	/* Wait so long in kv_client_open for the master. 0: timeout_ms. */
	uint32_t open_timeout_ms;

	/* Out, unless NULL: 0, or an error number when it failed. */
	int *status;

	/* Threads that share what one call copies to and from the local node's
	 * pool, the caller included; at most 64. The others are made when a
	 * call first moves 2 MiB or more, and serve all calls. 0: half of the
	 * CPUs that the process may run on, at most 4. 1: the caller alone. */
	uint32_t copy_threads;

	/* And the RDMA devices that it may use: names, or patterns as a shell
	 * has them, separated by commas. NULL, "": all. */
	enum kv_protocol protocol;
	const char *devices;
	/* Queue pairs of a rail that it dials, 1 to 4, and bytes of a work
	 * request of its own node (segment_bytes), 64 KiB to 1 GiB. 0: what
	 * MC_NUM_QP_PER_EP and MC_SLICE_SIZE say, or 2 and 1 MiB. */
	uint32_t qps;
	uint64_t slice_bytes;
};

/*
 * Opens. NULL on failure, with one line in err (if err_bytes > 0) that says
 * what to do about it; else that is "". With neither master nor local node:
 * failure. A master that does not answer in time is a failure unless there is a
 * local node, which serves its own keys meanwhile: one of another process is
 * enough at once, an embedded one is waited for until it has joined the pool,
 * and after open_timeout_ms goes on by itself.
 */
struct kv_client *kv_client_open(const struct kv_client_opts *opts, char *err,
				 size_t err_bytes);

/* Ends it: calls of other threads in flight end with -KV_ECLOSED; pinned
 * views become invalid; an embedded node leaves the pool. It is freed: once
 * this returned no call may begin, see to that. NULL is fine. */
void kv_client_close(struct kv_client *c);

/* ---- put, get, exist, remove: batches ---- */

struct kv_key {
	const void *data;
	size_t len; /* 1..1024 */
};

/* A piece of memory of the caller. */
struct kv_buf {
	void *data;
	size_t len;
};

struct kv_put_item {
	struct kv_key key;
	const struct kv_buf *bufs; /* the value is their concatenation */
	size_t nbufs;              /* 0: the empty value */
	int status;                /* out: 0, -KV_EEXISTS, or why not */
	uint32_t replicas;         /* out: copies made */
};

struct kv_put_opts {
	size_t size;
	uint32_t replicas;   /* 0: 1. Fewer nodes: as many as there are */
	int soft_pin;        /* leaves after everything unpinned */
	int hard_pin;        /* never evicted; removed by force only */
	const char *prefer;  /* node name or "host:port": tried first */
	uint32_t timeout_ms; /* 0: the client's */
};

/*
 * Stores n objects. The result of each key is in its item; the call returns
 * the number of items with status 0 or -KV_EEXISTS, or an error number when
 * nothing was tried. An item with status 0 is held by its owner(s) and known
 * to the directory. Of equal keys in one batch the first wins, the others
 * get -KV_EEXISTS. opts may be NULL.
 */
long kv_client_put(struct kv_client *c, struct kv_put_item *items, size_t n,
		   const struct kv_put_opts *opts);

struct kv_get_item {
	struct kv_key key;
	const struct kv_buf *bufs; /* filled in order */
	size_t nbufs;
	uint64_t off; /* part: first byte wanted */
	int is_part;  /* read the bytes [off, off + sum of bufs) of the value
		       * as far as they exist; else the whole value must fit */
	int status;   /* out: 0, -KV_EMISS, -KV_ETOOBIG, ... */
	uint64_t len; /* out: bytes written to bufs */
	uint64_t size_total; /* out: size of the whole value, also with
			      * -KV_ETOOBIG */
};

struct kv_get_opts {
	size_t size;
	uint32_t timeout_ms;
	const char *prefer; /* node name or "host:port": asked first, before
			     * masters are */
};

/*
 * Reads n objects into the callers' buffers. Returns the number of items with
 * status 0, or an error number when nothing was tried. The buffers of items
 * that failed have undefined contents.
 *
 * -KV_EMISS: there is no such key, or its owners could not give it.
 * -KV_EUNREACHABLE: the nodes that answered do not have it, and no master could
 * say whether others do. -KV_ENOMEM: it may be there as well.
 */
long kv_client_get(struct kv_client *c, struct kv_get_item *items, size_t n,
		   const struct kv_get_opts *opts);

/* out[i] = 1 or 0: nobody who answered has it. Returns how many are there, or
 * an error number (then out is all 0), -KV_EUNREACHABLE when nobody answered.
 * What is found stays in the pool for some seconds in preference to other
 * objects, but is not pinned. */
long kv_client_exist(struct kv_client *c, const struct kv_key *keys, size_t n,
		     uint8_t *out, uint32_t timeout_ms);

/* Removes n keys everywhere. status[i]: 0, -KV_EMISS, -KV_EBUSY (hard-pinned
 * and not forced), ... Returns the number removed. *away: nodes that could not
 * be told and are told when they are back (NULL allowed); here and below, when
 * no master answers and the local node speaks for itself alone, all others
 * count as one, which is told nothing. If it is 0, no later get returns what
 * was removed, of the nodes that have joined a master: one that was started a
 * moment ago knows no others (kvpool(7)). */
long kv_client_remove(struct kv_client *c, const struct kv_key *keys, size_t n,
		      int force, int *status, uint32_t *away);

/* Removes what matches a PCRE2 pattern (searched, not anchored). NULL: all of
 * the tenant's keys; "" is -KV_EINVALID. Returns the number of copies removed,
 * or an error number. *kept: copies that matched and stay, because they are
 * hard-pinned and not forced. *undecided: copies that stay because the pattern
 * takes too much work on their keys. Both may be NULL.
 */
long kv_client_remove_matching(struct kv_client *c, const char *pattern,
			       int force, uint64_t *kept, uint64_t *undecided,
			       uint32_t *away);

/* ---- one object a call ---- */

int kv_client_put_one(struct kv_client *c, const void *key, size_t key_len,
		      const void *value, size_t value_len);
/* Bytes read, or an error number; -KV_ETOOBIG: *size is what it needs. */
int64_t kv_client_get_one(struct kv_client *c, const void *key, size_t key_len,
			  void *buf, size_t buf_len, uint64_t *size);

/* ---- zero-copy get (same host only) ---- */

struct kv_view {
	struct kv_key key; /* in */
	int status;        /* out */
	uint64_t size;     /* out: of the whole value */
	/* out: the value, read-only, pinned until kv_client_release. More
	 * than one piece only when it lies scattered in the pool. */
	const struct kv_buf *pieces;
	size_t npieces;
	uint64_t priv[2];
};

/* Pins and points: only what the local node holds; others -KV_EMISS with
 * size 0 (fetch those with kv_client_get), -KV_ENOTSUP where there is no
 * local node. -KV_EBUSY: too much is pinned.
 * Returns the number of views with status 0. */
long kv_client_view(struct kv_client *c, struct kv_view *views, size_t n,
		    uint32_t timeout_ms);
/* Ends views; those with a status other than 0 are skipped. */
void kv_client_release(struct kv_client *c, struct kv_view *views, size_t n);

/* ---- buffers ---- */

/* Tells that memory will be used again and again as a source or destination:
 * NICs learn of it here, once, and it is pinned until it is unregistered. Where
 * they do not take it a line says so, and it is used as any other. Not
 * required. -KV_EINVALID: null, empty, overlapping another registered range. A
 * repeat of the same range counts.
 *
 * Unregister, as often: then no NIC reaches it any more, for which calls under
 * way that use it are waited for. -KV_EINVALID: no range begins there. */
int kv_client_register(struct kv_client *c, void *data, size_t len);
int kv_client_unregister(struct kv_client *c, void *data);

/* ---- asynchronous ---- */

struct kv_op;

/* As kv_client_put and kv_client_get, in the background. Everything passed
 * must stay until kv_op_wait says it is over. NULL: out of memory. */
struct kv_op *kv_client_put_submit(struct kv_client *c,
				   struct kv_put_item *items, size_t n,
				   const struct kv_put_opts *opts);
struct kv_op *kv_client_get_submit(struct kv_client *c,
				   struct kv_get_item *items, size_t n,
				   const struct kv_get_opts *opts);
/* Waits at most timeout_ms. Over: *result is what the plain call would have
 * returned, the op is freed, 0. Not yet: -KV_ETIMEOUT, wait again. */
int kv_op_wait(struct kv_op *op, uint32_t timeout_ms, long *result);

/* ---- looking in ---- */

struct kv_node_info {
	char boot[33]; /* hex */
	char name[136];
	char addr[136];
	char state[16]; /* "live", "joining", "suspect", "leaving" */
	uint64_t pool_bytes, ready_bytes, free_bytes, pinned_bytes, keys;
	uint64_t victim_age_ms, heard_ms;
	uint32_t masters;  /* that it was told of */
	uint32_t sessions; /* with how many of them it has one */
};

/* Fills up to max records; returns how many nodes there are. They are the
 * master's; of a client that has none, the local node. */
long kv_client_nodes(struct kv_client *c, struct kv_node_info *nodes,
		     size_t max);

/* The local node, asked of itself. -KV_ENOTSUP: there is none. */
int kv_client_local_node(struct kv_client *c, struct kv_node_info *node);

/* How this client reaches a node. */
struct kv_link_info {
	char boot[33];
	char name[136];
	char addr[136];
	char path[8];           /* "shm": that of this host, "rdma", "tcp" */
	int status;             /* 0, or why it cannot be reached */
	uint64_t round_trip_ns; /* of a question and its answer */
	uint32_t rails;         /* "rdma": pairs of ports that work now */
	char why[256]; /* "tcp": why not "rdma"; "rdma": why by fewer rails than
			* there could be; for people */
};

/* Asks each node whether it is there: two seconds at most for 32 of them. Fills
 * up to max records; returns how many nodes there are. */
long kv_client_links(struct kv_client *c, struct kv_link_info *links,
		     size_t max);

struct kv_replica_info {
	char boot[33];
	char name[136];
	char addr[136];
	uint64_t size, sum, idle_ms, version_random, pool_off;
	uint32_t version, pins, extents;
	int soft_pin, hard_pin;
};

/* Everything about one key: up to max replicas; returns how many there are
 * (0: no such key). want_sum: compute XXH3-64 of each copy. *away: owners that
 * did not answer. */
long kv_client_query(struct kv_client *c, struct kv_key key, int want_sum,
		     struct kv_replica_info *out, size_t max, uint32_t *away);

/* Calls fn for each key of the tenant that matches the PCRE2 pattern (NULL:
 * all), once for each copy; fn returning non-zero stops it. Returns the number
 * of calls. *undecided: copies left out because the pattern takes too much work
 * on their keys (NULL allowed). *away: nodes that did not answer. */
typedef int kv_list_fn(void *arg, struct kv_key key, uint64_t size,
		       const char *node);
long kv_client_list(struct kv_client *c, const char *pattern, kv_list_fn *fn,
		    void *arg, uint64_t *undecided, uint32_t *away);

/* Counters as lines "name value\n" of the master ("master"), the local node
 * ("local") or of this client ("client"). Returns the length of the whole
 * text (like snprintf), or an error number; -KV_ENOTSUP: there is none. */
long kv_client_stats(struct kv_client *c, const char *whose, char *buf,
		     size_t buf_bytes);

/* "host:port" of the embedded node as the master knew it in kv_client_open(),
 * or as node_addr said; "" without either. Valid until close. */
const char *kv_client_node_addr(struct kv_client *c);

/* ---- raw transfers between registered memories of two processes ---- */

/*
 * An engine lets peers, other engines, read and write the memory that it
 * registered, and does so with theirs. Bytes take the first of these paths that
 * works; kv_engine_path() and one log line a peer say which, and why no better
 * one:
 *
 *   shm	memory that the peer's engine allocated (kv_engine_alloc) is
 *		mapped here: plain copies
 *   attach	other memory of a process of the same host and user: copied by
 *		the kernel (cross-memory attach, process_vm_writev(2))
 *   rdma	both sides have RDMA ports that reach each other: the NICs read
 *		and write, on all of them at a time. Local memory that is
 *		registered with its own engine is ready for it; other memory is
 *		registered for the call from 256 KiB on, and smaller parts are
 *		copied through memory that is; what has no room there, and
 *		large parts that are read-only, go by TCP
 *   tcp	anything else
 *
 * and "self", when peer and engine are one. The first three are done by threads
 * of the calling process alone, the peer may be busy or stopped. What fails by
 * RDMA goes by TCP in the same call, and some seconds later RDMA is tried
 * again. A call that finds its peer restarted at the same address connects
 * anew, once.
 *
 * Who can connect to the port can read and write what is registered: it is for
 * networks that are trusted.
 */
struct kv_engine;

struct kv_engine_opts {
	size_t size;
	const char *listen;  /* "host:port"; port 0 chooses; NULL "0.0.0.0:0" */
	uint32_t timeout_ms; /* default of each call; 0: 30,000 ms */
	int no_attach;       /* never use cross-memory attach */
	int allow_ptracer;   /* PR_SET_PTRACER_ANY, where Yama asks for it: this
			      * process-wide setting lets every process of the
			      * same user reach its memory */
	uint32_t copy_threads; /* that share one call's copies (shm, attach,
				* self); 0: 1, at most 64 */
	/* "auto" (as NULL): RDMA where there is a port; "rdma": it fails to
	 * open without one; "tcp": never RDMA. */
	const char *protocol;
	/* RDMA devices, names or patterns, "mlx5_0, mlx5_2*"; NULL: all. */
	const char *device;
	uint32_t qps;         /* as in struct kv_client_opts */
	uint64_t slice_bytes; /* the same */
};

/* opts may be NULL. NULL on failure, with one line in err, which else is "". */
struct kv_engine *kv_engine_open(const struct kv_engine_opts *opts, char *err,
				 size_t err_bytes);
/*
 * Ends it: calls of other threads in flight end with -KV_ECLOSED, memory of
 * kv_engine_alloc() is gone. Peers that are moving bytes at the moment are
 * waited for, but no longer than 2 s: a peer of this host that was stopped in
 * the middle may write a last piece when it goes on. It is freed: once this
 * returned no call may begin. NULL is fine.
 */
void kv_engine_close(struct kv_engine *e);
/* The port it listens on. */
uint16_t kv_engine_port(const struct kv_engine *e);

/* Lets peers read and write [data, data + len), which stays mapped until it is
 * unregistered. -KV_EINVALID: null, empty, overlapping another one; a repeat of
 * the very same range counts, it is unregistered as often. -KV_EBUSY: the same
 * as a range whose unregistering did not end yet. -KV_ENOMEM: also for more
 * than 16,384 regions. */
int kv_engine_register(struct kv_engine *e, void *data, size_t len);
/*
 * Returns 0 when no transfer of any peer can reach the range any more (or when
 * it was registered several times and still is). -KV_EINVALID: no region
 * begins there. Transfers that touch it are finished; over TCP they are cut
 * after half a second, and over RDMA as soon as the NIC refuses them. A peer of
 * this host that was stopped in the middle of a copy cannot be cut: then
 * -KV_ETIMEOUT after the engine's timeout. No new transfer finds the range
 * then, but the last one may still touch it: keep the memory, and call again.
 *
 * Calls of this engine that use the range as their own buffer are not waited
 * for, they go on; but where NICs are at it, within half a second, they have to
 * go on in another way first.
 */
int kv_engine_unregister(struct kv_engine *e, void *data);

/* Memory that peers of this host can map: transfers to it are plain copies.
 * Page aligned, zero, registered already. NULL: no memory (logged). */
void *kv_engine_alloc(struct kv_engine *e, size_t len);
/* Ends all its registrations as kv_engine_unregister() does, and frees it when
 * that is 0. */
int kv_engine_free(struct kv_engine *e, void *data);

struct kv_xfer_item {
	void *local;     /* need not be registered */
	uint64_t remote; /* address in the peer, within its registered memory;
			  * may cross touching regions */
	size_t len;      /* 0: passed over */
};

enum kv_engine_op {
	KV_ENGINE_WRITE = 1,
	KV_ENGINE_READ = 2,
};

/*
 * Moves n pieces to or from the process at peer ("host:port"). Returns 0 when
 * every byte is in place, else an error number: then any part of the pieces
 * may have been moved, and nothing touches the local ones any more. n is not
 * bounded. timeout_ms 0: the engine's. Local pieces that overlap, and remote
 * ones that do, end with the bytes of any of them.
 *
 * Of a write that failed, bytes that had left this process can still come to
 * the remote pieces, until the peer has noticed that the connection was closed;
 * what comes later is refused. (Of one that ended with 0, also where a part of
 * it had to be sent again in another way, nothing comes any more.)
 *
 * -KV_EINVALID: a piece is null, or not inside of the peer's regions (which
 * are asked for again first; nothing was moved unless they changed during the
 * call). -KV_ETRANSFER: registered, but not mapped, here or there.
 * -KV_EUNREACHABLE, -KV_ECONNLOST, -KV_ETIMEOUT, -KV_EPROTO, -KV_EVERSION,
 * -KV_EBUSY (1,024 peers are in use), -KV_ENOMEM.
 */
int kv_engine_transfer(struct kv_engine *e, enum kv_engine_op op,
		       const char *peer, const struct kv_xfer_item *items,
		       size_t n, uint32_t timeout_ms);
/* The same in the background; the time counts from now. `items` and what they
 * name must stay until kv_op_wait() says it is over. NULL: out of memory, or
 * 4,096 calls wait. */
struct kv_op *kv_engine_submit(struct kv_engine *e, enum kv_engine_op op,
			       const char *peer,
			       const struct kv_xfer_item *items, size_t n,
			       uint32_t timeout_ms);

/* Address of the first region that the peer registered; 0: none, unreachable.
 */
uint64_t kv_engine_first_region(struct kv_engine *e, const char *peer);
/* 0 when the peer answers in time. */
int kv_engine_probe(struct kv_engine *e, const char *peer);
/* How bytes go to this peer now: "attach", "shm", "rdma", "tcp", "self", then a
 * colon and the reason. Connects if need be; 0 or why it cannot. */
int kv_engine_path(struct kv_engine *e, const char *peer, char *buf,
		   size_t buf_bytes);

/* A message to the peer's queue, after all transfers that returned before. The
 * name has at most 255 bytes (-KV_EINVALID), the text about a MiB
 * (-KV_ETOOBIG). -KV_EBUSY: 4,096 messages or 64 MiB wait there. After
 * -KV_ECONNLOST and -KV_ETIMEOUT it may have come or not. */
int kv_engine_notify(struct kv_engine *e, const char *peer, const char *name,
		     const void *text, size_t text_len);
struct kv_note_in {
	char name[256];
	char *text; /* free() it; a NUL follows */
	size_t text_len;
};
/* Takes up to max of the messages that came; returns how many. */
long kv_engine_notes(struct kv_engine *e, struct kv_note_in *notes, size_t max);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif
