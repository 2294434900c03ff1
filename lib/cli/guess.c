#include "cli/guess.h"

#include <ctype.h>
#include <string.h>

enum {
	EDITS_MAX = 2,
};

/* As typed by somebody who is vague about case, '-' and '_'. */
static char
fold(char c)
{
	return c == '-' ? '_' : (char)tolower((unsigned char)c);
}

static size_t
least(size_t a, size_t b, size_t c)
{
	size_t ab = a < b ? a : b;

	return ab < c ? ab : c;
}

/* Edits that make NAME out of P: insertions, deletions, replacements. */
static size_t
distance(const char *name, const char *p, size_t n)
{
	size_t row[KV_GUESS_BYTES_MAX + 1], diagonal, above;

	for (size_t j = 0; j <= n; j++)
		row[j] = j;
	for (size_t i = 0; name[i]; i++) {
		diagonal = row[0];
		row[0] = i + 1;
		for (size_t j = 0; j < n; j++) {
			above = row[j + 1];
			row[j + 1] =
				least(above + 1, row[j] + 1,
				      diagonal + (fold(name[i]) != fold(p[j])));
			diagonal = above;
		}
	}
	return row[n];
}

void
kv_guess_try(struct kv_guess *g, const char *p, size_t n, const char *name)
{
	size_t edits;

	if (n > KV_GUESS_BYTES_MAX)
		return;
	edits = distance(name, p, n);
	if (edits > EDITS_MAX || edits * 3 >= strlen(name) ||
	    (g->best && edits >= g->edits))
		return;
	g->best = name;
	g->edits = edits;
}
