#include "xfer/slice.h"

#include "base/attr.h"
#include "base/num.h"
#include "xfer/crossmem.h"
#include "xfer/regtable.h"

/* One stretch that is contiguous here and lies in one region there. */
struct stretch {
	char *local;
	const struct kv_regtable_entry *entry;
	uint64_t off; /* in the region */
	uint64_t len;
};

static bool
contains(const struct kv_regtable_entry *e, uint64_t addr)
{
	return e && addr >= e->addr && addr - e->addr < e->len;
}

/* The next one; items without bytes are passed over. */
static struct stretch
look(const struct kv_regtable *table, struct kv_slice_cursor *c)
{
	struct stretch s;
	uint64_t addr;

	while (c->off == c->item->len) {
		c->item++;
		c->off = 0;
	}
	addr = c->item->remote + c->off;
	if (!contains(c->entry, addr))
		c->entry = kv_regtable_find(table, addr);
	assert(c->entry);
	s.local = (char *)c->item->local + c->off;
	s.entry = c->entry;
	s.off = addr - s.entry->addr;
	s.len = kv_min_u64(c->item->len - c->off, s.entry->len - s.off);
	s.len = kv_min_u64(s.len, c->left);
	return s;
}

static enum kv_slice_path
path_of(const struct kv_regtable_entry *e, enum kv_slice_path path)
{
	return e->map && path != KV_SLICE_SELF ? KV_SLICE_SHM : path;
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
add_remote(struct kv_slice *b, const struct stretch *s)
{
	void *at;

	if (b->path == KV_SLICE_SELF || b->path == KV_SLICE_TCP)
		return add_piece(b, s->entry->handle, s->off, s->len);
	at = b->path == KV_SLICE_SHM
		     ? kv_regtable_at(s->entry->map, s->off, s->len)
		     : kv_crossmem_ptr(s->entry->addr + s->off);
	return add_iov(b->remote, &b->n_remote, at, s->len);
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
		struct stretch s = look(table, c);

		if (b->path == KV_SLICE_NONE)
			b->path = path_of(s.entry, path);
		else if (path_of(s.entry, path) != b->path)
			break;
		s.len = kv_min_u64(s.len, bytes_max - b->bytes);
		/* A piece that fits one list only must not stay in it. */
		if (b->n_local == KV_XFER_PIECES_MAX || !add_remote(b, &s))
			break;
		add_iov(b->local, &b->n_local, s.local, s.len);
		b->bytes += s.len;
		kv_slice_skip(c, s.len);
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
