#include "poolfilerig.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "test.h"

char pool_folder[64], pool_path[96], pool_index_path[96], pool_err[512];
bool pool_is_mounted;

int
poolfilerig_setup(void **state)
{
	(void)state;
	kv_log_set_level(KV_LOG_ERR);
	snprintf(pool_folder, sizeof(pool_folder),
		 "/tmp/kv.test_poolfile.XXXXXX");
	assert_non_null(mkdtemp(pool_folder));
	pool_is_mounted =
		mount("kv_test", pool_folder, "tmpfs", 0, "size=32m") == 0;
	snprintf(pool_path, sizeof(pool_path), "%s/pool", pool_folder);
	snprintf(pool_index_path, sizeof(pool_index_path), "%s/pool.index",
		 pool_folder);
	return 0;
}

int
poolfilerig_teardown(void **state)
{
	(void)state;
	unlink(pool_path);
	unlink(pool_index_path);
	umount2(pool_folder, MNT_DETACH);
	assert_int_equal(rmdir(pool_folder), 0);
	return 0;
}

int
poolfilerig_try(uint64_t bytes, struct kv_poolfile **p)
{
	const struct kv_poolfile_opts o = { .path = pool_path, .bytes = bytes };

	pool_err[0] = 0;
	*p = NULL;
	return kv_poolfile_open(&o, p, pool_err, sizeof(pool_err));
}

struct kv_poolfile *
poolfilerig_open(uint64_t bytes)
{
	struct kv_poolfile *p;
	int rc = poolfilerig_try(bytes, &p);

	if (rc < 0)
		fail_msg("%s", pool_err);
	return p;
}

uint64_t
poolfilerig_size(const char *name)
{
	struct stat st;

	return stat(name, &st) ? UINT64_MAX : (uint64_t)st.st_size;
}

void
poolfilerig_write(const char *name, off_t off, const void *bytes, size_t n)
{
	int fd = open(name, O_RDWR | O_CREAT, 0600);

	assert_true(fd >= 0);
	assert_int_equal(pwrite(fd, bytes, n, off), n);
	close(fd);
}
