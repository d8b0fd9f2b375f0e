// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimer: the ioctls of /dev/hwtimer.
 *
 * Lock order: see dev/file.c.
 */
#include <linux/capability.h>
#include <linux/context_tracking_state.h>
#include <linux/err.h>
#include <linux/fs.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/nospec.h>
#include <linux/pid_namespace.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/uaccess.h>

#include "../debug/trace.h"
#include "../hwtimer.h"
#include "../core/hwtimer_compat.h"
#include "../core/hwtimer_stats.h"
#include "../uapi/linux/hwtimer.h"
#include "clock.h"
#include "ctx.h"
#include "ioctl.h"
#include "resize.h"
#include "rings.h"
#include "shared.h"
#include "shm.h"
#include "user.h"

/* The largest element of an array: each is copied at once, without a reschedule. */
#define MAX_ELEMENT	4096

static_assert(sizeof(struct hwtimer_setup) == 32);
static_assert(sizeof(struct hwtimer_schedule) == 64);
static_assert(sizeof(struct hwtimer_touch) == 32);
static_assert(sizeof(struct hwtimer_cancel) == 16);
static_assert(sizeof(struct hwtimer_query) == 64);
static_assert(sizeof(struct hwtimer_stop) == 16);
static_assert(sizeof(struct hwtimer_stats) == 96);
static_assert(sizeof(struct hwtimer_record) == 64);
static_assert(sizeof(struct hwtimer_rings) == 48);
static_assert(sizeof(struct hwtimer_enter) == 16);
static_assert(sizeof(struct hwtimer_list) == 32);
static_assert(sizeof(struct hwtimer_info) == 72);
static_assert(sizeof(struct hwtimer_wheels) == 32);
static_assert(sizeof(struct hwtimer_wheel_stats) == 480);
static_assert(offsetof(struct hwtimer_wheel_stats, tick_ns) == 120);
static_assert(offsetof(struct hwtimer_wheel_stats, late) == 224);
static_assert(sizeof(struct hwtimer_resize) == 8);

static unsigned long long min_tick_ns = NSEC_PER_MSEC;
module_param(min_tick_ns, ullong, 0644);
MODULE_PARM_DESC(min_tick_ns,
		 "shortest tick of an own wheel without CAP_SYS_RESOURCE, in ns (default 1000000)");

static unsigned int max_user_slots = 1 << 16;
module_param(max_user_slots, uint, 0644);
MODULE_PARM_DESC(max_user_slots,
		 "most slots per level of an own wheel without CAP_SYS_RESOURCE (default 65536)");

/* The clocks of own wheels. */
#define CLOCKS	(BIT(CLOCK_REALTIME) | BIT(CLOCK_MONOTONIC) | BIT(CLOCK_BOOTTIME))
#define SCHEDULE_FLAGS	(HWTIMER_RELATIVE | HWTIMER_CANCEL_ON_SET)
#define TOUCH_FLAGS	HWTIMER_RELATIVE
#define RINGS_FLAGS	(HWTIMER_RINGS_EVENTFD | HWTIMER_RINGS_RELAXED)

/* May a structure of @size bytes have @user_size in a program? Sizes are multiples of 8. */
static bool size_valid(size_t size, size_t user_size)
{
	return user_size >= size && !(user_size % 8);
}

/* The same for an element of an array or a ring. Its size is a field, and at most @max. */
static bool element_valid(size_t size, u32 user_size, u32 max)
{
	return size_valid(size, user_size) && user_size <= max;
}

/* Copy a structure from a program. Bytes beyond @size must be 0. */
static int get_arg(void *arg, size_t size, const void __user *from, size_t user_size)
{
	if (!size_valid(size, user_size))
		return -EINVAL;
	return copy_struct_from_user(arg, size, from, user_size);
}

static int put_arg(void __user *to, const void *arg, size_t size)
{
	return copy_to_user(to, arg, size) ? -EFAULT : 0;
}

