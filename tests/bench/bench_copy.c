/*
 * Ways to copy pieces between cold memory of the kinds that pools and engines
 * use, in GB/s: medians of rounds in which all ways take turns.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/attr.h"
#include "base/clock.h"
#include "mem/copy.h"

#define AREA_BYTES (UINT64_C(128) << 20)
#define HUGE_BYTES (UINT64_C(2) << 20)
#define ROUNDS     9

typedef void copy_fn(void *dst, const void *src, size_t n);

static void
copy_memcpy(void *dst, const void *src, size_t n)
{
	memcpy(dst, src, n);
}

#ifdef __x86_64__
#include <immintrin.h>

static void
copy_movsb(void *dst, const void *src, size_t n)
{
	__asm__ volatile("rep movsb" : "+D"(dst), "+S"(src), "+c"(n)::"memory");
}

static void
copy_one_stream(void *dst, const void *src, size_t n)
{
	const char *s = src;
	char *d = dst;
	size_t i;

	for (i = 0; i < n; i += 16)
		_mm_stream_si128((void *)(d + i),
				 _mm_loadu_si128((const void *)(s + i)));
	_mm_sfence();
}

/* Where piece i of eight streams as in mem/copy.c lies. */
static inline size_t
lane_off(size_t i, size_t width)
{
	size_t byte = i * width, in_step = byte % 256, step = byte / 256;

	return step / 128 * 32768 + step % 8 * 4096 + step / 8 % 16 * 256 +
	       in_step;
}

__attribute__((target("avx2"))) static void
copy_avx2(void *dst, const void *src, size_t n)
{
	size_t i, off;

	for (i = 0; i < n / 32; i++) {
		off = lane_off(i, 32);
		_mm256_stream_si256(
			(void *)((char *)dst + off),
			_mm256_loadu_si256(
				(const void *)((const char *)src + off)));
	}
	_mm_sfence();
}

__attribute__((target("avx512f"))) static void
copy_avx512(void *dst, const void *src, size_t n)
{
	size_t i, off;

	for (i = 0; i < n / 64; i++) {
		off = lane_off(i, 64);
		_mm512_stream_si512(
			(void *)((char *)dst + off),
			_mm512_loadu_si512((const char *)src + off));
	}
	_mm_sfence();
}
#endif

struct way {
	const char *name;
	copy_fn *fn;
	const char *needs;
};

static const struct way ways[] = {
	{ "memcpy", copy_memcpy, NULL },
#ifdef __x86_64__
	{ "rep movsb", copy_movsb, NULL },
	{ "one stream", copy_one_stream, NULL },
	{ "8 avx2", copy_avx2, "avx2" },
	{ "8 avx512", copy_avx512, "avx512f" },
#endif
	{ "kv_copy", kv_copy, NULL },
};
#define WAYS KV_ARRAY_LEN(ways)

static bool
is_usable(const struct way *w)
{
#ifdef __x86_64__
	if (w->needs && !strcmp(w->needs, "avx2"))
		return __builtin_cpu_supports("avx2");
	if (w->needs)
		return __builtin_cpu_supports("avx512f");
#endif
	return true;
}

enum kind {
	SHARED,
	SMALL_PAGES,
	HUGE_PAGES
};
static const char *const kind_names[] = { "memfd", "small", "huge" };

static char *
area_new(enum kind kind)
{
	size_t room = AREA_BYTES + HUGE_BYTES;
	int fd = kind == SHARED ? memfd_create("bench", MFD_CLOEXEC) : -1;
	char *p;

	if (kind == SHARED && (fd < 0 || ftruncate(fd, (off_t)room)))
		exit(1);
	p = mmap(NULL, room, PROT_READ | PROT_WRITE,
		 kind == SHARED ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS, fd,
		 0);
	if (p == MAP_FAILED)
		exit(1);
	if (fd >= 0)
		close(fd);
	p += -(uintptr_t)p & (HUGE_BYTES - 1);
	madvise(p, AREA_BYTES,
		kind == SMALL_PAGES ? MADV_NOHUGEPAGE : MADV_HUGEPAGE);
	memset(p, 1, AREA_BYTES);
	return p;
}

static int
compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double
round_of(copy_fn *fn, char *dst, const char *src, size_t piece)
{
	static const struct kv_clock clock_real;
	uint64_t start = kv_clock_now(&clock_real);
	size_t off;

	for (off = 0; off + piece <= AREA_BYTES; off += piece)
		fn(dst + off, src + off, piece);
	return (double)AREA_BYTES / (double)(kv_clock_now(&clock_real) - start);
}

static void
measure(enum kind from, enum kind to, size_t piece)
{
	static double rate[WAYS][ROUNDS];
	char *src = area_new(from), *dst = area_new(to);
	unsigned r, w;

	for (r = 0; r < ROUNDS; r++)
		for (w = 0; w < WAYS; w++)
			if (is_usable(&ways[w]))
				rate[w][r] =
					round_of(ways[w].fn, dst, src, piece);
	printf("%-6s %-6s %6zu", kind_names[from], kind_names[to],
	       piece / 1024);
	for (w = 0; w < WAYS; w++) {
		qsort(rate[w], ROUNDS, sizeof(rate[w][0]), compare);
		printf(" %10.2f", rate[w][ROUNDS / 2]);
	}
	printf("\n");
	munmap(src, AREA_BYTES);
	munmap(dst, AREA_BYTES);
}

int
main(void)
{
	static const enum kind pairs[][2] = { { SHARED, SMALL_PAGES },
					      { SHARED, HUGE_PAGES },
					      { HUGE_PAGES, HUGE_PAGES },
					      { SMALL_PAGES, SHARED } };
	static const size_t pieces[] = { 32768, 131072, 2097152 };
	size_t p, i;

	printf("%-6s %-6s %6s", "from", "to", "KiB");
	for (i = 0; i < WAYS; i++)
		printf(" %10s", ways[i].name);
	printf("\n");
	for (p = 0; p < KV_ARRAY_LEN(pairs); p++)
		for (i = 0; i < KV_ARRAY_LEN(pieces); i++)
			measure(pairs[p][0], pairs[p][1], pieces[i]);
	return 0;
}
