#ifndef KV_XFER_RDMASHARE_H
#define KV_XFER_RDMASHARE_H

/*
 * Which rail takes the next slice, and how large that is. Each rail has a few
 * slices under way and takes more as they end, so that a fast one takes more
 * often than a slow one, whatever their speeds are said to be; and one that is
 * seen to be slower than it should is taken for that. None takes more
 * than it moves until all of them together are done: so they end at the same
 * time, and the last slices are as small as that needs. Pure.
 */

#include <stdbool.h>
#include <stdint.h>

struct kv_rdmashare {
	uint64_t slice_bytes; /* at most in one */
	uint64_t least_bytes; /* fewer are left to a rail that has work */
	unsigned deep;        /* full slices under way on a rail, at most */
};

/* Zeroed before. */
struct kv_rdmashare_rail {
	double speed;       /* bytes a nanosecond, as it is said to do; 0: it
			     * takes nothing now */
	double seen;        /* as it did when it last had enough work; 0: it
			     * never had */
	uint64_t under_way; /* bytes posted and not done */
	uint64_t busy_ns;   /* until then, if it is as fast as that */
	/* What it has done since then without a pause; 0: it had one. */
	uint64_t since_ns;
	uint64_t since_bytes;
};

struct kv_rdmashare_left {
	uint64_t bytes; /* > 0, of all transfers together */
	uint64_t now_ns;
	uint64_t *slice; /* out: how large the next one may be */
};

/*
 * The rail for the next slice of what is left, among these (bits), -1: none for
 * now, and some of what is under way is to end first (or no rail takes
 * anything).
 */
int kv_rdmashare_pick(const struct kv_rdmashare *s,
		      const struct kv_rdmashare_rail *rails, uint32_t which,
		      const struct kv_rdmashare_left *left);

/* So many bytes were posted to it, and are done, well or not. */
void kv_rdmashare_post(struct kv_rdmashare_rail *r, uint64_t now_ns,
		       uint64_t bytes);
void kv_rdmashare_done(struct kv_rdmashare_rail *r, uint64_t now_ns,
		       uint64_t bytes);

#endif
