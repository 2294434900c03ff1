#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/num.h"
#include "base/str.h"
#include "svc/doctor.h"

/* Log lines of two hosts are compared by the second. */
#define CLOCK_MS 2000
/* Nodes are heard each second. */
#define HEARD_MS 3500
/* A pool of less holds some blocks at most: a unit was forgotten. */
#define POOL_BYTES_FEW (UINT64_C(16) << 20)
/* Free space below this part of a pool is hardly any. */
#define FREE_PART 20
/* What is evicted younger than this was of no use to anybody. */
#define VICTIM_MS 30000

/* ---- one daemon ---- */

/* The text after "NAME " at the begin of a line; NULL: there is none. */
static const char *
stat_text(const struct kv_doctor_daemon *daemon, const char *name)
{
	const char *at = daemon->stats;
	size_t n = strlen(name);

	for (; at && *at; at = strchr(at, '\n')) {
		at += *at == '\n';
		if (strncmp(at, name, n) == 0 && at[n] == ' ')
			return at + n + 1;
	}
	return NULL;
}

uint64_t
kv_doctor_stat(const struct kv_doctor_daemon *daemon, const char *name)
{
	const char *text = stat_text(daemon, name);

	return text ? strtoull(text, NULL, 10) : 0;
}

void
kv_doctor_read(struct kv_doctor_daemon *daemon, uint64_t asked_ms,
	       uint64_t heard_ms)
{
	const char *version = stat_text(daemon, "version");
	uint64_t middle = asked_ms + (heard_ms - asked_ms) / 2;

	if (version)
		snprintf(daemon->version, sizeof(daemon->version), "%.*s",
			 (int)strcspn(version, "\n"), version);
	if (stat_text(daemon, "clock_ms"))
		daemon->ahead_ms =
			(int64_t)(kv_doctor_stat(daemon, "clock_ms") - middle);
}

/* The i-th daemon of the pool, masters first, or NULL behind the last. */
static const struct kv_doctor_daemon *
daemon_of(const struct kv_doctor_pool *p, size_t i)
{
	if (i < p->n_masters)
		return &p->masters[i].d;
	i -= p->n_masters;
	return i < p->n_nodes ? &p->nodes[i].d : NULL;
}

static bool
is_master(const struct kv_doctor_master *m)
{
	return m->d.status == 0 &&
	       (!m->d.stats || stat_text(&m->d, "master_key_count"));
}

/* ---- masters ---- */

static const char *
master_advice(const char *why)
{
	if (strstr(why, "HTTP"))
		return "name the master's RPC port (50051), not that of HTTP "
		       "(9003)";
	if (strstr(why, "resolve"))
		return "correct the name in --master; `getent hosts NAME` asks "
		       "what it asks";
	if (strstr(why, "version"))
		return "run one release of kvpool in the whole pool";
	return "start kvmaster there, or correct --master; on its host `ss "
	       "-ltn` shows what listens, a firewall may be between";
}

void
kv_doctor_masters(struct kv_doctor *d, const struct kv_doctor_pool *p)
{
	const struct kv_doctor_master *m;
	uint64_t worst = 0;
	char text[16];
	size_t n = 0;

	if (!p->n_masters)
		kv_doctor_say(d, p->own ? KV_DOCTOR_WARNING : KV_DOCTOR_FAULT,
			      "masters",
			      "--master HOST:PORT, or master_server_address in "
			      "the configuration",
			      "no master is named%s",
			      p->own ? ", nor does the kvclient of this host "
				       "have one: its keys are its own host's"
				     : "");
	for (m = p->masters; m < p->masters + p->n_masters; m++) {
		if (m->d.status < 0) {
			kv_doctor_say(d, KV_DOCTOR_FAULT, "masters",
				      master_advice(m->d.why), "%s", m->d.why);
		} else if (!is_master(m)) {
			kv_doctor_say(d, KV_DOCTOR_FAULT, "masters",
				      "name the master's RPC port (50051)",
				      "%s is the port of a node, not of a "
				      "master",
				      m->d.addr);
		} else {
			worst = kv_max_u64(worst, m->d.trip_ns);
			n++;
		}
	}
	if (n)
		kv_doctor_say(
			d, KV_DOCTOR_OK, "masters", "",
			"%zu of %zu answer, within %s", n, p->n_masters,
			kv_str_duration_format(text, sizeof(text), worst));
}

