#include "resident.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/attr.h"
#include "test.h"

uint64_t
resident_bytes(const void *base, uint64_t bytes)
{
	size_t page = (size_t)getpagesize(), pages = bytes / page, n = 0, i;
	uint64_t *bits = calloc(pages, sizeof(*bits));
	off_t at = (off_t)((uintptr_t)base / page * sizeof(*bits));
	kv_auto_close int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);

	assert_non_null(bits);
	assert_true(fd >= 0);
	assert_int_equal(pread(fd, bits, pages * sizeof(*bits), at),
			 pages * sizeof(*bits));
	for (i = 0; i < pages; i++)
		n += bits[i] >> 63; /* present */
	free(bits);
	return n * page;
}