/* Like put_arg(), and clear what the structure of a newer program has beyond @size. */
static int put_longer(void __user *to, size_t user_size, const void *arg, size_t size)
{
	int ret = put_arg(to, arg, size);

	if (!ret && clear_user(to + size, user_size - size))
		ret = -EFAULT;
	return ret;
}

#define GET_ARG(arg, from, user_size)	get_arg(&(arg), sizeof(arg), from, user_size)
#define PUT_ARG(to, arg)		put_arg(to, &(arg), sizeof(arg))

static struct hwtimer_wheel *create_own_wheel(struct hwtimer_ctx *ctx,
					      const struct hwtimer_setup *arg)
{
	struct hwtimer_wheel_params params = {
		.tick_ns = arg->tick_ns,
		.slots = arg->slots,
		.levels = arg->levels,
		.flags = HWTIMER_WHEEL_ACCOUNT | HWTIMER_WHEEL_OWN,
		/* CLOCK_REALTIME may be set, and a wheel's clock must not go back. */
		.clock = arg->clockid == CLOCK_MONOTONIC ? HWTIMER_CLOCK_MONOTONIC :
							   HWTIMER_CLOCK_BOOTTIME,
		.nice = task_nice(current),
	};
	struct hwtimer_wheel *wheel;
	char name[HWTIMER_NAME_LEN];

	if (!arg->tick_ns || !arg->slots || arg->slots > HWTIMER_MAX_SLOTS)
		return ERR_PTR(-EINVAL);
	if ((arg->tick_ns < READ_ONCE(min_tick_ns) ||
	     arg->slots > READ_ONCE(max_user_slots)) && !capable(CAP_SYS_RESOURCE))
		return ERR_PTR(-EPERM);
	if (!hwtimer_user_charge(ctx->user, HWTIMER_LIMIT_WHEELS, 1))
		return ERR_PTR(-EDQUOT);

	snprintf(name, sizeof(name), "pid-%d", task_tgid_nr(current));
	params.name = name;
	wheel = hwtimer_wheel_create(&params);
	if (IS_ERR(wheel))
		hwtimer_user_uncharge(ctx->user, HWTIMER_LIMIT_WHEELS, 1);
	return wheel;
}

/*
 * Uncharge the wheel after it was destroyed, so that a user who opens and closes in a loop never
 * has more wheels than the limit allows. When close(2) returns, another one may be created.
 */
void hwtimer_free_own_wheel(struct hwtimer_ctx *ctx, struct hwtimer_wheel *wheel)
{
	hwtimer_wheel_destroy(wheel);
	hwtimer_user_uncharge(ctx->user, HWTIMER_LIMIT_WHEELS, 1);
}

/* Tick, slots and levels of an own wheel are checked when it is created. */
static bool setup_valid(const struct hwtimer_setup *arg)
{
	if (arg->flags & ~HWTIMER_SETUP_OWN_WHEEL || arg->cap > MAX_CAP)
		return false;
	if (arg->flags & HWTIMER_SETUP_OWN_WHEEL)
		return arg->clockid < 32 && CLOCKS & BIT(arg->clockid);
	return arg->clockid == CLOCK_MONOTONIC && !arg->tick_ns && !arg->slots && !arg->levels;
}

static void use_wheel(struct hwtimer_ctx *ctx, struct hwtimer_wheel *wheel)
{
	lockdep_assert_held(&ctx->lock);
	/*
	 * [WRITE_ONCE: as it is constant once a timeout is armed, and an earlier reader finds none]
	 */
	WRITE_ONCE(ctx->wheel, wheel);
	hwtimer_user_uses(ctx->user, &ctx->use, hwtimer_wheel_id(wheel));
}

