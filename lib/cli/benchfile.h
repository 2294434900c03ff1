/*
 * What `kvbench --json` wrote, read back:
 *
 *   {"host": text, "version": text, "results": [{"name": text, "held": number,
 *    "value": number, "unit": text, "floor": number, "floor_name": text,
 *    "ratio": number, "better": "more" or "less", "bar": number,
 *    "met": bool}, ...]}
 *
 * Where a number or truth may be null it may be absent, too, and other members
 * are passed over: a file of another version can still be compared.
 */
#ifndef KV_CLI_BENCHFILE_H
#define KV_CLI_BENCHFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"

enum {
	KV_BENCHFILE_ROWS_MAX = 1000,
	KV_BENCHFILE_TEXT_MAX = 127, /* bytes; printable UTF-8 */
};

struct kv_benchfile_row {
	char name[KV_BENCHFILE_TEXT_MAX + 1];
	char unit[KV_BENCHFILE_TEXT_MAX + 1];
	uint64_t held; /* 0: null */
	double value;
	double ratio; /* finite, above 0 */
	double bar;   /* 0: null */
	bool is_less; /* the less the better */
};

struct kv_benchfile {
	char host[KV_BENCHFILE_TEXT_MAX + 1];
	char version[KV_BENCHFILE_TEXT_MAX + 1];
	struct kv_benchfile_row *rows; /* in the file's order */
	size_t n;
};

/* 0; or -EINVAL or -ENOMEM with one line in err, and nothing to free. */
KV_MUST_CHECK int kv_benchfile_parse(const char *text, size_t len,
				     struct kv_benchfile *out, char *err,
				     size_t err_bytes);
/* A zeroed one is fine. */
void kv_benchfile_fini(struct kv_benchfile *f);

#endif
