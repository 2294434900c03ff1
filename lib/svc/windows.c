#include "svc/windows.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/attr.h"
#include "base/fault.h"
#include "base/num.h"
#include "wire/protodata.h"

/*
 * Registering costs some ten microseconds a time and NIC, and giving up as
 * much: it is worth it for so many bytes together, and so many each on average.
 * What is less goes by TCP.
 */
#define WORTH_BYTES      (256u << 10)
#define WORTH_EACH_BYTES (64u << 10)

/* So much is pinned for one frame; a single value may be larger. */
#define LOOSE_BYTES_MAX (UINT64_C(256) << 20)

#define PIECE_BYTES_MAX (UINT64_C(1) << 30)
#define LOOSE           UINT32_MAX

struct kv_windows_piece {
	char *at;
	uint64_t len;
	uint32_t mem; /* LOOSE: not yet known */
};

/* One or the other. */
struct kv_windows_memory {
	struct kv_range *range;
	struct kv_rdmaregion *region;
};

static unsigned
ports(const struct kv_windows *w)
{
	return kv_rdma_ports(w->ranges->rdma);
}

static size_t
window_bytes(const struct kv_windows *w)
{
	return sizeof(struct kv_window) + ports(w) * sizeof(struct kv_le32);
}

static const struct kv_rdmamem *
mem_at(const struct kv_windows *w, size_t i)
{
	const struct kv_windows_memory *m = &w->mems[i];

	return kv_rdmaregion_far(m->range ? m->range->region : m->region);
}

void
kv_windows_init(struct kv_windows *w, struct kv_ranges *ranges, bool is_get)
{
	*w = (struct kv_windows){
		.ranges = ranges,
		.use = is_get ? KV_RDMAREGION_FAR_WRITES
			      : KV_RDMAREGION_FAR_READS,
	};
}

void
kv_windows_fini(struct kv_windows *w)
{
	size_t i;

	for (i = 0; i < w->n_mems; i++) {
		if (w->mems[i].range)
			kv_ranges_unuse(w->ranges, w->mems[i].range);
		kv_rdmaregion_free(w->mems[i].region);
	}
	free(w->pieces);
	free(w->counts);
	free(w->mems);
	w->pieces = NULL;
	w->counts = NULL;
	w->mems = NULL;
	w->n_pieces = w->room_pieces = w->n_values = w->room_values = 0;
	w->n_mems = w->room_mems = w->n_loose = 0;
	w->loose_bytes = 0;
}

/* Room for one more element of the array whose pointer is there. */
static bool
grow(void *array, size_t *room, size_t n, size_t size)
{
	void **at = array, *more;

	if (n < *room)
		return true;
	more = KV_FAULT_POINT() ? NULL : realloc(*at, (2 * n + 16) * size);
	if (!more)
		return false;
	*at = more;
	*room = 2 * n + 16;
	return true;
}

static bool
is_inside(const struct kv_range *x, const struct kv_buf *b)
{
	uintptr_t at = (uintptr_t)b->data;

	return at >= x->at && at - x->at <= x->len &&
	       b->len <= x->len - (at - x->at);
}

/*
 * Memory of the caller's: the number of its window, LOOSE when NICs do not know
 * it. -ENOMEM. Values lie in the same ranges mostly, in the same order: it is
 * that of the last buffer, or the next one.
 */
static int
range_find(struct kv_windows *w, const struct kv_buf *b, uint32_t *mem)
{
	size_t i, k;

	for (k = 0; k < w->n_mems; k++) {
		i = (w->last + k) % w->n_mems;
		if (!is_inside(w->mems[i].range, b))
			continue;
		*mem = (uint32_t)(w->last = i);
		return 0;
	}
	if (!grow(&w->mems, &w->room_mems, w->n_mems, sizeof(*w->mems)))
		return -ENOMEM;
	w->mems[w->n_mems] = (struct kv_windows_memory){
		.range = kv_ranges_use(w->ranges, b->data, b->len),
	};
	if (w->mems[w->n_mems].range)
		*mem = (uint32_t)(w->last = w->n_mems++);
	else
		*mem = LOOSE;
	return 0;
}

/* One more piece, or the last one of this value is longer. */
static int
piece_add(struct kv_windows *w, const struct kv_windows_piece *p, size_t first)
{
	struct kv_windows_piece *last =
		w->n_pieces > first ? &w->pieces[w->n_pieces - 1] : NULL;

	if (last && last->mem == p->mem && last->at + last->len == p->at &&
	    last->len + p->len <= PIECE_BYTES_MAX) {
		last->len += p->len;
		return 0;
	}
	if (!grow(&w->pieces, &w->room_pieces, w->n_pieces, sizeof(*w->pieces)))
		return -ENOMEM;
	assert(w->pieces);
	w->pieces[w->n_pieces++] = *p;
	w->n_loose += p->mem == LOOSE;
	return 0;
}

static int
buffer_add(struct kv_windows *w, const struct kv_buf *b, size_t first)
{
	struct kv_windows_piece p = { .at = b->data };
	uint64_t left = b->len;
	int rc = left > 0 ? range_find(w, b, &p.mem) : 0;

	for (; rc == 0 && left > 0; left -= p.len, p.at += p.len) {
		p.len = kv_min_u64(left, PIECE_BYTES_MAX);
		rc = piece_add(w, &p, first);
		if (rc == 0 && p.mem == LOOSE)
			w->loose_bytes += p.len;
	}
	return rc;
}

/* At most: each loose piece may be a window of its own. */
static size_t
bytes_most(const struct kv_windows *w)
{
	return (w->n_mems + w->n_loose) * window_bytes(w) +
	       w->n_pieces * sizeof(struct kv_piece);
}

