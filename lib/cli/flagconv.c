#include "cli/flagconv.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <ifaddrs.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/str.h"
#include "cli/opts.h"

enum {
	THREADS_MAX = 64, /* kvclient's --workers */
};

KV_PRINTF(3, 4)
static int
refuse(char *err, size_t size, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(err, size, fmt, ap);
	va_end(ap);
	for (; *err; err++)
		if (iscntrl((unsigned char)*err))
			*err = '?';
	return -EINVAL;
}

int
kv_flagconv_word(const char *text, char *out, char *err, size_t size)
{
	size_t n = strlen(text);

	if (n >= KV_FLAGCONV_SIZE)
		return refuse(err, size, "longer than %d bytes",
			      KV_FLAGCONV_SIZE - 1);
	memcpy(out, text, n + 1);
	return 0;
}

/* A whole number, which is plain decimal by now. */
static int
number(const char *text, long min, long max, char *out)
{
	long v = strtol(text, NULL, 10);

	snprintf(out, KV_FLAGCONV_SIZE, "%ld", v);
	return v < min || v > max ? -EINVAL : 0;
}

int
kv_flagconv_port(const char *text, char *out, char *err, size_t size)
{
	return number(text, 0, UINT16_MAX, out) < 0
		       ? refuse(err, size, "not from 0 to 65535")
		       : 0;
}

int
kv_flagconv_seconds(const char *text, char *out, char *err, size_t size)
{
	const long max = INT32_MAX;

	if (number(text, 1, max, out) < 0)
		return refuse(err, size, "not from 1 to %ld seconds", max);
	snprintf(out + strlen(out), 2, "s");
	return 0;
}

int
kv_flagconv_size(const char *text, char *out, char *err, size_t size)
{
	uint64_t bytes;

	if (kv_str_size(text, &bytes) < 0)
		return refuse(err, size, "no size such as 512MB or 1.5GB");
	snprintf(out, KV_FLAGCONV_SIZE, "%" PRIu64, bytes);
	return 0;
}

int
kv_flagconv_time(const char *text, char *out, char *err, size_t size)
{
	/* A number alone is milliseconds here, and seconds there. */
	bool is_bare = *text && !text[strspn(text, "0123456789")];
	char with_unit[64];
	uint64_t ns;

	snprintf(with_unit, sizeof(with_unit), is_bare ? "%sms" : "%s", text);
	if (strlen(text) > 32 || kv_str_duration(with_unit, &ns) < 0)
		return refuse(err, size, "no time such as 5000, 500ms or 10s");
	snprintf(out, KV_FLAGCONV_SIZE, "%" PRIu64,
		 (uint64_t)(ns / KV_NS_PER_MS));
	return 0;
}

int
kv_flagconv_ratio(const char *text, char *out, char *err, size_t size)
{
	double v = strtod(text, NULL);

	if (!(v >= 0 && v <= 1))
		return refuse(err, size, "not from 0 to 1");
	snprintf(out, KV_FLAGCONV_SIZE, "%g", v);
	return 0;
}

int
kv_flagconv_host(const char *text, char *out, char *err, size_t size)
{
	if (!*text || strcmp(text, "0.0.0.0") == 0 || strcmp(text, "::") == 0) {
		*out = '\0';
		return 0;
	}
	if (kv_opts_check_host(text, err, size) < 0)
		return -EINVAL;
	return kv_flagconv_word(text, out, err, size);
}

int
kv_flagconv_masters(const char *text, char *out, char *err, size_t size)
{
	if (strstr(text, "://"))
		return refuse(err, size,
			      "nobody is asked where the masters are: name "
			      "them, as in A:50051,B:50051");
	if (kv_opts_check_masters(text, err, size) < 0)
		return -EINVAL;
	return kv_flagconv_word(text, out, err, size);
}

/* One of WORDS, which are N. */
static int
choose(const char *text, const char *const *words, size_t n, char *out,
       char *err, size_t size)
{
	char list[128] = "";
	size_t len;

	for (size_t i = 0; i < n; i++) {
		if (strcmp(text, words[i]) == 0)
			return kv_flagconv_word(text, out, err, size);
		len = strlen(list);
		snprintf(list + len, sizeof(list) - len, "%s%s",
			 i == 0 ? "" : ", ", words[i]);
	}
	return refuse(err, size, "none of %s", list);
}

int
kv_flagconv_protocol(const char *text, char *out, char *err, size_t size)
{
	static const char *const words[] = { "tcp", "rdma" };

	return choose(text, words, KV_ARRAY_LEN(words), out, err, size);
}

int
kv_flagconv_threads(const char *text, char *out, char *err, size_t size)
{
	if (number(text, 1, INT32_MAX, out) < 0)
		return refuse(err, size, "not 1 or more");
	if (number(text, 1, THREADS_MAX, out) < 0)
		snprintf(out, KV_FLAGCONV_SIZE, "%d", THREADS_MAX);
	return 0;
}

int
kv_flagconv_allocator(const char *text, char *out, char *err, size_t size)
{
	static const char *const words[] = { "offset", "cachelib" };

	return choose(text, words, KV_ARRAY_LEN(words), out, err, size);
}

int
kv_flagconv_strategy(const char *text, char *out, char *err, size_t size)
{
	static const char *const words[] = { "random", "free_ratio_first",
					     "ssd_free_ratio_first",
					     "local_first" };

	return choose(text, words, KV_ARRAY_LEN(words), out, err, size);
}

int
kv_flagconv_interface(const char *text, char *out, char *err, size_t size)
{
	struct sockaddr_in in;
	struct ifaddrs *list, *i;

	if (getifaddrs(&list) < 0)
		return refuse(err, size, "cannot list interfaces: %m");
	for (i = list; i; i = i->ifa_next)
		if (strcmp(i->ifa_name, text) == 0 && i->ifa_addr &&
		    i->ifa_addr->sa_family == AF_INET)
			break;
	if (i) {
		memcpy(&in, i->ifa_addr, sizeof(in));
		inet_ntop(AF_INET, &in.sin_addr, out, INET_ADDRSTRLEN);
	}
	freeifaddrs(list);
	return i ? 0
		 : refuse(err, size,
			  "no interface of this name has an IPv4 address");
}
