#ifndef KV_CLI_PROGRESS_H
#define KV_CLI_PROGRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KV_PROGRESS_AFTER_NS 1000000000ull /* silent for so long */
#define KV_PROGRESS_EVERY_NS 200000000ull  /* one line at most */

/*
 * One line on a terminal about work that takes long:
 *
 *   1200/5000 keys  1.2 GiB of 5.0 GiB  850.0 MiB/s  4.5 s left
 *
 * It overwrites itself and leaves nothing behind. All functions do nothing when
 * the descriptor is no terminal. Time comes from the caller. One thread.
 */
struct kv_progress {
	int fd;
	bool is_on;
	uint64_t keys;  /* in all; 0: not known */
	uint64_t bytes; /* in all; 0: not known */
	uint64_t start_ns;
	uint64_t next_ns; /* no line before that */
	size_t shown;     /* columns that the line on the screen takes */
};

/* Whoever moves many bytes tells of each piece of them. */
struct kv_progress_watch {
	void (*moved)(void *arg, size_t bytes);
	void *arg;
};

/* QUIET: no line at all, as with --json. FD is stderr but for tests. */
void kv_progress_init(struct kv_progress *p, int fd, bool quiet,
		      uint64_t now_ns);

/* So much is done. Cheap when no line is due. */
void kv_progress_update(struct kv_progress *p, uint64_t keys, uint64_t bytes,
			uint64_t now_ns);

/* Takes the line off the screen: at the end, and ahead of any message. The next
 * update brings it back. */
void kv_progress_clear(struct kv_progress *p);

#endif
