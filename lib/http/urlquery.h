#ifndef KV_HTTP_URLQUERY_H
#define KV_HTTP_URLQUERY_H

/*
 * The target of a request, "/path?name=value&name=value", as bytes: %XX stands
 * for any byte, NUL too, and in the query '+' for a blank. What a browser would
 * cut off as a fragment ('#') is part of it.
 */

#include <stddef.h>

struct kv_urlquery_text {
	const char *p; /* a NUL that does not count follows */
	size_t len;
};

struct kv_urlquery_arg {
	struct kv_urlquery_text name;
	struct kv_urlquery_text value; /* empty when there is no '=' */
};

struct kv_urlquery {
	struct kv_urlquery_text path;
	struct kv_urlquery_arg *args; /* in their order */
	size_t n_args;
	char *buf; /* what all of them point into */
};

/*
 * Of "http://host/path?..." the part before the path is skipped. 0; -EINVAL for
 * a '%' that no two hexadecimal digits follow; -ENOMEM. After a failure there
 * is nothing to be freed.
 */
int kv_urlquery_parse(struct kv_urlquery *q, const char *target, size_t len);
void kv_urlquery_fini(struct kv_urlquery *q);

/* The value of the first argument of this name, or NULL. */
const struct kv_urlquery_text *kv_urlquery_find(const struct kv_urlquery *q,
						const char *name);

#endif
