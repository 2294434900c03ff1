#include "svc/node.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/attr.h"
#include "base/bytes.h"
#include "base/fault.h"
#include "base/num.h"
#include "event/worker.h"
#include "mem/slab.h"
#include "net/addr.h"
#include "svc/ident.h"
#include "svc/nodecore.h"
#include "svc/putkey.h"

#define GRACE_NS (5 * KV_NS_PER_S)
#define DRAIN_NS (5 * KV_NS_PER_S)

/* ---- options ---- */

static bool
dup_string(const char **s)
{
	if (!*s)
		return true;
	*s = strdup(*s);
	return *s;
}

static void
opts_fini(struct kv_node_opts *o)
{
	unsigned i;

	for (i = 0; i < KV_NODE_LISTEN_MAX; i++)
		kv_free_const(o->listen[i]);
	for (i = 0; i < KV_MASTERS_MAX; i++)
		kv_free_const(o->masters[i]);
	kv_free_const(o->addr);
	kv_free_const(o->name);
}

/* Copies what the caller may free, and fills in the defaults. 0 or -ENOMEM. */
static int
opts_init(struct kv_node_opts *o, const struct kv_node_opts *from)
{
	bool is_good = true;
	unsigned i;

	*o = *from;
	if (!o->name)
		o->name = "node";
	for (i = 0; i < KV_NODE_LISTEN_MAX; i++)
		is_good &= dup_string(&o->listen[i]);
	for (i = 0; i < KV_MASTERS_MAX; i++)
		is_good &= dup_string(&o->masters[i]);
	is_good &= dup_string(&o->addr);
	is_good &= dup_string(&o->name);
	if (!is_good) {
		opts_fini(o);
		return -ENOMEM;
	}
	if (!o->grace_ns)
		o->grace_ns = GRACE_NS;
	if (!o->drain_ns)
		o->drain_ns = DRAIN_NS;
	if (!o->conns_max)
		o->conns_max = KV_NODE_CONNS_MAX;
	return 0;
}

/* What others dial; with its port it must fit where names do. */
static int
addr_check(const char *told, char *err, size_t err_bytes)
{
	char text[KV_ADDR_TEXT_BYTES_MAX];
	struct kv_addr a;

	if (kv_addr_parse(told, UINT16_MAX, &a, err, err_bytes) < 0)
		return -EINVAL;
	if (a.kind == KV_ADDR_TCP &&
	    strlen(kv_addr_format(&a, text)) <= KV_NAME_BYTES_MAX)
		return 0;
	snprintf(err, err_bytes,
		 "address '%s': others need one of TCP of at most %d bytes",
		 told, KV_NAME_BYTES_MAX);
	return -EINVAL;
}

static int
opts_check(const struct kv_node_opts *o, char *err, size_t err_bytes)
{
	if (o->pool_bytes < KV_GRANULE_BYTES) {
		snprintf(err, err_bytes, "the pool is too small");
		return -EINVAL;
	}
	if (o->name && strlen(o->name) > KV_NAME_BYTES_MAX) {
		snprintf(err, err_bytes, "a name may have %d bytes",
			 KV_NAME_BYTES_MAX);
		return -EINVAL;
	}
	return o->addr ? addr_check(o->addr, err, err_bytes) : 0;
}

/* ---- life ---- */

uint64_t
kv_node_random(struct kv_node *node)
{
	uint64_t v;

	do {
		v = kv_rng_u64(&node->rng);
		if (!kv_loop_is_virtual(node->loop) &&
		    kv_rng_os(&v, sizeof(v)) < 0)
			v = 0;
	} while (v == 0);
	return v;
}

static void
index_evicted(void *arg, const struct kv_object *o)
{
	kv_session_withdraw(arg, o);
}

static int
random_init(struct kv_node *node)
{
	uint64_t seed = node->o.seed;
	int rc = 0;

	node->boot = node->o.boot;
	if (kv_loop_is_virtual(node->loop)) {
		kv_rng_seed(&node->rng, seed);
		if (kv_id_is_zero(node->boot))
			kv_rng_bytes(&node->rng, &node->boot,
				     sizeof(node->boot));
		return 0;
	}
	rc = kv_rng_os(&seed, sizeof(seed));
	kv_rng_seed(&node->rng, seed);
	if (rc == 0 && kv_id_is_zero(node->boot))
		rc = kv_ident_random(&node->boot);
	return rc;
}

