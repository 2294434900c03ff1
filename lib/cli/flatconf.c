#include "cli/flatconf.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "cli/jsonscan.h"
#include "cli/pyjson.h"

enum {
	LINE_SIZE = KV_FLATCONF_NAME_SIZE + 2 * KV_FLATCONF_VALUE_SIZE,
};

KV_PRINTF(3, 4)
static int
refuse(char *err, size_t size, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(err, size, fmt, ap);
	va_end(ap);
	for (; *err; err++)
		if (iscntrl((unsigned char)*err))
			*err = '?';
	return -EINVAL;
}

/* ---- JSON ---- */

struct json {
	const struct kv_flatconf *conf;
	char *err;
	size_t size;
	int rc;
};

/* A scalar as text, or NULL. */
static const char *
scalar(struct kv_jsonscan_span value, char *buf, size_t size)
{
	switch (kv_pyjson_type(value)) {
	case KV_PYJSON_STR:
		return kv_pyjson_str(value, buf, size) < 0 ? NULL : buf;
	case KV_PYJSON_BOOL:
	case KV_PYJSON_INT:
	case KV_PYJSON_FLOAT:
		if (value.n >= size)
			return NULL;
		memcpy(buf, value.p, value.n);
		buf[value.n] = '\0';
		return buf;
	default:
		return NULL;
	}
}

static void
member(void *arg, struct kv_jsonscan_span key, struct kv_jsonscan_span value)
{
	/* The name in its quotes is a string for kv_pyjson_str. */
	struct kv_jsonscan_span quoted = { key.p - 1, key.n + 2 };
	char name[KV_FLATCONF_NAME_SIZE], buf[KV_FLATCONF_VALUE_SIZE];
	char why[512];
	struct json *j = arg;
	const char *text;

	if (j->rc < 0)
		return;
	if (kv_pyjson_str(quoted, name, sizeof(name)) < 0) {
		j->rc = refuse(j->err, j->size, "%s: a name of %zu bytes",
			       j->conf->path, key.n);
		return;
	}
	text = scalar(value, buf, sizeof(buf));
	if (!text) {
		j->rc = refuse(j->err, j->size,
			       "%s: %s: a text, a number, true or false is "
			       "wanted, up to %d bytes",
			       j->conf->path, name, KV_FLATCONF_VALUE_SIZE - 1);
		return;
	}
	j->rc = j->conf->set(j->conf->arg, name, text, why, sizeof(why));
	if (j->rc < 0)
		(void)refuse(j->err, j->size, "%s: %s", j->conf->path, why);
}

static int
parse_json(const struct kv_flatconf *f, const char *text, size_t len, char *err,
	   size_t size)
{
	struct kv_jsonscan_span span = { len ? text : "", len };
	struct json j = { .conf = f, .err = err, .size = size };
	struct kv_jsonscan_error error;

	if (kv_jsonscan_object(span, member, &j, &error) < 0 && j.rc == 0)
		j.rc = refuse(err, size, "%s:%u:%u: %s", f->path, error.line,
			      error.column, error.what);
	return j.rc;
}

/* ---- YAML ---- */

static bool
is_blank(char c)
{
	return c == ' ' || c == '\t';
}

static bool
is_rest_empty(const char *s)
{
	bool is_parted = is_blank(*s);

	while (is_blank(*s))
		s++;
	return !*s || (*s == '#' && is_parted);
}

/* Whether the character at S is there for the next one, in QUOTE. */
static bool
is_escape(const char *s, char quote)
{
	if (quote == '\'')
		return s[0] == quote && s[1] == quote;
	return s[0] == '\\' && (s[1] == quote || s[1] == '\\');
}

/* "..." or '...': the value in place, or NULL. */
static char *
unquote(char *s, const char **rest)
{
	char quote = *s, *to = s, *from = s + 1;

	for (; *from; from++) {
		if (is_escape(from, quote))
			from++;
		else if (*from == quote)
			break;
		else if (*from == '\\' && quote == '"')
			return NULL;
		*to++ = *from;
	}
	if (!*from)
		return NULL;
	*to = '\0';
	*rest = from + 1;
	return s;
}

