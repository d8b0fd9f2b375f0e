// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimer: KUnit suite hwtimer_interleave: races, step by step. One operation is the victim;
 * between two of its steps (hwtimer_step.h), another one, the intruder, is carried out as a whole:
 * at each step of the victim, for each pair of operations, in each state of a timeout and of the
 * worker. Then the worker goes on until nothing is due any more, and the books must balance: each
 * arming has ended once, none was early or late, and the wheel touches no timeout that it has
 * released. Memory accesses have the order of one CPU here; tests/litmus checks weaker orders.
 *
 * The wheel is driven by hand, as its thread does it. Races with a thread need a real
 * one, with the intruder in the context of its worker. Those cases are made for User-Mode Linux
 * with time-travel=inf-cpu, where any expiry after the boundary of its tick is late.
 */
#include <kunit/test.h>
#include <linux/completion.h>
#include <linux/err.h>
#include <linux/kthread.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/preempt.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "../../core/hwtimer_driver.h"
#include "hwtimer_kunit.h"
#include "step.h"

#define TICK	((u64)NSEC_PER_MSEC)

/* Deadlines, in ticks from the beginning of the scene. */
enum { NOW = 0, SOON = 2, NEXT = 4, LATER = 8, HELD_UP = 12, LATEST = 20, NEVER = -1 };

/* The distance of scenes on a wheel driven by hand: whole rounds, so all use the same slots. */
#define SCENE	(4096 * TICK)

/* The timeouts of a scene. Most acts are about the subject. */
enum who { SUBJECT, OTHER, NEIGHBOUR, THINGS, NOBODY = THINGS };

struct rig;

static void unstage(void)
{
	WRITE_ONCE(hwtimer_step_hook, NULL);
}

/* A timeout and its books. */
struct thing {
	struct hwtimer_timeout	t;
	/* its content when it was freed */
	struct hwtimer_timeout	grave;
	struct rig		*rig;
	bool			freed;
	/* queue_detach() was called */
	bool			detached;
	bool			released;
	/* its callback arms it again */
	bool			again;
	unsigned int		armed;
	unsigned int		expired;
	unsigned int		cancelled;
	unsigned int		reported;
	/* when the last arm or touch returned, its deadline, and that of the one before */
	u64			since;
	u64			asked;
	u64			before;
};

typedef void (*op_t)(struct rig *rig, struct thing *th, u64 deadline);

/* An operation; @ticks is the deadline of an arm or touch. An empty act ends a list. */
struct act {
	op_t			op;
	enum who		who;
	int			ticks;
};

struct play {
	const char		*name;
	struct act		acts[4];
};

struct rig {
	struct kunit		*test;
	struct hwtimer_wheel	*wheel;
	/* driven by hand */
	struct hwtimer_wheel	own;
	struct thing		things[THINGS + 1];
	u64			now;
	/* the scene's beginning: ticks count from here */
	u64			base;
	/* when the scene began */
	struct queue_counts	counts;
	/* of the timeout whose callback runs */
	u64			deadline;
	bool			asleep;
	bool			kicked;
	u64			until;
	/* the timeout that an interrupted producer changes, and the one that it still uses */
	struct thing		*flux;
	struct thing		*needed;
	/* the producer releases it, and does not use it after that */
	bool			releasing;
	/* victim and intruder both set a deadline: either may win */
	bool			contended;
	unsigned long		touched;
	unsigned long		rejected;
	/* the intruder, and @then, come in at step @n of @task */
	struct task_struct	*task;
	const struct play	*intruder;
	const struct play	*then;
	unsigned int		n;
	unsigned int		step;
	bool			inside;
	unsigned long		interleavings;
	unsigned long		at;
	/* the first failure */
	const char		*wrong;
};

static void wrong(struct rig *rig, const char *what)
{
	if (!rig->wrong)
		rig->wrong = what;
}

static bool driven_by_hand(const struct rig *rig)
{
	return rig->wheel == &rig->own;
}

static u64 time_of(const struct rig *rig)
{
	return driven_by_hand(rig) ? rig->now : hwtimer_driven_now(to_driven(rig->wheel));
}

/* The boundary at which @th is due, if its deadline is @deadline. */
static u64 boundary(const struct thing *th, u64 deadline)
{
	/* Never at a tick that had begun by the time of the arm or touch. */
	return max(DIV64_U64_ROUND_UP(deadline, TICK), div64_u64(th->since, TICK) + 1) * TICK;
}

