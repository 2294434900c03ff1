#include "moonrig.h"

#include "test.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char dir[] = "/tmp/kv.test_mooncake.XXXXXX";
char moonrig_argv[4096], moonrig_notes[4096], moonrig_err[2048];

int
moonrig_enter(void **state)
{
	(void)state;
	return mkdtemp(dir) && chdir(dir) == 0 ? 0 : -1;
}

int
moonrig_leave(void **state)
{
	static const char *const names[] = { "m.yaml", "m.json", "m.yml",
					     "flags",  "more",   "big" };

	(void)state;
	for (size_t i = 0; i < KV_ARRAY_LEN(names); i++)
		unlink(names[i]);
	return rmdir(dir);
}

void
moonrig_file(const char *path, const char *text)
{
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	assert_true(fputs(text, f) >= 0);
	assert_int_equal(fclose(f), 0);
}

int
moonrig_translate(enum kv_conf_who who, const char *const *words)
{
	char *argv[64], copies[64][256];
	struct kv_mooncake m;
	size_t n = 0;
	int argc = 0, code;

	for (; words[argc]; argc++) {
		assert_true(argc < 63);
		snprintf(copies[argc], sizeof(copies[0]), "%s", words[argc]);
		argv[argc + 1] = copies[argc];
	}
	argv[0] = copies[63];
	strcpy(argv[0], "mooncake_x");
	moonrig_argv[0] = moonrig_notes[0] = moonrig_err[0] = '\0';
	code = kv_mooncake_translate(who, argc + 1, argv, &m, moonrig_err,
				     sizeof(moonrig_err));
	if (code) {
		assert_null(m.argv);
		assert_null(m.notes);
		assert_false(strchr(moonrig_err, '\n'));
		return code;
	}
	assert_string_equal(m.argv[0], "mooncake_x");
	assert_null(m.argv[m.argc]);
	for (int i = 1; i < m.argc; i++)
		n += (size_t)snprintf(moonrig_argv + n,
				      sizeof(moonrig_argv) - n, "%s%s",
				      i > 1 ? " " : "", m.argv[i]);
	n = 0;
	for (size_t i = 0; i < m.notes_n; i++)
		n += (size_t)snprintf(moonrig_notes + n,
				      sizeof(moonrig_notes) - n, "%s%s",
				      i ? "\n" : "", m.notes[i].text);
	if (m.is_help)
		strcpy(moonrig_argv, "help");
	kv_mooncake_fini(&m);
	return 0;
}

const char moonrig_master[] =
	"--http-port=9003 --client-ttl=10s --rpc-port=50051 --http-listen=";

const char moonrig_client[] =
	"--master=127.0.0.1:50051 --port=50052 "
	"--global-segment-size=4294967296 --protocol=tcp "
	"--metadata-server=http://127.0.0.1:8080/metadata --tenant=default "
	"--workers=2 --http-port=0";
