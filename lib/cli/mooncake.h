/*
 * mooncake_master and mooncake_client: other names of kvmaster and kvclient,
 * under which they take the command lines of Mooncake's programs. Each flag of
 * those is an option of ours, or has no meaning here, which is told, or is
 * refused; mooncake.def says which.
 */
#ifndef KV_CLI_MOONCAKE_H
#define KV_CLI_MOONCAKE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "base/attr.h"
#include "base/log.h"
#include "cli/conf.h"

struct kv_mooncake_note {
	enum kv_log_level level;
	char *text;
};

/* What a command line comes to. */
struct kv_mooncake {
	char **argv; /* in our own spelling, argv[argc] is NULL */
	int argc;
	bool is_help; /* that is wanted; nothing else counts */
	/* What the user should be told, in this order. */
	struct kv_mooncake_note *notes;
	size_t notes_n;
};

/* Whether ARGV0 calls the daemon of WHO by Mooncake's name, in any folder. */
bool kv_mooncake_is_name(const char *argv0, enum kv_conf_who who);

/*
 * Translates the command line of the daemon WHO, KV_CONF_MASTER or
 * KV_CONF_CLIENT, and what its --flagfile and --config_path name. 0, or an exit
 * code with ERR in one line, and M empty: 64 for a flag, 78 for a file, 71 for
 * want of memory.
 */
KV_MUST_CHECK int kv_mooncake_translate(enum kv_conf_who who, int argc,
					char *const *argv,
					struct kv_mooncake *m, char *err,
					size_t size);

void kv_mooncake_fini(struct kv_mooncake *m);

/* The list of all flags, called by NAME. */
void kv_mooncake_help(enum kv_conf_who who, const char *name, FILE *f);

#endif