/* From now on the memory is not the wheel's: check_books() finds any change to it. */
static void bury(struct thing *th)
{
	th->freed = true;
	INIT_LIST_HEAD(&th->t.node);
	th->t.request.next = NULL;
	/* As if it were on all lists of the worker. */
	atomic64_set(&th->t.word, 0xdead6);
	th->grave = th->t;
}

static void note_asked(struct thing *th, u64 deadline)
{
	th->before = th->asked;
	th->asked = deadline;
}

/* Is @deadline the one that was asked for? Unknown while a producer is changing it. */
static void check_asked(struct rig *rig, struct thing *th, u64 deadline)
{
	if (deadline != th->asked && th != rig->flux &&
	    !(rig->contended && deadline == th->before))
		wrong(rig, "has another deadline");
}

/*
 * Does another timeout hold the only place: one that is pending, or the one of the interrupted
 * operation? The latter holds its place from just before to just after it is pending.
 */
static bool place_taken(struct rig *rig, const struct thing *th)
{
	const struct thing *other;
	struct queue_counts c;

	if (queue_pending(&th->t))
		return false;
	for (other = rig->things; other < rig->things + THINGS; other++)
		if (queue_pending(&other->t))
			return true;
	if (!rig->inside)
		return false;
	queue_count(rig->wheel, &c);
	return c.pending;
}

static void do_arm(struct rig *rig, struct thing *th, u64 deadline)
{
	int ret = queue_arm(&th->t, deadline);

	th->since = time_of(rig);
	if (!ret)
		th->armed++;
	else if (ret == 1)
		rig->touched++;
	else if (ret == -EAGAIN && rig->wheel->places->number == 1 && place_taken(rig, th))
		rig->rejected++;
	else if (ret != -ESHUTDOWN || !th->released)
		wrong(rig, "arm fails");
	if (ret >= 0) {
		th->detached = false;
		note_asked(th, deadline);
	}
}

static void do_touch(struct rig *rig, struct thing *th, u64 deadline)
{
	int ret = queue_touch(&th->t, deadline);

	th->since = time_of(rig);
	if (!ret) {
		rig->touched++;
		note_asked(th, deadline);
	} else if (ret != -ENOENT && (ret != -ESHUTDOWN || !th->released)) {
		wrong(rig, "touch fails");
	}
}

static void do_cancel(struct rig *rig, struct thing *th, u64 deadline)
{
	th->cancelled += queue_cancel(&th->t);
}

static void do_detach(struct rig *rig, struct thing *th, u64 deadline)
{
	queue_detach(&th->t);
	th->detached = true;
}

/* For timeouts that were cancelled and that no operation arms. */
static void do_free(struct rig *rig, struct thing *th, u64 deadline)
{
	if (!queue_holds(&th->t))
		bury(th);
}

static void thing_released(struct hwtimer_timeout *t)
{
	struct thing *th = container_of(t, struct thing, t);
	struct rig *rig = th->rig;

	if (th->freed || th->reported++ || !th->released)
		wrong(rig, "reports a release wrongly");
	else if (th != rig->needed || rig->releasing)
		bury(th);
}

static void do_release(struct rig *rig, struct thing *th, u64 deadline)
{
	th->released = true;
	th->cancelled += queue_release(&th->t, thing_released);
}

/* One pass of the worker, after which it goes to sleep if it may. */
static void pass(struct rig *rig)
{
	rig->asleep = false;
	queue_awake(rig->wheel);
	while (queue_advance(rig->wheel, rig->now, QUEUE_BUDGET))
		;
	/* A kick from here on keeps the worker from sleeping. */
	rig->kicked = false;
	rig->until = queue_prepare_sleep(rig->wheel, rig->now);
	rig->asleep = rig->until;
}

static void do_pass(struct rig *rig, struct thing *nobody, u64 deadline)
{
	pass(rig);
	/* While a producer is between setting QUEUED and its push, the worker does not sleep. */
	if (!rig->asleep)
		pass(rig);
}

/* Time passes without the worker: nothing can expire before the next tick. */
static void do_wait(struct rig *rig, struct thing *nobody, u64 deadline)
{
	enum who who;

	rig->now = deadline;
	for (who = 0; who < THINGS; who++)
		rig->things[who].since = rig->now;
}

