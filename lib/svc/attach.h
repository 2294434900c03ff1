#ifndef KV_SVC_ATTACH_H
#define KV_SVC_ATTACH_H

/*
 * The pool of another process of this host in this one's memory: two mappings,
 * made when first needed, one for reading (a guard against stray stores) and
 * one for filling. The page tables are filled ahead of use (mem/ahead.h).
 */

#include "svc/hub.h"

extern const struct kv_hub_mapper kv_attach_mapper;

/* The same, but it enters what is used and nothing else: for a process that
 * uses a part of the pool once. */
extern const struct kv_hub_mapper kv_attach_exact_mapper;

#endif
