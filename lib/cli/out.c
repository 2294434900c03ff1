#include "cli/out.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <string.h>

/* stdio remembers that a write failed, but not why. */
static void
note_error(struct kv_out *o)
{
	if (!o->err && ferror(o->f))
		o->err = errno ? errno : EIO;
}

static struct kv_out_level *
top(struct kv_out *o)
{
	return &o->level[o->depth - 1];
}

/* Whether something called NAME may stand here. */
static bool
is_named_right(const struct kv_out *o, const char *name)
{
	enum kv_out_kind kind;

	if (o->depth == 0)
		return !name;
	kind = o->level[o->depth - 1].kind;
	return (kind == KV_OUT_OBJECT || kind == KV_OUT_ROW) == !!name;
}

void
kv_out_begin(struct kv_out *o, enum kv_out_kind kind, const char *name)
{
	enum kv_out_kind outer = o->depth ? top(o)->kind : KV_OUT_OBJECT;

	assert(o->depth < KV_OUT_DEPTH_MAX);
	assert(is_named_right(o, name));
	assert((outer == KV_OUT_TABLE) == (kind == KV_OUT_ROW));
	assert(outer != KV_OUT_ROW);
	o->level[o->depth++] = (struct kv_out_level){
		.kind = kind,
		.has_name = name != NULL,
	};
	if (!o->err) {
		errno = 0;
		o->ops->begin(o, name);
		note_error(o);
	}
	if (o->depth > 1)
		o->level[o->depth - 2].items++;
}

void
kv_out_end(struct kv_out *o, enum kv_out_kind kind)
{
	assert(o->depth > 0 && top(o)->kind == kind);
	if (!o->err) {
		errno = 0;
		o->ops->end(o);
		note_error(o);
	}
	o->depth--;
}

static void
value(struct kv_out *o, const char *name, const struct kv_out_value *v)
{
	assert(o->depth > 0 && top(o)->kind != KV_OUT_TABLE);
	assert(is_named_right(o, name));
	if (!o->err) {
		errno = 0;
		o->ops->value(o, name, v);
		note_error(o);
	}
	top(o)->items++;
}

void
kv_out_key(struct kv_out *o, const char *name, const void *p, size_t n)
{
	value(o, name,
	      &(struct kv_out_value){ .type = KV_OUT_TEXT, .text = { p, n } });
}

void
kv_out_string(struct kv_out *o, const char *name, const char *s)
{
	if (s)
		kv_out_key(o, name, s, strlen(s));
	else
		kv_out_none(o, name);
}

void
kv_out_u64(struct kv_out *o, const char *name, uint64_t v)
{
	value(o, name, &(struct kv_out_value){ .type = KV_OUT_U64, .u64 = v });
}

void
kv_out_bytes(struct kv_out *o, const char *name, uint64_t bytes)
{
	value(o, name,
	      &(struct kv_out_value){ .type = KV_OUT_BYTES, .u64 = bytes });
}

void
kv_out_duration(struct kv_out *o, const char *name, uint64_t ns)
{
	value(o, name,
	      &(struct kv_out_value){ .type = KV_OUT_DURATION, .u64 = ns });
}

void
kv_out_bool(struct kv_out *o, const char *name, bool v)
{
	value(o, name,
	      &(struct kv_out_value){ .type = KV_OUT_BOOL, .truth = v });
}

void
kv_out_none(struct kv_out *o, const char *name)
{
	value(o, name, &(struct kv_out_value){ .type = KV_OUT_NONE });
}

void
kv_out_double(struct kv_out *o, const char *name, double v, unsigned decimals)
{
	if (isfinite(v))
		value(o, name,
		      &(struct kv_out_value){ .type = KV_OUT_DOUBLE,
					      .real = { v, decimals } });
	else
		kv_out_none(o, name);
}

int
kv_out_finish(struct kv_out *o)
{
	int err;

	while (o->depth)
		kv_out_end(o, top(o)->kind);
	errno = 0;
	if (fflush(o->f) != 0)
		note_error(o);
	err = o->err;
	o->ops->free(o);
	return -err;
}