static void perform(struct rig *rig, const struct act *acts)
{
	const struct act *act;
	struct thing *th;

	for (act = acts; act->op; act++) {
		th = &rig->things[act->who];
		if (!th->freed)
			act->op(rig, th, act->ticks == NEVER ? HWTIMER_HORIZON :
							       rig->base + act->ticks * TICK);
	}
}

/* Does @play do @op to the subject? */
static bool does(const struct play *play, op_t op)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(play->acts); i++)
		if (play->acts[i].op == op && play->acts[i].who == SUBJECT)
			return true;
	return false;
}

static bool asks(const struct play *play)
{
	return does(play, do_arm) || does(play, do_touch);
}

static void thing_fired(struct hwtimer_timeout *t)
{
	struct thing *th = container_of(t, struct thing, t);
	struct rig *rig = th->rig;
	bool untouched;

	th->expired++;
	if (th->freed) {
		wrong(rig, "called when it was freed");
		return;
	}
	/* It may have been armed or released since the worker claimed it. */
	untouched = !queue_pending(t) && !th->released;
	if (!driven_by_hand(rig))
		rig->deadline = untouched ? queue_deadline(t) : time_of(rig);
	if (untouched)
		check_asked(rig, th, rig->deadline);
	if (time_of(rig) < rig->deadline)
		wrong(rig, "early");
	if (th != rig->flux && time_of(rig) >= boundary(th, rig->deadline) + TICK)
		wrong(rig, "late");
	if (th->again) {
		th->again = false;
		do_arm(rig, th, rig->base + LATER * TICK);
	} else if (th != rig->needed && untouched) {
		/* The callback frees it, as owners may. */
		bury(th);
	}
}

static void rig_kick(struct hwtimer_wheel *w)
{
	container_of(w, struct rig, own)->kicked = true;
}

static void rig_call(struct hwtimer_wheel *w, struct hwtimer_timeout *t,
		     hwtimer_fn_t fn, u64 deadline)
{
	struct rig *rig = container_of(w, struct rig, own);

	if (deadline > (w->wheel.cur - 1) * TICK)
		wrong(rig, "early");
	rig->deadline = deadline;
	fn(t);
}

static const struct queue_ops rig_ops = {
	.kick	= rig_kick,
	.call	= rig_call,
};

/* The rig whose victim is running: step_in() has no argument. */
static struct rig *staged;

static void step_in(void)
{
	struct rig *rig = staged;

	if (rig->inside || rig->task != current || ++rig->step != rig->n)
		return;
	rig->inside = true;
	rig->at = _RET_IP_;
	if (!driven_by_hand(rig))
		rig->base = time_of(rig);
	perform(rig, rig->intruder->acts);
	if (rig->then)
		perform(rig, rig->then->acts);
	rig->inside = false;
}

static void stage(struct rig *rig, struct task_struct *task)
{
	rig->task = task;
	rig->step = 0;
	staged = rig;
	WRITE_ONCE(hwtimer_step_hook, step_in);
}

static void things_init(struct rig *rig)
{
	enum who who;

	queue_count(rig->wheel, &rig->counts);
	memset(rig->things, 0, sizeof(rig->things));
	for (who = 0; who < THINGS; who++) {
		rig->things[who].rig = rig;
		queue_timeout_init(&rig->things[who].t, rig->wheel, thing_fired);
	}
	rig->flux = NULL;
	rig->needed = NULL;
	rig->releasing = false;
	rig->contended = false;
	rig->touched = 0;
	rig->rejected = 0;
	rig->at = 0;
	rig->wrong = NULL;
}

/*
 * The worker sleeps and was not kicked: has it missed anything? Returns whether any timeout is
 * still to expire or to be given back.
 */
static bool check_sleep(struct rig *rig)
{
	unsigned long pending = 0;
	struct queue_counts c;
	struct thing *th;
	bool more = false;
	u64 deadline;

	for (th = rig->things; th < rig->things + THINGS; th++) {
		if (th->released && !th->reported) {
			more = true;
			if (rig->until > rig->now + QUEUE_DRAIN_NS)
				wrong(rig, "sleeps long over a release");
		}
		if (th->freed)
			continue;
		if (th->detached && !th->released && queue_holds(&th->t))
			wrong(rig, "sleeps over a detach");
		if (!queue_pending(&th->t))
			continue;
		pending++;
		deadline = queue_deadline(&th->t);
		check_asked(rig, th, deadline);
		if (deadline == HWTIMER_HORIZON)
			continue;
		more = true;
		if (boundary(th, deadline) < rig->until)
			wrong(rig, "sleeps too long");
	}
	queue_count(rig->wheel, &c);
	if (c.pending != pending)
		wrong(rig, "has a wrong count of pending timeouts");
	return more;
}

