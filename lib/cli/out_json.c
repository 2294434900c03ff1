#include "cli/out.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/utf8.h"

static void
newline(const struct kv_out *o, unsigned depth)
{
	fprintf(o->f, "\n%*s", (int)(2 * depth), "");
}

/* UTF-8 as a JSON string. */
static void
write_string(FILE *f, const char *p, size_t n)
{
	size_t plain = 0; /* bytes ahead of i that need no escape */

	putc('"', f);
	for (size_t i = 0; i < n; i++) {
		unsigned char c = (unsigned char)p[i];

		if (c >= 0x20 && c != '"' && c != '\\' && c != 0x7f) {
			plain++;
			continue;
		}
		fwrite(p + i - plain, 1, plain, f);
		plain = 0;
		if (c == '"' || c == '\\')
			fprintf(f, "\\%c", c);
		else
			fprintf(f, "\\u%04x", c);
	}
	fwrite(p + n - plain, 1, plain, f);
	putc('"', f);
}

static void
write_base64(FILE *f, const char *p, size_t n)
{
	static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
				     "abcdefghijklmnopqrstuvwxyz0123456789+/";

	for (size_t i = 0; i < n; i += 3) {
		size_t have = n - i < 3 ? n - i : 3;
		uint32_t bits = 0;

		for (size_t j = 0; j < have; j++)
			bits |= (uint32_t)(unsigned char)p[i + j]
				<< (16 - 8 * j);
		for (size_t j = 0; j < 4; j++)
			putc(j <= have ? digits[bits >> (18 - 6 * j) & 63]
				       : '=',
			     f);
	}
}

static void
write_text(FILE *f, const char *p, size_t n)
{
	if (kv_utf8_is_valid(p, n)) {
		write_string(f, p, n);
	} else {
		fputs("{\"b64\": \"", f);
		write_base64(f, p, n);
		fputs("\"}", f);
	}
}

/* The fewest digits that read back as the same number. */
static void
write_double(FILE *f, double v)
{
	char buf[32];
	int digits = 15; /* of a whole number, no exponent */

	do {
		snprintf(buf, sizeof(buf), "%.*g", digits, v);
	} while (strtod(buf, NULL) != v && ++digits <= 17);
	fputs(buf, f);
}

/* Seconds, exact: a double would lose the nanoseconds of a long time. */
static void
write_seconds(FILE *f, uint64_t ns)
{
	char fraction[16];
	size_t n;

	snprintf(fraction, sizeof(fraction), ".%09" PRIu64,
		 ns % (uint64_t)KV_NS_PER_S);
	for (n = strlen(fraction); fraction[n - 1] == '0'; n--)
		;
	if (n == 1)
		n = 0;
	fprintf(f, "%" PRIu64 "%.*s", ns / (uint64_t)KV_NS_PER_S, (int)n,
		fraction);
}

/* What stands between the item before and this one, and this one's name. */
static void
separate(struct kv_out *o, unsigned depth, const char *name)
{
	const struct kv_out_level *outer;

	if (depth == 0)
		return;
	outer = &o->level[depth - 1];
	if (outer->items)
		putc(',', o->f);
	if (outer->kind != KV_OUT_ROW)
		newline(o, depth);
	else if (outer->items)
		putc(' ', o->f);
	if (name) {
		write_string(o->f, name, strlen(name));
		fputs(": ", o->f);
	}
}

static bool
is_array(const struct kv_out_level *level)
{
	return level->kind == KV_OUT_LIST || level->kind == KV_OUT_TABLE;
}

static void
json_begin(struct kv_out *o, const char *name)
{
	separate(o, o->depth - 1, name);
	putc(is_array(&o->level[o->depth - 1]) ? '[' : '{', o->f);
}

static void
json_end(struct kv_out *o)
{
	const struct kv_out_level *level = &o->level[o->depth - 1];

	if (level->items && level->kind != KV_OUT_ROW)
		newline(o, o->depth - 1);
	putc(is_array(level) ? ']' : '}', o->f);
	if (o->depth == 1)
		putc('\n', o->f);
}

static void
json_value(struct kv_out *o, const char *name, const struct kv_out_value *v)
{
	separate(o, o->depth, name);
	switch (v->type) {
	case KV_OUT_NONE:
		fputs("null", o->f);
		break;
	case KV_OUT_BOOL:
		fputs(v->truth ? "true" : "false", o->f);
		break;
	case KV_OUT_U64:
	case KV_OUT_BYTES:
		fprintf(o->f, "%" PRIu64, v->u64);
		break;
	case KV_OUT_DURATION:
		write_seconds(o->f, v->u64);
		break;
	case KV_OUT_DOUBLE:
		write_double(o->f, v->real.v);
		break;
	case KV_OUT_TEXT:
		write_text(o->f, v->text.p, v->text.n);
		break;
	default:
		break;
	}
}

static void
json_free(struct kv_out *o)
{
	free(o);
}

static const struct kv_out_ops json_ops = {
	.begin = json_begin,
	.end = json_end,
	.value = json_value,
	.free = json_free,
};

struct kv_out *
kv_out_json_new(FILE *f)
{
	struct kv_out *o = calloc(1, sizeof(*o));

	if (o) {
		o->ops = &json_ops;
		o->f = f;
	}
	return o;
}
