#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sysexits.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/status.h"
#include "cli/fetch.h"
#include "cli/fileout.h"
#include "cli/keyfile.h"
#include "cli/keylist.h"
#include "cli/out.h"
#include "cli/progress.h"
#include "cli/tool.h"
#include "cmd/kvget.h"

enum {
	TARGET_SIZE = PATH_MAX + KV_KEYFILE_SIZE,
	LOOK_MS = 200, /* between two looks at the progress line */
};

struct run {
	const struct kvget_options *o;
	struct kv_client *client;
	struct kv_out *out; /* NULL: no --json */
	struct kv_progress progress;
	struct kv_progress_watch watch; /* of what is written */
	struct kv_clock clock;
	struct kv_keylist list;
	struct kv_fetch fetch;
	int dir;              /* of --batch */
	uint64_t keys, bytes; /* done */
	int code;
	bool is_over; /* it is of no use to go on */
};

static void
show(struct run *r)
{
	kv_progress_update(&r->progress, r->keys, r->bytes,
			   kv_clock_now(&r->clock));
}

static void
was_written(void *arg, size_t bytes)
{
	struct run *r = arg;

	r->bytes += bytes;
	show(r);
}

/* Where the value of KEY goes; NULL: to stdout. */
static const char *
target(const struct run *r, const struct kv_key *key, char buf[TARGET_SIZE])
{
	char name[KV_KEYFILE_SIZE];

	if (!r->o->dir)
		return r->o->output;
	snprintf(buf, TARGET_SIZE, "%s/%s", r->o->dir,
		 kv_keyfile_name(name, key));
	return buf;
}

/* FILE: where the value is now, or NULL. */
static void
print(struct run *r, const struct kv_key *key, const char *status,
      uint64_t bytes, const char *file)
{
	enum kv_out_kind kind = r->o->dir ? KV_OUT_ROW : KV_OUT_OBJECT;

	if (!r->out)
		return;
	kv_out_begin(r->out, kind, NULL);
	kv_out_key(r->out, "key", key->data, key->len);
	kv_out_string(r->out, "status", status);
	kv_out_bytes(r->out, "size_bytes", bytes);
	kv_out_string(r->out, "file", file);
	kv_out_end(r->out, kind);
}

static int
save(struct run *r, const struct kv_key *key, const void *data, size_t n)
{
	if (r->o->dir)
		return kv_fileout_save_key(r->dir, key, data, n, &r->watch);
	if (r->o->output)
		return kv_fileout_save(r->o->output, data, n, &r->watch);
	return kv_fileout_write(STDOUT_FILENO, data, n, &r->watch);
}

static void
deliver(struct run *r, const struct kv_key *key, const void *data, size_t n)
{
	char buf[TARGET_SIZE], name[KV_TOOL_KEY_SIZE];
	const char *file = target(r, key, buf);
	int rc = save(r, key, data, n), code = EX_IOERR;

	r->keys++;
	if (rc < 0 || kv_log_is_on(KV_LOG_INFO))
		kv_progress_clear(&r->progress);
	print(r, key, rc < 0 ? "unwritten" : "ok", n, rc < 0 ? NULL : file);
	if (rc < 0 && (rc != -EPIPE || r->o->dir || r->o->output))
		code = kv_tool_say(EX_IOERR, "%s: %s: %s",
				   kv_tool_key(name, key),
				   file ? file : "stdout", strerror(-rc));
	if (rc < 0)
		r->code = kv_tool_worse(r->code, code);
	else if (r->o->dir && kv_log_is_on(KV_LOG_INFO))
		kv_tool_say(0, "%s -> %s", kv_tool_key(name, key), file);
}

static void
fail(struct run *r, const struct kv_key *key, int status)
{
	char word[KV_TOOL_WORD_SIZE], name[KV_TOOL_KEY_SIZE];
	int code;

	kv_progress_clear(&r->progress);
	if (status == -KV_EUNREACHABLE)
		code = kv_tool_say(kv_status_exit(status),
				   "%s: not found here, and no master can be "
				   "reached that may know of it",
				   kv_tool_key(name, key));
	else
		code = kv_tool_fail_key(key, status, 0);
	r->code = kv_tool_worse(r->code, code);
	r->keys++;
	print(r, key, kv_tool_word(word, status), 0, NULL);
}