/* Be the thread until no timeout is left to expire. */
static void drive(struct rig *rig)
{
	unsigned int rounds;

	for (rounds = 0; rounds < 100 && !rig->wrong; rounds++) {
		if (rig->asleep && !rig->kicked) {
			if (!check_sleep(rig))
				return;
			rig->now = max(rig->now, rig->until);
		}
		pass(rig);
	}
	wrong(rig, "never sleeps");
}

static void check_books(struct rig *rig)
{
	unsigned long armed = 0, expired = 0, cancelled = 0;
	struct queue_counts c;
	struct thing *th;

	for (th = rig->things; th < rig->things + THINGS; th++) {
		if (th->armed != th->expired + th->cancelled)
			wrong(rig, "an arming did not end once");
		if (th->reported != th->released)
			wrong(rig, "a release was not reported once");
		if (th->freed && memcmp(&th->t, &th->grave, sizeof(th->t)))
			wrong(rig, "freed memory was written");
		armed += th->armed;
		expired += th->expired;
		cancelled += th->cancelled;
	}
	queue_count(rig->wheel, &c);
	if (c.pending || c.armed - rig->counts.armed != armed ||
	    c.expired - rig->counts.expired != expired ||
	    c.cancelled - rig->counts.cancelled != cancelled ||
	    c.touched - rig->counts.touched != rig->touched ||
	    c.rejected - rig->counts.rejected != rig->rejected)
		wrong(rig, "counts differ from what happened");
	if (rig->wheel->wheel.filed || places_taken(rig->wheel->places))
		wrong(rig, "a timeout is still filed or charged");
}

/* Shapes of the wheel, some with another timeout beside the subject. */
static const struct ground {
	const char		*name;
	struct hwtimer_wheel_params	shape;
	struct act		neighbour[2];
} grounds[] = {
	{ "alone, with one place", { .tick_ns = TICK, .slots = 8, .levels = 1, .cap = 1 } },
	{ "with one due soon", { .tick_ns = TICK, .slots = 64, .levels = 1, .cap = 3 },
	  {{ do_arm, NEIGHBOUR, NEXT }} },
	{ "with one due, on four levels", { .tick_ns = TICK, .slots = 4, .levels = 4 },
	  {{ do_arm, NEIGHBOUR, NOW }} },
};

/* What happened to the subject before. The worker runs between @filed and @since. */
static const struct scene {
	const char		*name;
	struct act		filed[2];
	struct act		since[3];
	bool			again;
} scenes[] = {
	{ "new" },
	{ "due", {{ do_arm, SUBJECT, NOW }} },
	{ "due and periodic", {{ do_arm, SUBJECT, NOW }}, .again = true },
	{ "pending", {{ do_arm, SUBJECT, LATER }} },
	{ "pending for ever", {{ do_arm, SUBJECT, NEVER }} },
	{ "due and cancelled", {{ do_arm, SUBJECT, NOW }}, {{ do_cancel, SUBJECT }} },
	{ "cancelled", {{ do_arm, SUBJECT, LATER }}, {{ do_cancel, SUBJECT }} },
	{ "cancelled and detached", {{ do_arm, SUBJECT, LATER }},
	  {{ do_cancel, SUBJECT }, { do_detach, SUBJECT }} },
	{ "requested", {}, {{ do_arm, SUBJECT, LATER }} },
	{ "requested and cancelled", {}, {{ do_arm, SUBJECT, SOON }, { do_cancel, SUBJECT }} },
	{ "due and touched", {{ do_arm, SUBJECT, NOW }}, {{ do_touch, SUBJECT, LATER }} },
	{ "pending and hurried", {{ do_arm, SUBJECT, LATER }}, {{ do_touch, SUBJECT, NOW }} },
	{ "released", {{ do_arm, SUBJECT, LATER }}, {{ do_release, SUBJECT }} },
};

/* What the worker does when the scene begins. It sleeps lightly while timeouts are being armed. */
enum mood { LIGHTLY, SOUNDLY, AWAKE, MOODS };
static const char *const moods[] = { "sleeps lightly", "sleeps soundly", "is awake" };

