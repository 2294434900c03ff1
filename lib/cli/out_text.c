#include "cli/out.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "base/utf8.h"

/*
 * Cells that are held back until their columns' widths are known: the rows of a
 * table, or the fields of an object as rows of a name and a value.
 */
struct grid {
	char *heads[KV_OUT_COLUMNS_MAX]; /* until they are written */
	char *cells[KV_OUT_ROWS_HELD][KV_OUT_COLUMNS_MAX];
	size_t rows;
	size_t columns;
	size_t next; /* column of the last row where the next cell goes */
	size_t width[KV_OUT_COLUMNS_MAX];
	bool is_right[KV_OUT_COLUMNS_MAX];
};

struct text {
	struct kv_out out;
	bool nul;
	struct grid grid;
};

static struct text *
text_of(struct kv_out *o)
{
	return KV_CONTAINER_OF(o, struct text, out);
}

/* Columns that a terminal needs: characters, whatever their bytes. */
static size_t
width(const char *s)
{
	size_t n = 0;

	for (; *s; s++)
		n += ((unsigned char)*s & 0xc0) != 0x80;
	return n;
}

static int
indent(const struct kv_out *o)
{
	int n = 0;

	for (unsigned i = 0; i < o->depth; i++)
		n += o->level[i].has_name ? 2 : 0;
	return n;
}

/* Writes a row and leaves no cell in it. */
static void
write_row(struct text *t, char **cells)
{
	const struct grid *g = &t->grid;

	fprintf(t->out.f, "%*s", indent(&t->out), "");
	for (size_t i = 0; i < g->columns; i++) {
		size_t n = width(cells[i]);
		int pad = n < g->width[i] ? (int)(g->width[i] - n) : 0;
		bool is_last = i + 1 == g->columns;

		if (g->is_right[i])
			fprintf(t->out.f, "%*s%s", pad, "", cells[i]);
		else
			fprintf(t->out.f, "%s%*s", cells[i], is_last ? 0 : pad,
				"");
		fputs(is_last ? "\n" : "  ", t->out.f);
		free(cells[i]);
		cells[i] = NULL;
	}
}

/* Writes what is held. Columns keep their widths until the grid is reset. */
static void
flush(struct text *t)
{
	struct grid *g = &t->grid;

	if (g->rows && g->heads[0])
		write_row(t, g->heads);
	for (size_t row = 0; row < g->rows; row++)
		write_row(t, g->cells[row]);
	g->rows = 0;
}

static void
reset(struct text *t)
{
	flush(t);
	t->grid.columns = 0;
	memset(t->grid.width, 0, sizeof(t->grid.width));
	memset(t->grid.is_right, 0, sizeof(t->grid.is_right));
}

/* Makes CELL the one at *PLACE in that column; NULL: there was no memory. */
static void
set_cell(struct text *t, size_t column, char **place, char *cell)
{
	size_t n;

	if (!cell) {
		t->out.err = ENOMEM;
		return;
	}
	*place = cell;
	n = width(cell);
	if (n > t->grid.width[column])
		t->grid.width[column] = n;
}

static void
add_cell(struct text *t, char *cell)
{
	struct grid *g = &t->grid;

	assert(g->next < KV_OUT_COLUMNS_MAX);
	set_cell(t, g->next, &g->cells[g->rows][g->next], cell);
	g->next++;
}

static void
end_row(struct text *t)
{
	struct grid *g = &t->grid;

	/* Fewer when the work failed in the middle of a row. */
	while (g->next < g->columns)
		add_cell(t, strdup("-"));
	assert(g->columns == 0 || g->columns == g->next);
	g->columns = g->next;
	g->next = 0;
	if (t->out.err)
		return;
	if (++g->rows == KV_OUT_ROWS_HELD)
		flush(t);
}

/* The name for people: no unit, no underscores. */
static char *
label(const char *name, bool is_head)
{
	static const char *const units[] = { "_bytes", "_s" };
	char *s = strdup(name);
	size_t n, len = strlen(name);

	for (size_t i = 0; s && i < KV_ARRAY_LEN(units); i++) {
		n = strlen(units[i]);
		if (len > n && strcmp(s + len - n, units[i]) == 0)
			s[len - n] = '\0';
	}
	for (char *p = s; p && *p; p++)
		*p = *p == '_' ? ' ' : (char)(is_head ? toupper(*p) : *p);
	return s;
}

/* Bytes as one line: what prints as it is, the rest as kv_str_escape does.
 * There are no quotes around it, so one in it is a byte like others. */
