#include "cli/progress.h"

#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <pty.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.h"

#define S KV_NS_PER_S

/* A terminal: what is written to tty comes out at screen. */
struct terminal {
	int screen, tty;
};

static int
open_terminal(void **state)
{
	static struct terminal t;
	struct winsize size = { .ws_row = 25, .ws_col = 80 };

	if (openpty(&t.screen, &t.tty, NULL, NULL, &size) < 0 ||
	    fcntl(t.screen, F_SETFL, O_NONBLOCK) < 0)
		return -1;
	*state = &t;
	return 0;
}

static int
close_terminal(void **state)
{
	struct terminal *t = *state;

	close(t->screen);
	close(t->tty);
	return 0;
}

/* All that was written since the last time. */
static const char *
screen(const struct terminal *t)
{
	static char buf[1024];
	ssize_t n = read(t->screen, buf, sizeof(buf) - 1);

	buf[n > 0 ? n : 0] = '\0';
	return buf;
}

static void
test_line_comes_late_and_goes(void **state)
{
	struct terminal *t = *state;
	struct kv_progress p;

	kv_progress_init(&p, t->tty, false, 100 * S);
	p.keys = 5000;
	kv_progress_update(&p, 10, 1 << 20, 100 * S);
	kv_progress_update(&p, 10, 1 << 20, 101 * S - 1);
	kv_progress_clear(&p);
	assert_string_equal(screen(t), "");

	kv_progress_update(&p, 1200, 3ull << 30, 103 * S);
	assert_string_equal(screen(t), "\r1200/5000 keys  3.0 GiB  "
				       "1.0 GiB/s  9.5 s left");
	/* Not more often than people can read. */
	kv_progress_update(&p, 1201, 3ull << 30, 103 * S + S / 10);
	assert_string_equal(screen(t), "");
	/* A shorter line leaves nothing of the one before. */
	kv_progress_update(&p, 5000, 4ull << 30, 104 * S);
	assert_string_equal(screen(t), "\r5000/5000 keys  4.0 GiB  "
				       "1.0 GiB/s            ");
	kv_progress_clear(&p);
	assert_string_equal(screen(t), "\r                                  "
				       "\r");
	kv_progress_clear(&p);
	assert_string_equal(screen(t), "");
	/* What was taken off for a message comes back with the next one. */
	kv_progress_update(&p, 5000, 4ull << 30, 104 * S + 1);
	assert_string_equal(screen(t), "\r5000/5000 keys  4.0 GiB  1.0 GiB/s");
}

static void
test_totals_that_are_known_or_not(void **state)
{
	struct terminal *t = *state;
	struct kv_progress p;

	kv_progress_init(&p, t->tty, false, 0);
	kv_progress_update(&p, 7, 512, 2 * S);
	assert_string_equal(screen(t), "\r7 keys  512 B  256 B/s");

	/* Bytes tell more than keys where both are known. */
	kv_progress_init(&p, t->tty, false, 0);
	p.keys = 1;
	p.bytes = 100ull << 30;
	kv_progress_update(&p, 0, 25ull << 30, 50 * S);
	assert_string_equal(screen(t), "\r0/1 keys  25.0 GiB of 100.0 GiB  "
				       "512.0 MiB/s  2m30s left");
	kv_progress_init(&p, t->tty, false, 0);
	p.keys = 3;
	kv_progress_update(&p, 0, 0, 2 * S);
	assert_string_equal(screen(t), "\r0/3 keys  0 B  0 B/s");
}

static void
test_line_never_wraps(void **state)
{
	struct terminal *t = *state;
	struct winsize size = { .ws_row = 25, .ws_col = 20 };
	struct kv_progress p;

	assert_int_equal(ioctl(t->tty, TIOCSWINSZ, &size), 0);
	kv_progress_init(&p, t->tty, false, 0);
	p.keys = 5000;
	kv_progress_update(&p, 1200, 1 << 20, 2 * S);
	assert_string_equal(screen(t), "\r1200/5000 keys  1.0");
	kv_progress_clear(&p);
	assert_string_equal(screen(t), "\r                   \r");
}

static void
test_silent_unless_wanted_and_a_terminal(void **state)
{
	struct terminal *t = *state;
	struct kv_progress p;
	char buf[8];
	int fds[2];

	kv_progress_init(&p, t->tty, true, 0);
	kv_progress_update(&p, 1, 1, 100 * S);
	kv_progress_clear(&p);
	assert_string_equal(screen(t), "");

	assert_int_equal(pipe(fds), 0);
	kv_progress_init(&p, fds[1], false, 0);
	kv_progress_update(&p, 1, 1, 100 * S);
	kv_progress_clear(&p);
	close(fds[1]);
	assert_int_equal(read(fds[0], buf, sizeof(buf)), 0);
	close(fds[0]);
}

static void
test_terminal_that_goes_away(void **state)
{
	struct kv_progress p;
	int screen_fd, tty;

	(void)state;
	assert_int_equal(openpty(&screen_fd, &tty, NULL, NULL, NULL), 0);
	kv_progress_init(&p, tty, false, 0);
	close(screen_fd);
	kv_progress_update(&p, 1, 1, 100 * S);
	assert_false(p.is_on);
	kv_progress_clear(&p);
	close(tty);
}

#define TEST(name) \
	cmocka_unit_test_setup_teardown(name, open_terminal, close_terminal)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_line_comes_late_and_goes),
		TEST(test_totals_that_are_known_or_not),
		TEST(test_line_never_wraps),
		TEST(test_silent_unless_wanted_and_a_terminal),
		cmocka_unit_test(test_terminal_that_goes_away),
	};

	int screen_fd, tty;

	if (openpty(&screen_fd, &tty, NULL, NULL, NULL) < 0) {
		puts("1..0 # SKIP there are no terminals here");
		return 0;
	}
	close(screen_fd);
	close(tty);
	return cmocka_run_group_tests_name("cli/progress", tests, NULL, NULL);
}
