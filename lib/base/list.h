#ifndef KV_BASE_LIST_H
#define KV_BASE_LIST_H

#include "base/attr.h"

#include <stdbool.h>

/*
 * Circular doubly linked list. Heads and nodes are of one type; a node that
 * was initialised or deleted is a list of its own, so deleting it again does
 * nothing and kv_list_is_empty(node) says whether it is in no list.
 */
struct kv_list {
	struct kv_list *next, *prev;
};

static inline void
kv_list_init(struct kv_list *l)
{
	l->next = l->prev = l;
}

static inline bool
kv_list_is_empty(const struct kv_list *head)
{
	return head->next == head;
}

static inline void
kv_list_add_head(struct kv_list *head, struct kv_list *n)
{
	n->prev = head;
	n->next = head->next;
	head->next->prev = n;
	head->next = n;
}

/* Given a node instead of the head: inserts before that node. */
static inline void
kv_list_add_tail(struct kv_list *head, struct kv_list *n)
{
	kv_list_add_head(head->prev, n);
}

static inline void
kv_list_del(struct kv_list *n)
{
	n->prev->next = n->next;
	n->next->prev = n->prev;
	kv_list_init(n);
}

#ifdef __clang_analyzer__
/* It takes the node that was deleted and freed for the next one still. */
struct kv_list *kv_list_next(const struct kv_list *n);
#else
static inline struct kv_list *
kv_list_next(const struct kv_list *n)
{
	return n->next;
}
#endif

/* NULL if the list is empty. */
static inline struct kv_list *
kv_list_first(const struct kv_list *head)
{
	return kv_list_is_empty(head) ? NULL : kv_list_next(head);
}

/* Moves all nodes of src to the end of dst; src is empty afterwards. */
static inline void
kv_list_splice_tail(struct kv_list *dst, struct kv_list *src)
{
	if (kv_list_is_empty(src))
		return;
	src->next->prev = dst->prev;
	dst->prev->next = src->next;
	src->prev->next = dst;
	dst->prev = src->prev;
	kv_list_init(src);
}

/* First object of a list of type.member, or NULL. */
#define KV_LIST_FIRST(head, type, member) \
	(kv_list_is_empty(head)           \
		 ? (type *)NULL           \
		 : KV_CONTAINER_OF(kv_list_next(head), type, member))

/*
 * At the end of a walk pos is no object: neither member access nor alignment
 * would be right for it, hence plain offsets.
 */
#define KV_LIST_NODE_(pos, member)                  \
	((struct kv_list *)(void *)((char *)(pos) + \
				    offsetof(typeof(*(pos)), member)))
#define KV_LIST_AFTER_(pos, node, member) \
	KV_CONTAINER_OF(kv_list_next(node), typeof(*(pos)), member)
#define KV_LIST_STEP_(pos, member) \
	KV_LIST_AFTER_(pos, KV_LIST_NODE_(pos, member), member)

/* pos: a pointer variable of the caller. The body must not delete pos. */
#define KV_LIST_FOREACH(pos, head, member)              \
	for ((pos) = KV_LIST_AFTER_(pos, head, member); \
	     KV_LIST_NODE_(pos, member) != (head);      \
	     (pos) = KV_LIST_STEP_(pos, member))

/* The same, but the body may delete or free pos (and nothing else). */
#define KV_LIST_FOREACH_SAFE(pos, tmp, head, member)    \
	for ((pos) = KV_LIST_AFTER_(pos, head, member), \
	    (tmp) = KV_LIST_STEP_(pos, member);         \
	     KV_LIST_NODE_(pos, member) != (head);      \
	     (pos) = (tmp), (tmp) = KV_LIST_STEP_(pos, member))

#endif
