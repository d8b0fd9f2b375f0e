// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimer: KUnit suite hwtimer_misuse: mistakes of other modules do little harm and are reported.
 * It runs on any kernel.
 */
#include <kunit/test.h>
#include <linux/bottom_half.h>
#include <linux/delay.h>
#include <linux/err.h>
#include <linux/fs.h>
#include <linux/irqflags.h>
#include <linux/kmsg_dump.h>
#include <linux/list.h>
#include <linux/preempt.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "../../hwtimer_work.h"
#include "hwtimer_kunit.h"
#include "misuse.h"

/* The number of the last mark in the kernel log; lines_with() counts the lines after it. */
static unsigned int mark;

static void mark_log(void)
{
	pr_info("misuse: mark %u\n", ++mark);
}

/* How many lines of the log since mark_log() have @text in them? */
static unsigned int lines_with(const char *text)
{
	struct kmsg_dump_iter iter;
	unsigned int n = 0, seen = 0;
	char line[256], *at;
	size_t len;

	kmsg_dump_rewind(&iter);
	while (kmsg_dump_get_line(&iter, false, line, sizeof(line) - 1, &len)) {
		line[len] = '\0';
		at = strstr(line, "misuse: mark ");
		if (at && sscanf(at, "misuse: mark %u", &seen) == 1)
			continue;
		if (seen == mark && strstr(line, text) && !strstr(line, "klog-expect"))
			n++;
	}
	return n;
}

static void then_again(struct hwtimer_timeout *t)
{
	struct job *j = container_of(t, struct job, t);
	struct hwtimer_wheel *wheel = t->wheel;

	j->fired++;
	/* the timeout of the callback that runs */
	hwtimer_init(t, wheel, job_fired);
	hwtimer_schedule(t, TICK);
}

/* hwtimer_init() of memory that no wheel holds gives no report, whatever its content. */
static void init_anew(struct kunit *test)
{
	static const unsigned int fired[] = { 1, 2, 1, 1, 1, 3, 1 };
	struct hwtimer_wheel *wheel = a_wheel(test), *other = a_wheel(test);
	struct job *j = jobs(test, wheel, ARRAY_SIZE(fired));
	struct list_head pending;
	unsigned int i;

	mark_log();
	/* not used; full of ones, of zeroes */
	hwtimer_init(&j[0].t, wheel, job_fired);
	memset(&j[0].t, 0xff, sizeof(j[0].t));
	hwtimer_init(&j[0].t, wheel, job_fired);
	memset(&j[0].t, 0, sizeof(j[0].t));
	hwtimer_init(&j[0].t, wheel, job_fired);
	/* expired, cancelled, shut down, released, within the callback */
	for (i = 1; i < 6; i++)
		KUNIT_EXPECT_EQ(test, 0, hwtimer_schedule(&j[i].t, SEC));
	KUNIT_EXPECT_EQ(test, 1, hwtimer_cancel_sync(&j[2].t));
	KUNIT_EXPECT_EQ(test, 1, hwtimer_shutdown_sync(&j[3].t));
	KUNIT_EXPECT_TRUE(test, hwtimer_release(&j[4].t, job_released));
	KUNIT_EXPECT_EQ(test, 1, hwtimer_cancel_sync(&j[5].t));
	hwtimer_init(&j[5].t, wheel, then_again);
	KUNIT_EXPECT_EQ(test, 0, hwtimer_schedule(&j[5].t, SEC));
	nap(2 * SEC);
	KUNIT_EXPECT_EQ(test, 2, j[5].fired);
	KUNIT_EXPECT_EQ(test, 1, j[4].released);
	for (i = 1; i < 6; i++)
		hwtimer_init(&j[i].t, wheel, job_fired);
	/* handed back; for another wheel, and for one that may have the address of the first */
	for (i = 0; i < ARRAY_SIZE(fired); i++)
		KUNIT_EXPECT_EQ(test, 0, hwtimer_schedule(&j[i].t, SEC));
	hwtimer_wheel_stop(wheel, &pending);
	for (i = 0; i < 3; i++)
		hwtimer_init(&j[i].t, other, job_fired);
	hwtimer_wheel_destroy(wheel);
	wheel = a_wheel(test);
	for (i = 3; i < ARRAY_SIZE(fired); i++)
		hwtimer_init(&j[i].t, wheel, job_fired);
	for (i = 0; i < ARRAY_SIZE(fired); i++)
		KUNIT_EXPECT_EQ(test, 0, hwtimer_schedule(&j[i].t, 0));
	nap(SEC);
	for (i = 0; i < ARRAY_SIZE(fired); i++)
		KUNIT_EXPECT_EQ(test, fired[i], j[i].fired);
	hwtimer_wheel_destroy(wheel);
	hwtimer_wheel_destroy(other);
	KUNIT_EXPECT_EQ(test, 0U, lines_with("hwtimer: "));
	KUNIT_EXPECT_EQ(test, 0U, lines_with("ODEBUG"));
}