static long dev_setup(struct hwtimer_ctx *ctx, void __user *uarg, size_t size)
{
	/* Without an own wheel, "dev" has the tick, slots and levels to report. */
	struct hwtimer_wheel *wheel = hwtimer_shared_wheel(NULL);
	struct ctx_clock *clock = NULL;
	struct hwtimer_setup arg;
	bool own;
	int ret;

	ret = GET_ARG(arg, uarg, size);
	if (ret)
		return ret;
	if (!setup_valid(&arg))
		return -EINVAL;
	own = arg.flags & HWTIMER_SETUP_OWN_WHEEL;

	if (mutex_lock_killable(&ctx->control))
		return -EINTR;
	hwtimer_ctx_lock(ctx);
	if (ctx->stopped)
		ret = -ESHUTDOWN;
	else if (ctx->set_up || ctx->used)
		ret = -EBUSY;
	hwtimer_ctx_unlock(ctx);
	if (ret)
		goto out;
	if (own) {
		wheel = create_own_wheel(ctx, &arg);
		if (IS_ERR(wheel)) {
			ret = PTR_ERR(wheel);
			goto out;
		}
	}
	if (arg.clockid == CLOCK_REALTIME) {
		clock = hwtimer_dates_create(ctx, GFP_TABLE);
		ret = clock ? 0 : -ENOMEM;
	}

	arg.tick_ns = hwtimer_wheel_tick_ns(wheel);
	arg.slots = hwtimer_wheel_slots(wheel);
	arg.levels = hwtimer_wheel_levels(wheel);
	arg.cap = arg.cap ?: MAX_CAP;
	ret = ret ?: PUT_ARG(uarg, arg);
	if (!ret) {
		/* Another thread may have scheduled a timeout meanwhile. */
		hwtimer_ctx_lock(ctx);
		if (ctx->used) {
			ret = -EBUSY;
		} else {
			ctx->set_up = true;
			WRITE_ONCE(ctx->offset_ns, hwtimer_ctx_time_offset(arg.clockid));
			ctx->own_wheel = own;
			if (own)
				use_wheel(ctx, wheel);
			if (clock)
				hwtimer_clock_publish(ctx, clock);
			ctx->cap = arg.cap;
		}
		hwtimer_ctx_unlock(ctx);
	}
	if (!ret && clock)
		hwtimer_clock_add(ctx);
	if (ret) {
		hwtimer_dates_free(clock);
		if (own)
			hwtimer_free_own_wheel(ctx, wheel);
	}
out:
	mutex_unlock(&ctx->control);
	return ret;
}

/* Choose a shared wheel before the first timeout, unless the context has its own wheel. */
static int choose_wheel(struct hwtimer_ctx *ctx)
{
	struct hwtimer_shared *shared;
	bool chosen;
	int ret;

	if (likely(READ_ONCE(ctx->used)))
		return 0;
	hwtimer_ctx_lock(ctx);
	chosen = ctx->shared || ctx->own_wheel;
	hwtimer_ctx_unlock(ctx);
	if (chosen)
		return 0;

	shared = hwtimer_shared_get(ctx->user);
	ret = PTR_ERR_OR_ZERO(shared);
	/* No other error, above all not -EAGAIN: it would mean that the context is at its cap. */
	if (ret)
		return ret == -EINTR || ret == -EDQUOT ? ret : -ENOMEM;
	hwtimer_ctx_lock(ctx);
	/* Another thread may have chosen a shared wheel, or SETUP may have made an own one. */
	if (!ctx->shared && !ctx->own_wheel) {
		ctx->shared = shared;
		use_wheel(ctx, hwtimer_shared_wheel(shared));
		shared = NULL;
	}
	hwtimer_ctx_unlock(ctx);
	if (shared)
		hwtimer_shared_put(shared);
	return 0;
}

/*
 * The operations. Each copies its output to the program before it takes effect, as if it had
 * succeeded: after a fault, nothing must have happened.
 */

