#include <stdlib.h>
#include <string.h>

#include "base/attr.h"
#include "event/op.h"
#include "svc/client.h"
#include "svc/getop.h"
#include "svc/putop.h"
#include "svc/survey.h"
#include "svc/vec.h"
#include "svc/viewop.h"

#define CREW_THREADS 16
#define CREW_QUEUE   65536

/* ---- put ---- */

struct put_call {
	struct kv_putop op;
	bool is_done;
};

static void
put_done(struct kv_putop *op)
{
	KV_CONTAINER_OF(op, struct put_call, op)->is_done = true;
}

static void
put_abort(void *op)
{
	kv_putop_abort(op, -KV_ECLOSED);
}

static int
put_options(struct kv_putop *op, const struct kv_put_opts *opts)
{
	op->replicas = 1;
	if (!opts)
		return 0;
	if (opts->size != sizeof(*opts) || opts->replicas > KV_REPLICAS_MAX)
		return -KV_EINVALID;
	if (opts->replicas > 0)
		op->replicas = opts->replicas;
	if (opts->soft_pin)
		op->flags |= KV_PUT_SOFT_PIN;
	if (opts->hard_pin)
		op->flags |= KV_PUT_HARD_PIN;
	op->prefer = opts->prefer;
	return 0;
}

static long
put_count(const struct kv_put_item *items, size_t n)
{
	long good = 0;
	size_t i;

	for (i = 0; i < n; i++)
		good += items[i].status == 0 || items[i].status == -KV_EEXISTS;
	return good;
}

long
kv_client_put(struct kv_client *c, struct kv_put_item *items, size_t n,
	      const struct kv_put_opts *opts)
{
	struct put_call call = { .op = { .items = items, .n = n } };
	struct kv_client_chan *cc;
	int status;

	if (!c || (n > 0 && !items) || n >= UINT32_MAX)
		return -KV_EINVALID;
	status = put_options(&call.op, opts);
	if (status < 0 || n == 0)
		return status;
	cc = kv_client_enter(c, opts ? opts->timeout_ms : 0, &call.op.deadline,
			     &status);
	if (!cc)
		return status;
	call.op.done = put_done;
	status = kv_putop_start(cc->ch, &call.op);
	if (status == 0)
		kv_client_run(cc, &call.is_done, put_abort, &call.op);
	kv_client_leave(cc);
	return status < 0 ? status : put_count(items, n);
}

int
kv_client_put_one(struct kv_client *c, const void *key, size_t key_len,
		  const void *value, size_t value_len)
{
	struct kv_buf buf = { kv_unconst(value), value_len };
	struct kv_put_item item = {
		.key = { key, key_len },
		.bufs = &buf,
		.nbufs = 1,
	};
	long rc = kv_client_put(c, &item, 1, NULL);

	return rc < 0 ? (int)rc : item.status;
}

/* ---- get ---- */

struct get_call {
	struct kv_getop op;
	bool is_done;
};

static void
get_done(struct kv_getop *op)
{
	KV_CONTAINER_OF(op, struct get_call, op)->is_done = true;
}

static void
get_abort(void *op)
{
	kv_getop_abort(op, -KV_ECLOSED);
}

long
kv_client_get(struct kv_client *c, struct kv_get_item *items, size_t n,
	      const struct kv_get_opts *opts)
{
	struct get_call call = { .op = { .items = items, .n = n } };
	struct kv_client_chan *cc;
	long good = 0;
	int status = 0;
	size_t i;

	if (!c || (n > 0 && !items) || n >= UINT32_MAX ||
	    (opts && opts->size != sizeof(*opts)))
		return -KV_EINVALID;
	if (n == 0)
		return 0;
	call.op.prefer = opts ? opts->prefer : NULL;
	cc = kv_client_enter(c, opts ? opts->timeout_ms : 0, &call.op.deadline,
			     &status);
	if (!cc)
		return status;
	call.op.done = get_done;
	status = kv_getop_start(cc->ch, &call.op);
	if (status == 0)
		kv_client_run(cc, &call.is_done, get_abort, &call.op);
	kv_client_leave(cc);
	if (status < 0)
		return status;
	for (i = 0; i < n; i++)
		good += items[i].status == 0;
	return good;
}

int64_t
kv_client_get_one(struct kv_client *c, const void *key, size_t key_len,
		  void *buf, size_t buf_len, uint64_t *size)
{
	struct kv_buf into = { buf, buf_len };
	struct kv_get_item item = {
		.key = { key, key_len },
		.bufs = &into,
		.nbufs = 1,
	};
	long rc = kv_client_get(c, &item, 1, NULL);

	if (rc < 0)
		return rc;
	if (size)
		*size = item.size_total;
	return item.status < 0 ? item.status : (int64_t)item.len;
}

/* ---- exist ---- */

struct exist_call {
	struct kv_survey survey;
	bool is_done;
	int status;
};

static void
exist_done(struct kv_survey *s, int status)
{
	struct exist_call *call = KV_CONTAINER_OF(s, struct exist_call, survey);

	/* What was not found may not have been asked for. */
	call->status = s->lack ? s->lack : status;
	call->is_done = true;
}

static void
exist_abort(void *op)
{
	struct exist_call *call = op;

	kv_survey_fini(&call->survey);
	call->status = -KV_ECLOSED;
	call->is_done = true;
}

static long
exist_take(struct kv_client *c, const struct exist_call *call, uint8_t *out)
{
	struct kv_hub_stats more = { .exists = call->survey.n };
	size_t i;

	for (i = 0; i < call->survey.n; i++) {
		out[i] = call->survey.keys[i].exists;
		more.finds += out[i];
	}
	kv_hub_count(&c->hub, &more);
	return (long)more.finds;
}

