#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "base/attr.h"
#include "base/clock.h"
#include "base/num.h"
#include "base/status.h"
#include "cli/seen.h"
#include "cli/tool.h"
#include "cmd/kvdiag.h"

enum {
	REPLICAS_MAX = 64, /* more than a put may ask for: puts may race */
};

/* ---- keys ---- */

struct listing {
	struct kvdiag *d;
	struct kv_seen seen; /* copies of one key come one by one */
	bool has_no_memory;
};

static int
list_key(void *arg, struct kv_key key, uint64_t size, const char *node)
{
	struct listing *l = arg;
	int rc = kv_seen_add(&l->seen, key.data, key.len);

	(void)size;
	(void)node;
	if (rc > 0)
		kv_out_key(l->d->out, NULL, key.data, key.len);
	l->has_no_memory = rc < 0;
	return rc < 0;
}

int
kvdiag_keys(struct kvdiag *d)
{
	struct listing l = { .d = d };
	uint64_t undecided = 0;
	uint32_t away = 0;
	size_t n;
	int code;
	long rc;

	kv_out_begin(d->out, KV_OUT_LIST, NULL);
	rc = kv_client_list(d->client, d->arg, list_key, &l, &undecided, &away);
	kv_out_end(d->out, KV_OUT_LIST);
	n = l.seen.n;
	kv_seen_fini(&l.seen);
	if (rc < 0)
		return kvdiag_fail(d, (int)rc);
	if (l.has_no_memory)
		return kv_tool_say(EX_OSERR, "out of memory");
	code = kv_tool_worse(kvdiag_away(away), kv_tool_undecided(undecided));
	return kv_tool_worse(code, d->arg && !n);
}

/* ---- key ---- */

static void
print_copy(struct kv_out *out, const struct kv_replica_info *r)
{
	char sum[20], version[48];

	snprintf(sum, sizeof(sum), "%016" PRIx64, r->sum);
	snprintf(version, sizeof(version), "%" PRIu32 ".%016" PRIx64,
		 r->version, r->version_random);
	kv_out_begin(out, KV_OUT_ROW, NULL);
	kv_out_string(out, "node", *r->name ? r->name : NULL);
	kv_out_string(out, "address", *r->addr ? r->addr : NULL);
	kv_out_bytes(out, "size_bytes", r->size);
	kv_out_string(out, "checksum", sum);
	kv_out_string(out, "pin",
		      r->hard_pin   ? "hard"
		      : r->soft_pin ? "soft"
				    : NULL);
	kv_out_u64(out, "readers", r->pins);
	kv_out_duration(out, "idle_s", r->idle_ms * KV_NS_PER_MS);
	kv_out_u64(out, "extents", r->extents);
	kv_out_string(out, "version", version);
	kv_out_end(out, KV_OUT_ROW);
}

static bool
is_equal(const struct kv_replica_info *r, size_t n)
{
	for (size_t i = 1; i < n; i++)
		if (r[i].size != r[0].size || r[i].sum != r[0].sum)
			return false;
	return true;
}

int
kvdiag_key(struct kvdiag *d)
{
	struct kv_key key = { .data = d->arg, .len = strlen(d->arg) };
	struct kv_replica_info *copies;
	uint32_t away = 0;
	long rc = -KV_ENOMEM;
	int code;
	size_t n;

	copies = calloc(REPLICAS_MAX, sizeof(*copies));
	if (copies)
		rc = kv_client_query(d->client, key, 1, copies, REPLICAS_MAX,
				     &away);
	if (rc < 0) {
		free(copies);
		return kvdiag_fail(d, (int)rc);
	}
	code = kvdiag_away(away);
	n = kv_min_size((size_t)rc, REPLICAS_MAX);
	if (n == 0 && !away)
		code = kv_tool_fail_key(&key, KV_EMISS, 0);
	else if (!is_equal(copies, n))
		code = kv_tool_worse(code, 1);
	kv_out_begin(d->out, KV_OUT_OBJECT, NULL);
	kv_out_key(d->out, "key", key.data, key.len);
	if (n || !away)
		kv_out_bool(d->out, "exists", n > 0);
	else
		kv_out_none(d->out, "exists");
	if (n) {
		kv_out_bytes(d->out, "size_bytes", copies[0].size);
		kv_out_string(d->out, "copies_are",
			      is_equal(copies, n) ? "equal" : "DIFFERENT");
	}
	kv_out_begin(d->out, KV_OUT_TABLE, "copies");
	for (size_t i = 0; i < n; i++)
		print_copy(d->out, &copies[i]);
	kv_out_end(d->out, KV_OUT_TABLE);
	kv_out_end(d->out, KV_OUT_OBJECT);
	free(copies);
	return code;
}
