/* Where the headers of verbs are not: what others call of rdma*.c. */
#include <errno.h>
#include <stdio.h>

#include "xfer/rdmacall.h"
#include "xfer/rdmalink.h"
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

unsigned
kv_rdmaregion_near_max(const struct kv_rdmaregion *g, uint64_t bytes)
{
	(void)g;
	(void)bytes;
	return 0;
}

const struct kv_rdmamem *
kv_rdmaregion_far(const struct kv_rdmaregion *g)
{
	(void)g;
	return NULL;
}

/* ---- rdmaloop.h ---- */

struct kv_rdmaloop *
kv_rdmaloop_new(struct kv_rdma *r, struct kv_loop *loop, bool listens)
{
	(void)r;
	(void)loop;
	(void)listens;
	errno = ENOTSUP;
	return NULL;
}

void
kv_rdmaloop_free(struct kv_rdmaloop *rl)
{
	(void)rl;
}

unsigned
kv_rdmaloop_rails(const struct kv_rdmaloop *rl,
		  struct kv_rail_rec out[KV_RAILS_MAX])
{
	(void)rl;
	(void)out;
	return 0;
}

/* ---- rdmalink.h: there is none ---- */

struct kv_rdmalink *
kv_rdmalink_new(struct kv_rdmaloop *rl, struct kv_conn *c,
		const struct kv_rdmalink_opts *o)
{
	(void)rl;
	(void)c;
	(void)o;
	errno = ENOTSUP;
	return NULL;
}

void
kv_rdmalink_free(struct kv_rdmalink *l)
{
	(void)l;
}

void *
kv_rdmalink_arg(const struct kv_rdmalink *l)
{
	(void)l;
	return NULL;
}

void
kv_rdmalink_tell(struct kv_rdmalink *l)
{
	(void)l;
}

bool
kv_rdmalink_take(struct kv_rdmalink *l, const struct kv_msg *msg)
{
	(void)l;
	(void)msg;
	return false;
}

bool
kv_rdmalink_wake(struct kv_rdmalink *l)
{
	(void)l;
	return false;
}

unsigned
kv_rdmalink_rails(const struct kv_rdmalink *l)
{
	(void)l;
	return 0;
}

unsigned
kv_rdmalink_pairs(const struct kv_rdmalink *l, char *why, size_t n)
{
	(void)l;
	snprintf(why, n, "%s", "");
	return 0;
}

bool
kv_rdmalink_path(const struct kv_rdmalink *l, struct in6_addr *near,
		 struct in6_addr *far)
{
	(void)l;
	(void)near;
	(void)far;
	return false;
}

bool
kv_rdmalink_is_settled(const struct kv_rdmalink *l)
{
	(void)l;
	return false;
}

const char *
kv_rdmalink_why(const struct kv_rdmalink *l)
{
	(void)l;
	return "";
}

void
kv_rdmalink_start(struct kv_rdmalink *l, struct kv_rdmaxfer *x)
{
	(void)l;
	(void)x;
}

void
kv_rdmalink_cancel(struct kv_rdmaxfer *x)
{
	(void)x;
}

void
kv_rdmalink_await(struct kv_rdmalink *l, struct kv_rdmaend *e)
{
	(void)l;
	(void)e;
}

void
kv_rdmalink_forget(struct kv_rdmaend *e)
{
	(void)e;
}

/* ---- rdmacall.h ---- */

struct kv_rdmacall *
kv_rdmacall_new(const struct kv_rdmacall_opts *o)
{
	(void)o;
	errno = ENOTSUP;
	return NULL;
}

void
kv_rdmacall_free(struct kv_rdmacall *c)
{
	(void)c;
}

void
kv_rdmacall_listen(struct kv_rdmacall *c, uint16_t port, kv_net_accept_fn *fn,
		   void *arg)
{
	(void)c;
	(void)port;
	(void)fn;
	(void)arg;
}

unsigned
kv_rdmacall_listens(const struct kv_rdmacall *c)
{
	(void)c;
	return 0;
}

void
kv_rdmacall_unlisten(struct kv_rdmacall *c)
{
	(void)c;
}

struct kv_rdmacall_dial *
kv_rdmacall_dial(struct kv_rdmacall *c, const struct kv_rdmacall_to *to,
		 kv_net_connect_fn *fn, void *arg)
{
	(void)c;
	(void)to;
	(void)fn;
	(void)arg;
	errno = ENOTSUP;
	return NULL;
}

void
kv_rdmacall_cancel(struct kv_rdmacall_dial *d)
{
	(void)d;
}
