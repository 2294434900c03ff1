#ifndef KV_CLI_FILEIN_H
#define KV_CLI_FILEIN_H

#include <stddef.h>
#include <sys/types.h>

#include "base/attr.h"

struct kv_bytes;
struct kv_progress_watch;

/* A pipe's end is not known in advance; a value above that is refused. */
#define KV_FILEIN_BYTES_MAX (16ull << 30)

/*
 * Appends all bytes of the file at PATH to B; "-" is stdin if IS_DASH_STDIN.
 * They are read, not mapped: a file that is cut short meanwhile must not end
 * the program.
 *
 * W (may be NULL) is told of what is read, unless somebody types it.
 *
 * 0; the -errno of what failed; -ESTALE if the file changed while it was read;
 * -EFBIG. On failure B is as it was.
 */
KV_MUST_CHECK int kv_filein_read(struct kv_bytes *b, const char *path,
				 bool is_dash_stdin,
				 const struct kv_progress_watch *w);

/*
 * The first SIZE bytes of a file of text, or fewer if it has fewer: into BUF.
 * Returns how many, or -errno.
 */
KV_MUST_CHECK ssize_t kv_filein_text(const char *path, char *buf, size_t size);

#endif
