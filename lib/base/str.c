#include "base/str.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/clock.h"
#include "base/num.h"

struct unit {
	const char *name;
	uint64_t factor;
};

/* whole + frac / frac_div */
struct decimal {
	uint64_t whole;
	uint64_t frac;
	uint64_t frac_div;
};

static const struct unit size_units[] = {
	{ "", 1 },
	{ "b", 1 },
	{ "k", 1ull << 10 },
	{ "kb", 1ull << 10 },
	{ "ki", 1ull << 10 },
	{ "kib", 1ull << 10 },
	{ "m", 1ull << 20 },
	{ "mb", 1ull << 20 },
	{ "mi", 1ull << 20 },
	{ "mib", 1ull << 20 },
	{ "g", 1ull << 30 },
	{ "gb", 1ull << 30 },
	{ "gi", 1ull << 30 },
	{ "gib", 1ull << 30 },
	{ "t", 1ull << 40 },
	{ "tb", 1ull << 40 },
	{ "ti", 1ull << 40 },
	{ "tib", 1ull << 40 },
	{ NULL, 0 },
};

static const struct unit duration_units[] = {
	{ "", KV_NS_PER_S },
	{ "ns", 1 },
	{ "us", KV_NS_PER_US },
	{ "ms", KV_NS_PER_MS },
	{ "s", KV_NS_PER_S },
	{ "m", 60 * KV_NS_PER_S },
	{ "h", 3600 * KV_NS_PER_S },
	{ "d", 86400 * KV_NS_PER_S },
	{ NULL, 0 },
};

static bool
is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static const char *
skip_blanks(const char *s)
{
	return s + strspn(s, " \t");
}

/* Moves *s behind the digits. -ERANGE leaves them consumed as well. */
static int
take_digits(const char **s, uint64_t *out)
{
	uint64_t v = 0;
	int rc = 0;

	for (; is_digit(**s); (*s)++)
		if (kv_mul_u64(v, 10, &v) ||
		    kv_add_u64(v, (uint64_t)(**s - '0'), &v))
			rc = -ERANGE;
	*out = v;
	return rc;
}

static int
take_decimal(const char **s, struct decimal *d)
{
	const char *start = *s, *point;
	int rc = take_digits(s, &d->whole);

	d->frac = 0;
	d->frac_div = 1;
	if (**s == '.') {
		point = (*s)++;
		if (take_digits(s, &d->frac) < 0 || *s - point > 19)
			return -EINVAL;
		for (point++; point < *s; point++)
			d->frac_div *= 10;
	}
	if (*s == start || (*s == start + 1 && *start == '.'))
		return -EINVAL;
	return rc;
}

static const struct unit *
find_unit(const char *s, const struct unit *units)
{
	size_t len = strcspn(s, " \t");

	if (*skip_blanks(s + len))
		return NULL;
	for (; units->name; units++)
		if (strlen(units->name) == len &&
		    strncasecmp(s, units->name, len) == 0)
			return units;
	return NULL;
}

/* A malformed string is -EINVAL even when its number is also too large. */
static int
parse_quantity(const char *s, const struct unit *units, uint64_t *out)
{
	const struct unit *unit;
	struct decimal d;
	uint64_t whole, part;
	int rc;

	s = skip_blanks(s);
	rc = take_decimal(&s, &d);
	if (rc == -EINVAL)
		return rc;
	unit = find_unit(skip_blanks(s), units);
	if (!unit)
		return -EINVAL;
	part = (uint64_t)((unsigned __int128)d.frac * unit->factor /
			  d.frac_div);
	if (rc < 0 || kv_mul_u64(d.whole, unit->factor, &whole) ||
	    kv_add_u64(whole, part, &whole))
		return -ERANGE;
	*out = whole;
	return 0;
}

int
kv_str_size(const char *s, uint64_t *bytes)
{
	return parse_quantity(s, size_units, bytes);
}

int
kv_str_duration(const char *s, uint64_t *ns)
{
	return parse_quantity(s, duration_units, ns);
}