/* hwtimer_init() of a pending timeout is reported and changes nothing. */
static void init_pending(struct kunit *test)
{
	struct hwtimer_wheel *wheel = a_wheel(test);
	struct job *j = jobs(test, wheel, 3);
	unsigned int i;
	u64 deadline;

	mark_log();
	for (i = 0; i < 3; i++)
		KUNIT_EXPECT_EQ(test, 0, hwtimer_schedule(&j[i].t, 300 * MS));
	/* they are filed now */
	nap(260 * MS);
	deadline = hwtimer_deadline(&j[1].t);
	if (DEBUG_OBJECTS)
		expect_report("ODEBUG: init active .* hwtimer_timeout hint: job_fired");
	else
		expect_report("initialised while the wheel holds it: job_fired");
	hwtimer_init(&j[1].t, wheel, job_released);
	KUNIT_EXPECT_TRUE(test, hwtimer_is_pending(&j[1].t));
	KUNIT_EXPECT_EQ(test, deadline, hwtimer_deadline(&j[1].t));
	if (!DEBUG_OBJECTS) {
		/* again, without a second report; cancelled, but still held by the wheel */
		hwtimer_init(&j[1].t, wheel, job_released);
		KUNIT_EXPECT_TRUE(test, hwtimer_cancel(&j[2].t));
		hwtimer_init(&j[2].t, wheel, job_released);
	}
	nap(SEC);
	KUNIT_EXPECT_EQ(test, 1, j[0].fired);
	KUNIT_EXPECT_EQ(test, 1, j[1].fired);
	KUNIT_EXPECT_EQ(test, 0, j[1].released);
	KUNIT_EXPECT_EQ(test, DEBUG_OBJECTS, j[2].fired);
	KUNIT_EXPECT_EQ(test, 0, j[2].released);
	KUNIT_EXPECT_EQ(test, 1U, lines_with("cut here"));
	/* allowed after the expiry */
	hwtimer_init(&j[1].t, wheel, job_fired);
	KUNIT_EXPECT_EQ(test, 0, hwtimer_schedule(&j[1].t, 0));
	nap(SEC);
	KUNIT_EXPECT_EQ(test, 2, j[1].fired);
	hwtimer_wheel_destroy(wheel);
}

static noinline void use_stack(struct kunit *test, struct hwtimer_wheel *wheel)
{
	struct job j = { };

	hwtimer_init_on_stack(&j.t, wheel, job_fired);
	KUNIT_EXPECT_EQ(test, 0, hwtimer_schedule(&j.t, SEC));
	KUNIT_EXPECT_EQ(test, 1, hwtimer_cancel_sync(&j.t));
	KUNIT_EXPECT_EQ(test, 0, hwtimer_schedule(&j.t, SEC));
	nap(2 * SEC);
	KUNIT_EXPECT_EQ(test, 1, j.fired);
	KUNIT_EXPECT_EQ(test, 0, hwtimer_shutdown_sync(&j.t));
	hwtimer_destroy_on_stack(&j.t);
}

static void on_stack(struct kunit *test)
{
	struct hwtimer_wheel *wheel = a_wheel(test);

	mark_log();
	use_stack(test, wheel);
	use_stack(test, wheel);
	hwtimer_wheel_destroy(wheel);
	KUNIT_EXPECT_EQ(test, 0U, lines_with("ODEBUG"));
}

