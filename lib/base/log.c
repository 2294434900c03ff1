#include "base/log.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <syslog.h>
#include <time.h>
#include <unistd.h>

#include "base/limits.h"
#include "base/num.h"

enum {
	HEAD_BYTES_MAX = 128, /* time, level, ident, thread */
	MSG_BYTES_MAX = KV_LOG_LINE_BYTES_MAX - HEAD_BYTES_MAX,
	IDENT_BYTES_MAX = 31,
	THREAD_BYTES_MAX = 15,
	SUFFIX_BYTES_MAX = 48,
};

static void write_stderr(void *arg, enum kv_log_level level, const char *msg);

static atomic_int threshold = KV_LOG_WARN; /* programs say otherwise */
static char log_ident[IDENT_BYTES_MAX + 1];
static kv_log_fn *sink = write_stderr;
static void *sink_arg;
static __thread char thread_name[THREAD_BYTES_MAX + 1];

static const struct {
	const char *name;
	int syslog;
} levels[] = {
	[KV_LOG_ERR] = { "err", LOG_ERR },
	[KV_LOG_WARN] = { "warn", LOG_WARNING },
	[KV_LOG_INFO] = { "info", LOG_INFO },
	[KV_LOG_DEBUG] = { "debug", LOG_DEBUG },
};

/* Copies what can stand in the head of a line: no blank, no control. */
static void
copy_name(char *dst, size_t n, const char *src)
{
	size_t i;

	for (i = 0; i + 1 < n && src[i]; i++)
		dst[i] = src[i] > ' ' && src[i] < 0x7f ? src[i] : '?';
	dst[i] = '\0';
}

void
kv_log_set_level(enum kv_log_level level)
{
	atomic_store_explicit(&threshold, (int)level, memory_order_relaxed);
}

bool
kv_log_is_on(enum kv_log_level level)
{
	return (int)level <=
	       atomic_load_explicit(&threshold, memory_order_relaxed);
}

const char *
kv_log_level_name(enum kv_log_level level)
{
	return levels[level].name;
}

void
kv_log_set_thread(const char *name)
{
	copy_name(thread_name, sizeof(thread_name), name);
}

void
kv_log_set_ident(const char *ident)
{
	copy_name(log_ident, sizeof(log_ident), ident);
}

void
kv_log_set_sink(kv_log_fn *fn, void *arg)
{
	sink = fn ? fn : write_stderr;
	sink_arg = fn ? arg : NULL;
}

static void
write_syslog(void *arg, enum kv_log_level level, const char *msg)
{
	(void)arg;
	syslog(levels[level].syslog, "%s", msg);
}

void
kv_log_to_syslog(void)
{
	openlog(log_ident[0] ? log_ident : NULL, LOG_PID, LOG_DAEMON);
	kv_log_set_sink(write_syslog, NULL);
}

