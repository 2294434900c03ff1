#include "cli/opts.h"

#include <argp.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/hostname.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/sockpath.h"
#include "base/str.h"
#include "cli/mooncake.h"
#include "kvpool.h"

enum {
	OPT_TIMEOUT = 0x1000,
	OPT_JSON,
	OPT_CONFIG,
	OPT_VERBOSE,
	OPT_KEY, /* the first key of the configuration; the others follow */
	OPTIONS_MAX = KV_CONF_KEYS + 5,
	DOC_SIZE = 128,
	HOST_BYTES_MAX = 253,
	AROUND_HOST_BYTES = 8, /* "[]:65535" */
};

/* What the parsers share while kv_opts_parse runs. */
struct run {
	struct kv_opts *opts;
	const struct kv_opts_program *program;
	int letters[128]; /* what the letter of a key stands for, 0: none */
	char docs[KV_CONF_KEYS][DOC_SIZE]; /* with the defaults */
	unsigned verbose;
};

static bool
is_tool(const struct run *r)
{
	return r->program->who & KV_CONF_TOOL;
}

static void
keep_std_fds(void)
{
	/* Closed stays closed for whoever reads or writes: EBADF. */
	static const int flags[] = { O_WRONLY, O_RDONLY, O_RDONLY };

	for (int fd = 0; fd < 3; fd++)
		if (fcntl(fd, F_GETFD) < 0 &&
		    open("/dev/null", flags[fd]) != fd)
			exit(EX_OSERR);
}

static bool is_parsing; /* argp may exit, after it wrote to stdout */

static void
check_stdout(void)
{
	if (!is_parsing)
		return;
	errno = 0;
	if (fflush(stdout) == 0 && !ferror(stdout))
		return;
	if (errno != EPIPE)
		fprintf(stderr, "%s: stdout: %m\n",
			program_invocation_short_name);
	_exit(EX_IOERR);
}

static void
print_version(FILE *stream, struct argp_state *state)
{
	fprintf(stream, "%s (kvpool) %s\n", state->name, KVPOOL_VERSION);
}

KV_PRINTF(2, 3)
static void
usage_error(const struct argp_state *state, const char *fmt, ...)
{
	char text[2 * KV_CONF_TEXT_SIZE];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	argp_failure(state, EX_USAGE, 0, "%s", text);
}

uint64_t
kv_opts_number(const struct argp_state *state, const char *option,
	       const char *arg, uint64_t min, uint64_t max)
{
	uint64_t v = 0;

	if (kv_str_u64(arg, min, max, &v) < 0)
		usage_error(state,
			    "%s: '%s' is no number from %" PRIu64
			    " to %" PRIu64,
			    option, arg, min, max);
	return v;
}

uint64_t
kv_opts_size(const struct argp_state *state, const char *option,
	     const char *arg, uint64_t min, uint64_t max)
{
	char low[16], high[16];
	uint64_t v = 0;
	int rc = kv_str_size(arg, &v);

	if (rc == -EINVAL)
		usage_error(state, "%s: '%s' is no size such as 512MB or 1.5GB",
			    option, arg);
	else if (rc < 0 || v < min || v > max)
		usage_error(state, "%s: '%s' is not from %s to %s", option, arg,
			    kv_str_size_format(low, sizeof(low), min),
			    kv_str_size_format(high, sizeof(high), max));
	return v;
}

uint64_t
kv_opts_time(const struct argp_state *state, const char *option,
	     const char *arg, uint64_t min_ns, uint64_t max_ns)
{
	uint64_t v = 0;
	int rc = kv_str_duration(arg, &v);

	if (rc == -EINVAL)
		usage_error(state,
			    "%s: '%s' is no duration such as 10s or 500ms",
			    option, arg);
	else if (rc < 0 || v < min_ns || v > max_ns)
		usage_error(state, "%s: '%s' is too %s", option, arg,
			    rc < 0 || v > max_ns ? "long" : "short");
	return v;
}

static int
refuse_addr(const char *addr, size_t n, const char *why, char *err, size_t size)
{
	snprintf(err, size, "'%.*s': %s", (int)n, addr, why);
	return -EINVAL;
}

