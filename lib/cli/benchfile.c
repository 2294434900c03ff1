#include "cli/benchfile.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "base/utf8.h"
#include "cli/jsonscan.h"

/* Above it a double is not every integer. */
#define HELD_MAX 9007199254740992.0

/* Where an error is told. */
struct why {
	char *p;
	size_t n;
};

KV_PRINTF(2, 3)
static int
refuse(const struct why *why, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(why->p, why->n, fmt, ap);
	va_end(ap);
	return -EINVAL;
}

static bool
is_printable(const char *s)
{
	size_t n = strlen(s), len;
	uint32_t c;
	int rc;

	for (; n > 0; s += len, n -= len) {
		rc = kv_utf8_next(s, n, &c);
		if (rc < 0 || !kv_utf8_is_printable(c))
			return false;
		len = (size_t)rc;
	}
	return true;
}

static int
text_get(const cJSON *o, const char *name, char *out, const struct why *why)
{
	const cJSON *v = cJSON_GetObjectItemCaseSensitive(o, name);

	if (!cJSON_IsString(v) || !v->valuestring[0] ||
	    strlen(v->valuestring) > KV_BENCHFILE_TEXT_MAX ||
	    !is_printable(v->valuestring))
		return refuse(why,
			      "\"%s\" is no printable text of at most %d "
			      "bytes",
			      name, KV_BENCHFILE_TEXT_MAX);
	memcpy(out, v->valuestring, strlen(v->valuestring) + 1);
	return 0;
}

/* Null and absent: `none`. */
static int
number_get(const cJSON *o, const char *name, double none, double *out,
	   const struct why *why)
{
	const cJSON *v = cJSON_GetObjectItemCaseSensitive(o, name);

	*out = none;
	if (!v || cJSON_IsNull(v))
		return 0;
	if (!cJSON_IsNumber(v) || !isfinite(v->valuedouble) ||
	    v->valuedouble < 0)
		return refuse(why, "\"%s\" is no number from 0 on", name);
	*out = v->valuedouble;
	return 0;
}

static int
row_get(const cJSON *o, struct kv_benchfile_row *row, const struct why *why)
{
	char better[KV_BENCHFILE_TEXT_MAX + 1];
	double held;

	*row = (struct kv_benchfile_row){ 0 };
	if (!cJSON_IsObject(o))
		return refuse(why, "a result is no object");
	if (text_get(o, "name", row->name, why) < 0 ||
	    text_get(o, "unit", row->unit, why) < 0 ||
	    text_get(o, "better", better, why) < 0 ||
	    number_get(o, "held", 0, &held, why) < 0 ||
	    number_get(o, "value", -1, &row->value, why) < 0 ||
	    number_get(o, "ratio", 0, &row->ratio, why) < 0 ||
	    number_get(o, "bar", 0, &row->bar, why) < 0)
		return -EINVAL;
	row->is_less = strcmp(better, "less") == 0;
	if (!row->is_less && strcmp(better, "more") != 0)
		return refuse(why, "\"better\" is neither more nor less");
	if (row->value < 0)
		return refuse(why, "\"value\" is missing");
	if (held > HELD_MAX)
		return refuse(why, "\"held\" is too large");
	row->held = (uint64_t)held;
	return 0;
}

static int
rows_get(const cJSON *list, struct kv_benchfile *f, const struct why *why)
{
	const cJSON *o;

	if (!cJSON_IsArray(list))
		return refuse(why, "\"results\" is no list");
	if (cJSON_GetArraySize(list) > KV_BENCHFILE_ROWS_MAX)
		return refuse(why, "more than %d results",
			      KV_BENCHFILE_ROWS_MAX);
	f->rows =
		calloc((size_t)cJSON_GetArraySize(list) + 1, sizeof(*f->rows));
	if (!f->rows) {
		refuse(why, "out of memory");
		return -ENOMEM;
	}
	cJSON_ArrayForEach(o, list) if (row_get(o, &f->rows[f->n++], why) <
					0) return -EINVAL;
	return 0;
}

static void
member(void *arg, struct kv_jsonscan_span key, struct kv_jsonscan_span value)
{
	(void)arg;
	(void)key;
	(void)value;
}

int
kv_benchfile_parse(const char *text, size_t len, struct kv_benchfile *out,
		   char *err, size_t err_bytes)
{
	const struct kv_jsonscan_span span = { text, len };
	const struct why why = { err, err_bytes };
	struct kv_benchfile f = { 0 };
	struct kv_jsonscan_error bad;
	cJSON *root;
	int rc;

	if (kv_jsonscan_object(span, member, NULL, &bad) < 0)
		return refuse(&why, "line %u, column %u: %s", bad.line,
			      bad.column, bad.what);
	root = cJSON_ParseWithLength(text, len);
	if (!root)
		return refuse(&why, "text that cannot be read");
	rc = text_get(root, "host", f.host, &why);
	if (rc == 0)
		rc = text_get(root, "version", f.version, &why);
	if (rc == 0)
		rc = rows_get(cJSON_GetObjectItemCaseSensitive(root, "results"),
			      &f, &why);
	cJSON_Delete(root);
	if (rc < 0)
		kv_benchfile_fini(&f);
	else
		*out = f;
	return rc;
}

void
kv_benchfile_fini(struct kv_benchfile *f)
{
	free(f->rows);
	*f = (struct kv_benchfile){ 0 };
}
