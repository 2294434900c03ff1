/* Which ports are paired. See rdmalinkcore.h. */
#include <limits.h>
#include <string.h>

#include "xfer/rdmalinkcore.h"

static bool
is_prefix(const uint8_t *a, const uint8_t *b, unsigned bits)
{
	unsigned whole = bits / 8, rest = bits % 8;

	if (bits == 0 || bits > 128 || memcmp(a, b, whole) != 0)
		return false;
	return rest == 0 || (a[whole] ^ b[whole]) >> (8 - rest) == 0;
}

/* Which of the own addresses is in the network of that one; -1: none. */
static int
ip_near(const struct kv_rdmadev *near, const struct kv_rail_rec *far)
{
	unsigned i, bits;

	for (i = 0; i < near->n_ips; i++) {
		bits = near->ip_bits[i] > far->bits ? near->ip_bits[i]
						    : far->bits;
		if (is_prefix(near->ips[i].s6_addr, far->ip, bits))
			return (int)i;
	}
	return -1;
}

unsigned
kv_rdmapair_ip(const struct kv_rdmadev *near, const struct kv_rail_rec *far)
{
	int i = ip_near(near, far);

	return i < 0 ? 0 : (unsigned)i;
}

/* Of a port that has no IP, the subnet of its GID. */
static bool
is_same_network(const struct kv_rdmadev *near, const struct kv_rail_rec *far)
{
	if (kv_get16(far->port) == 0)
		return is_prefix(near->gid.s6_addr, far->ip, far->bits);
	return ip_near(near, far) >= 0;
}

bool
kv_rdmapair_is_linked(const struct kv_rdmadev *near,
		      const struct kv_rail_rec *far)
{
	return far->layer ==
	       (near->is_ethernet ? KV_RAIL_ETHERNET : KV_RAIL_INFINIBAND);
}

struct choice {
	const struct kv_rdmadev *near;
	const struct kv_rail_rec *far;
	unsigned n_near, n_far;
	unsigned used_near[KV_RDMA_PORTS_MAX], used_far[KV_RAILS_MAX];
};

/* Less is better: another network, then ports that are in pairs already, then
 * how far from its place in the list. UINT_MAX: no way at all. */
static unsigned
cost(const struct choice *c, unsigned near, unsigned far, unsigned used)
{
	unsigned distance = near > far ? near - far : far - near;
	unsigned other = !is_same_network(&c->near[near], &c->far[far]);

	if (c->near[near].is_awaited ||
	    !kv_rdmapair_is_linked(&c->near[near], &c->far[far]))
		return UINT_MAX;
	return other * 10000 + used * 100 + distance;
}

/* c->n_far: none. */
static unsigned
best_far(const struct choice *c, unsigned near)
{
	unsigned far, best = c->n_far, least = UINT_MAX, n;

	for (far = 0; far < c->n_far; far++) {
		n = cost(c, near, far, c->used_far[far]);
		if (n >= least)
			continue;
		least = n;
		best = far;
	}
	return best;
}

static unsigned
best_near(const struct choice *c, unsigned far)
{
	unsigned near, best = c->n_near, least = UINT_MAX, n;

	for (near = 0; near < c->n_near; near++) {
		n = cost(c, near, far, c->used_near[near]);
		if (n >= least)
			continue;
		least = n;
		best = near;
	}
	return best;
}

static void
pair(struct choice *c, unsigned near, unsigned far, struct kv_rdmapair *out)
{
	c->used_near[near]++;
	c->used_far[far]++;
	*out = (struct kv_rdmapair){ (uint8_t)near, (uint8_t)far };
}

unsigned
kv_rdmapair_find(const struct kv_rdmadev *near, unsigned n_near,
		 const struct kv_rail_rec *far, unsigned n_far,
		 struct kv_rdmapair out[KV_RDMALINK_RAILS])
{
	struct choice c = { near, far, n_near, n_far, { 0 }, { 0 } };
	unsigned i, j, n = 0;
	bool is_any = false;

	for (i = 0; i < n_near; i++) {
		j = best_far(&c, i);
		if (j == n_far)
			continue;
		is_any |= is_same_network(&near[i], &far[j]);
		pair(&c, i, j, &out[n++]);
	}
	for (j = 0; j < n_far && n < KV_RDMALINK_RAILS; j++) {
		i = c.used_far[j] ? n_near : best_near(&c, j);
		/* Where networks tell, there is no way to it. */
		if (i < n_near &&
		    (!is_any || is_same_network(&near[i], &far[j])))
			pair(&c, i, j, &out[n++]);
	}
	return n;
}
