/* A terminal that shows a text which changes, or whatever stdout is. */
#ifndef KV_CMD_KVDIAG_SCREEN_H
#define KV_CMD_KVDIAG_SCREEN_H

#include <stdbool.h>
#include <stdint.h>
#include <termios.h>

enum kvdiag_screen_event {
	KVDIAG_SCREEN_TICK,
	KVDIAG_SCREEN_SIZE, /* has changed, or may have: paint again */
	KVDIAG_SCREEN_END,  /* q, or a signal that ends programs */
};

struct kvdiag_screen {
	bool is_terminal; /* else text goes out as it is */
	bool has_keys;
	bool is_deaf;       /* no more keys come */
	struct termios was; /* of stdin, with has_keys */
	int signals;
};

/*
 * From here on the signals that end, stop or resize are events of
 * kvdiag_screen_wait(), and a terminal shows an empty page beside the one that
 * it had, which close gives back. 0 or -errno.
 */
int kvdiag_screen_open(struct kvdiag_screen *s);
void kvdiag_screen_close(struct kvdiag_screen *s);

/* Shows the text, as much of it as there is room for. 0, or -errno when stdout
 * takes no more. */
int kvdiag_screen_paint(const struct kvdiag_screen *s, const char *text);

/* Until that time of CLOCK_MONOTONIC, or something happens. */
enum kvdiag_screen_event kvdiag_screen_wait(struct kvdiag_screen *s,
					    uint64_t until_ns);

#endif
