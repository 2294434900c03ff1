#include "svc/floor.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/attr.h"
#include "base/num.h"
#include "mem/copy.h"
#include "mem/seg.h"
#include "svc/floorcore.h"

struct kv_floor {
	size_t bytes; /* of a piece */
	size_t pieces;
	char *private;
	struct kv_seg *seg; /* the shared memory */
};

/* ---- threads, each with a part of the numbers 0 to n - 1 ---- */

struct part {
	pthread_t thread;
	int (*fn)(const void *arg, size_t from, size_t to);
	const void *arg;
	size_t from;
	size_t to;
	int rc;
};

static void *
part_run(void *arg)
{
	struct part *p = arg;

	p->rc = p->fn(p->arg, p->from, p->to);
	return NULL;
}

/* The calling thread does the first one. Returns the time. */
static int64_t
parts_run(int (*fn)(const void *arg, size_t from, size_t to), const void *arg,
	  size_t n, unsigned threads)
{
	uint64_t start = kv_floor_io_now();
	struct part parts[KV_FLOOR_THREADS_MAX];
	unsigned made, i;
	int rc;

	threads = threads < 1 ? 1 : threads;
	threads = (unsigned)kv_min_u64(threads, KV_FLOOR_THREADS_MAX);
	for (i = 0; i < threads; i++)
		parts[i] = (struct part){ .fn = fn,
					  .arg = arg,
					  .from = n * i / threads,
					  .to = n * (i + 1) / threads };
	for (made = 1; made < threads; made++)
		if (pthread_create(&parts[made].thread, NULL, part_run,
				   &parts[made]))
			break;
	part_run(&parts[0]);
	rc = made < threads ? -EAGAIN : parts[0].rc;
	for (i = 1; i < made; i++) {
		pthread_join(parts[i].thread, NULL);
		if (rc == 0)
			rc = parts[i].rc;
	}
	return rc < 0 ? rc : (int64_t)(kv_floor_io_now() - start);
}

/* ---- copies ---- */

struct copies {
	const struct kv_floor_copies *how;
	char *dst;
	const char *src;
	size_t bytes;
};

static int
copies_do(const void *arg, size_t from, size_t to)
{
	const struct copies *c = arg;
	size_t len = c->bytes, i, at;

	for (i = from; i < to; i++) {
		at = c->how->to ? c->how->to[i] : i;
		if (c->how->by_libc)
			memcpy(c->dst + at * len, c->src + i * len, len);
		else
			kv_copy(c->dst + at * len, c->src + i * len, len);
	}
	return 0;
}

int64_t
kv_floor_copy(const struct kv_floor *f, const struct kv_floor_copies *how)
{
	char *shared = (char *)f->seg->base;
	const struct copies c = {
		.how = how,
		.dst = how->into_shared ? shared : f->private,
		.src = how->into_shared ? f->private : shared,
		.bytes = f->bytes,
	};

	return parts_run(copies_do, &c, f->pieces, how->threads);
}

struct kv_floor *
kv_floor_new(const struct kv_floor_opts *o, char *err, size_t errlen)
{
	struct kv_floor *f = calloc(1, sizeof(*f));

	if (f) {
		f->bytes = o->bytes;
		f->pieces = o->pieces;
		f->private = kv_floor_io_map(o->bytes * o->pieces);
	}
	if (!f || !f->private)
		snprintf(err, errlen, "no memory for %zu pieces of %zu bytes",
			 o->pieces, o->bytes);
	else
		f->seg = kv_floor_io_share(o->bytes * o->pieces, o->hugepages,
					   err, errlen);
	if (f && f->seg)
		return f;
	kv_floor_free(f);
	return NULL;
}

void
kv_floor_free(struct kv_floor *f)
{
	if (!f)
		return;
	kv_floor_io_unmap(f->private, f->bytes * f->pieces);
	kv_seg_close(f->seg);
	free(f);
}

char *
kv_floor_private(struct kv_floor *f)
{
	return f->private;
}

/* ---- process_vm_writev ---- */

static int
write_do(const void *arg, size_t from, size_t to)
{
	const struct kv_floor_write *w = arg;
	size_t i, n, k, want;

	for (i = from; i < to; i += n) {
		n = kv_min_size(to - i, IOV_MAX);
		want = 0;
		for (k = i; k < i + n; k++)
			want += w->local[k].iov_len;
		if (process_vm_writev(w->pid, w->local + i, n, w->remote + i, n,
				      0) != (ssize_t)want)
			return errno ? -errno : -EFAULT;
	}
	return 0;
}

int64_t
kv_floor_write(const struct kv_floor_write *w)
{
	errno = 0;
	return parts_run(write_do, w, w->n, w->threads);
}