int
kv_str_u64(const char *s, uint64_t min, uint64_t max, uint64_t *out)
{
	const char *start = s;
	uint64_t v;
	int rc = take_digits(&s, &v);

	if (s == start || *s)
		return -EINVAL;
	if (rc < 0 || v < min || v > max)
		return -ERANGE;
	*out = v;
	return 0;
}

int
kv_str_hex(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

const char *
kv_str_size_format(char *buf, size_t n, uint64_t bytes)
{
	static const char units[] = "KMGTPE";
	unsigned __int128 scaled = (unsigned __int128)bytes * 10, half;
	uint64_t tenths;
	int i, shift;

	if (bytes < 1024) {
		snprintf(buf, n, "%ju B", (uintmax_t)bytes);
		return buf;
	}
	/* Round, then look: else 1 MiB - 1 would print as 1024.0 KiB. */
	for (i = 0;; i++) {
		shift = 10 * (i + 1);
		half = (unsigned __int128)1 << (shift - 1);
		tenths = (uint64_t)((scaled + half) >> shift);
		if (tenths < 10240)
			break;
	}
	snprintf(buf, n, "%ju.%ju %ciB", (uintmax_t)(tenths / 10),
		 (uintmax_t)(tenths % 10), units[i]);
	return buf;
}

/* Writes the escape of c, up to 4 characters, to e; returns its length. */
static size_t
escape_one(unsigned char c, char e[5])
{
	static const char plain[] = "\n\t\r\\\"", letter[] = "ntr\\\"";
	const char *hit = c ? strchr(plain, c) : NULL;

	if (hit)
		return (size_t)snprintf(e, 5, "\\%c", letter[hit - plain]);
	if (c >= 0x20 && c < 0x7f)
		return (size_t)snprintf(e, 5, "%c", c);
	return (size_t)snprintf(e, 5, "\\x%02x", c);
}

const char *
kv_str_duration_format(char *buf, size_t n, uint64_t ns)
{
	static const struct {
		const char *name;
		uint64_t ns;
		uint64_t tenths_max; /* the next unit takes over there */
	} units[] = {
		{ "us", KV_NS_PER_US, 10000 },
		{ "ms", KV_NS_PER_MS, 10000 },
		{ "s", KV_NS_PER_S, 1000 },
	};
	uint64_t tenths, min;

	if (ns < KV_NS_PER_US) {
		snprintf(buf, n, "%ju ns", (uintmax_t)ns);
		return buf;
	}
	for (size_t i = 0; i < KV_ARRAY_LEN(units); i++) {
		/* Round, then look: else 1 ms - 1 ns would be 1000.0 us. */
		tenths = ns / (units[i].ns / 10) +
			 (ns % (units[i].ns / 10) >= units[i].ns / 20);
		if (tenths < units[i].tenths_max) {
			snprintf(buf, n, "%ju.%ju %s", (uintmax_t)(tenths / 10),
				 (uintmax_t)(tenths % 10), units[i].name);
			return buf;
		}
	}
	min = ns / KV_NS_PER_S / 60;
	if (min < 100)
		snprintf(buf, n, "%jum%02us", (uintmax_t)min,
			 (unsigned)(ns / KV_NS_PER_S % 60));
	else if (min < 48ull * 60)
		snprintf(buf, n, "%juh%02um", (uintmax_t)(min / 60),
			 (unsigned)(min % 60));
	else
		snprintf(buf, n, "%jud%02uh", (uintmax_t)(min / 60 / 24),
			 (unsigned)(min / 60 % 24));
	return buf;
}

size_t
kv_str_escape(char *dst, size_t n, const void *bytes, size_t len)
{
	const unsigned char *p = bytes;
	size_t i, k, total = 0, used = 0;
	char e[5];

	for (i = 0; i < len; i++) {
		k = escape_one(p[i], e);
		if (total + k < n) {
			memcpy(dst + used, e, k);
			used += k;
		}
		total += k;
	}
	if (n > 0)
		dst[used] = '\0';
	return total;
}