/* An engine's disposition of SIGPIPE is not ours to change: block it here. */
static void
write_no_sigpipe(int fd, const void *p, size_t n)
{
	static const struct timespec at_once;
	sigset_t pipe_set, before, pending;
	ssize_t rc;

	sigemptyset(&pipe_set);
	sigaddset(&pipe_set, SIGPIPE);
	sigpending(&pending);
	pthread_sigmask(SIG_BLOCK, &pipe_set, &before);
	do
		rc = write(fd, p, n);
	while (rc < 0 && errno == EINTR);
	if (rc < 0 && errno == EPIPE && !sigismember(&pending, SIGPIPE))
		while (sigtimedwait(&pipe_set, NULL, &at_once) < 0 &&
		       errno == EINTR)
			;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static size_t
build_head(char *dst, size_t n, enum kv_log_level level)
{
	const char *name =
		log_ident[0] ? log_ident : program_invocation_short_name;
	struct timespec ts;
	struct tm tm;
	size_t len;

	clock_gettime(CLOCK_REALTIME, &ts);
	gmtime_r(&ts.tv_sec, &tm);
	if (!thread_name[0])
		snprintf(thread_name, sizeof(thread_name), "%d", gettid());
	len = strftime(dst, n, "%Y-%m-%dT%H:%M:%S", &tm);
	len += (size_t)snprintf(dst + len, n - len,
				".%03ldZ %s %.*s[%s]: ", ts.tv_nsec / 1000000,
				levels[level].name, IDENT_BYTES_MAX, name,
				thread_name);
	return kv_min_size(len, n - 1);
}

static void
write_stderr(void *arg, enum kv_log_level level, const char *msg)
{
	char line[KV_LOG_LINE_BYTES_MAX];
	size_t len = build_head(line, HEAD_BYTES_MAX, level);
	size_t n = kv_min_size(strlen(msg), sizeof(line) - len - 1);

	(void)arg;
	memcpy(line + len, msg, n);
	len += n;
	line[len++] = '\n';
	write_no_sigpipe(STDERR_FILENO, line, len);
}

/* Controls and all above ASCII become \xNN; "..." at the end: was cut. */
static size_t
escape(char *dst, size_t n, const char *src)
{
	static const char hex[] = "0123456789abcdef";
	static const char cut[] = "...";
	size_t len = 0;

	for (; *src; src++) {
		unsigned char c = (unsigned char)*src;

		if (len + 4 + sizeof(cut) > n) {
			memcpy(dst + len, cut, sizeof(cut));
			return len + strlen(cut);
		}
		if (c >= 0x20 && c < 0x7f) {
			dst[len++] = (char)c;
			continue;
		}
		dst[len++] = '\\';
		dst[len++] = 'x';
		dst[len++] = hex[c >> 4];
		dst[len++] = hex[c & 15];
	}
	dst[len] = '\0';
	return len;
}

KV_PRINTF(3, 0)
static void
log_va(enum kv_log_level level, const char *suffix, const char *fmt, va_list ap)
{
	int saved_errno = errno;
	char raw[MSG_BYTES_MAX], msg[MSG_BYTES_MAX];
	size_t len;
	int n = vsnprintf(raw, sizeof(raw), fmt, ap);

	len = n < 0 ? 0 : kv_min_size((size_t)n, sizeof(raw) - 1);
	raw[len] = '\0';
	len = escape(msg, sizeof(msg) - SUFFIX_BYTES_MAX, raw);
	memcpy(msg + len, suffix, strlen(suffix) + 1);
	sink(sink_arg, level, msg);
	errno = saved_errno;
}

void
kv_log(enum kv_log_level level, const char *fmt, ...)
{
	va_list ap;

	if (!kv_log_is_on(level))
		return;
	va_start(ap, fmt);
	log_va(level, "", fmt, ap);
	va_end(ap);
}

void
kv_log_limited(struct kv_log_limit *l, uint64_t now_ns, enum kv_log_level level,
	       const char *fmt, ...)
{
	char suffix[SUFFIX_BYTES_MAX] = "";
	va_list ap;

	if (!kv_log_is_on(level))
		return;
	if (now_ns < l->next_ns) {
		l->held++;
		return;
	}
	if (l->held > 0)
		snprintf(suffix, sizeof(suffix), " (repeated %ju time%s)",
			 (uintmax_t)l->held, l->held == 1 ? "" : "s");
	va_start(ap, fmt);
	log_va(level, suffix, fmt, ap);
	va_end(ap);
	l->held = 0;
	l->next_ns = now_ns + KV_LOG_REPEAT_NS;
	l->failing = true;
}

void
kv_log_recovered(struct kv_log_limit *l, enum kv_log_level level,
		 const char *fmt, ...)
{
	char suffix[SUFFIX_BYTES_MAX] = "";
	va_list ap;

	if (!l->failing)
		return;
	l->failing = false;
	if (!kv_log_is_on(level))
		return;
	if (l->held > 0)
		snprintf(suffix, sizeof(suffix), " (after %ju more failure%s)",
			 (uintmax_t)l->held, l->held == 1 ? "" : "s");
	va_start(ap, fmt);
	log_va(level, suffix, fmt, ap);
	va_end(ap);
	l->held = 0;
}
