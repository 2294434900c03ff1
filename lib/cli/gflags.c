#include "cli/gflags.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "cli/guess.h"

enum {
	NAME_SIZE = 128,  /* of a name; no flag has one so long */
	LINE_SIZE = 4096, /* of a line in a file of flags */
	SHOWN_MAX = 64,   /* bytes of foreign text in an error */
};

/* A flag with its value, as a word or a line names it. */
struct named {
	size_t flag;
	const char *value; /* NULL: it is the next word */
	bool is_bare;      /* a boolean that stands alone */
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

const char *
kv_gflags_type_name(enum kv_gflags_type type)
{
	static const char *const names[] = {
		[KV_GFLAGS_BOOL] = "bool",     [KV_GFLAGS_INT32] = "int32",
		[KV_GFLAGS_UINT32] = "uint32", [KV_GFLAGS_INT64] = "int64",
		[KV_GFLAGS_UINT64] = "uint64", [KV_GFLAGS_DOUBLE] = "double",
		[KV_GFLAGS_STRING] = "string",
	};

	assert(type <= KV_GFLAGS_STRING);
	return names[type];
}

static bool
is_name(const char *name, const char *written)
{
	for (; *name && *written; name++, written++)
		if (*name != *written && !(*name == '_' && *written == '-'))
			return false;
	return *name == *written;
}

size_t
kv_gflags_find(const struct kv_gflags *g, const char *name)
{
	size_t i = 0;

	while (i < g->count &&
	       !(g->flags[i].name && is_name(g->flags[i].name, name)))
		i++;
	return i;
}

static int
refuse_unknown(const struct kv_gflags *g, const char *name, char *err,
	       size_t size)
{
	struct kv_guess guess = { 0 };

	for (size_t i = 0; i < g->count; i++)
		if (g->flags[i].name)
			kv_guess_try(&guess, name, strlen(name),
				     g->flags[i].name);
	return refuse(err, size, "unknown command line flag '%.*s'%s%s%s",
		      SHOWN_MAX, name, guess.best ? ", did you mean '" : "",
		      guess.best ? guess.best : "", guess.best ? "'?" : "");
}

/* WORD is without its dashes. */
static int
split(const struct kv_gflags *g, const char *word, struct named *out, char *err,
      size_t size)
{
	size_t n = strcspn(word, "=");
	char name[NAME_SIZE];

	snprintf(name, sizeof(name), "%.*s",
		 (int)(n < NAME_SIZE ? n : NAME_SIZE), word);
	*out = (struct named){
		.flag = kv_gflags_find(g, name),
		.value = word[n] ? word + n + 1 : NULL,
	};
	if (out->flag < g->count) {
		if (!out->value && g->flags[out->flag].type == KV_GFLAGS_BOOL) {
			out->value = "1";
			out->is_bare = true;
		}
		return 0;
	}
	if (strncmp(name, "no", 2) == 0)
		out->flag = kv_gflags_find(g, name + 2);
	if (out->flag == g->count)
		return refuse_unknown(g, name, err, size);
	if (g->flags[out->flag].type != KV_GFLAGS_BOOL)
		return refuse(err, size,
			      "boolean value (%s) specified for %s command "
			      "line flag",
			      name,
			      kv_gflags_type_name(g->flags[out->flag].type));
	out->is_bare = !out->value;
	out->value = "0"; /* of --noname=value, too */
	return 0;
}

static const char *
parse_bool(const char *text)
{
	static const char *const words[][2] = {
		{ "1", "0" }, { "t", "f" },    { "true", "false" },
		{ "y", "n" }, { "yes", "no" },
	};

	for (size_t i = 0; i < KV_ARRAY_LEN(words); i++) {
		if (strcasecmp(text, words[i][0]) == 0)
			return "true";
		if (strcasecmp(text, words[i][1]) == 0)
			return "false";
	}
	return NULL;
}

static int
base_of(const char *text)
{
	return text[0] == '0' && (text[1] == 'x' || text[1] == 'X') ? 16 : 10;
}

static const char *
parse_signed(const char *text, int64_t min, int64_t max, char *buf, size_t n)
{
	char *end;
	int64_t v;

	errno = 0;
	v = strtoll(text, &end, base_of(text));
	if (errno || *end || v < min || v > max)
		return NULL;
	snprintf(buf, n, "%" PRId64, v);
	return buf;
}

static const char *
parse_unsigned(const char *text, uint64_t max, char *buf, size_t n)
{
	char *end;
	uint64_t v;

	if (text[strspn(text, " ")] == '-')
		return NULL;
	errno = 0;
	v = strtoull(text, &end, base_of(text));
	if (errno || *end || v > max)
		return NULL;
	snprintf(buf, n, "%" PRIu64, v);
	return buf;
}

static const char *
parse_double(const char *text)
{
	char *end;

	errno = 0;
	(void)strtod(text, &end);
	return errno || *end ? NULL : text;
}

/* TEXT as a value of that type, in BUF or not, or NULL if it is none. */
static const char *
parse(enum kv_gflags_type type, const char *text, char *buf, size_t n)
{
	if (type == KV_GFLAGS_STRING)
		return text;
	if (!*text)
		return NULL;
	switch (type) {
	case KV_GFLAGS_BOOL:
		return parse_bool(text);
	case KV_GFLAGS_INT32:
		return parse_signed(text, INT32_MIN, INT32_MAX, buf, n);
	case KV_GFLAGS_INT64:
		return parse_signed(text, INT64_MIN, INT64_MAX, buf, n);
	case KV_GFLAGS_UINT32:
		return parse_unsigned(text, UINT32_MAX, buf, n);
	case KV_GFLAGS_UINT64:
		return parse_unsigned(text, UINT64_MAX, buf, n);
	default:
		return parse_double(text);
	}
}

int
kv_gflags_set(struct kv_gflags *g, size_t flag, const char *text,
	      enum kv_gflags_source source, char *err, size_t size)
{
	const struct kv_gflags_flag *f = &g->flags[flag];
	struct kv_gflags_value *v = &g->values[flag];
	const char *plain;
	char buf[32], *copy;

