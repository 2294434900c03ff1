#include "driver.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "base/attr.h"
#include "base/rng.h"
#include "base/str.h"

static bool
take(const struct driver_opt *o, const char *arg)
{
	size_t n = strlen(o->name);
	const char *value;
	uint64_t number;

	if (strncmp(arg, "--", 2) != 0 || strncmp(arg + 2, o->name, n) != 0)
		return false;
	if (arg[2 + n] == '\0' && o->kind == DRIVER_FLAG) {
		*(uint64_t *)o->to = 1;
		return true;
	}
	if (arg[2 + n] != '=' || o->kind == DRIVER_FLAG)
		return false;
	value = arg + 2 + n + 1;
	if (o->kind == DRIVER_TEXT)
		*(const char **)o->to = value;
	else if (kv_str_size(value, &number) == 0)
		*(uint64_t *)o->to = number;
	else
		return false;
	return true;
}

static bool
take_any(const struct driver_opt *table, const char *arg)
{
	for (; table && table->name; table++)
		if (take(table, arg))
			return true;
	return false;
}

void
driver_parse(struct driver *d, const struct driver_opt *own, char **argv)
{
	const struct driver_opt common[] = {
		{ "master", DRIVER_TEXT, &d->master },
		{ "socket", DRIVER_TEXT, &d->socket },
		{ "node-addr", DRIVER_TEXT, &d->node_addr },
		{ "tenant", DRIVER_TEXT, &d->tenant },
		{ "segment-bytes", DRIVER_NUMBER, &d->segment_bytes },
		{ "timeout-ms", DRIVER_NUMBER, &d->timeout_ms },
		{ "open-timeout-ms", DRIVER_NUMBER, &d->open_timeout_ms },
		{ "seed", DRIVER_NUMBER, &d->seed },
		{ 0 },
	};

	d->socket = d->socket ? d->socket : "";
	for (const char *const *arg = (const char *const *)argv + 1; *arg;
	     arg++) {
		if (take_any(own, *arg) || take_any(common, *arg))
			continue;
		fprintf(stderr, "%s: what is %s?\n", argv[0], *arg);
		exit(EX_USAGE);
	}
	while (d->seed == 0)
		if (kv_rng_os(&d->seed, sizeof(d->seed)) < 0)
			exit(EX_OSERR);
	fprintf(stderr, "seed %" PRIu64 "\n", d->seed);
}

struct kv_client *
driver_open(const struct driver *d)
{
	const struct kv_client_opts opts = {
		.size = sizeof(opts),
		.master = d->master,
		.socket = d->socket,
		.tenant = d->tenant,
		.segment_bytes = d->segment_bytes,
		.node_addr = d->node_addr,
		.timeout_ms = (uint32_t)d->timeout_ms,
		.open_timeout_ms = (uint32_t)d->open_timeout_ms,
		.copy_threads = 2,
	};
	char err[512] = "";
	struct kv_client *c = kv_client_open(&opts, err, sizeof(err));

	if (!c) {
		fprintf(stderr, "cannot open: %s\n", err);
		exit(EX_UNAVAILABLE);
	}
	return c;
}

int64_t
driver_stat(struct kv_client *c, const char *whose, const char *name)
{
	char text[65536], *line = text;
	size_t n = strlen(name);

	if (kv_client_stats(c, whose, text, sizeof(text)) < 0)
		return -1;
	while (line) {
		if (strncmp(line, name, n) == 0 && line[n] == ' ')
			return strtoll(line + n, NULL, 10);
		line = strchr(line, '\n');
		line = line ? line + 1 : NULL;
	}
	return -1;
}
