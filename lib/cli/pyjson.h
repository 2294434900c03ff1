/*
 * A JSON value as Python sees it: vLLM reads mooncake_config.json with
 * json.load and its error texts carry Python's type names and reprs.
 *
 * Numbers are looked at as written, so that 5 is an int and 5.0 a float;
 * strings and containers are decoded by cJSON. What cJSON cannot hold (a NUL
 * character, half a surrogate pair) is refused with -EILSEQ. LC_NUMERIC must be
 * "C", as it is unless a program calls setlocale().
 */
#ifndef KV_CLI_PYJSON_H
#define KV_CLI_PYJSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cli/jsonscan.h"

enum kv_pyjson_type {
	KV_PYJSON_NONE,
	KV_PYJSON_BOOL,
	KV_PYJSON_INT,
	KV_PYJSON_FLOAT,
	KV_PYJSON_STR,
	KV_PYJSON_LIST,
	KV_PYJSON_DICT,
};

/* VALUE must have passed kv_jsonscan_object, here and below. */
enum kv_pyjson_type kv_pyjson_type(struct kv_jsonscan_span value);

/* "NoneType", "bool", "int", ... */
const char *kv_pyjson_type_name(enum kv_pyjson_type type);

/* bool(VALUE) */
bool kv_pyjson_is_true(struct kv_jsonscan_span value);

/*
 * int(VALUE) of a bool, an int or a float, INT64_MIN or INT64_MAX if it lies
 * beyond them. -ERANGE for an infinity, -EINVAL for NaN and other types.
 */
int kv_pyjson_int(struct kv_jsonscan_span value, int64_t *out);

/*
 * A string's characters as UTF-8, ended by a NUL. -ENAMETOOLONG if SIZE bytes
 * do not hold them, -EILSEQ as above, -EINVAL if VALUE is no string.
 */
int kv_pyjson_str(struct kv_jsonscan_span value, char *out, size_t size);

/*
 * repr(VALUE), cut to SIZE > 3 bytes with "..." at its end; a key that comes
 * twice in a dict shows twice. -EILSEQ as above.
 */
int kv_pyjson_repr(struct kv_jsonscan_span value, char *out, size_t size);

/* repr of TEXT as a str; a byte that is not UTF-8 shows as Python's '\udcXX'.
 */
void kv_pyjson_repr_text(const char *text, char *out, size_t size);

#endif
