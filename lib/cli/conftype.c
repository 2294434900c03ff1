#include "cli/conftype.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/attr.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/str.h"
#include "base/utf8.h"
#include "cli/pyjson.h"

#define TEXT_SIZE (KV_CONFTYPE_TEXT_MAX + 1)

enum {
	QPS_MAX = 4, /* as in xfer/mcenv.h */
	SLICE_MIN = 64 << 10,
	SLICE_MAX = 1 << 30,
};

KV_PRINTF(2, 3)
static int
refuse(struct kv_conftype_why *why, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(why->p, why->size, fmt, ap);
	va_end(ap);
	return -EINVAL;
}

static const char *
type_name(struct kv_jsonscan_span value)
{
	return kv_pyjson_type_name(kv_pyjson_type(value));
}

/* A string into BUF of TEXT_SIZE bytes. */
static int
read_str(char *buf, struct kv_jsonscan_span value, struct kv_conftype_why *why)
{
	switch (kv_pyjson_str(value, buf, TEXT_SIZE)) {
	case 0:
		return 0;
	case -ENAMETOOLONG:
		return refuse(why, "longer than %d bytes",
			      KV_CONFTYPE_TEXT_MAX);
	case -EILSEQ:
		return refuse(why, "holds \\u0000 or half a surrogate pair");
	default:
		return refuse(why, "must be a string, not %s",
			      type_name(value));
	}
}

static int
copy_str(char *field, const char *text, struct kv_conftype_why *why)
{
	size_t n = strlen(text);

	if (n >= TEXT_SIZE) {
		refuse(why, "longer than %d bytes", KV_CONFTYPE_TEXT_MAX);
		return -EINVAL;
	}
	memcpy(field, text, n + 1);
	return 0;
}

static int
text_read(void *field, struct kv_jsonscan_span value,
	  struct kv_conftype_why *why)
{
	char buf[TEXT_SIZE];
	int rc = read_str(buf, value, why);

	return rc < 0 ? rc : copy_str(field, buf, why);
}

static int
text_set(void *field, const char *text, struct kv_conftype_why *why)
{
	return copy_str(field, text, why);
}

static void
text_show(const void *field, char *buf, size_t size)
{
	snprintf(buf, size, "%s", (const char *)field);
}

const struct kv_conftype kv_conftype_text = {
	.size = TEXT_SIZE,
	.read = text_read,
	.set = text_set,
	.show = text_show,
};

static int
protocol_set(void *field, const char *text, struct kv_conftype_why *why)
{
	if (strcmp(text, "auto") != 0 && strcmp(text, "rdma") != 0 &&
	    strcmp(text, "tcp") != 0)
		return refuse(why, "'%s' is none of auto, rdma, tcp", text);
	return copy_str(field, text, why);
}

const struct kv_conftype kv_conftype_protocol = {
	.size = TEXT_SIZE,
	.read = text_read,
	.set = protocol_set,
	.show = text_show,
};