static long dev_schedule(struct hwtimer_ctx *ctx, void __user *uarg, size_t size)
{
	struct hwtimer_schedule arg;
	struct ctx_period *period;
	struct ctx_timeout *ct;
	u64 deadline;
	int ret;

	ret = GET_ARG(arg, uarg, size);
	if (ret)
		return ret;
	if (arg.flags & ~SCHEDULE_FLAGS || arg.pad || arg.pad2 ||
	    (!arg.period && (arg.misfire || arg.policy)))
		return -EINVAL;
	if (arg.flags & HWTIMER_CANCEL_ON_SET &&
	    (arg.flags & HWTIMER_RELATIVE || !READ_ONCE(ctx->clock)))
		return -EINVAL;
	ret = choose_wheel(ctx);
	if (ret)
		return ret;
	period = hwtimer_ctx_make_period(ctx, &arg);
	if (IS_ERR(period))
		return PTR_ERR(period);

	ct = hwtimer_ctx_reserve(ctx, arg.id);
	if (IS_ERR(ct)) {
		hwtimer_ctx_free_period(ctx, period);
		return PTR_ERR(ct);
	}
	arg.id = hwtimer_id_of(ct);
	deadline = period ? hwtimer_ctx_first_deadline(ctx, arg.flags, arg.time) :
			    hwtimer_ctx_deadline(ctx, arg.flags, arg.time);
	arg.deadline = hwtimer_ctx_answer(ctx, arg.flags, deadline);
	/* Before arming, which could not be undone: the timeout may expire at once. */
	ret = PUT_ARG(uarg, arg);

	hwtimer_ctx_lock(ctx);
	if (ret)
		hwtimer_ctx_make_free(ctx, ct);
	else
		ret = hwtimer_ctx_arm(ctx, ct, arg.flags, deadline, arg.user_data, period);
	hwtimer_ctx_unlock(ctx);
	if (ret)
		hwtimer_ctx_free_period(ctx, period);
	return ret;
}

static long dev_touch(struct hwtimer_ctx *ctx, void __user *uarg, size_t size)
{
	struct hwtimer_touch arg;
	u64 deadline;
	int ret;

	ret = GET_ARG(arg, uarg, size);
	if (ret)
		return ret;
	if (arg.flags & ~TOUCH_FLAGS || arg.pad)
		return -EINVAL;
	deadline = hwtimer_ctx_deadline(ctx, arg.flags, arg.time);
	arg.deadline = hwtimer_ctx_answer(ctx, arg.flags, deadline);
	ret = PUT_ARG(uarg, arg);
	if (ret)
		return ret;

	hwtimer_ctx_lock(ctx);
	ret = hwtimer_ctx_touch(ctx, arg.id, arg.flags, deadline);
	hwtimer_ctx_unlock(ctx);
	return ret;
}

/* It has no output. */
static long dev_cancel(struct hwtimer_ctx *ctx, void __user *uarg, size_t size)
{
	struct hwtimer_cancel arg;
	int ret;

	ret = GET_ARG(arg, uarg, size);
	if (ret)
		return ret;
	if (arg.flags || arg.pad)
		return -EINVAL;

	hwtimer_ctx_lock(ctx);
	ret = hwtimer_ctx_cancel(ctx, arg.id);
	hwtimer_ctx_unlock(ctx);
	return ret;
}

/* Describe a pending timeout. */
static void describe(const struct hwtimer_ctx *ctx, const struct ctx_timeout *ct,
		     struct hwtimer_query *arg)
{
	const struct hwtimer_period *period;

	lockdep_assert_held(&ctx->lock);
	*arg = (struct hwtimer_query){
		.id = hwtimer_id_of(ct),
		.user_data = hwtimer_ctx_user_data(ct),
		.deadline = hwtimer_ctx_due(ctx, ct),
	};
	if (ct->periodic) {
		period = &ct->period->period;
		arg->period = period->period_ns;
		arg->misfire = period->misfire_ns;
		arg->unread = ct->period->unread;
		arg->policy = period->policy;
	}
}

static long dev_query(struct hwtimer_ctx *ctx, void __user *uarg, size_t size)
{
	struct hwtimer_query arg;
	struct ctx_timeout *ct;
	int ret;

	ret = GET_ARG(arg, uarg, size);
	if (ret)
		return ret;
	if (arg.flags || arg.pad || arg.pad2)
		return -EINVAL;
	hwtimer_ctx_lock(ctx);
	ct = hwtimer_ctx_find_pending(ctx, arg.id);
	if (ct)
		describe(ctx, ct, &arg);
	hwtimer_ctx_unlock(ctx);
	return ct ? PUT_ARG(uarg, arg) : -ENOENT;
}

