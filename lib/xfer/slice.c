#include "xfer/slice.h"

#include "base/attr.h"
#include "base/num.h"
#include "xfer/crossmem.h"
#include "xfer/regtable.h"

static bool
contains(const struct kv_regtable_entry *e, uint64_t addr)
{
	return e && addr >= e->addr && addr - e->addr < e->len;
}

static enum kv_slice_path
path_of(const struct kv_regtable_entry *e, enum kv_slice_path path)
{
	if (e->map && path != KV_SLICE_SELF)
		return KV_SLICE_SHM;
	return path == KV_SLICE_RDMA && !e->mem ? KV_SLICE_TCP : path;
}

/* Items without bytes are passed over. */
struct kv_slice_piece
kv_slice_look(const struct kv_regtable *table, enum kv_slice_path path,
	      struct kv_slice_cursor *c)
{
	struct kv_slice_piece p;
	uint64_t addr;

	while (c->off == c->item->len) {
		c->item++;
		c->off = 0;
	}
	addr = c->item->remote + c->off;
	if (!contains(c->entry, addr))
		c->entry = kv_regtable_find(table, addr);
	assert(c->entry);
	p.path = path_of(c->entry, path);
	p.local = (char *)c->item->local + c->off;
	p.entry = c->entry;
	p.off = addr - p.entry->addr;
	p.len = kv_min_u64(c->item->len - c->off, p.entry->len - p.off);
	p.len = kv_min_u64(p.len, c->left);
	return p;
}

/* False: there is no room for another piece. */
static bool
add_iov(struct iovec *list, int *n, char *at, size_t len)
{
	struct iovec *last = *n ? &list[*n - 1] : NULL;

	if (last && (char *)last->iov_base + last->iov_len == at) {
		last->iov_len += len;
		return true;
	}
	if (*n == KV_XFER_PIECES_MAX)
		return false;
	list[(*n)++] = (struct iovec){ .iov_base = at, .iov_len = len };
	return true;
}

static bool
add_piece(struct kv_slice *b, uint64_t handle, uint64_t off, uint64_t len)
{
	struct kv_xfer_piece *last =
		b->n_remote ? &b->pieces[b->n_remote - 1] : NULL;

	if (last && kv_get64(last->handle) == handle &&
	    kv_get64(last->off) + kv_get64(last->len) == off) {
		last->len = kv_le64(kv_get64(last->len) + len);
		return true;
	}
	if (b->n_remote == KV_XFER_PIECES_MAX)
		return false;
	b->pieces[b->n_remote++] = (struct kv_xfer_piece){
		.handle = kv_le64(handle),
		.off = kv_le64(off),
		.len = kv_le64(len),
	};
	return true;
}

static bool
add_remote(struct kv_slice *b, const struct kv_slice_piece *p)
{
	void *at;

	if (b->path == KV_SLICE_SELF || b->path == KV_SLICE_TCP)
		return add_piece(b, p->entry->handle, p->off, p->len);
	at = b->path == KV_SLICE_SHM
		     ? kv_regtable_at(p->entry->map, p->off, p->len)
		     : kv_crossmem_ptr(p->entry->addr + p->off);
	return add_iov(b->remote, &b->n_remote, at, p->len);
}

void
kv_slice_gather(struct kv_slice *b, const struct kv_regtable *table,
		enum kv_slice_path path, struct kv_slice_cursor *c,
		uint64_t bytes_max)
{
	b->path = KV_SLICE_NONE;
	b->bytes = 0;
	b->n_local = b->n_remote = 0;
	while (c->left > 0 && b->bytes < bytes_max) {
		struct kv_slice_piece p = kv_slice_look(table, path, c);

		if (b->path == KV_SLICE_NONE)
			b->path = p.path;
		else if (p.path != b->path)
			break;
		p.len = kv_min_u64(p.len, bytes_max - b->bytes);
		/* A piece that fits one list only must not stay in it. */
		if (b->n_local == KV_XFER_PIECES_MAX || !add_remote(b, &p))
			break;
		add_iov(b->local, &b->n_local, p.local, p.len);
		b->bytes += p.len;
		kv_slice_skip(c, p.len);
	}
}

void
kv_slice_skip(struct kv_slice_cursor *c, uint64_t n)
{
	c->left -= n;
	while (n > 0) {
		uint64_t part = kv_min_u64(n, c->item->len - c->off);

		c->off += part;
		n -= part;
		if (c->off == c->item->len && c->left > 0) {
			c->item++;
			c->off = 0;
		}
	}
}
