/*
 * Nodes that cannot be reached. What one host reports holds for that host, for
 * five seconds; for everybody the node is left out when this master's own probe
 * fails too, until one succeeds.
 */

#include <errno.h>
#include <string.h>

#include "base/attr.h"
#include "base/num.h"
#include "net/sock.h"
#include "svc/mastercore.h"

#define REPORT_NS   (5 * KV_NS_PER_S)
#define PROBE_NS    (1 * KV_NS_PER_S)
#define GAP_NS      (500 * KV_NS_PER_MS)
#define GAP_NS_MAX  (5 * KV_NS_PER_S)
#define REPORTS_MAX 1024 /* about one node */
#define STALE       "another process has its address"

struct report {
	struct kv_id host;
	uint64_t until;
};

/* ---- reports ---- */

static unsigned
report_count(const struct kv_member *mb)
{
	return (unsigned)(mb->reports.len / sizeof(struct report));
}

/* Takes n of them out from the i-th on. */
static void
reports_cut(struct kv_member *mb, unsigned i, unsigned n)
{
	struct report *all = (struct report *)(void *)mb->reports.data;

	if (n == 0)
		return;
	memmove(&all[i], &all[i + n],
		(report_count(mb) - i - n) * sizeof(*all));
	mb->reports.len -= n * sizeof(*all);
	mb->m->n_reports -= n;
}

/* All last equally long, so the oldest ends first. */
static void
reports_expire(struct kv_member *mb, unsigned max)
{
	const struct report *all = (const void *)mb->reports.data;
	uint64_t now = kv_master_now(mb->m);
	unsigned n = report_count(mb), i;

	for (i = 0; i < n && (all[i].until <= now || n - i > max); i++)
		;
	reports_cut(mb, 0, i);
}

/* Its place, or their number. */
static unsigned
report_find(const struct kv_member *mb, const struct kv_id *host)
{
	const struct report *all = (const void *)mb->reports.data;
	unsigned i;

	for (i = 0; i < report_count(mb); i++)
		if (kv_id_is_equal(all[i].host, *host))
			break;
	return i;
}

static void
report_drop(struct kv_member *mb, const struct kv_id *host)
{
	unsigned i = report_find(mb, host);

	if (i < report_count(mb))
		reports_cut(mb, i, 1);
}

static void
report_add(struct kv_member *mb, const struct kv_id *host)
{
	const struct report r = {
		.host = *host,
		.until = kv_master_now(mb->m) + REPORT_NS,
	};

	report_drop(mb, host);
	reports_expire(mb, REPORTS_MAX - 1);
	if (kv_bytes_append(&mb->reports, &r, sizeof(r)) == 0)
		mb->m->n_reports++;
}

bool
kv_suspect_is_reported(struct kv_member *mb, const struct kv_id *host)
{
	if (report_count(mb) == 0)
		return false;
	reports_expire(mb, REPORTS_MAX);
	return report_find(mb, host) < report_count(mb);
}

void
kv_suspect_inherit(struct kv_member *mb, struct kv_member *old)
{
	mb->reports = old->reports;
	kv_bytes_init(&old->reports);
}

int
kv_suspect_report(struct kv_masterpeer *p, const struct kv_msg *msg)
{
	const struct kv_report *said = msg->body;
	struct kv_member *mb = kv_member_find(p->m, said->boot);

	kv_master_count(p->m, KV_MASTERSTAT_REPORTS, 1);
	if (!mb)
		return 0;
	if (!said->reachable) {
		report_add(mb, &p->host);
		kv_suspect_probe(mb);
		return 0;
	}
	report_drop(mb, &p->host);
	/* Others should have it back soon as well. */
	if (mb->state == KV_NODE_SUSPECT)
		kv_suspect_lost(mb);
	return 0;
}

/* ---- probes ---- */

static void
hide(struct kv_member *mb, bool is_hidden)
{
	struct kv_master *m = mb->m;

	if (mb->is_hidden == is_hidden)
		return;
	mb->is_hidden = is_hidden;
	m->n_hidden += is_hidden ? 1 : -1;
	kv_member_show(mb);
	kv_peermasters_changed(m);
}

