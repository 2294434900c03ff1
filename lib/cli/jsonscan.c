#include "cli/jsonscan.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/attr.h"
#include "base/utf8.h"

struct scan {
	const char *p; /* next byte; where the error is after a failure */
	const char *end;
	unsigned depth;
	const char *what;
	kv_jsonscan_member_fn
		on_member; /* for members of the outermost object */
	void *arg;
};

static int value(struct scan *s);

static int
fail(struct scan *s, const char *what)
{
	s->what = what;
	return -EINVAL;
}

static bool
is_next(const struct scan *s, char c)
{
	return s->p < s->end && *s->p == c;
}

static bool
accept(struct scan *s, char c)
{
	if (!is_next(s, c))
		return false;
	s->p++;
	return true;
}

static bool
accept_word(struct scan *s, const char *word)
{
	size_t n = strlen(word);

	if ((size_t)(s->end - s->p) < n || memcmp(s->p, word, n) != 0)
		return false;
	s->p += n;
	return true;
}

static void
skip_space(struct scan *s)
{
	while (s->p < s->end && *s->p && strchr(" \t\n\r", *s->p))
		s->p++;
}

static bool
is_digit(const struct scan *s, size_t at)
{
	return (size_t)(s->end - s->p) > at && s->p[at] >= '0' &&
	       s->p[at] <= '9';
}

static void
skip_digits(struct scan *s)
{
	while (is_digit(s, 0))
		s->p++;
}

/* After the backslash. */
static int
escape(struct scan *s)
{
	static const char hex[] = "0123456789abcdefABCDEF";

	if (s->p == s->end || !*s->p || !strchr("\"\\/bfnrtu", *s->p))
		return fail(s, "unknown escape in a string");
	if (*s->p++ != 'u')
		return 0;
	for (int i = 0; i < 4; i++, s->p++)
		if (s->p == s->end || !*s->p || !strchr(hex, *s->p))
			return fail(s, "\\u needs four hexadecimal digits");
	return 0;
}

/* After the opening quote. */
static int
string(struct scan *s)
{
	uint32_t cp;
	int rc;

	while (!accept(s, '"')) {
		if (s->p == s->end)
			return fail(s, "a string has no end");
		if (accept(s, '\\')) {
			rc = escape(s);
			if (rc < 0)
				return rc;
			continue;
		}
		rc = kv_utf8_next(s->p, (size_t)(s->end - s->p), &cp);
		if (rc < 0)
			return fail(s, "not UTF-8");
		if (cp < 0x20)
			return fail(s, "control character in a string");
		s->p += rc;
	}
	return 0;
}

static int
number(struct scan *s)
{
	accept(s, '-');
	if (!is_digit(s, 0))
		return accept_word(s, "Infinity")
			       ? 0
			       : fail(s, "expected a digit after '-'");
	if (!accept(s, '0'))
		skip_digits(s);
	if (is_next(s, '.') && is_digit(s, 1)) {
		s->p++;
		skip_digits(s);
	}
	if (is_next(s, 'e') || is_next(s, 'E')) {
		size_t sign =
			s->end - s->p > 1 && (s->p[1] == '+' || s->p[1] == '-');

		if (is_digit(s, 1 + sign)) {
			s->p += 1 + sign;
			skip_digits(s);
		}
	}
	return 0;
}

static int
member(struct scan *s)
{
	struct kv_jsonscan_span key, val;
	int rc;

	skip_space(s);
	if (!accept(s, '"'))
		return fail(s, "expected a key in double quotes");
	key.p = s->p;
	rc = string(s);
	if (rc < 0)
		return rc;
	key.n = (size_t)(s->p - key.p) - 1;
	skip_space(s);
	if (!accept(s, ':'))
		return fail(s, "expected ':' after the key");
	skip_space(s);
	val.p = s->p;
	rc = value(s);
	if (rc < 0)
		return rc;
	val.n = (size_t)(s->p - val.p);
	if (s->depth == 1)
		s->on_member(s->arg, key, val);
	return 0;
}

/* After the opening bracket: ITEMs up to CLOSE. */
static int
items(struct scan *s, char close, int (*item)(struct scan *), const char *what)
{
	int rc;

	if (++s->depth > KV_JSONSCAN_DEPTH_MAX)
		return fail(s, "nested too deeply");
	skip_space(s);
	if (!accept(s, close)) {
		do {
			rc = item(s);
			if (rc < 0)
				return rc;
			skip_space(s);
		} while (accept(s, ','));
		if (!accept(s, close))
			return fail(s, what);
	}
	s->depth--;
	return 0;
}

static int
value(struct scan *s)
{
	static const char *const words[] = { "null", "true", "false", "NaN",
					     "Infinity" };

	skip_space(s);
	if (accept(s, '{'))
		return items(s, '}', member, "expected ',' or '}'");
	if (accept(s, '['))
		return items(s, ']', value, "expected ',' or ']'");
	if (accept(s, '"'))
		return string(s);
	if (is_next(s, '-') || is_digit(s, 0))
		return number(s);
	for (size_t i = 0; i < KV_ARRAY_LEN(words); i++)
		if (accept_word(s, words[i]))
			return 0;
	return fail(s, "expected a value");
}

static int
document(struct scan *s)
{
	int rc;

	if (accept_word(s, "\xef\xbb\xbf"))
		return fail(s, "the file starts with a byte order mark");
	skip_space(s);
	if (s->p < s->end && !is_next(s, '{'))
		return fail(s, "expected '{': the file holds one object");
	rc = value(s);
	if (rc < 0)
		return rc;
	skip_space(s);
	return s->p == s->end ? 0 : fail(s, "text after the final '}'");
}

static void
locate(const struct scan *s, const char *start, struct kv_jsonscan_error *err)
{
	err->what = s->what;
	err->line = 1;
	err->column = 1;
	for (const char *p = start; p < s->p; p++) {
		if (*p == '\n') {
			err->line++;
			err->column = 1;
		} else if (((unsigned char)*p & 0xc0) != 0x80) {
			err->column++;
		}
	}
}

int
kv_jsonscan_object(struct kv_jsonscan_span text,
		   kv_jsonscan_member_fn on_member, void *arg,
		   struct kv_jsonscan_error *err)
{
	struct scan s = {
		.p = text.p,
		.end = text.p + text.n,
		.on_member = on_member,
		.arg = arg,
	};
	int rc = document(&s);

	if (rc < 0)
		locate(&s, text.p, err);
	return rc;
}
