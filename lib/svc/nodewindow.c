#include "svc/nodewindow.h"

#include "base/limits.h"
#include "base/num.h"

_Static_assert(KV_BATCH_KEYS_MAX + 4 *
					   (KV_FRAME_BYTES_MAX /
					    sizeof(struct kv_window)) /
					   16 <=
		       KV_PEER_KEYS_MAX,
	       "what one request weighs is never too much by itself");

void
kv_nodewindow_mems(const struct kv_map_windows *w, struct kv_rdmamem *mems)
{
	struct kv_map_window in;
	unsigned i, port;

	_Static_assert(KV_RAILS_MAX == KV_RDMA_PORTS_MAX,
		       "a key for each port of the requester");
	for (i = 0; i < w->count; i++) {
		in = kv_map_window_get(w, i);
		mems[i] = (struct kv_rdmamem){ .addr = in.addr, .len = in.len };
		for (port = 0; port < w->ports; port++)
			mems[i].keys[port] = kv_get32(in.keys[port]);
	}
}

unsigned
kv_nodewindow_far(const struct kv_rdmamem *mems, const struct kv_piece *pieces,
		  uint64_t bytes, struct kv_rdmarange *out)
{
	unsigned n;

	for (n = 0; bytes; n++) {
		const struct kv_rdmamem *mem =
			&mems[kv_get32(pieces[n].window)];

		out[n].mem = mem;
		out[n].addr = mem->addr + kv_get64(pieces[n].off);
		out[n].len = kv_min_u64(kv_get32(pieces[n].len), bytes);
		bytes -= out[n].len;
	}
	return n;
}

unsigned
kv_nodewindow_near(const struct kv_rdmaregion *pool,
		   const struct kv_nodewindow_value *v,
		   struct kv_rdmarange *out, unsigned max)
{
	uint64_t skip = v->skip, left = v->bytes, len;
	const struct kv_extent *e;
	unsigned more, n = 0;

	for (e = v->ext; left; e++) {
		if (skip >= e->len) {
			skip -= e->len;
			continue;
		}
		len = kv_min_u64(e->len - skip, left);
		more = kv_rdmaregion_near(pool, e->off + skip, len, out + n,
					  max - n);
		if (!more)
			return 0;
		n += more;
		left -= len;
		skip = 0;
	}
	return n;
}

unsigned
kv_nodewindow_near_max(const struct kv_rdmaregion *pool,
		       const struct kv_nodewindow_value *v)
{
	unsigned i, n = 0;

	for (i = 0; i < v->n_ext; i++)
		n += kv_rdmaregion_near_max(pool, v->ext[i].len);
	return n;
}