static int
store_init(struct kv_node *node)
{
	struct kv_index_opts opts = {
		.grace_ns = node->o.grace_ns,
		.evicted = index_evicted,
		.arg = node,
	};

	node->pool_bytes =
		kv_round_down_u64(node->o.pool_bytes, KV_GRANULE_BYTES);
	node->slab = kv_slab_new(node->pool_bytes);
	if (!node->slab)
		return -errno;
	opts.slab = node->slab;
	if (node->o.file)
		opts.ledger = node->o.file->ledger;
	node->index = kv_index_new(&opts);
	node->plan = kv_nodeget_plan_new();
	return node->index && node->plan ? 0 : -ENOMEM;
}

static int
mover_init(struct kv_node *node)
{
	struct kv_mover_opts opts = {
		.loop = node->loop,
		.workers = node->o.workers,
		.pool = node->o.pool,
		.rdma = node->o.rdma,
		.region = node->o.region,
		.closed = kv_nodepeer_data_closed,
	};

	node->mover = kv_mover_new(&opts);
	return node->mover ? 0 : -errno;
}

static void node_late(struct kv_timer *t);
static void node_end(struct kv_defer *d);

static struct kv_node *
node_alloc(const struct kv_node_opts *opts)
{
	struct kv_node *node =
		KV_FAULT_POINT() ? NULL : calloc(1, sizeof(*node));

	if (!node || opts_init(&node->o, opts) < 0) {
		free(node);
		return NULL;
	}
	node->loop = opts->loop;
	node->net = opts->net;
	kv_list_init(&node->peers);
	kv_list_init(&node->procs);
	kv_htab_init(&node->pins);
	kv_list_init(&node->free_pins);
	kv_list_init(&node->puts);
	kv_htab_init(&node->writing);
	kv_htab_init(&node->grants);
	kv_list_init(&node->early);
	kv_list_init(&node->pages);
	kv_list_init(&node->hidden);
	kv_list_init(&node->gets);
	kv_nodejob_init(node);
	node->drain.fn = node_late;
	node->stop.fn = node_end;
	return node;
}

struct kv_node *
kv_node_new(const struct kv_node_opts *opts, char *err, size_t err_bytes)
{
	struct kv_node *node;
	int rc;

	rc = opts_check(opts, err, err_bytes);
	if (rc < 0) {
		errno = -rc;
		return NULL;
	}
	node = node_alloc(opts);
	if (!node) {
		snprintf(err, err_bytes, "out of memory");
		errno = ENOMEM;
		return NULL;
	}
	rc = random_init(node);
	if (rc == 0)
		rc = store_init(node);
	if (rc == 0)
		rc = mover_init(node);
	if (rc < 0)
		snprintf(err, err_bytes, "cannot start a node: %s",
			 kv_worker_error_text(rc));
	if (rc == 0)
		rc = kv_nodekept_start(node, err, err_bytes);
	if (rc == 0) {
		rc = kv_nodegen_start(node);
		if (rc < 0)
			snprintf(err, err_bytes, "out of memory");
	}
	if (rc == 0)
		rc = kv_nodepeer_listen(node, err, err_bytes);
	if (rc == 0) {
		rc = kv_session_open_all(node);
		if (rc < 0)
			snprintf(err, err_bytes, "out of memory");
	}
	if (rc < 0) {
		kv_node_free(node);
		errno = -rc;
		return NULL;
	}
	return node;
}

int
kv_node_ready(struct kv_node *node, uint64_t off, uint64_t len)
{
	int rc = 0;

	if (node->kept)
		kv_nodekept_ready(node, off + len);
	else
		rc = kv_slab_add(node->slab, off, len);
	if (rc < 0)
		return rc;
	node->ready_bytes += len;
	if (node->ready_bytes == node->pool_bytes)
		kv_info("all of the pool is there bytes=%llu",
			(unsigned long long)node->pool_bytes);
	kv_nodeput_pages(node);
	kv_session_room_changed(node);
	return 0;
}

void
kv_node_ready_end(struct kv_node *node)
{
	node->pool_bytes = node->ready_bytes;
	kv_nodeput_pages(node);
	kv_session_room_changed(node);
}

void
kv_node_registered(struct kv_node *node, bool is_complete)
{
	kv_mover_registered(node->mover, is_complete);
}