/* What Python's str.isspace() takes. */
static bool
is_blank(uint32_t c)
{
	return c == ' ' || (c >= 0x09 && c <= 0x0d) ||
	       (c >= 0x1c && c <= 0x1f) || c == 0x85 || c == 0xa0 ||
	       c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 ||
	       c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

static const char *
skip_blanks(const char *s)
{
	uint32_t c;
	int n;

	while (*s) {
		n = kv_utf8_next(s, strlen(s), &c);
		if (n < 0 || !is_blank(c))
			break;
		s += n;
	}
	return s;
}

/* Takes the blanks off both ends; cuts TEXT. */
static char *
strip(char *text)
{
	char *start = text + (skip_blanks(text) - text), *end = start;
	uint32_t c;
	int n;

	for (char *p = start; *p; p += n) {
		n = kv_utf8_next(p, strlen(p), &c);
		if (n < 0)
			n = 1;
		else if (is_blank(c))
			continue;
		end = p + n;
	}
	*end = '\0';
	return start;
}

/* The name without blanks around it. -ENAMETOOLONG. */
static int
tenant_take(void *field, const char *text)
{
	char buf[TEXT_SIZE], *name;
	size_t n = strlen(text);

	if (n >= sizeof(buf))
		return -ENAMETOOLONG;
	memcpy(buf, text, n + 1);
	name = strip(buf);
	if (!*name)
		name = strcpy(buf, "default");
	n = strlen(name);
	if (n > KV_TENANT_BYTES_MAX)
		return -ENAMETOOLONG;
	memcpy(field, name, n + 1);
	return 0;
}

/* An option that was given says something, unlike a key of the file. */
static int
tenant_set(void *field, const char *text, struct kv_conftype_why *why)
{
	if (!*skip_blanks(text))
		return refuse(why, "the name is empty");
	if (tenant_take(field, text) < 0)
		return refuse(why, "longer than %d bytes", KV_TENANT_BYTES_MAX);
	return 0;
}

static int
tenant_read(void *field, struct kv_jsonscan_span value,
	    struct kv_conftype_why *why)
{
	char buf[TEXT_SIZE];

	switch (kv_pyjson_type(value)) {
	case KV_PYJSON_NONE:
		return tenant_take(field, "");
	case KV_PYJSON_STR:
		if (read_str(buf, value, why) == 0 &&
		    tenant_take(field, buf) == 0)
			return 0;
		return refuse(why,
			      "tenant_id is longer than %d bytes or not text",
			      KV_TENANT_BYTES_MAX);
	case KV_PYJSON_BOOL:
	case KV_PYJSON_INT:
	case KV_PYJSON_FLOAT:
	case KV_PYJSON_LIST:
	case KV_PYJSON_DICT:
	default:
		if (kv_pyjson_repr(value, buf, sizeof(buf)) < 0)
			copy_str(buf, "?", why);
		return refuse(why,
			      "tenant_id must be a string or null, got %s: %s",
			      type_name(value), buf);
	}
}

const struct kv_conftype kv_conftype_tenant = {
	.size = TEXT_SIZE,
	.names_key = true,
	.read = tenant_read,
	.set = tenant_set,
	.show = text_show,
};

static int
mode_set(void *field, const char *text, struct kv_conftype_why *why)
{
	if (strcmp(text, "embedded") == 0 ||
	    strcmp(text, "standalone-store") == 0)
		return copy_str(field, text, why);
	kv_pyjson_repr_text(text, field, TEXT_SIZE);
	return 0;
}

static int
mode_read(void *field, struct kv_jsonscan_span value,
	  struct kv_conftype_why *why)
{
	char buf[TEXT_SIZE];

	if (kv_pyjson_str(value, buf, sizeof(buf)) == 0)
		return mode_set(field, buf, why);
	if (kv_pyjson_repr(value, buf, sizeof(buf)) < 0)
		return refuse(why,
			      "neither \"embedded\" nor \"standalone-store\"");
	return copy_str(field, buf, why);
}

const struct kv_conftype kv_conftype_mode = {
	.size = TEXT_SIZE,
	.read = mode_read,
	.set = mode_set,
	.show = text_show,
};

static const char infinite[] = "cannot convert float infinity to integer";

/* As int(float(number) * factor) does it, rounding of large numbers too. */
static int
size_scale(double number, double factor, int64_t *out,
	   struct kv_conftype_why *why)
{
	double v = number * factor;

	if (isinf(v))
		return refuse(why, "%s", infinite);
	*out = v < 0x1p63 ? (int64_t)v : INT64_MAX;
	return 0;
}

/* Whether float() takes N digits and dots. */
static bool
is_number(const char *s, int n)
{
	int dots = 0;

	for (int i = 0; i < n; i++)
		dots += s[i] == '.';
	return dots < 2 && dots < n;
}

static int
size_parse(const char *text, int64_t *out, struct kv_conftype_why *why)
{
	static const struct {
		const char *name;
		double bytes;
	} units[] = {
		{ "", 1 },        { "b", 1 },       { "kb", 0x1p10 },
		{ "mb", 0x1p20 }, { "gb", 0x1p30 },
	};
	char buf[TEXT_SIZE], *s;
	const char *unit;
	int digits;

	if (copy_str(buf, text, why) < 0)
		return -EINVAL;
	s = strip(buf);
	if (!*s)
		return refuse(why, "Size cannot be empty.");
	digits = (int)strspn(s, "0123456789.");
	unit = skip_blanks(s + digits);
	for (size_t i = 0; digits && i < KV_ARRAY_LEN(units); i++) {
		if (strcasecmp(unit, units[i].name) != 0)
			continue;
		if (!is_number(s, digits))
			return refuse(why,
				      "Invalid numeric value '%.*s' in: '%s'",
				      digits, s, text);
		return size_scale(strtod(s, NULL), units[i].bytes, out, why);
	}
	return refuse(why, "Invalid format: '%s'", text);
}

static int
size_read(void *field, struct kv_jsonscan_span value,
	  struct kv_conftype_why *why)
{
	char buf[TEXT_SIZE];
	int rc;

	if (kv_pyjson_type(value) == KV_PYJSON_STR) {
		rc = read_str(buf, value, why);
		return rc < 0 ? rc : size_parse(buf, field, why);
	}
	rc = kv_pyjson_int(value, field);
	if (rc == -ERANGE)
		return refuse(why, "%s", infinite);
	if (rc < 0)
		return refuse(why, "Unsupported type for size: <class '%s'>",
			      type_name(value));
	return 0;
}

static int
size_set(void *field, const char *text, struct kv_conftype_why *why)
{
	uint64_t bytes;
	int rc = kv_str_size(text, &bytes);

	if (rc == -ERANGE || (!rc && bytes >= INT64_MAX))
		return refuse(why, "'%s' is too large", text);
	if (rc < 0)
		return refuse(why, "'%s' is no size such as 512MB or 1.5GB",
			      text);
	*(int64_t *)field = (int64_t)bytes;
	return 0;
}

static void
size_show(const void *field, char *buf, size_t size)
{
	snprintf(buf, size, "%" PRId64, *(const int64_t *)field);
}

const struct kv_conftype kv_conftype_size = {
	.size = sizeof(int64_t),
	.read = size_read,
	.set = size_set,
	.show = size_show,
};

static int
bool_read(void *field, struct kv_jsonscan_span value,
	  struct kv_conftype_why *why)
{
	if (kv_pyjson_type(value) != KV_PYJSON_BOOL)
		return refuse(why, "must be true or false, not %s",
			      type_name(value));
	*(bool *)field = value.p[0] == 't';
	return 0;
}

static int
truth_read(void *field, struct kv_jsonscan_span value,
	   struct kv_conftype_why *why)
{
	(void)why;
	*(bool *)field = kv_pyjson_is_true(value);
	return 0;
}

static int
bool_set(void *field, const char *text, struct kv_conftype_why *why)
{
	static const char *const words[] = { "false", "true", "no", "yes",
					     "off",   "on",   "0",  "1" };

	for (size_t i = 0; i < KV_ARRAY_LEN(words); i++) {
		if (strcasecmp(text, words[i]) == 0) {
			*(bool *)field = i % 2;
			return 0;
		}
	}
	return refuse(why, "'%s' is neither yes nor no", text);
}

static void
bool_show(const void *field, char *buf, size_t size)
{
	snprintf(buf, size, "%s", *(const bool *)field ? "true" : "false");
}

const struct kv_conftype kv_conftype_bool = {
	.size = sizeof(bool),
	.is_flag = true,
	.read = bool_read,
	.set = bool_set,
	.show = bool_show,
};

const struct kv_conftype kv_conftype_truth = {
	.size = sizeof(bool),
	.is_flag = true,
	.read = truth_read,
	.set = bool_set,
	.show = bool_show,
};

/* A string, or a number as it is written. */
static int
read_number(char *buf, struct kv_jsonscan_span value,
	    struct kv_conftype_why *why)
{
	enum kv_pyjson_type type = kv_pyjson_type(value);

	if (type == KV_PYJSON_STR)
		return read_str(buf, value, why);
	if (type != KV_PYJSON_INT && type != KV_PYJSON_FLOAT)
		return refuse(why, "must be a number, not %s",
			      type_name(value));
	if (value.n >= TEXT_SIZE)
		return refuse(why, "longer than %d bytes",
			      KV_CONFTYPE_TEXT_MAX);
	memcpy(buf, value.p, value.n);
	buf[value.n] = '\0';
	return 0;
}

static int
port_set(void *field, const char *text, struct kv_conftype_why *why)
{
	uint64_t port;

	if (kv_str_u64(text, 0, UINT16_MAX, &port) < 0)
		return refuse(why, "'%s' is no port (0..65535)", text);
	*(uint16_t *)field = (uint16_t)port;
	return 0;
}

static int
port_read(void *field, struct kv_jsonscan_span value,
	  struct kv_conftype_why *why)
{
	char buf[TEXT_SIZE];
	int rc = read_number(buf, value, why);

	return rc < 0 ? rc : port_set(field, buf, why);
}

static void
port_show(const void *field, char *buf, size_t size)
{
	snprintf(buf, size, "%" PRIu16, *(const uint16_t *)field);
}

const struct kv_conftype kv_conftype_port = {
	.size = sizeof(uint16_t),
	.read = port_read,
	.set = port_set,
	.show = port_show,
};

static int
qps_set(void *field, const char *text, struct kv_conftype_why *why)
{
	uint64_t n;

	if (kv_str_u64(text, 1, QPS_MAX, &n) < 0)
		return refuse(why, "'%s' is no number from 1 to %d", text,
			      QPS_MAX);
	*(uint16_t *)field = (uint16_t)n;
	return 0;
}

static int
qps_read(void *field, struct kv_jsonscan_span value,
	 struct kv_conftype_why *why)
{
	char buf[TEXT_SIZE];
	int rc = read_number(buf, value, why);

	return rc < 0 ? rc : qps_set(field, buf, why);
}

const struct kv_conftype kv_conftype_qps = {
	.size = sizeof(uint16_t),
	.read = qps_read,
	.set = qps_set,
	.show = port_show,
};

static int
slice_take(int64_t *field, int64_t bytes, struct kv_conftype_why *why)
{
	if (bytes < SLICE_MIN || bytes > SLICE_MAX)
		return refuse(why, "%" PRId64 " bytes are not from 64KB to 1GB",
			      bytes);
	*field = bytes;
	return 0;
}

static int
slice_set(void *field, const char *text, struct kv_conftype_why *why)
{
	int64_t bytes = 0;
	int rc = size_set(&bytes, text, why);

	return rc < 0 ? rc : slice_take(field, bytes, why);
}

static int
slice_read(void *field, struct kv_jsonscan_span value,
	   struct kv_conftype_why *why)
{
	int64_t bytes = 0;
	int rc = size_read(&bytes, value, why);

	return rc < 0 ? rc : slice_take(field, bytes, why);
}

const struct kv_conftype kv_conftype_slice = {
	.size = sizeof(int64_t),
	.read = slice_read,
	.set = slice_set,
	.show = size_show,
};

static int
time_set(void *field, const char *text, struct kv_conftype_why *why)
{
	uint64_t ns;
	int rc = kv_str_duration(text, &ns);

	if (rc == -ERANGE)
		return refuse(why, "'%s' is too long", text);
	if (rc < 0)
		return refuse(why, "'%s' is no duration such as 10s or 500ms",
			      text);
	*(uint64_t *)field = ns;
	return 0;
}

static int
time_read(void *field, struct kv_jsonscan_span value,
	  struct kv_conftype_why *why)
{
	char buf[TEXT_SIZE];
	int rc = read_number(buf, value, why);

	return rc < 0 ? rc : time_set(field, buf, why);
}

static void
time_show(const void *field, char *buf, size_t size)
{
	uint64_t ns = *(const uint64_t *)field;

	if (ns % KV_NS_PER_S == 0)
		snprintf(buf, size, "%" PRIu64 "s", ns / (uint64_t)KV_NS_PER_S);
	else
		snprintf(buf, size, "%" PRIu64 "ns", ns);
}

const struct kv_conftype kv_conftype_time = {
	.size = sizeof(uint64_t),
	.read = time_read,
	.set = time_set,
	.show = time_show,
};
