#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <regex.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <syslog.h>

#include "base/clock.h"
#include "base/limits.h"

#include "test.h"

struct caught {
	int lines;
	enum kv_log_level level;
	char last[KV_LOG_LINE_BYTES_MAX];
};

static struct caught caught;

static void catch (void *arg, enum kv_log_level level, const char *msg)
{
	struct caught *c = arg;

	c->lines++;
	c->level = level;
	snprintf(c->last, sizeof(c->last), "%s", msg);
	errno = EXDEV;
}

static int
set_up(void **state)
{
	(void)state;
	memset(&caught, 0, sizeof(caught));
	kv_log_set_level(KV_LOG_INFO);
	kv_log_set_sink(catch, &caught);
	return 0;
}

static void
levels_above_the_threshold_pass(void **state)
{
	int evaluated = 0;

	(void)state;
	kv_debug("no %d", ++evaluated);
	assert_int_equal(evaluated, 0);
	kv_log(KV_LOG_DEBUG, "no");
	assert_int_equal(caught.lines, 0);
	kv_info("i=%d", 1);
	assert_int_equal(caught.level, KV_LOG_INFO);
	assert_string_equal(caught.last, "i=1");
	kv_warn("w");
	assert_int_equal(caught.level, KV_LOG_WARN);
	kv_log_set_level(KV_LOG_ERR);
	kv_warn("no");
	assert_string_equal(caught.last, "w");
	kv_err("e");
	assert_int_equal(caught.level, KV_LOG_ERR);
	kv_log_set_level(KV_LOG_DEBUG);
	kv_debug("d");
	assert_string_equal(caught.last, "d");
	assert_int_equal(caught.lines, 4);
	assert_string_equal(kv_log_level_name(KV_LOG_WARN), "warn");
}

static void
errno_is_kept_and_printed(void **state)
{
	(void)state;
	errno = ENOENT;
	kv_err("open: %m");
	assert_int_equal(errno, ENOENT);
	assert_string_equal(caught.last, "open: No such file or directory");
}

static void
what_does_not_print_is_escaped(void **state)
{
	(void)state;
	kv_info("a\nb\tc\x1b[1m \xc3\xa4 \\ \"q\" \x7f%s", "\r\n2026 forged");
	assert_string_equal(caught.last,
			    "a\\x0ab\\x09c\\x1b[1m \\xc3\\xa4 \\ \"q\" "
			    "\\x7f\\x0d\\x0a2026 forged");
}

static void
long_messages_are_cut_and_say_so(void **state)
{
	static char text[3 * KV_LOG_LINE_BYTES_MAX];
	size_t len;

	(void)state;
	memset(text, 'x', sizeof(text) - 1);
	kv_info("%s", text);
	len = strlen(caught.last);
	assert_in_range(len, 3000, KV_LOG_LINE_BYTES_MAX - 1);
	assert_string_equal(caught.last + len - 4, "x...");
	memset(text, '\n', sizeof(text) - 1);
	kv_info("%s", text);
	len = strlen(caught.last);
	assert_in_range(len, 3000, KV_LOG_LINE_BYTES_MAX - 1);
	assert_string_equal(caught.last + len - 7, "\\x0a...");
	memset(text, 'y', 3000);
	text[3000] = '\0';
	kv_info("%s", text);
	assert_string_equal(caught.last, text);
}

static void
peer_fails(struct kv_log_limit *l, uint64_t ms)
{
	kv_log_limited(l, ms * KV_NS_PER_MS, KV_LOG_WARN, "peer down errno=%d",
		       5);
}

static void
repeats_are_counted(void **state)
{
	struct kv_log_limit l = { 0 };
	uint64_t ms;

	(void)state;
	peer_fails(&l, 0);
	assert_string_equal(caught.last, "peer down errno=5");
	for (ms = 1; ms < 10000; ms++)
		peer_fails(&l, ms);
	assert_int_equal(caught.lines, 1);
	peer_fails(&l, 10000);
	assert_int_equal(caught.lines, 2);
	assert_string_equal(caught.last,
			    "peer down errno=5 (repeated 9999 times)");
	peer_fails(&l, 10001);
	peer_fails(&l, 60000);
	assert_string_equal(caught.last, "peer down errno=5 (repeated 1 time)");
	peer_fails(&l, 120000);
	assert_string_equal(caught.last, "peer down errno=5");
}

