/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * hwtimer: what timer.c needs from the kernel besides native.h. Included before timer.c only: a
 * kernel with SMP and NO_HZ, in which no CPU is idle.
 */
#ifndef NATIVE_TIMER_H
#define NATIVE_TIMER_H

#include <native.h>

/*
 * Per-CPU variables, in a section of their own, as in the kernel. CPU 0 uses the section itself;
 * the others have copies, so far behind it.
 */
extern char __start_native_percpu[], __stop_native_percpu[];
static long native_percpu_offset[NATIVE_CPUS];
#undef this_cpu_ptr
#undef per_cpu_ptr
#define DEFINE_PER_CPU(type, name)	__attribute__((section("native_percpu"))) type name
#define per_cpu_ptr(p, cpu)	((typeof(p))((char *)(p) + native_percpu_offset[cpu]))
#define this_cpu_ptr(p)	per_cpu_ptr(p, current->cpu)
#define __this_cpu_read(x)	(*this_cpu_ptr(&(x)))
#define __this_cpu_write(x, v)	(*this_cpu_ptr(&(x)) = (v))
#define smp_processor_id	raw_smp_processor_id

/* A kernel with NO_HZ has these branches on once it has booted. */
#define DEFINE_STATIC_KEY_FALSE(name)	bool name
#define static_branch_unlikely(key)	true
#define static_branch_enable(key)	((void)(key))
#define static_branch_disable(key)	((void)(key))
#define tick_nohz_active	true

#define CONFIG_SMP	1
#define CONFIG_NO_HZ_COMMON	1
#define native_enabled_CONFIG_NO_HZ_COMMON	1
#define native_enabled_CONFIG_PREEMPT_RT	0
#define native_enabled_CONFIG_POSIX_TIMERS	0
#define __visible
#define __cacheline_aligned_in_smp
#define __latent_entropy
#define __sched
#define DECLARE_BITMAP(name, n)	unsigned long name[BITS_TO_LONGS(n)]
#define raw_spin_lock	spin_lock
#define raw_spin_unlock	spin_unlock
#define raw_spin_lock_irq(l)	\
	do { current->irqs_off = true; barrier(); spin_lock(l); } while (0)
#define raw_spin_unlock_irq(l)	do { spin_unlock(l); native_irq_restore(false); } while (0)
#define raw_spin_lock_nested(l, n)	spin_lock(l)
#define lockdep_assert_irqs_disabled()	((void)0)
#define lockdep_assert_preemption_enabled()	((void)0)
#undef lockdep_init_map
#define lockdep_init_map(m, n, k, s)	((void)0)
#undef lock_map_acquire
#define lock_map_acquire(m)	((void)0)
#undef lock_map_release
#define lock_map_release(m)	((void)0)
#define in_hardirq()	(current->hardirq)
#define printk	native_log
#define KERN_ERR
#define dump_stack()	((void)0)

/* Time. */
#define INITIAL_JIFFIES	0
#define KTIME_MAX	S64_MAX
#define DIV_ROUND_UP_ULL	DIV_ROUND_UP
#define time_before(a, b)	time_after(b, a)
#define time_after_eq(a, b)	((long)((a) - (b)) >= 0)
#define time_before_eq(a, b)	time_after_eq(b, a)
#define time_is_after_jiffies(a)	time_before(jiffies, a)
#define hrtimer_get_next_event()	KTIME_MAX
#define hrtimer_run_queues()	((void)0)
#define msecs_to_jiffies(n)	(n)
#define jiffies_to_msecs(n)	(n)
#define ktime_get()	((ktime_t)ktime_get_ns())
#define ktime_add_us(t, us)	((t) + (us) * NSEC_PER_USEC)
#define schedule_hrtimeout_range(t, slack, mode)	((void)(slack), native_sleep(*(t)), 0)

/* Softirqs, and the tick. */
static void (*native_timer_softirq)(void);
#define TIMER_SOFTIRQ	1
#define open_softirq(n, fn)	(native_timer_softirq = (fn))
#define raise_softirq(n)	((void)0)
#define posix_cputimers_init_work()	((void)0)
#define account_process_tick(task, user)	((void)(task))
#define rcu_sched_clock_irq(user)	((void)0)
#define sched_tick()	((void)0)
#define run_posix_cpu_timers()	((void)0)
#define cpu_is_offline(cpu)	false
#define tick_nohz_full_cpu(cpu)	false
#define wake_up_nohz_cpu(cpu)	((void)0)
#define schedule_work(w)	((void)(w))
#define DECLARE_WORK(name, f)	struct work_struct name = { .fn = (f) }
#define TASK_KILLABLE	TASK_UNINTERRUPTIBLE

/* CPUs that are idle have their timers run by others: here none is idle. */
struct timer_events { u64 local, global; };
#define tmigr_cpu_new_timer(t)	KTIME_MAX
#define tmigr_cpu_deactivate(t)	KTIME_MAX
#define tmigr_quick_check(t)	KTIME_MAX
#define tmigr_cpu_activate()	((void)0)
#define tmigr_handle_remote()	((void)0)
#define tmigr_requires_handle_remote()	false

#define trace_timer_init(t)	((void)0)
#define trace_timer_start(t, when)	((void)0)
#define trace_timer_cancel(t)	((void)0)
#define trace_timer_expire_entry(t, when)	((void)0)
#define trace_timer_expire_exit(t)	((void)0)
#define trace_timer_base_idle(idle, cpu)	((void)0)

#endif /* NATIVE_TIMER_H */
