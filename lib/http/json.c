#include "http/json.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/bytes.h"
#include "base/utf8.h"

static void
put(struct kv_json *j, const void *p, size_t n)
{
	if (j->status == 0)
		j->status = kv_bytes_append(j->out, p, n);
}

static void
put_string(struct kv_json *j, const char *p, size_t n)
{
	size_t i, plain = 0; /* bytes ahead of i that need no escape */

	put(j, "\"", 1);
	for (i = 0; i < n && j->status == 0; i++) {
		unsigned char c = (unsigned char)p[i];

		if (c >= 0x20 && c != '"' && c != '\\' && c != 0x7f) {
			plain++;
			continue;
		}
		put(j, p + i - plain, plain);
		plain = 0;
		if (j->status == 0)
			j->status = kv_bytes_printf(j->out, "\\u%04x", c);
	}
	put(j, p + i - plain, plain);
	put(j, "\"", 1);
}

static void
put_base64(struct kv_json *j, const unsigned char *p, size_t n)
{
	static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
				     "abcdefghijklmnopqrstuvwxyz0123456789+/";
	char four[4];
	uint32_t bits;
	size_t i, k, have;

	for (i = 0; i < n; i += 3) {
		have = n - i < 3 ? n - i : 3;
		bits = 0;
		for (k = 0; k < have; k++)
			bits |= (uint32_t)p[i + k] << (16 - 8 * k);
		for (k = 0; k < 4; k++)
			four[k] = k <= have ? digits[bits >> (18 - 6 * k) & 63]
					    : '=';
		put(j, four, sizeof(four));
	}
}

static void
separate(struct kv_json *j, const char *name, size_t n)
{
	if (j->has_item)
		put(j, ",", 1);
	j->has_item = true;
	if (!name)
		return;
	put_string(j, name, n);
	put(j, ":", 1);
}

static void
item(struct kv_json *j, const char *name)
{
	separate(j, name, name ? strlen(name) : 0);
}

void
kv_json_begin(struct kv_json *j, const char *name, char kind)
{
	item(j, name);
	put(j, &kind, 1);
	j->has_item = false;
}

void
kv_json_begin_named(struct kv_json *j, const void *p, size_t n)
{
	separate(j, p, n);
	put(j, "{", 1);
	j->has_item = false;
}

void
kv_json_end(struct kv_json *j, char kind)
{
	put(j, kind == '{' ? "}" : "]", 1);
	j->has_item = true;
}

void
kv_json_u64(struct kv_json *j, const char *name, uint64_t v)
{
	item(j, name);
	if (j->status == 0)
		j->status = kv_bytes_printf(j->out, "%" PRIu64, v);
}

void
kv_json_i64(struct kv_json *j, const char *name, int64_t v)
{
	item(j, name);
	if (j->status == 0)
		j->status = kv_bytes_printf(j->out, "%" PRId64, v);
}

void
kv_json_percent(struct kv_json *j, const char *name, uint64_t part,
		uint64_t whole)
{
	double v = whole ? 100.0 * (double)part / (double)whole : 0;

	item(j, name);
	if (j->status == 0)
		j->status = kv_bytes_printf(j->out, "%.2f", v);
}

void
kv_json_bool(struct kv_json *j, const char *name, bool v)
{
	item(j, name);
	put(j, v ? "true" : "false", v ? 4 : 5);
}

void
kv_json_string(struct kv_json *j, const char *name, const char *s)
{
	kv_json_text(j, name, s, strlen(s));
}

void
kv_json_text(struct kv_json *j, const char *name, const void *p, size_t n)
{
	item(j, name);
	if (kv_utf8_is_valid(p, n)) {
		put_string(j, p, n);
		return;
	}
	put(j, "{\"b64\":\"", 8);
	put_base64(j, p, n);
	put(j, "\"}", 2);
}