int
kv_windows_add(struct kv_windows *w, const struct kv_buf *bufs, size_t n,
	       size_t tail_max)
{
	struct kv_windows before = *w;
	size_t i;
	int rc = 0;

	if (!grow(&w->counts, &w->room_values, w->n_values, sizeof(*w->counts)))
		return -ENOMEM;
	for (i = 0; i < n && rc == 0; i++)
		rc = buffer_add(w, &bufs[i], before.n_pieces);
	if (rc == 0 &&
	    (bytes_most(w) > tail_max ||
	     (before.loose_bytes > 0 && w->loose_bytes > LOOSE_BYTES_MAX)))
		rc = -E2BIG;
	if (rc < 0) {
		w->n_pieces = before.n_pieces;
		w->n_loose = before.n_loose;
		w->loose_bytes = before.loose_bytes;
		return rc;
	}
	w->counts[w->n_values++] = (uint32_t)(w->n_pieces - before.n_pieces);
	return 0;
}

/* ---- memory for the frame alone ---- */

static int
by_address(const void *a, const void *b)
{
	uintptr_t x = (uintptr_t)(*(struct kv_windows_piece *const *)a)->at;
	uintptr_t y = (uintptr_t)(*(struct kv_windows_piece *const *)b)->at;

	return x < y ? -1 : x > y;
}

/* The first piece behind those that lie in one stretch with the i-th; *bytes is
 * how long that is. */
static size_t
stretch(struct kv_windows_piece *const *loose, size_t n, size_t i,
	uint64_t *bytes)
{
	uintptr_t begin = (uintptr_t)loose[i]->at;

	*bytes = loose[i]->len;
	for (i++; i < n && (uintptr_t)loose[i]->at - begin <= *bytes; i++)
		*bytes = kv_max_u64(*bytes, (uintptr_t)loose[i]->at - begin +
						    loose[i]->len);
	return i;
}

static bool
is_worth(const struct kv_windows *w, struct kv_windows_piece *const *loose)
{
	size_t i = 0, stretches = 0;
	uint64_t bytes;

	while (i < w->n_loose) {
		i = stretch(loose, w->n_loose, i, &bytes);
		stretches++;
	}
	return w->loose_bytes >= WORTH_BYTES &&
	       w->loose_bytes / stretches >= WORTH_EACH_BYTES;
}

static int
stretch_register(struct kv_windows *w, void *at, uint64_t bytes)
{
	struct kv_rdmaregion *g;

	if (!grow(&w->mems, &w->room_mems, w->n_mems, sizeof(*w->mems)))
		return -ENOMEM;
	g = kv_rdmaregion_new(w->ranges->rdma, at, bytes, w->use);
	if (!g)
		return -errno;
	w->mems[w->n_mems++] = (struct kv_windows_memory){ .region = g };
	return 0;
}

static int
loose_register(struct kv_windows *w, struct kv_windows_piece **loose)
{
	size_t i = 0, next;
	uint64_t bytes;
	int rc;

	while (i < w->n_loose) {
		next = stretch(loose, w->n_loose, i, &bytes);
		rc = stretch_register(w, loose[i]->at, bytes);
		if (rc < 0)
			return rc;
		for (; i < next; i++)
			loose[i]->mem = (uint32_t)w->n_mems - 1;
	}
	w->n_loose = 0;
	return 0;
}

int
kv_windows_close(struct kv_windows *w, bool must)
{
	struct kv_windows_piece **loose;
	size_t i, n = 0;
	int rc;

	if (w->n_loose == 0)
		return 0;
	if (!must &&
	    (w->loose_bytes < WORTH_BYTES || kv_ranges_is_full(w->ranges)))
		return -EAGAIN;
	loose = KV_FAULT_POINT() ? NULL
				 : malloc(w->n_loose *
					  sizeof(struct kv_windows_piece *));
	if (!loose)
		return -ENOMEM;
	for (i = 0; i < w->n_pieces; i++)
		if (w->pieces[i].mem == LOOSE)
			loose[n++] = &w->pieces[i];
	qsort(loose, n, sizeof(struct kv_windows_piece *), by_address);
	rc = must || is_worth(w, loose) ? loose_register(w, loose) : -EAGAIN;
	free(loose);
	/* Memory that may only be read says nothing of the rest. */
	if (rc == -ENOMEM || (rc < 0 && must))
		kv_ranges_refused(w->ranges, w->loose_bytes, -rc);
	return rc;
}

/* ---- on the wire ---- */

size_t
kv_windows_bytes(const struct kv_windows *w)
{
	return bytes_most(w);
}

char *
kv_windows_build(const struct kv_windows *w, char *p)
{
	const struct kv_rdmamem *m;
	struct kv_window rec;
	struct kv_le32 key;
	unsigned k;
	size_t i;

	for (i = 0; i < w->n_mems; i++) {
		m = mem_at(w, i);
		rec.addr = kv_le64(m->addr);
		rec.len = kv_le64(m->len);
		memcpy(p, &rec, sizeof(rec));
		p += sizeof(rec);
		for (k = 0; k < ports(w); k++, p += sizeof(key)) {
			key = kv_le32(m->keys[k]);
			memcpy(p, &key, sizeof(key));
		}
	}
	return p;
}

char *
kv_windows_build_pieces(const struct kv_windows *w, char *p)
{
	const struct kv_windows_piece *x;
	struct kv_piece rec;
	size_t i;

	for (i = 0; i < w->n_pieces; i++, p += sizeof(rec)) {
		x = &w->pieces[i];
		rec.off = kv_le64((uintptr_t)x->at - mem_at(w, x->mem)->addr);
		rec.len = kv_le32((uint32_t)x->len);
		rec.window = kv_le32(x->mem);
		memcpy(p, &rec, sizeof(rec));
	}
	return p;
}
