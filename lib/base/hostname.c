#include "base/hostname.h"

#include <arpa/inet.h>
#include <net/if.h>
#include <string.h>

static bool
is_word(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
	       (c >= 'A' && c <= 'Z') || c == '_' || c == '-';
}

static bool
has_labels(const char *s)
{
	size_t label = 0;

	for (; *s; s++) {
		if (is_word(*s) && label < 63)
			label++;
		else if (*s == '.' && label > 0)
			label = 0;
		else
			return false;
	}
	return label > 0 || s[-1] == '.';
}

static bool
ends_in_number(const char *s)
{
	size_t len = strlen(s);
	size_t digits = 0;

	if (s[len - 1] == '.')
		len--;
	while (digits < len && s[len - 1 - digits] >= '0' &&
	       s[len - 1 - digits] <= '9')
		digits++;
	return digits > 0 && (digits == len || s[len - 1 - digits] == '.');
}

const char *
kv_hostname_fault(const char *s)
{
	if (!*s)
		return "no host";
	if (kv_hostname_is_ipv4(s))
		return NULL;
	if (!has_labels(s))
		return "that is no host name";
	return ends_in_number(s) ? "that is no IPv4 address" : NULL;
}

bool
kv_hostname_is_ipv4(const char *s)
{
	struct in_addr a;

	return inet_pton(AF_INET, s, &a) == 1;
}

static bool
is_zone(const char *s)
{
	size_t len = 0;

	while (is_word(s[len]) || s[len] == '.')
		len++;
	return !s[len] && len > 0 && len < IF_NAMESIZE;
}

bool
kv_hostname_ipv6(const char *s, struct in6_addr *out)
{
	char digits[INET6_ADDRSTRLEN];
	size_t len = strcspn(s, "%");

	if (len >= sizeof(digits) || (s[len] && !is_zone(s + len + 1)))
		return false;
	memcpy(digits, s, len);
	digits[len] = 0;
	return inet_pton(AF_INET6, digits, out) == 1;
}
