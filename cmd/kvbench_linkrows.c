/* Figures of cells, and how they are shown. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include "base/str.h"
#include "cli/out.h"
#include "cli/tool.h"
#include "cmd/kvbench_link.h"

/* Below it what counts of a call is how long it takes. */
#define LARGE_BYTES (64u << 10)

const char *const kvbench_link_op_names[KVBENCH_LINK_OPS] = {
	[KVBENCH_LINK_WRITE] = "write", [KVBENCH_LINK_READ] = "read",
	[KVBENCH_LINK_SEND] = "send",   [KVBENCH_LINK_PUT] = "put",
	[KVBENCH_LINK_GET] = "get",
};

/* ---- from sums ---- */

static int
by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double
median(const double *v, unsigned n)
{
	double sorted[KVBENCH_LINK_ROUNDS_MAX];

	memcpy(sorted, v, n * sizeof(*v));
	qsort(sorted, n, sizeof(*v), by_value);
	return n % 2 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
}

static bool
is_large(const struct kvbench_link_row *row)
{
	return row->size >= LARGE_BYTES;
}

/* What counts of it: GB/s, or of what is small microseconds. Of what perftest
 * does not tell the one follows from the other. */
static void
value_make(struct kvbench_link_row *row)
{
	double call_s = isnan(row->p50_ns) ? row->depth / row->calls_per_s
					   : row->p50_ns / 1e9;
	double rate = isnan(row->calls_per_s) ? row->depth / call_s
					      : row->calls_per_s;

	row->value =
		is_large(row) ? rate * (double)row->size / 1e9 : call_s * 1e6;
}

static void
row_make(struct kvbench_link_row *row, const struct kvbench_link_cell *cell,
	 const struct kvbench_link_way *w, const struct kvbench_link_sum *sum)
{
	double gb = (double)sum->calls * (double)cell->size / 1e9;

	*row = (struct kvbench_link_row){
		.op = kvbench_link_op_names[cell->op],
		.size = cell->size,
		.depth = cell->depth,
		.calls_per_s = median(sum->rates, sum->rounds),
		.p50_ns = (double)kv_hist_percentile(&sum->hist, 50),
		.p99_ns = (double)kv_hist_percentile(&sum->hist, 99),
		.max_ns = (double)kv_hist_max(&sum->hist),
		.cpu_s_per_gb = (double)sum->cpu_ns / 1e9 / gb,
		.far_s_per_gb = sum->has_far_cpu
					? (double)sum->far_cpu_ns / 1e9 / gb
					: NAN,
		.floor_value = NAN,
		.is_floor = w->is_floor,
	};
	if (sum->kind == KVBENCH_LINK_TIMES) {
		row->calls_per_s = NAN;
		row->p50_ns = sum->p50_ns;
		row->p99_ns = sum->p99_ns;
		row->max_ns = sum->max_ns;
	}
	if (sum->kind == KVBENCH_LINK_RATES)
		row->p50_ns = row->p99_ns = row->max_ns = NAN;
	if (sum->kind != KVBENCH_LINK_ALL)
		row->cpu_s_per_gb = NAN;
	row->bytes_per_s = row->calls_per_s * (double)cell->size;
	value_make(row);
	memcpy(row->path, w->path, sizeof(row->path));
	if (cell->op == KVBENCH_LINK_SEND && w->path_of_sends)
		memcpy(row->path, w->path_of_sends,
		       strlen(w->path_of_sends) + 1);
}

/* The row of the way that this one stands beside. Messages that go another way
 * have none. */
static void
floor_find(struct kvbench_link_row *row, const struct kvbench_link_way *w,
	   const struct kvbench_link_row *rows, size_t n)
{
	if (!w->floor || strcmp(row->path, w->path) != 0)
		return;
	for (size_t i = 0; i < n; i++) {
		const char *path = rows[i].path;
		size_t len = strlen(w->floor);

		/* All rails stand beside all devices. */
		if (!rows[i].is_floor || strncmp(path, w->floor, len) != 0 ||
		    (path[len] && path[len] != ':'))
			continue;
		if (!row->floor)
			row->floor_value = rows[i].value;
		else if (is_large(row))
			row->floor_value += rows[i].value;
		else if (rows[i].value < row->floor_value)
			row->floor_value = rows[i].value;
		row->floor = w->floor;
	}
}

bool
kvbench_link_rows_add(struct kvbench_link_job *r,
		      const struct kvbench_link_cell *cell,
		      struct kvbench_link_sum *const *sums)
{
	struct kvbench_link_row *rows =
		realloc(r->rows, (r->n_rows + r->n_ways) * sizeof(*rows));
	size_t first = r->n_rows, i;

