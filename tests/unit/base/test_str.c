#include "base/str.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/rng.h"

#include "test.h"

struct parse_case {
	const char *text;
	int rc;
	uint64_t value;
};

typedef int parse_fn(const char *s, uint64_t *out);

static void
run(parse_fn *parse, const struct parse_case *c)
{
	uint64_t v;
	int rc;

	for (; c->text; c++) {
		v = 12345;
		rc = parse(c->text, &v);
		if (rc != c->rc || v != (rc ? 12345 : c->value))
			fail_msg("\"%s\": rc %d value %ju, want %d %ju",
				 c->text, rc, (uintmax_t)v, c->rc,
				 (uintmax_t)c->value);
	}
}

static void
sizes(void **state)
{
	static const struct parse_case cases[] = {
		{ "0", 0, 0 },
		{ "4096", 0, 4096 },
		{ "007", 0, 7 },
		{ "5b", 0, 5 },
		{ "4k", 0, 4096 },
		{ "4K", 0, 4096 },
		{ "4kb", 0, 4096 },
		{ "4Ki", 0, 4096 },
		{ "4KiB", 0, 4096 },
		{ "3 MB", 0, 3u << 20 },
		{ " 3mib ", 0, 3u << 20 },
		{ "\t2\tg\t", 0, 2ull << 30 },
		{ "1.5GB", 0, 3ull << 29 },
		{ "1.5gib", 0, 3ull << 29 },
		{ "0.5t", 0, 1ull << 39 },
		{ ".5k", 0, 512 },
		{ "1.k", 0, 1024 },
		{ "0.1gb", 0, 107374182 },
		{ "1.999", 0, 1 },
		{ "0.000000000000000001t", 0, 0 },
		{ "0.999999999999999999t", 0, (1ull << 40) - 1 },
		{ "18446744073709551615", 0, UINT64_MAX },
		{ "16777215.999999999999t", 0, UINT64_MAX - 1 },
		{ "18446744073709551616", -ERANGE, 0 },
		{ "99999999999999999999999", -ERANGE, 0 },
		{ "16777216t", -ERANGE, 0 },
		{ "18014398509481984k", -ERANGE, 0 },
		{ "", -EINVAL, 0 },
		{ " ", -EINVAL, 0 },
		{ ".", -EINVAL, 0 },
		{ ".gb", -EINVAL, 0 },
		{ "gb", -EINVAL, 0 },
		{ "1.2.3gb", -EINVAL, 0 },
		{ "-1", -EINVAL, 0 },
		{ "+1", -EINVAL, 0 },
		{ "1e3", -EINVAL, 0 },
		{ "0x10", -EINVAL, 0 },
		{ "1 2", -EINVAL, 0 },
		{ "1g b", -EINVAL, 0 },
		{ "1kk", -EINVAL, 0 },
		{ "1ib", -EINVAL, 0 },
		{ "1i", -EINVAL, 0 },
		{ "1p", -EINVAL, 0 },
		{ "1,5g", -EINVAL, 0 },
		{ "inf", -EINVAL, 0 },
		{ "1.0000000000000000001", -EINVAL, 0 },
		{ "99999999999999999999999x", -EINVAL, 0 },
		{ NULL, 0, 0 },
	};

	(void)state;
	run(kv_str_size, cases);
}

static void
durations(void **state)
{
	static const struct parse_case cases[] = {
		{ "10s", 0, 10000000000 },
		{ "10", 0, 10000000000 },
		{ "500ms", 0, 500000000 },
		{ "2m", 0, 120000000000 },
		{ "1h", 0, 3600000000000 },
		{ "2d", 0, 172800000000000 },
		{ "7us", 0, 7000 },
		{ "7 ns", 0, 7 },
		{ "1.5s", 0, 1500000000 },
		{ "0.5ns", 0, 0 },
		{ "0.25", 0, 250000000 },
		{ "10S", 0, 10000000000 },
		{ "0", 0, 0 },
		{ "18446744073s", 0, 18446744073000000000u },
		{ "18446744074s", -ERANGE, 0 },
		{ "213504d", -ERANGE, 0 },
		{ "", -EINVAL, 0 },
		{ "s", -EINVAL, 0 },
		{ "-1s", -EINVAL, 0 },
		{ "10 s s", -EINVAL, 0 },
		{ "10sec", -EINVAL, 0 },
		{ "1h30m", -EINVAL, 0 },
		{ NULL, 0, 0 },
	};

	(void)state;
	run(kv_str_duration, cases);
}

static int
parse_port(const char *s, uint64_t *out)
{
	return kv_str_u64(s, 1, 65535, out);
}

static int
parse_any(const char *s, uint64_t *out)
{
	return kv_str_u64(s, 0, UINT64_MAX, out);
}

static void
numbers(void **state)
{
	static const struct parse_case ports[] = {
		{ "1", 0, 1 },
		{ "65535", 0, 65535 },
		{ "0", -ERANGE, 0 },
		{ "65536", -ERANGE, 0 },
		{ "99999999999999999999", -ERANGE, 0 },
		{ "", -EINVAL, 0 },
		{ " 1", -EINVAL, 0 },
		{ "1 ", -EINVAL, 0 },
		{ "-1", -EINVAL, 0 },
		{ "1x", -EINVAL, 0 },
		{ "tcp://10.0.0.1:80", -EINVAL, 0 },
		{ NULL, 0, 0 },
	};
	static const struct parse_case any[] = {
		{ "18446744073709551615", 0, UINT64_MAX },
		{ "18446744073709551616", -ERANGE, 0 },
		{ "18446744073709551620", -ERANGE, 0 },
		{ NULL, 0, 0 },
	};

	(void)state;
	run(parse_port, ports);
	run(parse_any, any);
}

