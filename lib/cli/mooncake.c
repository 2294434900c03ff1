#include "cli/mooncake.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sysexits.h>

#include "cli/filein.h"
#include "cli/flagconv.h"
#include "cli/flatconf.h"
#include "cli/gflags.h"
#include "cli/moonflag.h"

enum {
	NOTES_MAX = 64,
	VERBOSE_MAX = 2,
	SHOWN_MAX = 64, /* bytes of foreign text in a note */
	FLAGS = KV_MOONFLAG_COUNT,
};

#define FLAG(who, name) KV_MOONFLAG_##who##_##name

/* A translation under way. */
struct run {
	struct kv_mooncake *m;
	enum kv_conf_who who;
	struct kv_gflags flags;
	struct kv_gflags_flag names[FLAGS];
	struct kv_gflags_value values[FLAGS];
	const char *file; /* the one being read, or NULL */
	bool out_of_memory;
	bool is_file_bad; /* a file is to blame for the error */
};

static int
out_of_memory(char *err, size_t size)
{
	snprintf(err, size, "out of memory");
	return -ENOMEM;
}

/* ---- what comes of it ---- */

KV_PRINTF(3, 4)
static void
note(struct run *r, enum kv_log_level level, const char *fmt, ...)
{
	struct kv_mooncake *m = r->m;
	struct kv_mooncake_note *notes;
	char *text = NULL;
	va_list ap;
	int n;

	if (m->notes_n == NOTES_MAX)
		return;
	notes = realloc(m->notes, (m->notes_n + 1) * sizeof(*notes));
	if (notes)
		m->notes = notes;
	va_start(ap, fmt);
	n = vasprintf(&text, m->notes_n + 1 < NOTES_MAX ? fmt : "and more", ap);
	va_end(ap);
	if (!notes || n < 0) {
		r->out_of_memory = true;
		if (n >= 0)
			free(text);
		return;
	}
	m->notes[m->notes_n++] = (struct kv_mooncake_note){ level, text };
}

KV_PRINTF(2, 3)
static void
add(struct run *r, const char *fmt, ...)
{
	struct kv_mooncake *m = r->m;
	char **argv, *word = NULL;
	va_list ap;
	int n;

	argv = realloc(m->argv, ((size_t)m->argc + 2) * sizeof(*argv));
	if (argv)
		m->argv = argv;
	va_start(ap, fmt);
	n = vasprintf(&word, fmt, ap);
	va_end(ap);
	if (!argv || n < 0) {
		r->out_of_memory = true;
		if (n >= 0)
			free(word);
		return;
	}
	m->argv[m->argc++] = word;
	m->argv[m->argc] = NULL;
}

/* ---- what was given ---- */

static const char *
value_of(const struct run *r, size_t flag)
{
	const char *text = r->values[flag].text;

	return text ? text : kv_moonflag_row(flag)->preset;
}

static bool
is_true(const struct run *r, size_t flag)
{
	return strcmp(value_of(r, flag), "true") == 0;
}

/* The value as ours in OUT. 0, or -EINVAL after a line about it. */
static int
convert(const struct run *r, size_t flag, char *out, char *err, size_t size)
{
	const char *text = value_of(r, flag);
	char why[256];

	if (kv_moonflag_row(flag)->conv(text, out, why, sizeof(why)) == 0)
		return 0;
	snprintf(err, size, "--%s=%.*s: %s", kv_moonflag_row(flag)->name,
		 SHOWN_MAX, text, why);
	return -EINVAL;
}

static bool
is_preset(const struct run *r, size_t flag, const char *converted)
{
	char preset[KV_FLAGCONV_SIZE], why[256];

	if (!r->values[flag].text)
		return true;
	/* "0.90" is 0.9, and "10s" is 10000. */
	return kv_moonflag_row(flag)->preset &&
	       kv_moonflag_row(flag)->conv(kv_moonflag_row(flag)->preset,
					   preset, why, sizeof(why)) == 0 &&
	       strcmp(preset, converted) == 0;
}

