#include "cli/out.h"

#include "test.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cjson/cJSON.h>

#include "base/attr.h"

typedef void write_fn(struct kv_out *o);

static struct kv_out *
face(FILE *f, bool json)
{
	struct kv_out *o =
		json ? kv_out_json_new(f) : kv_out_text_new(f, false);

	assert_non_null(o);
	return o;
}

/* What WRITE gives in that face; the caller frees it. */
static char *
written(write_fn *write_result, bool json)
{
	char *text = NULL;
	size_t n;
	FILE *f = open_memstream(&text, &n);
	struct kv_out *o;

	assert_non_null(f);
	o = face(f, json);
	write_result(o);
	assert_int_equal(kv_out_finish(o), 0);
	assert_int_equal(fclose(f), 0);
	return text;
}

static void
expect(write_fn *write_result, const char *text, const char *json)
{
	char *got = written(write_result, false);
	cJSON *tree;

	assert_string_equal(got, text);
	free(got);
	got = written(write_result, true);
	assert_string_equal(got, json);
	tree = cJSON_Parse(got);
	assert_non_null(tree);
	cJSON_Delete(tree);
	free(got);
}

static void
write_one_key(struct kv_out *o)
{
	kv_out_begin(o, KV_OUT_OBJECT, NULL);
	kv_out_key(o, "key", "vllm@/disc/models/opt-125m/@1@0@3d29", 36);
	kv_out_bytes(o, "value_bytes", 3 << 20);
	kv_out_duration(o, "idle_s", 1500000000);
	kv_out_bool(o, "is_soft_pinned", false);
	kv_out_double(o, "hit_rate", 0.25, 3);
	kv_out_string(o, "note", NULL);
	kv_out_begin(o, KV_OUT_TABLE, "replicas");
	for (unsigned i = 0; i < 2; i++) {
		kv_out_begin(o, KV_OUT_ROW, NULL);
		kv_out_string(o, "node", i ? "n2" : "node-one");
		kv_out_u64(o, "pins", 10 * i);
		kv_out_end(o, KV_OUT_ROW);
	}
	kv_out_end(o, KV_OUT_TABLE);
	kv_out_begin(o, KV_OUT_LIST, "away");
	kv_out_end(o, KV_OUT_LIST);
	kv_out_u64(o, "version", 1);
	kv_out_end(o, KV_OUT_OBJECT);
}

static void
test_object(void **state)
{
	(void)state;
	expect(write_one_key,
	       "key             vllm@/disc/models/opt-125m/@1@0@3d29\n"
	       "value           3.0 MiB\n"
	       "idle            1.5 s\n"
	       "is soft pinned  no\n"
	       "hit rate        0.250\n"
	       "note            -\n"
	       "replicas:\n"
	       "  NODE      PINS\n"
	       "  node-one     0\n"
	       "  n2          10\n"
	       "away:\n"
	       "  (none)\n"
	       "version  1\n",
	       "{\n"
	       "  \"key\": \"vllm@/disc/models/opt-125m/@1@0@3d29\",\n"
	       "  \"value_bytes\": 3145728,\n"
	       "  \"idle_s\": 1.5,\n"
	       "  \"is_soft_pinned\": false,\n"
	       "  \"hit_rate\": 0.25,\n"
	       "  \"note\": null,\n"
	       "  \"replicas\": [\n"
	       "    {\"node\": \"node-one\", \"pins\": 0},\n"
	       "    {\"node\": \"n2\", \"pins\": 10}\n"
	       "  ],\n"
	       "  \"away\": [],\n"
	       "  \"version\": 1\n"
	       "}\n");
}

static void
write_table(struct kv_out *o)
{
	static const struct {
		const char *name, *state;
		uint64_t used, heard;
	} nodes[] = {
		{ "\xd1\x83\xd0\xb7\xd0\xb5\xd0\xbb", "live", 5ull << 30, 0 },
		{ "b", "suspect", 512, 125000000000 },
	};

	kv_out_begin(o, KV_OUT_TABLE, NULL);
	for (size_t i = 0; i < KV_ARRAY_LEN(nodes); i++) {
		kv_out_begin(o, KV_OUT_ROW, NULL);
		kv_out_string(o, "node", nodes[i].name);
		kv_out_bytes(o, "used_bytes", nodes[i].used);
		if (nodes[i].heard)
			kv_out_duration(o, "heard_s", nodes[i].heard);
		else
			kv_out_none(o, "heard_s");
		kv_out_string(o, "state", nodes[i].state);
		kv_out_end(o, KV_OUT_ROW);
	}
	kv_out_end(o, KV_OUT_TABLE);
}

