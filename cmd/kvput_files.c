/* Where the values come from: one file, or those that lines name. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sysexits.h>

#include "cli/tool.h"
#include "cmd/kvput.h"

void
kvput_add(struct kvput *r, struct kv_batch *b, const struct kv_key *key,
	  const char *path)
{
	bool is_single = !r->o->is_batch;
	int rc = kv_batch_add(b, key, path, is_single, &r->watch);
	char buf[KV_TOOL_KEY_SIZE];
	const char *why;

	if (rc == 0)
		return;
	kv_progress_clear(&r->progress);
	why = rc == -ESTALE  ? "changed while it was read"
	      : rc == -EFBIG ? "more than 16 GiB"
			     : strerror(-rc);
	kvput_fail(r, kv_tool_say(rc == -ENOMEM ? EX_OSERR : EX_NOINPUT,
				  "%s: %s: %s", kv_tool_key(buf, key),
				  is_single && strcmp(path, "-") == 0 ? "stdin"
								      : path,
				  why));
	kvput_print(r, key, "unreadable", 0, 0);
	r->is_over |= rc == -ENOMEM;
}

static void
bad_line(struct kvput *r, const char *name, const char *why)
{
	kv_progress_clear(&r->progress);
	kvput_fail(r, kv_tool_say(EX_DATAERR, "%s: line %" PRIu64 ": %s", name,
				  r->records.number, why));
}

/* The next line is in hand: adds what it names. */
static void
add_line(struct kvput *r, struct kv_batch *b, const char *name)
{
	const char *path, *why;
	struct kv_key key;

	if (kv_records_split(&r->records, &key, &path, &why) == 0)
		kvput_add(r, b, &key, path);
	else
		bad_line(r, name, why);
}

void
kvput_add_lines(struct kvput *r, struct kv_batch *b)
{
	const char *name = r->lines == stdin ? "stdin" : r->o->path;
	int rc;

	while (!r->is_over && !r->is_end && !kv_batch_is_full(b)) {
		rc = kv_records_next(&r->records);
		if (rc > 0)
			add_line(r, b, name);
		else if (rc == -EMSGSIZE)
			bad_line(r, name, "longer than any key and path");
		else if (rc < 0)
			kvput_fail(r, kv_tool_say(EX_NOINPUT, "%s: %s", name,
						  strerror(-rc)));
		r->is_end = rc <= 0 && rc != -EMSGSIZE;
	}
}

int
kvput_open_lines(struct kvput *r)
{
	const char *path = r->o->path;

	if (strcmp(path, "-") == 0)
		r->lines = stdin;
	else
		r->lines = fopen(path, "re");
	if (!r->lines)
		return kv_tool_say(EX_NOINPUT, "%s: %m", path);
	kv_records_init(&r->records, r->lines, r->o->is_nul ? '\0' : '\n');
	return 0;
}