static void
on_stray(void *arg, const char *word, const char *flag)
{
	struct run *r = arg;

	if (!flag) {
		note(r, KV_LOG_WARN, "'%.*s' is no flag and is ignored",
		     SHOWN_MAX, word);
		return;
	}
	note(r, KV_LOG_WARN,
	     "--%s is %s: a boolean takes no word of its own, and '%.*s' is "
	     "ignored; a value stands behind '='",
	     flag, value_of(r, kv_gflags_find(&r->flags, flag)), SHOWN_MAX,
	     word);
}

/* Reads a file; to be freed. NULL after a line about it. */
static char *
read_text(const char *path, size_t *len, char *err, size_t size)
{
	/* One byte more, to see that it is too large. */
	const size_t max = KV_FLATCONF_BYTES_MAX + 1;
	char *buf = malloc(max);
	ssize_t n;

	n = buf ? kv_filein_text(path, buf, max) : -ENOMEM;
	if (n >= 0) {
		*len = (size_t)n;
		return buf;
	}
	errno = (int)-n;
	snprintf(err, size, "%s: %m", path);
	free(buf);
	errno = (int)-n;
	return NULL;
}

static int
read_flagfile(struct run *r, const char *path, char *err, size_t size)
{
	char why[512];
	size_t len;
	char *text;
	int rc;

	r->is_file_bad = true;
	text = read_text(path, &len, err, size);
	if (!text)
		return -errno;
	if (len > KV_FLATCONF_BYTES_MAX) {
		snprintf(err, size, "%s: larger than %d bytes", path,
			 KV_FLATCONF_BYTES_MAX);
		free(text);
		return -EFBIG;
	}
	r->file = path;
	rc = kv_gflags_lines(&r->flags, text, len, why, sizeof(why));
	r->file = NULL;
	free(text);
	r->is_file_bad = rc < 0;
	if (rc < 0)
		snprintf(err, size, "%s:%s", path, why);
	return rc;
}

static int
on_set(void *arg, size_t flag, char *err, size_t size)
{
	struct run *r = arg;
	char *list, *at, *path;
	int rc = 0;

	if (flag != FLAG(BOTH, flagfile) || !*value_of(r, flag))
		return 0;
	if (r->file) {
		snprintf(err, size, "a file of flags may not name another one");
		return -EINVAL;
	}
	/* What is in a file may set the flag again. */
	list = at = strdup(value_of(r, flag));
	if (!list)
		return out_of_memory(err, size);
	while (rc == 0 && (path = strsep(&at, ",")))
		rc = read_flagfile(r, path, err, size);
	free(list);
	return rc;
}

/* Help and the like are asked for by who starts the program. */
static bool
is_for_command(const struct kv_moonflag *row)
{
	return row->kind == KV_MOONFLAG_CODE &&
	       row->who == (KV_CONF_MASTER | KV_CONF_CLIENT);
}

/* One name of the file of --config_path. */
static int
on_name(void *arg, const char *name, const char *value, char *err, size_t size)
{
	struct run *r = arg;
	size_t flag;

	/* The one that is not called as its flag. */
	if (strcmp(name, "client_live_ttl_sec") == 0)
		name = "client_ttl";
	flag = kv_gflags_find(&r->flags, name);
	if (flag == FLAGS || flag == FLAG(MASTER, config_path) ||
	    is_for_command(kv_moonflag_row(flag))) {
		note(r, KV_LOG_WARN, "%s: unknown name '%s' is ignored",
		     r->file, name);
		return 0;
	}
	if (kv_moonflag_row(flag)->type == KV_GFLAGS_BOOL &&
	    strcasecmp(value, "on") == 0)
		value = "true";
	if (kv_moonflag_row(flag)->type == KV_GFLAGS_BOOL &&
	    strcasecmp(value, "off") == 0)
		value = "false";
	return kv_gflags_set(&r->flags, flag, value, KV_GFLAGS_FILE, err, size);
}

static int
read_config(struct run *r, char *err, size_t size)
{
	const struct kv_flatconf conf = {
		.path = value_of(r, FLAG(MASTER, config_path)),
		.set = on_name,
		.arg = r,
	};
	size_t len;
	char *text;
	int rc;

	if (!*conf.path)
		return 0;
	r->is_file_bad = true;
	text = read_text(conf.path, &len, err, size);
	if (!text)
		return -errno;
	r->file = conf.path;
	rc = kv_flatconf_parse(&conf, text, len, err, size);
	r->file = NULL;
	r->is_file_bad = rc < 0;
	free(text);
	return rc;
}

