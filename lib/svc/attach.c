#include "svc/attach.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/attr.h"
#include "base/log.h"
#include "base/num.h"
#include "mem/seg.h"

/* What is entered at once: a huge page, doubled as long as uses ascend. */
#define BLOCK_BYTES    (2ull << 20)
#define RUN_BLOCKS_MAX 32
/* Less is left to page faults: it would cost more than it gives. */
#define BYTES_MIN (BLOCK_BYTES / 8)

struct side {
	struct kv_seg *seg;
	uint64_t *bits; /* blocks entered; atomic */
	uint64_t next;  /* the block after those entered last; a hint */
	unsigned run;   /* blocks to enter if that one is used next; a hint */
};

struct sides {
	struct side side[2]; /* read, write */
	uint64_t blocks;
	uint64_t top; /* all below was announced; atomic */
};

static int
side_map(struct sides *s, const struct kv_hub_map *map, bool write)
{
	const struct kv_seg_attach_opts o = {
		.bytes = map->bytes,
		.writable = write,
		.sealed = map->flags & KV_POOL_SEALED,
	};
	struct side *side = &s->side[write];
	char err[256];
	int fd, rc;

	side->bits = calloc(kv_div_up_u64(s->blocks, 64), sizeof(uint64_t));
	fd = dup(map->fd);
	if (fd < 0)
		rc = -EMFILE; /* also when it did not come, for that reason */
	else if (!side->bits)
		rc = -ENOMEM;
	else
		rc = kv_seg_attach(fd, &o, &side->seg, err, sizeof(err));
	if (fd < 0 || !side->bits)
		snprintf(err, sizeof(err), "%s", strerror(-rc));
	side->next = UINT64_MAX;
	side->run = 1;
	if (rc == 0)
		return 0;
	kv_warn("cannot map the local node's pool: %s", err);
	free(side->bits);
	side->bits = NULL;
	if (fd >= 0)
		close(fd);
	return rc;
}

static int
attach_map(void *arg, struct kv_hub_map *map, bool write)
{
	struct sides *s = map->priv;
	char **base = write ? &map->write : &map->read;
	int rc;

	(void)arg;
	if (!s) {
		s = map->priv = calloc(1, sizeof(*s));
		if (!s)
			return -ENOMEM;
		s->blocks = kv_div_up_u64(map->bytes, BLOCK_BYTES);
	}
	rc = side_map(s, map, write);
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
		kv_seg_close(s->side[i].seg);
		free(s->side[i].bits);
	}
	free(s);
	if (map->fd >= 0)
		close(map->fd);
}

static bool
is_entered(const struct side *side, uint64_t block)
{
	return __atomic_load_n(&side->bits[block / 64], __ATOMIC_RELAXED) >>
		       (block % 64) &
	       1;
}

/* How many blocks to enter at once: ahead of use only where uses ascend, for
 * what else comes next nobody knows. */
static unsigned
run_of(const struct side *side, uint64_t block)
{
	if (__atomic_load_n(&side->next, __ATOMIC_RELAXED) != block)
		return 1;
	return __atomic_load_n(&side->run, __ATOMIC_RELAXED);
}

/* Two threads may enter the same block: that costs time and nothing else. */
static void
enter(struct sides *s, struct side *side, uint64_t block)
{
	uint64_t top = __atomic_load_n(&s->top, __ATOMIC_RELAXED);
	unsigned run = run_of(side, block), n = 1;
	uint64_t i;

	while (n < run && block + n < s->blocks &&
	       (block + n + 1) * BLOCK_BYTES <= top &&
	       !is_entered(side, block + n))
		n++;
	kv_seg_map_ahead(side->seg, block * BLOCK_BYTES,
			 kv_min_u64(n * BLOCK_BYTES,
				    side->seg->bytes - block * BLOCK_BYTES));
	for (i = block; i < block + n; i++)
		__atomic_fetch_or(&side->bits[i / 64], 1ull << (i % 64),
				  __ATOMIC_RELAXED);
	__atomic_store_n(&side->next, block + n, __ATOMIC_RELAXED);
	__atomic_store_n(&side->run,
			 2 * run < RUN_BLOCKS_MAX ? 2 * run : RUN_BLOCKS_MAX,
			 __ATOMIC_RELAXED);
}

static void
attach_ahead(void *arg, struct kv_hub_map *map, uint64_t off, uint64_t len,
	     bool write)
{
	struct sides *s = map->priv;
	struct side *side = &s->side[write];
	uint64_t block, end = off + len;

	(void)arg;
	/* A node announces its pool from the start on: what lies below
	 * something granted is there. */
	if (end > __atomic_load_n(&s->top, __ATOMIC_RELAXED))
		__atomic_store_n(&s->top, end, __ATOMIC_RELAXED);
	if (len < BYTES_MIN)
		return;
	for (block = off / BLOCK_BYTES; block * BLOCK_BYTES < end; block++)
		if (!is_entered(side, block))
			enter(s, side, block);
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
