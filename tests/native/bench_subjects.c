// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimer: the subjects of the native benchmark: the wheel, whose worker this program calls, and
 * timer_list.
 */
#include <native.h>

#include "bench.h"

/* The loop is the same for all subjects. The functions are constants, which are inlined. */
typedef void (*op_fn)(struct conn *c, const struct when *when);

static __always_inline void each(const struct range *r, op_fn fn)
{
	unsigned long i;
	struct when when;
	u32 n;

	for (i = r->first; i < r->first + r->n; i++) {
		n = order[i];
		when.ns = delays_ns[n % DELAYS] + r->shift.ns;
		when.jiffies = delays_jiffies[n % DELAYS] + r->shift.jiffies;
		fn(&conns[n], &when);
	}
}

static __always_inline void run_ops(enum op op, const struct range *r, op_fn arm, op_fn cancel,
				    op_fn arm_cancel, op_fn touch, op_fn release)
{
	switch (op) {
	case ARM:
		each(r, arm);
		break;
	case CANCEL:
		each(r, cancel);
		break;
	case ARM_CANCEL:
		each(r, arm_cancel);
		break;
	case TOUCH_LATER:
	case TOUCH_NEAR:
		each(r, touch);
		break;
	case RELEASE:
		each(r, release);
		break;
	default:
		break;
	}
}

/* hwtimer. The worker runs when the program calls it. */

bool kicked;

static void kick(struct hwtimer_wheel *w)
{
	WRITE_ONCE(kicked, true);
}

/* Take the place of the wheel's thread, which ends. */
static void take_over(struct hwtimer_wheel *w)
{
	static struct queue_ops ops = { .kick = kick };
	struct task_struct *task = to_driven(w)->task;

	WRITE_ONCE(task->stop, 1);
	wake_up_process(task);
	/* One reference is that of the wheel, the other one that of kthread_stop(). */
	while (atomic_read(&task->usage) > 2)
		cpu_relax();
	ops.call = hwtimer_worker_ops.call;
	w->ops = &ops;
}

/* As worker_fn() in hwtimer_worker.c. Returns the time until which it would sleep. */
u64 run_worker(struct hwtimer_wheel *w)
{
	struct hwtimer_driven *driven = to_driven(w);
	u64 now, until;

	queue_awake(w);
	do {
		do {
			now = hwtimer_driven_now(driven);
		} while (queue_advance(w, now, QUEUE_BUDGET));
		until = queue_prepare_sleep(w, now);
	} while (!until);
	return until;
}

struct hwtimer_wheel *make_wheel(unsigned long cap)
{
	const struct hwtimer_wheel_params params = {
		.name = "bench", .tick_ns = NSEC_PER_SEC / HZ, .slots = 4096, .levels = 2,
		.cap = cap,
	};
	struct hwtimer_wheel *w = hwtimer_wheel_create(&params);

	if (IS_ERR(w)) {
		fprintf(stderr, "bench: no wheel\n");
		exit(1);
	}
	return w;
}

static void wheel_begin(void)
{
	wheel = make_wheel(0);
	take_over(wheel);
}

static void wheel_end(void)
{
	hwtimer_wheel_stop(wheel, NULL);
	hwtimer_wheel_destroy(wheel);
}

static void wheel_fired(struct hwtimer_timeout *t)
{
	fired++;
}

static void wheel_init_conn(struct conn *c)
{
	hwtimer_init(&c->timer.hwtimer, wheel, wheel_fired);
}

static void wheel_arm_after(struct conn *c, const struct when *when)
{
	hwtimer_schedule(&c->timer.hwtimer, when->ns);
}

static void wheel_arm_at(struct conn *c, const struct when *when)
{
	hwtimer_schedule_at(&c->timer.hwtimer, when->ns);
}

static void wheel_touch_after(struct conn *c, const struct when *when)
{
	hwtimer_touch(&c->timer.hwtimer, when->ns);
}

static void wheel_touch_at(struct conn *c, const struct when *when)
{
	hwtimer_touch_at(&c->timer.hwtimer, when->ns);
}

static void wheel_cancel_conn(struct conn *c, const struct when *when)
{
	hwtimer_cancel(&c->timer.hwtimer);
}

static void wheel_arm_cancel_after(struct conn *c, const struct when *when)
{
	hwtimer_schedule(&c->timer.hwtimer, when->ns);
	hwtimer_cancel(&c->timer.hwtimer);
}

