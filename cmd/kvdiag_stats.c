#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "base/str.h"
#include "cli/tool.h"
#include "cmd/kvdiag.h"

enum {
	STATS_BYTES_MIN = 16 << 10,
};

/* ---- stats ---- */

char *
kvdiag_read_stats(struct kv_client *c, const char *whose, int *status)
{
	size_t size = STATS_BYTES_MIN;
	char *buf = NULL, *more;
	long n;

	do {
		more = realloc(buf, size);
		n = more ? kv_client_stats(c, whose, more, size) : -KV_ENOMEM;
		buf = more ? more : buf;
		if (n < 0) {
			*status = (int)n;
			free(buf);
			return NULL;
		}
		/* There may be longer numbers in it the next time. */
	} while ((size_t)n >= size && (size = 2 * (size_t)n));
	return buf;
}

static void
print_counter(const struct kvdiag *d, const char *name, const char *text)
{
	uint64_t v;

	/* Names stay what they are for grep, also in the text face. */
	if (!d->common.json) {
		kv_out_begin(d->out, KV_OUT_ROW, NULL);
		kv_out_string(d->out, "counter", name);
		name = "value";
	}
	if (kv_str_u64(text, 0, UINT64_MAX, &v) == 0)
		kv_out_u64(d->out, name, v);
	else
		kv_out_string(d->out, name, text);
	if (!d->common.json)
		kv_out_end(d->out, KV_OUT_ROW);
}

static void
print_stats(const struct kvdiag *d, const char *whose, char *text)
{
	enum kv_out_kind kind = d->common.json ? KV_OUT_OBJECT : KV_OUT_TABLE;
	char *line, *value;

	kv_out_begin(d->out, kind, whose);
	while ((line = strsep(&text, "\n"))) {
		value = strrchr(line, ' ');
		if (!value)
			continue;
		*value++ = '\0';
		print_counter(d, line, value);
	}
	kv_out_end(d->out, kind);
}

/* Of one who did not answer, or whom nobody named. Returns the exit code. */
static int
stats_fail(const struct kvdiag *d, const char *whose, int status)
{
	bool is_local = strcmp(whose, "local") == 0;

	if (status == -KV_ENOTSUP)
		return kv_tool_say(
			EX_UNAVAILABLE, "stats: %s",
			is_local ? "no kvclient runs on this host, or --socket "
				   "keeps from it"
				 : "there is no master; --master HOST:PORT "
				   "names one");
	if (is_local && status == -KV_EUNREACHABLE)
		return kv_tool_say(EX_UNAVAILABLE,
				   "stats: the kvclient of this host does not "
				   "answer");
	return kvdiag_fail(d, status);
}

int
kvdiag_stats(struct kvdiag *d)
{
	static const char *const all[] = { "master", "local", "client" };
	int status = 0, code = 0;
	bool is_found = false;

	for (size_t i = 0; d->arg && i < KV_ARRAY_LEN(all); i++)
		is_found |= strcmp(d->arg, all[i]) == 0;
	if (d->arg && !is_found)
		return kv_tool_say(EX_USAGE,
				   "stats of '%s'? master, local or client",
				   d->arg);
	kv_out_begin(d->out, KV_OUT_OBJECT, NULL);
	for (size_t i = 0; i < KV_ARRAY_LEN(all); i++) {
		kv_auto_free char *text = NULL;

		/* Unasked, those that are there; this client did nothing. */
		if (d->arg ? strcmp(d->arg, all[i]) != 0
			   : strcmp(all[i], "client") == 0)
			continue;
		text = kvdiag_read_stats(d->client, all[i], &status);
		if (text)
			print_stats(d, all[i], text);
		else if (d->arg || status != -KV_ENOTSUP)
			code = kv_tool_worse(code,
					     stats_fail(d, all[i], status));
	}
	kv_out_end(d->out, KV_OUT_OBJECT);
	return code;
}

/* ---- config ---- */

/* As text what one would write in an option, in JSON what it is. */
static void
print_value(const struct kvdiag *d, enum kv_conf_number number)
{
	const struct kv_conf *conf = &d->common.conf;
	const struct kv_conf_key *key = kv_conf_key(number);
	const void *field = (const char *)conf + key->offset;
	const struct kv_conftype *type = d->common.json ? key->type : NULL;
	char text[KV_CONF_TEXT_SIZE];

	if (type == &kv_conftype_size) {
		kv_out_bytes(d->out, "value", *(const uint64_t *)field);
	} else if (type == &kv_conftype_time) {
		kv_out_duration(d->out, "value", *(const uint64_t *)field);
	} else if (type == &kv_conftype_port) {
		kv_out_u64(d->out, "value", *(const uint16_t *)field);
	} else if (type == &kv_conftype_bool || type == &kv_conftype_truth) {
		kv_out_bool(d->out, "value", *(const bool *)field);
	} else {
		kv_conf_show(conf, number, text, sizeof(text));
		if (number == KV_CONF_SOCKET && !*text &&
		    kv_opts_socket(&d->common, text, sizeof(text)) < 0)
			*text = '\0';
		kv_out_string(d->out, "value", *text ? text : NULL);
	}
}

int
kvdiag_config(struct kvdiag *d)
{
	const struct kv_conf *conf = &d->common.conf;

	kv_out_begin(d->out, KV_OUT_TABLE, NULL);
	for (unsigned i = 0; i < KV_CONF_KEYS; i++) {
		kv_out_begin(d->out, KV_OUT_ROW, NULL);
		kv_out_string(d->out, "name", kv_conf_key(i)->name);
		print_value(d, i);
		kv_out_string(d->out, "source", kv_conf_source_name(conf, i));
		kv_out_end(d->out, KV_OUT_ROW);
	}
	kv_out_end(d->out, KV_OUT_TABLE);
	return 0;
}
