#ifndef KV_CMD_KVGET_H
#define KV_CMD_KVGET_H

#include <stdbool.h>
#include <stddef.h>

#include "cli/opts.h"
#include "kvpool.h"

struct kvget_options {
	struct kv_opts common;
	const char *output; /* NULL: stdout */
	const char *dir;    /* NULL: not --batch */
	bool is_exist;
	bool is_nul;
	char **keys;
	size_t n_keys;
};

/* Each does its part of the program and returns the exit code. */
int kvget_fetch(const struct kvget_options *o, struct kv_client *c);
int kvget_exist(const struct kvget_options *o, struct kv_client *c);

#endif
