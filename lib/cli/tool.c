#include "cli/tool.h"

#include <argp.h>
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sysexits.h>

#include "base/log.h"
#include "base/num.h"
#include "base/status.h"
#include "base/str.h"
#include "cli/opts.h"
#include "cli/out.h"

enum {
	TIMEOUT_MS = 10000,
	BYTES_PER_MS = (32 << 20) / 1000,
};

static void
tell(void *arg, enum kv_log_level level, const char *msg)
{
	(void)arg;
	(void)level;
	fprintf(stderr, "%s: %s\n", program_invocation_short_name, msg);
}

void
kv_tool_client_opts(const struct kv_opts *o, struct kv_client_opts *out)
{
	const struct kv_conf *c = &o->conf;
	bool is_named =
		*c->socket || c->source[KV_CONF_SOCKET] == KV_CONF_OPTION;

	kv_log_set_sink(tell, NULL);
	*out = (struct kv_client_opts){
		.size = sizeof(*out),
		.master = *c->master_server_address ? c->master_server_address
						    : NULL,
		.socket = is_named ? c->socket : NULL,
		.tenant = c->tenant_id,
		.name = program_invocation_short_name,
		.timeout_ms = o->timeout_ms,
		.protocol = kv_opts_protocol(o),
		.devices = c->device_name,
		.qps = kv_opts_qps(o),
		.slice_bytes = kv_opts_slice_bytes(o),
	};
}

int
kv_tool_connect(const struct kv_opts *o, struct kv_client **out)
{
	struct kv_client_opts opts;
	char err[512];
	int status;

	kv_tool_client_opts(o, &opts);
	opts.status = &status;
	*out = kv_client_open(&opts, err, sizeof(err));
	if (*out)
		return 0;
	return kv_tool_say(kv_status_exit(status), "%s", err);
}

int
kv_tool_main(struct kv_opts *o, const struct kv_opts_program *program, int argc,
	     char **argv, int (*run)(void *input, struct kv_client *c))
{
	struct kv_client *c;
	int code;

	kv_opts_parse(o, program, argc, argv);
	code = kv_opts_load(o);
	if (code)
		return code;
	code = kv_tool_connect(o, &c);
	if (code)
		return code;
	code = run(program->input, c);
	kv_client_close(c);
	return code;
}

uint32_t
kv_tool_timeout_ms(const struct kv_opts *o, uint64_t bytes)
{
	if (o->timeout_ms)
		return o->timeout_ms;
	return (uint32_t)kv_min_u64(TIMEOUT_MS + bytes / BYTES_PER_MS,
				    UINT32_MAX);
}

int
kv_tool_say(int code, const char *fmt, ...)
{
	char text[2 * KV_TOOL_KEY_SIZE], *p;
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	/* A path may hold what would break the line. */
	for (p = text; *p; p++)
		if (iscntrl((unsigned char)*p))
			*p = '?';
	fprintf(stderr, "%s: %s\n", program_invocation_short_name, text);
	return code;
}

const char *
kv_tool_hint(int status)
{
	switch (status < 0 ? -status : status) {
	case KV_ENOSPACE:
	case KV_ENOROOM:
		return "; `kvdiag pools` shows what is free or pinned";
	case KV_ETOOBIG:
		return "; `kvdiag pools` shows how large they are";
	case KV_ETIMEOUT:
		return "; --timeout gives it longer";
	case KV_EUNREACHABLE:
	case KV_ECONNLOST:
		return "; `kvdiag nodes` shows who is there";
	case KV_EBUSY:
	case KV_EGONE:
		return "; try again";
	default:
		return "";
	}
}

int
kv_tool_fail(int status)
{
	return kv_tool_say(kv_status_exit(status), "%s%s",
			   kv_status_text(status), kv_tool_hint(status));
}

int
kv_tool_fail_key(const struct kv_key *key, int status, uint64_t bytes)
{
	char buf[KV_TOOL_KEY_SIZE], size[16], wanted[32] = "";

	if (bytes)
		snprintf(wanted, sizeof(wanted), ", %s wanted",
			 kv_str_size_format(size, sizeof(size), bytes));
	return kv_tool_say(kv_status_exit(status), "%s: %s%s%s",
			   kv_tool_key(buf, key), kv_status_text(status),
			   wanted, kv_tool_hint(status));
}

int
kv_tool_undecided(uint64_t objects)
{
	if (!objects)
		return 0;
	return kv_tool_say(EX_TEMPFAIL,
			   "%" PRIu64 " object%s skipped: the pattern takes "
			   "too much work on %s",
			   objects, kv_tool_plural(objects),
			   objects == 1 ? "its key" : "their keys");
}

const char *
kv_tool_key(char buf[KV_TOOL_KEY_SIZE], const struct kv_key *key)
{
	kv_str_escape(buf, KV_TOOL_KEY_SIZE, key->data, key->len);
	return buf;
}

const char *
kv_tool_plural(uint64_t n)
{
	return n == 1 ? "" : "s";
}

const char *
kv_tool_word(char buf[KV_TOOL_WORD_SIZE], int status)
{
	const char *name = kv_status_name(status);
	size_t i;

	if (status != KV_OK)
		name++; /* the E */
	for (i = 0; i < KV_TOOL_WORD_SIZE - 1 && name[i]; i++)
		buf[i] = (char)tolower((unsigned char)name[i]);
	buf[i] = '\0';
	return buf;
}

struct kv_key
kv_tool_key_arg(const struct argp_state *state, const char *arg)
{
	struct kv_key key = { .data = arg, .len = strlen(arg) };

	if (key.len < KV_KEY_BYTES_MIN)
		argp_failure(state, EX_USAGE, 0, "the key is empty");
	if (key.len > KV_KEY_BYTES_MAX)
		argp_failure(state, EX_USAGE, 0,
			     "the key has %zu bytes, more than %d", key.len,
			     KV_KEY_BYTES_MAX);
	return key;
}

int
kv_tool_worse(int a, int b)
{
	if (a > 1 || b == 0)
		return a;
	return b > 1 || a == 0 ? b : a;
}

int
kv_tool_end(struct kv_out *o, int code)
{
	int rc;

	if (o)
		rc = kv_out_finish(o);
	else
		rc = fflush(stdout) == 0 ? 0 : -errno;
	if (rc == 0)
		return code;
	if (rc != -EPIPE) {
		errno = -rc;
		kv_tool_say(EX_IOERR, "stdout: %m");
	}
	return kv_tool_worse(code, EX_IOERR);
}
