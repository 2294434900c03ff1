/* Where the headers of verbs are not: what others call of rdma*.c. */
#include <errno.h>
#include <stdio.h>

#include "xfer/rdmaregion.h"

static const char why_not[] =
	"built without the headers of verbs; install libibverbs-dev and "
	"librdmacm-dev, and build again";

/* ---- rdmadev.h ---- */

long
kv_rdmadev_list(const struct kv_rdmadev_opts *o, struct kv_rdmadev **list,
		char *err, size_t n)
{
	(void)o;
	*list = NULL;
	snprintf(err, n, "%s", why_not);
	return -ENOTSUP;
}

/* ---- rdma.h ---- */

struct kv_rdma *
kv_rdma_open(const struct kv_rdma_opts *o, char *err, size_t n)
{
	(void)o;
	snprintf(err, n, "%s", why_not);
	errno = ENOTSUP;
	return NULL;
}

void
kv_rdma_close(struct kv_rdma *r)
{
	(void)r;
}

unsigned
kv_rdma_ports(const struct kv_rdma *r)
{
	(void)r;
	return 0;
}

const struct kv_rdmadev *
kv_rdma_port(const struct kv_rdma *r, unsigned number)
{
	(void)r;
	(void)number;
	return NULL;
}

/* ---- rdmaregion.h ---- */

struct kv_rdmaregion *
kv_rdmaregion_new(struct kv_rdma *r, void *addr, size_t bytes,
		  enum kv_rdmaregion_use use)
{
	(void)r;
	(void)addr;
	(void)bytes;
	(void)use;
	errno = ENOTSUP;
	return NULL;
}

void
kv_rdmaregion_free(struct kv_rdmaregion *g)
{
	(void)g;
}

struct kv_rdmaregion *
kv_rdmaregion_pool(struct kv_rdma *r, const struct kv_rdmaregion_pool_opts *o)
{
	(void)r;
	(void)o;
	errno = ENOTSUP;
	return NULL;
}

void
kv_rdmaregion_ready(struct kv_rdmaregion *g, uint64_t end, bool is_last)
{
	(void)g;
	(void)end;
	(void)is_last;
}

bool
kv_rdmaregion_is_complete(const struct kv_rdmaregion *g)
{
	(void)g;
	return false;
}

unsigned
kv_rdmaregion_near(const struct kv_rdmaregion *g, uint64_t off, uint64_t bytes,
		   struct kv_rdmarange *out, unsigned max)
{
	(void)g;
	(void)off;
	(void)bytes;
	(void)out;
	(void)max;
	return 0;
}

const struct kv_rdmamem *
kv_rdmaregion_far(const struct kv_rdmaregion *g)
{
	(void)g;
	return NULL;
}