/* A value without quotes and without the comment behind it. */
static char *
plain(char *s)
{
	size_t n;

	/* These begin something else than a text. */
	if (!*s || strchr("[]{}&*!|>%@`,#", *s))
		return NULL;
	if (strchr("-?:", *s) && (is_blank(s[1]) || !s[1]))
		return NULL;
	for (n = 1; s[n] && !(s[n] == '#' && is_blank(s[n - 1])); n++)
		if (s[n] == ':' && (is_blank(s[n + 1]) || !s[n + 1]))
			return NULL;
	while (is_blank(s[n - 1]))
		n--;
	s[n] = '\0';
	return strcmp(s, "~") == 0 || strcasecmp(s, "null") == 0 ? NULL : s;
}

/* A line without its end, in place. What is wrong with it, or NULL. */
static const char *
split(char *line, char **name, char **value)
{
	const char *rest = "";
	char *s = line;

	*name = NULL;
	if (is_rest_empty(line) || *line == '#')
		return NULL;
	if (is_blank(*line))
		return "lines that are set in belong to what is not read here";
	while (isalnum((unsigned char)*s) || *s == '_' || *s == '-' ||
	       *s == '.')
		s++;
	if (s == line || s - line >= KV_FLATCONF_NAME_SIZE || *s != ':' ||
	    !(is_blank(s[1]) || !s[1]))
		return "'name: value' is wanted";
	*s++ = '\0';
	while (is_blank(*s))
		s++;
	*value = *s == '"' || *s == '\'' ? unquote(s, &rest) : plain(s);
	if (!*value || !is_rest_empty(rest))
		return "a plain or quoted value on the same line is wanted";
	if (strlen(*value) >= KV_FLATCONF_VALUE_SIZE)
		return "the value is too long";
	*name = line;
	return NULL;
}

static bool
is_document_start(const char *line)
{
	return strncmp(line, "---", 3) == 0 && is_rest_empty(line + 3);
}

/* One line of N bytes. */
static int
parse_line(const struct kv_flatconf *f, const char *text, size_t n,
	   bool is_start, char *err, size_t size)
{
	char line[LINE_SIZE], *name, *value;
	const char *fault;

	if (n >= sizeof(line))
		return refuse(err, size, "the line is too long");
	if (memchr(text, '\0', n))
		return refuse(err, size, "a NUL byte");
	memcpy(line, text, n);
	line[n] = '\0';
	if (n && line[n - 1] == '\r')
		line[n - 1] = '\0';
	if (is_start && is_document_start(line))
		return 0;
	fault = split(line, &name, &value);
	if (fault)
		return refuse(err, size, "%s", fault);
	return name ? f->set(f->arg, name, value, err, size) : 0;
}

static int
parse_yaml(const struct kv_flatconf *f, const char *text, size_t len, char *err,
	   size_t size)
{
	const char *end = text + len, *stop;
	bool is_start = true;
	unsigned number = 0;
	char why[512];
	size_t n;
	int rc;

	while (text < end) {
		number++;
		stop = memchr(text, '\n', (size_t)(end - text));
		n = (size_t)((stop ? stop : end) - text);
		rc = parse_line(f, text, n, is_start, why, sizeof(why));
		if (rc < 0) {
			(void)refuse(err, size, "%s:%u: %s", f->path, number,
				     why);
			return rc;
		}
		/* Comments may stand before it, names may not. */
		is_start = is_start && (!n || strchr("# \t\r", *text));
		text += stop ? n + 1 : n;
	}
	return 0;
}

static bool
ends_with(const char *path, const char *end)
{
	size_t n = strlen(path), m = strlen(end);

	return n > m && strcmp(path + n - m, end) == 0;
}

int
kv_flatconf_parse(const struct kv_flatconf *f, const char *text, size_t len,
		  char *err, size_t size)
{
	if (len > KV_FLATCONF_BYTES_MAX) {
		(void)refuse(err, size, "%s: larger than %d bytes", f->path,
			     KV_FLATCONF_BYTES_MAX);
		return -EFBIG;
	}
	if (len >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) {
		text += 3;
		len -= 3;
	}
	if (ends_with(f->path, ".json"))
		return parse_json(f, text, len, err, size);
	if (ends_with(f->path, ".yaml") || ends_with(f->path, ".yml"))
		return parse_yaml(f, text, len, err, size);
	return refuse(err, size, "%s: a .yaml, .yml or .json file is wanted",
		      f->path);
}
