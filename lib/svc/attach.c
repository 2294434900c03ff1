#include "svc/attach.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/attr.h"
#include "base/log.h"
#include "mem/ahead.h"
#include "mem/seg.h"

/* Less is left to page faults: it would cost more than it gives. */
#define BYTES_MIN (KV_AHEAD_BLOCK_BYTES / 8)

struct side {
	struct kv_seg *seg;
	struct kv_ahead *ahead;
};

struct sides {
	struct side side[2]; /* read, write */
};

static int
side_map(struct side *side, const struct kv_hub_map *map, bool write)
{
	const struct kv_seg_attach_opts o = {
		.bytes = map->bytes,
		.writable = write,
		.sealed = map->flags & KV_POOL_SEALED,
	};
	kv_auto_close int fd = dup(map->fd);
	char err[256];
	int rc;

	if (fd < 0) {
		rc = -EMFILE; /* also when it did not come, for that reason */
		snprintf(err, sizeof(err), "%s", strerror(-rc));
	} else {
		rc = kv_seg_attach(fd, &o, &side->seg, err, sizeof(err));
	}
	if (rc < 0) {
		kv_warn("cannot map the local node's pool: %s", err);
		return rc;
	}
	kv_steal_fd(&fd);
	side->ahead = kv_ahead_new(side->seg);
	if (side->ahead)
		return 0;
	kv_seg_close(side->seg);
	side->seg = NULL;
	return -ENOMEM;
}

static int
attach_map(void *arg, struct kv_hub_map *map, bool write)
{
	struct sides *s = map->priv;
	char **base = write ? &map->write : &map->read;
	int rc;

	(void)arg;
	if (!s)
		s = map->priv = calloc(1, sizeof(*s));
	if (!s)
		return -ENOMEM;
	rc = side_map(&s->side[write], map, write);
	if (rc == 0)
		__atomic_store_n(base, (char *)s->side[write].seg->base,
				 __ATOMIC_RELEASE);
	return rc;
}

static void
attach_unmap(void *arg, struct kv_hub_map *map)
{
	struct sides *s = map->priv;
	unsigned i;

	(void)arg;
	for (i = 0; s && i < 2; i++) {
		kv_ahead_free(s->side[i].ahead);
		kv_seg_close(s->side[i].seg);
	}
	free(s);
	if (map->fd >= 0)
		close(map->fd);
}

static void
attach_ahead(void *arg, struct kv_hub_map *map, uint64_t off, uint64_t len,
	     bool write)
{
	const struct sides *s = map->priv;

	(void)arg;
	if (len >= BYTES_MIN)
		kv_ahead_use(s->side[write].ahead, off, len,
			     __atomic_load_n(&map->ready, __ATOMIC_RELAXED));
}

static void
attach_exactly(void *arg, struct kv_hub_map *map, uint64_t off, uint64_t len,
	       bool write)
{
	struct sides *s = map->priv;

	(void)arg;
	if (len >= BYTES_MIN)
		kv_seg_map_ahead(s->side[write].seg, off, len);
}

const struct kv_hub_mapper kv_attach_mapper = {
	.map = attach_map,
	.unmap = attach_unmap,
	.ahead = attach_ahead,
};

const struct kv_hub_mapper kv_attach_exact_mapper = {
	.map = attach_map,
	.unmap = attach_unmap,
	.ahead = attach_exactly,
};