static long dev_stop(struct hwtimer_ctx *ctx, void __user *uarg, size_t size)
{
	struct hwtimer_stop arg;
	struct ctx_timeout *ct;
	unsigned long index = 0;
	int ret;

	ret = GET_ARG(arg, uarg, size);
	if (ret)
		return ret;
	if (arg.flags || arg.pad)
		return -EINVAL;

	arg.handed_back = 0;
	if (mutex_lock_killable(&ctx->control))
		return -EINTR;
	hwtimer_ctx_lock(ctx);
	hwtimer_ctx_stop(ctx);
	while ((ct = hwtimer_ctx_next_timeout(ctx, &index))) {
		if (ct->state == TIMEOUT_PENDING) {
			hwtimer_ctx_hand_back(ctx, ct);
			arg.handed_back++;
		}
		hwtimer_report_one(ctx);
	}
	hwtimer_ctx_unlock(ctx);
	mutex_unlock(&ctx->control);
	trace_hwtimer_dev_stop(ctx, arg.handed_back);
	return PUT_ARG(uarg, arg);
}

static long dev_stats(struct hwtimer_ctx *ctx, void __user *uarg, size_t size)
{
	struct hwtimer_stats arg;
	int ret;

	ret = GET_ARG(arg, uarg, size);
	if (ret)
		return ret;
	if (arg.flags || arg.pad)
		return -EINVAL;

	hwtimer_ctx_lock(ctx);
	arg = ctx->stats;
	arg.cap = ctx->cap;
	arg.now = hwtimer_ctx_now(ctx);
	hwtimer_ctx_unlock(ctx);
	return PUT_ARG(uarg, arg);
}

static long dev_list(struct hwtimer_ctx *ctx, void __user *uarg, size_t size)
{
	struct hwtimer_query query;
	struct hwtimer_list arg;
	struct ctx_timeout *ct;
	unsigned long index;
	bool pending;
	u32 n = 0, most;
	int ret;

	ret = GET_ARG(arg, uarg, size);
	if (ret)
		return ret;
	if (arg.flags || arg.pad || !arg.count ||
	    !element_valid(sizeof(query), arg.size, MAX_ELEMENT))
		return -EINVAL;

	most = min_t(u32, arg.count, INT_MAX);
	index = min_t(u64, arg.next, ULONG_MAX);
	while (n < most && !fatal_signal_pending(current)) {
		hwtimer_ctx_lock(ctx);
		ct = hwtimer_ctx_next_timeout(ctx, &index);
		pending = ct && ct->state == TIMEOUT_PENDING;
		if (pending)
			describe(ctx, ct, &query);
		hwtimer_ctx_unlock(ctx);
		if (!ct)
			break;
		if (pending) {
			ret = put_longer(u64_to_user_ptr(arg.queries) + n * (u64)arg.size,
					 arg.size, &query, sizeof(query));
			if (ret)
				break;
			n++;
		}
		arg.next = index;
	}
	if (ret && !n)
		return ret;
	return PUT_ARG(uarg, arg) ?: (long)n;
}

/*
 * The statistics of wheels. No lock is held while a wheel is read or copied. A wheel that ends
 * meanwhile is skipped.
 */
