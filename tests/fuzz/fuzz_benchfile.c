/* Any bytes as a file of results: what is accepted can be printed. */
#include "cli/benchfile.h"

#include <assert.h>
#include <math.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct kv_benchfile f;
	char err[200] = "";
	int rc;

	rc = kv_benchfile_parse((const char *)data, size, &f, err, sizeof(err));
	assert((rc < 0) == (err[0] != '\0'));
	assert(!strpbrk(err, "\n\r"));
	if (rc < 0)
		return 0;
	assert(f.n <= KV_BENCHFILE_ROWS_MAX && f.host[0] && f.version[0]);
	for (size_t i = 0; i < f.n; i++) {
		const struct kv_benchfile_row *r = &f.rows[i];

		assert(r->name[0] && r->unit[0]);
		assert(!strpbrk(r->name, "\n\r\t") &&
		       strlen(r->name) <= KV_BENCHFILE_TEXT_MAX);
		assert(isfinite(r->value) && isfinite(r->ratio) &&
		       isfinite(r->bar));
		assert(r->value >= 0 && r->ratio >= 0 && r->bar >= 0);
	}
	kv_benchfile_fini(&f);
	return 0;
}
