#ifndef KV_MADETREE_H
#define KV_MADETREE_H

/* A folder of made-up files, to stand for / with its /proc and /sys. */

#include "base/attr.h"

#define MADETREE_BYTES 64

void madetree_new(char root[MADETREE_BYTES]);
void madetree_free(const char *root); /* with all that is in it */

/* Writes the file, and makes the folders above it. */
KV_PRINTF(3, 4)
void madetree_put(const char *root, const char *path, const char *fmt, ...);

/* The same for a symbolic link. */
void madetree_link(const char *root, const char *path, const char *to);

#endif