void
kv_doctor_versions(struct kv_doctor *d, const struct kv_doctor_pool *p)
{
	const struct kv_doctor_daemon *one;
	bool is_bad = false;
	size_t i, n = 0;

	for (i = 0; (one = daemon_of(p, i)); i++) {
		if (!*one->version)
			continue;
		n++;
		if (strcmp(one->version, KVPOOL_VERSION) == 0)
			continue;
		is_bad = true;
		kv_doctor_say(d, KV_DOCTOR_WARNING, "versions",
			      "run one release of kvpool in the whole pool",
			      "%s runs version %s, this kvdiag is %s",
			      one->addr, one->version, KVPOOL_VERSION);
	}
	if (n && !is_bad)
		kv_doctor_say(d, KV_DOCTOR_OK, "versions", "",
			      "%zu daemon%s run%s %s, as this kvdiag does", n,
			      n == 1 ? "" : "s", n == 1 ? "s" : "",
			      KVPOOL_VERSION);
}

void
kv_doctor_clocks(struct kv_doctor *d, const struct kv_doctor_pool *p)
{
	const struct kv_doctor_daemon *one;
	uint64_t most = 0, off;
	bool is_bad = false;
	char text[16];
	size_t i, n = 0;

	for (i = 0; (one = daemon_of(p, i)); i++) {
		if (!*one->version)
			continue;
		n++;
		off = (uint64_t)llabs(one->ahead_ms);
		most = kv_max_u64(most, off);
		if (off <= CLOCK_MS + one->trip_ns / KV_NS_PER_MS)
			continue;
		is_bad = true;
		kv_str_duration_format(text, sizeof(text), off * KV_NS_PER_MS);
		kv_doctor_say(d, KV_DOCTOR_WARNING, "clocks",
			      "start NTP on both hosts; the pool does not need "
			      "it, who reads logs does",
			      "the clock of %s is %s %s that of this host",
			      one->addr, text,
			      one->ahead_ms > 0 ? "ahead of" : "behind");
	}
	if (n && !is_bad)
		kv_doctor_say(
			d, KV_DOCTOR_OK, "clocks", "",
			"those of %zu daemon%s are within %s of this "
			"host's",
			n, n == 1 ? "" : "s",
			kv_str_duration_format(text, sizeof(text),
					       (most + 1) * KV_NS_PER_MS));
}

/* ---- who knows whom ---- */

static bool
knows(const struct kv_doctor_master *m, const struct kv_node_info *node)
{
	size_t i;

	for (i = 0; i < m->n; i++)
		if (strcmp(m->nodes[i].boot, node->boot) == 0)
			return true;
	return false;
}

/* The first master that answers and does not know the node; NULL: none. */
static const struct kv_doctor_master *
ignorant(const struct kv_doctor_pool *p, const struct kv_node_info *node)
{
	const struct kv_doctor_master *m;

	for (m = p->masters; m < p->masters + p->n_masters; m++)
		if (is_master(m) && !knows(m, node))
			return m;
	return NULL;
}

static void
members_of(struct kv_doctor *d, const struct kv_doctor_master *m)
{
	uint64_t all = kv_doctor_stat(&m->d, "master_active_clients");

	if (is_master(m) && all > m->n)
		kv_doctor_say(d, KV_DOCTOR_FAULT, "members",
			      "start them with --host and an address that this "
			      "host can dial",
			      "%s knows %" PRIu64 " node%s, of which it "
			      "names %zu here: the addresses of the others "
			      "mean this host itself, or nobody",
			      m->d.addr, all, all == 1 ? "" : "s", m->n);
}

void
kv_doctor_members(struct kv_doctor *d, const struct kv_doctor_pool *p)
{
	unsigned before = d->found[KV_DOCTOR_FAULT];
	const struct kv_doctor_master *m;
	bool is_heard = false;
	size_t i;

	for (m = p->masters; m < p->masters + p->n_masters; m++) {
		members_of(d, m);
		is_heard |= is_master(m);
	}
	if (!is_heard)
		return;
	for (i = 0; i < p->n_nodes; i++) {
		m = ignorant(p, &p->nodes[i].info);
		if (m)
			kv_doctor_say(d, KV_DOCTOR_FAULT, "members",
				      "name all masters in --master of each "
				      "kvclient and engine",
				      "node %s (%s) is not known to master %s",
				      p->nodes[i].info.name,
				      p->nodes[i].info.addr, m->d.addr);
	}
	m = p->own ? ignorant(p, p->own) : NULL;
	for (i = 0; m && i < p->n_nodes; i++)
		if (strcmp(p->nodes[i].info.boot, p->own->boot) == 0)
			m = NULL; /* was told above */
	if (m)
		kv_doctor_say(d, KV_DOCTOR_FAULT, "members",
			      "start it with the --master that is used here",
			      "the kvclient of this host (%s) is not known to "
			      "master %s",
			      p->own->name, m->d.addr);
	if (d->found[KV_DOCTOR_FAULT] > before)
		return;
	if (!p->n_nodes)
		kv_doctor_say(d, KV_DOCTOR_FAULT, "members",
			      "start kvclient, or an engine with a "
			      "global_segment_size above 0",
			      "no node is in the pool: there is no memory");
	else
		kv_doctor_say(d, KV_DOCTOR_OK, "members", "",
			      "%zu node%s, known to each master that answers",
			      p->n_nodes, p->n_nodes == 1 ? "" : "s");
}

