#include "cli/moonflag.h"

#include <assert.h>
#include <string.h>

enum {
	WHO_MASTER = KV_CONF_MASTER,
	WHO_CLIENT = KV_CONF_CLIENT,
	WHO_BOTH = KV_CONF_MASTER | KV_CONF_CLIENT,
	WIDTH = 80,
	TEXT_COLUMN = 34,
};

static const struct {
	enum kv_log_level level;
	const char *text;
} reasons[] = {
	[KV_MOONFLAG_SSD] = { KV_LOG_WARN,
			      "there is no SSD tier: what leaves memory is gone" },
	[KV_MOONFLAG_METADATA] = { KV_LOG_WARN,
				   "no metadata is served: nodes find each other by their "
				   "masters" },
	[KV_MOONFLAG_LEASE] = { KV_LOG_INFO,
				"there are no leases: what is read is held while it is "
				"read, what was found leaves after the rest for "
				"--exist_grace, and a remove removes" },
	[KV_MOONFLAG_PIN] = { KV_LOG_INFO,
			      "a soft pin does not end: what has one leaves last" },
	[KV_MOONFLAG_EVICTION] = { KV_LOG_INFO,
				   "a node evicts when a put needs it, and as much as it "
				   "needs" },
	[KV_MOONFLAG_PLACE] = { KV_LOG_INFO,
				"a put goes to the node that it prefers, else the own one, "
				"else the freer of two, and finds room in pieces" },
	[KV_MOONFLAG_PUT] = { KV_LOG_INFO,
			      "what an abandoned put had reserved is free again when its "
			      "process has ended" },
	[KV_MOONFLAG_THREADS] = { KV_LOG_INFO,
				  "a master is one thread; its connections last and do not "
				  "wait for more to send" },
	[KV_MOONFLAG_BUFFER] = { KV_LOG_INFO, "there is nothing to buffer" },
	[KV_MOONFLAG_STORED] = { KV_LOG_INFO,
				 "a master stores nothing: nodes tell it what they hold, "
				 "again after each start" },
	[KV_MOONFLAG_POOL] = { KV_LOG_INFO,
			       "a pool is who names the same masters, and nothing stands "
			       "behind these" },
	[KV_MOONFLAG_TENANTS] = { KV_LOG_INFO,
				  "tenants are always apart, and have no quotas" },
	[KV_MOONFLAG_COPIES] = { KV_LOG_INFO,
				 "a key has as many copies as its put asked for; no tasks "
				 "copy or move it" },
	[KV_MOONFLAG_DEVICES] = { KV_LOG_INFO,
				  "there is no memory behind NVMe-oF or CXL" },
	[KV_MOONFLAG_EVENTS] = { KV_LOG_INFO, "masters publish no events" },
	[KV_MOONFLAG_LOG] = { KV_LOG_INFO,
			      "the log goes to stderr, from info on, with no summary of "
			      "metrics" },
};

#define KV_FLAG(k, w, n, t, dflt, c, opt, text) \
	[KV_MOONFLAG_##w##_##n] = {             \
		.name = #n,                     \
		.type = KV_GFLAGS_##t,          \
		.kind = KV_MOONFLAG_##k,        \
		.who = WHO_##w,                 \
		.preset = (dflt),               \
		.conv = kv_flagconv_##c,        \
		.option = (opt),                \
		.help = (text),                 \
	},
#define KV_FLAG_NOTHING(w, n, t, dflt, c, why) \
	[KV_MOONFLAG_##w##_##n] = {            \
		.name = #n,                    \
		.type = KV_GFLAGS_##t,         \
		.kind = KV_MOONFLAG_NOTHING,   \
		.who = WHO_##w,                \
		.reason = KV_MOONFLAG_##why,   \
		.preset = (dflt),              \
		.conv = kv_flagconv_##c,       \
	},
