#include "cli/progress.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/attr.h"
#include "base/clock.h"
#include "base/str.h"

enum {
	LINE_BYTES_MAX = 256,
	COLUMNS_DEFAULT = 80,
};

static size_t
columns(int fd)
{
	struct winsize size;

	if (ioctl(fd, TIOCGWINSZ, &size) < 0 || size.ws_col == 0)
		return COLUMNS_DEFAULT;
	return size.ws_col;
}

/* A job in the background would write over what is in front. */
static bool
is_foreground(int fd)
{
	pid_t front = tcgetpgrp(fd);

	return front < 0 || front == getpgrp();
}

static void
show(struct kv_progress *p, const char *text)
{
	char buf[2 * LINE_BYTES_MAX];
	size_t n = strlen(text), max = columns(p->fd) - 1;
	int len;

	/* A line that wraps could not be overwritten. */
	if (n > max)
		n = max;
	len = snprintf(buf, sizeof(buf), "\r%.*s%*s%s", (int)n, text,
		       p->shown > n ? (int)(p->shown - n) : 0, "",
		       n ? "" : "\r");
	if (len > 0 && write(p->fd, buf, (size_t)len) < 0)
		p->is_on = false;
	p->shown = n;
}

/* What is left of the time, by the part that is done. */
static uint64_t
left_ns(uint64_t done, uint64_t all, uint64_t spent_ns)
{
	return (uint64_t)((double)spent_ns * (double)(all - done) /
			  (double)done);
}

static void
describe(const struct kv_progress *p, uint64_t keys, uint64_t bytes,
	 uint64_t spent_ns, char *buf, size_t size)
{
	char of_keys[32] = "", of_bytes[32] = "", left[32] = "";
	char a[16], b[16], rate[16];
	uint64_t done = p->bytes ? bytes : keys;
	uint64_t all = p->bytes ? p->bytes : p->keys;
	double seconds = (double)spent_ns / (double)KV_NS_PER_S;

	if (p->keys)
		snprintf(of_keys, sizeof(of_keys), "/%" PRIu64, p->keys);
	if (p->bytes)
		snprintf(of_bytes, sizeof(of_bytes), " of %s",
			 kv_str_size_format(a, sizeof(a), p->bytes));
	if (done && done < all)
		snprintf(left, sizeof(left), "  %s left",
			 kv_str_duration_format(a, sizeof(a),
						left_ns(done, all, spent_ns)));
	kv_str_size_format(b, sizeof(b), bytes);
	kv_str_size_format(rate, sizeof(rate),
			   (uint64_t)((double)bytes / seconds));
	snprintf(buf, size, "%" PRIu64 "%s keys  %s%s  %s/s%s", keys, of_keys,
		 b, of_bytes, rate, left);
}

void
kv_progress_init(struct kv_progress *p, int fd, bool quiet, uint64_t now_ns)
{
	*p = (struct kv_progress){
		.fd = fd,
		.is_on = !quiet && isatty(fd),
		.start_ns = now_ns,
		.next_ns = now_ns + KV_PROGRESS_AFTER_NS,
	};
}

void
kv_progress_update(struct kv_progress *p, uint64_t keys, uint64_t bytes,
		   uint64_t now_ns)
{
	char text[LINE_BYTES_MAX];

	if (!p->is_on || now_ns < p->next_ns)
		return;
	p->next_ns = now_ns + KV_PROGRESS_EVERY_NS;
	if (!is_foreground(p->fd))
		return;
	describe(p, keys, bytes, now_ns - p->start_ns, text, sizeof(text));
	show(p, text);
}

void
kv_progress_clear(struct kv_progress *p)
{
	if (!p->is_on || !p->shown)
		return;
	show(p, "");
	p->next_ns = 0;
}