/* ---- one into the other ---- */

/* The flags of REASON that are idle, after one another. Their number. */
static size_t
list_idle(const bool *is_idle, enum kv_moonflag_reason reason, char *list,
	  size_t size)
{
	size_t count = 0, n = 0;

	for (size_t i = 0; i < FLAGS; i++) {
		const struct kv_moonflag *row = kv_moonflag_row(i);

		if (!is_idle[i] || row->reason != reason || n >= size)
			continue;
		n += (size_t)snprintf(list + n, size - n, "%s--%s",
				      count++ ? ", " : "", row->name);
	}
	return count;
}

/* What has no meaning here: a line a reason. */
static void
tell_idle(struct run *r, const bool *is_idle)
{
	char list[KV_FLAGCONV_SIZE];
	enum kv_log_level level;
	const char *text;

	for (unsigned i = 0; i < KV_MOONFLAG_REASONS; i++) {
		text = kv_moonflag_reason(i, &level);
		if (list_idle(is_idle, i, list, sizeof(list)))
			note(r, level, "%s: %s", list, text);
	}
}

static int
translate_row(struct run *r, size_t flag, bool *is_idle, char *err, size_t size)
{
	const struct kv_moonflag *row = kv_moonflag_row(flag);
	char out[KV_FLAGCONV_SIZE];

	if (!r->values[flag].text && row->kind != KV_MOONFLAG_TO)
		return 0;
	if (convert(r, flag, out, err, size) < 0)
		return -EINVAL;
	switch (row->kind) {
	case KV_MOONFLAG_TO:
		if (*out)
			add(r, "--%s=%s", row->option, out);
		return 0;
	case KV_MOONFLAG_OWN:
		add(r, "--%s=%s", row->option, out);
		return 0;
	case KV_MOONFLAG_REFUSED:
		if (is_preset(r, flag, out))
			return 0;
		snprintf(err, size, "--%s=%.*s is refused: %s", row->name,
			 SHOWN_MAX, out, row->help);
		return -EINVAL;
	case KV_MOONFLAG_NOTHING:
		*is_idle = !is_preset(r, flag, out);
		return 0;
	default:
		return 0;
	}
}

static int
translate_master(struct run *r, char *err, size_t size)
{
	size_t port = FLAG(MASTER, rpc_port), old = FLAG(MASTER, port);
	size_t interface = FLAG(MASTER, rpc_interface);
	const char *name = value_of(r, interface);
	char addr[KV_FLAGCONV_SIZE], why[256];

	if (strcmp(value_of(r, port), "0") == 0 ||
	    r->values[old].source > r->values[port].source)
		port = old;
	add(r, "--rpc-port=%s", value_of(r, port));
	if (*name) {
		if (kv_flagconv_interface(name, addr, why, sizeof(why)) < 0) {
			snprintf(err, size, "--rpc_interface=%.*s: %s",
				 SHOWN_MAX, name, why);
			return -EINVAL;
		}
	} else if (convert(r, FLAG(MASTER, rpc_address), addr, err, size) < 0) {
		return -EINVAL;
	}
	if (*addr)
		add(r, "--listen=%s", addr);
	if (convert(r, FLAG(MASTER, metrics_host), addr, err, size) < 0)
		return -EINVAL;
	add(r, "--http-listen=%s", addr);
	return 0;
}

static void
translate_client(struct run *r)
{
	bool is_on = is_true(r, FLAG(CLIENT, enable_http_server));

	add(r, "--http-port=%s",
	    is_on ? value_of(r, FLAG(CLIENT, http_port)) : "0");
}

