#include "cli/conf.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/attr.h"
#include "base/clock.h"
#include "base/log.h"
#include "cli/filein.h"
#include "cli/guess.h"
#include "cli/pyjson.h"

/* What a heartbeat may take; nodes send four in that time. */
#define TTL_NS_MIN (100 * KV_NS_PER_MS)

enum {
	UNKNOWN_MAX = 32, /* unknown keys that are named */
	NAME_BYTES_MAX = 64,
};

static const struct kv_conf_key keys[] = {
#define KV_CONF(number, field, kind, key, opt, c, argument, whose, dflt, text) \
	[KV_CONF_##number] = { .name = (key),                                  \
			       .option = (opt),                                \
			       .arg = (argument),                              \
			       .help = (text),                                 \
			       .preset = (dflt),                               \
			       .type = &kv_conftype_##kind,                    \
			       .offset = offsetof(struct kv_conf, field),      \
			       .who = (whose),                                 \
			       .letter = (c) },
#include "cli/conf.def"
#undef KV_CONF
};

/*
 * Keys by which Mooncake, SGLang and LMCache set up what is not here, or is set
 * up in another way: their files are read without a word about them.
 */
static const char *const foreign[] = {
	"local_hostname",
	"rdma_devices",
	"master_server_addr",
	"ipc_socket_path",
	"enable_ssd_offload",
	"ssd_offload_path",
	"storage_root_dir",
	"enable_client_http_server",
	"client_server_address",
	"master_metrics_port",
	"check_server",
	"standalone_storage",
	"transfer_timeout",
	"prefer_local_alloc",
	"mooncake_prefer_local_alloc",
};

/* What a file said, key by key. A key that comes twice counts the last time. */
struct found {
	struct kv_jsonscan_span value[KV_CONF_KEYS]; /* .p NULL: not there */
	struct kv_jsonscan_span unknown[UNKNOWN_MAX];
	size_t unknown_n;
	bool unknown_more;
};

/* Foreign bytes may stand in the text: it must stay one line all the same. */
KV_PRINTF(3, 4)
static void
say(char *err, size_t size, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(err, size, fmt, ap);
	va_end(ap);
	for (; *err; err++)
		if (iscntrl((unsigned char)*err))
			*err = '?';
}

static void *
field(struct kv_conf *c, unsigned number)
{
	return (char *)c + keys[number].offset;
}

static bool
is_same(struct kv_jsonscan_span span, const char *p, size_t n)
{
	return span.n == n && memcmp(span.p, p, n) == 0;
}

/* The number of the key that is written as NAME, -1 if there is none. */
static int
key_find(struct kv_jsonscan_span name)
{
	/* The name in its quotes is a string for kv_pyjson_str. */
	struct kv_jsonscan_span quoted = { name.p - 1, name.n + 2 };
	char plain[NAME_BYTES_MAX];

	if (memchr(name.p, '\\', name.n)) {
		if (kv_pyjson_str(quoted, plain, sizeof(plain)) < 0)
			return -1;
		name = (struct kv_jsonscan_span){ plain, strlen(plain) };
	}
	for (int i = 0; i < KV_CONF_KEYS; i++)
		if (is_same(name, keys[i].name, strlen(keys[i].name)))
			return i;
	return -1;
}

static void
member(void *arg, struct kv_jsonscan_span key, struct kv_jsonscan_span value)
{
	struct found *f = arg;
	int number = key_find(key);

	if (number >= 0) {
		f->value[number] = value;
		return;
	}
	for (size_t i = 0; i < KV_ARRAY_LEN(foreign); i++) {
		if (is_same(key, foreign[i], strlen(foreign[i]))) {
			kv_debug("config: \"%s\" means nothing here",
				 foreign[i]);
			return;
		}
	}
	for (size_t i = 0; i < f->unknown_n; i++)
		if (is_same(f->unknown[i], key.p, key.n))
			return;
	if (f->unknown_n < UNKNOWN_MAX)
		f->unknown[f->unknown_n++] = key;
	else
		f->unknown_more = true;
}

/* A known key that NAME was probably meant to be, or NULL. */
static const char *
hint(struct kv_jsonscan_span name)
{
	struct kv_guess g = { 0 };

	for (int i = 0; i < KV_CONF_KEYS; i++)
		kv_guess_try(&g, name.p, name.n, keys[i].name);
	return g.best;
}

