/* For programs that use nothing but the installed library. */
#ifndef EXPECT_H
#define EXPECT_H

#include <stdio.h>
#include <stdlib.h>

/* Ends the program with the place and the value of X if it is another one. */
#define EXPECT(x, want)                                                  \
	do {                                                             \
		long long got_ = (long long)(x);                         \
		if (got_ != (long long)(want)) {                         \
			fprintf(stderr, "%s:%d: %s is %lld, not %lld\n", \
				__FILE__, __LINE__, #x, got_,            \
				(long long)(want));                      \
			exit(1);                                         \
		}                                                        \
	} while (0)

#endif
