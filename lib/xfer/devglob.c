#include "xfer/devglob.h"

#include <fnmatch.h>
#include <string.h>

/* Longer than any name, with brackets for each letter. */
#define GLOB_BYTES 256

const char *
kv_devglob_next(const char **at, size_t *len)
{
	static const char between[] = ", \t";
	const char *glob = *at + strspn(*at, between);

	*len = strcspn(glob, between);
	*at = glob + *len;
	return *len ? glob : NULL;
}

bool
kv_devglob_is(const char *glob, size_t len, const char *name)
{
	char text[GLOB_BYTES];

	if (len >= sizeof(text))
		return false;
	memcpy(text, glob, len);
	text[len] = '\0';
	return strcmp(text, "auto") == 0 || fnmatch(text, name, 0) == 0;
}

bool
kv_devglob_has(const char *list, const char *name)
{
	const char *at = list, *glob;
	bool is_empty = true;
	size_t len;

	while ((glob = kv_devglob_next(&at, &len))) {
		is_empty = false;
		if (kv_devglob_is(glob, len, name))
			return true;
	}
	return is_empty;
}
