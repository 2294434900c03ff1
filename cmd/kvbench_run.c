#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include "cmd/kvbench_run.h"

/* ---- names ---- */

bool
kvbench_workload_is(const char *name)
{
	const char *workload;
	unsigned i;

	for (i = 0; kvbench_scene(i, &workload); i++)
		if (strcmp(workload, name) == 0)
			return true;
	return false;
}

/* Whether it is one of the names, separated by commas. */
static bool
is_named(const char *names, const char *name)
{
	size_t len = strlen(name), n;

	for (;; names += n + 1) {
		n = strcspn(names, ",");
		if (n == len && strncmp(names, name, n) == 0)
			return true;
		if (!names[n])
			return false;
	}
}

static bool
is_figure(const char *workload, const char *name, size_t n)
{
	const struct kvbench_scene *s;
	const char *of;
	unsigned i, j;

	for (i = 0; (s = kvbench_scene(i, &of)); i++)
		for (j = 0; j < s->n && strcmp(of, workload) == 0; j++)
			if (strlen(s->figures[j].name) == n &&
			    strncmp(s->figures[j].name, name, n) == 0)
				return true;
	return false;
}

bool
kvbench_figures_are(const char *workload, const char *names)
{
	size_t n;

	for (;; names += n + 1) {
		n = strcspn(names, ",");
		if (!is_figure(workload, names, n))
			return false;
		if (!names[n])
			return true;
	}
}

static bool
is_wanted(const struct kvbench *b, const struct kvbench_figure *f)
{
	return !b->only || is_named(b->only, f->name);
}

/* ---- scenes ---- */

/* How many figures of scene i; s NULL: there is no such scene. */
static unsigned
wanted(const struct kvbench *b, unsigned i, const struct kvbench_scene **s)
{
	const char *workload;
	unsigned n = 0, j;

	*s = kvbench_scene(i, &workload);
	for (j = 0; *s && j < (*s)->n; j++)
		n += strcmp(workload, b->workload) == 0 &&
		     is_wanted(b, &(*s)->figures[j]);
	return n;
}

/* What fails ends the scene: its pools may not be what they should be. */
static int
scene_take(struct run *r, const struct kvbench_scene *s, uint64_t *done)
{
	int rc = s->open(r);
	unsigned i;

	for (i = 0; i < s->n; i++) {
		if (!is_wanted(r->b, &s->figures[i]))
			continue;
		if (rc == 0 && !kvbench_figure_take(r, &s->figures[i]))
			rc = EX_UNAVAILABLE;
		kv_progress_update(&r->progress, ++*done, 0, kvbench_now_ns());
	}
	s->close(r);
	if (!kvbench_pools_close(r) && rc == 0)
		rc = EX_SOFTWARE;
	return rc;
}

int
kvbench_run(struct kvbench *b)
{
	struct run *r = calloc(1, sizeof(*r));
	const struct kvbench_scene *s;
	uint64_t done = 0;
	int rc = 0, one;
	unsigned i, n;

	if (!r)
		return EX_OSERR;
	r->b = b;
	r->net.before = r->net.far = -1;
	kv_rng_seed(&r->rng, kvbench_now_ns());
	kv_progress_init(&r->progress, STDERR_FILENO, b->quiet,
			 kvbench_now_ns());
	for (i = 0; n = wanted(b, i, &s), s; i++)
		r->progress.keys += n;
	for (i = 0; n = wanted(b, i, &s), s; i++) {
		one = n > 0 ? scene_take(r, s, &done) : 0;
		rc = rc ? rc : one;
	}
	kv_progress_clear(&r->progress);
	free(r);
	return rc;
}
