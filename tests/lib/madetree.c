#include "madetree.h"

#include <ftw.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "test.h"

void
madetree_new(char root[MADETREE_BYTES])
{
	snprintf(root, MADETREE_BYTES, "/tmp/kv_tree.XXXXXX");
	assert_non_null(mkdtemp(root));
}

static int
remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
	(void)st;
	(void)flag;
	(void)ftw;
	return remove(path);
}

void
madetree_free(const char *root)
{
	assert_int_equal(nftw(root, remove_one, 8, FTW_DEPTH | FTW_PHYS), 0);
}

static void
make_folders(char *full, const char *root)
{
	char *slash;

	for (slash = full + strlen(root); (slash = strchr(slash + 1, '/'));) {
		*slash = '\0';
		mkdir(full, 0700);
		*slash = '/';
	}
}

void
madetree_put(const char *root, const char *path, const char *fmt, ...)
{
	char full[512];
	va_list ap;
	FILE *f;

	snprintf(full, sizeof(full), "%s%s", root, path);
	make_folders(full, root);
	f = fopen(full, "we");
	assert_non_null(f);
	va_start(ap, fmt);
	assert_true(vfprintf(f, fmt, ap) >= 0);
	va_end(ap);
	assert_int_equal(fclose(f), 0);
}

void
madetree_link(const char *root, const char *path, const char *to)
{
	char full[512];

	snprintf(full, sizeof(full), "%s%s", root, path);
	make_folders(full, root);
	assert_int_equal(symlink(to, full), 0);
}
