#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "store/sum.h"
#include "svc/doctor.h"

/* A shorter run of hexadecimal digits is a number or a word. */
#define HASH_DIGITS 16

#define CHECK "key spaces"

enum {
	FORMS_MAX = 256,   /* more are left out */
	PUTTERS_MAX = 256, /* of one form */
};

struct putter {
	uint16_t who;
	uint64_t keys;
};

/* Keys that are the same but for their hashes. */
struct form {
	uint64_t sum;
	char text[64]; /* its begin, for people */
	uint64_t shared;
	unsigned n;
	struct putter putters[PUTTERS_MAX];
};

struct kv_doctor_keys {
	uint64_t seen;
	unsigned n;
	struct form forms[FORMS_MAX];
};

struct kv_doctor_keys *
kv_doctor_keys_new(void)
{
	return calloc(1, sizeof(struct kv_doctor_keys));
}

void
kv_doctor_keys_free(struct kv_doctor_keys *k)
{
	free(k);
}

/* The key with '#' for each hash; its length, or 0 when it has none. */
static size_t
form_of(char out[KV_KEY_BYTES_MAX], struct kv_key key)
{
	const unsigned char *p = key.data, *end = p + key.len;
	size_t n = 0, run;
	bool has_hash = false;

	while (p < end) {
		for (run = 0; p + run < end && isxdigit(p[run]);)
			run++;
		if (run >= HASH_DIGITS) {
			out[n++] = '#';
			has_hash = true;
			p += run;
			continue;
		}
		/* What ends the run goes with it. */
		run += p + run < end;
		memcpy(out + n, p, run);
		n += run;
		p += run;
	}
	return has_hash ? n : 0;
}

static struct form *
form_find(struct kv_doctor_keys *k, const char *text, size_t len)
{
	uint64_t sum = kv_sum_of(text, len);
	struct form *f;
	size_t i;

	for (f = k->forms; f < k->forms + k->n; f++)
		if (f->sum == sum)
			return f;
	if (k->n == FORMS_MAX)
		return NULL;
	k->n++;
	f->sum = sum;
	for (i = 0; i < len && i < sizeof(f->text) - 1; i++)
		f->text[i] = isprint((unsigned char)text[i]) ? text[i] : '?';
	return f;
}

void
kv_doctor_keys_add(struct kv_doctor_keys *k, struct kv_key key, uint16_t putter,
		   bool is_shared)
{
	char text[KV_KEY_BYTES_MAX];
	struct form *f;
	size_t len;
	unsigned i;

	k->seen++;
	if (key.len > sizeof(text))
		return;
	len = form_of(text, key);
	f = len && putter ? form_find(k, text, len) : NULL;
	if (!f)
		return;
	f->shared += is_shared;
	for (i = 0; i < f->n && f->putters[i].who != putter;)
		i++;
	if (i == PUTTERS_MAX)
		return;
	if (i == f->n)
		f->putters[f->n++].who = putter;
	f->putters[i].keys++;
}

/* Processes that put much of it, and how many keys. */
static unsigned
form_busy(const struct form *f, uint64_t *keys)
{
	unsigned i, n = 0;

	*keys = 0;
	for (i = 0; i < f->n; i++)
		if (f->putters[i].keys >= KV_DOCTOR_PUTS) {
			*keys += f->putters[i].keys;
			n++;
		}
	return n;
}

void
kv_doctor_keys_judge(struct kv_doctor *d, const struct kv_doctor_keys *k,
		     uint64_t asked)
{
	uint64_t keys, shared = 0;
	const struct form *f;
	bool is_bad = false;
	unsigned n, most = 0;

	for (f = k->forms; f < k->forms + k->n; f++) {
		n = form_busy(f, &keys);
		most = n > most ? n : most;
		shared += f->shared;
		if (n < 2 || f->shared || asked < KV_DOCTOR_ASKED)
			continue;
		is_bad = true;
		kv_doctor_say(
			d, KV_DOCTOR_WARNING, CHECK,
			"if they should share, give all engines the same "
			"PYTHONHASHSEED (also the same model name, block size "
			"and data type), restart them, and `kvrm --all`",
			"%u processes put %" PRIu64 " keys like '%s', %" PRIu64
			" keys were asked for, and none of these was ever read "
			"by another than who put it",
			n, keys, f->text, asked);
	}
	if (is_bad)
		return;
	if (shared || most > 1)
		kv_doctor_say(d, KV_DOCTOR_OK, CHECK, "",
			      "of %" PRIu64 " keys looked at %" PRIu64
			      " were read by another process than put them",
			      k->seen, shared);
	else
		kv_doctor_say(d, KV_DOCTOR_OK, CHECK, "",
			      "nothing to compare: no two processes put %d "
			      "keys of one form (%" PRIu64 " keys looked at)",
			      KV_DOCTOR_PUTS, k->seen);
}