long
kv_client_exist(struct kv_client *c, const struct kv_key *keys, size_t n,
		uint8_t *out, uint32_t timeout_ms)
{
	struct exist_call call = {
		.survey = { .n = n, .names = keys, .exist_only = true },
	};
	struct kv_client_chan *cc;
	int status = 0;
	long rc;
	size_t i;

	if (!c || (n > 0 && (!keys || !out)) || n >= UINT32_MAX)
		return -KV_EINVALID;
	if (n == 0)
		return 0;
	memset(out, 0, n);
	for (i = 0; i < n; i++)
		if (!kv_vec_is_valid(&keys[i], NULL, 0))
			return -KV_EINVALID;
	call.survey.keys = calloc(n, sizeof(*call.survey.keys));
	if (!call.survey.keys)
		return -KV_ENOMEM;
	cc = kv_client_enter(c, timeout_ms, &call.survey.deadline, &status);
	if (cc) {
		call.survey.done = exist_done;
		kv_survey_start(cc->ch, &call.survey);
		kv_client_run(cc, &call.is_done, exist_abort, &call);
		kv_survey_fini(&call.survey);
		kv_client_leave(cc);
		status = call.status;
	}
	rc = status < 0 ? status : exist_take(c, &call, out);
	free(call.survey.keys);
	return rc;
}

/* ---- views ---- */

struct view_call {
	struct kv_viewop op;
	bool is_done;
};

static void
view_done(struct kv_viewop *op)
{
	KV_CONTAINER_OF(op, struct view_call, op)->is_done = true;
}

static void
view_abort(void *op)
{
	kv_viewop_abort(op, -KV_ECLOSED);
}

long
kv_client_view(struct kv_client *c, struct kv_view *views, size_t n,
	       uint32_t timeout_ms)
{
	struct view_call call = { .op = { .views = views, .n = n } };
	struct kv_client_chan *cc;
	long good = 0;
	int status = 0;
	size_t i;

	if (!c || (n > 0 && !views))
		return -KV_EINVALID;
	for (i = 0; i < n; i++)
		if (!kv_vec_is_valid(&views[i].key, NULL, 0))
			return -KV_EINVALID;
	if (n == 0)
		return 0;
	cc = kv_client_enter(c, timeout_ms, &call.op.deadline, &status);
	if (!cc)
		return status;
	call.op.done = view_done;
	kv_viewop_start(cc->ch, &call.op);
	kv_client_run(cc, &call.is_done, view_abort, &call.op);
	kv_client_leave(cc);
	for (i = 0; i < n; i++)
		good += views[i].status == 0;
	return good;
}

void
kv_client_release(struct kv_client *c, struct kv_view *views, size_t n)
{
	struct kv_client_chan *cc;
	uint64_t deadline;
	int status;

	if (!c || !views || n == 0)
		return;
	cc = kv_client_enter(c, 0, &deadline, &status);
	if (!cc)
		return;
	kv_client_open_local(cc, deadline);
	kv_viewop_release(cc->ch, views, n);
	kv_client_leave(cc);
}

/* ---- in the background ---- */

struct background {
	struct kv_client *c;
	struct kv_put_item *puts;
	struct kv_get_item *gets;
	size_t n;
	bool is_put;
	bool has_opts;
	struct kv_put_opts put_opts;
	struct kv_get_opts get_opts;
};

static long
background_run(void *arg)
{
	struct background *b = arg;

	if (b->is_put)
		return kv_client_put(b->c, b->puts, b->n,
				     b->has_opts ? &b->put_opts : NULL);
	return kv_client_get(b->c, b->gets, b->n,
			     b->has_opts ? &b->get_opts : NULL);
}

static struct kv_op *
background_start(struct kv_client *c, const struct background *what)
{
	struct background *b = malloc(sizeof(*b));
	struct kv_op_crew *crew = NULL;

	if (!b)
		return NULL;
	*b = *what;
	KV_LOCKED(&c->lock) {
		if (!c->crew && !c->closing)
			c->crew = kv_op_crew_new("kvpool", CREW_THREADS,
						 CREW_QUEUE);
		crew = c->crew;
	}
	if (!crew) {
		free(b);
		return NULL;
	}
	return kv_op_start(crew, background_run, free, b);
}

struct kv_op *
kv_client_put_submit(struct kv_client *c, struct kv_put_item *items, size_t n,
		     const struct kv_put_opts *opts)
{
	struct background b = { .c = c, .puts = items, .n = n, .is_put = true };

	if (!c)
		return NULL;
	if (opts) {
		b.put_opts = *opts;
		b.has_opts = true;
	}
	return background_start(c, &b);
}

struct kv_op *
kv_client_get_submit(struct kv_client *c, struct kv_get_item *items, size_t n,
		     const struct kv_get_opts *opts)
{
	struct background b = { .c = c, .gets = items, .n = n };

	if (!c)
		return NULL;
	if (opts) {
		b.get_opts = *opts;
		b.has_opts = true;
	}
	return background_start(c, &b);
}

/* ---- buffers ---- */

int
kv_client_register(struct kv_client *c, void *data, size_t len)
{
	if (!c || !data || len == 0 || (uintptr_t)data > UINTPTR_MAX - len)
		return -KV_EINVALID;
	return kv_ranges_add(&c->hub.ranges, data, len);
}

int
kv_client_unregister(struct kv_client *c, void *data)
{
	if (!c || !data)
		return -KV_EINVALID;
	return kv_ranges_del(&c->hub.ranges, data);
}
