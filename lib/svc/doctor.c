#include "svc/doctor.h"

#include <stdarg.h>
#include <stdio.h>

const char *
kv_doctor_word(enum kv_doctor_level level)
{
	static const char *const words[] = {
		[KV_DOCTOR_OK] = "ok",
		[KV_DOCTOR_WARNING] = "warning",
		[KV_DOCTOR_FAULT] = "fault",
	};

	return words[level];
}

void
kv_doctor_say(struct kv_doctor *d, enum kv_doctor_level level,
	      const char *check, const char *advice, const char *fmt, ...)
{
	struct kv_doctor_finding f = {
		.level = level,
		.check = check,
		.advice = advice,
	};
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(f.fact, sizeof(f.fact), fmt, ap);
	va_end(ap);
	d->found[level]++;
	d->tell(d->arg, &f);
}
