/*
 * A set of byte strings that keeps only a hash of each: 16 to 43 bytes a string
 * whatever its length, and a chance of n^2 / 2^128 that two of n are taken for
 * one.
 */
#ifndef KV_CLI_SEEN_H
#define KV_CLI_SEEN_H

#include <stddef.h>

#include "base/attr.h"

struct kv_seen_slot;

/* Zeroed is empty. */
struct kv_seen {
	struct kv_seen_slot *slots;
	size_t n;
	size_t cap; /* 0 or a power of two */
};

void kv_seen_fini(struct kv_seen *s);

/* 1: it is new. 0: it was there. -ENOMEM. */
KV_MUST_CHECK int kv_seen_add(struct kv_seen *s, const void *p, size_t n);

#endif
