/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * hwtimer: as much of KUnit as tests/kunit/wheel.c needs to be a program, which ends with the first
 * failure.
 */
#ifndef WHEEL_KUNIT_TEST_H
#define WHEEL_KUNIT_TEST_H

#include <stdio.h>
#include <stdlib.h>

#define ARRAY_SIZE(array)	(sizeof(array) / sizeof((array)[0]))

struct kunit {
	unsigned int number;
	const char *name;
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

#define kunit_kzalloc(test, size, gfp)	kunit_alloc(test, size)
static inline void *kunit_alloc(struct kunit *test, size_t size)
{
	void **block = calloc(1, 2 * sizeof(void *) + size);

	if (!block)
		abort();
	*block = test->memory;
	test->memory = block;
	return block + 2;
}

#define KUNIT_EXPECT_TRUE(test, holds)						\
do {										\
	if (!(holds)) {								\
		printf("not ok %u %s # %s:%d: %s\n", (test)->number,		\
		       (test)->name, __FILE__, __LINE__, #holds);		\
		exit(1);							\
	}									\
} while (0)

#define KUNIT_EXPECT_EQ(test, a, b)	KUNIT_EXPECT_TRUE(test, (a) == (b))
#define KUNIT_EXPECT_LE(test, a, b)	KUNIT_EXPECT_TRUE(test, (a) <= (b))
#define KUNIT_EXPECT_LT(test, a, b)	KUNIT_EXPECT_TRUE(test, (a) < (b))
#define KUNIT_EXPECT_FALSE(test, a)	KUNIT_EXPECT_TRUE(test, !(a))
#define KUNIT_EXPECT_NULL		KUNIT_EXPECT_FALSE
#define KUNIT_EXPECT_PTR_EQ		KUNIT_EXPECT_EQ
#define KUNIT_ASSERT_EQ			KUNIT_EXPECT_EQ
#define KUNIT_ASSERT_LE			KUNIT_EXPECT_LE
#define KUNIT_ASSERT_GE(test, a, b)	KUNIT_EXPECT_LE(test, b, a)
#define KUNIT_ASSERT_GT(test, a, b)	KUNIT_EXPECT_LT(test, b, a)
#define KUNIT_ASSERT_PTR_EQ		KUNIT_EXPECT_EQ
#define KUNIT_ASSERT_TRUE		KUNIT_EXPECT_TRUE
#define KUNIT_ASSERT_NULL		KUNIT_EXPECT_FALSE
#define KUNIT_ASSERT_NOT_NULL		KUNIT_EXPECT_TRUE

#define KUNIT_CASE(function)		{ #function, function }
#define kunit_test_suite(suite)							\
int main(void)									\
{										\
	struct kunit test = { 0 };						\
	struct kunit_case *c;							\
										\
	for (c = (suite).test_cases; c->run; c++)				\
		;								\
	printf("1..%td\n", c - (suite).test_cases);				\
	for (c = (suite).test_cases; c->run; c++) {				\
		test.number++;							\
		test.name = c->name;						\
		c->run(&test);							\
		for (void **block; (block = test.memory); free(block))		\
			test.memory = *block;					\
		printf("ok %u %s\n", test.number, test.name);			\
	}									\
	return 0;								\
}										\
_Static_assert(1, "")

#endif /* WHEEL_KUNIT_TEST_H */
