#ifndef KV_SVC_VIEWOP_H
#define KV_SVC_VIEWOP_H

/* Views: objects of the local node, pinned and pointed at through the mapping
 * of its pool. */

#include "kvpool.h"
#include "svc/chan.h"

struct kv_viewop {
	/* Set by the caller, all zero otherwise: */
	struct kv_view *views; /* status, size, pieces, priv are written */
	size_t n;              /* at least 1 */
	uint64_t deadline;
	void (*done)(struct kv_viewop *op); /* once, from the loop */

	/* Inside: */
	struct kv_chan *ch;
	struct kv_call call;
	struct kv_link_wait wait;
	struct kv_timer timer;
	struct kv_defer defer;
	size_t pos, end; /* the frame under way */
	bool is_over;
};

void kv_viewop_start(struct kv_chan *ch, struct kv_viewop *op);
void kv_viewop_abort(struct kv_viewop *op, int status);

/* Unpins. The local link must be up; views of a node that is gone are just
 * forgotten. No answer is waited for. */
void kv_viewop_release(struct kv_chan *ch, struct kv_view *views, size_t n);

/* At the end: frees what views still hold; nothing is said to the node. */
void kv_viewop_forget_all(struct kv_hub *hub);

#endif