#define OWNERS	12

static void destroy_pending(struct kunit *test)
{
	struct hwtimer_wheel *wheel = a_wheel(test);
	struct job *j = jobs(test, wheel, OWNERS + 2);
	unsigned int i;

	mark_log();
	/* some filed, some still queued, two no longer pending */
	for (i = 0; i < OWNERS + 2; i++) {
		if (i == OWNERS / 2)
			nap(TICK);
		KUNIT_EXPECT_EQ(test, 0, hwtimer_schedule(&j[i].t, SEC + i * TICK));
	}
	KUNIT_EXPECT_TRUE(test, hwtimer_cancel(&j[OWNERS].t));
	KUNIT_EXPECT_TRUE(test, hwtimer_release(&j[OWNERS + 1].t, job_released));
	expect_report("wheel misuse destroyed, timeouts pending: 12");
	hwtimer_wheel_destroy(wheel);
	KUNIT_EXPECT_EQ(test, 1U, lines_with("timeouts pending: 12"));
	KUNIT_EXPECT_EQ(test, 8U, lines_with("was pending: "));
	KUNIT_EXPECT_EQ(test, 8U, lines_with(", job_fired"));
	KUNIT_EXPECT_EQ(test, 1, j[OWNERS + 1].released);
	nap(5 * SEC);
	for (i = 0; i < OWNERS; i++) {
		KUNIT_EXPECT_EQ(test, 0, j[i].fired);
		KUNIT_EXPECT_FALSE(test, hwtimer_is_pending(&j[i].t));
		KUNIT_EXPECT_TRUE(test, list_empty(&j[i].t.node));
	}

	/* another wheel, another warning */
	wheel = a_wheel(test);
	hwtimer_init(&j[0].t, wheel, job_fired);
	KUNIT_EXPECT_EQ(test, 0, hwtimer_schedule(&j[0].t, SEC));
	expect_report("wheel misuse destroyed, timeouts pending: 1$");
	hwtimer_wheel_destroy(wheel);
	KUNIT_EXPECT_EQ(test, 9U, lines_with("was pending: "));
}

/* Correct uses of hwtimer_wheel_destroy() give no report. */
static void destroy_stopped(struct kunit *test)
{
	struct hwtimer_wheel *wheel;
	struct list_head pending;
	struct job *j;
	int i;

	mark_log();
	for (i = 0; i < 4; i++) {
		wheel = a_wheel(test);
		j = jobs(test, wheel, 2);
		if (i) {
			KUNIT_EXPECT_EQ(test, 0, hwtimer_schedule(&j[0].t, SEC));
			KUNIT_EXPECT_EQ(test, 0, hwtimer_schedule(&j[1].t, 0));
		}
		if (i == 1) {
			/* cancelled, but still filed */
			nap(SEC / 2);
			KUNIT_EXPECT_TRUE(test, hwtimer_cancel(&j[0].t));
		} else if (i == 2) {
			KUNIT_EXPECT_EQ(test, 0, hwtimer_wheel_stop(wheel, NULL));
		} else if (i == 3) {
			KUNIT_EXPECT_EQ(test, 0, hwtimer_wheel_stop(wheel, &pending));
			KUNIT_EXPECT_FALSE(test, list_empty(&pending));
		}
		hwtimer_wheel_destroy(wheel);
	}
	KUNIT_EXPECT_EQ(test, 0U, lines_with("pending: "));
	KUNIT_EXPECT_EQ(test, 0U, lines_with("cut here"));
}

/* Takes longer than callback_limit_us allows by default. */
static void dawdle(struct hwtimer_timeout *t, unsigned int weight)
{
	container_of(t, struct job, t)->fired += weight;
	nap(15 * MS);
}

/* More functions than are warned about. Each has its weight, so that none are merged. */
#define DAWDLER(n) \
	static void dawdle_##n(struct hwtimer_timeout *t) { dawdle(t, n); }

