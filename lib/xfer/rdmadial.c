/* When ports are dialled, and how. See rdmalinkcore.h. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/attr.h"
#include "base/log.h"
#include "base/num.h"
#include "xfer/rdmalinkcore.h"

#define DIAL_NS      (1 * KV_NS_PER_S)
#define SETTLE_NS    (500 * KV_NS_PER_MS)
#define PAUSE_NS     (100 * KV_NS_PER_MS)
#define PAUSE_NS_MAX (5 * KV_NS_PER_S)

/* ---- words ---- */

static const char *
word_of(int why)
{
	switch (-why) {
	case EHOSTUNREACH:
		return "no way leads there";
	case ECONNREFUSED:
		return "refused";
	case ETIMEDOUT:
		return "no answer";
	case ECONNRESET:
		return "ended by the other side";
	case ENOSPC:
		return "there are too many queue pairs";
	case ENOLINK:
		return "the other side does not offer that port any more";
	case EDQUOT:
		return "nobody used its queue pairs, and others wanted some";
	case ENETDOWN:
		return "the port is down";
	case EADDRNOTAVAIL:
		return "the port has no such GID";
	case EPROTOTYPE:
		return "InfiniBand at one end, Ethernet at the other";
	case ENODEV:
		return "the device is gone, or its queues are full";
	default:
		return strerror(-why);
	}
}

struct ip_text {
	char all[INET6_ADDRSTRLEN];
};

static const char *
ip_text(const struct kv_rail_rec *rec, struct ip_text *t)
{
	inet_ntop(AF_INET6, rec->ip, t->all, sizeof(t->all));
	return strncmp(t->all, "::ffff:", 7) == 0 ? t->all + 7 : t->all;
}

void
kv_rdmadial_why(const struct kv_rdmalink *l, const struct kv_rdmarail *rail,
		char *out, size_t n)
{
	const struct kv_rdmadev *dev = &l->rl->watch.devs[rail->near];
	struct ip_text ip;

	snprintf(out, n, "%s port %u to %s: %s", dev->name, dev->port,
		 l->o.dials ? ip_text(&rail->to, &ip) : "who dialled",
		 rail->lost ? word_of(rail->lost) : "being connected");
}

static const char *
layer_word(bool is_ethernet)
{
	return is_ethernet ? "Ethernet" : "InfiniBand";
}

/* No pair of ports can be connected. */
static void
say_unpaired(struct kv_rdmalink *l)
{
	const struct kv_rdmadev *devs = l->rl->watch.devs, *dev = devs;
	struct ip_text ip;

	while (dev + 1 < devs + l->rl->r->n && dev->is_awaited)
		dev++;
	if (dev->is_awaited)
		snprintf(l->why, sizeof(l->why), "%.63s port %u to %s: %s",
			 devs->name, devs->port, ip_text(&l->recs[0], &ip),
			 word_of(-ENETDOWN));
	else
		snprintf(l->why, sizeof(l->why),
			 "%.63s port %u to %s: %s here, %s there", dev->name,
			 dev->port, ip_text(&l->recs[0], &ip),
			 layer_word(dev->is_ethernet),
			 layer_word(l->recs[0].layer == KV_RAIL_ETHERNET));
}

/* Of the first pair of ports that differ. */
static void
say_mtu(struct kv_rdmalink *l, const struct kv_rdmarail *rail)
{
	const struct kv_rdmadev *dev = &l->rl->watch.devs[rail->near];
	unsigned here = 128U << l->rl->r->nics[rail->near].mtu;
	unsigned there = 128U << rail->to.mtu;
	struct ip_text ip;

	if (here == there || l->rl->is_mtu_said)
		return;
	l->rl->is_mtu_said = true;
	kv_info("rdma: %s port %u to %s: an MTU of %u here, of %u there: the "
		"smaller one is used",
		dev->name, dev->port, ip_text(&rail->to, &ip), here, there);
}

/* ---- rails ---- */

