#include "svc/stats.h"

#include <inttypes.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "kvpool.h"

static const struct row {
	const char *name;
	const char *unit;
	const char *text;
} rows[KV_STATS] = {
#define KV_STAT(NAME, name, unit, text) \
	[KV_STAT_##NAME] = { #name, unit, text },
#include "svc/stats.def"
#undef KV_STAT
};

void
kv_stats_sum(struct kv_stats_set *sum, const struct kv_stats_set *from)
{
	unsigned i;

	for (i = 0; i < KV_STATS; i++)
		sum->v[i] += __atomic_load_n(&from->v[i], __ATOMIC_RELAXED);
}

int
kv_stats_who(struct kv_bytes *out)
{
	return kv_bytes_printf(out, "version %s\nclock_ms %" PRIu64 "\n",
			       KVPOOL_VERSION, kv_clock_wall_ms());
}

const char *
kv_stats_name(enum kv_stat stat)
{
	return rows[stat].name;
}

const char *
kv_stats_unit(enum kv_stat stat)
{
	return rows[stat].unit;
}

const char *
kv_stats_text(enum kv_stat stat)
{
	return rows[stat].text;
}
