/*
 * Types of configuration values: how one is read from the file, from an option,
 * and shown. What has a counterpart in vLLM's reader follows it to the letter.
 */
#ifndef KV_CLI_CONFTYPE_H
#define KV_CLI_CONFTYPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cli/jsonscan.h"

enum {
	KV_CONFTYPE_TEXT_MAX = 1023, /* bytes of any value as text */
};

/* Where a reader says in one line why it refuses; cut to fit. */
struct kv_conftype_why {
	char *p;
	size_t size;
};

struct kv_conftype {
	size_t size;  /* of the field */
	bool is_flag; /* an option without an argument means "true" */
	/* Its refusals name the key already, as vLLM words them. */
	bool names_key;
	/*
	 * Both: 0, or -EINVAL with *why filled and FIELD as it was. VALUE has
	 * passed kv_jsonscan_object.
	 */
	int (*read)(void *field, struct kv_jsonscan_span value,
		    struct kv_conftype_why *why);
	int (*set)(void *field, const char *text, struct kv_conftype_why *why);
	void (*show)(const void *field, char *buf, size_t size);
};

/* A field of char[KV_CONFTYPE_TEXT_MAX + 1]. */
extern const struct kv_conftype kv_conftype_text;

/* The same; as an option "tcp" or "rdma". (vLLM takes what stands there.) */
extern const struct kv_conftype kv_conftype_protocol;

/* The same, blanks around it taken off, at most KV_TENANT_BYTES_MAX. In the
 * file null and blank are "default". */
extern const struct kv_conftype kv_conftype_tenant;

/*
 * The same: "embedded", "standalone-store", or the Python repr of what else was
 * there, which can be neither. So a wrong mode is found after what vLLM checks
 * before it.
 */
extern const struct kv_conftype kv_conftype_mode;

/*
 * int64_t, bytes, INT64_MAX for all beyond. The file's strings as in vLLM; an
 * option takes all that kv_str_size takes. Negative numbers pass.
 */
extern const struct kv_conftype kv_conftype_size;

/* bool. In the file: true or false; Python's truth of any value. */
extern const struct kv_conftype kv_conftype_bool;
extern const struct kv_conftype kv_conftype_truth;

/* uint16_t, a number or its digits as a string. */
extern const struct kv_conftype kv_conftype_port;

/* uint16_t, the same, 1 to 4. */
extern const struct kv_conftype kv_conftype_qps;

/* int64_t, bytes, 64 KiB to 1 GiB, as kv_conftype_size. */
extern const struct kv_conftype kv_conftype_slice;

/* uint64_t, nanoseconds; a number in the file is in seconds. */
extern const struct kv_conftype kv_conftype_time;

#endif