DAWDLER(10) DAWDLER(11) DAWDLER(12) DAWDLER(13)
DAWDLER(14) DAWDLER(15) DAWDLER(16) DAWDLER(17)
DAWDLER(20) DAWDLER(21) DAWDLER(22) DAWDLER(23)
DAWDLER(24) DAWDLER(25) DAWDLER(26) DAWDLER(27)
DAWDLER(30) DAWDLER(31) DAWDLER(32) DAWDLER(33)
DAWDLER(34) DAWDLER(35) DAWDLER(36) DAWDLER(37)
DAWDLER(40) DAWDLER(41) DAWDLER(42) DAWDLER(43)
DAWDLER(44) DAWDLER(45) DAWDLER(46) DAWDLER(47)
DAWDLER(50) DAWDLER(51) DAWDLER(52) DAWDLER(53)
DAWDLER(54) DAWDLER(55) DAWDLER(56) DAWDLER(57)

static const hwtimer_fn_t dawdlers[] = {
	dawdle_10, dawdle_11, dawdle_12, dawdle_13,
	dawdle_14, dawdle_15, dawdle_16, dawdle_17,
	dawdle_20, dawdle_21, dawdle_22, dawdle_23,
	dawdle_24, dawdle_25, dawdle_26, dawdle_27,
	dawdle_30, dawdle_31, dawdle_32, dawdle_33,
	dawdle_34, dawdle_35, dawdle_36, dawdle_37,
	dawdle_40, dawdle_41, dawdle_42, dawdle_43,
	dawdle_44, dawdle_45, dawdle_46, dawdle_47,
	dawdle_50, dawdle_51, dawdle_52, dawdle_53,
	dawdle_54, dawdle_55, dawdle_56, dawdle_57,
};

static unsigned long long_callbacks(struct hwtimer_wheel *wheel)
{
	return to_driven(wheel)->monitor.long_callbacks;
}

static void set_limit(struct kunit *test, const char *us)
{
	struct file *f = filp_open("/sys/module/hwtimer/parameters/callback_limit_us",
				   O_WRONLY, 0);
	loff_t pos = 0;

	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, f);
	KUNIT_EXPECT_EQ(test, (ssize_t)strlen(us), kernel_write(f, us, strlen(us), &pos));
	filp_close(f, NULL);
}

static noinline void slow_fired(struct hwtimer_timeout *t)
{
	nap(40 * MS);
}

/* A warning per function, a count per call; with a limit of 0 neither. */
static void long_callback(struct kunit *test)
{
	struct hwtimer_wheel *wheel;
	struct job *j;
	unsigned int i;

	need_files(test);
	wheel = a_wheel(test);
	j = jobs(test, wheel, 1);
	mark_log();
	set_limit(test, "0");
	hwtimer_init(&j->t, wheel, dawdlers[0]);
	KUNIT_EXPECT_EQ(test, 0, hwtimer_schedule(&j->t, 0));
	nap(SEC);
	set_limit(test, "20000");
	KUNIT_EXPECT_EQ(test, 0, hwtimer_schedule(&j->t, 0));
	nap(SEC);
	KUNIT_EXPECT_EQ(test, 20, j->fired);
	KUNIT_EXPECT_EQ(test, 0UL, long_callbacks(wheel));
	KUNIT_EXPECT_EQ(test, 0U, lines_with("callback_limit_us"));
	set_limit(test, "10000");
	for (i = 0; i < 6; i++) {
		hwtimer_init(&j->t, wheel, dawdlers[i % 2]);
		KUNIT_EXPECT_EQ(test, 0, hwtimer_schedule(&j->t, 0));
		nap(SEC);
	}
	KUNIT_EXPECT_EQ(test, 6UL, long_callbacks(wheel));
	KUNIT_EXPECT_EQ(test, 2U, lines_with("callback_limit_us is 10000"));
	KUNIT_EXPECT_EQ(test, 1U, lines_with("wheel misuse: dawdle_10"));
	KUNIT_EXPECT_EQ(test, 1U, lines_with("wheel misuse: dawdle_11"));
	hwtimer_wheel_destroy(wheel);
}

static noinline void quick_fired(struct hwtimer_timeout *t)
{
}

