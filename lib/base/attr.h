#ifndef KV_BASE_ATTR_H
#define KV_BASE_ATTR_H

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#define KV_PRINTF(fmt, first) __attribute__((format(printf, fmt, first)))
#define KV_MUST_CHECK         __attribute__((warn_unused_result))
#define KV_UNUSED             __attribute__((unused))
#define KV_API                __attribute__((visibility("default")))
#define KV_CLEANUP(fn)        __attribute__((cleanup(fn)))
/* gcc takes a function that only prefetches for one without any effect, and
 * drops its calls: such a one has to be inlined. */
#define KV_INLINE       inline __attribute__((always_inline))
#define KV_NOINLINE     __attribute__((noinline))
#define KV_LIKELY(x)    __builtin_expect(!!(x), 1)
#define KV_UNLIKELY(x)  __builtin_expect(!!(x), 0)
#define KV_ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

#define KV_JOIN_(a, b) a##b
#define KV_JOIN(a, b)  KV_JOIN_(a, b)

/* The object of that type whose member ptr points to. */
#define KV_CONTAINER_OF(ptr, type, member) \
	((type *)(void *)((char *)(ptr)-offsetof(type, member)))

/*
 * For objects that come back through a void * (epoll data, wr_id, user data
 * of a ring): their first member is `uint32_t magic`, set when made, checked
 * on arrival, cleared before free. A late completion stops here.
 */
#define KV_MAGIC_CHECK(obj, want) assert((obj)->magic == (want))

/*
 * What is read in between may be written to meanwhile; whoever reads it finds
 * out afterwards, and throws it away. The thread sanitizer is told.
 */
#ifdef __SANITIZE_THREAD__
void AnnotateIgnoreReadsBegin(const char *file, int line);
void AnnotateIgnoreReadsEnd(const char *file, int line);
#define KV_RACY_READS_BEGIN() AnnotateIgnoreReadsBegin(__FILE__, __LINE__)
#define KV_RACY_READS_END()   AnnotateIgnoreReadsEnd(__FILE__, __LINE__)
#else
#define KV_RACY_READS_BEGIN() ((void)0)
#define KV_RACY_READS_END()   ((void)0)
#endif

static inline void
kv_cleanup_free(void *pp)
{
	free(*(void **)pp);
}

/* For a field that takes what is only read and what is written to as well. */
static inline void *
kv_unconst(const void *p)
{
	union {
		const void *in;
		void *out;
	} u = { .in = p };

	return u.out;
}

/* free() for what its owner shows as const. */
static inline void
kv_free_const(const void *p)
{
	free(kv_unconst(p));
}

static inline void
kv_cleanup_close(const int *fd)
{
	int saved_errno = errno;

	if (*fd >= 0)
		close(*fd);
	errno = saved_errno;
}

/*
 * Freed, or closed unless negative, when the variable leaves its scope. errno
 * stays, so that `return NULL` can follow the call that set it.
 */
#ifndef __cppcheck__
#define kv_auto_free  KV_CLEANUP(kv_cleanup_free)
#define kv_auto_close KV_CLEANUP(kv_cleanup_close)
#else /* does not know the attribute, but that a static leaks nothing */
#define kv_auto_free  static
#define kv_auto_close static
#endif

/* Takes the descriptor out of a kv_auto_close variable, leaves -1. */
static inline int
kv_steal_fd(int *fd)
{
	int taken = *fd;

	*fd = -1;
	return taken;
}

/* Takes the pointer out of the pointer variable at pp, leaves NULL. */
static inline void *
kv_steal_ptr(void *pp)
{
	void *taken = *(void **)pp;

	*(void **)pp = NULL;
	return taken;
}

struct kv_locked {
	pthread_mutex_t *mutex;
	bool is_done;
};

static inline struct kv_locked
kv_locked_enter(pthread_mutex_t *m)
{
	int err = pthread_mutex_lock(m);

	assert(err == 0);
	return (struct kv_locked){ .mutex = m };
}

static inline void
kv_locked_leave(const struct kv_locked *l)
{
	int err = pthread_mutex_unlock(l->mutex);

	assert(err == 0);
}

/*
 * KV_LOCKED(&mutex) { ... } holds the mutex for the block. return, goto and
 * break out of the block unlock it. It is a loop of one turn: break and
 * continue end the block itself, never a loop around it, and a function that
 * returns from inside still needs a return after it.
 */
#define KV_LOCKED(m) KV_LOCKED_(m, KV_JOIN(kv_locked_, __LINE__))
#define KV_LOCKED_(m, l)                                      \
	for (struct kv_locked l KV_CLEANUP(kv_locked_leave) = \
		     kv_locked_enter(m);                      \
	     !l.is_done; l.is_done = true)

#endif