double
kv_rdmadial_speed(uint32_t mbit_per_s)
{
	return (mbit_per_s ? mbit_per_s : 10000) / 8000.0;
}

static void
rail_clear(struct kv_rdmalink *l, struct kv_rdmarail *rail)
{
	uint64_t bits = rail->slots;

	while (bits)
		kv_rdmarail_drop(l->slots[kv_rdmalink_pop(&bits)], -ENOLINK);
	*rail = (struct kv_rdmarail){ 0 };
	kv_rdmarail_share(l, rail);
}

static struct kv_rdmarail *
rail_find(struct kv_rdmalink *l, unsigned near, const struct kv_rail_rec *to)
{
	struct kv_rdmarail *rail;

	for (rail = l->rails; rail < l->rails + KV_RDMALINK_RAILS; rail++)
		if (rail->is_used && rail->near == near &&
		    memcmp(&rail->to, to, sizeof(*to)) == 0)
			return rail;
	return NULL;
}

/* The connection manager can do it. */
static bool
is_managed(const struct kv_rdmalink *l, const struct kv_rdmarail *rail)
{
	return l->rl->cm && l->rl->watch.devs[rail->near].n_ips > 0 &&
	       kv_get16(rail->to.port) != 0;
}

static void
rail_aim(const struct kv_rdmalink *l, struct kv_rdmarail *rail,
	 const struct kv_rail_rec *to)
{
	rail->to = *to;
	rail->far = to->number;
	rail->by_join = !is_managed(l, rail);
}

static void
rail_new(struct kv_rdmalink *l, unsigned near, const struct kv_rail_rec *to)
{
	struct kv_rdmarail *rail = l->rails;

	while (rail->is_used)
		rail++;
	*rail = (struct kv_rdmarail){
		.is_used = true,
		.near = (uint8_t)near,
		.ramp = 1,
		.pause_ns = PAUSE_NS,
	};
	rail_aim(l, rail, to);
	say_mtu(l, rail);
}

/* Of ports that are in several pairs each has its part. */
static void
speeds_set(struct kv_rdmalink *l)
{
	unsigned near[KV_RDMA_PORTS_MAX] = { 0 }, far[KV_RAILS_MAX] = { 0 };
	struct kv_rdmarail *rail, *end = l->rails + KV_RDMALINK_RAILS;
	double n, f;

	for (rail = l->rails; rail < end; rail++) {
		near[rail->near] += rail->is_used;
		far[rail->far] += rail->is_used;
	}
	for (rail = l->rails; rail < end; rail++) {
		if (!rail->is_used)
			continue;
		n = kv_rdmadial_speed(
			    l->rl->watch.devs[rail->near].mbit_per_s) /
		    near[rail->near];
		f = kv_rdmadial_speed(kv_get32(rail->to.mbit_per_s)) /
		    far[rail->far];
		rail->speed = n < f ? n : f;
		kv_rdmarail_share(l, rail);
	}
}

static uint32_t
changes_of(const struct kv_rdmalink *l)
{
	uint32_t sum = 0;
	unsigned i;

	for (i = 0; i < l->rl->r->n; i++)
		sum += l->rl->watch.seen[i].changes;
	return sum;
}

/* Rails that were there before go on. */
static void
rails_set(struct kv_rdmalink *l)
{
	struct kv_rdmapair pairs[KV_RDMALINK_RAILS];
	const struct kv_rdma *r = l->rl->r;
	uint32_t stay = 0, fresh = 0;
	struct kv_rdmarail *rail;
	unsigned i, n;

	l->paired_as_of = changes_of(l);
	n = kv_rdmapair_find(l->rl->watch.devs, r->n, l->recs, l->n_recs,
			     pairs);
	if (n == 0 && l->n_recs > 0)
		say_unpaired(l);
	for (i = 0; i < n; i++) {
		rail = rail_find(l, pairs[i].near, &l->recs[pairs[i].far]);
		if (rail)
			stay |= 1u << (rail - l->rails);
		else
			fresh |= 1u << i;
	}
	for (i = 0; i < KV_RDMALINK_RAILS; i++)
		if (l->rails[i].is_used && !(stay >> i & 1))
			rail_clear(l, &l->rails[i]);
	for (i = 0; i < n; i++)
		if (fresh >> i & 1)
			rail_new(l, pairs[i].near, &l->recs[pairs[i].far]);
	speeds_set(l);
}

