/*
 * A batch is put in the background while the next one is read, so at most two
 * are in memory. A single object is a batch of one.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/status.h"
#include "base/str.h"
#include "cli/batch.h"
#include "cli/out.h"
#include "cli/progress.h"
#include "cli/records.h"
#include "cli/tool.h"
#include "cmd/kvput.h"

enum {
	LOOK_MS = 200, /* between two looks at the progress line */
};

void
kvput_fail(struct kvput *r, int code)
{
	r->code = kv_tool_worse(r->code, code);
}

/* ---- results ---- */

void
kvput_print(const struct kvput *r, const struct kv_key *key, const char *status,
	    uint64_t bytes, uint32_t replicas)
{
	enum kv_out_kind kind = r->o->is_batch ? KV_OUT_ROW : KV_OUT_OBJECT;

	if (!r->out)
		return;
	kv_out_begin(r->out, kind, NULL);
	kv_out_key(r->out, "key", key->data, key->len);
	kv_out_string(r->out, "status", status);
	kv_out_bytes(r->out, "size_bytes", bytes);
	if (strcmp(status, "exists") == 0)
		kv_out_none(r->out, "replicas");
	else
		kv_out_u64(r->out, "replicas", replicas);
	kv_out_end(r->out, kind);
}

static void
report(struct kvput *r, const struct kv_put_item *item)
{
	char word[KV_TOOL_WORD_SIZE], key[KV_TOOL_KEY_SIZE], size[16];
	uint64_t bytes = item->nbufs ? item->bufs->len : 0;
	uint32_t wanted = r->o->put.replicas;
	bool has_failed = item->status < 0 && item->status != -KV_EEXISTS;

	kvput_print(r, &item->key, kv_tool_word(word, item->status), bytes,
		    item->replicas);
	if (has_failed || item->replicas < wanted || kv_log_is_on(KV_LOG_INFO))
		kv_progress_clear(&r->progress);
	if (has_failed) {
		kvput_fail(r,
			   kv_tool_fail_key(&item->key, item->status, bytes));
		return;
	}
	if (item->status == 0 && item->replicas < wanted)
		kv_tool_say(0, "%s: wanted %" PRIu32 " copies, placed %" PRIu32,
			    kv_tool_key(key, &item->key), wanted,
			    item->replicas);
	if (item->status == -KV_EEXISTS && kv_log_is_on(KV_LOG_INFO))
		kv_tool_say(0, "%s: exists already",
			    kv_tool_key(key, &item->key));
	if (item->status == 0 &&
	    kv_log_is_on(r->o->is_batch ? KV_LOG_DEBUG : KV_LOG_INFO))
		kv_tool_say(0, "%s: stored, %s, on %" PRIu32 " node%s",
			    kv_tool_key(key, &item->key),
			    kv_str_size_format(size, sizeof(size), bytes),
			    item->replicas, kv_tool_plural(item->replicas));
	r->existed += item->status == -KV_EEXISTS;
	r->keys++;
}

static void
show(struct kvput *r)
{
	kv_progress_update(&r->progress, r->keys, r->bytes,
			   kv_clock_now(&r->clock));
}

static void
was_read(void *arg, size_t bytes)
{
	struct kvput *r = arg;

	r->bytes += bytes;
	show(r);
}

static void
start(struct kvput *r, struct kv_batch *b)
{
	kv_batch_ready(b);
	r->put = r->o->put;
	r->put.timeout_ms = kv_tool_timeout_ms(&r->o->common, b->values.len);
	r->op = kv_client_put_submit(r->client, b->items, b->n, &r->put);
	if (!r->op) {
		kvput_fail(r, kv_tool_say(EX_OSERR, "out of memory"));
		r->is_over = true;
	}
}

/* Nothing of the batch was tried, and nothing more will be. */
static void
give_up(struct kvput *r, const struct kv_batch *b, int status)
{
	char word[KV_TOOL_WORD_SIZE], key[KV_TOOL_KEY_SIZE];

	kv_progress_clear(&r->progress);
	kv_tool_word(word, status);
	for (size_t i = 0; i < b->n; i++)
		kvput_print(r, &b->items[i].key, word, b->bufs[i].len, 0);
	kvput_fail(r,
		   kv_tool_say(kv_status_exit(status), "%s%s: %s%s",
			       kv_tool_key(key, &b->items[0].key),
			       b->n > 1 ? " and all after it" : "",
			       kv_status_text(status), kv_tool_hint(status)));
	r->is_over = true;
}

/* Waits for the batch that is under way, if there is one. */
static void
finish(struct kvput *r, struct kv_batch *b)
{
	long result;

	if (!r->op)
		return;
	while (kv_op_wait(r->op, LOOK_MS, &result) == -KV_ETIMEOUT)
		show(r);
	r->op = NULL;
	if (result < 0)
		give_up(r, b, (int)result);
	for (size_t i = 0; result >= 0 && i < b->n; i++)
		report(r, &b->items[i]);
	show(r);
	kv_batch_reset(b);
}

static void
put_lines(struct kvput *r)
{
	unsigned i = 0;

	if (r->out)
		kv_out_begin(r->out, KV_OUT_TABLE, NULL);
	do {
		kvput_add_lines(r, &r->batch[i]);
		i = !i;
		finish(r, &r->batch[i]);
		if (!r->is_over && r->batch[!i].n)
			start(r, &r->batch[!i]);
	} while (r->op);
	if (r->out)
		kv_out_end(r->out, KV_OUT_TABLE);
}

static void
put_one(struct kvput *r)
{
	struct kv_batch *b = &r->batch[0];

	kvput_add(r, b, &r->o->key, r->o->path);
	if (b->n)
		start(r, b);
	finish(r, b);
}

int
kvput_run(const struct kvput_options *o, struct kv_client *c)
{
	static struct kvput put; /* large */
	struct kvput *r = &put;

	r->o = o;
	r->client = c;
	if (o->is_batch)
		r->code = kvput_open_lines(r);
	if (r->code)
		return r->code;
	if (o->common.json) {
		r->out = kv_out_json_new(stdout);
		if (!r->out)
			return kv_tool_say(EX_OSERR, "out of memory");
	}
	kv_progress_init(&r->progress, STDERR_FILENO, o->common.json,
			 kv_clock_now(&r->clock));
	r->watch = (struct kv_progress_watch){ was_read, r };
	if (o->is_batch)
		put_lines(r);
	else
		put_one(r);
	kv_progress_clear(&r->progress);
	if (o->is_batch && kv_log_is_on(KV_LOG_INFO))
		kv_tool_say(0, "%" PRIu64 " key%s, %" PRIu64 " of them existed",
			    r->keys, kv_tool_plural(r->keys), r->existed);
	kv_batch_fini(&r->batch[0]);
	kv_batch_fini(&r->batch[1]);
	if (r->lines && r->lines != stdin)
		fclose(r->lines);
	return kv_tool_end(r->out, r->code);
}
