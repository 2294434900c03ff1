#include <math.h>
#include <stdio.h>
#include <sysexits.h>
#include <unistd.h>

#include "cli/out.h"
#include "cmd/kvbench.h"

static void
print_result(struct kv_out *o, const struct kvbench_result *r)
{
	bool is_met = r->is_less ? r->ratio <= r->bar : r->ratio >= r->bar;

	kv_out_begin(o, KV_OUT_ROW, NULL);
	kv_out_string(o, "name", r->name);
	if (r->held > 0)
		kv_out_u64(o, "held", r->held);
	else
		kv_out_none(o, "held");
	kv_out_double(o, "value", r->value, 2);
	kv_out_string(o, "unit", r->unit);
	kv_out_double(o, "floor", r->floor, 2);
	kv_out_string(o, "floor_name", r->floor_name);
	kv_out_double(o, "ratio", r->ratio, 2);
	kv_out_string(o, "better", r->is_less ? "less" : "more");
	if (r->bar > 0)
		kv_out_double(o, "bar", r->bar, 2);
	else
		kv_out_none(o, "bar");
	if (r->bar > 0 && !isnan(r->ratio))
		kv_out_bool(o, "met", is_met);
	else
		kv_out_none(o, "met");
	kv_out_end(o, KV_OUT_ROW);
}

int
kvbench_print(const struct kvbench *b, bool json)
{
	struct kv_out *o =
		json ? kv_out_json_new(stdout) : kv_out_text_new(stdout, false);
	char host[256] = "?";
	unsigned i;

	if (!o)
		return EX_OSERR;
	gethostname(host, sizeof(host) - 1);
	kv_out_begin(o, KV_OUT_OBJECT, NULL);
	kv_out_string(o, "host", host);
	kv_out_string(o, "version", KVPOOL_VERSION);
	kv_out_begin(o, KV_OUT_TABLE, "results");
	for (i = 0; i < b->n_results; i++)
		print_result(o, &b->results[i]);
	kv_out_end(o, KV_OUT_TABLE);
	kv_out_end(o, KV_OUT_OBJECT);
	return kv_out_finish(o) < 0 ? EX_IOERR : 0;
}