static const struct play victims[] = {
	{ "worker", {{ do_pass, NOBODY }} },
	{ "arm, sooner", {{ do_arm, SUBJECT, SOON }} },
	{ "arm, later", {{ do_arm, SUBJECT, LATER }} },
	{ "touch, sooner", {{ do_touch, SUBJECT, SOON }} },
	{ "touch, later", {{ do_touch, SUBJECT, LATEST }} },
	{ "cancel", {{ do_cancel, SUBJECT }} },
	{ "cancel, detach and free",
	  {{ do_cancel, SUBJECT }, { do_detach, SUBJECT }, { do_free, SUBJECT }} },
	{ "release", {{ do_release, SUBJECT }} },
};

static const struct play intruders[] = {
	{ "nothing" },
	{ "another one is armed, sooner", {{ do_arm, OTHER, SOON }} },
	{ "another one is armed, later", {{ do_arm, OTHER, LATEST }} },
	{ "armed for now", {{ do_arm, SUBJECT, NOW }} },
	{ "armed, sooner", {{ do_arm, SUBJECT, SOON }} },
	{ "armed, later", {{ do_arm, SUBJECT, LATEST }} },
	{ "armed for ever", {{ do_arm, SUBJECT, NEVER }} },
	{ "touched, sooner", {{ do_touch, SUBJECT, SOON }} },
	{ "touched, later", {{ do_touch, SUBJECT, LATEST }} },
	{ "cancelled", {{ do_cancel, SUBJECT }} },
	{ "cancelled and armed", {{ do_cancel, SUBJECT }, { do_arm, SUBJECT, LATER }} },
	{ "cancelled and freed", {{ do_cancel, SUBJECT }, { do_free, SUBJECT }} },
	{ "cancelled, detached and freed",
	  {{ do_cancel, SUBJECT }, { do_detach, SUBJECT }, { do_free, SUBJECT }} },
	{ "released", {{ do_release, SUBJECT }} },
};

/* What the worker does after the intruder, unless the worker is the victim. */
static const struct play thens[] = {
	{ "" },
	{ ", and the worker runs", {{ do_pass, NOBODY }} },
	{ ", and the worker runs much later",
	  {{ do_wait, NOBODY, HELD_UP }, { do_pass, NOBODY }} },
};

static bool is_worker(const struct play *victim)
{
	return victim->acts[0].op == do_pass;
}

/* Does hwtimer.h allow owners to do both at a time? */
static bool allowed(const struct scene *s, const struct play *victim,
		    const struct play *intruder)
{
	bool released = s->since[0].op == do_release;

	if (is_worker(victim))
		return !released || !(does(intruder, do_release) || does(intruder, do_free));
	if (released || s->again || does(intruder, do_free))
		return false;
	if (does(victim, do_free))
		return !does(intruder, do_arm) && !does(intruder, do_release);
	return !does(victim, do_release) || !does(intruder, do_release);
}

/* Everything before the victim begins. */
static void set_scene(struct rig *rig, const struct ground *g, const struct scene *s,
		      unsigned int mood)
{
	things_init(rig);
	rig->things[SUBJECT].again = s->again;
	rig->base += SCENE;
	rig->now = rig->base - 10 * TICK;
	perform(rig, g->neighbour);
	perform(rig, s->filed);
	rig->wheel->sleep.armed--;
	pass(rig);
	if (mood == LIGHTLY)
		rig->wheel->sleep.armed--;
	else
		pass(rig);
	rig->now = rig->base;
	perform(rig, s->since);
	if (mood == AWAKE) {
		rig->asleep = false;
		queue_awake(rig->wheel);
	}
}

/* False when the victim has no n-th step. */
static bool interleave(struct rig *rig, const struct ground *g, const struct scene *s,
		       unsigned int mood, const struct play *victim)
{
	struct thing *subject = &rig->things[SUBJECT], *th;

	set_scene(rig, g, s, mood);
	rig->contended = asks(rig->intruder) && (asks(victim) || s->again);
	if (!is_worker(victim)) {
		rig->flux = subject;
		rig->releasing = does(victim, do_release);
		/*
		 * An arm of a timeout that is not pending does not use it after its push, so the
		 * callback may free it, unless the intruder arms or releases it as well.
		 */
		if (victim->acts[0].op != do_arm || queue_pending(&subject->t) ||
		    does(rig->intruder, do_arm) || does(rig->intruder, do_release))
			rig->needed = subject;
	}
	stage(rig, current);
	perform(rig, victim->acts);
	unstage();
	rig->flux = NULL;
	rig->needed = NULL;

	drive(rig);
	for (th = rig->things; th < rig->things + THINGS && !rig->wrong; th++) {
		if (!th->freed) {
			do_cancel(rig, th, 0);
			do_detach(rig, th, 0);
		}
	}
	if (!rig->wrong)
		drive(rig);
	/* After a failure the books may be wrong in any way. */
	if (!rig->wrong)
		check_books(rig);
	if (!rig->step)
		wrong(rig, "no steps");
	return !rig->wrong && rig->step >= rig->n;
}