static const struct kv_moonflag rows[] = {
#include "cli/moonflag.def"
};
#undef KV_FLAG
#undef KV_FLAG_NOTHING

const struct kv_moonflag *
kv_moonflag_row(size_t i)
{
	assert(i < KV_MOONFLAG_COUNT);
	return &rows[i];
}

const char *
kv_moonflag_reason(enum kv_moonflag_reason reason, enum kv_log_level *level)
{
	assert(reason < KV_MOONFLAG_REASONS);
	*level = reasons[reason].level;
	return reasons[reason].text;
}

/* TEXT in lines that begin at column INDENT, the first at column AT. */
static void
wrap(const char *text, int at, int indent, FILE *f)
{
	const char *space;
	int n;

	for (bool is_first = true; *text; is_first = false) {
		space = strchr(text, ' ');
		n = space ? (int)(space - text) : (int)strlen(text);
		if (!is_first && at + 1 + n > WIDTH) {
			fprintf(f, "\n");
			at = 0;
		} else if (!is_first) {
			fprintf(f, " ");
			at++;
		}
		if (at < indent) {
			fprintf(f, "%*s", indent - at, "");
			at = indent;
		}
		fprintf(f, "%.*s", n, text);
		at += n;
		text += space ? n + 1 : n;
	}
	fprintf(f, "\n");
}

/* One flag, on a line, with its help behind it or, if it is long, below. */
static void
list_one(const struct kv_moonflag *row, FILE *f)
{
	bool is_bool = row->type == KV_GFLAGS_BOOL;
	bool has_preset = !is_bool && row->preset && *row->preset;
	char text[256];
	int at;

	at = fprintf(f, "  --%s%s%s", row->name, is_bool ? "" : "=",
		     is_bool ? "" : kv_gflags_type_name(row->type));
	if (!row->help) {
		fprintf(f, "\n");
		return;
	}
	snprintf(text, sizeof(text),
		 has_preset && row->kind != KV_MOONFLAG_REFUSED ? "%s (%s)"
								: "%s",
		 row->help, row->preset);
	if (at > TEXT_COLUMN - 2) {
		fprintf(f, "\n");
		at = 0;
	}
	wrap(text, at, TEXT_COLUMN, f);
}

static void
list_kinds(unsigned who, enum kv_moonflag_kind first,
	   enum kv_moonflag_kind last, FILE *f)
{
	for (size_t i = 0; i < KV_MOONFLAG_COUNT; i++)
		if ((rows[i].who & who) && rows[i].kind >= first &&
		    rows[i].kind <= last)
			list_one(&rows[i], f);
}

static void
list_reason(unsigned who, enum kv_moonflag_reason reason, FILE *f)
{
	bool is_first = true;

	for (size_t i = 0; i < KV_MOONFLAG_COUNT; i++) {
		if (!(rows[i].who & who) ||
		    rows[i].kind != KV_MOONFLAG_NOTHING ||
		    rows[i].reason != reason)
			continue;
		if (is_first) {
			fprintf(f, "\n");
			wrap(reasons[reason].text, 0, 0, f);
		}
		is_first = false;
		list_one(&rows[i], f);
	}
}

void
kv_moonflag_list(unsigned who, FILE *f)
{
	list_kinds(who, KV_MOONFLAG_TO, KV_MOONFLAG_CODE, f);
	fprintf(f, "\nOptions of our own, spelt in the same way:\n");
	list_kinds(who, KV_MOONFLAG_OWN, KV_MOONFLAG_OWN, f);
	if (who & WHO_MASTER) {
		fprintf(f, "\nRefused:\n");
		list_kinds(who, KV_MOONFLAG_REFUSED, KV_MOONFLAG_REFUSED, f);
	}
	fprintf(f, "\nTaken, and without meaning here, for the reason that "
		   "stands above them:\n");
	for (unsigned i = 0; i < KV_MOONFLAG_REASONS; i++)
		list_reason(who, i, f);
}
