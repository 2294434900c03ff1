/* Results of several runs beside each other. */
#include "cmd/kvbench_report.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "base/num.h"
#include "cli/filein.h"
#include "cli/fileout.h"
#include "cli/tool.h"

const char *
kvbench_held_text(uint64_t held, char buf[32])
{
	uint64_t power = held;
	unsigned e = 0;

	for (; power > 0 && power % 10 == 0; power /= 10)
		e++;
	if (power == 1 && e >= 4)
		snprintf(buf, 32, "10^%u", e);
	else
		snprintf(buf, 32, "%" PRIu64, held);
	return buf;
}

/* ---- reading ---- */

/* The name of the file, without folders and its ending. What would be markup
 * is replaced. */
static void
label_make(char out[64], const char *path)
{
	const char *slash = strrchr(path, '/');
	size_t n;
	char *p;

	path = slash ? slash + 1 : path;
	n = strlen(path);
	if (n > 5 && strcmp(path + n - 5, ".json") == 0)
		n -= 5;
	snprintf(out, 64, "%.*s", (int)kv_min_size(n, 63), path);
	for (p = out; *p; p++)
		if (!strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwx"
			    "yz0123456789-_.+,@ ",
			    *p))
			*p = '?';
}

static int
file_read(struct kvbench_table *t, const char *path)
{
	struct kv_bytes b = { 0 };
	char err[200];
	int rc = kv_filein_read(&b, path, true, NULL);

	if (rc < 0)
		return kv_tool_say(EX_NOINPUT, "%s: %s", path, strerror(-rc));
	rc = kv_benchfile_parse((const char *)b.data, b.len,
				&t->files[t->n_files], err, sizeof(err));
	kv_bytes_fini(&b);
	if (rc < 0)
		return kv_tool_say(rc == -ENOMEM ? EX_OSERR : EX_DATAERR,
				   "%s: %s", path, err);
	label_make(t->labels[t->n_files++], path);
	return 0;
}

static struct kvbench_line *
line_find(struct kvbench_table *t, const struct kv_benchfile_row *row)
{
	size_t i;

	for (i = 0; i < t->n; i++) {
		assert(t->lines[i].first);
		if (strcmp(t->lines[i].first->name, row->name) == 0 &&
		    t->lines[i].first->held == row->held)
			return &t->lines[i];
	}
	t->lines[t->n].first = row;
	return &t->lines[t->n++];
}

/* Figures in the order in which they are met. */
static int
lines_make(struct kvbench_table *t)
{
	size_t max = 1, i;
	unsigned f;

	for (f = 0; f < t->n_files; f++)
		max += t->files[f].n;
	t->lines = calloc(max, sizeof(*t->lines));
	if (!t->lines)
		return kv_tool_say(EX_OSERR, "out of memory");
	for (f = 0; f < t->n_files; f++)
		for (i = 0; i < t->files[f].n; i++)
			line_find(t, &t->files[f].rows[i])->in[f] =
				&t->files[f].rows[i];
	return 0;
}

/* ---- Markdown ---- */

struct markdown {
	struct kv_bytes out;
	int rc;
};

KV_PRINTF(2, 3)
static void
add(struct markdown *m, const char *fmt, ...)
{
	char text[1024];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (m->rc == 0)
		m->rc = kv_bytes_append(&m->out, text, strlen(text));
}

static bool
is_met(const struct kv_benchfile_row *r)
{
	return r->is_less ? r->ratio <= r->bar : r->ratio >= r->bar;
}

static void
cell(struct markdown *m, const struct kv_benchfile_row *r)
{
	if (!r) {
		add(m, " – |");
		return;
	}
	add(m, r->value < 100 ? " %.2f %s" : " %.0f %s", r->value, r->unit);
	if (r->ratio > 0)
		add(m, " (%.2f%s)", r->ratio,
		    r->bar > 0 && !is_met(r) ? ", missed" : "");
	add(m, " |");
}

/* How much nearer to its floor the last file is than the first one. */
static void
change(struct markdown *m, const struct kvbench_line *l, unsigned n_files)
{
	const struct kv_benchfile_row *a = l->in[0], *b = l->in[n_files - 1];
	double by;

	if (!a || !b || a->ratio <= 0 || b->ratio <= 0) {
		add(m, " – |");
		return;
	}
	by = a->is_less ? a->ratio / b->ratio : b->ratio / a->ratio;
	add(m, " %+.0f %% |", (by - 1) * 100);
}

static int
markdown(const struct kvbench_table *t, struct kv_bytes *out)
{
	struct markdown m = { 0 };
	const struct kvbench_line *l;
	char held[32];
	unsigned f;

	add(&m, "| figure | keys held | bar |");
	for (f = 0; f < t->n_files; f++)
		add(&m, " %s |", t->labels[f]);
	add(&m,
	    t->n_files > 1 ? " change |\n|---|---|---|" : "\n|---|---|---|");
	for (f = 0; f < t->n_files + (t->n_files > 1); f++)
		add(&m, "---|");
	add(&m, "\n");
	for (l = t->lines; l < t->lines + t->n; l++) {
		assert(l->first);
		add(&m, "| `%s` | %s |", l->first->name,
		    l->first->held ? kvbench_held_text(l->first->held, held)
				   : "");
		if (l->first->bar > 0)
			add(&m, " %s %.2f |", l->first->is_less ? "≤" : "≥",
			    l->first->bar);
		else
			add(&m, "  |");
		for (f = 0; f < t->n_files; f++)
			cell(&m, l->in[f]);
		if (t->n_files > 1)
			change(&m, l, t->n_files);
		add(&m, "\n");
	}
	add(&m, "\nIn parentheses: the ratio to the floor that was measured "
		"in turns with it.\n\n");
	for (f = 0; f < t->n_files; f++)
		add(&m, "- %s: kvpool %s on `%s`\n", t->labels[f],
		    t->files[f].version, t->files[f].host);
	*out = m.out;
	return m.rc;
}

/* ---- writing ---- */

static int
save(const char *path, const struct kv_bytes *b)
{
	int rc;

	if (!path || strcmp(path, "-") == 0) {
		fwrite(b->data, 1, b->len, stdout);
		return kv_tool_end(NULL, 0);
	}
	rc = kv_fileout_save(path, b->data, b->len, NULL);
	return rc < 0 ? kv_tool_say(EX_CANTCREAT, "%s: %s", path, strerror(-rc))
		      : 0;
}

static int
make(const struct kvbench_table *t, const char *path,
     int (*build)(const struct kvbench_table *t, struct kv_bytes *out))
{
	struct kv_bytes b = { 0 };
	int rc = build(t, &b);

	rc = rc < 0 ? kv_tool_say(EX_OSERR, "out of memory") : save(path, &b);
	kv_bytes_fini(&b);
	return rc;
}

int
kvbench_report(const struct kvbench_report *r)
{
	struct kvbench_table t = { 0 };
	unsigned i;
	int rc = 0;

	for (i = 0; i < r->n && rc == 0; i++)
		rc = file_read(&t, r->files[i]);
	if (rc == 0)
		rc = lines_make(&t);
	if (rc == 0 && (r->output || !r->svg))
		rc = make(&t, r->output, markdown);
	if (rc == 0 && r->svg)
		rc = make(&t, r->svg, kvbench_chart);
	for (i = 0; i < t.n_files; i++)
		kv_benchfile_fini(&t.files[i]);
	free(t.lines);
	return rc;
}
