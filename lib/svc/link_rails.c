#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/attr.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/num.h"
#include "svc/chan.h"
#include "svc/linkcore.h"
#include "wire/protordma.h"
#include "xfer/rdmalink.h"
#include "xfer/rdmaloop.h"

/* From the answer to HELLO until they are up, or will hardly be. What comes
 * later is used, too. */
#define SETTLE_NS (500 * KV_NS_PER_MS)

static void settled(struct kv_rdmalink *r);

/* A put is read by the node whenever it wants to. */
static bool
is_used(const struct kv_rdmalink *r)
{
	const struct kv_link *l = kv_rdmalink_arg(r);

	return l->users > 0;
}

static const struct kv_rdmalink_ops ops = {
	.settled = settled,
	.is_used = is_used,
};

unsigned
kv_link_rails(const struct kv_link *l)
{
	if (!l->rails || l->data.state != KV_LINK_UP)
		return 0;
	return kv_rdmalink_rails(l->rails);
}

void
kv_link_rails_wake(struct kv_link *l)
{
	if (l->rails && l->data.state == KV_LINK_UP)
		(void)kv_rdmalink_wake(l->rails);
}

/* ---- what people are told ---- */

static void
say_rails(const struct kv_link *l, unsigned rails)
{
	char why[KV_HUB_WHY_BYTES];
	unsigned pairs = kv_rdmalink_pairs(l->rails, why, sizeof(why));
	struct kv_hub_node n;
	bool is_news = kv_hub_rails_are_news(l->ch->hub, &l->want, rails,
					     rails < pairs, &n);

	if (is_news && rails < pairs)
		kv_info("node %s: RDMA, %u rail%s of %u: %s", n.name, rails,
			rails == 1 ? "" : "s", pairs, why);
	else if (is_news)
		kv_info("node %s: RDMA, %u rail%s", n.name, rails,
			rails == 1 ? "" : "s");
}

/* Where this process has no RDMA that is no news of the node's. Where it has
 * some, somebody counts on it. */
static void
say_none(const struct kv_link *l, const char *why)
{
	const struct kv_hub *hub = l->ch->hub;
	enum kv_log_level level = hub->rdma ? KV_LOG_WARN : KV_LOG_DEBUG;
	struct kv_hub_node n;

	if (!kv_hub_path_is_news(l->ch->hub, &l->want, KV_HUB_PATH_TCP, why,
				 &n))
		return;
	if (hub->rdma_only)
		kv_warn("node %s cannot be reached by RDMA: %s", n.name, why);
	else if (kv_log_is_on(level))
		kv_log(level, "node %s: TCP: %s", n.name, why);
}

static void
say_missing(const struct kv_link *l, char *out, size_t n)
{
	unsigned rails = kv_link_rails(l), pairs;
	char why[KV_HUB_WHY_BYTES];

	pairs = kv_rdmalink_pairs(l->rails, why, sizeof(why));
	if (rails < pairs)
		snprintf(out, n, "%u of %u rails: %s", rails, pairs, why);
}

void
kv_link_rails_why(const struct kv_link *l, char *out, size_t n)
{
	struct kv_hub *hub = l->ch->hub;
	struct kv_hub_node node;
	const char *why = l->rails ? kv_rdmalink_why(l->rails) : "";

	*out = '\0';
	if (l->is_local)
		return;
	if (kv_link_rails(l) > 0)
		say_missing(l, out, n);
	else if (!hub->rdma)
		snprintf(out, n, "%s", hub->no_rdma);
	else if (*why)
		snprintf(out, n, "%s", why);
	else if (kv_hub_node(hub, &l->want, &node))
		snprintf(out, n, "%s", node.why);
}

/* ---- life ---- */

/* They are there, or time is over. */
static void
waited(struct kv_link *l)
{
	unsigned rails = kv_rdmalink_rails(l->rails);
	const char *why = kv_rdmalink_why(l->rails);

	kv_loop_timer_del(&l->rails_timer);
	if (rails > 0)
		say_rails(l, rails);
	else
		say_none(l, *why ? why : "no rail came up in time");
	if (rails > 0)
		kv_link_fast_begin(l);
	if (l->data.state == KV_LINK_RAILS)
		kv_link_is_up(&l->data);
}

/* Whether the last connection to the node had to do without: then this one
 * begins with TCP. */
static bool
is_in_vain(const struct kv_link *l)
{
	struct kv_hub_node n;

	return !l->ch->hub->rdma_only &&
	       kv_hub_node(l->ch->hub, &l->want, &n) &&
	       n.path == KV_HUB_PATH_TCP;
}

static void
settled(struct kv_rdmalink *r)
{
	waited(kv_rdmalink_arg(r));
}

static void
expired(struct kv_timer *t)
{
	waited(KV_CONTAINER_OF(t, struct kv_link, rails_timer));
}

static void
wait_until(struct kv_link *l, uint64_t ns)
{
	l->data.state = KV_LINK_RAILS;
	l->rails_timer.fn = expired;
	kv_loop_timer_set(l->ch->loop, &l->rails_timer, ns);
}

static int
rails_new(struct kv_link *l)
{
	struct kv_chan *ch = l->ch;
	const struct kv_rdmalink_opts o = {
		.dials = true,
		.token = l->data.token,
		.ops = &ops,
		.arg = l,
	};

	if (!ch->rdma)
		ch->rdma = kv_rdmaloop_new(ch->hub->rdma, ch->loop, false);
	if (ch->rdma)
		l->rails = kv_rdmalink_new(ch->rdma, l->data.conn, &o);
	return l->rails ? 0 : -errno;
}

bool
kv_link_rails_begin(struct kv_link *l, uint64_t features)
{
	uint64_t now = kv_loop_now(l->ch->loop);
	int rc;

	if (!l->ch->hub->rdma) {
		say_none(l, l->ch->hub->no_rdma);
		return false;
	}
	if (!(features & KV_FEATURE_RDMA)) {
		say_none(l, "the node has no RDMA");
		return false;
	}
	rc = rails_new(l);
	if (rc < 0) {
		say_none(l, strerror(-rc));
		return false;
	}
	if (is_in_vain(l))
		return false;
	wait_until(l, kv_min_u64(now + SETTLE_NS, l->deadline));
	return true;
}

bool
kv_link_rails_await(struct kv_link *l)
{
	uint64_t now = kv_loop_now(l->ch->loop);

	if (!l->ch->hub->rdma_only || !l->rails ||
	    kv_rdmalink_rails(l->rails) > 0 || !kv_rdmalink_wake(l->rails))
		return false;
	wait_until(l, now + SETTLE_NS);
	return true;
}

bool
kv_link_rails_take(struct kv_link *l, const struct kv_msg *msg, bool *is_good)
{
	if (!kv_rdmalink_is_for(msg->type))
		return false;
	*is_good = l->rails && kv_rdmalink_take(l->rails, msg);
	return true;
}

void
kv_link_rails_end(struct kv_link *l)
{
	struct kv_rdmalink *rails = l->rails;

	kv_loop_timer_del(&l->rails_timer);
	/* What it calls back finds none. */
	l->rails = NULL;
	kv_rdmalink_free(rails);
}
