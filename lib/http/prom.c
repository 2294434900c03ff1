#include "http/prom.h"

#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

#include "base/bytes.h"
#include "base/utf8.h"

static const char *const types[] = {
	[KV_PROM_COUNTER] = "counter",
	[KV_PROM_GAUGE] = "gauge",
};

static void
put(struct kv_prom *p, const void *from, size_t n)
{
	if (p->status == 0)
		p->status = kv_bytes_append(p->out, from, n);
}

/* The three escapes of the format (a help text knows no \") and, as text, \xNN
 * for bytes that are no character. */
static void
put_escaped(struct kv_prom *p, const char *s, bool in_label)
{
	size_t n = strlen(s), i, len;
	uint32_t cp;
	int got;

	for (i = 0; i < n; i += len) {
		got = kv_utf8_next(s + i, n - i, &cp);
		len = got > 0 ? (size_t)got : 1;
		if (got < 0 && p->status == 0)
			p->status = kv_bytes_printf(p->out, "\\\\x%02x",
						    (unsigned char)s[i]);
		else if (s[i] == '\n')
			put(p, "\\n", 2);
		else if (s[i] == '\\')
			put(p, "\\\\", 2);
		else if (s[i] == '"' && in_label)
			put(p, "\\\"", 2);
		else
			put(p, s + i, len);
	}
}

void
kv_prom_family(struct kv_prom *p, const char *name, enum kv_prom_type type,
	       const char *help)
{
	if (p->name && strcmp(p->name, name) == 0)
		return;
	p->name = name;
	if (p->status == 0)
		p->status = kv_bytes_printf(p->out, "# HELP %s ", name);
	put_escaped(p, help, false);
	if (p->status == 0)
		p->status = kv_bytes_printf(p->out, "\n# TYPE %s %s\n", name,
					    types[type]);
}

void
kv_prom_sample(struct kv_prom *p, uint64_t value)
{
	if (p->status == 0)
		p->status = kv_bytes_printf(p->out, "%s %" PRIu64 "\n", p->name,
					    value);
}

void
kv_prom_labelled(struct kv_prom *p, const char *label, const char *value,
		 uint64_t v)
{
	if (p->status == 0)
		p->status = kv_bytes_printf(p->out, "%s{%s=\"", p->name, label);
	put_escaped(p, value, true);
	if (p->status == 0)
		p->status = kv_bytes_printf(p->out, "\"} %" PRIu64 "\n", v);
}
