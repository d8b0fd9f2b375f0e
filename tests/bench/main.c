// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimer_bench: what hwtimer costs, compared with timer_list, hrtimer and delayed_work.
 *
 *	insmod hwtimer_bench.ko case=steady pending=100000 [rounds=5] ...
 *
 * does not return before it has measured, and leaves the results in debugfs, hwtimer_bench/results:
 *
 *	ground,kernel,cpus,subject,operation,pending,round,value,unit
 *
 * Each round measures all subjects, one after the other; round 0 warms up, and is not reported.
 * docs/performance says what each operation is, and how it is measured.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/debugfs.h>
#include <linux/gfp.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/prandom.h>
#include <linux/string.h>
#include <linux/utsname.h>

#include "bench.h"

#define CHUNK_SIZE	(sizeof(struct bench_conn) << BENCH_CHUNK_SHIFT)
#define ORDER_SIZE	(sizeof(u32) << BENCH_ORDER_SHIFT)
#define RESULTS_SIZE	SZ_256K
/* Delays are spread over this range, above the duration of any turn. */
#define SPREAD_MS	40000
#define MAX_PENDING	20000000

static_assert(CHUNK_SIZE == SZ_4M && ORDER_SIZE == SZ_4M);

static char *case_name = "steady";
module_param_named(case, case_name, charp, 0444);
MODULE_PARM_DESC(case, "steady (default), life, quiet, smp, instructions or interrupts");

unsigned long bench_pending = 1000;
module_param_named(pending, bench_pending, ulong, 0444);
MODULE_PARM_DESC(pending, "timeouts pending meanwhile (default 1000)");

unsigned long bench_batch = 100000;
module_param_named(batch, bench_batch, ulong, 0444);
MODULE_PARM_DESC(batch, "largest number of operations measured at once (default 100000)");

static unsigned int rounds = 5;
module_param(rounds, uint, 0444);
MODULE_PARM_DESC(rounds, "number of rounds (default 5)");

static unsigned int seed = 1;
module_param(seed, uint, 0444);
MODULE_PARM_DESC(seed, "seed of the order of accesses (default 1)");

static char *ground = "-";
module_param(ground, charp, 0444);
MODULE_PARM_DESC(ground, "name of this place in the results");

/* Conns that are not pending, after those that are. */
unsigned long bench_idle;
struct bench_conn **bench_conns;
u32 **bench_order;
struct bench_when bench_delay[BENCH_DELAYS];

static unsigned long chunks, orders;
static struct debugfs_blob_wrapper results;
static struct dentry *dir;

/**
 * bench_result - record a result
 * @subject: the subject
 * @op: the operation
 * @cpus: number of CPUs
 * @round: the round; results of round 0 are dropped
 * @sum: the sum of the values
 * @n: number of values; 0: there is none, and nothing is recorded
 * @unit: their unit
 */
void bench_result(const char *subject, const char *op, unsigned int cpus, unsigned int round,
		  u64 sum, unsigned long n, const char *unit)
{
	u64 whole;
	u32 thousandths;

	if (!n || !round)
		return;
	whole = div_u64_rem(div64_u64(sum * 1000, n), 1000, &thousandths);
	results.size += scnprintf(results.data + results.size, RESULTS_SIZE - results.size,
				  "%s,%s,%u,%s,%s,%lu,%u,%llu.%03u,%s\n", ground,
				  init_utsname()->release, cpus, subject, op, bench_pending,
				  round, whole, thousandths, unit);
}

static void shuffle(struct rnd_state *random, unsigned long first, unsigned long n)
{
	unsigned long i, j;

	for (i = 0; i < n; i++)
		*bench_order_at(first + i) = first + i;
	for (i = n; i > 1; i--) {
		j = first + prandom_u32_state(random) % i;
		swap(*bench_order_at(first + i - 1), *bench_order_at(j));
	}
}

static void free_pieces(void **pieces, unsigned long n, size_t size)
{
	while (pieces && n--)
		if (pieces[n])
			free_pages((unsigned long)pieces[n], get_order(size));
	kvfree(pieces);
}

