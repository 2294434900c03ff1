#include "forge.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/attr.h"
#include "base/num.h"

enum {
	SEND_MS = 200,
	HELLO_MS = 2000,
};

static bool
load_seed(struct forge_seed *s, const char *path)
{
	static uint8_t bytes[FORGE_BYTES_MAX];
	FILE *f = fopen(path, "rbe");
	struct kv_msg msg;
	size_t len;

	if (!f)
		return false;
	len = fread(bytes, 1, sizeof(bytes), f);
	fclose(f);
	if (kv_msg_parse(bytes, len, &msg, NULL) <= 0)
		return false;
	*s = (struct forge_seed){
		.type = msg.type,
		.flags = msg.flags,
		.payload = msg.payload,
		.id = msg.id,
		.len = kv_msg_body_bytes(msg.type) + msg.tail_len,
	};
	s->bytes = malloc(s->len + 1);
	if (!s->bytes)
		abort();
	memcpy(s->bytes, bytes + KV_HEADER_BYTES, s->len);
	return true;
}

size_t
forge_load(struct forge *f, const char *folder)
{
	DIR *dir = opendir(folder);
	struct dirent *e;
	char path[4096];

	/* cppcheck-suppress readdirCalled; its _r variant is obsolete */
	while (dir && (e = readdir(dir))) {
		snprintf(path, sizeof(path), "%s/%s", folder, e->d_name);
		if (f->nseeds < KV_ARRAY_LEN(f->seeds) &&
		    load_seed(&f->seeds[f->nseeds], path))
			f->nseeds++;
	}
	if (dir)
		closedir(dir);
	return f->nseeds;
}

void
forge_fini(struct forge *f)
{
	for (size_t i = 0; i < f->nseeds; i++)
		free(f->seeds[i].bytes);
	f->nseeds = 0;
}

size_t
forge_seal(uint8_t *frame, const struct forge_seed *like, size_t len)
{
	struct kv_header *h = (struct kv_header *)frame;
	uint64_t seed = like->id ^ ((uint64_t)like->type << 48);

	h->magic = kv_le32(KV_WIRE_MAGIC);
	h->version = KV_WIRE_VERSION;
	h->flags = like->flags;
	h->type = kv_le16((uint16_t)like->type);
	h->len = kv_le32((uint32_t)len);
	h->payload = kv_le32(like->payload);
	h->id = kv_le64(like->id);
	h->body_sum = kv_le32((uint32_t)XXH3_64bits_withSeed(
		frame + KV_HEADER_BYTES, len, seed));
	h->head_sum = kv_le32((uint32_t)XXH3_64bits(frame, 28));
	return KV_HEADER_BYTES + len;
}

/* A number that is at some border, or any. */
static uint64_t
odd_number(struct kv_rng *rng)
{
	uint64_t bit = 1ull << kv_rng_below(rng, 64);

	switch (kv_rng_below(rng, 6)) {
	case 0:
		return 0;
	case 1:
		return UINT64_MAX;
	case 2:
		return bit;
	case 3:
		return bit - 1;
	case 4:
		return 0 - bit;
	default:
		return kv_rng_u64(rng);
	}
}

/* Overwrites 1 to 8 bytes somewhere; mostly in the front, where counts are. */
static void
poke(struct kv_rng *rng, uint8_t *bytes, size_t len)
{
	size_t n = (size_t)1 << kv_rng_below(rng, 4);
	uint64_t v = odd_number(rng);
	size_t reach = kv_rng_below(rng, 2) ? kv_min_u64(len, 64) : len;
	size_t at = len ? kv_rng_below(rng, reach) : 0;

	memcpy(bytes + at, &v, kv_min_u64(n, len - at));
}

static size_t
resize(struct kv_rng *rng, uint8_t *bytes, size_t len)
{
	size_t n;

	switch (kv_rng_below(rng, 8)) {
	case 0:
		return kv_rng_below(rng, len + 1);
	case 1:
		n = kv_rng_below(rng, 300);
		break;
	case 2:
		n = kv_rng_below(rng, 20) ? 2000 : KV_FRAME_BYTES_MAX - len;
		break;
	default:
		return len;
	}
	for (size_t i = 0; i < n; i++)
		bytes[len + i] = len ? bytes[i % len] : (uint8_t)i;
	return len + n;
}

size_t
forge_change(struct forge *f, const struct forge_seed *s, uint8_t *frame)
{
	struct forge_seed like = *s;
	uint8_t *bytes = frame + KV_HEADER_BYTES;
	size_t len = s->len;

	memcpy(bytes, s->bytes, len);
	for (uint64_t n = kv_rng_below(&f->rng, 4); n > 0; n--)
		poke(&f->rng, bytes, len);
	len = resize(&f->rng, bytes, len);
	if (kv_rng_below(&f->rng, 4) == 0)
		like.id = kv_rng_below(&f->rng, 100);
	if (kv_rng_below(&f->rng, 50) == 0)
		like.payload = (uint32_t)odd_number(&f->rng);
	if (kv_rng_below(&f->rng, 50) == 0)
		like.flags = (uint8_t)odd_number(&f->rng);
	return forge_seal(frame, &like, len);
}

const struct forge_seed *
forge_pick(struct forge *f)
{
	return &f->seeds[kv_rng_below(&f->rng, f->nseeds)];
}

