#ifndef KV_SVC_WINDOWSCORE_H
#define KV_SVC_WINDOWSCORE_H

/* The inside of windows: windows.c has what is registered and what is told,
 * windows_pack.c what goes through the ring. */

#include "svc/windows.h"

#define KV_WINDOWS_LOOSE UINT32_MAX

struct kv_windows_piece {
	char *at;
	uint64_t len;
	uint32_t mem;   /* LOOSE: not yet known */
	bool is_packed; /* it lies in the span, and mem says nothing */
};

/* One of them; none: it is the span. */
struct kv_windows_memory {
	struct kv_range *range;
	struct kv_rdmaregion *region;
};

/* windows.c. What the owner is told of a window; room for one more. */
size_t kv_windows_window_bytes(const struct kv_windows *w);
bool kv_windows_grow_mems(struct kv_windows *w);

/* windows_pack.c. Chooses what is packed, and where; what is not loose any more
 * does not count so. 0: perhaps nothing is; -ENOMEM. */
int kv_windows_pack(struct kv_windows *w);
/* All is known of the frame: what is to be read is copied. */
void kv_windows_pack_fill(const struct kv_windows *w);

#endif
