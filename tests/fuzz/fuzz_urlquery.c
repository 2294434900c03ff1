/* Targets of HTTP requests; what was read must survive being written with all
 * bytes escaped and read again. */
#include "http/urlquery.h"

#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "base/bytes.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
write_text(struct kv_bytes *to, const struct kv_urlquery_text *t)
{
	assert(t->p[t->len] == '\0');
	for (size_t i = 0; i < t->len; i++)
		assert(!kv_bytes_printf(to, "%%%02X", (unsigned char)t->p[i]));
}

static void
write_all(struct kv_bytes *to, const struct kv_urlquery *q)
{
	write_text(to, &q->path);
	assert(!kv_bytes_append(to, "?", 1));
	for (size_t i = 0; i < q->n_args; i++) {
		write_text(to, &q->args[i].name);
		assert(!kv_bytes_append(to, "=", 1));
		write_text(to, &q->args[i].value);
		assert(!kv_bytes_append(to, "&", 1));
	}
}

static void
check_equal(const struct kv_urlquery_text *a, const struct kv_urlquery_text *b)
{
	assert(a->len == b->len);
	assert(!memcmp(a->p, b->p, a->len));
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct kv_bytes text = { 0 };
	struct kv_urlquery q, again;

	if (kv_urlquery_parse(&q, (const char *)data, size) < 0)
		return 0;
	write_all(&text, &q);
	assert(!kv_urlquery_parse(&again, (const char *)text.data, text.len));
	check_equal(&q.path, &again.path);
	assert(q.n_args == again.n_args);
	for (size_t i = 0; i < q.n_args; i++) {
		check_equal(&q.args[i].name, &again.args[i].name);
		check_equal(&q.args[i].value, &again.args[i].value);
	}
	kv_urlquery_fini(&again);
	kv_urlquery_fini(&q);
	kv_bytes_fini(&text);
	return 0;
}
