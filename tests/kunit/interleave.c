// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimer: KUnit suite of races, without any luck. One operation, the victim, is carried
 * out with another one, the intruder, whole between two of its steps (hwtimer_step.h): for
 * each of its steps, and for each pair of operations in each state of a timeout and of the
 * worker. Then the worker goes on until nothing is due any more, and the books must
 * balance: each arming has ended once, none early, none late, and nothing is touched that
 * the wheel has let go of. This has the order of one CPU: what depends on that of memory
 * is in tests/litmus.
 *
 * The wheel is driven by hand, as the kthread does it, and so is the workqueue of an item. Where
 * it is the driver that races, it has to be a real one, with the intruder in its context: on
 * User-Mode Linux with time-travel=inf-cpu, where late is what is later than the boundary of a
 * tick.
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
#include <linux/workqueue.h>

#include "../../hwtimer_driver.h"
#include "../../hwtimer_step.h"
#include "../../hwtimer_work.h"
#include "hwtimer_kunit.h"

#define TICK	((u64)NSEC_PER_MSEC)

/* When something is due, in ticks from the beginning of the scene. */
enum { NOW = 0, SOON = 2, NEXT = 4, LATER = 8, HELD_UP = 12, LATEST = 20, NEVER = -1 };

/*
 * From one scene to the next on a wheel driven by hand. Whole rounds, so that all of them
 * are in the same slots.
 */
#define SCENE	(4096 * TICK)

/* Who is on the stage. Most is done to the subject. */
enum who { SUBJECT, OTHER, NEIGHBOUR, THINGS, NOBODY = THINGS };

struct rig;

/* A timeout and its books. */
struct thing {
	struct hwtimer_timeout	t;
	/* as it was left when it was freed */
	struct hwtimer_timeout	grave;
	struct rig		*rig;
	bool			freed;
	/* the worker has been asked to let go of it */
	bool			detached;
	bool			released;
	/* its callback arms it once more */
	bool			again;
	unsigned int		armed;
	unsigned int		expired;
	unsigned int		cancelled;
	unsigned int		told;
	/* of the last arm or touch, the time when it returned, and what it asked for */
	u64			since;
	u64			asked;
	/* and what the one before had asked for */
	u64			before;
};

typedef void (*op_t)(struct rig *rig, struct thing *th, u64 deadline);

/*
 * What is done: to whom, and for an arm or touch the new deadline. In lists that end with
 * an empty one.
 */
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
	/* what had been counted before it */
	struct wheel_counts	counts;
	/* of the callback that runs */
	u64			deadline;
	bool			asleep;
	bool			kicked;
	u64			until;
	/* what a producer that is not through is about, and whether it must not go */
	struct thing		*flux;
	struct thing		*needed;
	bool			releasing;
	/* two of them asked for a deadline at a time: either may win */
	bool			contended;
	unsigned long		touched;
	unsigned long		rejected;
	/* at the step @n of @task, or in softirq, come in */
	struct task_struct	*task;
	const struct play	*intruder;
	const struct play	*then;
	unsigned int		n;
	unsigned int		step;
	bool			inside;
	unsigned long		interleavings;
	unsigned long		at;
	/* the first thing that was not as it should be */
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
	/* What comes too late for a tick gets the next one. */
	return max(DIV64_U64_ROUND_UP(deadline, TICK), div64_u64(th->since, TICK) + 1) * TICK;
}

/* Its memory is another's from now on: if the wheel does anything to it, that shows. */
static void bury(struct thing *th)
{
	th->freed = true;
	INIT_LIST_HEAD(&th->t.node);
	th->t.request.next = NULL;
	/* As if it was on all of the worker's lists. */
	atomic64_set(&th->t.word, 0xdead6);
	th->grave = th->t;
}

static void note_asked(struct thing *th, u64 deadline)
{
	th->before = th->asked;
	th->asked = deadline;
}

/* Is this the deadline that it shall have? Not known while a producer is at it. */
static void check_asked(struct rig *rig, struct thing *th, u64 deadline)
{
	if (deadline != th->asked && th != rig->flux &&
	    !(rig->contended && deadline == th->before))
		wrong(rig, "has another deadline");
}

/*
 * Does another timeout hold the only place? One that is pending, or the one of the operation
 * that we interrupted: it holds the place just before it is pending, and still just after.
 */
static bool place_taken(struct rig *rig, const struct thing *th)
{
	const struct thing *other;
	struct wheel_counts c;

	if (wheel_pending(&th->t))
		return false;
	for (other = rig->things; other < rig->things + THINGS; other++)
		if (wheel_pending(&other->t))
			return true;
	if (!rig->inside)
		return false;
	wheel_count(rig->wheel, &c);
	return c.pending;
}

static void do_arm(struct rig *rig, struct thing *th, u64 deadline)
{
	int ret = wheel_arm(&th->t, deadline);

	th->since = time_of(rig);
	if (!ret)
		th->armed++;
	else if (ret == 1)
		rig->touched++;
	else if (ret == -EAGAIN && rig->wheel->cap == 1 && place_taken(rig, th))
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
	int ret = wheel_touch(&th->t, deadline);

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
	th->cancelled += wheel_cancel(&th->t);
}