	if (!rows)
		return false;
	r->rows = rows;
	for (i = 0; i < r->n_ways; i++)
		if (sums[i]->rounds > 0)
			row_make(&rows[r->n_rows++], cell, &r->ways[i],
				 sums[i]);
	for (i = 0, rows += first; i < r->n_ways; i++)
		if (sums[i]->rounds > 0)
			floor_find(rows++, &r->ways[i], r->rows + first,
				   r->n_rows - first);
	return true;
}

/* ---- for people ---- */

static void
duration(struct kv_out *o, const char *name, double ns)
{
	if (isnan(ns))
		kv_out_none(o, name);
	else
		kv_out_duration(o, name, (uint64_t)ns);
}

static unsigned
decimals(double v)
{
	return v < 100 ? 2 : 0;
}

static void
text_row(struct kv_out *o, const struct kvbench_link_row *row)
{
	char size[16];

	kv_out_string(o, "op", row->op);
	kv_out_string(o, "size",
		      kv_str_size_format(size, sizeof(size), row->size));
	kv_out_u64(o, "depth", row->depth);
	kv_out_string(o, "path", row->path);
	kv_out_double(o, "GB/s", row->bytes_per_s / 1e9, is_large(row) ? 2 : 4);
	kv_out_double(o, "k/s", row->calls_per_s / 1e3, 2);
	duration(o, "p50", row->p50_ns);
	duration(o, "p99", row->p99_ns);
	duration(o, "max", row->max_ns);
	kv_out_double(o, "cpu_s/GB", row->cpu_s_per_gb,
		      decimals(row->cpu_s_per_gb));
	kv_out_double(o, "far_s/GB", row->far_s_per_gb,
		      decimals(row->far_s_per_gb));
	kv_out_double(o, "ratio", row->value / row->floor_value, 2);
}

/* ---- for programs ---- */

/* One that no other row of the run has: "tcp_write_64KB_x8". */
static void
name_make(char *buf, size_t n, const struct kvbench_link_row *row)
{
	static const char *const units[] = { "B", "KB", "MB", "GB" };
	uint64_t size = row->size;
	unsigned i = 0;

	for (; size % 1024 == 0 && i < 3; size /= 1024)
		i++;
	snprintf(buf, n, "%s_%s_%llu%s_x%u", row->path, row->op,
		 (unsigned long long)size, units[i], row->depth);
}

static void
json_row(struct kv_out *o, const struct kvbench_link_row *row)
{
	bool is = is_large(row);
	char name[2 * KVBENCH_LINK_NAME_BYTES];

	name_make(name, sizeof(name), row);
	kv_out_string(o, "name", name);
	kv_out_none(o, "held");
	kv_out_double(o, "value", row->value, 2);
	kv_out_string(o, "unit", is ? "GB/s" : "us");
	kv_out_double(o, "floor", row->floor_value, 2);
	kv_out_string(o, "floor_name", row->floor);
	kv_out_double(o, "ratio", row->value / row->floor_value, 2);
	kv_out_string(o, "better", is ? "more" : "less");
	kv_out_none(o, "bar");
	kv_out_none(o, "met");
	kv_out_string(o, "op", row->op);
	kv_out_string(o, "path", row->path);
	kv_out_u64(o, "size_bytes", row->size);
	kv_out_u64(o, "depth", row->depth);
	kv_out_double(o, "bytes_per_s", row->bytes_per_s, 0);
	kv_out_double(o, "calls_per_s", row->calls_per_s, 0);
	duration(o, "p50_s", row->p50_ns);
	duration(o, "p99_s", row->p99_ns);
	duration(o, "max_s", row->max_ns);
	kv_out_double(o, "cpu_s_per_gb", row->cpu_s_per_gb, 2);
	kv_out_double(o, "far_cpu_s_per_gb", row->far_s_per_gb, 2);
}

int
kvbench_link_rows_print(const struct kvbench_link_job *r)
{
	bool json = r->l->json;
	struct kv_out *o =
		json ? kv_out_json_new(stdout) : kv_out_text_new(stdout, false);
	char host[256] = "?";

	if (!o)
		return kv_tool_fail(-KV_ENOMEM);
	gethostname(host, sizeof(host) - 1);
	kv_out_begin(o, KV_OUT_OBJECT, NULL);
	kv_out_string(o, "host", host);
	kv_out_string(o, "peer", r->peer);
	kv_out_string(o, "version", KVPOOL_VERSION);
	if (json || *r->no_rdma)
		kv_out_string(o, "no_rdma", *r->no_rdma ? r->no_rdma : NULL);
	kv_out_begin(o, KV_OUT_TABLE, "results");
	for (size_t i = 0; i < r->n_rows; i++) {
		kv_out_begin(o, KV_OUT_ROW, NULL);
		if (json)
			json_row(o, &r->rows[i]);
		else
			text_row(o, &r->rows[i]);
		kv_out_end(o, KV_OUT_ROW);
	}
	kv_out_end(o, KV_OUT_TABLE);
	kv_out_end(o, KV_OUT_OBJECT);
	return kv_tool_end(o, 0);
}
