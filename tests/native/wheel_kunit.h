/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * hwtimer: as much of KUnit as tests/kunit/wheel.c needs to be a program.
 */
#ifndef WHEEL_KUNIT_H
#define WHEEL_KUNIT_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#define ARRAY_SIZE(array)	(sizeof(array) / sizeof((array)[0]))
#define GFP_KERNEL		0

struct kunit {
	unsigned int failures;
	void **memory;		/* each block begins with the address of the one before it */
};

struct kunit_case {
	const char *name;
	void (*run)(struct kunit *test);
};

struct kunit_suite {
	const char *name;
	struct kunit_case *test_cases;
};

static inline void *kunit_kzalloc(struct kunit *test, size_t size, int gfp)
{
	void **block = calloc(1, 2 * sizeof(void *) + size);

	(void)gfp;
	if (!block)
		return NULL;
	*block = test->memory;
	test->memory = block;
	return block + 2;
}

static inline void kunit_free_all(struct kunit *test)
{
	void **block;

	while ((block = test->memory)) {
		test->memory = *block;
		free(block);
	}
}

#define KUNIT_CASE(function)		{ #function, function }
static inline bool kunit_check(struct kunit *test, bool holds, const char *file, int line,
			       const char *text)
{
	if (holds)
		return true;
	test->failures++;
	printf("# %s:%d: %s\n", file, line, text);
	return false;
}

#define KUNIT_EXPECT(test, holds)	kunit_check(test, holds, __FILE__, __LINE__, #holds)
/* A case cannot go on after this: the program ends. */
#define KUNIT_ASSERT(test, holds)	(KUNIT_EXPECT(test, holds) ? (void)0 : exit(1))

#define KUNIT_EXPECT_EQ(test, a, b)	KUNIT_EXPECT(test, (a) == (b))
#define KUNIT_EXPECT_LE(test, a, b)	KUNIT_EXPECT(test, (a) <= (b))
#define KUNIT_EXPECT_LT(test, a, b)	KUNIT_EXPECT(test, (a) < (b))
#define KUNIT_EXPECT_GT(test, a, b)	KUNIT_EXPECT(test, (a) > (b))
#define KUNIT_EXPECT_PTR_EQ		KUNIT_EXPECT_EQ
#define KUNIT_EXPECT_TRUE		KUNIT_EXPECT
#define KUNIT_EXPECT_FALSE(test, a)	KUNIT_EXPECT(test, !(a))
#define KUNIT_EXPECT_NULL(test, a)	KUNIT_EXPECT(test, !(a))
#define KUNIT_ASSERT_EQ(test, a, b)	KUNIT_ASSERT(test, (a) == (b))
#define KUNIT_ASSERT_LE(test, a, b)	KUNIT_ASSERT(test, (a) <= (b))
#define KUNIT_ASSERT_GE(test, a, b)	KUNIT_ASSERT(test, (a) >= (b))
#define KUNIT_ASSERT_GT(test, a, b)	KUNIT_ASSERT(test, (a) > (b))
#define KUNIT_ASSERT_PTR_EQ		KUNIT_ASSERT_EQ
#define KUNIT_ASSERT_TRUE		KUNIT_ASSERT
#define KUNIT_ASSERT_NULL(test, a)	KUNIT_ASSERT(test, !(a))
#define KUNIT_ASSERT_NOT_NULL		KUNIT_ASSERT

#define kunit_test_suite(suite)							\
int main(void)									\
{										\
	unsigned int n = 0, failed = 0;						\
	struct kunit_case *c;							\
										\
	for (c = (suite).test_cases; c->run; c++)				\
		n++;								\
	printf("1..%u\n", n);							\
	for (n = 1, c = (suite).test_cases; c->run; c++, n++) {			\
		struct kunit test = { 0 };					\
										\
		c->run(&test);							\
		kunit_free_all(&test);						\
		failed += !!test.failures;					\
		printf("%sok %u %s.%s\n", test.failures ? "not " : "", n,	\
		       (suite).name, c->name);					\
	}									\
	return failed ? 1 : 0;							\
}										\
_Static_assert(1, "")

#endif /* WHEEL_KUNIT_H */
