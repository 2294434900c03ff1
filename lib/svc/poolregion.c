#include "svc/poolregion.h"

#include <errno.h>

#include "base/attr.h"
#include "base/log.h"
#include "base/str.h"
#include "event/loop.h"

/* On a thread of the region. */
static void
registered(void *arg, int status, const char *why)
{
	struct kv_poolregion *r = arg;

	r->status = status;
	r->why = why;
	kv_mbox_post(r->mbox, &r->mail);
}

static void
heard(struct kv_mail *mail)
{
	struct kv_poolregion *r =
		KV_CONTAINER_OF(mail, struct kv_poolregion, mail);
	uint64_t ns = kv_loop_now(r->mbox->loop) - r->began_ns;
	char bytes[16];

	if (!r->region)
		return;
	if (r->status == 0)
		kv_info("the pool is served by RDMA bytes=\"%s\" ports=%u "
			"seconds=%.1f",
			kv_str_size_format(bytes, sizeof(bytes), r->bytes),
			kv_rdma_ports(r->rdma), (double)ns / KV_NS_PER_S);
	else
		kv_warn("the pool is not served by RDMA: %s", r->why);
	r->done(r, r->status == 0);
}

int
kv_poolregion_init(struct kv_poolregion *r, struct kv_rdma *rdma, void *pool,
		   uint64_t bytes, struct kv_mbox *mbox,
		   void (*done)(struct kv_poolregion *r, bool is_complete))
{
	const struct kv_rdmaregion_pool_opts o = {
		.pool = pool,
		.bytes = bytes,
		.done = registered,
		.arg = r,
	};

	r->rdma = rdma;
	r->mbox = mbox;
	r->done = done;
	r->began_ns = kv_loop_now(mbox->loop);
	r->mail.fn = heard;
	r->region = kv_rdmaregion_pool(rdma, &o);
	return r->region ? 0 : -errno;
}

void
kv_poolregion_fini(struct kv_poolregion *r)
{
	kv_rdmaregion_free(r->region);
	r->region = NULL;
}

void
kv_poolregion_ready(struct kv_poolregion *r, uint64_t end, bool is_last)
{
	if (!r->region || r->is_last)
		return;
	r->bytes = end;
	r->is_last = is_last;
	kv_rdmaregion_ready(r->region, end, is_last);
}
