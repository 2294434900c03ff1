#include "cli/pyjson.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "base/attr.h"
#include "base/utf8.h"

/* A text of bounded length; what does not fit is dropped and remembered. */
struct text {
	char *p;
	size_t size;
	size_t n;
	bool full;
};

static void
add_bytes(struct text *t, const char *p, size_t n)
{
	size_t room = t->size - 1 - t->n;

	if (n > room) {
		t->full = true;
		n = room;
	}
	memcpy(t->p + t->n, p, n);
	t->n += n;
}

static void
add(struct text *t, const char *s)
{
	add_bytes(t, s, strlen(s));
}

static void
finish(struct text *t)
{
	if (!t->full) {
		t->p[t->n] = '\0';
		return;
	}
	t->n = t->size - 4;
	/* Do not leave half a character in front of the dots. */
	while (t->n && ((unsigned char)t->p[t->n] & 0xc0) == 0x80)
		t->n--;
	memcpy(t->p + t->n, "...", 4);
}

static void
repr_char(struct text *t, uint32_t c, char quote, const char *p, size_t n)
{
	char buf[16];

	if (c == '\n')
		add(t, "\\n");
	else if (c == '\r')
		add(t, "\\r");
	else if (c == '\t')
		add(t, "\\t");
	else if (c == '\\' || c == (uint32_t)quote)
		add_bytes(t, (char[]){ '\\', (char)c }, 2);
	else if (kv_utf8_is_printable(c))
		add_bytes(t, p, n);
	else {
		snprintf(buf, sizeof(buf),
			 c < 0x100     ? "\\x%02" PRIx32
			 : c < 0x10000 ? "\\u%04" PRIx32
				       : "\\U%08" PRIx32,
			 c);
		add(t, buf);
	}
}

static void
repr_str(struct text *t, const char *s)
{
	char quote = strchr(s, '\'') && !strchr(s, '"') ? '"' : '\'';
	size_t left = strlen(s);
	uint32_t c;
	int n;

	add_bytes(t, &quote, 1);
	for (; left; s += n, left -= (size_t)n) {
		n = kv_utf8_next(s, left, &c);
		if (n < 0) {
			/* How Python decodes such a byte of an argument. */
			c = 0xdc00U | (unsigned char)*s;
			n = 1;
		}
		repr_char(t, c, quote, s, (size_t)n);
	}
	add_bytes(t, &quote, 1);
}

static void
repr_double(struct text *t, double v)
{
	char buf[40];
	int digits = 0;
	long exp10;

	if (!isfinite(v)) {
		add(t, isnan(v) ? "nan" : v < 0 ? "-inf" : "inf");
		return;
	}
	/* The fewest digits that read back as the same number. */
	do {
		snprintf(buf, sizeof(buf), "%.*e", digits, v);
	} while (strtod(buf, NULL) != v && ++digits < 17);
	exp10 = strtol(strchr(buf, 'e') + 1, NULL, 10);
	if (exp10 >= -4 && exp10 < 16)
		snprintf(buf, sizeof(buf), "%.*f",
			 digits > exp10 ? digits - (int)exp10 : 1, v);
	add(t, buf);
}

/*
 * cJSON keeps strings as C strings, and would cut one at "\u0000" without a
 * word. An escape starts at an odd backslash: "\\u0000" is none.
 */
static bool
has_nul_escape(struct kv_jsonscan_span value)
{
	for (size_t i = 0; i + 1 < value.n; i++) {
		if (value.p[i] != '\\')
			continue;
		if (value.n - i >= 6 && memcmp(value.p + i, "\\u0000", 6) == 0)
			return true;
		i++;
	}
	return false;
}

/* The string VALUE, decoded; *OUT is the caller's to delete. */
static int
decode(struct kv_jsonscan_span value, cJSON **out)
{
	if (has_nul_escape(value))
		return -EILSEQ;
	*out = cJSON_ParseWithLength(value.p, value.n);
	return *out ? 0 : -EILSEQ;
}

enum kv_pyjson_type
kv_pyjson_type(struct kv_jsonscan_span value)
{
	switch (value.p[0]) {
	case 'n':
		return KV_PYJSON_NONE;
	case 't':
	case 'f':
		return KV_PYJSON_BOOL;
	case '"':
		return KV_PYJSON_STR;
	case '[':
		return KV_PYJSON_LIST;
	case '{':
		return KV_PYJSON_DICT;
	default:
		break;
	}
	/* Also the capital letters of NaN and Infinity. */
	for (size_t i = 0; i < value.n; i++)
		if (!strchr("-0123456789", value.p[i]))
			return KV_PYJSON_FLOAT;
	return KV_PYJSON_INT;
}

const char *
kv_pyjson_type_name(enum kv_pyjson_type type)
{
	static const char *const names[] = {
		[KV_PYJSON_NONE] = "NoneType", [KV_PYJSON_BOOL] = "bool",
		[KV_PYJSON_INT] = "int",       [KV_PYJSON_FLOAT] = "float",
		[KV_PYJSON_STR] = "str",       [KV_PYJSON_LIST] = "list",
		[KV_PYJSON_DICT] = "dict",
	};

	return names[type];
}