/* Columns align by characters; numbers to the right, no blanks at the end. */
static void
test_table(void **state)
{
	(void)state;
	expect(write_table,
	       "NODE     USED  HEARD  STATE\n"
	       "\xd1\x83\xd0\xb7\xd0\xb5\xd0\xbb  5.0 GiB      -  live\n"
	       "b       512 B  2m05s  suspect\n",
	       "[\n"
	       "  {\"node\": \"\xd1\x83\xd0\xb7\xd0\xb5\xd0\xbb\", "
	       "\"used_bytes\": 5368709120, \"heard_s\": null, "
	       "\"state\": \"live\"},\n"
	       "  {\"node\": \"b\", \"used_bytes\": 512, \"heard_s\": 125, "
	       "\"state\": \"suspect\"}\n"
	       "]\n");
}

static void
write_empty_table(struct kv_out *o)
{
	kv_out_begin(o, KV_OUT_TABLE, NULL);
	kv_out_end(o, KV_OUT_TABLE);
}

static void
write_empty_object(struct kv_out *o)
{
	kv_out_begin(o, KV_OUT_OBJECT, NULL);
	kv_out_end(o, KV_OUT_OBJECT);
}

static void
test_nothing(void **state)
{
	(void)state;
	expect(write_empty_table, "", "[]\n");
	expect(write_empty_object, "", "{}\n");
}

static void
write_nested(struct kv_out *o)
{
	kv_out_begin(o, KV_OUT_OBJECT, NULL);
	kv_out_string(o, "host", "h");
	kv_out_begin(o, KV_OUT_OBJECT, "pool");
	kv_out_u64(o, "keys", 7);
	kv_out_begin(o, KV_OUT_LIST, "tiers");
	kv_out_string(o, NULL, "dram");
	kv_out_string(o, NULL, "");
	kv_out_end(o, KV_OUT_LIST);
	kv_out_end(o, KV_OUT_OBJECT);
	kv_out_begin(o, KV_OUT_LIST, "links");
	for (unsigned i = 0; i < 2; i++) {
		kv_out_begin(o, KV_OUT_OBJECT, NULL);
		kv_out_u64(o, "n", i);
		kv_out_end(o, KV_OUT_OBJECT);
	}
	kv_out_end(o, KV_OUT_LIST);
	kv_out_end(o, KV_OUT_OBJECT);
}

static void
test_nesting(void **state)
{
	(void)state;
	expect(write_nested,
	       "host  h\n"
	       "pool:\n"
	       "  keys  7\n"
	       "  tiers:\n"
	       "    dram\n"
	       "    \"\"\n"
	       "links:\n"
	       "  n  0\n"
	       "\n"
	       "  n  1\n",
	       "{\n"
	       "  \"host\": \"h\",\n"
	       "  \"pool\": {\n"
	       "    \"keys\": 7,\n"
	       "    \"tiers\": [\n"
	       "      \"dram\",\n"
	       "      \"\"\n"
	       "    ]\n"
	       "  },\n"
	       "  \"links\": [\n"
	       "    {\n"
	       "      \"n\": 0\n"
	       "    },\n"
	       "    {\n"
	       "      \"n\": 1\n"
	       "    }\n"
	       "  ]\n"
	       "}\n");
}

static void
write_keys(struct kv_out *o)
{
	static const struct {
		const char *p;
		size_t n;
	} cases[] = {
		{ "../../tmp/pwn", 13 },
		{ "a%2Fb c\"d\\", 10 },
		{ "\xd0\xba\xd0\xbb\xd1\x8e\xd1\x87/\xe9\x8d\xb5", 12 },
		{ "new\nline\ttab", 12 },
		{ "nul\0byte\x7f", 9 },
		{ "\xe2\x80\xae\x1b[1m", 7 },
		{ "\xff\xfe", 2 },
		{ "ok\xc3", 3 },
		{ "\x80\x81\x82\x83", 4 },
		{ "-n", 2 },
	};

	kv_out_begin(o, KV_OUT_LIST, NULL);
	for (size_t i = 0; i < KV_ARRAY_LEN(cases); i++)
		kv_out_key(o, NULL, cases[i].p, cases[i].n);
	kv_out_end(o, KV_OUT_LIST);
}