static bool
rec_is_good(const struct kv_rail_rec *rec)
{
	static const uint8_t zero[sizeof(rec->zero)];

	return rec->number < KV_RAILS_MAX && rec->bits <= 128 &&
	       (rec->layer == KV_RAIL_INFINIBAND ||
		rec->layer == KV_RAIL_ETHERNET) &&
	       rec->mtu >= IBV_MTU_256 && rec->mtu <= IBV_MTU_4096 &&
	       memcmp(rec->zero, zero, sizeof(zero)) == 0;
}

static void
settle_later(struct kv_rdmalink *l)
{
	l->is_settled = false;
	l->settle_ns = kv_loop_now(l->loop) + SETTLE_NS;
}

/* Each number once: keys go by it. */
static bool
recs_are_good(const struct kv_rail_rec *recs, unsigned n)
{
	uint32_t seen = 0;
	unsigned i;

	for (i = 0; i < n; i++) {
		if (!rec_is_good(&recs[i]) || seen >> recs[i].number & 1)
			return false;
		seen |= 1u << recs[i].number;
	}
	return true;
}

bool
kv_rdmadial_take(struct kv_rdmalink *l, const struct kv_msg *msg)
{
	const struct kv_rails *body = msg->body;
	uint32_t n = kv_get32(body->count);
	bool is_first = !l->is_told || l->n_recs == 0;
	struct kv_rail_rec recs[KV_RAILS_MAX];

	if (n > KV_RAILS_MAX || kv_get32(body->zero) != 0 ||
	    msg->tail_len != n * sizeof(recs[0]))
		return false;
	if (n > 0)
		memcpy(recs, msg->tail, msg->tail_len);
	if (!recs_are_good(recs, n))
		return false;
	if (n == 0 && kv_rdmarest_leave(l))
		return true;
	if (kv_rdmarest_stay(l))
		kv_rdmadial_again(l);
	if (l->is_told && n == l->n_recs &&
	    memcmp(l->recs, recs, n * sizeof(recs[0])) == 0)
		return true;
	memcpy(l->recs, recs, n * sizeof(recs[0]));
	l->n_recs = n;
	rails_set(l);
	l->is_told = true;
	if (is_first)
		settle_later(l);
	kv_rdmadial_look(l);
	return true;
}

/* ---- dialling ---- */

void
kv_rdmadial_leave(struct kv_rdmalink *l)
{
	l->is_leaving = false;
	l->n_recs = 0;
	rails_set(l);
}

static int
dial_managed(struct kv_rdmaslot *s)
{
	struct kv_rdmalink *l = s->l;
	const struct kv_rdmarail *rail = s->rail;
	const struct kv_rdmadev *dev = &l->rl->watch.devs[rail->near];
	struct kv_rail_word word = {
		.magic = kv_le32(KV_RAIL_MAGIC),
		.qp = kv_le32(s->id),
		.token = kv_le64(l->o.token),
		.near = rail->near,
		.far = rail->far,
		.mtu = l->rl->r->nics[rail->near].mtu,
	};
	const struct kv_rdmaconn_opts o = {
		.ops = &kv_rdmarail_conn_ops,
		.arg = s,
		.word = &word,
		.bytes = sizeof(word),
		.deadline_ns = kv_loop_now(l->loop) + DIAL_NS,
		.mtu = (uint8_t)kv_min_u64(word.mtu, rail->to.mtu),
	};
	struct sockaddr_storage from, to;

	kv_rdma_sockaddr(&dev->ips[kv_rdmapair_ip(dev, &rail->to)], 0, &from);
	kv_rdma_sockaddr(rail->to.ip, kv_get16(rail->to.port), &to);
	s->conn = kv_rdmacm_dial(l->rl->cm, (struct sockaddr *)&from,
				 (struct sockaddr *)&to, &o);
	return s->conn ? 0 : -errno;
}

