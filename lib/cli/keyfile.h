/*
 * File names for keys. A key is any bytes, a file name is not; the name tells
 * the key, and no two keys share one:
 *
 *  - letters, digits and @ = + , : ~ _ - . stand for themselves, but . and -
 * not at the beginning; every other byte is %XX (upper case hex);
 *  - what gets longer than KV_KEYFILE_PART_MAX is cut into parts: all but the
 *    last end in one more % and are folders ("part%/part%/rest").
 *
 * So the key is the name without each "%/", and with each %XX as its byte. No
 * name is "." or "..", or begins with a dot; no file has the name of a folder.
 */
#ifndef KV_CLI_KEYFILE_H
#define KV_CLI_KEYFILE_H

#include "base/limits.h"

struct kv_key;

enum {
	KV_KEYFILE_PART_MAX = 240,
	/* All bytes as %XX, and "%/" after each 238 of them at the most. */
	KV_KEYFILE_SIZE =
		3 * KV_KEY_BYTES_MAX +
		2 * (3 * KV_KEY_BYTES_MAX / (KV_KEYFILE_PART_MAX - 2) + 1) + 1,
};

/* The name, relative to the folder of all of them. Gives dst. */
const char *kv_keyfile_name(char dst[KV_KEYFILE_SIZE],
			    const struct kv_key *key);

#endif
