#include "xfer/rdmasys.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/str.h"

#define CLASS "/sys/class/infiniband"
#define NODES "/sys/devices/system/node/node"

/* Files of sysfs are of one line; false: there is none. */
KV_PRINTF(4, 5)
static bool
read_line(char *line, size_t n, const char *root, const char *fmt, ...)
{
	char path[PATH_MAX], full[PATH_MAX];
	bool is_read;
	va_list ap;
	FILE *f;

	if (!root)
		return false;
	va_start(ap, fmt);
	vsnprintf(path, sizeof(path), fmt, ap);
	va_end(ap);
	if (snprintf(full, sizeof(full), "%s%s", root, path) >= PATH_MAX)
		return false;
	f = fopen(full, "re");
	if (!f)
		return false;
	is_read = fgets(line, (int)n, f) != NULL;
	fclose(f);
	if (is_read)
		line[strcspn(line, "\n")] = '\0';
	return is_read;
}

/* False: it is too long, and nothing is stored. */
static bool
copy_name(char *to, size_t n, const char *from)
{
	size_t len = strlen(from);

	if (len >= n)
		return false;
	memcpy(to, from, len + 1);
	return true;
}

static int
by_name(const void *a, const void *b)
{
	return strverscmp(((const struct kv_rdmasys_name *)a)->text,
			  ((const struct kv_rdmasys_name *)b)->text);
}

/* The names of a folder, in the order of people: mlx5_2 before mlx5_10. */
static long
list_names(const char *path, struct kv_rdmasys_name **list)
{
	struct kv_rdmasys_name *names = NULL, *more;
	DIR *dir = opendir(path);
	struct dirent *e;
	size_t n = 0;

	while (dir && (e = readdir(dir))) {
		if (e->d_name[0] == '.')
			continue;
		more = KV_FAULT_POINT()
			       ? NULL
			       : reallocarray(names, n + 1, sizeof(*names));
		if (!more) {
			closedir(dir);
			free(names);
			return -ENOMEM;
		}
		names = more;
		n += copy_name(names[n].text, sizeof(names[n].text), e->d_name);
	}
	if (dir)
		closedir(dir);
	if (n)
		qsort(names, n, sizeof(*names), by_name);
	*list = names;
	return (long)n;
}

long
kv_rdmasys_list(const char *root, struct kv_rdmasys_name **list)
{
	char path[PATH_MAX];

	*list = NULL;
	if (!root)
		return 0;
	snprintf(path, sizeof(path), "%s" CLASS, root);
	return list_names(path, list);
}

/* "dddd:bb:ss.f", the domain of four digits or more. */
static bool
is_pci(const char *s)
{
	static const char hex[] = "0123456789abcdef";
	size_t domain = strspn(s, hex);

	s += domain;
	return domain >= 4 && s[0] == ':' && strspn(s + 1, hex) == 2 &&
	       s[3] == ':' && strspn(s + 4, hex) == 2 && s[6] == '.' &&
	       strspn(s + 7, hex) == 1 && s[8] == '\0';
}

void
kv_rdmasys_pci(const char *root, const char *device, char *buf, size_t n)
{
	char path[PATH_MAX], to[PATH_MAX];
	const char *last;
	ssize_t len;

	*buf = '\0';
	if (!root)
		return;
	snprintf(path, sizeof(path), "%s" CLASS "/%s/device", root, device);
	len = readlink(path, to, sizeof(to) - 1);
	if (len < 0)
		return;
	to[len] = '\0';
	last = strrchr(to, '/');
	last = last ? last + 1 : to;
	if (is_pci(last))
		copy_name(buf, n, last);
}

bool
kv_rdmasys_is_soft(const char *root, const char *device)
{
	char path[PATH_MAX];

	if (!root)
		return false;
	/* The interface that it is on; no other device has this. */
	snprintf(path, sizeof(path), "%s" CLASS "/%s/parent", root, device);
	return access(path, F_OK) == 0;
}

int
kv_rdmasys_numa(const char *root, const char *device)
{
	char line[32];
	uint64_t node;

	if (!read_line(line, sizeof(line), root, CLASS "/%s/device/numa_node",
		       device) ||
	    kv_str_u64(line, 0, INT_MAX, &node) < 0)
		return -1;
	return (int)node;
}

static bool
is_node(const char *root, unsigned node)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s" NODES "%u", root, node);
	return access(path, F_OK) == 0;
}

/* "10 21 ...": of those that there are, by number. */
void
kv_rdmasys_distances(const char *root, unsigned from, unsigned *to, unsigned n)
{
	char line[1024], *at = line, *end;
	unsigned node;

	memset(to, 0, n * sizeof(*to));
	if (!read_line(line, sizeof(line), root, NODES "%u/distance", from))
		return;
	for (node = 0; node < n; node++) {
		if (!is_node(root, node))
			continue;
		to[node] = (unsigned)strtoul(at, &end, 10);
		if (end == at)
			return;
		at = end;
	}
}

/* "100 Gb/sec (4X EDR)", "2.5 Gb/sec (1X SDR)". */
uint32_t
kv_rdmasys_rate(const struct kv_rdmasys_port *p)
{
	char line[64], *end;
	double gbit;

	if (!read_line(line, sizeof(line), p->root, CLASS "/%s/ports/%u/rate",
		       p->device, p->port))
		return 0;
	gbit = strtod(line, &end);
	if (strncmp(end, " Gb/sec", strlen(" Gb/sec")) != 0 ||
	    !(gbit > 0 && gbit < 1e6))
		return 0;
	return (uint32_t)(gbit * 1000 + 0.5);
}

bool
kv_rdmasys_is_v2(const struct kv_rdmasys_port *p, int gid_index)
{
	char line[32];

	return read_line(line, sizeof(line), p->root,
			 CLASS "/%s/ports/%u/gid_attrs/types/%d", p->device,
			 p->port, gid_index) &&
	       strcmp(line, "RoCE v2") == 0;
}

bool
kv_rdmasys_gid_netdev(const struct kv_rdmasys_port *p, int gid_index,
		      char name[IF_NAMESIZE])
{
	char line[IF_NAMESIZE + 1];

	if (!read_line(line, sizeof(line), p->root,
		       CLASS "/%s/ports/%u/gid_attrs/ndevs/%d", p->device,
		       p->port, gid_index) ||
	    !*line)
		return false;
	return copy_name(name, IF_NAMESIZE, line);
}

/* Devices of several ports, each with interfaces of its own, number these from
 * 0. Where there is one port, all are its. */
static bool
is_of_port(const struct kv_rdmasys_port *p, const char *netdev)
{
	char line[32];
	uint64_t n;

	if (p->ports == 1)
		return true;
	return read_line(line, sizeof(line), p->root,
			 CLASS "/%s/device/net/%s/dev_port", p->device,
			 netdev) &&
	       kv_str_u64(line, 0, UINT32_MAX, &n) == 0 && n + 1 == p->port;
}

size_t
kv_rdmasys_netdevs(const struct kv_rdmasys_port *p, char (*names)[IF_NAMESIZE],
		   size_t max)
{
	struct kv_rdmasys_name *all = NULL;
	char path[PATH_MAX];
	size_t n = 0;
	long found;

	if (!p->root)
		return 0;
	snprintf(path, sizeof(path), "%s" CLASS "/%s/device/net", p->root,
		 p->device);
	found = list_names(path, &all);
	for (long i = 0; i < found && n < max; i++)
		if (is_of_port(p, all[i].text))
			n += copy_name(names[n], IF_NAMESIZE, all[i].text);
	free(all);
	return n;
}
