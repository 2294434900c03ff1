#include "tally.h"

#include <inttypes.h>
#include <stdarg.h>

#include "base/num.h"
#include "kvpool.h"

enum {
	SAID_MAX = 50, /* lines about each kind of failure */
};

static const char *const names[TALLY_OPS] = {
	[TALLY_PUT] = "put",       [TALLY_GET] = "get",
	[TALLY_EXIST] = "exist",   [TALLY_VIEW] = "view",
	[TALLY_REMOVE] = "remove",
};

void
tally_enter(struct guard *g, enum tally_op op, uint64_t timeout_ms)
{
	guard_enter(g, names[op], timeout_ms);
}

void
tally_leave(struct tally *t, struct guard *g, enum tally_op op)
{
	int is_late;
	uint64_t ms = guard_leave(g, &is_late);

	t->calls[op]++;
	t->ms_max[op] = kv_max_u64(t->ms_max[op], ms);
	t->late += (unsigned)is_late;
}

void
tally_key(struct tally *t, enum tally_op op, long status, uint64_t allowed)
{
	if (status > 0 || status <= -TALLY_STATUSES) {
		tally_wrong(t, "%s: %ld is no status", names[op], status);
		return;
	}
	t->keys[op][-status]++;
	if (allowed & 1ull << -status)
		return;
	if (t->unexpected++ < SAID_MAX)
		fprintf(stderr, "unexpected: %s: %s\n", names[op],
			kv_status_name((int)status));
}

void
tally_wrong(struct tally *t, const char *fmt, ...)
{
	char text[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (t->wrong++ < SAID_MAX)
		fprintf(stderr, "wrong: %s\n", text);
}

void
tally_add(struct tally *sum, const struct tally *t)
{
	for (int op = 0; op < TALLY_OPS; op++) {
		for (int i = 0; i < TALLY_STATUSES; i++)
			sum->keys[op][i] += t->keys[op][i];
		sum->calls[op] += t->calls[op];
		sum->ms_max[op] = kv_max_u64(sum->ms_max[op], t->ms_max[op]);
	}
	sum->wrong += t->wrong;
	sum->late += t->late;
	sum->unexpected += t->unexpected;
}

void
tally_print(const struct tally *t, FILE *f)
{
	fprintf(f, "{\"wrong\":%" PRIu64 ",\"late\":%" PRIu64, t->wrong,
		t->late);
	fprintf(f, ",\"unexpected\":%" PRIu64, t->unexpected);
	for (int op = 0; op < TALLY_OPS; op++) {
		fprintf(f, ",\"%s\":{\"calls\":%" PRIu64, names[op],
			t->calls[op]);
		fprintf(f, ",\"ms_max\":%" PRIu64, t->ms_max[op]);
		for (int i = 0; i < TALLY_STATUSES; i++)
			if (t->keys[op][i])
				fprintf(f, ",\"%s\":%" PRIu64,
					kv_status_name(i), t->keys[op][i]);
		fprintf(f, "}");
	}
	fprintf(f, "}\n");
	fflush(f);
}

int
tally_code(const struct tally *t)
{
	if (t->wrong)
		return DRIVER_WRONG;
	if (t->late)
		return DRIVER_HANG;
	return t->unexpected ? DRIVER_UNEXPECTED : 0;
}
