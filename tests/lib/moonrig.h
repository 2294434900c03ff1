#ifndef KV_TEST_MOONRIG_H
#define KV_TEST_MOONRIG_H

/* Command lines of Mooncake, and what they are in ours. */

#include "cli/mooncake.h"

/* The current folder is a new one; at its end it must hold none but the files
 * that these tests write. */
int moonrig_enter(void **state);
int moonrig_leave(void **state);
void moonrig_file(const char *path, const char *text);

/* The code; our words behind the first and the notes, joined, or why not. */
int moonrig_translate(enum kv_conf_who who, const char *const *words);
extern char moonrig_argv[4096], moonrig_notes[4096], moonrig_err[2048];

#define MASTER(...)                       \
	moonrig_translate(KV_CONF_MASTER, \
			  (const char *const[]){ __VA_ARGS__, NULL })
#define CLIENT(...)                       \
	moonrig_translate(KV_CONF_CLIENT, \
			  (const char *const[]){ __VA_ARGS__, NULL })

/* What a command line without flags becomes. */
extern const char moonrig_master[], moonrig_client[];

#endif
