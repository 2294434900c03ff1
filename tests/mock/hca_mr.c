/* Protection domains, registered memory and its keys. */

#include "hca_internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/num.h"

enum {
	PAGE_BYTES = 4096,
};

#define ACCESS_KNOWN                                        \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | \
	 IBV_ACCESS_REMOTE_READ | IBV_ACCESS_HUGETLB |      \
	 IBV_ACCESS_OPTIONAL_RANGE)

static struct ibv_pd *
alloc_pd(struct ibv_context *ibctx)
{
	struct hca_ctx *ctx = (struct hca_ctx *)ibctx;
	struct hca_pd *pd;

	if (ctx->dev->removed) {
		errno = EIO;
		return NULL;
	}
	pd = hca_alloc(sizeof(*pd));
	pd->pd.context = ibctx;
	ctx->n_objects++;
	return &pd->pd;
}

static int
dealloc_pd(struct ibv_pd *ibpd)
{
	struct hca_pd *pd = (struct hca_pd *)ibpd;

	if (pd->n_objects || pd->n_mrs)
		return EBUSY;
	((struct hca_ctx *)ibpd->context)->n_objects--;
	free(pd);
	return 0;
}

/* ---- keys ---- */

static uint64_t
locked_bytes(const struct hca_mr *m)
{
	return kv_div_up_u64(m->mr.length, PAGE_BYTES) * PAGE_BYTES;
}

/* Grows the table by one. */
static uint32_t
key_slot(struct hca_dev *dev)
{
	size_t n = dev->n_keys + 1;

	if (dev->n_free)
		return dev->free_keys[--dev->n_free];
	assert(n < 1u << HCA_KEY_BITS);
	dev->keys = realloc(dev->keys, n * sizeof(struct hca_mr *));
	dev->free_keys = realloc(dev->free_keys, n * sizeof(uint32_t));
	assert(dev->keys && dev->free_keys);
	return dev->n_keys++;
}

static int
key_add(struct hca_mr *m)
{
	struct hca_host *host = m->dev->host;
	int err = 0;

	KV_LOCKED(&host->lock) {
		if (m->dev->removed) {
			err = EIO;
		} else if (host->locked + locked_bytes(m) > host->memlock) {
			err = ENOMEM;
		} else {
			uint32_t slot = key_slot(m->dev);

			host->locked += locked_bytes(m);
			m->serial = ++host->mr_serial;
			m->dev->keys[slot] = m;
			m->mr.lkey = m->mr.rkey =
				(m->dev->ordinal + 1) << HCA_KEY_BITS | slot;
			((struct hca_pd *)m->mr.pd)->n_mrs++;
		}
	}
	return err;
}

static void
key_del(struct hca_mr *m)
{
	struct hca_dev *dev = m->dev;
	uint32_t slot = m->mr.lkey & ((1u << HCA_KEY_BITS) - 1);

	KV_LOCKED(&dev->host->lock) {
		dev->keys[slot] = NULL;
		dev->free_keys[dev->n_free++] = slot;
		dev->host->locked -= locked_bytes(m);
		((struct hca_pd *)m->mr.pd)->n_mrs--;
	}
}

static struct ibv_mr *
reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t bytes, uint64_t iova,
	     unsigned access)
{
	struct hca_ctx *ctx = (struct hca_ctx *)pd->context;
	struct hca_mr *m;

	if (bytes == 0 || (access & ~(unsigned)ACCESS_KNOWN) ||
	    ((access & IBV_ACCESS_REMOTE_WRITE) &&
	     !(access & IBV_ACCESS_LOCAL_WRITE))) {
		errno = EINVAL;
		return NULL;
	}
	m = hca_alloc(sizeof(*m));
	m->dev = ctx->dev;
	m->iova = iova;
	m->access = access;
	m->mr.context = pd->context;
	m->mr.pd = pd;
	m->mr.addr = addr;
	m->mr.length = bytes;
	errno = key_add(m);
	if (errno == 0)
		return &m->mr;
	free(m);
	return NULL;
}