static long dev_wheels(struct hwtimer_ctx *ctx, void __user *uarg, size_t size)
{
	struct hwtimer_wheel_stats stats;
	struct hwtimer_wheels arg;
	bool all, names;
	u32 n = 0, most;
	u64 id;
	int ret;

	ret = GET_ARG(arg, uarg, size);
	if (ret)
		return ret;
	if (arg.flags || arg.pad || !arg.count ||
	    !element_valid(sizeof(stats), arg.size, MAX_ELEMENT))
		return -EINVAL;

	/*
	 * A container must not see the wheels of others, nor any names, which contain ids of the
	 * host. This is like perfmon_capable(), but audits nothing: to lack it is no offence.
	 */
	all = ns_capable_noaudit(&init_user_ns, CAP_PERFMON) ||
	      ns_capable_noaudit(&init_user_ns, CAP_SYS_ADMIN);
	names = all || task_active_pid_ns(current) == &init_pid_ns;
	most = min_t(u32, arg.count, INT_MAX);
	while (n < most && !fatal_signal_pending(current)) {
		id = all ? hwtimer_stats_next(arg.next) :
			   hwtimer_user_next_wheel(ctx->user, arg.next);
		if (!id)
			break;
		if (hwtimer_stats_get(id, &stats)) {
			if (!names)
				memset(stats.name, 0, sizeof(stats.name));
			ret = put_longer(u64_to_user_ptr(arg.wheels) + n * (u64)arg.size,
					 arg.size, &stats, sizeof(stats));
			if (ret)
				break;
			n++;
		}
		arg.next = id + 1;
		cond_resched();
	}
	if (ret && !n)
		return ret;
	return PUT_ARG(uarg, arg) ?: (long)n;
}

/*
 * hwtimer_shm_set_sleep() needs an atomic64_t that is not emulated with locks. Caches must not have
 * aliases, because the kernel and the program have different mappings of the rings.
 */
static bool rings_supported(void)
{
	return !IS_ENABLED(CONFIG_GENERIC_ATOMIC64) && !cpu_dcache_is_aliasing();
}

/* With context tracking, grace periods do not wait for CPUs in user mode; see dev/rings.c. */
static u32 rings_flags(void)
{
	return RINGS_FLAGS & ~(context_tracking_enabled() ? HWTIMER_RINGS_RELAXED : 0);
}

static long dev_get_info(struct hwtimer_ctx *ctx, void __user *uarg, size_t size)
{
	struct hwtimer_info arg;
	int ret;

	ret = GET_ARG(arg, uarg, size);
	if (ret)
		return ret;
	if (arg.flags)
		return -EINVAL;
	arg = (struct hwtimer_info){
		.features = HWTIMER_FEATURE_WHEELS | HWTIMER_FEATURE_RESIZE |
			    (rings_supported() ? HWTIMER_FEATURE_RINGS : 0),
		.setup_flags = HWTIMER_SETUP_OWN_WHEEL,
		.schedule_flags = SCHEDULE_FLAGS,
		.touch_flags = TOUCH_FLAGS,
		.rings_flags = rings_flags(),
		.sqe_flags = HWTIMER_SQE_QUIET,
		.clocks = CLOCKS,
		.sqe_ops = BIT(HWTIMER_OP_SCHEDULE) | BIT(HWTIMER_OP_TOUCH) |
			   BIT(HWTIMER_OP_CANCEL) | BIT(HWTIMER_OP_NOP),
		.policies = BIT(HWTIMER_MISFIRE_ONCE) | BIT(HWTIMER_MISFIRE_SKIP) |
			    BIT(HWTIMER_MISFIRE_MAKE_UP),
		.kinds = BIT(HWTIMER_KIND_EXPIRED) | BIT(HWTIMER_KIND_HANDED_BACK) |
			 BIT(HWTIMER_KIND_FAILED) | BIT(HWTIMER_KIND_CLOCK_SET),
		.max_timeouts = MAX_CAP,
		.max_entries = HWTIMER_RING_MAX,
		.max_slots = min(READ_ONCE(max_user_slots), (unsigned int)HWTIMER_MAX_SLOTS),
		.min_tick_ns = READ_ONCE(min_tick_ns),
	};
	return PUT_ARG(uarg, arg);
}

