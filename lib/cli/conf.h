/*
 * Configuration: mooncake_config.json as vLLM's connector reads it, and our
 * programs' options, which are the same keys.
 *
 * Each key has a default, may stand in the file and may be given as an option;
 * the option wins, whichever is read first. Values that vLLM reads too follow
 * its rules, its order of checks and its error texts.
 */
#ifndef KV_CLI_CONF_H
#define KV_CLI_CONF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cli/conftype.h"

enum {
	KV_CONF_FILE_BYTES_MAX = 1 << 20,
	KV_CONF_TEXT_SIZE = KV_CONFTYPE_TEXT_MAX + 1,
};

enum kv_conf_number {
#define KV_CONF(number, ...) KV_CONF_##number,
#include "cli/conf.def"
#undef KV_CONF
	KV_CONF_KEYS,
};

/* Whose options: bits, a key may be an option of several programs. */
enum kv_conf_who {
	KV_CONF_MASTER = 1, /* kvmaster */
	KV_CONF_CLIENT = 2, /* kvclient */
	KV_CONF_TOOL = 4,   /* kvput, kvget, kvrm, kvdiag, kvbench */
	/* And some of the tools: */
	KV_CONF_DIALER = 8, /* values come and go: kvput, kvget, kvbench */
	KV_CONF_MOVER = 16, /* it moves bytes itself: kvbench */
};

enum kv_conf_source {
	KV_CONF_DEFAULT,
	KV_CONF_FILE,
	KV_CONF_OPTION,
};

struct kv_conf {
	/* What vLLM reads; sizes in bytes. */
	int64_t global_segment_size;
	int64_t local_buffer_size;
	bool enable_offload;
	char tenant_id[KV_CONF_TEXT_SIZE];
	char mode[KV_CONF_TEXT_SIZE];
	char metadata_server[KV_CONF_TEXT_SIZE];
	char master_server_address[KV_CONF_TEXT_SIZE];
	char protocol[KV_CONF_TEXT_SIZE];
	char device_name[KV_CONF_TEXT_SIZE];
	uint16_t qps;       /* both: the environment's if the source is the */
	int64_t slice_size; /* default: kv_opts_qps() */

	/* Ours. */
	char host[KV_CONF_TEXT_SIZE];   /* "": found out at start */
	char listen[KV_CONF_TEXT_SIZE]; /* "": all addresses */
	/* The same for HTTP; that of listen if its source is the default. */
	char http_listen[KV_CONF_TEXT_SIZE];
	char socket[KV_CONF_TEXT_SIZE]; /* "": kv_sockpath_default() */
	uint16_t rpc_port;              /* kvmaster's */
	uint16_t port;                  /* kvclient's */
	uint16_t http_port;             /* kvmaster's; 0: none */
	uint16_t client_http_port;      /* kvclient's; 0: none */
	uint64_t client_ttl_ns;
	bool hugepages;
	char pool_file[KV_CONF_TEXT_SIZE]; /* "": memory */

	/* What was loaded, or NULL; the string is the caller's. */
	const char *file;
	/* enum kv_conf_source of each key, by its number */
	uint8_t source[KV_CONF_KEYS];
	/*
	 * Told about each unknown key of a file, in one line without newline;
	 * NULL, the default: nobody is.
	 */
	void (*warn)(void *arg, const char *text);
	void *warn_arg;
};

struct kv_conf_key {
	const char *name;   /* in the file */
	const char *option; /* without its "--" */
	const char *arg;    /* its argument, as --help names it */
	const char *help;
	const char *preset; /* the default, as an option would give it */
	const struct kv_conftype *type;
	size_t offset; /* in struct kv_conf */
	unsigned who;  /* bits of enum kv_conf_who */
	char letter;   /* short option or 0 */
};

const struct kv_conf_key *kv_conf_key(enum kv_conf_number number);

/* Defaults for every key. */
void kv_conf_init(struct kv_conf *c);

/*
 * Reads the text of a file. Values that came from an option stay, but what the
 * text says there is checked all the same.
 *
 * 0; -EINVAL for a text that is no JSON object, for a value of a wrong type or
 * form; -EFBIG above KV_CONF_FILE_BYTES_MAX. Then C is as it was and ERR (of
 * SIZE > 0 bytes, cut to fit, always one line) says why. No I/O.
 */
int kv_conf_parse(const char *text, size_t len, struct kv_conf *c, char *err,
		  size_t size);

/*
 * The same for a file; NULL: the one that MOONCAKE_CONFIG_PATH names. Also
 * -errno of the system, and -ENOENT if that variable is unset or empty.
 * ERR starts with the path, and the line and column of a syntax error.
 */
int kv_conf_load(const char *path, struct kv_conf *c, char *err, size_t size);

/* MOONCAKE_CONFIG_PATH, or NULL if it is unset or empty. */
const char *kv_conf_env_path(void);

/*
 * Sets key NUMBER from its option. TEXT may be NULL for a flag. 0, or -EINVAL
 * with ERR as above, starting with the option.
 */
int kv_conf_set(struct kv_conf *c, enum kv_conf_number number, const char *text,
		char *err, size_t size);

/*
 * The rules between values, after file and options are in: as vLLM checks mode,
 * local_buffer_size and global_segment_size, then what fits in 63 bits. 0, or
 * -EINVAL with ERR.
 *
 * A segment size given as an option is not held against the mode: the file
 * speaks of what each engine process contributes, and a standalone-store
 * kvclient started from that file brings a pool of its own.
 */
int kv_conf_check(const struct kv_conf *c, char *err, size_t size);

/* The value of key NUMBER as text; KV_CONF_TEXT_SIZE bytes are enough. */
void kv_conf_show(const struct kv_conf *c, enum kv_conf_number number,
		  char *buf, size_t size);

/* Where the value came from: "option", "file" or "default". */
const char *kv_conf_source_name(const struct kv_conf *c,
				enum kv_conf_number number);

#endif
