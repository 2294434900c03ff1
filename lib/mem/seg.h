#ifndef KV_MEM_SEG_H
#define KV_MEM_SEG_H

#include "base/attr.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * A segment: the memory of a pool, shared between the process that owns it
 * and those that attach. It is a descriptor and one mapping of all of it,
 * aligned to 2 MiB; forked children and core dumps do not get it.
 *
 * Nothing of a new segment is there at first, and touching it may end in
 * SIGBUS. The owner faults it in part by part with kv_seg_populate(), which
 * returns errors, and only then tells others of that part.
 */
struct kv_seg {
	unsigned char *base;
	uint64_t bytes;
	uint64_t page_bytes;
	int fd;
	bool writable;
	bool sealed; /* the size cannot change any more */
	bool in_file;
	bool sparse;
	uint64_t found_bytes; /* size of the file before; 0 for a new one */
	long fs_type;         /* as statfs() has it */
	const char *root;
	bool by_hand; /* no MADV_POPULATE_*: kernels before 5.14 */
};

struct kv_seg_opts {
	uint64_t bytes; /* rounded up to whole pages */
	bool hugepages; /* of hugetlbfs, 2 MiB; not with path */

	/*
	 * A file that outlives the process, created if need be, else memory
	 * that ends with its last user. A file that has content is not
	 * touched, only locked: found_bytes tells, and once the content was
	 * recognised kv_seg_grow() makes it long enough.
	 */
	const char *path;
	/* The file is only as long as it is populated, and room for the rest is
	 * not looked for. */
	bool sparse;

	const char *root; /* prefix of /proc and /sys for tests; NULL: none */
};

/*
 * Makes a segment after checking that the machine and the container have room
 * for it. 0; or -errno with one line in err that names the cause and what to
 * do: -EINVAL, -ENOMEM, -ENOSPC, -EBUSY (another process owns the file), and
 * what system calls return.
 */
KV_MUST_CHECK int kv_seg_open(const struct kv_seg_opts *o, struct kv_seg **out,
			      char *err, size_t errlen);

/* No file on a disk: its pages are nowhere else. */
bool kv_seg_is_in_memory(const struct kv_seg *seg);
/* Makes a file that was found shorter as long as the segment. 0 or -errno. */
KV_MUST_CHECK int kv_seg_grow(struct kv_seg *seg);

/*
 * Faults a part in, so that reading and writing it cannot fail later; what a
 * file holds stays. Takes 0.1 to 0.5 s a GiB; any thread, several at once on
 * different parts. off and len in whole pages. 0; -ENOMEM also when so little
 * memory is left that the kernel would soon kill; -ENOSPC, -EFAULT, -EIO.
 */
KV_MUST_CHECK int kv_seg_populate(const struct kv_seg *seg, uint64_t off,
				  uint64_t len);

/*
 * A new descriptor for another process, read-only or not. It has its own open
 * file: locks and file status stay apart. -errno, as when /proc is missing.
 */
KV_MUST_CHECK int kv_seg_fd(const struct kv_seg *seg, bool writable);

struct kv_seg_attach_opts {
	uint64_t bytes; /* what the owner says */
	bool writable;

	/*
	 * The owner says that the size is sealed: then this is verified, and
	 * the mapping cannot shrink under its user. A pool file cannot be
	 * sealed; there the size is checked now, and the owner's word counts
	 * that it stays.
	 */
	bool sealed;
};

/*
 * Maps the segment of another process. Takes fd over if it succeeds. 0; or
 * -errno with a line in err: -EINVAL for what is no such segment (too short,
 * not sealed), -EACCES when it is to be writable and fd is not, -ENOMEM.
 */
KV_MUST_CHECK int kv_seg_attach(int fd, const struct kv_seg_attach_opts *o,
				struct kv_seg **out, char *err, size_t errlen);

/*
 * Enters a range that the owner announced into the page table, at a seventh of
 * what first stores cost (0.11 of 0.75 us a page). Rounds to pages. 0 or
 * -errno; where the kernel cannot do it, it does nothing.
 */
int kv_seg_map_ahead(const struct kv_seg *seg, uint64_t off, uint64_t len);

/* Unmaps and closes; NULL is allowed. Nobody may use the mapping any more. */
void kv_seg_close(struct kv_seg *seg);

#endif