/* One line each, nothing that moves a cursor; JSON gives back every byte. */
static void
test_keys_of_any_bytes(void **state)
{
	(void)state;
	expect(write_keys,
	       "../../tmp/pwn\n"
	       "a%2Fb c\"d\\\\\n"
	       "\xd0\xba\xd0\xbb\xd1\x8e\xd1\x87/\xe9\x8d\xb5\n"
	       "new\\nline\\ttab\n"
	       "nul\\x00byte\\x7f\n"
	       "\\xe2\\x80\\xae\\x1b[1m\n"
	       "\\xff\\xfe\n"
	       "ok\\xc3\n"
	       "\\x80\\x81\\x82\\x83\n"
	       "-n\n",
	       "[\n"
	       "  \"../../tmp/pwn\",\n"
	       "  \"a%2Fb c\\\"d\\\\\",\n"
	       "  \"\xd0\xba\xd0\xbb\xd1\x8e\xd1\x87/\xe9\x8d\xb5\",\n"
	       "  \"new\\u000aline\\u0009tab\",\n"
	       "  \"nul\\u0000byte\\u007f\",\n"
	       "  \"\xe2\x80\xae\\u001b[1m\",\n"
	       "  {\"b64\": \"//4=\"},\n"
	       "  {\"b64\": \"b2vD\"},\n"
	       "  {\"b64\": \"gIGCgw==\"},\n"
	       "  \"-n\"\n"
	       "]\n");
}

static void
test_list_for_xargs(void **state)
{
	static const char want[] = "a\nb\0\xff\0\0007\0";
	char *text = NULL;
	size_t n;
	FILE *f = open_memstream(&text, &n);
	struct kv_out *o;

	(void)state;
	assert_non_null(f);
	o = kv_out_text_new(f, true);
	assert_non_null(o);
	kv_out_begin(o, KV_OUT_LIST, NULL);
	kv_out_key(o, NULL, "a\nb", 3);
	kv_out_key(o, NULL, "\xff", 1);
	kv_out_key(o, NULL, "", 0);
	kv_out_u64(o, NULL, 7);
	kv_out_end(o, KV_OUT_LIST);
	assert_int_equal(kv_out_finish(o), 0);
	assert_int_equal(fclose(f), 0);
	assert_int_equal(n, sizeof(want) - 1);
	assert_memory_equal(text, want, n);
	free(text);
}

static void
write_numbers(struct kv_out *o)
{
	static const uint64_t ns[] = { 0, 1, 1000000000, 1000000001,
				       UINT64_MAX };
	static const double real[] = { 0, -1.5, 1e300, 0.1, 400 };

	kv_out_begin(o, KV_OUT_LIST, NULL);
	for (size_t i = 0; i < KV_ARRAY_LEN(ns); i++)
		kv_out_duration(o, NULL, ns[i]);
	kv_out_u64(o, NULL, UINT64_MAX);
	for (size_t i = 0; i < KV_ARRAY_LEN(real); i++)
		kv_out_double(o, NULL, real[i], 0);
	kv_out_double(o, NULL, NAN, 1);
	kv_out_double(o, NULL, -INFINITY, 1);
	kv_out_bool(o, NULL, true);
	kv_out_end(o, KV_OUT_LIST);
}

static void
test_numbers_are_exact_in_json(void **state)
{
	char *text = written(write_numbers, false), *json;

	(void)state;
	assert_non_null(strstr(text, "\n18446744073709551615\n0\n-2\n1000"));
	assert_non_null(strstr(text, "\n0\n400\n-\n-\nyes\n"));
	free(text);
	json = written(write_numbers, true);
	assert_string_equal(json, "[\n"
				  "  0,\n"
				  "  0.000000001,\n"
				  "  1,\n"
				  "  1.000000001,\n"
				  "  18446744073.709551615,\n"
				  "  18446744073709551615,\n"
				  "  0,\n"
				  "  -1.5,\n"
				  "  1e+300,\n"
				  "  0.1,\n"
				  "  400,\n"
				  "  null,\n"
				  "  null,\n"
				  "  true\n"
				  "]\n");
	free(json);
}

