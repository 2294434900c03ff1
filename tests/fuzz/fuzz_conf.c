/* Any bytes as mooncake_config.json: what is accepted is in range and checks
 * out or is refused in one line, and can be shown. */
#include "cli/conf.h"

#include <assert.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
warn(void *arg, const char *text)
{
	(*(unsigned *)arg)++;
	assert(!strpbrk(text, "\n\r"));
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char err[512] = "", text[KV_CONF_TEXT_SIZE];
	unsigned warnings = 0;
	struct kv_conf c;
	int rc;

	kv_conf_init(&c);
	c.warn = warn;
	c.warn_arg = &warnings;
	rc = kv_conf_parse((const char *)data, size, &c, err, sizeof(err));
	if (!rc)
		rc = kv_conf_check(&c, err, sizeof(err));
	assert((rc < 0) == (err[0] != '\0'));
	assert(!strpbrk(err, "\n\r"));
	assert(warnings <= 33);
	for (unsigned i = 0; i < KV_CONF_KEYS; i++)
		kv_conf_show(&c, i, text, sizeof(text));
	if (!rc)
		assert(c.local_buffer_size > 0 && c.global_segment_size >= 0);
	return 0;
}
