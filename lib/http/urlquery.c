#include "http/urlquery.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "base/str.h"

struct cursor {
	const char *p;
	const char *end;
	char *to;
};

static int
escaped_byte(struct cursor *c, char *out)
{
	int high, low;

	if (c->end - c->p < 3)
		return -EINVAL;
	high = kv_str_hex(c->p[1]);
	low = kv_str_hex(c->p[2]);
	if (high < 0 || low < 0)
		return -EINVAL;
	*out = (char)(high << 4 | low);
	c->p += 3;
	return 0;
}

/* Decodes up to one of `stops`, which stays unread, or to the end. */
static int
take(struct cursor *c, const char *stops, bool in_query,
     struct kv_urlquery_text *out)
{
	out->p = c->to;
	while (c->p < c->end && (!*c->p || !strchr(stops, *c->p))) {
		if (*c->p == '%') {
			if (escaped_byte(c, c->to) < 0)
				return -EINVAL;
		} else {
			*c->to = in_query && *c->p == '+' ? ' ' : *c->p;
			c->p++;
		}
		c->to++;
	}
	out->len = (size_t)(c->to - out->p);
	/* Room for it: of the byte stopped at, or past the end. */
	*c->to++ = '\0';
	return 0;
}

static bool
skip(struct cursor *c, char what)
{
	if (c->p == c->end || *c->p != what)
		return false;
	c->p++;
	return true;
}

static int
take_args(struct cursor *c, struct kv_urlquery *q)
{
	struct kv_urlquery_arg *arg;
	bool has_name;

	while (c->p < c->end) {
		if (skip(c, '&'))
			continue;
		arg = &q->args[q->n_args];
		has_name = *c->p != '=';
		if (take(c, "=&", true, &arg->name) < 0)
			return -EINVAL;
		arg->value = (struct kv_urlquery_text){ .p = arg->name.p +
							     arg->name.len };
		if (skip(c, '=') && take(c, "&", true, &arg->value) < 0)
			return -EINVAL;
		q->n_args += has_name;
	}
	return 0;
}

static const char *
path_start(const char *target, const char *end)
{
	static const char scheme[] = "http://";
	size_t len = sizeof(scheme) - 1;
	const char *p;

	if ((size_t)(end - target) < len || memcmp(target, scheme, len) != 0)
		return target;
	for (p = target + len; p < end && *p != '/' && *p != '?'; p++)
		;
	return p;
}

static size_t
args_max(const char *p, const char *end)
{
	size_t n = 1;

	while (p < end && (p = memchr(p, '&', (size_t)(end - p)))) {
		p++;
		n++;
	}
	return n;
}

int
kv_urlquery_parse(struct kv_urlquery *q, const char *target, size_t len)
{
	struct cursor c = { .end = target + len };
	int err;

	memset(q, 0, sizeof(*q));
	if (KV_FAULT_POINT())
		return -ENOMEM;
	c.p = path_start(target, c.end);
	q->args = calloc(args_max(c.p, c.end), sizeof(*q->args));
	/* A NUL stands where a separator stood, and one at the end. */
	q->buf = malloc((size_t)(c.end - c.p) + 1);
	c.to = q->buf;
	err = q->args && q->buf ? 0 : -ENOMEM;
	if (!err)
		err = take(&c, "?", false, &q->path);
	if (!err && skip(&c, '?'))
		err = take_args(&c, q);
	if (err)
		kv_urlquery_fini(q);
	return err;
}

void
kv_urlquery_fini(struct kv_urlquery *q)
{
	free(q->args);
	free(q->buf);
	memset(q, 0, sizeof(*q));
}

const struct kv_urlquery_text *
kv_urlquery_find(const struct kv_urlquery *q, const char *name)
{
	size_t i, len = strlen(name);

	for (i = 0; i < q->n_args; i++)
		if (q->args[i].name.len == len &&
		    memcmp(q->args[i].name.p, name, len) == 0)
			return &q->args[i].value;
	return NULL;
}
