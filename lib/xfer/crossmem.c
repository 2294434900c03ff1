#include "xfer/crossmem.h"

#include <errno.h>
#include <string.h>

#include "base/num.h"
#include "mem/copy.h"

int
kv_crossmem_try(pid_t pid, uint64_t token_addr, const struct kv_id *token,
		const char **why)
{
	struct kv_id seen = { 0 };
	struct iovec here = { .iov_base = &seen, .iov_len = sizeof(seen) };
	struct iovec there = {
		.iov_base = kv_crossmem_ptr(token_addr),
		.iov_len = sizeof(seen),
	};
	ssize_t n;

	*why = "the other process is in another PID name space";
	if (pid <= 0)
		return -ESRCH;
	n = process_vm_readv(pid, &here, 1, &there, 1, 0);
	if (n < 0) {
		*why = errno == EPERM
			       ? "the kernel does not permit cross-memory attach"
			       : strerrordesc_np(errno);
		return -errno;
	}
	if ((size_t)n == sizeof(seen) && kv_id_is_equal(seen, *token))
		return 0;
	*why = "its token is not where it should be: the pid is another "
	       "process here";
	return -ESRCH;
}

/* Takes n bytes off the front of a list; returns how many pieces are used up.
 */
static int
advance(struct iovec *iov, int count, size_t n)
{
	int i = 0;

	while (i < count && n >= iov[i].iov_len)
		n -= iov[i++].iov_len;
	if (n > 0) {
		iov[i].iov_base = (char *)iov[i].iov_base + n;
		iov[i].iov_len -= n;
	}
	return i;
}

int
kv_crossmem_move(pid_t pid, bool write, struct iovec *local, int n_local,
		 struct iovec *remote, int n_remote)
{
	while (n_local > 0) {
		ssize_t n =
			write ? process_vm_writev(pid, local, (size_t)n_local,
						  remote, (size_t)n_remote, 0)
			      : process_vm_readv(pid, local, (size_t)n_local,
						 remote, (size_t)n_remote, 0);
		int used;

		if (n < 0)
			return -errno;
		if (n == 0)
			return -EFAULT;
		used = advance(local, n_local, (size_t)n);
		local += used;
		n_local -= used;
		used = advance(remote, n_remote, (size_t)n);
		remote += used;
		n_remote -= used;
	}
	return 0;
}

void
kv_crossmem_copy(bool write, const struct iovec *local, int n_local,
		 const struct iovec *remote, int n_remote)
{
	size_t at_local = 0, at_remote = 0;

	while (n_local > 0 && n_remote > 0) {
		char *here = (char *)local->iov_base + at_local;
		char *there = (char *)remote->iov_base + at_remote;
		size_t n = kv_min_size(local->iov_len - at_local,
				       remote->iov_len - at_remote);

		if (write)
			kv_copy(there, here, n);
		else
			kv_copy(here, there, n);
		at_local += n;
		at_remote += n;
		if (at_local == local->iov_len) {
			local++, n_local--;
			at_local = 0;
		}
		if (at_remote == remote->iov_len) {
			remote++, n_remote--;
			at_remote = 0;
		}
	}
}