/* ---- the end ---- */

/* Everything that others have of this node ends here. In this order: masters
 * first, so that no verdict is awaited; what holds memory last. */
static void
node_close(struct kv_node *node)
{
	if (node->phase == KV_NODE_STOPPED)
		return;
	node->phase = KV_NODE_STOPPED;
	/* First: what processes hold, they hold on when this one has ended. */
	kv_nodekept_detach(node);
	kv_nodegen_stop(node);
	kv_loop_timer_del(&node->drain);
	kv_nodepeer_unlisten(node);
	kv_session_close_all(node);
	kv_nodepeer_close_all(node);
	kv_mover_free(node->mover);
	node->mover = NULL;
	kv_proc_fini(node);
	kv_loop_defer_del(&node->jobs_turn);
	assert(kv_list_is_empty(&node->puts));
	assert(kv_list_is_empty(&node->gets));
}

static void
node_end(struct kv_defer *d)
{
	struct kv_node *node = KV_CONTAINER_OF(d, struct kv_node, stop);

	node_close(node);
	node->done(node->done_arg);
}

static void
node_late(struct kv_timer *t)
{
	struct kv_node *node = KV_CONTAINER_OF(t, struct kv_node, drain);

	kv_warn("the end was not waited for by all requests");
	kv_loop_defer(node->loop, &node->stop);
}

void
kv_node_drained(struct kv_node *node)
{
	struct kv_nodepeer *peer;

	if (node->phase != KV_NODE_DRAINING || !kv_nodekept_is_idle(node))
		return;
	KV_LIST_FOREACH(peer, &node->peers, link)
		if (peer->requests)
			return;
	kv_loop_defer(node->loop, &node->stop);
}

void
kv_node_stop(struct kv_node *node, kv_node_done_fn *done, void *arg)
{
	if (node->phase == KV_NODE_DRAINING)
		kv_loop_defer(node->loop, &node->stop);
	if (node->phase != KV_NODE_RUNNING)
		return;
	node->phase = KV_NODE_DRAINING;
	node->done = done;
	node->done_arg = arg;
	kv_nodepeer_unlisten(node);
	kv_session_leave_all(node);
	if (kv_loop_timer_set(node->loop, &node->drain,
			      kv_loop_now(node->loop) + node->o.drain_ns) < 0)
		kv_loop_defer(node->loop, &node->stop);
	kv_node_drained(node);
}

void
kv_node_free(struct kv_node *node)
{
	if (!node)
		return;
	node_close(node);
	kv_loop_defer_del(&node->stop);
	kv_htab_fini(&node->pins);
	kv_htab_fini(&node->writing);
	kv_htab_fini(&node->grants);
	kv_nodekept_free(node);
	kv_nodegen_fini(node);
	kv_index_free(node->index);
	kv_slab_free(node->slab);
	free(node->plan);
	opts_fini(&node->o);
	free(node);
}

/* ---- looking in ---- */

void
kv_node_process_exit(struct kv_node *node, pid_t pid)
{
	kv_proc_exit_pid(node, pid);
}

const struct kv_id *
kv_node_boot(const struct kv_node *node)
{
	return &node->boot;
}

const char *
kv_node_addr(const struct kv_node *node)
{
	return node->addr;
}

void
kv_node_forget_host(struct kv_node *node)
{
	const char *port = strrchr(node->addr, ':');

	if (!port || port == node->addr)
		return;
	memmove(node->addr, port, strlen(port) + 1);
	kv_session_rejoin(node);
}

const char *
kv_node_bound(const struct kv_node *node, unsigned i)
{
	return node->bound[i];
}

unsigned
kv_node_masters(const struct kv_node *node)
{
	return node->n_sessions;
}

unsigned
kv_node_sessions(const struct kv_node *node)
{
	unsigned i, n = 0;

	for (i = 0; i < node->n_sessions; i++)
		n += kv_session_is_live(node, i);
	return n;
}