/* The clock is not read after each of many quick callbacks, but each long one is found. */
static void long_among_quick(struct kunit *test)
{
	static const char *const limits[] = { "30000", "10000" };
	struct hwtimer_wheel *wheel;
	struct hwtimer_monitor *m;
	unsigned int i, k;
	struct job *j;
	u64 deadline;

	need_files(test);
	wheel = a_wheel(test);
	m = &to_driven(wheel)->monitor;
	j = jobs(test, wheel, 1000);
	for (k = 0; k < ARRAY_SIZE(limits); k++) {
		/* User-Mode Linux has jiffies of 10 ms; below two of them each end is measured. */
		set_limit(test, limits[k]);
		deadline = hwtimer_wheel_now(wheel) + SEC;
		m->long_callbacks = 0;
		m->longest_ns = 100 * NSEC_PER_USEC;
		for (i = 0; i < 1000; i++) {
			hwtimer_init(&j[i].t, wheel,
				     i == 300 || i == 777 ? slow_fired : quick_fired);
			KUNIT_EXPECT_EQ(test, 0, hwtimer_schedule_at(&j[i].t, deadline));
		}
		nap(5 * SEC);
		KUNIT_EXPECT_EQ(test, 2UL, m->long_callbacks);
		KUNIT_EXPECT_STREQ(test, "slow_fired", m->long_fn);
		KUNIT_EXPECT_STREQ(test, "slow_fired", m->longest_fn);
		KUNIT_EXPECT_GE(test, m->longest_ns, 40ULL * MS);
		KUNIT_EXPECT_LT(test, m->longest_ns, 41ULL * MS);
		KUNIT_EXPECT_EQ(test, !k, m->quick);
	}
	set_limit(test, "10000");
	hwtimer_wheel_destroy(wheel);
}

static unsigned int short_ns, short_quick;
static struct hwtimer_monitor *short_monitor;

static noinline void short_fired(struct hwtimer_timeout *t)
{
	short_quick += short_monitor->quick;
	ndelay(short_ns);
}

/*
 * The time of several quick callbacks is not taken for that of one, and the clock is still read
 * often enough.
 */
static void quick_in_row(struct kunit *test)
{
	static const struct {
		const char	*limit;
		unsigned int	ns;
		bool		quick;
	} rounds[] = { { "30000", 500, true }, { "0", 500, true }, { "30000", 2000, false } };
	struct hwtimer_wheel *wheel;
	struct hwtimer_monitor *m;
	unsigned int i, k;
	struct job *j;
	u64 deadline;

	need_files(test);
	wheel = a_wheel(test);
	m = &to_driven(wheel)->monitor;
	short_monitor = m;
	j = jobs(test, wheel, 1000);
	for (k = 0; k < ARRAY_SIZE(rounds); k++) {
		set_limit(test, rounds[k].limit);
		short_ns = rounds[k].ns;
		/* when a tick begins */
		deadline = to_driven(wheel)->start_ns + (k + 1) * 5000 * TICK;
		m->longest_ns = 0;
		short_quick = 0;
		for (i = 0; i < 1000; i++) {
			hwtimer_init(&j[i].t, wheel, short_fired);
			KUNIT_EXPECT_EQ(test, 0, hwtimer_schedule_at(&j[i].t, deadline));
		}
		nap_until(deadline + SEC);
		KUNIT_EXPECT_GE(test, m->longest_ns, short_ns);
		KUNIT_EXPECT_LT(test, m->longest_ns, 2 * short_ns);
		/* All but the first one of each row of 17, and more if jiffies moved. */
		KUNIT_EXPECT_EQ(test, rounds[k].quick, short_quick > 900);
		KUNIT_EXPECT_EQ(test, rounds[k].quick, short_quick > 0);
		/* Those in the middle were more than 256 us late. */
		KUNIT_EXPECT_GE(test, local_read(&m->late[9]) + local_read(&m->late[10]),
				(k + 1) * 350L);
	}
	set_limit(test, "10000");
	hwtimer_wheel_destroy(wheel);
}

static unsigned int delay_ms;

static noinline void delays(struct hwtimer_timeout *t)
{
	mdelay(delay_ms);
}

