/*
 * rdmamem KIND BYTES: registers memory of a kind with all ports, as a buffer
 * and as a pool, and says how it went: "registered", or "refused: " and why.
 * private, shared, huge: anonymous memory, of memfds; constant: not to be
 * written to; fork: private, and a child is made while it is registered, and
 * another one when it is not any more; /FILE: a shared mapping of the file.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "xfer/rdmaregion.h"

#define CHUNK_BYTES (UINT64_C(4) << 20)

static void
die(const char *what)
{
	fprintf(stderr, "rdmamem: %s: %s\n", what, strerror(errno));
	exit(70);
}

static void *
map_file(int fd, size_t bytes)
{
	if (fd < 0 || ftruncate(fd, (off_t)bytes) < 0)
		die("file");
	return mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
}

static unsigned char *
map(const char *kind, size_t bytes)
{
	bool is_constant = strcmp(kind, "constant") == 0;
	void *p;

	if (strcmp(kind, "shared") == 0)
		p = map_file(memfd_create(kind, MFD_CLOEXEC), bytes);
	else if (strcmp(kind, "huge") == 0)
		p = map_file(memfd_create(kind, MFD_CLOEXEC | MFD_HUGETLB),
			     bytes);
	else if (*kind == '/')
		p = map_file(open(kind, O_RDWR | O_CREAT | O_CLOEXEC, 0600),
			     bytes);
	else
		p = mmap(NULL, bytes,
			 PROT_READ | (is_constant ? 0 : PROT_WRITE),
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED)
		die("mmap");
	if (!is_constant)
		memset(p, 1, bytes);
	return p;
}

/* ---- a child ---- */

static uint64_t
frame_of(const unsigned char *page)
{
	int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	uint64_t entry;

	if (fd < 0 || pread(fd, &entry, sizeof(entry),
			    (off_t)((uintptr_t)page / 4096 * sizeof(entry))) !=
			      sizeof(entry))
		die("pagemap");
	close(fd);
	return entry & ((UINT64_C(1) << 55) - 1);
}

/* The first page that is not the one that was registered any more, after a
 * child was made and the parent has written to it; bytes: none. */
static size_t
fork_and_write(unsigned char *p, size_t bytes)
{
	uint64_t *frames = calloc(bytes / 4096, sizeof(*frames));
	size_t off;
	pid_t pid;

	if (!frames)
		die("calloc");
	for (off = 0; off < bytes; off += 4096)
		frames[off / 4096] = frame_of(p + off);
	pid = fork();
	if (pid < 0)
		die("fork");
	if (pid == 0) {
		pause();
		_exit(0);
	}
	for (off = 0; off < bytes; off += 4096) {
		p[off] = 2;
		if (frame_of(p + off) != frames[off / 4096])
			break;
	}
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	free(frames);
	return off;
}

static void
try_fork(unsigned char *p, size_t bytes)
{
	printf("fork: %s\n", fork_and_write(p, bytes) == bytes
				     ? "kept its pages"
				     : "lost a page");
}

/* ---- registering ---- */

static sem_t told;
static int status;
static char why[1024];

static void
on_done(void *arg, int rc, const char *words)
{
	(void)arg;
	status = rc;
	snprintf(why, sizeof(why), "%s", words);
	sem_post(&told);
}

static void
try_buffer(struct kv_rdma *r, void *p, size_t bytes)
{
	struct kv_rdmaregion *g =
		kv_rdmaregion_new(r, p, bytes, KV_RDMAREGION_FAR_WRITES);

	printf("buffer: %s%s\n",
	       g ? "registered" : "refused: ", g ? "" : strerror(errno));
	kv_rdmaregion_free(g);
}

static void
try_pool(struct kv_rdma *r, unsigned char *p, size_t bytes, bool forks)
{
	const struct kv_rdmaregion_pool_opts o = {
		.pool = p,
		.bytes = bytes,
		.chunk_bytes = CHUNK_BYTES,
		.done = on_done,
	};
	struct kv_rdmaregion *g = kv_rdmaregion_pool(r, &o);

	if (!g)
		die("kv_rdmaregion_pool");
	kv_rdmaregion_ready(g, bytes / 2, false);
	kv_rdmaregion_ready(g, bytes, true);
	sem_wait(&told);
	printf("pool: %s%s\n", status ? "refused: " : "registered", why);
	if (forks)
		try_fork(p, bytes);
	kv_rdmaregion_free(g);
	/* Else it would show nothing. */
	if (forks)
		try_fork(p, bytes);
}

int
main(int argc, char **argv)
{
	const struct kv_rdma_opts o = { 0 };
	struct kv_rdma *r;
	unsigned char *p;
	size_t bytes;
	char err[512];

	if (argc != 3) {
		fputs("Usage: rdmamem KIND BYTES\n", stderr);
		return 64;
	}
	bytes = strtoull(argv[2], NULL, 0);
	r = kv_rdma_open(&o, err, sizeof(err));
	if (!r) {
		fprintf(stderr, "rdmamem: %s\n", err);
		return 69;
	}
	sem_init(&told, 0, 0);
	p = map(argv[1], bytes);
	printf("ports: %u\n", kv_rdma_ports(r));
	try_buffer(r, p, bytes);
	try_pool(r, p, bytes, strcmp(argv[1], "fork") == 0);
	munmap(p, bytes);
	kv_rdma_close(r);
	return 0;
}
