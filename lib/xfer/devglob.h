#ifndef KV_XFER_DEVGLOB_H
#define KV_XFER_DEVGLOB_H

/*
 * White lists of devices, as people write them: names or shell patterns,
 * separated by commas, with blanks around them or not ("mlx5_0, mlx5_2*"). A
 * list of none means all, and so does the word "auto" in it.
 */

#include <stdbool.h>
#include <stddef.h>

/* Whether the list lets the device in. */
bool kv_devglob_has(const char *list, const char *name);

/*
 * The next pattern of the list, not terminated, and its length; *at goes
 * behind it and begins as the list. NULL: there are no more.
 */
const char *kv_devglob_next(const char **at, size_t *len);

/* Whether that pattern means the name. */
bool kv_devglob_is(const char *glob, size_t len, const char *name);

#endif