/* case-022: under 100 lines a minute, whatever the rate. */
static void
a_minute_of_failures_is_few_lines(void **state)
{
	struct kv_log_limit l = { 0 };
	uint64_t i;

	(void)state;
	for (i = 0; i < 600000; i++)
		peer_fails(&l, i / 10);
	assert_int_equal(caught.lines, 6);
}

static void
recovery_is_told_once(void **state)
{
	struct kv_log_limit l = { 0 };

	(void)state;
	kv_log_recovered(&l, KV_LOG_INFO, "peer back");
	assert_int_equal(caught.lines, 0);
	peer_fails(&l, 0);
	peer_fails(&l, 1);
	peer_fails(&l, 2);
	kv_log_recovered(&l, KV_LOG_INFO, "peer back");
	assert_int_equal(caught.level, KV_LOG_INFO);
	assert_string_equal(caught.last, "peer back (after 2 more failures)");
	kv_log_recovered(&l, KV_LOG_INFO, "peer back");
	assert_int_equal(caught.lines, 2);
}

static void
flapping_is_limited_too(void **state)
{
	struct kv_log_limit l = { 0 };
	uint64_t ms;

	(void)state;
	for (ms = 0; ms < 60000; ms++) {
		peer_fails(&l, ms);
		kv_log_recovered(&l, KV_LOG_INFO, "peer back");
	}
	assert_int_equal(caught.lines, 12);
}

static void
a_hidden_level_is_not_counted(void **state)
{
	struct kv_log_limit l = { 0 };

	(void)state;
	kv_log_set_level(KV_LOG_ERR);
	peer_fails(&l, 0);
	kv_log_set_level(KV_LOG_INFO);
	peer_fails(&l, 1);
	assert_string_equal(caught.last, "peer down errno=5");
}

/* Runs body in a child whose stderr is a pipe; returns what it wrote. */
static const char *
stderr_of(void (*body)(void))
{
	static char out[64 * KV_LOG_LINE_BYTES_MAX];
	size_t len = 0;
	int fds[2], status;
	ssize_t n;
	pid_t pid;

	assert_int_equal(pipe(fds), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		dup2(fds[1], STDERR_FILENO);
		close(fds[0]);
		close(fds[1]);
		kv_log_set_sink(NULL, NULL);
		body();
		_exit(0);
	}
	close(fds[1]);
	while ((n = read(fds[0], out + len, sizeof(out) - 1 - len)) > 0)
		len += (size_t)n;
	close(fds[0]);
	out[len] = '\0';
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	return out;
}

static void
two_lines(void)
{
	kv_log_set_ident("kv test");
	kv_log_set_thread("worker-1");
	kv_warn("peer lost peer=%s", "n2");
	kv_log_set_thread("a-name-of-more-than-15");
	kv_err("end");
}

static void
assert_matches(const char *text, const char *pattern)
{
	regex_t re;

	assert_int_equal(regcomp(&re, pattern, REG_EXTENDED | REG_NOSUB), 0);
	if (regexec(&re, text, 0, NULL, 0) != 0)
		fail_msg("'%s' does not match '%s'", text, pattern);
	regfree(&re);
}

static void
a_line_has_time_level_ident_thread(void **state)
{
	(void)state;
	assert_matches(
		stderr_of(two_lines),
		"^2[0-9]{3}-[0-9]{2}-[0-9]{2}T[0-9:]{8}\\.[0-9]{3}Z warn "
		"kv\\?test\\[worker-1\\]: peer lost peer=n2\n"
		"2[^ ]* err kv\\?test\\[a-name-of-more-\\]: end\n$");
}

static void
unnamed(void)
{
	kv_info("x");
}

static void
without_names_program_and_thread_id(void **state)
{
	(void)state;
	assert_matches(stderr_of(unnamed),
		       "^[^ ]+ info test_log\\[[0-9]+\\]: x\n$");
}

static void
longest_line(void)
{
	static char text[2 * KV_LOG_LINE_BYTES_MAX];

	memset(text, 'i', 100);
	kv_log_set_ident(text);
	kv_log_set_thread(text);
	memset(text, 'x', sizeof(text) - 1);
	kv_info("%s", text);
}