static void
hex_digits(void **state)
{
	static const char digits[] = "0123456789abcdefABCDEF";
	const char *p;

	(void)state;
	for (int c = -128; c < 128; c++) {
		p = c ? strchr(digits, c) : NULL;
		assert_int_equal(kv_str_hex((char)c),
				 !p ? -1
				    : (p - digits) % 16 +
						 (p - digits > 15 ? 10 : 0));
	}
}

static void
sizes_for_people(void **state)
{
	static const struct {
		uint64_t bytes;
		const char *text;
	} cases[] = {
		{ 0, "0 B" },
		{ 1023, "1023 B" },
		{ 1024, "1.0 KiB" },
		{ 1075, "1.0 KiB" },
		{ 1076, "1.1 KiB" },
		{ 1536, "1.5 KiB" },
		{ (1ull << 20) - 1, "1.0 MiB" },
		{ 1ull << 20, "1.0 MiB" },
		{ 3328599655, "3.1 GiB" },
		{ 1ull << 40, "1.0 TiB" },
		{ UINT64_MAX, "16.0 EiB" },
	};
	char buf[12], tiny[4];
	size_t i;

	(void)state;
	for (i = 0; i < KV_ARRAY_LEN(cases); i++)
		assert_string_equal(
			kv_str_size_format(buf, sizeof(buf), cases[i].bytes),
			cases[i].text);
	kv_str_size_format(tiny, sizeof(tiny), 1023);
	assert_string_equal(tiny, "102");
}

static void
durations_for_people(void **state)
{
	static const struct {
		uint64_t ns;
		const char *text;
	} cases[] = {
		{ 0, "0 ns" },
		{ 999, "999 ns" },
		{ 1000, "1.0 us" },
		{ 1049, "1.0 us" },
		{ 1050, "1.1 us" },
		{ 999949, "999.9 us" },
		{ 999950, "1.0 ms" },
		{ 12500000, "12.5 ms" },
		{ 999999999, "1.0 s" },
		{ 99949999999, "99.9 s" },
		{ 99950000000, "1m39s" },
		{ 125000000000, "2m05s" },
		{ 5999999999999, "99m59s" },
		{ 6000000000000, "1h40m" },
		{ 172799999999999, "47h59m" },
		{ 172800000000000, "2d00h" },
		{ UINT64_MAX, "213503d23h" },
	};
	char buf[12];

	(void)state;
	for (size_t i = 0; i < KV_ARRAY_LEN(cases); i++)
		assert_string_equal(
			kv_str_duration_format(buf, sizeof(buf), cases[i].ns),
			cases[i].text);
}

static void
escapes(void **state)
{
	static const char bytes[] = "a\"\\\n\r\t\0\x7f\xff z";
	static const char want[] = "a\\\"\\\\\\n\\r\\t\\x00\\x7f\\xff z";
	char buf[64];

	(void)state;
	assert_int_equal(
		kv_str_escape(buf, sizeof(buf), bytes, sizeof(bytes) - 1),
		strlen(want));
	assert_string_equal(buf, want);
	assert_int_equal(kv_str_escape(buf, sizeof(buf), NULL, 0), 0);
	assert_string_equal(buf, "");
	assert_int_equal(kv_str_escape(NULL, 0, bytes, 3), 5);
}

static void
escapes_are_cut_whole(void **state)
{
	char buf[16];

	(void)state;
	memset(buf, '#', sizeof(buf));
	assert_int_equal(kv_str_escape(buf, 5,
				       "ab\x01"
				       "cd",
				       5),
			 8);
	assert_string_equal(buf, "ab");
	assert_int_equal(buf[5], '#');
	assert_int_equal(kv_str_escape(buf, 7,
				       "ab\x01"
				       "cd",
				       5),
			 8);
	assert_string_equal(buf, "ab\\x01");
	assert_int_equal(kv_str_escape(buf, 1, "ab", 2), 2);
	assert_string_equal(buf, "");
}

/* The parser takes any bytes: sanitizers watch, and it never says yes to
 * what has no digit. */
static void
noise_is_refused(void **state)
{
	static const char alphabet[] = "kKmMgGtTiIbB. -+xsdhun\t";
	struct kv_rng r;
	uint64_t v;
	char s[16];
	size_t i, n;
	int k;

	(void)state;
	kv_rng_seed(&r, 5);
	for (k = 0; k < 100000; k++) {
		n = kv_rng_below(&r, sizeof(s));
		for (i = 0; i < n; i++)
			s[i] = alphabet[kv_rng_below(&r, sizeof(alphabet) - 1)];
		s[n] = '\0';
		assert_int_equal(kv_str_size(s, &v), -EINVAL);
		assert_int_equal(kv_str_duration(s, &v), -EINVAL);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sizes),
		cmocka_unit_test(durations),
		cmocka_unit_test(numbers),
		cmocka_unit_test(hex_digits),
		cmocka_unit_test(sizes_for_people),
		cmocka_unit_test(durations_for_people),
		cmocka_unit_test(escapes),
		cmocka_unit_test(escapes_are_cut_whole),
		cmocka_unit_test(noise_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