static int
translate(struct run *r, char *err, size_t size)
{
	bool is_idle[FLAGS] = { false };
	long level;
	int rc = 0;

	for (size_t i = 0; i < FLAGS && rc == 0; i++)
		if (kv_moonflag_row(i)->who & r->who)
			rc = translate_row(r, i, &is_idle[i], err, size);
	if (rc < 0)
		return rc;
	tell_idle(r, is_idle);
	level = strtol(value_of(r, FLAG(BOTH, v)), NULL, 10);
	for (long i = 0; i < level && i < VERBOSE_MAX; i++)
		add(r, "--verbose");
	if (r->who == KV_CONF_MASTER)
		return translate_master(r, err, size);
	translate_client(r);
	return 0;
}

static int
exit_code(const struct run *r, int rc)
{
	if (rc == -ENOMEM)
		return EX_OSERR;
	return r->is_file_bad ? EX_CONFIG : EX_USAGE;
}

static int
run(struct run *r, int argc, char *const *argv, char *err, size_t size)
{
	int rc;

	add(r, "%s", argv[0]);
	rc = kv_gflags_words(&r->flags, argc, argv, err, size);
	if (rc < 0)
		return rc;
	r->m->is_help = is_true(r, FLAG(BOTH, help)) ||
			is_true(r, FLAG(BOTH, helpfull)) ||
			is_true(r, FLAG(BOTH, helpshort));
	if (r->m->is_help)
		return 0;
	if (is_true(r, FLAG(BOTH, version))) {
		add(r, "--version");
		return 0;
	}
	rc = read_config(r, err, size);
	return rc < 0 ? rc : translate(r, err, size);
}

bool
kv_mooncake_is_name(const char *argv0, enum kv_conf_who who)
{
	const char *slash = strrchr(argv0, '/');
	const char *name = slash ? slash + 1 : argv0;

	return (who == KV_CONF_MASTER &&
		strcmp(name, "mooncake_master") == 0) ||
	       (who == KV_CONF_CLIENT && strcmp(name, "mooncake_client") == 0);
}

static void
init(struct run *r, enum kv_conf_who who, struct kv_mooncake *m)
{
	r->m = m;
	r->who = who;
	for (size_t i = 0; i < FLAGS; i++) {
		const struct kv_moonflag *row = kv_moonflag_row(i);

		if (row->who & who)
			r->names[i] =
				(struct kv_gflags_flag){ row->name, row->type };
	}
	r->flags = (struct kv_gflags){
		.flags = r->names,
		.values = r->values,
		.count = FLAGS,
		.stray = on_stray,
		.set = on_set,
		.arg = r,
	};
}

int
kv_mooncake_translate(enum kv_conf_who who, int argc, char *const *argv,
		      struct kv_mooncake *m, char *err, size_t size)
{
	struct run *r = calloc(1, sizeof(*r));
	int rc, code = 0;

	assert(who == KV_CONF_MASTER || who == KV_CONF_CLIENT);
	assert(argc > 0);
	*m = (struct kv_mooncake){ 0 };
	if (!r) {
		out_of_memory(err, size);
		return EX_OSERR;
	}
	init(r, who, m);
	rc = run(r, argc, argv, err, size);
	if (rc == 0 && r->out_of_memory)
		rc = out_of_memory(err, size);
	if (rc < 0) {
		code = exit_code(r, rc);
		kv_mooncake_fini(m);
	}
	kv_gflags_fini(&r->flags);
	free(r);
	return code;
}

void
kv_mooncake_fini(struct kv_mooncake *m)
{
	for (int i = 0; i < m->argc; i++)
		free(m->argv[i]);
	free(m->argv);
	for (size_t i = 0; i < m->notes_n; i++)
		free(m->notes[i].text);
	free(m->notes);
	*m = (struct kv_mooncake){ 0 };
}

void
kv_mooncake_help(enum kv_conf_who who, const char *name, FILE *f)
{
	fprintf(f,
		"Usage: %s [--FLAG=VALUE...]\n"
		"%s by the name of Mooncake's program, with its flags as gflags "
		"reads\n"
		"them: --name=value or --name value, with one dash or two; "
		"--name and\n"
		"--noname for a boolean. %s(8) has more.\n\n",
		name, who == KV_CONF_MASTER ? "kvmaster" : "kvclient",
		who == KV_CONF_MASTER ? "mooncake_master" : "mooncake_client");
	kv_moonflag_list(who, f);
}