static void many_at_once(struct kunit *test, struct hwtimer_wheel *wheel, struct job *j,
			 unsigned int n)
{
	u64 deadline = hwtimer_wheel_now(wheel) + SEC;
	unsigned int i;

	for (i = 0; i < n; i++)
		KUNIT_EXPECT_EQ(test, 0, hwtimer_schedule_at(&j[i].t, deadline));
	nap(2 * SEC);
}

/*
 * After many quick callbacks, a long one is found that comes alone, or as one of a few; also if
 * the limit became lower meanwhile.
 */
static void long_after_quick(struct kunit *test)
{
	struct hwtimer_wheel *wheel = a_wheel(test);
	struct hwtimer_monitor *m = &to_driven(wheel)->monitor;
	struct job *j = jobs(test, wheel, 1001);
	unsigned int i;

	need_files(test);
	m->longest_ns = 100 * NSEC_PER_USEC;
	for (i = 0; i < 1000; i++)
		hwtimer_init(&j[i].t, wheel, quick_fired);
	hwtimer_init(&j[1000].t, wheel, delays);

	set_limit(test, "30000");
	delay_ms = 40;
	many_at_once(test, wheel, j, 1000);
	many_at_once(test, wheel, &j[1000], 1);
	KUNIT_EXPECT_EQ(test, 1UL, m->long_callbacks);
	for (i = 2; i <= 6; i++) {
		many_at_once(test, wheel, j, 1000);
		many_at_once(test, wheel, &j[993], 8);
		KUNIT_EXPECT_EQ(test, i, m->long_callbacks);
	}
	KUNIT_EXPECT_STREQ(test, "delays", m->long_fn);

	many_at_once(test, wheel, j, 1000);
	set_limit(test, "2000");
	delay_ms = 3;
	for (i = 0; i < 10; i++)
		many_at_once(test, wheel, &j[1000], 1);
	KUNIT_EXPECT_EQ(test, 16UL, m->long_callbacks);
	set_limit(test, "10000");
	hwtimer_wheel_destroy(wheel);
}

/* A full table of functions is reported once; long callbacks are still counted. */
static void many_long_callbacks(struct kunit *test)
{
	struct hwtimer_wheel *wheel = a_wheel(test);
	struct job *j = jobs(test, wheel, 1);
	unsigned int i;

	mark_log();
	for (i = 0; i < 2 * ARRAY_SIZE(dawdlers); i++) {
		hwtimer_init(&j->t, wheel, dawdlers[i % ARRAY_SIZE(dawdlers)]);
		KUNIT_EXPECT_EQ(test, 0, hwtimer_schedule(&j->t, 0));
		nap(SEC);
	}
	KUNIT_EXPECT_EQ(test, 80UL, long_callbacks(wheel));
	/* other suites, and the case above, may have filled a part of the table */
	KUNIT_EXPECT_LE(test, lines_with("callback_limit_us is"), 32U);
	KUNIT_EXPECT_GE(test, lines_with("callback_limit_us is"), 16U);
	KUNIT_EXPECT_EQ(test, 1U, lines_with("no more are named"));
	hwtimer_wheel_destroy(wheel);
}

static void no_run(struct hwtimer_work *work)
{
}

/* Reports name the owner's function, not the callback that all items share. */
static void owners_of_others(struct kunit *test)
{
	struct hwtimer_wheel_params params = { .name = "misuse", .tick_ns = TICK, .slots = 64 };
	struct hwtimer_wheel *wheel = hwtimer_wheel_create(&params);
	struct hwtimer_work *work;

	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, wheel);
	work = kunit_kzalloc(test, sizeof(*work), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, work);
	mark_log();
	hwtimer_work_init(work, wheel, NULL, no_run);
	KUNIT_EXPECT_EQ(test, 0, hwtimer_work_schedule(work, 10 * SEC));
	expect_report("wheel misuse destroyed, timeouts pending: 1");
	hwtimer_wheel_destroy(wheel);
	KUNIT_EXPECT_EQ(test, 1U, lines_with(", no_run"));
}