static void do_detach(struct rig *rig, struct thing *th, u64 deadline)
{
	wheel_detach(&th->t);
	th->detached = true;
}

/* Of one that was cancelled and that nobody arms. */
static void do_free(struct rig *rig, struct thing *th, u64 deadline)
{
	if (!wheel_holds(&th->t))
		bury(th);
}

static void thing_released(struct hwtimer_timeout *t)
{
	struct thing *th = container_of(t, struct thing, t);
	struct rig *rig = th->rig;

	if (th->freed || th->told++ || !th->released)
		wrong(rig, "told of a release that was not");
	else if (th != rig->needed || rig->releasing)
		bury(th);
}

static void do_release(struct rig *rig, struct thing *th, u64 deadline)
{
	th->released = true;
	th->cancelled += wheel_release(&th->t, thing_released);
}

/* One round of the worker's, which may go to sleep behind it. */
static void pass(struct rig *rig)
{
	rig->asleep = false;
	wheel_awake(rig->wheel);
	while (wheel_advance(rig->wheel, rig->now, WHEEL_BUDGET))
		;
	/* From here on a kick keeps it from sleeping. */
	rig->kicked = false;
	rig->until = wheel_prepare_sleep(rig->wheel, rig->now);
	rig->asleep = rig->until;
}

static void do_pass(struct rig *rig, struct thing *nobody, u64 deadline)
{
	pass(rig);
	/* While a producer is on its way it goes round and round. */
	if (!rig->asleep)
		pass(rig);
}

/* Time goes by, and nobody was there. */
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
			act->op(rig, th, act->ticks == NEVER ? WHEEL_FOREVER :
							       rig->base + act->ticks * TICK);
	}
}

/* Does somebody do this to the subject? */
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
	/* Since it was claimed somebody may have armed or released it. */
	untouched = !wheel_pending(t) && !th->released;
	if (!driven_by_hand(rig))
		rig->deadline = untouched ? wheel_deadline(t) : time_of(rig);
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
		/* Also while a request of somebody else's is on its way. */
		bury(th);
	}
}

static void rig_kick(struct hwtimer_wheel *w)
{
	container_of(w, struct rig, own)->kicked = true;
}

static void rig_expire(struct hwtimer_wheel *w, struct hwtimer_timeout *t,
		       hwtimer_fn_t fn, u64 deadline)
{
	struct rig *rig = container_of(w, struct rig, own);

	if (deadline > w->now_tick * TICK)
		wrong(rig, "early");
	rig->deadline = deadline;
	fn(t);
}

static const struct wheel_ops rig_ops = {
	.kick	= rig_kick,
	.expire	= rig_expire,
};

/* The one whose victim is at it. */
static struct rig *staged;

