#include "store/pattern.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

enum {
	/* Of one search: about a millisecond at the worst. */
	MATCH_STEPS_MAX = 20000,
	DEPTH_MAX = 500,
	HEAP_KIB_MAX = 1024,
	NESTING_MAX = 50,
};

struct kv_pattern {
	pcre2_code *code;
	pcre2_match_data *data;
	pcre2_match_context *limits;
};

static pcre2_code *
pattern_compile(const void *pattern, size_t len, int *err, size_t *at)
{
	pcre2_compile_context *cc = pcre2_compile_context_create(NULL);
	pcre2_code *code;

	if (!cc) {
		*err = PCRE2_ERROR_NOMEMORY;
		return NULL;
	}
	pcre2_set_parens_nest_limit(cc, NESTING_MAX);
	pcre2_set_max_pattern_length(cc, KV_PATTERN_BYTES_MAX);
	code = pcre2_compile(pattern, len, PCRE2_NEVER_UTF | PCRE2_NEVER_UCP,
			     err, at, cc);
	pcre2_compile_context_free(cc);
	return code;
}

struct kv_pattern *
kv_pattern_new(const void *pattern, size_t len,
	       char text[KV_PATTERN_TEXT_BYTES])
{
	struct kv_pattern *p = calloc(1, sizeof(*p));
	PCRE2_UCHAR why[128];
	size_t at = 0;
	int err = PCRE2_ERROR_NOMEMORY;

	if (p)
		p->code = pattern_compile(pattern, len, &err, &at);
	if (p && p->code) {
		p->data = pcre2_match_data_create(1, NULL);
		p->limits = pcre2_match_context_create(NULL);
		err = PCRE2_ERROR_NOMEMORY;
	}
	if (!p || !p->data || !p->limits) {
		pcre2_get_error_message(err, why, sizeof(why));
		snprintf(text, KV_PATTERN_TEXT_BYTES,
			 "the pattern is wrong at byte %zu: %s", at,
			 (const char *)why);
		kv_pattern_free(p);
		return NULL;
	}
	pcre2_set_match_limit(p->limits, MATCH_STEPS_MAX);
	pcre2_set_depth_limit(p->limits, DEPTH_MAX);
	pcre2_set_heap_limit(p->limits, HEAP_KIB_MAX);
	return p;
}

void
kv_pattern_free(struct kv_pattern *p)
{
	if (!p)
		return;
	pcre2_match_context_free(p->limits);
	pcre2_match_data_free(p->data);
	pcre2_code_free(p->code);
	free(p);
}

int
kv_pattern_match(struct kv_pattern *p, const void *key, size_t len)
{
	int rc = pcre2_match(p->code, key, len, 0, 0, p->data, p->limits);

	if (rc >= 0)
		return 1;
	switch (rc) {
	case PCRE2_ERROR_NOMATCH:
		return 0;
	case PCRE2_ERROR_NOMEMORY:
		return -ENOMEM;
	default:
		return -E2BIG;
	}
}
