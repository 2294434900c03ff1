#ifndef KV_XFER_RDMASHARE_H
#define KV_XFER_RDMASHARE_H

/*
 * Which rail takes the next slice, and how large that is. Each rail has a few
 * slices under way and takes more as they end, so that a fast one takes more
 * often than a slow one, whatever their speeds are said to be; and one that is
 * seen to be slower than it should is taken for that. None takes more than it
 * moves until all of them together are done: so they end at the same time, and
 * the last slices are as small as that needs. What is small is left to those
 * that are near to its memory. The slices of a slow rail are smaller, and so
 * are first ones: a NIC that has no acknowledgement in time sends again, and
 * one that has none for long gives up, also when it only stands behind what
 * others do there. No I/O, no clock.
 */

#include <stdbool.h>
#include <stdint.h>

enum {
	KV_RDMASHARE_RAILS = 32,
};

/* What a slice has to do with, in a line of the cache. */
struct kv_rdmashare_rail {
	double speed;         /* bytes a nanosecond, as said or seen */
	double byte_ns;       /* what a byte takes so */
	uint64_t deep_bytes;  /* no more is posted when it has as much */
	uint32_t slice_bytes; /* at most in one */
	uint32_t see_bytes;   /* so much without a pause shows its speed */
	uint64_t under_way;   /* bytes posted and not done, */
	uint64_t began_ns;    /* without a pause since then */
	/* What it has done since an end after that; 0: there was none. */
	uint64_t since_ns;
	uint64_t since_bytes;
};

struct kv_rdmashare {
	uint64_t slice_bytes; /* at most in one */
	uint64_t least_bytes; /* fewer are left to a rail that has work */
	unsigned deep;        /* of the largest that it takes at a time */
	uint32_t used;        /* bits of rails in use, */
	uint32_t open;        /* of those that have room, */
	uint32_t quick;       /* and of those of which a slice ended soon */
	double speed;         /* of all in use */
	/* How long each would take for what is under way and a full slice. */
	double full_ns[KV_RDMASHARE_RAILS];
	/* Bytes that each had moved by since_ns of what was not done then:
	 * slices of several queue pairs go side by side. < 0: not known, and
	 * so many had been done. */
	int64_t ahead[KV_RDMASHARE_RAILS];
	/* Speeds as they are said to be, 0: out of use; and as they were when a
	 * rail last had enough work, 0: it never had. The lower one counts. */
	double said[KV_RDMASHARE_RAILS];
	double seen[KV_RDMASHARE_RAILS];
	struct kv_rdmashare_rail rails[KV_RDMASHARE_RAILS];
};

/* `deep` full slices under way on a rail, or a little more. No rail is in use.
 */
void kv_rdmashare_init(struct kv_rdmashare *s, uint64_t slice_bytes,
		       uint64_t least_bytes, unsigned deep);

/* Bytes a nanosecond, as it is said to do; 0: it takes nothing now. */
void kv_rdmashare_speed(struct kv_rdmashare *s, unsigned rail, double said);

/* One of these (bits) has room for a slice. */
static inline bool
kv_rdmashare_is_open(const struct kv_rdmashare *s, uint32_t which)
{
	return which & s->open;
}

/*
 * The rail for the next slice of `left` > 0 bytes, of all transfers together,
 * among these (bits), and in *bytes how large that may be. -1: none for now,
 * and some of what is under way is to end first (or no rail takes anything).
 */
int kv_rdmashare_pick(const struct kv_rdmashare *s, uint32_t which,
		      uint64_t left, uint64_t now_ns, uint64_t *bytes);

/*
 * Some of these rails (bits) are distant from the memory that a transfer is of,
 * and they help with it only where the others would need long for the `bytes`
 * that there are to move, and for what they have under way: those to pick
 * among. The transfer is later for it by a few microseconds at most.
 */
uint32_t kv_rdmashare_near(const struct kv_rdmashare *s, uint32_t which,
			   uint32_t distant, uint64_t bytes);

/* So many bytes were posted to it; are done; will not be, and say nothing of
 * its speed. */
void kv_rdmashare_post(struct kv_rdmashare *s, unsigned rail, uint64_t now_ns,
		       uint64_t bytes);
void kv_rdmashare_done(struct kv_rdmashare *s, unsigned rail, uint64_t now_ns,
		       uint64_t bytes);
void kv_rdmashare_drop(struct kv_rdmashare *s, unsigned rail, uint64_t now_ns,
		       uint64_t bytes);

#endif