static void step_in(void)
{
	struct rig *rig = staged;

	if (rig->inside || !!in_serving_softirq() != !rig->task ||
	    (rig->task && rig->task != current) || ++rig->step != rig->n)
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

static void unstage(void)
{
	WRITE_ONCE(hwtimer_step_hook, NULL);
}

static void things_init(struct rig *rig)
{
	enum who who;

	wheel_count(rig->wheel, &rig->counts);
	memset(rig->things, 0, sizeof(rig->things));
	for (who = 0; who < THINGS; who++) {
		rig->things[who].rig = rig;
		wheel_timeout_init(&rig->things[who].t, rig->wheel, thing_fired);
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
 * The worker sleeps and nobody has kicked it: is there anything that it should have seen?
 * Returns whether anything is still to come.
 */
static bool check_sleep(struct rig *rig)
{
	unsigned long pending = 0;
	struct wheel_counts c;
	struct thing *th;
	bool more = false;
	u64 deadline;

	for (th = rig->things; th < rig->things + THINGS; th++) {
		if (th->released && !th->told)
			wrong(rig, "sleeps over a release");
		if (th->freed)
			continue;
		if (th->detached && wheel_holds(&th->t))
			wrong(rig, "sleeps over a detach");
		if (!wheel_pending(&th->t))
			continue;
		pending++;
		deadline = wheel_deadline(&th->t);
		check_asked(rig, th, deadline);
		if (deadline == WHEEL_FOREVER)
			continue;
		more = true;
		if (boundary(th, deadline) < rig->until)
			wrong(rig, "sleeps too long");
	}
	wheel_count(rig->wheel, &c);
	if (c.pending != pending)
		wrong(rig, "miscounts what is pending");
	return more;
}

/* As the kthread does it, as long as anything is to come. */
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

/* When all is over. */
static void check_books(struct rig *rig)
{
	unsigned long armed = 0, expired = 0, cancelled = 0;
	struct wheel_counts c;
	struct thing *th;

	for (th = rig->things; th < rig->things + THINGS; th++) {
		if (th->armed != th->expired + th->cancelled)
			wrong(rig, "an arming did not end once");
		if (th->told != th->released)
			wrong(rig, "a release was not told once");
		if (th->freed && memcmp(&th->t, &th->grave, sizeof(th->t)))
			wrong(rig, "somebody touched what was freed");
		armed += th->armed;
		expired += th->expired;
		cancelled += th->cancelled;
	}
	wheel_count(rig->wheel, &c);
	if (c.pending || c.armed - rig->counts.armed != armed ||
	    c.expired - rig->counts.expired != expired ||
	    c.cancelled - rig->counts.cancelled != cancelled ||
	    c.touched - rig->counts.touched != rig->touched ||
	    c.rejected - rig->counts.rejected != rig->rejected)
		wrong(rig, "counts are not what happened");
	if (rig->wheel->filed || atomic_long_read(&rig->wheel->places))
		wrong(rig, "something is left");
}

/* What the wheel is like, and when the neighbour is due, if it is there. */
static const struct ground {
	const char		*name;
	struct wheel_shape	shape;
	struct act		neighbour[2];
} grounds[] = {
	{ "alone, with one place", { .tick_ns = TICK, .slots = 8, .cap = 1 } },
	{ "with one due soon", { .tick_ns = TICK, .slots = 64, .cap = 3 },
	  {{ do_arm, NEIGHBOUR, NEXT }} },
	{ "with one due, on four levels", { .tick_ns = TICK, .slots = 4, .levels = 4 },
	  {{ do_arm, NEIGHBOUR, NOW }} },
};

/* What became of the subject before; in between the worker has come by. */
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

/* What the worker does when the scene begins; lightly while others are arming. */
enum mood { LIGHTLY, SOUNDLY, AWAKE, MOODS };
static const char *const moods[] = { "sleeps lightly", "sleeps soundly", "is awake" };

static const struct play victims[] = {
	{ "worker", {{ do_pass, NOBODY }} },
	{ "arm, sooner", {{ do_arm, SUBJECT, SOON }} },
	{ "arm, later", {{ do_arm, SUBJECT, LATER }} },
	{ "touch", {{ do_touch, SUBJECT, SOON }} },
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

/* And what the worker does then, if it is not the victim. */
static const struct play thens[] = {
	{ "" },
	{ ", and the worker comes by", {{ do_pass, NOBODY }} },
	{ ", and the worker comes by much later",
	  {{ do_wait, NOBODY, HELD_UP }, { do_pass, NOBODY }} },
};

static bool is_worker(const struct play *victim)
{
	return victim->acts[0].op == do_pass;
}

/* May owners do this at a time? */
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

/* Up to the curtain. */
static void set_scene(struct rig *rig, const struct ground *g, const struct scene *s,
		      unsigned int mood)
{
	things_init(rig);
	rig->things[SUBJECT].again = s->again;
	rig->base += SCENE;
	rig->now = rig->base - 10 * TICK;
	perform(rig, g->neighbour);
	perform(rig, s->filed);
	rig->wheel->armed_seen--;
	pass(rig);
	if (mood == LIGHTLY)
		rig->wheel->armed_seen--;
	else
		pass(rig);
	rig->now = rig->base;
	perform(rig, s->since);
	if (mood == AWAKE) {
		rig->asleep = false;
		wheel_awake(rig->wheel);
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
		/* Who arms what is not pending has no more to do with it then. */
		if (victim->acts[0].op != do_arm || wheel_pending(&subject->t) ||
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
	/* If something is wrong, it may be anywhere. */
	if (!rig->wrong)
		check_books(rig);
	if (!rig->step)
		wrong(rig, "no steps");
	return !rig->wrong && rig->step >= rig->n;
}

/* With the intruder at each step of @victim. */
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

/* False if anything is wrong. */
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
				/* If it comes by anyhow, it matters less how it slept. */
				n_moods = MOODS - (driven ? 1 : then);
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

/* Promise 2. */
static void by_hand(struct kunit *test)
{
	const struct play *victim = test->param_value;
	struct rig *rig = test->priv;
	const struct ground *g;

	for (g = grounds; g < grounds + ARRAY_SIZE(grounds); g++) {
		rig->wheel = &rig->own;
		KUNIT_ASSERT_EQ(test, 0, wheel_init(rig->wheel, &g->shape, &rig_ops, GFP_KERNEL));
		rig->base = 0;
		/* If something is wrong, the wheel is not fit to be freed. */
		if (!each_scene(rig, g, victim))
			return;
		wheel_free(rig->wheel);
		cond_resched();
	}
	kunit_info(test, "%lu interleavings\n", rig->interleavings);
}

static void play_desc(const struct play *play, char *desc)
{
	strscpy(desc, play->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(victim, victims, play_desc);

/* Somebody who counts what is pending, and by whom he is interrupted. */
static const struct play counted[] = {
	{ "armed and cancelled", {{ do_arm, OTHER, SOON }, { do_cancel, OTHER }} },
	{ "armed and expired", {{ do_arm, OTHER, NOW }, { do_pass, NOBODY }} },
};

/* He may find too many, but not fewer than have been pending all the time. */
static void counts(struct kunit *test)
{
	const struct wheel_shape shape = { .tick_ns = TICK, .slots = 64 };
	struct rig *rig = test->priv;
	struct wheel_counts c;
	unsigned int i;

	rig->wheel = &rig->own;
	KUNIT_ASSERT_EQ(test, 0, wheel_init(rig->wheel, &shape, &rig_ops, GFP_KERNEL));
	for (i = 0; i < ARRAY_SIZE(counted); i++) {
		rig->intruder = &counted[i];
		for (rig->n = 1;; rig->n++) {
			things_init(rig);
			rig->base += SCENE;
			rig->now = rig->base;
			do_arm(rig, &rig->things[NEIGHBOUR], rig->base + LATER * TICK);
			pass(rig);
			stage(rig, current);
			wheel_count(rig->wheel, &c);
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
	wheel_free(rig->wheel);
}

/* In the middle of a pass somebody releases a timeout, and another one waits for that. */
static struct asker {
	struct rig		*rig;
	struct completion	done;
	bool			asked;
	bool			told;
} asker;

static int ask(void *unused)
{
	wheel_barrier(asker.rig->wheel);
	asker.told = asker.rig->things[OTHER].told;
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

/* @round: while the worker calls what was released before. */
static bool ask_in_pass(struct rig *rig, bool round)
{
	unsigned int rounds;

	things_init(rig);
	rig->base += SCENE;
	rig->now = rig->base - 10 * TICK;
	do_arm(rig, &rig->things[NEIGHBOUR], rig->base);
	pass(rig);
	rig->now = rig->base;
	/* Something to take over, and something that is due; and in as many slices as can be. */
	do_arm(rig, &rig->things[SUBJECT], rig->base + LATER * TICK);
	if (round) {
		do_release(rig, &rig->things[SUBJECT], 0);
		do_release(rig, &rig->things[NEIGHBOUR], 0);
	}
	asker.rig = rig;
	asker.asked = false;
	init_completion(&asker.done);
	stage(rig, current);
	while (wheel_advance(rig->wheel, rig->now, 1))
		;
	unstage();
	if (!asker.asked) {
		drive(rig);
		return false;
	}
	/* As soon as he has his answer, he looks. */
	for (rounds = 0; rounds < 10; rounds++) {
		nap(NSEC_PER_USEC);
		if (completion_done(&asker.done))
			break;
		pass(rig);
	}
	wait_for_completion(&asker.done);
	if (!asker.told)
		wrong(rig, "answered before it was told");
	drive(rig);
	check_books(rig);
	return !rig->wrong;
}

static void barrier_in_pass(struct kunit *test)
{
	const struct wheel_shape shape = { .tick_ns = TICK, .slots = 64 };
	struct rig *rig = test->priv;
	unsigned int round;

	rig->wheel = &rig->own;
	KUNIT_ASSERT_EQ(test, 0, wheel_init(rig->wheel, &shape, &rig_ops, GFP_KERNEL));
	/* Who asks wants an answer only of a wheel that was started. */
	KUNIT_ASSERT_EQ(test, 0, wheel_start(rig->wheel));
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
	wheel_free(rig->wheel);
}

/*
 * From here on: an item that runs on a workqueue (hwtimer_work.c). The workqueue is full, so
 * what is queued stays there until somebody takes it off and runs it, as a workqueue does.
 */

struct work_play;
struct work_scene;

struct work_rig {
	struct kunit		*test;
	/* driven by hand */
	struct hwtimer_driven	driven;
	struct workqueue_struct	*wq;
	struct work_struct	blocker;
	struct completion	over;
	struct hwtimer_work	w;
	u64			now;
	const struct work_play	*victim;
	/* that is set inside of its function */
	const struct work_scene	*within;
	/* the function arms it once more */
	bool			again;
	unsigned int		running;
	/* the run that goes on is to stop */
	bool			to_stop;
	/* it was released; the victim needs it still; it is another's memory */
	bool			released;
	bool			needed;
	bool			freed;
	unsigned int		told;
	/* in all scenes */
	unsigned long		armed;
	unsigned long		runs;
	unsigned long		refused;
	/* that the intruder has ended */
	unsigned long		foreign;
	/* who waits for its end */
	struct completion	waited;
	/* at the step @n of @task comes in */
	struct task_struct	*task;
	const struct work_play	*intruder;
	unsigned int		n;
	unsigned int		step;
	bool			inside;
	unsigned long		interleavings;
	unsigned long		at;
	const char		*wrong;
};

typedef void (*work_op_t)(struct work_rig *rig);

struct work_play {
	const char		*name;
	work_op_t		acts[3];
};

/* What became of the item before. */
struct work_scene {
	struct work_play	before;
	bool			again;
	/* all of that, and the victim, while a run goes on */
	bool			running;
};

static struct work_rig *work_stage;

static void work_wrong(struct work_rig *rig, const char *what)
{
	if (!rig->wrong)
		rig->wrong = what;
}

/* Expiries and runs that were ended before their time. */
static unsigned long work_ended(struct work_rig *rig)
{
	bool inside = rig->inside;
	struct wheel_counts c;

	/* Nobody comes in here. */
	rig->inside = true;
	wheel_count(&rig->driven.wheel, &c);
	rig->inside = inside;
	return c.cancelled + atomic_long_read(&rig->driven.lanes.cancelled);
}

static void work_crank(struct work_rig *rig)
{
	rig->now += 2 * TICK;
	/* One worker at a time: this may wake who waits, and he plays the worker, too. */
	preempt_disable();
	while (wheel_advance(&rig->driven.wheel, rig->now, WHEEL_BUDGET))
		;
	preempt_enable();
}

static void work_arm_at(struct work_rig *rig, u64 deadline)
{
	if (!rig->freed && !wheel_arm(&rig->w.timeout, deadline))
		rig->armed++;
}

static void work_arm(struct work_rig *rig)
{
	work_arm_at(rig, rig->now + LATER * TICK);
}

static void work_due(struct work_rig *rig)
{
	work_arm_at(rig, 0);
}

static void work_expire(struct work_rig *rig)
{
	work_due(rig);
	work_crank(rig);
}

static void work_by_hand(struct work_rig *rig)
{
	if (!rig->freed && cancel_work(&rig->w.work))
		rig->w.work.func(&rig->w.work);
}

/* True if and only if it has ended anything. */
static void work_cancel(struct work_rig *rig)
{
	unsigned long before = work_ended(rig) - rig->foreign, ended;
	bool ret;

	if (rig->freed)
		return;
	rig->to_stop = true;
	ret = hwtimer_work_cancel(&rig->w);
	ended = work_ended(rig) - rig->foreign - before;
	if (ret != !!ended)
		work_wrong(rig, "cancel lies");
	if (rig->inside)
		rig->foreign += ended;
}

static void work_bury(struct work_rig *rig)
{
	rig->freed = true;
	memset(&rig->w, 0x6b, sizeof(rig->w));
}

static void work_told(struct hwtimer_work *w)
{
	struct work_rig *rig = container_of(w, struct work_rig, w);

	if (rig->told++ || rig->running || rig->freed || work_pending(&w->work))
		work_wrong(rig, "told of a release that is not over");
	if (!rig->needed)
		work_bury(rig);
}

static void work_release(struct work_rig *rig)
{
	unsigned long before;

	if (rig->freed || rig->released)
		return;
	rig->released = true;
	rig->to_stop = true;
	before = work_ended(rig) - rig->foreign;
	hwtimer_work_release(&rig->w, work_told);
	if (rig->inside)
		rig->foreign = work_ended(rig) - before;
}

static int work_wait(void *data)
{
	unsigned long before, ended;
	struct work_rig *rig = data;
	int ret;

	before = work_ended(rig) - rig->foreign;
	rig->task = current;
	rig->to_stop = true;
	ret = hwtimer_work_cancel_sync(&rig->w);
	rig->task = NULL;
	ended = work_ended(rig) - rig->foreign - before;
	if (ret != !!ended)
		work_wrong(rig, "cancel_sync lies");
	/* A run may be preempted before it is not busy any more: who ends the wheel waits for it */
	if (rig->running || work_pending(&rig->w.work))
		work_wrong(rig, "goes on after cancel_sync");
	/* What was armed meanwhile, and has not expired, may be left. */
	if (rig->intruder->acts[0] == work_arm && hwtimer_work_is_pending(&rig->w))
		goto out;
	if (wheel_holds(&rig->w.timeout) || hwtimer_work_is_pending(&rig->w))
		work_wrong(rig, "is held after cancel_sync");
	else if (hwtimer_work_cancel_sync(&rig->w))
		work_wrong(rig, "cancel_sync ends what is not there");
	else
		work_bury(rig);
out:
	kthread_complete_and_exit(&rig->waited, 0);
}

/* The wheel goes on, but not what is queued: nobody has to wait for that. */
static void work_watch(struct work_rig *rig)
{
	unsigned int rounds;

	for (rounds = 0; rounds < 10 && !completion_done(&rig->waited); rounds++) {
		nap(NSEC_PER_USEC);
		work_crank(rig);
	}
}

static void work_cancel_sync(struct work_rig *rig)
{
	reinit_completion(&rig->waited);
	if (IS_ERR(kthread_run(work_wait, rig, "hwtimer_kunit")))
		work_wrong(rig, "nobody waits");
	else
		work_watch(rig);
}

static void work_perform(struct work_rig *rig, const struct work_play *play)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(play->acts) && play->acts[i]; i++)
		play->acts[i](rig);
}

static void work_step_in(void)
{
	struct work_rig *rig = work_stage;

	if (rig->inside || in_serving_softirq() || rig->task != current || ++rig->step != rig->n)
		return;
	rig->inside = true;
	rig->at = _RET_IP_;
	work_perform(rig, rig->intruder);
	rig->inside = false;
}

static void work_act(struct work_rig *rig, const struct work_scene *s)
{
	work_perform(rig, &s->before);
	rig->again = s->again;
	if (rig->victim->acts[0] == work_crank)
		work_due(rig);
	work_stage = rig;
	/* Who waits is another task. */
	if (rig->victim->acts[0] != work_cancel_sync)
		rig->task = current;
	WRITE_ONCE(hwtimer_step_hook, work_step_in);
	work_perform(rig, rig->victim);
	if (rig->task == current)
		rig->task = NULL;
}

static void work_fn(struct hwtimer_work *w)
{
	struct work_rig *rig = container_of(w, struct work_rig, w);
	struct hwtimer_lanes *lanes = &rig->driven.lanes;
	const struct work_scene *within = rig->within;
	unsigned long dispatched;

	if (rig->freed || rig->running++)
		work_wrong(rig, "runs when it must not");
	rig->runs++;
	rig->to_stop = false;
	dispatched = lanes->dispatched;
	rig->within = NULL;
	if (within)
		work_act(rig, within);
	if (rig->again) {
		rig->again = false;
		work_due(rig);
	}
	if (w->policy == HWTIMER_WORK_REPLACE)
		rig->to_stop |= lanes->dispatched != dispatched;
	if (rig->to_stop && !hwtimer_work_cancelled(w))
		work_wrong(rig, "is not told to stop");
	rig->running--;
}

static void work_refused(struct hwtimer_work *w, enum hwtimer_refused reason)
{
	container_of(w, struct work_rig, w)->refused++;
}

static void work_hand_expire(struct hwtimer_wheel *w, struct hwtimer_timeout *t,
			     hwtimer_fn_t fn, u64 deadline)
{
	fn(t);
}

static void work_hand_kick(struct hwtimer_wheel *w)
{
}

static const struct wheel_ops work_ops = {
	.kick	= work_hand_kick,
	.expire	= work_hand_expire,
};

static const struct {
	enum hwtimer_work_policy	policy;
	unsigned long			max_queued;
} work_grounds[] = {
	{ HWTIMER_WORK_SERIAL, 0 }, { HWTIMER_WORK_SERIAL, 1 }, { HWTIMER_WORK_DISCARD, 2 },
	{ HWTIMER_WORK_REPLACE, 1 },
};

static const struct work_scene work_scenes[] = {
	{{ "idle" }},
	{{ "pending", { work_arm, work_crank }}},
	{{ "due", { work_expire }}},
	{{ "due, and arms itself", { work_expire }}, .again = true },
	{{ "due twice", { work_expire, work_expire }}},
	{{ "due and cancelled", { work_expire, work_cancel }}},
	{{ "runs" }, .running = true },
	{{ "runs, and arms itself" }, .again = true, .running = true },
	{{ "runs, and is due", { work_expire }}, .running = true },
	{{ "runs, and is pending", { work_arm, work_crank }}, .running = true },
};

static const struct work_play work_victims[] = {
	{ "dispatch", { work_crank }},
	{ "run", { work_by_hand }},
	{ "cancel", { work_cancel }},
	{ "cancel_sync", { work_cancel_sync }},
	{ "release", { work_release }},
};

static const struct work_play work_intruders[] = {
	{ "nothing" },
	{ "armed", { work_arm }},
	{ "expires", { work_expire }},
	{ "expires twice", { work_expire, work_expire }},
	{ "runs", { work_by_hand }},
	{ "expires and runs", { work_expire, work_by_hand }},
	{ "runs and expires", { work_by_hand, work_expire }},
	{ "cancelled", { work_cancel }},
	{ "cancelled and expires", { work_cancel, work_expire }},
	{ "released", { work_release }},
	{ "released, and the worker comes by", { work_release, work_crank }},
};

static bool work_does(const struct work_play *play, work_op_t op)
{
	return play->acts[0] == op || play->acts[1] == op;
}

/* May they do this at a time, and can they? */
static bool work_allowed(const struct work_scene *s, const struct work_play *victim,
			 const struct work_play *intruder)
{
	if (victim->acts[0] == work_by_hand)
		return work_does(&s->before, work_expire) && !s->running;
	if (victim->acts[0] == work_crank)
		return !work_does(intruder, work_expire) && !work_does(intruder, work_crank);
	if (victim->acts[0] == work_cancel_sync || victim->acts[0] == work_release)
		return !work_does(intruder, work_release);
	return true;
}

/* Until nothing is left of it. */
static void work_drive(struct work_rig *rig)
{
	unsigned int rounds;

	for (rounds = 0; rounds < 10; rounds++) {
		work_crank(rig);
		work_by_hand(rig);
	}
	rig->needed = false;
	work_release(rig);
	for (rounds = 0; rounds < 3; rounds++) {
		work_crank(rig);
		work_by_hand(rig);
	}
}

static void work_books(struct work_rig *rig)
{
	struct hwtimer_lanes *lanes = &rig->driven.lanes;
	struct wheel_counts c;

	wheel_count(&rig->driven.wheel, &c);
	if (rig->told != rig->released)
		work_wrong(rig, "a release was not told once");
	if (rig->freed && memchr_inv(&rig->w, 0x6b, sizeof(rig->w)))
		work_wrong(rig, "somebody touched what was freed");
	if (c.pending || c.armed != rig->armed || c.armed != c.expired + c.cancelled ||
	    c.expired != lanes->dispatched + lanes->refused || lanes->refused != rig->refused ||
	    atomic_long_read(&lanes->runs) != rig->runs ||
	    lanes->dispatched != rig->runs + lanes->replaced + atomic_long_read(&lanes->cancelled))
		work_wrong(rig, "an arming did not end once");
	if (rig->driven.wheel.filed || atomic_long_read(&lanes->busy) ||
	    atomic_long_read(&lanes->queued))
		work_wrong(rig, "something is left");
}

/* False when the victim has no n-th step. */
static bool work_interleave(struct work_rig *rig, const struct work_scene *s,
			    enum hwtimer_work_policy policy, const struct work_play *victim)
{
	struct hwtimer_work_params params = { .policy = policy, .refused = work_refused };

	if (hwtimer_work_init(&rig->w, &rig->driven.wheel, work_fn, &params))
		work_wrong(rig, "cannot be initialised");
	rig->released = false;
	rig->freed = false;
	rig->told = 0;
	rig->step = 0;
	rig->again = false;
	rig->victim = victim;
	rig->needed = victim->acts[0] == work_cancel;
	complete_all(&rig->waited);

	if (s->running) {
		rig->within = s;
		work_expire(rig);
		work_by_hand(rig);
	} else {
		work_act(rig, s);
	}
	work_watch(rig);
	unstage();
	if (!completion_done(&rig->waited)) {
		work_wrong(rig, "waits for ever");
		return false;
	}
	work_drive(rig);
	work_books(rig);
	if (!rig->step)
		work_wrong(rig, "no steps");
	return !rig->wrong && rig->step >= rig->n;
}

static void work_block(struct work_struct *blocker)
{
	wait_for_completion(&container_of(blocker, struct work_rig, blocker)->over);
}

static void work_each_scene(struct work_rig *rig, unsigned int ground,
			    const struct work_play *victim)
{
	unsigned int s, i;

	for (s = 0; s < ARRAY_SIZE(work_scenes); s++) {
		for (i = 0; i < ARRAY_SIZE(work_intruders); i++) {
			rig->intruder = &work_intruders[i];
			if (!work_allowed(&work_scenes[s], victim, rig->intruder))
				continue;
			for (rig->n = 1; work_interleave(rig, &work_scenes[s],
							 work_grounds[ground].policy, victim);
			     rig->n++)
				rig->interleavings++;
			if (!rig->wrong)
				continue;
			KUNIT_FAIL(rig->test, "%s; %s; ground %u; %s at step %u, %pS: %s",
				   victim->name, work_scenes[s].before.name, ground,
				   rig->intruder->name, rig->n, (void *)rig->at, rig->wrong);
			return;
		}
	}
}

static void work_item(struct kunit *test)
{
	const struct wheel_shape shape = { .tick_ns = TICK, .slots = 64 };
	const struct work_play *victim = test->param_value;
	unsigned long interleavings = 0;
	struct work_rig *rig;
	unsigned int g;

	for (g = 0; g < ARRAY_SIZE(work_grounds); g++) {
		/* Not freed if anything is wrong: who knows who waits. */
		rig = kzalloc(sizeof(*rig), GFP_KERNEL);
		KUNIT_ASSERT_NOT_NULL(test, rig);
		rig->test = test;
		rig->wq = alloc_workqueue("hwt_interleave", WQ_UNBOUND, 1);
		KUNIT_ASSERT_NOT_NULL(test, rig->wq);
		KUNIT_ASSERT_EQ(test, 0, wheel_init(&rig->driven.wheel, &shape, &work_ops,
						    GFP_KERNEL));
		rig->driven.lanes.fast = rig->wq;
		rig->driven.lanes.slow_ns = U64_MAX;
		rig->driven.lanes.max_queued = work_grounds[g].max_queued;
		init_completion(&rig->over);
		init_completion(&rig->waited);
		INIT_WORK(&rig->blocker, work_block);
		queue_work(rig->wq, &rig->blocker);
		work_each_scene(rig, g, victim);
		complete(&rig->over);
		if (rig->wrong)
			return;
		interleavings += rig->interleavings;
		destroy_workqueue(rig->wq);
		wheel_free(&rig->driven.wheel);
		kfree(rig);
	}
	kunit_info(test, "%lu interleavings\n", interleavings);
}

static void work_desc(const struct work_play *play, char *desc)
{
	strscpy(desc, play->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(work_victim, work_victims, work_desc);

/* From here on: what moves the wheel is a driver, and the victim is its worker. */

static const struct play kicks[] = {
	{ "another one is armed", {{ do_arm, OTHER, SOON }} },
	{ "another one is armed for now", {{ do_arm, OTHER, NOW }} },
	{ "a cancelled one is armed", {{ do_arm, SUBJECT, SOON }} },
	{ "one is touched", {{ do_touch, NEIGHBOUR, SOON }} },
	{ "one is released", {{ do_release, NEIGHBOUR }} },
};

/*
 * One timeout is pending for long, and one is cancelled and filed still. The worker comes
 * by when they are armed, to see whether somebody goes on to arm, and when they are due; so
 * it goes to sleep lightly, soundly, and for ever.
 */
static const struct act first_acts[] = {
	{ do_arm, NEIGHBOUR, 300 }, { do_arm, SUBJECT, 320 }, {}
};

static const struct act next_acts[] = { { do_cancel, SUBJECT }, {} };

/* False when the worker has no n-th step. */
static bool kick_worker(struct rig *rig, enum hwtimer_driver driver)
{
	const struct hwtimer_wheel_params params = {
		.name = "interleave", .tick_ns = TICK, .slots = 64, .driver = driver,
	};
	u64 begin = ktime_get_ns();
	struct thing *th;

	rig->wheel = hwtimer_wheel_create(&params);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(rig->test, rig->wheel);
	things_init(rig);
	/* A slice may begin while we are arming. */
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
		if (wheel_pending(&th->t))
			wrong(rig, "never called");
		if (th->released)
			wrong(rig, "never told of the release");
		th->cancelled += hwtimer_cancel_sync(&th->t);
	}
	check_books(rig);
	hwtimer_wheel_destroy(rig->wheel);
	return !rig->wrong && rig->step >= rig->n;
}

static const struct driver {
	const char		*name;
	enum hwtimer_driver	driver;
} drivers[] = {
	{ "kthread", HWTIMER_DRIVER_KTHREAD },
	{ "hrtimer", HWTIMER_DRIVER_HRTIMER },
};

static void driver_desc(const struct driver *driver, char *desc)
{
	strscpy(desc, driver->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(driver, drivers, driver_desc);

/* Promise 4. */
static void by_driver(struct kunit *test)
{
	const struct driver *driver = test->param_value;
	struct rig *rig = test->priv;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(kicks); i++) {
		rig->intruder = &kicks[i];
		for (rig->n = 1; kick_worker(rig, driver->driver); rig->n++)
			rig->interleavings++;
		if (rig->wrong) {
			KUNIT_FAIL(test, "%s at step %u, %pS: %s", rig->intruder->name, rig->n,
				   (void *)rig->at, rig->wrong);
			return;
		}
		/* It goes to sleep four times, and has a few steps each time. */
		KUNIT_EXPECT_GT(test, rig->n, 20);
	}
	kunit_info(test, "%lu interleavings\n", rig->interleavings);
}

/*
 * One CPU cannot show what goes wrong without a grace period: the sections that it waits for are
 * not preemptible. But RCU can be asked whether a grace period has passed.
 */
static struct {
	struct task_struct	*task;
	struct hwtimer_wheel	*wheel;
	/* of the last step */
	unsigned long		cookie;
	int			state;
	bool			ended;
	bool			needed;
	unsigned int		missing;
} grace;

static void grace_step(void)
{
	bool ended;
	int state;

	if (in_serving_softirq() || current != grace.task)
		return;
	state = READ_ONCE(grace.wheel->state);
	ended = READ_ONCE(to_driven(grace.wheel)->ended);
	/* Who pushed and had not seen that the wheel is stopped: before the last look. */
	grace.needed |= state == WHEEL_STOPPED && grace.state != state;
	grace.missing += grace.needed && !poll_state_synchronize_rcu(grace.cookie);
	/* Who armed, or kicked, and had not seen that: before anything else is done. */
	grace.needed = (state == WHEEL_SHUTDOWN && grace.state != state) ||
		       ended != grace.ended;
	grace.state = state;
	grace.ended = ended;
	grace.cookie = get_state_synchronize_rcu();
}

static void stop_waits(struct kunit *test)
{
	const struct driver *driver = test->param_value;
	const struct hwtimer_wheel_params params = {
		.name = "interleave", .tick_ns = TICK, .slots = 64, .driver = driver->driver,
	};
	struct hwtimer_wheel *wheel = hwtimer_wheel_create(&params);

	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, wheel);
	memset(&grace, 0, sizeof(grace));
	grace.wheel = wheel;
	grace.task = current;
	WRITE_ONCE(hwtimer_step_hook, grace_step);
	KUNIT_EXPECT_EQ(test, 0, hwtimer_wheel_stop(wheel, NULL));
	unstage();
	KUNIT_EXPECT_EQ(test, (int)WHEEL_STOPPED, grace.state);
	KUNIT_EXPECT_EQ(test, driver->driver == HWTIMER_DRIVER_HRTIMER, grace.ended);
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

static int interleave_init(struct kunit_suite *suite)
{
	/* Timers are no better than a jiffy before the machine's first ones. */
	nap(NSEC_PER_SEC);
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
	KUNIT_CASE_PARAM(work_item, work_victim_gen_params),
	KUNIT_CASE_PARAM(by_driver, driver_gen_params),
	KUNIT_CASE_PARAM(stop_waits, driver_gen_params),
	{}
};

static struct kunit_suite interleave_suite = {
	.name		= "hwtimer_interleave",
	.suite_init	= interleave_init,
	.init		= rig_init,
	.exit		= rig_exit,
	.test_cases	= interleave_cases,
};

kunit_test_suites(&interleave_suite);
