/*
 * The command line of every program: its own argp table, and beside it the
 * options that all have in common and those of the configuration's keys.
 *
 * Of the environment only MOONCAKE_CONFIG_PATH and XDG_RUNTIME_DIR are looked
 * at; in particular no *_PORT, which Kubernetes sets to an URL.
 */
#ifndef KV_CLI_OPTS_H
#define KV_CLI_OPTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "cli/conf.h"
#include "kvpool.h"

struct argp;
struct argp_state;

struct kv_opts {
	struct kv_conf conf;
	const char *config;  /* --config; NULL: not given */
	uint32_t timeout_ms; /* --timeout; 0: not given */
	bool json;           /* --json */
	bool is_mooncake;    /* called so: reads no file of vLLM's */
};

struct kv_opts_program {
	const struct argp *argp; /* without children */
	void *input;             /* its parser's */
	unsigned who;            /* of enum kv_conf_who */
};

/*
 * Parses the command line. An error in it ends the program: one line (and a
 * hint at --help if an option is unknown), exit code 64. --help, --usage and
 * --version ("PROG (kvpool) VERSION") end it with 0, or 74 if stdout does not
 * take that.
 *
 * A daemon that is called mooncake_master or mooncake_client has that program's
 * flags instead (mooncake.h), and says in the log which of them do nothing.
 *
 * Also sees to it that descriptors 0, 1 and 2 are taken, so that no socket gets
 * the number of a closed stdout, that a file at its size limit is an error and
 * no signal, and sets the log level: info for daemons, warnings for tools, one
 * more for each --verbose.
 */
void kv_opts_parse(struct kv_opts *o, const struct kv_opts_program *program,
		   int argc, char **argv);

/*
 * Reads the configuration file, if --config or MOONCAKE_CONFIG_PATH names one,
 * and checks all values. Returns 0, or the exit code after one line to stderr:
 * 78 if the file is to blame, 64 if an option is. Unknown keys are warned of.
 */
KV_MUST_CHECK int kv_opts_load(struct kv_opts *o);

/*
 * The socket path: --socket, of which "" means none, the file's, or
 * kv_sockpath_default(). Returns its length or -ENAMETOOLONG.
 */
KV_MUST_CHECK int kv_opts_socket(const struct kv_opts *o, char *buf, size_t n);

/*
 * What --protocol, or the file, says. Who asks for RDMA on the command line
 * means it; a file that engines read too, and Mooncake's own flag, ask for it
 * on machines that have none as well. What a file names that is not known here
 * is warned of.
 */
enum kv_protocol kv_opts_protocol(const struct kv_opts *o);

/* What --qps and --slice-size, or the file, say; 0: nothing, so that the
 * environment's counts. */
unsigned kv_opts_qps(const struct kv_opts *o);
uint64_t kv_opts_slice_bytes(const struct kv_opts *o);

/*
 * For the program's own parser: the value of OPTION (as typed, "--batch").
 * What is no such value or out of range ends the program as above.
 */
uint64_t kv_opts_number(const struct argp_state *state, const char *option,
			const char *arg, uint64_t min, uint64_t max);
uint64_t kv_opts_size(const struct argp_state *state, const char *option,
		      const char *arg, uint64_t min, uint64_t max);
uint64_t kv_opts_time(const struct argp_state *state, const char *option,
		      const char *arg, uint64_t min_ns, uint64_t max_ns);

/*
 * Whether LIST is one or up to KV_MASTERS_MAX addresses separated by commas,
 * each HOST, HOST:PORT, [IPV6] or [IPV6]:PORT; whether HOST is what others may
 * dial: HOST, IPV6 or [IPV6]. Names are not looked up. 0, or -EINVAL with ERR
 * in one line.
 */
int kv_opts_check_masters(const char *list, char *err, size_t size);
int kv_opts_check_host(const char *host, char *err, size_t size);

/* What kept a daemon from starting, an errno, as an exit code. */
int kv_opts_exit_code(int err);

#endif
