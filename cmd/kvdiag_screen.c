#include "cmd/kvdiag_screen.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/clock.h"

#define OTHER_PAGE "\033[?1049h\033[?25l"
#define FIRST_PAGE "\033[?25h\033[?1049l"
#define HOME       "\033[H"
#define CLEAR_LINE "\033[K"
#define CLEAR_REST "\033[J"

static const int signals[] = { SIGINT,  SIGTERM, SIGHUP,
			       SIGQUIT, SIGTSTP, SIGWINCH };

static void
enter(struct kvdiag_screen *s)
{
	struct termios now;

	if (!s->is_terminal)
		return;
	s->has_keys = tcgetattr(STDIN_FILENO, &s->was) == 0;
	if (s->has_keys) {
		now = s->was;
		now.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
		now.c_cc[VMIN] = 0;
		now.c_cc[VTIME] = 0;
		tcsetattr(STDIN_FILENO, TCSANOW, &now);
	}
	fputs(OTHER_PAGE, stdout);
	fflush(stdout);
}

static void
leave(struct kvdiag_screen *s)
{
	if (!s->is_terminal)
		return;
	if (s->has_keys)
		tcsetattr(STDIN_FILENO, TCSANOW, &s->was);
	fputs(FIRST_PAGE, stdout);
	fflush(stdout);
}

static void
block(sigset_t *set, int how)
{
	sigemptyset(set);
	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
		sigaddset(set, signals[i]);
	sigprocmask(how, set, NULL);
}

int
kvdiag_screen_open(struct kvdiag_screen *s)
{
	sigset_t set;

	*s = (struct kvdiag_screen){ .is_terminal = isatty(STDOUT_FILENO) };
	block(&set, SIG_BLOCK);
	s->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (s->signals < 0)
		return -errno;
	enter(s);
	return 0;
}

void
kvdiag_screen_close(struct kvdiag_screen *s)
{
	leave(s);
	close(s->signals);
}

/* The line cut at so many characters; returns where the next one begins. */
static const char *
paint_line(const char *line, unsigned columns)
{
	size_t len = strcspn(line, "\n"), n = 0;
	unsigned seen = 0;

	for (; n < len; n++) {
		if (((unsigned char)line[n] & 0xc0) != 0x80 &&
		    seen++ == columns)
			break;
	}
	fwrite(line, 1, n, stdout);
	return line + len + (line[len] == '\n');
}

int
kvdiag_screen_paint(const struct kvdiag_screen *s, const char *text)
{
	struct winsize size = { 0 };
	unsigned row;

	if (!s->is_terminal) {
		fputs(text, stdout);
		return fflush(stdout) == 0 ? 0 : -errno;
	}
	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) < 0 || !size.ws_row ||
	    !size.ws_col) {
		size.ws_row = 24;
		size.ws_col = 80;
	}
	fputs(HOME, stdout);
	for (row = 0; *text && row < size.ws_row; row++) {
		if (row)
			fputs("\r\n", stdout);
		/* Before the text: behind the last column it would take what
		 * stands there. */
		fputs(CLEAR_LINE, stdout);
		text = paint_line(text, size.ws_col);
	}
	fputs(CLEAR_REST, stdout);
	return fflush(stdout) == 0 ? 0 : -errno;
}

/* Stops as Ctrl-Z would, with the terminal as it was. */
static void
stop(struct kvdiag_screen *s)
{
	leave(s);
	raise(SIGSTOP);
	enter(s);
}

static enum kvdiag_screen_event
signalled(struct kvdiag_screen *s)
{
	struct signalfd_siginfo info;

	if (read(s->signals, &info, sizeof(info)) != sizeof(info))
		return KVDIAG_SCREEN_TICK;
	if (info.ssi_signo == SIGTSTP)
		stop(s);
	else if (info.ssi_signo != SIGWINCH)
		return KVDIAG_SCREEN_END;
	return KVDIAG_SCREEN_SIZE;
}

static bool
is_quit(struct kvdiag_screen *s)
{
	char key;
	ssize_t n = read(STDIN_FILENO, &key, 1);

	/* The end of a terminal is no key, and comes for ever. */
	if (n <= 0)
		s->is_deaf = true;
	return n == 1 && (key == 'q' || key == 'Q');
}

enum kvdiag_screen_event
kvdiag_screen_wait(struct kvdiag_screen *s, uint64_t until_ns)
{
	uint64_t now;

	for (;;) {
		struct pollfd fds[] = {
			{ .fd = s->signals, .events = POLLIN },
			{ .fd = s->has_keys && !s->is_deaf ? STDIN_FILENO : -1,
			  .events = POLLIN },
		};

		now = kv_clock_now(&(struct kv_clock){ 0 });
		if (now >= until_ns)
			return KVDIAG_SCREEN_TICK;
		if (poll(fds, 2, (int)((until_ns - now) / KV_NS_PER_MS) + 1) <
		    0)
			return KVDIAG_SCREEN_TICK;
		if (fds[0].revents)
			return signalled(s);
		if (fds[1].revents && is_quit(s))
			return KVDIAG_SCREEN_END;
	}
}