/* ---- calls ---- */

static void
call(struct run *r, uint64_t bytes)
{
	const struct kv_get_opts opts = {
		.size = sizeof(opts),
		.timeout_ms = kv_tool_timeout_ms(&r->o->common, bytes),
	};
	struct kv_fetch *f = &r->fetch;
	struct kv_op *op;
	long rc = -KV_ENOMEM;

	op = kv_client_get_submit(r->client, f->items, f->n, &opts);
	while (op && kv_op_wait(op, LOOK_MS, &rc) == -KV_ETIMEOUT)
		show(r);
	/* Nothing was tried: then that is the result of each. */
	for (size_t i = 0; rc < 0 && i < f->n; i++)
		f->items[i].status = (int)rc;
	r->is_over = rc < 0;
}

/* The next call will bring it. */
static void
expect(struct run *r, const struct kv_get_item *item)
{
	if (!r->o->dir)
		r->progress.bytes = item->size_total;
}

static void
fetch(struct run *r)
{
	struct kv_fetch *f = &r->fetch;
	uint64_t bytes;
	int rc;

	kv_fetch_begin(f, r->list.keys, r->list.n);
	while (!r->is_over && (rc = kv_fetch_next(f, &bytes)) != 0) {
		if (rc > 0)
			call(r, bytes);
		for (size_t i = 0; i < f->n; i++) {
			if (!kv_fetch_is_over(f, i)) {
				expect(r, &f->items[i]);
				continue;
			}
			if (f->items[i].status < 0)
				fail(r, &f->items[i].key, f->items[i].status);
			else
				deliver(r, &f->items[i].key, f->bufs[i].data,
					f->items[i].len);
		}
		show(r);
	}
}

static int
open_dir(struct run *r)
{
	const char *path = r->o->dir;

	if (mkdir(path, 0777) < 0 && errno != EEXIST)
		return kv_tool_say(EX_CANTCREAT, "%s: %m", path);
	r->dir = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (r->dir < 0)
		return kv_tool_say(EX_CANTCREAT, "%s: %m", path);
	return 0;
}

/* A line between others on the same screen would be in the way. */
static bool
is_quiet(const struct kvget_options *o)
{
	bool is_to_stdout = !o->dir && !o->output;

	return o->common.json || (is_to_stdout && isatty(STDOUT_FILENO));
}

int
kvget_fetch(const struct kvget_options *o, struct kv_client *c)
{
	static struct run run; /* large */
	struct run *r = &run;
	bool is_table = o->dir != NULL;

	r->o = o;
	r->client = c;
	if (o->dir)
		r->code = open_dir(r);
	if (r->code)
		return r->code;
	if (o->common.json) {
		r->out = kv_out_json_new(stdout);
		if (!r->out)
			return kv_tool_say(EX_OSERR, "out of memory");
	}
	kv_progress_init(&r->progress, STDERR_FILENO, is_quiet(o),
			 kv_clock_now(&r->clock));
	r->watch = (struct kv_progress_watch){ was_written, r };
	r->progress.keys = o->n_keys;
	kv_keylist_init(&r->list, o->keys, o->n_keys, o->is_nul);
	if (r->out && is_table)
		kv_out_begin(r->out, KV_OUT_TABLE, NULL);
	while (!r->is_over && kv_keylist_next(&r->list))
		fetch(r);
	kv_progress_clear(&r->progress);
	if (r->out && is_table)
		kv_out_end(r->out, KV_OUT_TABLE);
	r->code = kv_tool_worse(r->list.code, r->code);
	kv_keylist_fini(&r->list);
	kv_fetch_fini(&r->fetch);
	if (o->dir)
		close(r->dir);
	return kv_tool_end(r->out, r->code);
}