/* Once for each step of @victim, with the intruder there. */
static void each_step(struct rig *rig, const struct ground *g, const struct scene *s,
		      unsigned int mood, const struct play *victim)
{
	for (rig->n = 1; interleave(rig, g, s, mood, victim); rig->n++)
		rig->interleavings++;
	if (rig->wrong)
		KUNIT_FAIL(rig->test, "%s; %s, %s; worker %s; %s%s at step %u, %pS: %s",
			   victim->name, s->name, g->name, moods[mood], rig->intruder->name,
			   rig->then->name, rig->n, (void *)rig->at, rig->wrong);
}

/* False after a failure. */
static bool each_scene(struct rig *rig, const struct ground *g, const struct play *victim)
{
	bool driven = is_worker(victim);
	const struct scene *s;
	unsigned int n_moods, mood, i, then;

	for (s = scenes; s < scenes + ARRAY_SIZE(scenes); s++) {
		for (i = 0; i < ARRAY_SIZE(intruders); i++) {
			rig->intruder = &intruders[i];
			if (!allowed(s, victim, rig->intruder))
				continue;
			for (then = 0; then < (driven ? 1 : ARRAY_SIZE(thens)); then++) {
				rig->then = &thens[then];
				/* If it runs much later anyway, it matters less how it slept. */
				n_moods = driven ? AWAKE : then < 2 ? MOODS : SOUNDLY;
				for (mood = 0; mood < n_moods; mood++) {
					each_step(rig, g, s, mood, victim);
					if (rig->wrong)
						return false;
				}
			}
		}
	}
	return true;
}

static const struct hwtimer_wheel_params shape_64 = { .tick_ns = TICK, .slots = 64 };

static void own_wheel(struct rig *rig, const struct hwtimer_wheel_params *shape)
{
	rig->wheel = &rig->own;
	KUNIT_ASSERT_EQ(rig->test, 0, queue_init(rig->wheel, shape, &rig_ops));
}

/* Promise 2. */
static void by_hand(struct kunit *test)
{
	const struct play *victim = test->param_value;
	struct rig *rig = test->priv;
	const struct ground *g;

	for (g = grounds; g < grounds + ARRAY_SIZE(grounds); g++) {
		own_wheel(rig, &g->shape);
		rig->base = 0;
		/* After a failure the wheel cannot be freed safely. */
		if (!each_scene(rig, g, victim))
			return;
		queue_free(rig->wheel);
		cond_resched();
	}
	kunit_info(test, "%lu interleavings\n", rig->interleavings);
}

KUNIT_ARRAY_PARAM_DESC(victim, victims, name);

/* What interrupts queue_count(). */
static const struct play counted[] = {
	{ "armed and cancelled", {{ do_arm, OTHER, SOON }, { do_cancel, OTHER }} },
	{ "armed and expired", {{ do_arm, OTHER, NOW }, { do_pass, NOBODY }} },
};

/* queue_count() may count too many, but not fewer than were pending all the time. */
static void counts(struct kunit *test)
{
	struct rig *rig = test->priv;
	struct queue_counts c;
	unsigned int i;

	own_wheel(rig, &shape_64);
	for (i = 0; i < ARRAY_SIZE(counted); i++) {
		rig->intruder = &counted[i];
		for (rig->n = 1;; rig->n++) {
			things_init(rig);
			rig->base += SCENE;
			rig->now = rig->base;
			do_arm(rig, &rig->things[NEIGHBOUR], rig->base + LATER * TICK);
			pass(rig);
			stage(rig, current);
			queue_count(rig->wheel, &c);
			unstage();
			KUNIT_EXPECT_GE_MSG(test, (long)c.pending, 1L, "%s at step %u",
					    rig->intruder->name, rig->n);
			KUNIT_EXPECT_LE(test, c.pending, 2UL);
			if (rig->step < rig->n)
				break;
			drive(rig);
			check_books(rig);
			rig->interleavings++;
		}
		drive(rig);
		KUNIT_EXPECT_GT(test, rig->n, 1);
		KUNIT_EXPECT_STREQ(test, "", rig->wrong ?: "");
	}
	queue_free(rig->wheel);
}