	plain = parse(f->type, text, buf, sizeof(buf));
	if (!plain)
		return refuse(err, size,
			      "illegal value '%.*s' specified for %s flag '%s'",
			      SHOWN_MAX, text, kv_gflags_type_name(f->type),
			      f->name);
	if (source < v->source)
		return 0;
	copy = strdup(plain);
	if (!copy) {
		snprintf(err, size, "out of memory");
		return -ENOMEM;
	}
	free(v->text);
	v->text = copy;
	v->source = source;
	return 0;
}

static int
assign(struct kv_gflags *g, size_t flag, const char *text, char *err,
       size_t size)
{
	int rc = kv_gflags_set(g, flag, text, KV_GFLAGS_COMMAND, err, size);

	return rc == 0 && g->set ? g->set(g->arg, flag, err, size) : rc;
}

int
kv_gflags_words(struct kv_gflags *g, int argc, char *const *argv, char *err,
		size_t size)
{
	const char *word, *bare = NULL;
	bool is_flags = true;
	struct named named;
	int rc;

	for (int i = 1; i < argc; i++) {
		word = argv[i];
		/* A lone '-' is a word like any other. */
		if (!is_flags || word[0] != '-' || !word[1]) {
			if (g->stray)
				g->stray(g->arg, word, bare);
			bare = NULL;
			continue;
		}
		word += word[1] == '-' ? 2 : 1;
		is_flags = *word != '\0';
		if (!is_flags)
			continue;
		rc = split(g, word, &named, err, size);
		if (rc < 0)
			return rc;
		if (!named.value && i + 1 == argc)
			return refuse(err, size,
				      "flag '%s' is missing its argument",
				      argv[i]);
		if (!named.value)
			named.value = argv[++i];
		rc = assign(g, named.flag, named.value, err, size);
		if (rc < 0)
			return rc;
		bare = named.is_bare ? g->flags[named.flag].name : NULL;
	}
	return 0;
}

/* One line of a file of flags, without its end. */
static int
apply_line(struct kv_gflags *g, const char *line, char *err, size_t size)
{
	struct named named;
	int rc;

	while (isspace((unsigned char)*line))
		line++;
	if (!*line || *line == '#')
		return 0;
	if (*line != '-')
		return refuse(err, size, "'%.*s' is no flag", SHOWN_MAX, line);
	line += line[1] == '-' ? 2 : 1;
	rc = split(g, line, &named, err, size);
	if (rc < 0)
		return rc;
	if (!named.value)
		return refuse(err, size, "flag '%s' is missing its argument",
			      g->flags[named.flag].name);
	return assign(g, named.flag, named.value, err, size);
}

int
kv_gflags_lines(struct kv_gflags *g, const char *text, size_t len, char *err,
		size_t size)
{
	const char *end = text + len, *stop;
	char line[LINE_SIZE], why[256];
	unsigned number = 0;
	size_t n;
	int rc;

	while (text < end) {
		number++;
		stop = memchr(text, '\n', (size_t)(end - text));
		n = (size_t)((stop ? stop : end) - text);
		if (n >= sizeof(line) || memchr(text, '\0', n))
			return refuse(err, size, "%u: %s", number,
				      n >= sizeof(line) ? "too long"
							: "a NUL byte");
		memcpy(line, text, n);
		line[n] = '\0';
		if (n && line[n - 1] == '\r')
			line[n - 1] = '\0';
		rc = apply_line(g, line, why, sizeof(why));
		if (rc < 0) {
			(void)refuse(err, size, "%u: %s", number, why);
			return rc;
		}
		text += stop ? n + 1 : n;
	}
	return 0;
}

void
kv_gflags_fini(struct kv_gflags *g)
{
	for (size_t i = 0; i < g->count; i++) {
		free(g->values[i].text);
		g->values[i] = (struct kv_gflags_value){ 0 };
	}
}
