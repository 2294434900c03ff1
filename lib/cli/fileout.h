/*
 * Files that are whole: the bytes go to a temporary file beside the final name
 * (.kvpool-RANDOM), which takes that name when all are in it. On failure, and
 * on SIGINT, SIGTERM and SIGHUP, the temporary file is removed.
 *
 * For programs with one thread that writes files.
 */
#ifndef KV_CLI_FILEOUT_H
#define KV_CLI_FILEOUT_H

#include <stddef.h>

#include "base/attr.h"

struct kv_key;
struct kv_progress_watch;

/* All N bytes to a descriptor, which may be non-blocking. W, here and below, is
 * told of what is written; it may be NULL. 0 or -errno. */
KV_MUST_CHECK int kv_fileout_write(int fd, const void *data, size_t n,
				   const struct kv_progress_watch *w);

/*
 * The file at PATH holds these bytes, or on failure (-errno) what it held. A
 * symbolic link is followed; a file that was there keeps its owner and mode.
 * What is no regular file, as /dev/null or a FIFO, is written to instead.
 */
KV_MUST_CHECK int kv_fileout_save(const char *path, const void *data, size_t n,
				  const struct kv_progress_watch *w);

/*
 * The same for the file of KEY below the folder DIR, with the name that
 * kv_keyfile_name() gives. No link is followed, so that nothing outside of DIR
 * is touched.
 */
KV_MUST_CHECK int kv_fileout_save_key(int dir, const struct kv_key *key,
				      const void *data, size_t n,
				      const struct kv_progress_watch *w);

#endif