static void
warn_unknown(const struct kv_conf *c, const struct found *f)
{
	const char *file = c->file ? c->file : "", *sep = c->file ? ": " : "";
	const char *guess;
	char text[512];

	if (!c->warn)
		return;
	for (size_t i = 0; i < f->unknown_n; i++) {
		struct kv_jsonscan_span k = f->unknown[i];
		bool cut = k.n > NAME_BYTES_MAX;

		guess = hint(k);
		say(text, sizeof(text),
		    "%s%sunknown key \"%.*s%s\" is ignored%s%s%s", file, sep,
		    cut ? NAME_BYTES_MAX : (int)k.n, k.p, cut ? "..." : "",
		    guess ? ", did you mean \"" : "", guess ? guess : "",
		    guess ? "\"?" : "");
		c->warn(c->warn_arg, text);
	}
	if (f->unknown_more) {
		say(text, sizeof(text), "%s%smore unknown keys are ignored",
		    file, sep);
		c->warn(c->warn_arg, text);
	}
}

/* Turns what was FOUND into values of C. */
static int
convert(struct kv_conf *c, const struct found *f, char *err, size_t size)
{
	const char *file = c->file ? c->file : "", *sep = c->file ? ": " : "";
	char text[2 * KV_CONF_TEXT_SIZE];
	struct kv_conftype_why why = { text, sizeof(text) };

	for (unsigned i = 0; i < KV_CONF_KEYS; i++) {
		const struct kv_conftype *type = keys[i].type;

		if (!f->value[i].p)
			continue;
		c->source[i] = KV_CONF_FILE;
		if (type->read(field(c, i), f->value[i], &why) < 0) {
			say(err, size, "%s%s%s%s%s", file, sep,
			    type->names_key ? "" : keys[i].name,
			    type->names_key ? "" : ": ", text);
			return -EINVAL;
		}
	}
	return 0;
}

static int
parse(struct kv_jsonscan_span text, const char *file, struct kv_conf *c,
      char *err, size_t size)
{
	struct found found = { .unknown_n = 0 };
	struct kv_jsonscan_error error;
	struct kv_conf next = *c;
	int rc;

	next.file = file;
	if (text.n > KV_CONF_FILE_BYTES_MAX) {
		say(err, size, "%s%slarger than %d bytes", file ? file : "",
		    file ? ": " : "", KV_CONF_FILE_BYTES_MAX);
		return -EFBIG;
	}
	rc = kv_jsonscan_object(text, member, &found, &error);
	if (rc < 0) {
		say(err, size, "%s%s%u:%u: %s", file ? file : "",
		    file ? ":" : "", error.line, error.column, error.what);
		return rc;
	}
	rc = convert(&next, &found, err, size);
	if (rc < 0)
		return rc;
	for (unsigned i = 0; i < KV_CONF_KEYS; i++) {
		if (c->source[i] == KV_CONF_OPTION) {
			memcpy(field(&next, i), field(c, i),
			       keys[i].type->size);
			next.source[i] = KV_CONF_OPTION;
		}
	}
	*c = next;
	warn_unknown(c, &found);
	return 0;
}

const struct kv_conf_key *
kv_conf_key(enum kv_conf_number number)
{
	assert(number < KV_CONF_KEYS);
	return &keys[number];
}

void
kv_conf_init(struct kv_conf *c)
{
	char text[64];
	struct kv_conftype_why why = { text, sizeof(text) };
	int rc;

	memset(c, 0, sizeof(*c));
	for (unsigned i = 0; i < KV_CONF_KEYS; i++) {
		rc = keys[i].type->set(field(c, i), keys[i].preset, &why);
		assert(rc == 0);
	}
}

int
kv_conf_parse(const char *text, size_t len, struct kv_conf *c, char *err,
	      size_t size)
{
	struct kv_jsonscan_span span = { len ? text : "", len };

	return parse(span, NULL, c, err, size);
}

