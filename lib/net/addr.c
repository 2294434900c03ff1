#include "net/addr.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/attr.h"
#include "base/hostname.h"
#include "base/limits.h"
#include "base/num.h"
#include "base/str.h"

_Static_assert(KV_ADDR_NAME_BYTES_MAX >= KV_SOCKPATH_BYTES_MAX,
	       "a path fits where a name does");

/* One call of kv_addr_parse. */
struct parse {
	const char *text; /* the whole */
	char *err;
	size_t n;
	struct kv_addr addr;
};

/* "'TEXT': REASON". What was written is shown in part when it is long. */
KV_PRINTF(3, 4)
static int
refuse(struct parse *p, int code, const char *fmt, ...)
{
	char shown[96], reason[128];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(reason, sizeof(reason), fmt, ap);
	va_end(ap);
	kv_str_escape(shown, sizeof(shown), p->text, strlen(p->text));
	snprintf(p->err, p->n, "address '%s': %s", shown, reason);
	return code;
}

static int
set_port(struct parse *p, const char *text, uint16_t default_port)
{
	uint64_t port = default_port;
	int err = text ? kv_str_u64(text, 0, UINT16_MAX, &port) : 0;

	if (err == -ERANGE)
		return refuse(p, -ERANGE, "a port is at most 65535");
	if (err)
		return refuse(p, -EINVAL, "a port number must follow the ':'");
	if (!text && !port)
		return refuse(p, -EINVAL,
			      "a port is missing, as in host:50051");
	p->addr.port = (uint16_t)port;
	return 0;
}

static int
set_host(struct parse *p, const char *s, size_t len)
{
	char *name = p->addr.name;
	const char *fault;

	if (len > KV_ADDR_NAME_BYTES_MAX)
		return refuse(p, -EINVAL, "a host name has at most %d bytes",
			      KV_ADDR_NAME_BYTES_MAX);
	memcpy(name, s, len);
	name[len] = 0;
	if (!strcmp(name, "*"))
		name[0] = 0;
	fault = name[0] ? kv_hostname_fault(name) : NULL;
	return fault ? refuse(p, -EINVAL, "%s", fault) : 0;
}

static int
set_bracketed(struct parse *p, const char *s, size_t len)
{
	struct in6_addr in6;

	if (len > KV_ADDR_NAME_BYTES_MAX)
		return refuse(p, -EINVAL, "that is no IPv6 address");
	memcpy(p->addr.name, s, len);
	p->addr.name[len] = 0;
	if (!kv_hostname_ipv6(p->addr.name, &in6))
		return refuse(p, -EINVAL, "in brackets stands an IPv6 address");
	return 0;
}

static int
parse_tcp(struct parse *p, const char *s, uint16_t default_port)
{
	const char *end = s + strcspn(s, ":");
	int err;

	p->addr.kind = KV_ADDR_TCP;
	if (*s == '[') {
		end = strchr(s, ']');
		if (!end)
			return refuse(p, -EINVAL, "a ']' is missing");
		err = set_bracketed(p, s + 1, (size_t)(end - s - 1));
		end++;
	} else if (*end && strchr(end + 1, ':')) {
		return refuse(p, -EINVAL,
			      "there are several ':'; an IPv6 address stands "
			      "in brackets, as in [::1]:50051");
	} else {
		err = set_host(p, s, (size_t)(end - s));
	}
	if (err)
		return err;
	if (*end && *end != ':')
		return refuse(p, -EINVAL, "only ':' and a port follow a ']'");
	return set_port(p, *end ? end + 1 : NULL, default_port);
}

static int
parse_unix(struct parse *p, const char *path)
{
	size_t len = strlen(path);

	p->addr.kind = KV_ADDR_UNIX;
	if (!len)
		return refuse(p, -EINVAL, "a path must follow 'unix:'");
	if (len > KV_SOCKPATH_BYTES_MAX)
		return refuse(p, -ENAMETOOLONG,
			      "a socket's path has at most %d bytes, not %zu",
			      KV_SOCKPATH_BYTES_MAX, len);
	memcpy(p->addr.name, path, len + 1);
	return 0;
}

/* What follows the scheme; NULL when s has another one, or none. */
static const char *
after_scheme(const char *s, const char *scheme)
{
	size_t len = strlen(scheme);

	return strncmp(s, scheme, len) ? NULL : s + len;
}

