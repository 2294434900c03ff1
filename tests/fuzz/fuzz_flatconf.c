/* Any bytes as a file of --config_path, in YAML and in JSON, or of --flagfile:
 * names and values within their bounds, or a refusal in one line. */
#include "cli/flatconf.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/attr.h"
#include "cli/gflags.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct kv_gflags_flag flags[] = {
	{ "a", KV_GFLAGS_BOOL },   { "b", KV_GFLAGS_INT32 },
	{ "c", KV_GFLAGS_UINT64 }, { "d_e", KV_GFLAGS_DOUBLE },
	{ "f", KV_GFLAGS_STRING },
};

static int
set(void *arg, const char *name, const char *value, char *err, size_t size)
{
	assert(strlen(name) < KV_FLATCONF_NAME_SIZE);
	assert(strlen(value) < KV_FLATCONF_VALUE_SIZE);
	if (strcmp(name, "bad") != 0)
		return 0;
	*(bool *)arg = true;
	snprintf(err, size, "bad");
	return -ERANGE;
}

static void
check(int rc, const char *err)
{
	assert(rc <= 0 && (rc < 0) == (err[0] != '\0'));
	assert(!strpbrk(err, "\n\r"));
}

static void
try_conf(const char *path, const char *text, size_t len)
{
	bool is_bad = false;
	const struct kv_flatconf f = { path, set, &is_bad };
	char err[512] = "";
	int rc = kv_flatconf_parse(&f, text, len, err, sizeof(err));

	check(rc, err);
	assert((rc == -ERANGE) == is_bad);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *text = (const char *)data;
	struct kv_gflags_value values[KV_ARRAY_LEN(flags)] = { 0 };
	struct kv_gflags g = {
		.flags = flags,
		.values = values,
		.count = KV_ARRAY_LEN(flags),
	};
	char err[512] = "";

	try_conf("f.yaml", text, size);
	try_conf("f.json", text, size);
	check(kv_gflags_lines(&g, text, size, err, sizeof(err)), err);
	kv_gflags_fini(&g);
	return 0;
}