/*
 * Numbers are read in place: a member of an object is always followed by a
 * character that can belong to no number.
 */

bool
kv_pyjson_is_true(struct kv_jsonscan_span value)
{
	switch (kv_pyjson_type(value)) {
	case KV_PYJSON_NONE:
		return false;
	case KV_PYJSON_BOOL:
		return value.p[0] == 't';
	case KV_PYJSON_INT:
	case KV_PYJSON_FLOAT:
		return strtod(value.p, NULL) != 0;
	case KV_PYJSON_STR:
		return value.n > 2;
	case KV_PYJSON_LIST:
	case KV_PYJSON_DICT:
	default:
		/* Empty if nothing but blanks is between the brackets. */
		for (size_t i = 1; i < value.n - 1; i++)
			if (!strchr(" \t\n\r", value.p[i]))
				return true;
		return false;
	}
}

static int64_t
clamp(double v)
{
	if (v >= 0x1p63)
		return INT64_MAX;
	return v < -0x1p63 ? INT64_MIN : (int64_t)v;
}

int
kv_pyjson_int(struct kv_jsonscan_span value, int64_t *out)
{
	double v;

	switch (kv_pyjson_type(value)) {
	case KV_PYJSON_BOOL:
		*out = value.p[0] == 't';
		return 0;
	case KV_PYJSON_INT:
		*out = strtoll(value.p, NULL, 10);
		return 0;
	case KV_PYJSON_FLOAT:
		v = strtod(value.p, NULL);
		if (isnan(v))
			return -EINVAL;
		if (isinf(v))
			return -ERANGE;
		*out = clamp(v);
		return 0;
	case KV_PYJSON_NONE:
	case KV_PYJSON_STR:
	case KV_PYJSON_LIST:
	case KV_PYJSON_DICT:
	default:
		return -EINVAL;
	}
}

int
kv_pyjson_str(struct kv_jsonscan_span value, char *out, size_t size)
{
	cJSON *item;
	size_t n;
	int rc;

	if (kv_pyjson_type(value) != KV_PYJSON_STR)
		return -EINVAL;
	rc = decode(value, &item);
	if (rc < 0)
		return rc;
	n = strlen(item->valuestring);
	if (n < size)
		memcpy(out, item->valuestring, n + 1);
	else
		rc = -ENAMETOOLONG;
	cJSON_Delete(item);
	return rc;
}

/* The value, bracket or separator that text P, known to be JSON, starts with.
 */
static size_t
token_length(const char *p, size_t n)
{
	size_t i = 1;

	if (*p == '"') {
		while (p[i] != '"')
			i += p[i] == '\\' ? 2 : 1;
		return i + 1;
	}
	if (strchr("[]{},:", *p))
		return 1;
	while (i < n && !strchr(" \t\n\r[]{},:", p[i]))
		i++;
	return i;
}

static int
repr_token(struct text *t, struct kv_jsonscan_span token)
{
	cJSON *item;
	int rc;

	if (strchr("[]{},:", token.p[0])) {
		add_bytes(t, token.p, 1);
		add(t, token.p[0] == ',' || token.p[0] == ':' ? " " : "");
		return 0;
	}
	switch (kv_pyjson_type(token)) {
	case KV_PYJSON_NONE:
		add(t, "None");
		return 0;
	case KV_PYJSON_BOOL:
		add(t, token.p[0] == 't' ? "True" : "False");
		return 0;
	case KV_PYJSON_FLOAT:
		repr_double(t, strtod(token.p, NULL));
		return 0;
	case KV_PYJSON_STR:
		rc = decode(token, &item);
		if (rc < 0)
			return rc;
		repr_str(t, item->valuestring);
		cJSON_Delete(item);
		return 0;
	case KV_PYJSON_INT:
		if (token.n == 2 && memcmp(token.p, "-0", 2) == 0)
			add(t, "0");
		else
			add_bytes(t, token.p, token.n);
		return 0;
	case KV_PYJSON_LIST:
	case KV_PYJSON_DICT:
	default:
		return 0;
	}
}

int
kv_pyjson_repr(struct kv_jsonscan_span value, char *out, size_t size)
{
	struct text t = { .p = out, .size = size };
	size_t n;
	int rc;

	for (size_t i = 0; i < value.n && !t.full; i += n) {
		n = strspn(value.p + i, " \t\n\r");
		if (n)
			continue;
		n = token_length(value.p + i, value.n - i);
		rc = repr_token(&t,
				(struct kv_jsonscan_span){ value.p + i, n });
		if (rc < 0)
			return rc;
	}
	finish(&t);
	return 0;
}

void
kv_pyjson_repr_text(const char *text, char *out, size_t size)
{
	struct text t = { .p = out, .size = size };

	repr_str(&t, text);
	finish(&t);
}
