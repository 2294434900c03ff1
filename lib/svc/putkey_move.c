/* The bytes of keys that come from another host: what the mover is told, and
 * what becomes of the key. */

#include <errno.h>
#include <stdlib.h>

#include "base/attr.h"
#include "base/fault.h"
#include "base/status.h"
#include "svc/nodewindow.h"
#include "svc/putkey.h"

static void
key_moved(struct kv_move *m)
{
	struct kv_putkey_move *pm =
		KV_CONTAINER_OF(m, struct kv_putkey_move, move);

	kv_putkey_filled(pm->key, kv_status_from_errno(m->status));
}

static int
key_expect(struct kv_putkey *k, struct kv_dataconn *dc)
{
	struct kv_putkey_move *pm = &k->put->moves[k - k->put->keys];

	pm->key = k;
	pm->move.ext = kv_putkey_extents(k);
	pm->move.n_ext = k->n_ext;
	pm->move.bytes = k->size;
	pm->move.ref = k->grant.hash;
	pm->move.done = key_moved;
	return kv_mover_expect(dc, &pm->move);
}

/* ---- by RDMA ---- */

static void
pull_drop(struct kv_putkey_pull *p)
{
	if (p->near != &p->one)
		free(p->near);
	p->near = NULL;
}

/* Whatever it was that RDMA could not do, other means may. */
static int
pull_status(int rc)
{
	if (rc == 0 || rc == -ECONNRESET || rc == -ECANCELED)
		return kv_status_from_errno(rc);
	return KV_ETRANSFER;
}

static void
key_pulled(struct kv_move *m)
{
	struct kv_putkey_pull *p =
		KV_CONTAINER_OF(m, struct kv_putkey_pull, move.move);

	pull_drop(p);
	kv_putkey_filled(p->key, pull_status(m->status));
}

/* Where it goes; mostly one range. 0 or -ENOMEM. */
static int
pull_aim(struct kv_putkey_pull *p)
{
	const struct kv_rdmaregion *pool = p->key->put->node->o.region;
	const struct kv_nodewindow_value v = {
		.ext = kv_putkey_extents(p->key),
		.n_ext = p->key->n_ext,
		.bytes = p->key->size,
	};
	unsigned max;

	p->near = &p->one;
	if (kv_nodewindow_near(pool, &v, p->near, 1))
		return 0;
	max = kv_nodewindow_near_max(pool, &v);
	p->near = KV_FAULT_POINT() ? NULL : malloc(max * sizeof(*p->near));
	if (!p->near)
		return -ENOMEM;
	kv_nodewindow_near(pool, &v, p->near, max);
	return 0;
}

static int
key_pull(struct kv_putkey *k, struct kv_dataconn *dc)
{
	struct kv_putkey_pull *p = &k->put->pulls[k - k->put->keys];
	int rc;

	if (!kv_mover_has_rdma(dc))
		return -EIO; /* KV_ETRANSFER */
	p->key = k;
	rc = pull_aim(p);
	if (rc < 0)
		return rc;
	p->move.xfer.kind = KV_RDMAXFER_READ;
	p->move.xfer.far = p->far;
	p->move.xfer.near = p->near;
	p->move.xfer.bytes = k->size;
	p->move.move.done = key_pulled;
	rc = kv_mover_transfer(dc, &p->move);
	if (rc < 0)
		pull_drop(p);
	return rc;
}

int
kv_putkey_move(struct kv_putkey *k)
{
	struct kv_nodeput *put = k->put;
	struct kv_dataconn *dc = kv_nodepeer_data(put->peer, put->data_token);

	if (!dc)
		return -ECONNRESET;
	return put->mode == KV_MODE_RDMA ? key_pull(k, dc) : key_expect(k, dc);
}

void
kv_putkey_move_cancel(struct kv_putkey *k)
{
	struct kv_nodeput *put = k->put;
	unsigned i = (unsigned)(k - put->keys);

	kv_mover_cancel(put->mode == KV_MODE_RDMA ? &put->pulls[i].move.move
						  : &put->moves[i].move);
}