/* ---- each node ---- */

static bool
is_silent(const struct kv_node_info *node)
{
	return node->heard_ms > HEARD_MS;
}

void
kv_doctor_nodes(struct kv_doctor *d, const struct kv_doctor_pool *p)
{
	const struct kv_doctor_node *n;
	char heard[16];
	size_t bad = 0;

	for (n = p->nodes; n < p->nodes + p->n_nodes; n++) {
		kv_str_duration_format(heard, sizeof(heard),
				       n->info.heard_ms * KV_NS_PER_MS);
		if (strcmp(n->info.state, "suspect") == 0)
			kv_doctor_say(
				d, KV_DOCTOR_FAULT, "nodes",
				"see its log and its host: it is stopped, "
				"hung, or cut off from the master too",
				"%s (%s) is suspect: the master cannot "
				"reach it, it was heard %s ago",
				n->info.name, n->info.addr, heard);
		else if (is_silent(&n->info))
			kv_doctor_say(
				d, KV_DOCTOR_FAULT, "nodes",
				"see its log and its host: it is stopped, "
				"or the network is cut",
				"%s (%s) is silent: the master heard it "
				"%s ago",
				n->info.name, n->info.addr, heard);
		else if (strcmp(n->info.state, "leaving") == 0)
			kv_doctor_say(d, KV_DOCTOR_WARNING, "nodes",
				      "nothing, if it was told to end",
				      "%s (%s) is leaving", n->info.name,
				      n->info.addr);
		else
			continue;
		bad++;
	}
	if (p->n_nodes && !bad)
		kv_doctor_say(d, KV_DOCTOR_OK, "nodes", "",
			      "%zu node%s, each heard less than %s ago",
			      p->n_nodes, p->n_nodes == 1 ? "" : "s",
			      kv_str_duration_format(heard, sizeof(heard),
						     HEARD_MS * KV_NS_PER_MS));
}

void
kv_doctor_addresses(struct kv_doctor *d, const struct kv_doctor_pool *p)
{
	const struct kv_doctor_node *n;
	uint64_t worst = 0;
	size_t bad = 0;
	char text[16];

	for (n = p->nodes; n < p->nodes + p->n_nodes; n++) {
		worst = kv_max_u64(worst, n->d.trip_ns);
		if (n->d.status == 0)
			continue;
		bad++;
		/* Nobody expects it to answer. */
		if (is_silent(&n->info) ||
		    strcmp(n->info.state, "suspect") == 0)
			continue;
		kv_doctor_say(d, KV_DOCTOR_FAULT, "addresses",
			      "start it with --host and an address that all "
			      "hosts can dial, open its port, or give two "
			      "nodes of one address different ones",
			      "%s is alive, the master hears it, but its "
			      "address %s does not answer here: %s",
			      n->info.name, n->info.addr, n->d.why);
	}
	if (p->n_nodes && !bad)
		kv_doctor_say(
			d, KV_DOCTOR_OK, "addresses", "",
			"%zu of %zu answer here, within %s", p->n_nodes,
			p->n_nodes,
			kv_str_duration_format(text, sizeof(text), worst));
}

/* ---- memory and room ---- */

/* Pages are to come, and do not. */
static bool
is_stuck(const struct kv_doctor_node *n)
{
	return n->info.ready_bytes < n->info.pool_bytes &&
	       n->info.ready_bytes <= n->ready_before && !is_silent(&n->info);
}

bool
kv_doctor_is_moving(const struct kv_doctor_pool *p)
{
	const struct kv_doctor_node *n;

	/* Meanwhile the master may have missed who does not answer. */
	for (n = p->nodes; n < p->nodes + p->n_nodes; n++)
		if (n->info.ready_bytes < n->info.pool_bytes ||
		    n->d.status < 0 || ignorant(p, &n->info))
			return true;
	return p->own && ignorant(p, p->own);
}