static char *
escaped(const char *p, size_t n)
{
	char *s, *to;
	uint32_t cp;
	int len;

	if (n == 0)
		return strdup("\"\"");
	s = to = malloc(4 * n + 1);
	if (!s)
		return NULL;
	for (; n; p += len, n -= (size_t)len) {
		len = kv_utf8_next(p, n, &cp);
		if (len > 1 && kv_utf8_is_printable(cp)) {
			memcpy(to, p, (size_t)len);
			to += len;
			continue;
		}
		len = 1;
		if (*p == '"')
			*to++ = '"';
		else
			to += kv_str_escape(to, 5, p, 1);
	}
	*to = '\0';
	return s;
}

static char *
formatted(const struct kv_out_value *v)
{
	char buf[352]; /* DBL_MAX with some decimals is the longest */

	switch (v->type) {
	case KV_OUT_BOOL:
		return strdup(v->truth ? "yes" : "no");
	case KV_OUT_U64:
		snprintf(buf, sizeof(buf), "%" PRIu64, v->u64);
		return strdup(buf);
	case KV_OUT_BYTES:
		return strdup(kv_str_size_format(buf, sizeof(buf), v->u64));
	case KV_OUT_DURATION:
		return strdup(kv_str_duration_format(buf, sizeof(buf), v->u64));
	case KV_OUT_DOUBLE:
		snprintf(buf, sizeof(buf), "%.*f", (int)v->real.decimals,
			 v->real.v);
		return strdup(buf);
	case KV_OUT_TEXT:
		return escaped(v->text.p, v->text.n);
	case KV_OUT_NONE:
	default:
		return strdup("-");
	}
}

static bool
is_number(const struct kv_out_value *v)
{
	return v->type == KV_OUT_U64 || v->type == KV_OUT_BYTES ||
	       v->type == KV_OUT_DURATION || v->type == KV_OUT_DOUBLE;
}

static void
text_begin(struct kv_out *o, const char *name)
{
	const struct kv_out_level *level = &o->level[o->depth - 1];
	struct text *t = text_of(o);
	char *heading;

	if (level->kind == KV_OUT_ROW)
		return;
	o->depth--;
	reset(t);
	if (name) {
		heading = label(name, false);
		fprintf(o->f, "%*s%s:\n", indent(o), "",
			heading ? heading : "");
		free(heading);
	} else if (o->depth && o->level[o->depth - 1].items) {
		putc('\n', o->f);
	}
	o->depth++;
}

static void
text_end(struct kv_out *o)
{
	const struct kv_out_level *level = &o->level[o->depth - 1];
	struct text *t = text_of(o);

	if (level->kind == KV_OUT_ROW) {
		end_row(t);
		return;
	}
	reset(t);
	if (!level->items && level->has_name)
		fprintf(o->f, "%*s(none)\n", indent(o), "");
}

static void
row_value(struct text *t, const char *name, const struct kv_out_value *v)
{
	const struct kv_out_level *table = &t->out.level[t->out.depth - 2];
	struct grid *g = &t->grid;
	size_t column = g->next;

	assert(column < KV_OUT_COLUMNS_MAX);
	if (table->items == 1) /* it is the first row */
		set_cell(t, column, &g->heads[column], label(name, true));
	/* Not for "-", which may stand in for any value. */
	g->is_right[column] |= is_number(v);
	add_cell(t, formatted(v));
}

static void
text_value(struct kv_out *o, const char *name, const struct kv_out_value *v)
{
	struct text *t = text_of(o);
	char *s;

	switch (o->level[o->depth - 1].kind) {
	case KV_OUT_ROW:
		row_value(t, name, v);
		break;
	case KV_OUT_OBJECT:
		add_cell(t, label(name, false));
		add_cell(t, formatted(v));
		end_row(t);
		break;
	case KV_OUT_LIST:
		if (t->nul && v->type == KV_OUT_TEXT) {
			fwrite(v->text.p, 1, v->text.n, o->f);
			putc('\0', o->f);
			break;
		}
		s = formatted(v);
		fprintf(o->f, "%*s%s%c", indent(o), "", s ? s : "",
			t->nul ? '\0' : '\n');
		free(s);
		break;
	case KV_OUT_TABLE:
	default:
		break;
	}
}

static void
text_free(struct kv_out *o)
{
	struct grid *g = &text_of(o)->grid;

	/* Some are left after an error. */
	for (size_t i = 0; i < KV_OUT_COLUMNS_MAX; i++) {
		free(g->heads[i]);
		for (size_t row = 0; row < KV_OUT_ROWS_HELD; row++)
			free(g->cells[row][i]);
	}
	free(text_of(o));
}

static const struct kv_out_ops text_ops = {
	.begin = text_begin,
	.end = text_end,
	.value = text_value,
	.free = text_free,
};

struct kv_out *
kv_out_text_new(FILE *f, bool nul)
{
	struct text *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	t->out.ops = &text_ops;
	t->out.f = f;
	t->nul = nul;
	return (void *)t; /* to gcc's analyzer &t->out is another block */
}
