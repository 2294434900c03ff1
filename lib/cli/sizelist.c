#include "cli/sizelist.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/str.h"

enum {
	WORD_BYTES = 64,
	LIST_MAX = 64,
};

struct parser {
	const struct kv_sizelist_rule *rule;
	uint64_t out[LIST_MAX];
	size_t n;
	char *err;
	size_t err_bytes;
};

KV_PRINTF(3, 4)
static int
refuse(const struct parser *p, int rc, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(p->err, p->err_bytes, fmt, ap);
	va_end(ap);
	return rc;
}

static int
number(const struct parser *p, const char *word, size_t len, uint64_t *out)
{
	char text[WORD_BYTES], min[16], max[16];
	int rc = -EINVAL;

	if (len < sizeof(text)) {
		snprintf(text, sizeof(text), "%.*s", (int)len, word);
		rc = kv_str_size(text, out);
	}
	if (rc == -EINVAL)
		return refuse(p, rc, "'%.*s' is no %s",
			      len < WORD_BYTES ? (int)len : WORD_BYTES, word,
			      p->rule->is_count ? "number" : "size");
	if (rc == 0 && *out >= p->rule->min && *out <= p->rule->max)
		return 0;
	if (p->rule->is_count)
		return refuse(p, -ERANGE,
			      "'%s' is not between %" PRIu64 " and %" PRIu64,
			      text, p->rule->min, p->rule->max);
	return refuse(p, -ERANGE, "'%s' is not between %s and %s", text,
		      kv_str_size_format(min, sizeof(min), p->rule->min),
		      kv_str_size_format(max, sizeof(max), p->rule->max));
}

static int
add(struct parser *p, uint64_t size)
{
	if (p->n == p->rule->n_max || p->n == LIST_MAX)
		return refuse(p, -E2BIG, "more than %zu %s", p->n,
			      p->rule->is_count ? "numbers" : "sizes");
	p->out[p->n++] = size;
	return 0;
}

static int
range(struct parser *p, const char *word, size_t first_len, size_t len)
{
	uint64_t first = 0, last = 0;
	int rc = number(p, word, first_len, &first);

	if (rc == 0)
		rc = number(p, word + first_len + 2, len - first_len - 2,
			    &last);
	if (rc == 0 && (first > last || first == 0))
		rc = refuse(p, -EINVAL, "'%.*s' is no range", (int)len, word);
	for (; rc == 0 && first <= last; first *= 4) {
		rc = add(p, first);
		if (first > last / 4)
			break;
	}
	return rc;
}

int
kv_sizelist_parse(const char *text, const struct kv_sizelist_rule *rule,
		  uint64_t *out, char *err, size_t n)
{
	struct parser p = { .rule = rule, .err = err, .err_bytes = n };
	const char *dots;
	uint64_t size = 0;
	size_t len;
	int rc;

	for (;; text += len + 1) {
		len = strcspn(text, ",");
		dots = memmem(text, len, "..", 2);
		if (dots) {
			rc = range(&p, text, (size_t)(dots - text), len);
		} else {
			rc = number(&p, text, len, &size);
			rc = rc ? rc : add(&p, size);
		}
		if (rc)
			return rc;
		if (!text[len])
			break;
	}
	memcpy(out, p.out, p.n * sizeof(*out));
	return (int)p.n;
}