int
kv_conf_load(const char *path, struct kv_conf *c, char *err, size_t size)
{
	/* One byte more, to see that a file is too large. */
	const size_t max = KV_CONF_FILE_BYTES_MAX + 1;
	const char *file = path ? path : kv_conf_env_path();
	char *buf;
	ssize_t n;
	int rc;

	if (!file) {
		say(err, size,
		    "The environment variable "
		    "'MOONCAKE_CONFIG_PATH' is not set.");
		return -ENOENT;
	}
	buf = malloc(max);
	n = buf ? kv_filein_text(file, buf, max) : -ENOMEM;
	if (n >= 0) {
		rc = parse((struct kv_jsonscan_span){ buf, (size_t)n }, file, c,
			   err, size);
	} else {
		rc = (int)n;
		say(err, size, "%s: %s", file, strerror(-rc));
	}
	free(buf);
	return rc;
}

const char *
kv_conf_env_path(void)
{
	const char *path = getenv("MOONCAKE_CONFIG_PATH");

	return path && *path ? path : NULL;
}

int
kv_conf_set(struct kv_conf *c, enum kv_conf_number number, const char *text,
	    char *err, size_t size)
{
	const struct kv_conf_key *key = kv_conf_key(number);
	char reason[2 * KV_CONF_TEXT_SIZE];
	struct kv_conftype_why why = { reason, sizeof(reason) };

	assert(text || key->type->is_flag);
	if (key->type->set(field(c, number), text ? text : "true", &why) < 0) {
		say(err, size, "--%s: %s", key->option, reason);
		return -EINVAL;
	}
	c->source[number] = KV_CONF_OPTION;
	return 0;
}

/* Refuses the value of a key, naming where it came from. */
static int
refuse(const struct kv_conf *c, enum kv_conf_number number, char *err,
       size_t size, const char *why)
{
	if (c->source[number] == KV_CONF_OPTION)
		say(err, size, "--%s: %s", keys[number].option, why);
	else
		say(err, size, "%s%s%s", c->file ? c->file : "",
		    c->file ? ": " : "", why);
	return -EINVAL;
}

int
kv_conf_check(const struct kv_conf *c, char *err, size_t size)
{
	enum kv_conf_number segment = KV_CONF_GLOBAL_SEGMENT_SIZE;
	bool is_own = c->source[segment] == KV_CONF_OPTION;
	bool standalone = strcmp(c->mode, "standalone-store") == 0;
	bool is_option = c->source[KV_CONF_MODE] == KV_CONF_OPTION;
	char text[KV_CONF_TEXT_SIZE + 64];

	if (!standalone && strcmp(c->mode, "embedded") != 0) {
		snprintf(text, sizeof(text), "unknown Mooncake mode: %s%s",
			 c->mode,
			 is_option ? ", neither embedded nor standalone-store"
				   : "");
		return refuse(c, KV_CONF_MODE, err, size, text);
	}
	if (c->local_buffer_size <= 0)
		return refuse(c, KV_CONF_LOCAL_BUFFER_SIZE, err, size,
			      "local_buffer_size must be > 0");
	if (!standalone && c->global_segment_size == 0 && !is_own)
		return refuse(c, segment, err, size,
			      "embedded mode requires global_segment_size > 0");
	if (standalone && c->global_segment_size != 0 && !is_own)
		return refuse(c, segment, err, size,
			      "standalone-store mode requires "
			      "global_segment_size == 0");
	if (c->global_segment_size < 0)
		return refuse(c, segment, err, size,
			      "global_segment_size must not be negative");
	if (c->global_segment_size == INT64_MAX)
		return refuse(c, segment, err, size,
			      "global_segment_size is beyond all memory");
	if (c->local_buffer_size == INT64_MAX)
		return refuse(c, KV_CONF_LOCAL_BUFFER_SIZE, err, size,
			      "local_buffer_size is beyond all memory");
	if (c->client_ttl_ns < TTL_NS_MIN)
		return refuse(c, KV_CONF_CLIENT_TTL, err, size,
			      "client_ttl must be 100ms or more: nodes "
			      "send four heartbeats in that time");
	return 0;
}

void
kv_conf_show(const struct kv_conf *c, enum kv_conf_number number, char *buf,
	     size_t size)
{
	const struct kv_conf_key *key = kv_conf_key(number);

	key->type->show((const char *)c + key->offset, buf, size);
}

const char *
kv_conf_source_name(const struct kv_conf *c, enum kv_conf_number number)
{
	static const char *const names[] = {
		[KV_CONF_DEFAULT] = "default",
		[KV_CONF_FILE] = "file",
		[KV_CONF_OPTION] = "option",
	};

	assert(number < KV_CONF_KEYS);
	return names[c->source[number]];
}
