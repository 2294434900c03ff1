/* What the other parts of a node ask of all its sessions. */
#include "svc/session.h"

#include "base/status.h"

void
kv_session_leave_all(struct kv_node *node)
{
	unsigned i;

	for (i = 0; i < node->n_sessions; i++) {
		struct kv_session *s = node->sessions[i];

		if (s->state == KV_SESSION_LIVE &&
		    kv_conn_begin(s->conn, KV_MSG_LEAVE, 0, 0)) {
			kv_conn_end(s->conn);
			kv_conn_flush(s->conn);
		}
	}
}

bool
kv_session_is_live(const struct kv_node *node, unsigned session)
{
	return node->sessions[session]->state == KV_SESSION_LIVE;
}

void
kv_session_told(struct kv_session *s)
{
	struct kv_node *node = s->node;
	unsigned i;

	for (i = 0; i < node->n_sessions; i++) {
		s = node->sessions[i];
		if (s->state == KV_SESSION_LIVE &&
		    (s->is_syncing || s->sync_frames > 0))
			return;
	}
	node->was_alone = false;
}

bool
kv_session_vouches(const struct kv_node *node, const struct kv_object *o)
{
	return !node->was_alone &&
	       !(o->flags & (KV_OBJ_HIDDEN | KV_OBJ_DOUBTED));
}

unsigned
kv_session_masters(const struct kv_node *node)
{
	unsigned i, n = 0;

	for (i = 0; i < node->n_sessions; i++)
		n += !node->sessions[i]->is_twin;
	return n;
}

unsigned
kv_session_publish(struct kv_node *node, const struct kv_object *o)
{
	unsigned i, waits = 0;

	for (i = 0; i < node->n_sessions; i++) {
		if (kv_session_is_live(node, i))
			kv_publish_add(node->sessions[i], o);
		else if (!node->sessions[i]->is_held)
			continue;
		waits |= 1u << i;
	}
	return waits;
}

void
kv_session_publish_to(struct kv_node *node, unsigned session,
		      const struct kv_object *o)
{
	kv_publish_add(node->sessions[session], o);
}

void
kv_session_withdraw(struct kv_node *node, const struct kv_object *o)
{
	unsigned i;

	for (i = 0; i < node->n_sessions; i++)
		if (kv_session_is_live(node, i))
			kv_publish_gone(node->sessions[i], o);
}

void
kv_session_room_changed(struct kv_node *node)
{
	unsigned i;

	for (i = 0; i < node->n_sessions; i++)
		if (kv_session_is_live(node, i))
			kv_loop_defer(node->loop, &node->sessions[i]->turn);
}