void
kv_doctor_memory(struct kv_doctor *d, const struct kv_doctor_pool *p)
{
	uint64_t ready = 0, sum = 0, missing;
	const struct kv_doctor_node *n;
	char size[16], has[16];
	size_t bad = 0;

	for (n = p->nodes; n < p->nodes + p->n_nodes; n++) {
		/* Its pool_bytes are what it has, then. */
		missing = kv_doctor_stat(&n->d, "missing_bytes");
		ready += n->info.ready_bytes;
		sum += n->info.pool_bytes;
		kv_str_size_format(size, sizeof(size),
				   n->info.pool_bytes + missing);
		kv_str_size_format(has, sizeof(has), n->info.ready_bytes);
		if (n->info.pool_bytes + missing < POOL_BYTES_FEW)
			kv_doctor_say(d, KV_DOCTOR_WARNING, "pools",
				      "give it more (global_segment_size); a "
				      "size without a unit is bytes",
				      "%s has next to no memory: %s",
				      n->info.name, size);
		else if (missing || is_stuck(n))
			kv_doctor_say(
				d, KV_DOCTOR_FAULT, "pools",
				"see its log: its machine, control group "
				"or file system has no more memory; make "
				"room there or ask for less, and start it "
				"again",
				"%s has %s of its %s, and no more comes",
				n->info.name, has, size);
		else
			continue;
		bad++;
	}
	kv_str_size_format(size, sizeof(size), sum);
	kv_str_size_format(has, sizeof(has), ready);
	if (p->n_nodes && !bad)
		kv_doctor_say(d, KV_DOCTOR_OK, "pools", "",
			      "%s of memory, of which %s are ready", size, has);
}

static bool
room_of(struct kv_doctor *d, const struct kv_doctor_node *n)
{
	uint64_t hard = kv_doctor_stat(&n->d, "hard_pinned_keys");
	uint64_t evicted = kv_doctor_stat(&n->d, "evicted_keys");
	uint64_t failed = kv_doctor_stat(&n->d, "puts_no_space");
	char left[16], pinned[16], age[16];

	if (!n->d.stats || n->info.ready_bytes < n->info.pool_bytes ||
	    n->info.free_bytes > n->info.pool_bytes / FREE_PART)
		return true;
	kv_str_size_format(left, sizeof(left), n->info.free_bytes);
	kv_str_size_format(pinned, sizeof(pinned), n->info.pinned_bytes);
	if (!n->info.victim_age_ms && n->info.keys) {
		kv_doctor_say(d, KV_DOCTOR_FAULT, "room",
			      "`kvrm --force` keys that are no longer needed, "
			      "end who holds views, or add memory",
			      "%s is full and nothing may leave: %s free, "
			      "%" PRIu64 " keys, %" PRIu64
			      " of them hard-pinned, %s being read or written, "
			      "%" PRIu64 " puts failed for it",
			      n->info.name, left, n->info.keys, hard, pinned,
			      failed);
		return false;
	}
	if (!evicted || n->info.victim_age_ms >= VICTIM_MS)
		return true;
	kv_str_duration_format(age, sizeof(age),
			       n->info.victim_age_ms * KV_NS_PER_MS);
	kv_doctor_say(d, KV_DOCTOR_WARNING, "room",
		      "add memory or nodes, or put less: blocks go before they "
		      "can be asked for again",
		      "%s is too small for what is put: the next key to be "
		      "evicted was used %s ago, %" PRIu64
		      " keys were evicted, %s are free",
		      n->info.name, age, evicted, left);
	return false;
}

void
kv_doctor_room(struct kv_doctor *d, const struct kv_doctor_pool *p)
{
	const struct kv_doctor_node *n;
	uint64_t sum = 0, all = 0;
	char left[16], size[16];
	bool is_good = true;

	for (n = p->nodes; n < p->nodes + p->n_nodes; n++) {
		is_good &= room_of(d, n);
		sum += n->info.free_bytes;
		all += n->info.pool_bytes;
	}
	kv_str_size_format(left, sizeof(left), sum);
	kv_str_size_format(size, sizeof(size), all);
	if (p->n_nodes && is_good)
		kv_doctor_say(d, KV_DOCTOR_OK, "room", "", "%s of %s are free",
			      left, size);
}
