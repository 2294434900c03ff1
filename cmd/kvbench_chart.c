/*
 * A bar for each figure and file: how much of what it should reach it does
 * reach. So all figures stand on one scale, whatever their unit, and whether
 * more or less is better: what ends right of the line is good.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "cmd/kvbench_report.h"

enum {
	WIDTH = 880,
	LEFT = 210,   /* names */
	BAR = 12,     /* height of one */
	GAP = 8,      /* between figures */
	TOP = 28,     /* title */
	LEGEND = 18,  /* a line of it */
	UNIT_PX = 285 /* what should be reached */
};

/* Longer ones are cut. */
#define UNITS_MAX 2.0

static const char *const colours[] = { "#4878a8", "#e08a2c", "#5a9e5a",
				       "#a05a9e", "#c05050", "#707070",
				       "#40a0a0", "#b0a030" };

struct svg {
	struct kv_bytes *out;
	int rc;
};

KV_PRINTF(2, 3)
static void
add(struct svg *s, const char *fmt, ...)
{
	char text[1024];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (s->rc == 0)
		s->rc = kv_bytes_append(s->out, text, strlen(text));
}

/* Text of a file in which markup may stand. */
static void
add_text(struct svg *s, const char *text)
{
	for (; *text; text++)
		if (*text == '<')
			add(s, "&lt;");
		else if (*text == '&')
			add(s, "&amp;");
		else
			add(s, "%c", *text);
}

static const char *
colour(unsigned file)
{
	return colours[file % KV_ARRAY_LEN(colours)];
}

static bool
is_shown(const struct kvbench_line *l)
{
	return l->first->bar > 0;
}

static double
reached(const struct kv_benchfile_row *r)
{
	if (r->ratio <= 0 || r->bar <= 0)
		return 0;
	return r->is_less ? r->bar / r->ratio : r->ratio / r->bar;
}

static void
bar_draw(struct svg *s, const struct kv_benchfile_row *r, unsigned file, int y)
{
	double units = reached(r);
	bool is_cut = units > UNITS_MAX;
	int width = (int)((is_cut ? UNITS_MAX : units) * UNIT_PX);

	add(s,
	    "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" "
	    "fill=\"%s\"/>\n",
	    LEFT, y, width, BAR - 2, colour(file));
	add(s, "<text x=\"%d\" y=\"%d\">%s%.2f</text>\n", LEFT + width + 4,
	    y + BAR - 3, is_cut ? "» " : "", r->ratio);
}

static int
line_draw(struct svg *s, const struct kvbench_table *t,
	  const struct kvbench_line *l, int y)
{
	char held[32];
	unsigned f;

	add(s, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">", LEFT - 8,
	    y + BAR - 3);
	add_text(s, l->first->name);
	if (l->first->held)
		add(s, " (%s)", kvbench_held_text(l->first->held, held));
	add(s, " %s %.2f</text>\n", l->first->is_less ? "≤" : "≥",
	    l->first->bar);
	for (f = 0; f < t->n_files; f++, y += BAR)
		if (l->in[f])
			bar_draw(s, l->in[f], f, y);
	return y + GAP;
}

static int
legend_draw(struct svg *s, const struct kvbench_table *t, int y)
{
	unsigned f;

	for (f = 0; f < t->n_files; f++, y += LEGEND) {
		add(s,
		    "<rect x=\"%d\" y=\"%d\" width=\"12\" height=\"12\" "
		    "fill=\"%s\"/>\n<text x=\"%d\" y=\"%d\">",
		    LEFT, y, colour(f), LEFT + 18, y + 10);
		add_text(s, t->labels[f]);
		add(s, ": kvpool ");
		add_text(s, t->files[f].version);
		add(s, " on ");
		add_text(s, t->files[f].host);
		add(s, "</text>\n");
	}
	return y + GAP;
}

int
kvbench_chart(const struct kvbench_table *t, struct kv_bytes *out)
{
	struct svg s = { .out = out };
	int y = TOP + (int)t->n_files * LEGEND + GAP, from = y;
	size_t i, n = 0;

	for (i = 0; i < t->n; i++)
		n += is_shown(&t->lines[i]);
	y += (int)n * ((int)t->n_files * BAR + GAP);
	add(&s,
	    "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" "
	    "height=\"%d\" font-family=\"sans-serif\" font-size=\"11\">\n",
	    WIDTH, y + GAP);
	add(&s,
	    "<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n"
	    "<text x=\"%d\" y=\"18\" font-size=\"13\">How much of what it "
	    "should reach each figure reaches; beside it its ratio to the "
	    "floor</text>\n",
	    GAP);
	add(&s,
	    "<line x1=\"%d\" y1=\"%d\" x2=\"%d\" y2=\"%d\" "
	    "stroke=\"black\"/>\n",
	    LEFT + UNIT_PX, from - 4, LEFT + UNIT_PX, y);
	y = legend_draw(&s, t, TOP);
	for (i = 0; i < t->n; i++)
		if (is_shown(&t->lines[i]))
			y = line_draw(&s, t, &t->lines[i], y);
	add(&s, "</svg>\n");
	return s.rc;
}