const struct forge_seed *
forge_of_type(struct forge *f, enum kv_msg_type type)
{
	for (size_t i = 0; i < f->nseeds; i++)
		if (f->seeds[i].type == type)
			return &f->seeds[i];
	return forge_pick(f);
}

/* ---- sockets ---- */

static int
connect_path(const char *path)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	snprintf(un.sun_path, sizeof(un.sun_path), "%s", path);
	if (fd >= 0 && connect(fd, (struct sockaddr *)&un, sizeof(un)) == 0)
		return fd;
	if (fd >= 0)
		close(fd);
	return -1;
}

int
forge_connect(const char *target)
{
	struct sockaddr_in in = { .sin_family = AF_INET };
	const char *colon = strrchr(target, ':');
	char host[64];
	int fd;

	if (target[0] == '/' || !colon)
		return connect_path(target);
	snprintf(host, sizeof(host), "%.*s", (int)(colon - target), target);
	in.sin_port = htons((uint16_t)strtoul(colon + 1, NULL, 10));
	inet_pton(AF_INET, host, &in.sin_addr);
	fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd >= 0 && connect(fd, (struct sockaddr *)&in, sizeof(in)) == 0)
		return fd;
	if (fd >= 0)
		close(fd);
	return -1;
}

int
forge_accept(int fd, int timeout_ms)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	if (poll(&p, 1, timeout_ms) <= 0)
		return -1;
	return accept4(fd, NULL, NULL, SOCK_CLOEXEC);
}

bool
forge_send(int fd, const void *bytes, size_t len)
{
	struct pollfd p = { .fd = fd, .events = POLLOUT };
	const uint8_t *from = bytes;
	ssize_t n;

	while (len > 0) {
		if (poll(&p, 1, SEND_MS) <= 0)
			return false;
		n = send(fd, from, len, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n <= 0)
			return false;
		from += n;
		len -= (size_t)n;
	}
	return true;
}

bool
forge_drain(int fd, int timeout_ms)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	uint8_t junk[65536];
	ssize_t n;

	while (poll(&p, 1, timeout_ms) > 0) {
		n = recv(fd, junk, sizeof(junk), MSG_DONTWAIT);
		if (n <= 0)
			return false;
		timeout_ms = 0;
	}
	return true;
}

/* A descriptor that the message brought, -1. */
static int
take_fd(struct msghdr *m)
{
	struct cmsghdr *c = CMSG_FIRSTHDR(m);
	int fd = -1;

	if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS)
		memcpy(&fd, CMSG_DATA(c), sizeof(fd));
	return fd;
}

static bool
read_all(int fd, void *buf, size_t len, int timeout_ms, int *came)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	char control[CMSG_SPACE(sizeof(int))];
	struct iovec iov = { buf, len };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };
	ssize_t n;
	int got;

	while (iov.iov_len > 0) {
		if (poll(&p, 1, timeout_ms) <= 0)
			return false;
		m.msg_control = control;
		m.msg_controllen = sizeof(control);
		n = recvmsg(fd, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
		if (n <= 0)
			return false;
		got = take_fd(&m);
		if (got >= 0 && came)
			*came = got;
		else if (got >= 0)
			close(got);
		iov.iov_base = (uint8_t *)iov.iov_base + n;
		iov.iov_len -= (size_t)n;
	}
	return true;
}

bool
forge_read(int fd, uint8_t *frame, struct kv_msg *msg, int timeout_ms,
	   int *came)
{
	size_t need = KV_HEADER_BYTES, have = 0;
	uint8_t junk[4096];
	uint32_t left;
	long n = 0;

	while (n == 0) {
		if (need > FORGE_BYTES_MAX ||
		    !read_all(fd, frame + have, need - have, timeout_ms, came))
			return false;
		have = need;
		n = kv_msg_parse(frame, have, msg, &need);
	}
	for (left = n > 0 ? msg->payload : 0; left > 0;
	     left -= (uint32_t)kv_min_u64(left, sizeof(junk)))
		if (!read_all(fd, junk, kv_min_u64(left, sizeof(junk)),
			      timeout_ms, NULL))
			return false;
	return n > 0;
}

uint64_t
forge_hello(struct forge *f, int fd, enum kv_role role, uint64_t token)
{
	const struct forge_seed like = { .type = KV_MSG_HELLO, .id = 1 };
	struct {
		struct kv_header h;
		struct kv_hello m;
	} out = { 0 };
	uint8_t *frame = malloc(FORGE_BYTES_MAX);
	const struct kv_hello_r *r;
	uint64_t given = 0;
	struct kv_msg msg;
	size_t len;

	out.m.version_min = kv_le16(1);
	out.m.version_max = kv_le16(1);
	out.m.role = (uint8_t)role;
	out.m.token = kv_le64(token);
	if (role != KV_ROLE_DATA && !f->keeps_boot)
		kv_rng_bytes(&f->rng, &f->boot, sizeof(f->boot));
	out.m.boot = f->boot;
	len = forge_seal((uint8_t *)&out, &like, sizeof(out.m));
	if (frame && forge_send(fd, &out, len) &&
	    forge_read(fd, frame, &msg, HELLO_MS, NULL) &&
	    msg.type == KV_MSG_HELLO_R) {
		r = msg.body;
		given = r->status == 0 ? kv_get64(r->token) : 0;
	}
	free(frame);
	return given;
}
