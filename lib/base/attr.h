#ifndef KV_BASE_ATTR_H
#define KV_BASE_ATTR_H

#include <assert.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

#define KV_PRINTF(fmt, first) __attribute__((format(printf, fmt, first)))
#define KV_MUST_CHECK	      __attribute__((warn_unused_result))
#define KV_UNUSED	      __attribute__((unused))
#define KV_API		      __attribute__((visibility("default")))
#define KV_CLEANUP(fn)	      __attribute__((cleanup(fn)))
#define KV_LIKELY(x)	      __builtin_expect(!!(x), 1)
#define KV_UNLIKELY(x)	      __builtin_expect(!!(x), 0)
#define KV_ARRAY_LEN(a)	      (sizeof(a) / sizeof((a)[0]))

#define KV_JOIN_(a, b) a##b
#define KV_JOIN(a, b)  KV_JOIN_(a, b)

/* The object of that type whose member ptr points to. */
#define KV_CONTAINER_OF(ptr, type, member)                                     \
	((type *)(void *)((char *)(ptr)-offsetof(type, member)))

/*
 * For objects that come back through a void * (epoll data, wr_id, user data
 * of a ring): their first member is `uint32_t magic`, set when made, checked
 * on arrival, cleared before free. A late completion stops here.
 */
#define KV_MAGIC_CHECK(obj, want) assert((obj)->magic == (want))

static inline void
kv_cleanup_free(void *pp)
{
	free(*(void **)pp);
}

static inline void
kv_cleanup_close(const int *fd)
{
	if (*fd >= 0)
		close(*fd);
}

/* Freed, or closed unless negative, when the variable leaves its scope. */
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

static inline pthread_mutex_t *
kv_locked_enter(pthread_mutex_t *m)
{
	int err = pthread_mutex_lock(m);

	assert(err == 0);
	return m;
}

static inline void
kv_locked_leave(pthread_mutex_t *const *m)
{
	int err = pthread_mutex_unlock(*m);

	assert(err == 0);
}

/*
 * KV_LOCKED(&mutex) { ... } holds the mutex for the block. return, goto and
 * break out of the block unlock it. It is a loop of one turn: break and
 * continue end the block itself, never a loop around it, and a function that
 * returns from inside still needs a return after it.
 */
#define KV_LOCKED(m)                                                           \
	KV_LOCKED_(m, KV_JOIN(kv_lock_, __LINE__), KV_JOIN(kv_turn_, __LINE__))
#define KV_LOCKED_(m, lock, turn)                                              \
	for (pthread_mutex_t *lock KV_CLEANUP(kv_locked_leave) =               \
		     kv_locked_enter(m),                                       \
				    *turn = lock;                              \
	     turn; turn = NULL)

#endif
