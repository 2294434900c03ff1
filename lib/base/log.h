#ifndef KV_BASE_LOG_H
#define KV_BASE_LOG_H

#include "base/attr.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * Messages, one line each, by default to stderr with one write(2):
 *   2026-11-29T20:00:00.123Z warn kvclient[worker-1]: peer lost peer=n2
 * Facts follow the text as key=value. Bytes that do not print are escaped,
 * so that a key from outside cannot forge a line. Nothing here fails or
 * blocks on a lock; a closed or broken stderr is no error and no SIGPIPE.
 * errno is preserved, %m works. Any thread.
 */
enum kv_log_level {
	KV_LOG_ERR,
	KV_LOG_WARN,
	KV_LOG_INFO,
	KV_LOG_DEBUG,
};

KV_PRINTF(2, 3)
void kv_log(enum kv_log_level level, const char *fmt, ...);

bool kv_log_is_on(enum kv_log_level level);

/* Arguments are evaluated only when the level is on. */
#define KV_LOG_AT(level, ...)                       \
	do {                                        \
		if (kv_log_is_on(level))            \
			kv_log(level, __VA_ARGS__); \
	} while (0)
#define kv_err(...)   KV_LOG_AT(KV_LOG_ERR, __VA_ARGS__)
#define kv_warn(...)  KV_LOG_AT(KV_LOG_WARN, __VA_ARGS__)
#define kv_info(...)  KV_LOG_AT(KV_LOG_INFO, __VA_ARGS__)
#define kv_debug(...) KV_LOG_AT(KV_LOG_DEBUG, __VA_ARGS__)

/* What is more detailed than this is dropped; KV_LOG_WARN at first,
 * so that a library does not chat in the process of somebody else. */
void kv_log_set_level(enum kv_log_level level);

const char *kv_log_level_name(enum kv_log_level level); /* "warn" */

/* Name of the calling thread in its lines (cut to 15 bytes); else its id. */
void kv_log_set_thread(const char *name);

/*
 * The next three are for the start of the program, before other threads log.
 * ident (cut to 31 bytes) stands in every line; the program's name at first.
 */
void kv_log_set_ident(const char *ident);

/*
 * msg: the escaped message alone, without time, level, ident and newline.
 * Runs on the thread that logs, on several at once; must not log itself.
 */
typedef void kv_log_fn(void *arg, enum kv_log_level level, const char *msg);

/* Where messages go instead; NULL: back to stderr. */
void kv_log_set_sink(kv_log_fn *fn, void *arg);
void kv_log_to_syslog(void);

/*
 * Flood limit for one kind of failure of one thing (a peer, a device), owned
 * by whoever owns that thing; zeroed is ready, one thread at a time. The
 * first message comes out at once; repeats within KV_LOG_REPEAT_NS of the
 * last line are only counted, and the next line says "(repeated N times)".
 */
struct kv_log_limit {
	uint64_t next_ns; /* not before this */
	uint64_t held;    /* swallowed since the last line */
	bool failing;     /* a failure is the last that was told */
};

KV_PRINTF(4, 5)
void kv_log_limited(struct kv_log_limit *l, uint64_t now_ns,
		    enum kv_log_level level, const char *fmt, ...);

/*
 * It works again: says so, with "(after N more failures)", if a failure had
 * been told since the last time; else silent. So something that flaps costs two
 * lines in KV_LOG_REPEAT_NS.
 */
KV_PRINTF(3, 4)
void kv_log_recovered(struct kv_log_limit *l, enum kv_log_level level,
		      const char *fmt, ...);

#endif
