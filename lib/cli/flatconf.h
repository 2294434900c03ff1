/*
 * A file of names and values, in JSON or in the part of YAML that is written
 * for such a list:
 *
 *	# comment
 *	---
 *	name: value		# comment
 *	other: "a value"	or 'a value'
 *
 * What YAML has beyond that (lists, maps within, values over several lines,
 * anchors, tags) is refused, not misread. No I/O.
 */
#ifndef KV_CLI_FLATCONF_H
#define KV_CLI_FLATCONF_H

#include <stddef.h>

#include "base/attr.h"

enum {
	KV_FLATCONF_BYTES_MAX = 1 << 20,
	KV_FLATCONF_NAME_SIZE = 128, /* of a name, with its NUL */
	KV_FLATCONF_VALUE_SIZE = 1024,
};

/*
 * Called for each name in the order of the text; a name may come twice. The
 * value is text: a string without its quotes, anything else as it is written.
 * < 0, with ERR, ends the parse.
 */
typedef int kv_flatconf_fn(void *arg, const char *name, const char *value,
			   char *err, size_t size);

struct kv_flatconf {
	const char *path; /* .json, or .yaml or .yml, says what it is */
	kv_flatconf_fn *set;
	void *arg;
};

/*
 * 0; -EINVAL with ERR in one line, which begins with the path and, if it is
 * known, the number of the line; -EFBIG, likewise; what set() returned.
 */
KV_MUST_CHECK int kv_flatconf_parse(const struct kv_flatconf *f,
				    const char *text, size_t len, char *err,
				    size_t size);

#endif