int
kv_addr_parse(const char *text, uint16_t default_port, struct kv_addr *out,
	      char *err, size_t n)
{
	struct parse p = { .text = text, .err = err, .n = n };
	const char *rest;
	int code;

	if (!*text)
		code = refuse(&p, -EINVAL, "it is empty");
	else if (after_scheme(text, "rdma:"))
		code = refuse(&p, -ENOTSUP, "RDMA is not supported");
	else if ((rest = after_scheme(text, "unix:")))
		code = parse_unix(&p, rest);
	else if ((rest = after_scheme(text, "tcp:")))
		code = parse_tcp(&p, rest, default_port);
	else
		code = parse_tcp(&p, text, default_port);
	if (!code)
		*out = p.addr;
	return code;
}

static bool
is_blank(char c)
{
	return c == ' ' || c == '\t';
}

/* The item at *text, without the blanks around it; *text is then at the comma
 * behind it or at the end. False when it is longer than any address. */
static bool
next_item(const char **text, char *item, size_t size)
{
	const char *s = *text;
	size_t len;

	while (is_blank(*s))
		s++;
	len = strcspn(s, ",");
	*text = s + len;
	while (len && is_blank(s[len - 1]))
		len--;
	if (len >= size)
		return false;
	memcpy(item, s, len);
	item[len] = 0;
	return true;
}

int
kv_addr_parse_list(const char *text, uint16_t default_port, struct kv_addr *out,
		   int max, char *err, size_t n)
{
	char item[KV_ADDR_TEXT_BYTES_MAX];
	int count = 0;

	for (;; text++) {
		struct parse whole = { .text = text, .err = err, .n = n };
		int code;

		if (count == max)
			return refuse(&whole, -E2BIG,
				      "there are more than %d addresses", max);
		if (!next_item(&text, item, sizeof(item)))
			return refuse(&whole, -EINVAL, "it is too long");
		code = kv_addr_parse(item, default_port, &out[count], err, n);
		if (code)
			return code;
		count++;
		if (!*text)
			return count;
	}
}

const char *
kv_addr_format(const struct kv_addr *a, char *buf)
{
	const char *before = "", *after = "";

	if (a->kind == KV_ADDR_UNIX) {
		snprintf(buf, KV_ADDR_TEXT_BYTES_MAX, "unix:%s", a->name);
		return buf;
	}
	if (strchr(a->name, ':')) {
		before = "[";
		after = "]";
	} else if (!strcmp(a->name, "tcp") || !strcmp(a->name, "unix") ||
		   !strcmp(a->name, "rdma")) {
		before = "tcp:";
	}
	snprintf(buf, KV_ADDR_TEXT_BYTES_MAX, "%s%s%s:%u", before, a->name,
		 after, a->port);
	return buf;
}

static bool
is_below_localhost(const char *name)
{
	static const char tail[] = "localhost";
	size_t len = strlen(name);
	size_t tail_len = sizeof(tail) - 1;

	if (len && name[len - 1] == '.')
		len--;
	return len >= tail_len &&
	       !strncasecmp(name + len - tail_len, tail, tail_len) &&
	       (len == tail_len || name[len - tail_len - 1] == '.');
}

/* Numeric addresses of both kinds as IPv6, so that each test is one. */
static bool
read_numeric(const struct kv_addr *a, struct in6_addr *out)
{
	char mapped[sizeof("::ffff:") + INET_ADDRSTRLEN];

	if (a->kind != KV_ADDR_TCP)
		return false;
	if (strchr(a->name, ':'))
		return kv_hostname_ipv6(a->name, out);
	if (!kv_hostname_is_ipv4(a->name))
		return false;
	snprintf(mapped, sizeof(mapped), "::ffff:%.15s", a->name);
	return inet_pton(AF_INET6, mapped, out) == 1;
}

bool
kv_addr_is_loopback(const struct kv_addr *a)
{
	struct in6_addr in;

	if (a->kind == KV_ADDR_UNIX || is_below_localhost(a->name))
		return true;
	if (!read_numeric(a, &in))
		return false;
	return IN6_IS_ADDR_LOOPBACK(&in) ||
	       (IN6_IS_ADDR_V4MAPPED(&in) && in.s6_addr[12] == 127);
}

bool
kv_addr_is_unspecified(const struct kv_addr *a)
{
	static const struct in6_addr v4_any = {
		.s6_addr = { [10] = 0xff, [11] = 0xff },
	};
	struct in6_addr in;

	if (a->kind == KV_ADDR_TCP && !a->name[0])
		return true;
	if (!read_numeric(a, &in))
		return false;
	return IN6_IS_ADDR_UNSPECIFIED(&in) ||
	       !memcmp(&in, &v4_any, sizeof(in));
}

bool
kv_addr_is_numeric(const struct kv_addr *a)
{
	struct in6_addr in;

	return read_numeric(a, &in);
}