/* In pieces of the largest size, mapped as all memory of the kernel is. */
static void *alloc_pieces(unsigned long n, size_t size)
{
	void **pieces = kvcalloc(n, sizeof(*pieces), GFP_KERNEL);
	unsigned long i;

	for (i = 0; pieces && i < n; i++) {
		pieces[i] = (void *)__get_free_pages(GFP_KERNEL | __GFP_ZERO | __GFP_NOWARN,
						     get_order(size));
		if (!pieces[i]) {
			free_pieces(pieces, n, size);
			return NULL;
		}
	}
	return pieces;
}

static int prepare(void)
{
	unsigned long n = bench_pending + bench_idle;
	struct rnd_state random;
	unsigned int i, ms;

	chunks = DIV_ROUND_UP(n, BIT(BENCH_CHUNK_SHIFT));
	orders = DIV_ROUND_UP(n, BIT(BENCH_ORDER_SHIFT));
	bench_conns = alloc_pieces(chunks, CHUNK_SIZE);
	bench_order = alloc_pieces(orders, ORDER_SIZE);
	results.data = kvzalloc(RESULTS_SIZE, GFP_KERNEL);
	if (!bench_conns || !bench_order || !results.data)
		return -ENOMEM;
	prandom_seed_state(&random, seed);
	shuffle(&random, 0, bench_pending);
	shuffle(&random, bench_pending, bench_idle);
	for (i = 0; i < BENCH_DELAYS; i++) {
		ms = bench_turn_s() * MSEC_PER_SEC + prandom_u32_state(&random) % SPREAD_MS;
		bench_delay[i].ns = ms * MSEC;
		bench_delay[i].jiffies = msecs_to_jiffies(ms);
	}
	return 0;
}

static void release(void)
{
	free_pieces((void **)bench_conns, chunks, CHUNK_SIZE);
	free_pieces((void **)bench_order, orders, ORDER_SIZE);
	kvfree(results.data);
}

static void report_sizes(void)
{
	bench_result("hwtimer", "size", 1, 1, sizeof(struct hwtimer_timeout), 1, "bytes");
	bench_result("timer_list", "size", 1, 1, sizeof(struct timer_list), 1, "bytes");
	bench_result("hrtimer", "size", 1, 1, sizeof(struct hrtimer), 1, "bytes");
	bench_result("delayed_work", "size", 1, 1, sizeof(struct delayed_work), 1, "bytes");
}

/* The cost of reading the clock, which is part of some operations only. */
static void report_clock(unsigned int round)
{
	u64 start = ktime_get_ns(), now = 0;
	unsigned int i, n = 100000;

	for (i = 0; i < n; i++)
		now = ktime_get_ns();
	bench_result("clock", "ktime_get_ns", 1, round, now - start, n, "ns");
}

static const struct {
	const char	*name;
	int		(*round)(unsigned int round);
	unsigned int	first;	/* the first round: 1 has nothing to warm up */
} cases[] = {
	{ "steady", bench_steady },
	{ "life", bench_life },
	{ "quiet", bench_quiet, 1 },
	{ "smp", bench_smp },
	{ "instructions", bench_instructions, 1 },
	{ "interrupts", bench_interrupts, 1 },
};

static int run(void)
{
	unsigned int i, round;
	int ret = 0;

	for (i = 0; strcmp(cases[i].name, case_name); i++)
		if (i + 1 == ARRAY_SIZE(cases))
			return -EINVAL;
	report_sizes();
	for (round = cases[i].first; round <= rounds && !ret; round++) {
		report_clock(round);
		ret = cases[i].round(round);
	}
	return ret;
}

static int __init bench_init(void)
{
	int ret;

	if (!bench_pending || bench_pending > MAX_PENDING || !bench_batch || !rounds)
		return -EINVAL;
	bench_idle = min(bench_pending, bench_batch);
	/* As many operations as there are conns, unless there is only one. */
	bench_batch = bench_pending > 1 ? bench_idle : min(bench_batch, 10000UL);
	ret = prepare();
	if (!ret)
		ret = run();
	if (ret) {
		release();
		return ret;
	}
	dir = debugfs_create_dir(KBUILD_MODNAME, NULL);
	debugfs_create_blob("results", 0400, dir, &results);
	return 0;
}
module_init(bench_init);

static void __exit bench_exit(void)
{
	debugfs_remove(dir);
	release();
}
module_exit(bench_exit);

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Benchmark of hwtimer and the kernel's own timers");
MODULE_AUTHOR("The hwtimer authors");
