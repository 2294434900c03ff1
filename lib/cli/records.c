#include "cli/records.h"

#include <errno.h>
#include <string.h>

#include "base/limits.h"

void
kv_records_init(struct kv_records *r, FILE *f, int end)
{
	r->f = f;
	r->end = end;
	r->number = 0;
	r->len = 0;
}

int
kv_records_next(struct kv_records *r)
{
	size_t n = 0;
	int c;

	errno = 0;
	while ((c = getc_unlocked(r->f)) != EOF && c != r->end) {
		if (n < KV_RECORDS_BYTES_MAX)
			r->data[n] = (char)c;
		n++;
	}
	if (c == EOF && ferror(r->f))
		return errno ? -errno : -EIO;
	if (c == EOF && n == 0)
		return 0;
	r->number++;
	if (n > KV_RECORDS_BYTES_MAX)
		return -EMSGSIZE;
	r->data[n] = '\0';
	r->len = n;
	return 1;
}

int
kv_records_split(struct kv_records *r, struct kv_key *key, const char **path,
		 const char **why)
{
	const char *tab = memrchr(r->data, '\t', r->len);
	size_t path_len;

	*why = "no TAB between key and path";
	if (!tab)
		return -EINVAL;
	*why = "the key is empty";
	if (tab == r->data)
		return -EINVAL;
	*why = "the key is longer than 1024 bytes";
	if (tab - r->data > KV_KEY_BYTES_MAX)
		return -EINVAL;
	path_len = r->len - (size_t)(tab + 1 - r->data);
	*why = "the path is empty";
	if (path_len == 0)
		return -EINVAL;
	*why = "there is a NUL in the path";
	if (strlen(tab + 1) != path_len)
		return -EINVAL;
	*key = (struct kv_key){ .data = r->data,
				.len = (size_t)(tab - r->data) };
	*path = tab + 1;
	return 0;
}