/* 0; or no memory. */
static int
dial(struct kv_rdmalink *l, struct kv_rdmarail *rail)
{
	struct kv_rdmaslot *s = kv_rdmarail_slot(l, rail, l->next_qp++);
	int rc;

	if (!s)
		return -ENOMEM;
	s->by_join = rail->by_join;
	rc = s->by_join ? kv_rdmarailjoin_dial(s) : dial_managed(s);
	if (rc < 0)
		kv_rdmarail_drop(s, rc);
	return 0;
}

static void
back_off(struct kv_rdmalink *l, struct kv_rdmarail *rail)
{
	uint64_t pause = rail->pause_ns;

	rail->dial_ns = kv_loop_now(l->loop) + pause / 2 +
			kv_rng_below(&l->rng, pause / 2);
	rail->pause_ns = kv_min_u64(2 * pause, PAUSE_NS_MAX);
}

void
kv_rdmadial_up(struct kv_rdmarail *rail)
{
	rail->is_proven = true;
	rail->tries = 0;
	rail->pause_ns = PAUSE_NS;
}

void
kv_rdmadial_port_up(struct kv_rdmalink *l, unsigned port)
{
	struct kv_rdmarail *rail;
	uint64_t bits;

	if (l->o.dials && l->n_recs > 0 && l->paired_as_of != changes_of(l))
		rails_set(l);
	for (rail = l->rails; rail < l->rails + KV_RDMALINK_RAILS; rail++) {
		if (!l->o.dials || !rail->is_used || rail->near != port)
			continue;
		/* Those being dialled wait for what was never sent. */
		bits = rail->slots & ~rail->up;
		while (bits)
			kv_rdmarail_drop(l->slots[kv_rdmalink_pop(&bits)],
					 -ENETDOWN);
		rail->pause_ns = PAUSE_NS;
		rail->dial_ns = 0;
	}
	kv_rdmadial_look(l);
}

static bool
is_paired(const struct kv_rdmalink *l, uint8_t near, uint8_t far)
{
	unsigned i;

	for (i = 0; i < KV_RDMALINK_RAILS; i++)
		if (l->rails[i].is_used && l->rails[i].near == near &&
		    l->rails[i].far == far)
			return true;
	return false;
}

/* The other way to the same port, perhaps. */
static bool
try_other_way(const struct kv_rdmalink *l, struct kv_rdmarail *rail)
{
	if (rail->is_proven || !is_managed(l, rail))
		return false;
	rail->by_join = !rail->by_join;
	return rail->by_join;
}

/* Another port of the other side, perhaps. */
static bool
try_next(const struct kv_rdmalink *l, struct kv_rdmarail *rail)
{
	const struct kv_rail_rec *to;
	unsigned i = 0;

	if (rail->is_proven)
		return false;
	while (i < l->n_recs && l->recs[i].number != rail->far)
		i++;
	while (++rail->tries % l->n_recs != 0) {
		to = &l->recs[++i % l->n_recs];
		if (is_paired(l, rail->near, to->number) ||
		    !kv_rdmapair_is_linked(&l->rl->watch.devs[rail->near], to))
			continue;
		rail_aim(l, rail, to);
		return true;
	}
	return false;
}

/* How it goes on, of a rail that is dialled. */
static void
go_on(struct kv_rdmalink *l, struct kv_rdmarail *rail)
{
	if (try_other_way(l, rail) || (l->n_recs > 0 && try_next(l, rail))) {
		rail->dial_ns = 0;
	} else if (rail->dial_ns <= kv_loop_now(l->loop)) {
		rail->has_failed = true;
		back_off(l, rail);
	}
}