/* A task that calls queue_barrier() in the middle of a pass, after the release of a timeout. */
static struct asker {
	struct rig		*rig;
	struct completion	done;
	bool			asked;
	/* when queue_barrier() returned, the release had been reported */
	bool			reported;
} asker;

static int ask(void *unused)
{
	queue_barrier(asker.rig->wheel);
	asker.reported = asker.rig->things[OTHER].reported;
	kthread_complete_and_exit(&asker.done, 0);
}

static void do_ask(struct rig *rig, struct thing *nobody, u64 deadline)
{
	if (IS_ERR(kthread_run(ask, NULL, "hwtimer_kunit"))) {
		wrong(rig, "nobody asks");
		return;
	}
	asker.asked = true;
	while (!READ_ONCE(rig->wheel->barrier))
		nap(NSEC_PER_USEC);
}

static const struct play asking = {
	"armed, released and waited for",
	{{ do_arm, OTHER, LATER }, { do_release, OTHER }, { do_ask, NOBODY }}
};

/* @round: while the worker calls the release functions of other timeouts. */
static bool ask_in_pass(struct rig *rig, bool round)
{
	unsigned int rounds;

	things_init(rig);
	rig->base += SCENE;
	rig->now = rig->base - 10 * TICK;
	do_arm(rig, &rig->things[NEIGHBOUR], rig->base);
	pass(rig);
	rig->now = rig->base;
	/* A request, and a timeout that is due; a budget of 1 makes as many slices as possible. */
	do_arm(rig, &rig->things[SUBJECT], rig->base + LATER * TICK);
	if (round) {
		do_release(rig, &rig->things[SUBJECT], 0);
		do_release(rig, &rig->things[NEIGHBOUR], 0);
	}
	asker.rig = rig;
	asker.asked = false;
	init_completion(&asker.done);
	stage(rig, current);
	while (queue_advance(rig->wheel, rig->now, 1))
		;
	unstage();
	if (!asker.asked) {
		drive(rig);
		return false;
	}
	/* The asker checks as soon as queue_barrier() returns, so the worker must not go on. */
	for (rounds = 0; rounds < 10; rounds++) {
		nap(NSEC_PER_USEC);
		if (completion_done(&asker.done))
			break;
		pass(rig);
	}
	wait_for_completion(&asker.done);
	if (!asker.reported)
		wrong(rig, "the barrier ends before the release is reported");
	drive(rig);
	check_books(rig);
	return !rig->wrong;
}

static void barrier_in_pass(struct kunit *test)
{
	struct rig *rig = test->priv;
	unsigned int round;

	own_wheel(rig, &shape_64);
	rig->intruder = &asking;
	for (round = 0; round < 2; round++) {
		for (rig->n = 1; ask_in_pass(rig, round); rig->n++)
			;
		if (rig->wrong) {
			KUNIT_FAIL(test, "at step %u, %pS: %s", rig->n, (void *)rig->at,
				   rig->wrong);
			return;
		}
		KUNIT_EXPECT_GT(test, rig->n, 5);
	}
	queue_free(rig->wheel);
}

/* From here on the wheel has a worker, which is the victim. */

static const struct play kicks[] = {
	{ "another one is armed", {{ do_arm, OTHER, SOON }} },
	{ "another one is armed for now", {{ do_arm, OTHER, NOW }} },
	{ "a cancelled one is armed", {{ do_arm, SUBJECT, SOON }} },
	{ "one is touched", {{ do_touch, NEIGHBOUR, SOON }} },
	{ "one is released", {{ do_release, NEIGHBOUR }} },
};

/*
 * One timeout is pending for long, another one is cancelled but still filed. The worker runs
 * when they are armed, again to see whether more are being armed, and when they are due: so it
 * goes to sleep lightly, soundly, and for ever.
 */
static const struct act first_acts[] = {
	{ do_arm, NEIGHBOUR, 300 }, { do_arm, SUBJECT, 320 }, {}
};

static const struct act next_acts[] = { { do_cancel, SUBJECT }, {} };

