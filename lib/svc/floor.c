#include "svc/floor.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/attr.h"
#include "base/num.h"
#include "mem/copy.h"
#include "svc/floorcore.h"

struct kv_floor {
	size_t bytes; /* of a piece */
	size_t pieces;
	char *private;
	char *shared;
	bool use_memcpy;
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
	const struct kv_floor *f;
	char *dst;
	const char *src;
	const uint32_t *to;
};

static int
copies_do(const void *arg, size_t from, size_t to)
{
	const struct copies *c = arg;
	size_t len = c->f->bytes, i, at;

	for (i = from; i < to; i++) {
		at = c->to ? c->to[i] : i;
		if (c->f->use_memcpy)
			memcpy(c->dst + at * len, c->src + i * len, len);
		else
			kv_copy(c->dst + at * len, c->src + i * len, len);
	}
	return 0;
}

int64_t
kv_floor_copy(const struct kv_floor *f, bool into_shared, const uint32_t *to,
	      unsigned threads)
{
	const struct copies c = {
		.f = f,
		.dst = into_shared ? f->shared : f->private,
		.src = into_shared ? f->private : f->shared,
		.to = to,
	};

	return parts_run(copies_do, &c, f->pieces, threads);
}

/* Best of three of each. */
static void
copy_choose(struct kv_floor *f)
{
	int64_t best[2] = { INT64_MAX, INT64_MAX }, t;
	unsigned i;

	for (i = 0; i < 6; i++) {
		f->use_memcpy = i % 2;
		t = kv_floor_copy(f, true, NULL, 1);
		if (t < best[i % 2])
			best[i % 2] = t;
	}
	f->use_memcpy = best[1] < best[0];
}

struct kv_floor *
kv_floor_new(size_t bytes, size_t pieces)
{
	struct kv_floor *f = calloc(1, sizeof(*f));
	int fd;

	if (!f)
		return NULL;
	f->bytes = bytes;
	f->pieces = pieces;
	fd = memfd_create("kvpool-floor", MFD_CLOEXEC);
	/* Mapped in whole huge pages. */
	if (fd < 0 || ftruncate(fd, (off_t)kv_round_up_u64(bytes * pieces,
							   2ull << 20)) < 0)
		goto fail;
	f->private = kv_floor_io_map(bytes * pieces, -1);
	f->shared = kv_floor_io_map(bytes * pieces, fd);
	if (!f->private || !f->shared)
		goto fail;
	close(fd);
	copy_choose(f);
	return f;

fail:
	if (fd >= 0)
		close(fd);
	kv_floor_free(f);
	return NULL;
}

void
kv_floor_free(struct kv_floor *f)
{
	if (!f)
		return;
	kv_floor_io_unmap(f->private, f->bytes * f->pieces);
	kv_floor_io_unmap(f->shared, f->bytes * f->pieces);
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