static void wheel_arm_cancel_at(struct conn *c, const struct when *when)
{
	hwtimer_schedule_at(&c->timer.hwtimer, when->ns);
	hwtimer_cancel(&c->timer.hwtimer);
}

static void wheel_released(struct hwtimer_timeout *t)
{
}

static void wheel_release_after(struct conn *c, const struct when *when)
{
	wheel_init_conn(c);
	wheel_arm_after(c, when);
	hwtimer_release(&c->timer.hwtimer, wheel_released);
}

static void wheel_release_at(struct conn *c, const struct when *when)
{
	wheel_init_conn(c);
	wheel_arm_at(c, when);
	hwtimer_release(&c->timer.hwtimer, wheel_released);
}

static void wheel_run(enum op op, const struct range *r)
{
	run_ops(op, r, wheel_arm_after, wheel_cancel_conn, wheel_arm_cancel_after,
		wheel_touch_after, wheel_release_after);
}

/* Read the clock once for all operations. */
static void wheel_run_at(enum op op, const struct range *range)
{
	struct range r = *range;
	unsigned long i;

	if (op == ARM_AT) {
		for (i = r.first; i < r.first + r.n; i++)
			wheel_arm_at(&conns[order[i]], &r.deadline);
		return;
	}
	r.shift.ns += hwtimer_wheel_now(wheel);
	run_ops(op, &r, wheel_arm_at, wheel_cancel_conn, wheel_arm_cancel_at, wheel_touch_at,
		wheel_release_at);
}

static void settle(void)
{
	run_worker(wheel);
}

const struct subject hwtimer = {
	"hwtimer", wheel_begin, wheel_init_conn, wheel_run, settle, settle, wheel_end,
};

const struct subject hwtimer_at = {
	"hwtimer_at", wheel_begin, wheel_init_conn, wheel_run_at, settle, settle, wheel_end,
};

/* timer_list */

static void list_begin(void)
{
	jiffies_64 += 1000;
	timer_list_run();
}

static void list_fired(struct timer_list *t)
{
	fired++;
}

static void list_init_conn(struct conn *c)
{
	timer_setup(&c->timer.list, list_fired, 0);
}

static void list_arm(struct conn *c, const struct when *when)
{
	mod_timer(&c->timer.list, when->jiffies);
}

static void list_cancel(struct conn *c, const struct when *when)
{
	timer_delete(&c->timer.list);
}

static void list_arm_cancel(struct conn *c, const struct when *when)
{
	mod_timer(&c->timer.list, when->jiffies);
	timer_delete(&c->timer.list);
}

static void list_life(struct conn *c, const struct when *when)
{
	list_init_conn(c);
	list_arm_cancel(c, when);
}

static void list_run(enum op op, const struct range *range)
{
	struct range r = *range;
	unsigned long i;

	if (op == ARM_AT) {
		for (i = r.first; i < r.first + r.n; i++)
			list_arm(&conns[order[i]], &r.deadline);
		return;
	}
	r.shift.jiffies += READ_ONCE(jiffies_64);
	run_ops(op, &r, list_arm, list_cancel, list_arm_cancel, list_arm, list_life);
}

static void list_end(void)
{
	unsigned long i;

	for (i = 0; i < pending + idle; i++)
		timer_delete(&conns[i].timer.list);
}

const struct subject timer_list = {
	"timer_list", list_begin, list_init_conn, list_run, NULL, timer_list_run, list_end,
};

void init_conns(const struct subject *s, unsigned long n)
{
	unsigned long i;

	fired = 0;
	for (i = 0; i < n; i++) {
		memset(&conns[i].timer, 0, sizeof(conns[i].timer));
		s->init(&conns[i]);
	}
}

void check_fired(const struct subject *s, unsigned long n)
{
	if (fired == n)
		return;
	fprintf(stderr, "bench: %s: %lu expired instead of %lu: is this machine too slow?\n",
		s->name, fired, n);
	exit(1);
}

/*
 * Arm all conns that are to be pending. The worker runs after each portion, as it would be kicked
 * about as often, after each QUEUE_DEPTH requests.
 */
void arm_all(const struct subject *s, enum op op, struct range *r)
{
	for (r->first = 0; r->first < pending; r->first += r->n) {
		r->n = min(pending - r->first, PORTION);
		s->run(op, r);
		if (s->settle)
			s->settle();
	}
}