static struct hwtimer_wheel *driven_wheel(struct kunit *test)
{
	const struct hwtimer_wheel_params params = {
		.name = "interleave", .tick_ns = TICK, .slots = 64,
	};
	struct hwtimer_wheel *wheel = hwtimer_wheel_create(&params);

	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, wheel);
	return wheel;
}

/* False when the worker has no n-th step. */
static bool kick_worker(struct rig *rig)
{
	u64 begin = ktime_get_ns();
	struct thing *th;

	rig->wheel = driven_wheel(rig->test);
	things_init(rig);
	rig->contended = true;
	rig->base = time_of(rig);
	stage(rig, to_driven(rig->wheel)->task);
	perform(rig, first_acts);
	nap_until(begin + 10 * TICK);
	perform(rig, next_acts);
	nap_until(begin + 400 * TICK);
	unstage();

	for (th = rig->things; th < rig->things + THINGS; th++) {
		if (th->freed)
			continue;
		if (queue_pending(&th->t))
			wrong(rig, "never called");
		if (th->released)
			wrong(rig, "never reports the release");
		th->cancelled += hwtimer_cancel_sync(&th->t);
	}
	check_books(rig);
	hwtimer_wheel_destroy(rig->wheel);
	return !rig->wrong && rig->step >= rig->n;
}

/* Promise 4. */
static void by_worker(struct kunit *test)
{
	struct rig *rig = test->priv;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(kicks); i++) {
		rig->intruder = &kicks[i];
		for (rig->n = 1; kick_worker(rig); rig->n++)
			rig->interleavings++;
		if (rig->wrong) {
			KUNIT_FAIL(test, "%s at step %u, %pS: %s", rig->intruder->name, rig->n,
				   (void *)rig->at, rig->wrong);
			return;
		}
		/* The worker goes to sleep four times, with a few steps each time. */
		KUNIT_EXPECT_GT(test, rig->n, 20);
	}
	kunit_info(test, "%lu interleavings\n", rig->interleavings);
}

/*
 * A stop without its grace periods cannot fail on one CPU, as the sections that it waits for are
 * not preemptible. But RCU can tell whether a grace period has passed.
 */
static struct {
	struct task_struct	*task;
	struct hwtimer_wheel	*wheel;
	/* at the last step */
	unsigned long		cookie;
	int			state;
	bool			needed;
	unsigned int		missing;
} grace;

static void grace_step(void)
{
	int state;

	if (current != grace.task)
		return;
	state = READ_ONCE(grace.wheel->state);
	/* A producer that did not see QUEUE_STOPPED may be pushing: wait before the last drain. */
	grace.needed |= state == QUEUE_STOPPED && grace.state != state;
	grace.missing += grace.needed && !poll_state_synchronize_rcu(grace.cookie);
	/* One that did not see QUEUE_SHUTDOWN may be arming: wait at once. */
	grace.needed = state == QUEUE_SHUTDOWN && grace.state != state;
	grace.state = state;
	grace.cookie = get_state_synchronize_rcu();
}

static void stop_waits(struct kunit *test)
{
	struct hwtimer_wheel *wheel = driven_wheel(test);

	memset(&grace, 0, sizeof(grace));
	grace.wheel = wheel;
	grace.task = current;
	WRITE_ONCE(hwtimer_step_hook, grace_step);
	KUNIT_EXPECT_EQ(test, 0, hwtimer_wheel_stop(wheel, NULL));
	unstage();
	KUNIT_EXPECT_EQ(test, (int)QUEUE_STOPPED, grace.state);
	KUNIT_EXPECT_EQ(test, 0, grace.missing);
	hwtimer_wheel_destroy(wheel);
}

static int rig_init(struct kunit *test)
{
	struct rig *rig = kunit_kzalloc(test, sizeof(*rig), GFP_KERNEL);

	if (!rig)
		return -ENOMEM;
	rig->test = test;
	test->priv = rig;
	return 0;
}

static void rig_exit(struct kunit *test)
{
	unstage();
}

static struct kunit_case interleave_cases[] = {
	KUNIT_CASE_PARAM(by_hand, victim_gen_params),
	KUNIT_CASE(counts),
	KUNIT_CASE(barrier_in_pass),
	KUNIT_CASE(by_worker),
	KUNIT_CASE(stop_waits),
	{}
};

SUITE(interleave, "interleave", .suite_init = settle_timers, .init = rig_init, .exit = rig_exit);