/* Too many wheels, as if there were one per object: there is one warning. */
static void many_wheels(struct kunit *test)
{
	struct hwtimer_wheel_params params = {
		.name = "misuse", .tick_ns = TICK, .slots = 1,
	};
	struct hwtimer_wheel *wheels[70];
	unsigned int i;

	mark_log();
	for (i = 0; i < ARRAY_SIZE(wheels); i++) {
		wheels[i] = hwtimer_wheel_create(&params);
		KUNIT_EXPECT_FALSE(test, IS_ERR(wheels[i]));
		if (i == 30)
			KUNIT_EXPECT_EQ(test, 0U, lines_with("more than 64 wheels"));
	}
	KUNIT_EXPECT_EQ(test, 1U, lines_with("more than 64 wheels"));
	while (i--)
		hwtimer_wheel_destroy(wheels[i]);
}

static noinline void leaks_interrupts(struct hwtimer_timeout *t)
{
	local_irq_disable();
}

static noinline void leaks_preemption(struct hwtimer_timeout *t)
{
	preempt_disable();
}

static noinline void leaks_bottom_halves(struct hwtimer_timeout *t)
{
	local_bh_disable();
}

/* The callback after it */
static void expect_repaired(struct hwtimer_timeout *t)
{
	job_fired(t);
	container_of(t, struct job, t)->released = irqs_disabled() || preempt_count();
}

/*
 * A callback that returns with preemption, bottom halves or interrupts disabled is named, also
 * among many quick ones, and another one is called with all of them enabled.
 */
static void leaky_callbacks(struct kunit *test)
{
	static const struct {
		hwtimer_fn_t	fn;
		const char	*line;
	} leaks[] = {
		{ leaks_interrupts, "misuse: interrupts are off after leaks_interrupts" },
		{ leaks_bottom_halves, "misuse: leaks_bottom_halves" },
		{ leaks_preemption, "misuse: leaks_preemption" },
	};
	struct hwtimer_wheel *wheel;
	struct job *j, *last;
	unsigned int i, k, n = 0;

	need_files(test);
	set_limit(test, "30000");
	wheel = a_wheel(test);
	to_driven(wheel)->monitor.longest_ns = 100 * NSEC_PER_USEC;
	j = jobs(test, wheel, 102);
	last = &j[101];
	for (i = 0; i < 99; i++)
		hwtimer_init(&j[i].t, wheel, quick_fired);
	hwtimer_init(&last->t, wheel, expect_repaired);
	/* The kernel may not count how often preemption is disabled. */
	for (i = 0; i < (IS_ENABLED(CONFIG_PREEMPT_COUNT) ? 3 : 2); i++) {
		/* Alone with the other one; two among many, of which one at most is measured. */
		hwtimer_init(&j[99].t, wheel, leaks[i].fn);
		hwtimer_init(&j[100].t, wheel, leaks[i].fn);
		for (k = 0; k < 2; k++) {
			/* Interrupts: only if the clock is read after this one. */
			if (k && !i)
				continue;
			mark_log();
			many_at_once(test, wheel, k ? j : &j[100], k ? 102 : 2);
			KUNIT_EXPECT_EQ(test, ++n, last->fired);
			KUNIT_EXPECT_EQ(test, 0U, last->released);
			KUNIT_EXPECT_EQ(test, k + 1, lines_with(leaks[i].line));
		}
	}
	set_limit(test, "10000");
	hwtimer_wheel_destroy(wheel);
}

static struct kunit_case misuse_cases[] = {
	KUNIT_CASE(leaky_callbacks),
	KUNIT_CASE(init_anew),
	KUNIT_CASE(init_pending),
	KUNIT_CASE(on_stack),
	KUNIT_CASE(destroy_pending),
	KUNIT_CASE(destroy_stopped),
	KUNIT_CASE(long_callback),
	KUNIT_CASE(owners_of_others),
	KUNIT_CASE(long_among_quick),
	KUNIT_CASE(quick_in_row),
	KUNIT_CASE(long_after_quick),
	KUNIT_CASE(many_long_callbacks),
	KUNIT_CASE(many_wheels),
	{}
};

SUITE(misuse, "misuse");