void
kv_rdmadial_lost(struct kv_rdmalink *l, struct kv_rdmarail *rail,
		 const struct kv_rdmaslot *s, int why)
{
	/* One of several dials to a port, or in a way, that was left
	 * already: another one takes its place. */
	bool is_old = s->far != rail->far || s->by_join != rail->by_join;

	if (!is_old) {
		rail->lost = why;
		kv_rdmadial_why(l, rail, l->why, sizeof(l->why));
		kv_debug("rdma: %s", l->why);
	}
	if (!l->o.dials || l->is_closing)
		return;
	if (!is_old)
		go_on(l, rail);
	(void)kv_loop_timer_set(l->loop, &l->dial, kv_loop_now(l->loop));
}

/* ---- the timer ---- */

static bool
is_decided(const struct kv_rdmarail *rail)
{
	return !rail->is_used || rail->has_failed ||
	       (rail->up && rail->up == rail->slots);
}

static void
settle(struct kv_rdmalink *l)
{
	unsigned i;

	if (l->is_settled || !l->is_told)
		return;
	for (i = 0; i < KV_RDMALINK_RAILS && is_decided(&l->rails[i]); i++)
		;
	if (i < KV_RDMALINK_RAILS && kv_loop_now(l->loop) < l->settle_ns)
		return;
	l->is_settled = true;
	if (l->o.ops && l->o.ops->settled)
		kv_loop_defer(l->loop, &l->settled);
}

static bool
is_short(const struct kv_rdmalink *l, const struct kv_rdmarail *rail)
{
	return rail->is_used && !l->is_resting && !l->is_leaving &&
	       (unsigned)__builtin_popcountll(rail->slots) < l->rl->r->env.qps;
}

static void
rail_dial(struct kv_rdmalink *l, struct kv_rdmarail *rail)
{
	uint64_t now = kv_loop_now(l->loop);

	while (is_short(l, rail) && rail->dial_ns <= now)
		if (dial(l, rail) < 0)
			back_off(l, rail);
}

static void
on_dial(struct kv_timer *t)
{
	struct kv_rdmalink *l = KV_CONTAINER_OF(t, struct kv_rdmalink, dial);
	uint64_t next = UINT64_MAX;
	struct kv_rdmarail *rail;

	for (rail = l->rails; rail < l->rails + KV_RDMALINK_RAILS; rail++) {
		rail_dial(l, rail);
		if (is_short(l, rail))
			next = kv_min_u64(next, rail->dial_ns);
	}
	settle(l);
	if (l->is_told && !l->is_settled)
		next = kv_min_u64(next, l->settle_ns);
	if (next != UINT64_MAX)
		(void)kv_loop_timer_set(l->loop, t, next);
}

void
kv_rdmadial_look(struct kv_rdmalink *l)
{
	if (l->o.dials && !l->is_closing)
		(void)kv_loop_timer_set(l->loop, &l->dial,
					kv_loop_now(l->loop));
}

void
kv_rdmadial_again(struct kv_rdmalink *l)
{
	struct kv_rdmarail *rail;

	for (rail = l->rails; rail < l->rails + KV_RDMALINK_RAILS; rail++) {
		rail->dial_ns = 0;
		rail->pause_ns = PAUSE_NS;
		rail->has_failed = false;
	}
	settle_later(l);
	kv_rdmadial_look(l);
}

static void
on_settled(struct kv_defer *d)
{
	struct kv_rdmalink *l = KV_CONTAINER_OF(d, struct kv_rdmalink, settled);

	l->o.ops->settled(l);
}

void
kv_rdmadial_init(struct kv_rdmalink *l)
{
	l->dial.fn = on_dial;
	l->settled.fn = on_settled;
}

void
kv_rdmadial_fini(struct kv_rdmalink *l)
{
	kv_loop_timer_del(&l->dial);
	kv_loop_defer_del(&l->settled);
}