static void
answers(struct kv_member *mb)
{
	mb->probe_gap = GAP_NS;
	if (mb->state != KV_NODE_SUSPECT)
		return;
	kv_member_set_state(mb, mb->is_synced ? KV_NODE_LIVE : KV_NODE_JOINING,
			    "it answers a probe");
	hide(mb, false);
	kv_log_recovered(&mb->suspect_log, KV_LOG_INFO,
			 "node can be reached again name=\"%s\" addr=%s",
			 mb->name, mb->addr);
}

static void
is_silent(struct kv_member *mb, int status)
{
	struct kv_master *m = mb->m;

	kv_master_count(m, KV_MASTERSTAT_PROBES_FAILED, 1);
	if (!mb->peer && (status == -ECONNREFUSED || status == -ESTALE)) {
		mb->is_ended = true;
		kv_member_dead(mb, status == -ESTALE ? STALE
						     : "its process is gone");
		return;
	}
	if (mb->state == KV_NODE_SUSPECT) {
		mb->probe_gap = kv_min_u64(mb->probe_gap * 2, GAP_NS_MAX);
	} else {
		kv_master_count(m, KV_MASTERSTAT_SUSPECTED, 1);
		mb->probe_gap = GAP_NS;
		kv_member_set_state(mb, KV_NODE_SUSPECT, "a probe failed");
		hide(mb, true);
	}
	kv_log_limited(&mb->suspect_log, kv_loop_now(m->loop), KV_LOG_WARN,
		       "node cannot be reached name=\"%s\" addr=%s: %s",
		       mb->name, mb->addr,
		       status == -ESTALE ? STALE : kv_sock_error_text(status));
	mb->probe_wanted = true;
	mb->probe_at = kv_master_now(m) + mb->probe_gap;
}

/* Says more of this process than of the node. */
static bool
is_our_fault(const struct kv_member *mb, int status)
{
	return status == -ENOMEM || status == -EMFILE || status == -ENFILE ||
	       status == -EAGAIN || mb->probe_stopped != mb->m->stopped_ns;
}

static void
probed(struct kv_probe *probe, int status)
{
	struct kv_member *mb = KV_CONTAINER_OF(probe, struct kv_member, probe);

	mb->m->n_probes--;
	(void)kv_master_now(mb->m);
	if (status == 0)
		answers(mb);
	else if (is_our_fault(mb, status))
		mb->probe_wanted = true;
	else
		is_silent(mb, status);
}

void
kv_suspect_tick(struct kv_member *mb)
{
	struct kv_master *m = mb->m;
	uint64_t now = kv_master_now(m);
	const struct kv_probe_opts opts = {
		.loop = m->loop,
		.net = m->net,
		.addr = mb->addr,
		.boot = m->boot,
		.want = mb->boot,
		.deadline_ns = kv_loop_now(m->loop) + PROBE_NS,
	};

	if (!mb->probe_wanted || mb->probe.is_on || now < mb->probe_at ||
	    m->n_probes >= KV_MASTER_PROBES_MAX ||
	    m->phase == KV_MASTER_STOPPED)
		return;
	kv_master_count(m, KV_MASTERSTAT_PROBES, 1);
	m->n_probes++;
	mb->probe_wanted = false;
	mb->probe_last = now;
	mb->probe_at = now + GAP_NS;
	mb->probe_stopped = m->stopped_ns;
	mb->probe.fn = probed;
	kv_probe_start(&mb->probe, &opts);
}

void
kv_suspect_probe(struct kv_member *mb)
{
	mb->probe_wanted = true;
	kv_suspect_tick(mb);
}

void
kv_suspect_lost(struct kv_member *mb)
{
	mb->probe_gap = GAP_NS;
	if (mb->probe_at > 0)
		mb->probe_at = mb->probe_last + GAP_NS;
	kv_suspect_probe(mb);
}

void
kv_suspect_end(struct kv_member *mb)
{
	mb->m->n_probes -= mb->probe.is_on;
	kv_probe_cancel(&mb->probe);
	mb->probe_wanted = false;
	hide(mb, false);
	reports_cut(mb, 0, report_count(mb));
	kv_bytes_fini(&mb->reports);
}