static struct ibv_mr *
reg_mr(struct ibv_pd *pd, void *addr, size_t bytes, int access)
{
	return reg_mr_iova2(pd, addr, bytes, (uintptr_t)addr, (unsigned)access);
}

static int
dereg_mr(struct ibv_mr *ibmr)
{
	struct hca_mr *m = (struct hca_mr *)ibmr;

	key_del(m);
	free(m);
	return 0;
}

/* ---- memory by key ---- */

uint8_t *
hca_mr_find(struct hca_dev *dev, struct ibv_pd *pd, uint32_t key, uint64_t addr,
	    uint64_t bytes, unsigned access)
{
	uint32_t slot = key & ((1u << HCA_KEY_BITS) - 1);
	uint8_t *p = NULL;

	if (key >> HCA_KEY_BITS != dev->ordinal + 1)
		return NULL;
	KV_LOCKED(&dev->host->lock) {
		const struct hca_mr *m =
			slot < dev->n_keys ? dev->keys[slot] : NULL;

		if (m && m->mr.pd == pd && (m->access & access) == access &&
		    addr >= m->iova && bytes <= m->mr.length &&
		    addr - m->iova <= m->mr.length - bytes)
			p = (uint8_t *)m->mr.addr + (addr - m->iova);
	}
	return p;
}

uint64_t
hca_mr_serial(struct hca_dev *dev, uint32_t key)
{
	uint32_t slot = key & ((1u << HCA_KEY_BITS) - 1);
	uint64_t serial = 0;

	KV_LOCKED(&dev->host->lock) {
		if (slot < dev->n_keys && dev->keys[slot])
			serial = dev->keys[slot]->serial;
	}
	return serial;
}

/* One piece of memory of a part of a list. */
typedef void copy_fn(uint8_t *mem, void *bytes, size_t n);

static bool
each_piece(const struct hca_part *part, unsigned access, copy_fn *fn,
	   uint8_t *bytes)
{
	uint64_t off = part->off, left = part->len;

	for (int i = 0; i < part->n_sge && left; i++) {
		const struct ibv_sge *s = &part->sge[i];
		uint64_t n;
		uint8_t *mem;

		if (off >= s->length) {
			off -= s->length;
			continue;
		}
		n = kv_min_u64(left, s->length - off);
		/* All of the entry has to be right, not only what is used. */
		mem = hca_mr_find(part->dev, part->pd, s->lkey, s->addr,
				  s->length, access);
		if (!mem)
			return false;
		fn(mem + off, bytes, n);
		bytes += n;
		left -= n;
		off = 0;
	}
	return left == 0;
}

static void
copy_out(uint8_t *mem, void *bytes, size_t n)
{
	memcpy(bytes, mem, n);
}

static void
copy_in(uint8_t *mem, void *bytes, size_t n)
{
	memcpy(mem, bytes, n);
}

bool
hca_gather(const struct hca_part *part, uint8_t *bytes)
{
	return each_piece(part, 0, copy_out, bytes);
}

bool
hca_scatter(const struct hca_part *part, const uint8_t *bytes)
{
	return each_piece(part, IBV_ACCESS_LOCAL_WRITE, copy_in,
			  kv_unconst(bytes));
}

uint64_t
hca_sge_bytes(const struct ibv_sge *sge, int n)
{
	uint64_t bytes = 0;

	for (int i = 0; i < n; i++)
		bytes += sge[i].length;
	return bytes;
}

void
hca_mr_calls(struct kv_rdmaverbs *v)
{
	v->alloc_pd = alloc_pd;
	v->dealloc_pd = dealloc_pd;
	v->reg_mr = reg_mr;
	v->reg_mr_iova2 = reg_mr_iova2;
	v->dereg_mr = dereg_mr;
}