static void
write_long_table(struct kv_out *o)
{
	kv_out_begin(o, KV_OUT_TABLE, NULL);
	for (unsigned i = 0; i < 3 * KV_OUT_ROWS_HELD; i++) {
		kv_out_begin(o, KV_OUT_ROW, NULL);
		kv_out_string(o, "key", i == KV_OUT_ROWS_HELD ? "longer" : "k");
		kv_out_u64(o, "size", i);
		kv_out_end(o, KV_OUT_ROW);
	}
	kv_out_end(o, KV_OUT_TABLE);
}

static void
test_long_tables_stream(void **state)
{
	char *text = written(write_long_table, false);
	size_t lines = 0;

	(void)state;
	assert_memory_equal(text, "KEY  SIZE\nk       0\nk       1\n", 30);
	assert_non_null(strstr(text, "\nk     255\nlonger   256\n"));
	for (const char *p = text; (p = strchr(p, '\n')); p++)
		lines++;
	assert_int_equal(lines, 3 * KV_OUT_ROWS_HELD + 1);
	free(text);
}

static void
write_half(struct kv_out *o)
{
	kv_out_begin(o, KV_OUT_OBJECT, NULL);
	kv_out_begin(o, KV_OUT_TABLE, "nodes");
	for (unsigned i = 0; i < 2; i++) {
		kv_out_begin(o, KV_OUT_ROW, NULL);
		kv_out_u64(o, "a", i);
		if (i)
			break;
		kv_out_u64(o, "b", i);
		kv_out_end(o, KV_OUT_ROW);
	}
}

static void
test_unfinished_tree_is_closed(void **state)
{
	(void)state;
	expect(write_half,
	       "nodes:\n"
	       "  A  B\n"
	       "  0  0\n"
	       "  1  -\n",
	       "{\n"
	       "  \"nodes\": [\n"
	       "    {\"a\": 0, \"b\": 0},\n"
	       "    {\"a\": 1}\n"
	       "  ]\n"
	       "}\n");
}

/* What kv_out_finish says when the result goes to F. */
static int
finish_on(FILE *f, write_fn *write_result, bool json)
{
	struct kv_out *o = face(f, json);

	write_result(o);
	return kv_out_finish(o);
}

static void
test_full_disk(void **state)
{
	(void)state;
	for (int json = 0; json < 2; json++) {
		FILE *f = fopen("/dev/full", "we");

		assert_non_null(f);
		assert_int_equal(finish_on(f, write_table, json), -ENOSPC);
		fclose(f);
		/* The error comes in the middle, long before the end. */
		f = fopen("/dev/full", "we");
		assert_non_null(f);
		setvbuf(f, NULL, _IONBF, 0);
		assert_int_equal(finish_on(f, write_long_table, json), -ENOSPC);
		fclose(f);
	}
}

static void
test_reader_is_gone(void **state)
{
	void (*old)(int) = signal(SIGPIPE, SIG_IGN);
	int fds[2];
	FILE *f;

	(void)state;
	for (int json = 0; json < 2; json++) {
		assert_int_equal(pipe(fds), 0);
		close(fds[0]);
		f = fdopen(fds[1], "w");
		assert_non_null(f);
		assert_int_equal(finish_on(f, write_long_table, json), -EPIPE);
		fclose(f);
	}
	signal(SIGPIPE, old);
}

static void
test_closed_descriptor(void **state)
{
	int fds[2];
	FILE *f;

	(void)state;
	assert_int_equal(pipe(fds), 0);
	f = fdopen(fds[1], "w");
	assert_non_null(f);
	close(fds[0]);
	close(fds[1]);
	assert_int_equal(finish_on(f, write_table, false), -EBADF);
	fclose(f);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_object),
		cmocka_unit_test(test_table),
		cmocka_unit_test(test_nothing),
		cmocka_unit_test(test_nesting),
		cmocka_unit_test(test_keys_of_any_bytes),
		cmocka_unit_test(test_list_for_xargs),
		cmocka_unit_test(test_numbers_are_exact_in_json),
		cmocka_unit_test(test_long_tables_stream),
		cmocka_unit_test(test_unfinished_tree_is_closed),
		cmocka_unit_test(test_full_disk),
		cmocka_unit_test(test_reader_is_gone),
		cmocka_unit_test(test_closed_descriptor),
	};

	return cmocka_run_group_tests_name("cli/out", tests, NULL, NULL);
}
