#ifndef KV_SVC_POOLFILE_H
#define KV_SVC_POOLFILE_H

/*
 * A pool in a file, that outlives the processes which serve it: PATH has its
 * bytes, PATH.index says what they are (store/record.h). Both belong to the one
 * process that has them locked.
 *
 * Who attaches gets an open file of its own, on which there is a lock at a byte
 * that stands for the life of the node that gave it away. The kernel keeps it
 * until the last descriptor and mapping of it are gone, whatever becomes of the
 * node: so later nodes see who is still there.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"

struct kv_ledger;
struct kv_poolfile;
struct kv_seg;

struct kv_poolfile_opts {
	const char *path;
	uint64_t bytes;
	const char *root; /* prefix of /proc and /sys for tests; NULL: none */
};

/*
 * Opens the pool, or makes a new one of a path that does not exist or is empty;
 * a pool of another size is changed to this one. 0; or -errno with one line in
 * err that says what to do: -EBUSY (another process has it), -EINVAL (what is
 * there is something else), -EPERM (it is another user's), -EPROTONOSUPPORT (of
 * a later version), and as kv_seg_open(). What is refused for these reasons is
 * left as it is.
 */
KV_MUST_CHECK int kv_poolfile_open(const struct kv_poolfile_opts *o,
				   struct kv_poolfile **out, char *err,
				   size_t err_bytes);

/* What is in it stays. NULL is fine. Nobody may use segment or ledger any
 * more. */
void kv_poolfile_close(struct kv_poolfile *p);

struct kv_seg *kv_poolfile_seg(struct kv_poolfile *p);
struct kv_ledger *kv_poolfile_ledger(struct kv_poolfile *p);

/* What was in it counts for nothing: it is new, or another kernel ran. */
bool kv_poolfile_is_void(const struct kv_poolfile *p);

/* These have the form of struct kv_node_file's; arg: the pool file. */

/* A descriptor for a process that attaches, the caller's; or -errno. */
int kv_poolfile_attach(void *arg, bool may_write);
bool kv_poolfile_is_attached(void *arg, uint32_t from, uint32_t to);
uint64_t kv_poolfile_data_end(void *arg, uint64_t off);
/* Nobody holds anything of earlier lives: a file that is too long is cut. */
void kv_poolfile_settled(void *arg);

#endif
