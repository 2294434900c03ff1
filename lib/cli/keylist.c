#include "cli/keylist.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sysexits.h>

#include "base/limits.h"
#include "cli/tool.h"

void
kv_keylist_init(struct kv_keylist *l, char **args, size_t n, bool is_nul)
{
	memset(l, 0, sizeof(*l));
	l->args = args;
	l->n_args = n;
	l->is_stream = n == 0;
	kv_records_init(&l->records, stdin, is_nul ? '\0' : '\n');
}

void
kv_keylist_fini(struct kv_keylist *l)
{
	kv_bytes_fini(&l->bytes);
}

static void
next_args(struct kv_keylist *l)
{
	for (; l->n < KV_KEYLIST_MAX && l->n_args; l->n_args--, l->n++) {
		l->keys[l->n].data = *l->args;
		l->keys[l->n].len = strlen(*l->args++);
	}
}

/* Says what is wrong with the line in hand. */
static void
refuse(struct kv_keylist *l, const char *why)
{
	int code = kv_tool_say(EX_DATAERR, "stdin: line %" PRIu64 ": %s",
			       l->records.number, why);

	l->code = kv_tool_worse(l->code, code);
}

/* Adds the line in hand. 0 or -ENOMEM. */
static int
add(struct kv_keylist *l)
{
	if (l->records.len < KV_KEY_BYTES_MIN) {
		refuse(l, "the key is empty");
		return 0;
	}
	if (l->records.len > KV_KEY_BYTES_MAX) {
		refuse(l, "the key is longer than 1024 bytes");
		return 0;
	}
	l->keys[l->n++].len = l->records.len;
	return kv_bytes_append(&l->bytes, l->records.data, l->records.len);
}

static void
next_lines(struct kv_keylist *l)
{
	const uint8_t *p;
	int rc = 1;

	kv_bytes_reset(&l->bytes);
	while (l->n < KV_KEYLIST_MAX && l->is_stream) {
		rc = kv_records_next(&l->records);
		if (rc > 0)
			rc = add(l) < 0 ? -ENOMEM : 1;
		else if (rc == -EMSGSIZE)
			refuse(l, "the key is longer than 1024 bytes");
		if (rc <= 0 && rc != -EMSGSIZE)
			l->is_stream = false;
	}
	if (rc < 0 && rc != -EMSGSIZE) {
		rc = kv_tool_say(EX_NOINPUT, "stdin: %s", strerror(-rc));
		l->code = kv_tool_worse(l->code, rc);
		l->n = 0;
	}
	p = l->bytes.data;
	for (size_t i = 0; i < l->n; p += l->keys[i++].len)
		l->keys[i].data = p;
}

bool
kv_keylist_next(struct kv_keylist *l)
{
	l->n = 0;
	if (l->n_args)
		next_args(l);
	else if (l->is_stream)
		next_lines(l);
	return l->n > 0;
}
