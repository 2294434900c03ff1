#ifndef KV_STORE_PATTERN_H
#define KV_STORE_PATTERN_H

/*
 * Patterns over keys (PCRE2, searched, not anchored; keys are bytes). A pattern
 * comes from outside, so its work on a key and its memory are bounded.
 */

#include <stddef.h>

struct kv_pattern;

#define KV_PATTERN_BYTES_MAX  4096
#define KV_PATTERN_TEXT_BYTES 256

/* NULL with a text that says what is wrong with it and where. */
struct kv_pattern *kv_pattern_new(const void *pattern, size_t len,
				  char text[KV_PATTERN_TEXT_BYTES]);
void kv_pattern_free(struct kv_pattern *p);

/* 1 or 0; -E2BIG when the key takes more work than a pattern may make,
 * -ENOMEM. */
int kv_pattern_match(struct kv_pattern *p, const void *key, size_t len);

#endif