static void
the_longest_line_is_whole(void **state)
{
	const char *out = stderr_of(longest_line);

	(void)state;
	assert_in_range(strlen(out), 3000, KV_LOG_LINE_BYTES_MAX);
	assert_matches(out, "^[^\n]*\\[i+\\]: x+\\.\\.\\.\n$");
}

static void *
log_100(void *name)
{
	int i;

	kv_log_set_thread(name);
	for (i = 0; i < 100; i++)
		kv_info("%0500d", i);
	return NULL;
}

static void
from_two_threads(void)
{
	char a[] = "a", b[] = "b";
	pthread_t t[2];

	kv_log_set_ident("t");
	pthread_create(&t[0], NULL, log_100, a);
	pthread_create(&t[1], NULL, log_100, b);
	pthread_join(t[0], NULL);
	pthread_join(t[1], NULL);
}

static void
lines_of_threads_do_not_mix(void **state)
{
	(void)state;
	assert_matches(stderr_of(from_two_threads),
		       "^(2[-0-9TZ:.]{23} info t\\[[ab]\\]: 0{497,499}[0-9]+"
		       "\n){200}$");
}

static void
one_to_syslog(void)
{
	kv_log_to_syslog();
	openlog("ident", LOG_PERROR, LOG_DAEMON);
	kv_warn("100%% on\nline=%d", 1);
}

static void
syslog_gets_the_message_alone(void **state)
{
	(void)state;
	assert_string_equal(stderr_of(one_to_syslog),
			    "ident: 100% on\\x0aline=1\n");
}

/* A pipe without reader, no descriptor, a full disk: the program goes on. */
static void
broken_stderr_is_no_error(void **state)
{
	static const struct timespec at_once;
	sigset_t pipe_set, old;
	int fds[2], fd, status;
	pid_t pid = fork();

	(void)state;
	assert_true(pid >= 0);
	if (pid > 0) {
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_int_equal(status, 0);
		return;
	}
	kv_log_set_sink(NULL, NULL);
	signal(SIGPIPE, SIG_DFL);
	if (pipe(fds) < 0)
		_exit(2);
	dup2(fds[1], STDERR_FILENO);
	close(fds[0]);
	kv_err("nobody reads");
	fd = open("/dev/full", O_WRONLY);
	if (fd < 0)
		_exit(3);
	dup2(fd, STDERR_FILENO);
	kv_err("full");
	close(STDERR_FILENO);
	kv_err("closed");

	/* A SIGPIPE that the caller had pending must not be eaten. */
	sigemptyset(&pipe_set);
	sigaddset(&pipe_set, SIGPIPE);
	pthread_sigmask(SIG_BLOCK, &pipe_set, &old);
	raise(SIGPIPE);
	dup2(fds[1], STDERR_FILENO);
	kv_err("nobody reads");
	_exit(sigtimedwait(&pipe_set, NULL, &at_once) == SIGPIPE ? 0 : 4);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(levels_above_the_threshold_pass),
		cmocka_unit_test(errno_is_kept_and_printed),
		cmocka_unit_test(what_does_not_print_is_escaped),
		cmocka_unit_test(long_messages_are_cut_and_say_so),
		cmocka_unit_test(repeats_are_counted),
		cmocka_unit_test(a_minute_of_failures_is_few_lines),
		cmocka_unit_test(recovery_is_told_once),
		cmocka_unit_test(flapping_is_limited_too),
		cmocka_unit_test(a_hidden_level_is_not_counted),
		cmocka_unit_test(a_line_has_time_level_ident_thread),
		cmocka_unit_test(without_names_program_and_thread_id),
		cmocka_unit_test(the_longest_line_is_whole),
		cmocka_unit_test(lines_of_threads_do_not_mix),
		cmocka_unit_test(syslog_gets_the_message_alone),
		cmocka_unit_test(broken_stderr_is_no_error),
	};
	struct CMUnitTest each[KV_ARRAY_LEN(tests)];
	size_t i;

	for (i = 0; i < KV_ARRAY_LEN(tests); i++) {
		each[i] = tests[i];
		each[i].setup_func = set_up;
	}
	return cmocka_run_group_tests(each, NULL, NULL);
}