static long dev_resize(struct hwtimer_ctx *ctx, void __user *uarg, size_t size)
{
	struct hwtimer_resize arg;
	int ret;

	ret = GET_ARG(arg, uarg, size);
	if (ret)
		return ret;
	if (arg.flags || arg.timeouts > MAX_CAP)
		return -EINVAL;
	if (mutex_lock_killable(&ctx->size_lock))
		return -EINTR;
	ret = hwtimer_ctx_resize(ctx, arg.timeouts);
	hwtimer_ctx_lock(ctx);
	arg.timeouts = ctx->charged;
	hwtimer_ctx_unlock(ctx);
	mutex_unlock(&ctx->size_lock);
	return ret ?: PUT_ARG(uarg, arg);
}

/* Ioctls for rings. */

static bool rings_valid(const struct hwtimer_rings *arg)
{
	return !(arg->flags & ~RINGS_FLAGS) && !arg->pad &&
	       element_valid(sizeof(struct hwtimer_sqe), arg->sqe_size, HWTIMER_ENTRY_MAX) &&
	       element_valid(sizeof(struct hwtimer_record), arg->record_size,
			     HWTIMER_ENTRY_MAX) &&
	       (arg->flags & HWTIMER_RINGS_EVENTFD || !arg->eventfd) &&
	       arg->sq_entries && arg->sq_entries <= HWTIMER_RING_MAX &&
	       arg->cq_entries <= HWTIMER_RING_MAX &&
	       arg->timeouts && arg->timeouts <= MAX_CAP;
}

/* Return 0 if the context may be given rings, or an error. */
static int rings_possible(const struct hwtimer_ctx *ctx)
{
	lockdep_assert_held(&ctx->lock);
	if (ctx->stopped)
		return -ESHUTDOWN;
	return ctx->used ? -EBUSY : 0;
}

/* Give the context its rings, unless another thread has scheduled, or stopped it, meanwhile. */
static int rings_publish(struct hwtimer_ctx *ctx, struct ctx_rings *r,
			 const struct ctx_table *table)
{
	int ret;

	hwtimer_ctx_lock(ctx);
	ret = rings_possible(ctx);
	if (!ret) {
		WRITE_ONCE(ctx->used, true);
		ctx->table = *table;
		ctx->charged = table->nr;
		/* Pairs with hwtimer_rings_of(). [smp_store_release: dev-publish-broken-release] */
		smp_store_release(&ctx->rings, r);
		ctx->eventfd = r->eventfd;
		/* Wake readers, so that read() returns. No EPOLLIN, since there is no record. */
		ctx->news |= EPOLLRDNORM;
	}
	hwtimer_ctx_unlock(ctx);
	return ret;
}

static long dev_rings(struct hwtimer_ctx *ctx, void __user *uarg, size_t size)
{
	struct ctx_table table = { };
	struct hwtimer_rings arg;
	struct ctx_rings *r;
	int ret;

	if (!rings_supported())
		return -EOPNOTSUPP;
	ret = GET_ARG(arg, uarg, size);
	if (ret)
		return ret;
	if (!rings_valid(&arg))
		return -EINVAL;
	if (arg.flags & ~rings_flags())
		return -EOPNOTSUPP;
	ret = choose_wheel(ctx);
	if (ret)
		return ret;

	if (mutex_lock_killable(&ctx->control))
		return -EINTR;
	hwtimer_ctx_lock(ctx);
	ret = rings_possible(ctx);
	hwtimer_ctx_unlock(ctx);
	if (ret)
		goto out;
	ret = -EDQUOT;
	if (!hwtimer_user_charge(ctx->user, HWTIMER_LIMIT_TIMEOUTS, arg.timeouts))
		goto out;
	ret = ctx->clock ? hwtimer_dates_reserve_all(ctx->clock, arg.timeouts, GFP_TABLE) : 0;
	if (!ret)
		ret = hwtimer_table_extend(&table, ctx, arg.timeouts);
	if (ret)
		goto free_dates;
	table.nr = arg.timeouts;
	r = hwtimer_rings_create(ctx, &arg);
	if (IS_ERR(r)) {
		ret = PTR_ERR(r);
		goto free_table;
	}

	arg.sq_entries = r->pair.sq_mask + 1;
	arg.cq_entries = r->pair.cq_mask + 1;
	arg.sq_offset = hwtimer_shm_sq_offset(&r->pair);
	arg.cq_offset = hwtimer_shm_cq_offset(&r->pair);
	arg.size = hwtimer_shm_size(&r->pair);
	ret = PUT_ARG(uarg, arg) ?: rings_publish(ctx, r, &table);
	if (!ret)
		goto out;
	hwtimer_rings_free(r);
free_table:
	table.nr = 0;
	hwtimer_table_trim(&table);
free_dates:
	/* Another thread may have scheduled a timeout meanwhile. */
	mutex_lock(&ctx->size_lock);
	if (ctx->clock)
		hwtimer_dates_trim(ctx->clock, ctx->table.numbers * PAGE_TIMEOUTS);
	mutex_unlock(&ctx->size_lock);
	hwtimer_user_uncharge(ctx->user, HWTIMER_LIMIT_TIMEOUTS, arg.timeouts);
out:
	mutex_unlock(&ctx->control);
	return ret;
}