static int
check_addr(const char *addr, size_t n, char *err, size_t size)
{
	char text[HOST_BYTES_MAX + 16], *host = text, *port, *close;
	const char *fault = NULL;
	struct in6_addr in6;
	uint64_t number;

	if (n >= sizeof(text))
		return refuse_addr(addr, 32, "too long", err, size);
	memcpy(text, addr, n);
	text[n] = '\0';
	port = strchr(text, ':');
	if (text[0] == '[') {
		host = text + 1;
		close = strchr(host, ']');
		if (!close || (close[1] && close[1] != ':'))
			return refuse_addr(addr, n, "expected [IPV6]:PORT", err,
					   size);
		port = close[1] ? close + 1 : NULL;
		*close = '\0';
		if (!kv_hostname_ipv6(host, &in6))
			fault = "in brackets stands an IPv6 address";
	} else if (port && strchr(port + 1, ':')) {
		return refuse_addr(addr, n,
				   "an IPv6 address stands in brackets, as in "
				   "[::1]:50051",
				   err, size);
	}
	if (port)
		*port++ = '\0';
	if (host == text)
		fault = strlen(host) > HOST_BYTES_MAX ? "too long"
						      : kv_hostname_fault(host);
	if (fault)
		return refuse_addr(addr, n, fault, err, size);
	if (port && kv_str_u64(port, 1, UINT16_MAX, &number) < 0)
		return refuse_addr(addr, n, "the port is not from 1 to 65535",
				   err, size);
	return 0;
}

int
kv_opts_check_masters(const char *list, char *err, size_t size)
{
	unsigned count = 0;
	size_t n;
	int rc;

	do {
		if (count++ == KV_MASTERS_MAX) {
			snprintf(err, size, "more than %d addresses",
				 KV_MASTERS_MAX);
			return -EINVAL;
		}
		n = strcspn(list, ",");
		rc = check_addr(list, n, err, size);
		if (rc < 0)
			return rc;
		list += n;
	} while (*list++);
	return 0;
}

int
kv_opts_check_host(const char *host, char *err, size_t size)
{
	const char *rest = *host == '[' ? strchr(host, ']') : host;
	size_t n = strlen(host);
	struct in6_addr in6;

	if (n > KV_NAME_BYTES_MAX - AROUND_HOST_BYTES)
		return refuse_addr(host, 32, "too long", err, size);
	if (kv_hostname_ipv6(host, &in6))
		return 0;
	if (rest && strchr(rest, ':'))
		return refuse_addr(host, n, "the port is --port", err, size);
	return check_addr(host, n, err, size);
}

/* What the configuration itself does not know of its texts. */
static int
check_key(enum kv_conf_number number, const char *text, char *err, size_t size)
{
	if (number == KV_CONF_MASTER_SERVER_ADDRESS)
		return kv_opts_check_masters(text, err, size);
	if (number == KV_CONF_HOST && *text)
		return kv_opts_check_host(text, err, size);
	return 0;
}

static void
set_key(const struct run *r, enum kv_conf_number number, const char *arg,
	const struct argp_state *state)
{
	char err[2 * KV_CONF_TEXT_SIZE];

	if (check_key(number, arg, err, sizeof(err)) < 0)
		usage_error(state, "--%s: %s", kv_conf_key(number)->option,
			    err);
	if (number == KV_CONF_SOCKET && strlen(arg) > KV_SOCKPATH_BYTES_MAX)
		usage_error(state, "--socket: longer than %d bytes",
			    KV_SOCKPATH_BYTES_MAX);
	if (kv_conf_set(&r->opts->conf, number, arg, err, sizeof(err)) < 0)
		usage_error(state, "%s", err);
}