void
kv_node_room(const struct kv_node *node, struct kv_heartbeat *out)
{
	const uint64_t *v = node->stats.v;
	struct kv_index_stats st;
	uint64_t idle;

	kv_index_stats(node->index, &st);
	idle = kv_index_victim_idle(node->index, kv_loop_now(node->loop));
	memset(out, 0, sizeof(*out));
	out->pool_bytes = kv_le64(node->pool_bytes);
	out->ready_bytes = kv_le64(node->ready_bytes);
	out->free_bytes = kv_le64(kv_slab_free_bytes(node->slab));
	out->pinned_bytes = kv_le64(st.pinned_bytes + st.reserved_bytes);
	out->keys = kv_le64(st.keys);
	out->victim_age_ms =
		kv_le64(idle == UINT64_MAX ? 0 : idle / KV_NS_PER_MS);
	out->evicted_keys = kv_le64(st.evicted_keys);
	out->evicted_bytes = kv_le64(st.evicted_bytes);
	out->put_fails = kv_le64(v[KV_STAT_PUTS_FAILED]);
	out->soft_pinned = kv_le64(st.soft_pinned);
}

void
kv_node_stats_each(const struct kv_node *node, kv_node_stat_fn *fn, void *arg)
{
	struct kv_stats_set sum = { 0 };
	struct kv_index_stats st;
	unsigned i;

	kv_index_stats(node->index, &st);
	kv_stats_sum(&sum, &node->stats);
	kv_mover_stats(node->mover, &sum);
	const struct kv_node_stat held[] = {
		{ "pool_bytes", "size of the pool", false, node->pool_bytes },
		{ "page_bytes", "of a page of the pool", false,
		  node->o.page_bytes },
		{ "ready_bytes", "bytes of the pool, faulted in", false,
		  node->ready_bytes },
		{ "missing_bytes", "bytes asked for that could not be had",
		  false,
		  kv_round_down_u64(node->o.pool_bytes, KV_GRANULE_BYTES) -
			  node->pool_bytes },
		{ "free_bytes", "bytes faulted in, with nothing in them", false,
		  kv_slab_free_bytes(node->slab) },
		{ "keys", "keys that are shown", false, st.keys },
		{ "hidden_keys", "keys whose verdict is awaited", false,
		  st.hidden },
		{ "value_bytes", "bytes of all values", false, st.bytes },
		{ "soft_pinned_keys", "keys with a soft pin", false,
		  st.soft_pinned },
		{ "hard_pinned_keys", "keys with a hard pin", false,
		  st.hard_pinned },
		{ "pinned_bytes", "bytes that somebody reads", false,
		  st.pinned_bytes },
		{ "reserved_bytes", "bytes reserved for puts under way", false,
		  st.reserved_bytes },
		{ "zombie_bytes",
		  "bytes that somebody reads of values that are gone", false,
		  st.zombie_bytes },
		{ "unsummed_keys", "keys a kill would lose, with a pool file",
		  false, kv_nodekept_unsummed(node) },
		{ "unchecked_keys", "keys taken over, not yet checked", false,
		  st.unchecked },
		{ "held_bytes", "bytes held for an earlier node's processes",
		  false, kv_nodekept_held_bytes(node) },
		{ "evicted_keys", "keys evicted", true, st.evicted_keys },
		{ "evicted_bytes", "bytes evicted", true, st.evicted_bytes },
		{ "connections", "open connections", false, node->n_conns },
		{ "processes", "attached processes", false, node->n_procs },
		{ "pins", "values that processes of this host read", false,
		  kv_htab_count(&node->pins) },
		{ "grants", "reservations being filled", false,
		  kv_htab_count(&node->grants) },
		{ "sessions", "sessions with masters", false,
		  kv_node_sessions(node) },
	};

	for (i = 0; i < KV_STATS; i++) {
		const struct kv_node_stat counted = {
			.name = kv_stats_name(i),
			.text = kv_stats_text(i),
			.is_counter = true,
			.value = sum.v[i],
		};

		fn(arg, &counted);
	}
	for (i = 0; i < KV_ARRAY_LEN(held); i++)
		fn(arg, &held[i]);
}

struct stats_text {
	struct kv_bytes *out;
	int status;
};

static void
stats_line(void *arg, const struct kv_node_stat *stat)
{
	struct stats_text *t = arg;

	if (t->status == 0)
		t->status = kv_bytes_printf(t->out, "%s %" PRIu64 "\n",
					    stat->name, stat->value);
}

int
kv_node_stats(const struct kv_node *node, struct kv_bytes *out)
{
	struct stats_text t = { .out = out, .status = kv_stats_who(out) };

	kv_node_stats_each(node, stats_line, &t);
	return t.status;
}