static long dev_enter(struct hwtimer_ctx *ctx, void __user *uarg, size_t size)
{
	struct hwtimer_enter arg;
	int ret;

	ret = GET_ARG(arg, uarg, size);
	if (ret)
		return ret;
	if (arg.flags || arg.pad || arg.pad2)
		return -EINVAL;
	if (!hwtimer_rings_of(ctx))
		return -ENXIO;
	ret = hwtimer_rings_enter(ctx, &arg.taken);
	return PUT_ARG(uarg, arg) ?: ret;
}

/* A command without the size of its argument. */
#define COMMAND(cmd)	((cmd) & ~IOCSIZE_MASK)

/**
 * struct command - an ioctl
 * @cmd: the command, without the size of its argument
 * @run: executes it
 * @writes: it changes the context, so the file must be open for writing
 * @takes: submissions are taken before it runs, so that operations take effect in the program's
 *	order
 */
struct command {
	unsigned int	cmd;
	long		(*run)(struct hwtimer_ctx *ctx, void __user *uarg, size_t size);
	bool		writes;
	bool		takes;
};

#define IS(name)	.cmd = COMMAND(HWTIMER_IOC_##name)

static const struct command commands[] = {
	{ IS(SETUP),	.run = dev_setup,	.writes = true },
	{ IS(SCHEDULE),	.run = dev_schedule,	.writes = true, .takes = true },
	{ IS(TOUCH),	.run = dev_touch,	.writes = true, .takes = true },
	{ IS(CANCEL),	.run = dev_cancel,	.writes = true, .takes = true },
	{ IS(QUERY),	.run = dev_query,	.takes = true },
	{ IS(STOP),	.run = dev_stop,	.writes = true, .takes = true },
	{ IS(STATS),	.run = dev_stats },
	{ },	/* no command has this number */
	{ IS(RINGS),	.run = dev_rings,	.writes = true },
	/* It takes submissions itself, and says how many. */
	{ IS(ENTER),	.run = dev_enter,	.writes = true },
	{ IS(LIST),	.run = dev_list },
	{ IS(INFO),	.run = dev_get_info },
	{ IS(WHEELS),	.run = dev_wheels },
	{ IS(RESIZE),	.run = dev_resize,	.writes = true, .takes = true },
};

/* The ioctls of an open /dev/hwtimer. */
long hwtimer_dev_ioctl(struct file *file, unsigned int cmd, unsigned long arg)
{
	unsigned int nr = array_index_nospec(_IOC_NR(cmd), ARRAY_SIZE(commands));
	struct hwtimer_ctx *ctx = file->private_data;
	const struct command *c = &commands[nr];

	if (COMMAND(cmd) != c->cmd)
		return -ENOTTY;
	if (c->writes && !(file->f_mode & FMODE_WRITE))
		return -EBADF;
	if (c->takes && hwtimer_rings_of(ctx))
		hwtimer_rings_take_all(ctx);
	return c->run(ctx, (void __user *)arg, _IOC_SIZE(cmd));
}