static error_t
parse_common(int key, char *arg, struct argp_state *state)
{
	struct run *r = state->input;
	uint64_t ns;

	if (key > 0 && key < (int)KV_ARRAY_LEN(r->letters) && r->letters[key])
		key = r->letters[key];
	if (key >= OPT_KEY && key < OPT_KEY + KV_CONF_KEYS) {
		set_key(r, key - OPT_KEY, arg, state);
		return 0;
	}
	switch (key) {
	case OPT_TIMEOUT:
		ns = kv_opts_time(state, "--timeout", arg, KV_NS_PER_MS,
				  UINT32_MAX * KV_NS_PER_MS);
		r->opts->timeout_ms = (uint32_t)(ns / KV_NS_PER_MS);
		return 0;
	case OPT_JSON:
		r->opts->json = true;
		return 0;
	case OPT_CONFIG:
		r->opts->config = arg;
		return 0;
	case 'v':
		r->verbose++;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

/* Hands each child its input; the program's own is the first. */
static error_t
parse_top(int key, char *arg, struct argp_state *state)
{
	struct run *r = state->input;

	(void)arg;
	if (key != ARGP_KEY_INIT)
		return ARGP_ERR_UNKNOWN;
	state->child_inputs[0] = r->program->input;
	state->child_inputs[1] = r;
	return 0;
}

static const char *
describe(struct run *r, unsigned i)
{
	const struct kv_conf_key *key = kv_conf_key(i);

	snprintf(r->docs[i], sizeof(r->docs[i]),
		 *key->preset ? "%s (%s)" : "%s", key->help, key->preset);
	return r->docs[i];
}

/* Fills OPTIONS, of OPTIONS_MAX, and the letters of the keys. */
static void
list_options(struct run *r, struct argp_option *options)
{
	const struct argp_option verbose = {
		.name = "verbose",
		.key = 'v',
		.doc = "say more about what is done; may be repeated",
	};
	const struct argp_option tool[] = {
		{ .name = "timeout",
		  .key = OPT_TIMEOUT,
		  .arg = "TIME",
		  .doc = "give up after so long (10s)" },
		{ .name = "json",
		  .key = OPT_JSON,
		  .doc = "write JSON instead of text" },
	};
	const struct argp_option config = {
		.name = "config",
		.key = OPT_CONFIG,
		.arg = "FILE",
		.doc = "mooncake_config.json instead of $MOONCAKE_CONFIG_PATH",
	};
	size_t n = 0;

	for (unsigned i = 0; i < KV_CONF_KEYS; i++) {
		const struct kv_conf_key *key = kv_conf_key(i);

		if (!(key->who & r->program->who))
			continue;
		if (key->letter)
			r->letters[(unsigned char)key->letter] =
				OPT_KEY + (int)i;
		options[n++] = (struct argp_option){
			.name = key->option,
			.key = key->letter ? key->letter : OPT_KEY + (int)i,
			.arg = key->arg,
			.flags = key->type->is_flag ? OPTION_ARG_OPTIONAL : 0,
			.doc = describe(r, i),
		};
	}
	options[n++] = verbose;
	if (is_tool(r)) {
		options[n++] = tool[0];
		options[n++] = tool[1];
	} else {
		options[n++] = config;
	}
	options[n] = (struct argp_option){ 0 };
}

/*
 * A daemon that was started by the name of Mooncake's program: puts our
 * spelling of its command line in the place of that. Ends the program as
 * kv_opts_parse() does.
 */
static void
translate(enum kv_conf_who who, struct kv_mooncake *m, int *argc, char ***argv)
{
	const char *name = program_invocation_short_name;
	char err[2 * KV_CONF_TEXT_SIZE];
	int code;

	code = kv_mooncake_translate(who, *argc, *argv, m, err, sizeof(err));
	if (code) {
		fprintf(stderr, "%s: %s\n", name, err);
		exit(code);
	}
	if (m->is_help) {
		kv_mooncake_help(who, name, stdout);
		exit(0);
	}
	*argc = m->argc;
	*argv = m->argv;
}

void
kv_opts_parse(struct kv_opts *o, const struct kv_opts_program *program,
	      int argc, char **argv)
{
	struct run r = { .opts = o, .program = program };
	struct argp_option options[OPTIONS_MAX];
	struct argp common = { .options = options, .parser = parse_common };
	struct argp own = *program->argp;
	const struct argp_child children[] = {
		{ .argp = &own },
		{ .argp = &common, .header = "Common options:", .group = 1 },
		{ 0 },
	};
	const struct argp top = {
		.parser = parse_top,
		.args_doc = own.args_doc,
		.doc = own.doc,
		.children = children,
	};
	/* The program keeps words of its command line. */
	static struct kv_mooncake mooncake;
	unsigned level;

	keep_std_fds();
	(void)signal(SIGXFSZ, SIG_IGN); /* EFBIG says it in words */
	memset(o, 0, sizeof(*o));
	kv_conf_init(&o->conf);
	list_options(&r, options);
	own.args_doc = NULL;
	own.doc = NULL;
	argp_program_version_hook = print_version;
	is_parsing = true;
	if (atexit(check_stdout) != 0)
		exit(EX_OSERR);
	if (argc > 0 && kv_mooncake_is_name(argv[0], program->who)) {
		translate(program->who, &mooncake, &argc, &argv);
		o->is_mooncake = true;
	}
	/* It exits by itself on every error but that of memory. */
	if (argp_parse(&top, argc, argv, 0, NULL, &r) != 0)
		exit(EX_OSERR);
	is_parsing = false;
	level = r.verbose + (is_tool(&r) ? KV_LOG_WARN : KV_LOG_INFO);
	kv_log_set_level(level < KV_LOG_DEBUG ? level : KV_LOG_DEBUG);
	for (size_t i = 0; i < mooncake.notes_n; i++)
		kv_log(mooncake.notes[i].level, "%s", mooncake.notes[i].text);
}

static void
complain(void *arg, const char *text)
{
	fprintf(stderr, "%s: %s\n", (const char *)arg, text);
}

static int
check_file(struct kv_conf *c, enum kv_conf_number number, const char *text)
{
	char err[2 * KV_CONF_TEXT_SIZE], why[KV_CONF_TEXT_SIZE];
	int rc;

	if (c->source[number] != KV_CONF_FILE)
		return 0;
	rc = check_key(number, text, why, sizeof(why));
	if (rc == 0)
		return 0;
	snprintf(err, sizeof(err), "%s: %s: %s", c->file,
		 kv_conf_key(number)->name, why);
	c->warn(c->warn_arg, err);
	return rc;
}

int
kv_opts_load(struct kv_opts *o)
{
	const char *path = o->config;
	char err[2 * KV_CONF_TEXT_SIZE];
	struct kv_conf *c = &o->conf;

	if (!path && !o->is_mooncake)
		path = kv_conf_env_path();
	c->warn = complain;
	c->warn_arg = program_invocation_short_name;
	if ((path && kv_conf_load(path, c, err, sizeof(err)) < 0) ||
	    kv_conf_check(c, err, sizeof(err)) < 0) {
		complain(c->warn_arg, err);
		return strncmp(err, "--", 2) == 0 ? EX_USAGE : EX_CONFIG;
	}
	if (check_file(c, KV_CONF_HOST, c->host) < 0 ||
	    (*c->master_server_address &&
	     check_file(c, KV_CONF_MASTER_SERVER_ADDRESS,
			c->master_server_address) < 0))
		return EX_CONFIG;
	return 0;
}

int
kv_opts_socket(const struct kv_opts *o, char *buf, size_t n)
{
	size_t len = strlen(o->conf.socket);

	if (!len && o->conf.source[KV_CONF_SOCKET] != KV_CONF_OPTION)
		return kv_sockpath_default(buf, n);
	if (len > KV_SOCKPATH_BYTES_MAX || len >= n)
		return -ENAMETOOLONG;
	memcpy(buf, o->conf.socket, len + 1);
	return (int)len;
}

unsigned
kv_opts_qps(const struct kv_opts *o)
{
	return o->conf.source[KV_CONF_QPS] == KV_CONF_DEFAULT ? 0 : o->conf.qps;
}

uint64_t
kv_opts_slice_bytes(const struct kv_opts *o)
{
	return o->conf.source[KV_CONF_SLICE_SIZE] == KV_CONF_DEFAULT
		       ? 0
		       : (uint64_t)o->conf.slice_size;
}

enum kv_protocol
kv_opts_protocol(const struct kv_opts *o)
{
	const struct kv_conf *c = &o->conf;

	if (strcmp(c->protocol, "tcp") == 0)
		return KV_PROTOCOL_TCP;
	if (strcmp(c->protocol, "rdma") == 0)
		return c->source[KV_CONF_PROTOCOL] == KV_CONF_OPTION &&
				       !o->is_mooncake
			       ? KV_PROTOCOL_RDMA
			       : KV_PROTOCOL_RDMA_OR_TCP;
	if (strcmp(c->protocol, "auto") != 0)
		kv_warn("%s: protocol: '%s' is not known here and taken for "
			"auto",
			c->file ? c->file : "", c->protocol);
	return KV_PROTOCOL_AUTO;
}

int
kv_opts_exit_code(int err)
{
	switch (err) {
	case EINVAL:
	case ERANGE:
	case ENAMETOOLONG:
	case ENOENT:
		return EX_USAGE;
	case ENOMEM:
	case ENOSPC:
	case EMFILE:
	case ENFILE:
	case EAGAIN:
		return EX_OSERR;
	case EACCES:
	case EPERM:
		return EX_NOPERM;
	default:
		return EX_UNAVAILABLE;
	}
}
