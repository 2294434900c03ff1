/*
 * Stands in for libFuzzer: runs a fuzz target over kept inputs and says so in
 * TAP. The inputs are the arguments, or, without any, the files of
 * tests/corpus/NAME, where NAME is this program's name. An input that kills
 * the program is the one named by the last comment line.
 */
#include <dirent.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Returns the file's bytes in a block of just their size, so that a sanitizer
 * sees the first byte read past the end; NULL with errno set on failure. */
static uint8_t *
read_whole(const char *path, size_t *size)
{
	uint8_t *data = NULL;
	FILE *f = fopen(path, "rbe");
	long n;

	if (!f)
		return NULL;
	if (fseek(f, 0, SEEK_END) || (n = ftell(f)) < 0)
		goto close_file;
	rewind(f);
	data = malloc((size_t)n);
	if (data && fread(data, 1, (size_t)n, f) != (size_t)n) {
		free(data);
		data = NULL;
		errno = EIO;
	}
	*size = (size_t)n;
close_file:
	fclose(f);
	return data;
}

static int
replay(int number, const char *path)
{
	size_t size = 0;
	uint8_t *data;

	printf("# %s\n", path);
	data = read_whole(path, &size);
	if (!data) {
		printf("not ok %d - %s: %s\n", number, path, strerror(errno));
		return 1;
	}
	LLVMFuzzerTestOneInput(data, size);
	free(data);
	printf("ok %d - %s\n", number, path);
	return 0;
}

static int
is_visible(const struct dirent *d)
{
	return d->d_name[0] != '.';
}

static int
replay_dir(const char *dir)
{
	struct dirent **names;
	char path[4096];
	int failed = 0;
	int n = scandir(dir, &names, is_visible, alphasort);

	if (n <= 0) {
		printf("1..1\nnot ok 1 - %s: no inputs\n", dir);
		return 1;
	}
	printf("1..%d\n", n);
	for (int i = 0; i < n; i++) {
		snprintf(path, sizeof(path), "%s/%s", dir, names[i]->d_name);
		failed += replay(i + 1, path);
		free(names[i]);
	}
	free(names);
	return failed != 0;
}

int
main(int argc, char **argv)
{
	char dir[1024];
	int failed = 0;

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc < 2) {
		snprintf(dir, sizeof(dir), "tests/corpus/%s",
			 program_invocation_short_name);
		return replay_dir(dir);
	}
	printf("1..%d\n", argc - 1);
	for (int i = 1; i < argc; i++)
		failed += replay(i, argv[i]);
	return failed != 0;
}
