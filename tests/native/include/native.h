/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * hwtimer: what the module needs from the kernel, on C11 atomics, pthreads and futexes, so that
 * it runs as a program. tests/native/Makefile redirects each <linux/...> that the module
 * includes to this file, except list.h, llist.h, log2.h and poison.h, which are the kernel's,
 * and its UAPI headers, which programs have as well.
 *
 * Each thread is a CPU. Code with preemption disabled is an RCU read-side critical section; as in
 * the kernel, it has no barrier. Interrupts are signals, and calls from the steps of the protocol;
 * they run on top of a thread, and so on its CPU.
 *
 * ThreadSanitizer does not model fences. For it smp_mb() is a read-modify-write of one shared
 * word. That orders more than the memory model promises, so TSan may miss a missing barrier, but
 * gives no false reports. smp_rmb() orders marked accesses only and means nothing to TSan.
 */
#ifndef NATIVE_H
#define NATIVE_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <sys/epoll.h>
#include <sys/types.h>
#include <linux/types.h>
#include <linux/ioctl.h>

/* tests/native/Makefile defines LINUX_VERSION_CODE. */
#define KERNEL_VERSION(a, b, c)	(((a) << 16) + ((b) << 8) + (c))

/* Compiler and types. */

typedef __u8 u8;
typedef __u16 u16;
typedef __u32 u32;
typedef __u64 u64;
typedef __s64 s64;
typedef s64 ktime_t;
typedef unsigned int gfp_t;
typedef unsigned int __poll_t;
typedef unsigned int kuid_t;
typedef unsigned int fmode_t;
struct list_head { struct list_head *next, *prev; };
struct hlist_head { struct hlist_node *first; };
struct hlist_node { struct hlist_node *next, **pprev; };
#define hash_ptr(p, bits)	((unsigned int)((uintptr_t)(p) / 64 % (1U << (bits))))

#define IS_ENABLED(x)	native_enabled_##x
#define native_enabled_CONFIG_DEBUG_OBJECTS	0
#define native_enabled_CONFIG_GENERIC_ATOMIC64	0
#define native_enabled_CONFIG_PREEMPT_RT	0
#define native_enabled_CONFIG_PROVE_RAW_LOCK_NESTING	0
#define IS_ERR_OR_NULL(p)	(!(p) || IS_ERR(p))
#define U32_MAX		(~0U)
#define U64_MAX		(~0ULL)
#define S64_MAX		0x7fffffffffffffffLL
#define BIT(n)		(1UL << (n))
#define BIT_ULL(n)	(1ULL << (n))
#define GENMASK_ULL(h, l)	((~0ULL << (l)) & (~0ULL >> (63 - (h))))
#define BITS_TO_LONGS(n)	(((n) + 63) / 64)
#define NSEC_PER_USEC	1000L
#define NSEC_PER_MSEC	1000000L
#define NSEC_PER_SEC	1000000000L
#define HZ		1000

#undef static_assert
#define static_assert(e, ...)	_Static_assert(e, #e)
#define likely(x)	__builtin_expect(!!(x), 1)
#define unlikely(x)	__builtin_expect(!!(x), 0)
#undef __always_inline
#define __always_inline	inline __attribute__((always_inline))
#define noinline	__attribute__((noinline))
#define __init
#define __exit
#define __ro_after_init
#define __user
#define __percpu
#define __maybe_unused	__attribute__((unused))
#define __no_kmsan_checks
#define __printf(a, b)	__attribute__((format(printf, a, b)))
#define __aligned(n)	__attribute__((aligned(n)))
#define ____cacheline_aligned	__aligned(64)
#define EXPORT_SYMBOL_GPL(x)
#define EXPORT_SYMBOL_IF_KUNIT(x)
#define EXPORT_SYMBOL(x)
#define module_param(...)
#define MODULE_PARM_DESC(...)
#define MODULE_LICENSE(x)
#define MODULE_VERSION(x)
#define MODULE_DESCRIPTION(x)
#define MODULE_AUTHOR(x)
#define module_init(fn)	int native_module_init(void) { return fn(); }
#define module_exit(fn)	void native_module_exit(void) { fn(); }
#define THIS_MODULE	((struct module *)NULL)
#define module_name(m)	"native"
#define MODULE_STATE_GOING	2
#define NOTIFY_OK	1

struct notifier_block {
	int	(*notifier_call)(struct notifier_block *nb, unsigned long event, void *data);
};

#define register_module_notifier(nb)	((void)(nb), 0)
#define unregister_module_notifier(nb)	((void)(nb))
#define KSYM_NAME_LEN	64
#define MODULE_NAME_LEN	56
int native_module_init(void);
void native_module_exit(void);

#define ARRAY_SIZE(a)	(sizeof(a) / sizeof((a)[0]))
#define sizeof_field(t, m)	sizeof(((t *)0)->m)
#define offsetofend(t, m)	(offsetof(t, m) + sizeof_field(t, m))
#undef container_of
#define container_of(p, t, m)	((t *)((char *)(p) - offsetof(t, m)))
#define min(a, b)	({ __auto_type a_ = (a); __auto_type b_ = (b); a_ < b_ ? a_ : b_; })
#define max(a, b)	({ __auto_type a_ = (a); __auto_type b_ = (b); a_ > b_ ? a_ : b_; })
#define min_t(t, a, b)	({ t at_ = (a); t bt_ = (b); at_ < bt_ ? at_ : bt_; })
#define max_t(t, a, b)	({ t at_ = (a); t bt_ = (b); at_ > bt_ ? at_ : bt_; })
#define swap(a, b)	do { typeof(a) t_ = (a); (a) = (b); (b) = t_; } while (0)
#define DIV_ROUND_UP(a, b)	(((a) + (b) - 1) / (b))
#define roundup(a, b)	(DIV_ROUND_UP(a, b) * (b))
#define round_up	roundup
#define round_down(x, y)	((x) - (x) % (y))
#define PAGE_SHIFT	12
#define PAGE_SIZE	4096UL
#define PAGE_ALIGN(n)	(((n) + PAGE_SIZE - 1) & ~(PAGE_SIZE - 1))
#define offset_in_page(p)	((uintptr_t)(p) % PAGE_SIZE)
#define check_add_overflow(a, b, r)	__builtin_add_overflow(a, b, r)
#define check_sub_overflow(a, b, r)	__builtin_sub_overflow(a, b, r)
#define array_index_nospec(i, n)	(i)
#define prefetchw(p)	__builtin_prefetch(p, 1)
#define div64_u64(a, b)	((u64)(a) / (u64)(b))
#define div_u64(a, b)	((u64)(a) / (u32)(b))
static inline int fls64(u64 x) { return x ? 64 - __builtin_clzll(x) : 0; }
static inline int fls(unsigned int x) { return x ? 32 - __builtin_clz(x) : 0; }
static inline unsigned int fls_long(unsigned long x) { return fls64(x); }

static inline void *ERR_PTR(long e) { return (void *)e; }
static inline long PTR_ERR(const void *p) { return (long)p; }
static inline bool IS_ERR(const void *p) { return (unsigned long)p >= -4095UL; }

#define ERESTARTSYS	512

/* Messages. A warning is a failure of the test. */

__printf(1, 2) void native_fail(const char *fmt, ...);
__printf(1, 2) void native_log(const char *fmt, ...);
#define pr_err(...)	native_log(__VA_ARGS__)
#define pr_warn(...)	native_log(__VA_ARGS__)
#define pr_warn_once(...)	native_log(__VA_ARGS__)
#define pr_err_ratelimited(...)	native_fail(__VA_ARGS__)
#define WARN(c, ...)	({ bool c_ = !!(c); if (c_) native_fail(__VA_ARGS__); c_; })
#define WARN_ONCE(c, ...)	WARN(c, __VA_ARGS__)
#define WARN_ON(c)	WARN(c, "%s:%d: %s", __FILE__, __LINE__, #c)
#define WARN_ON_ONCE(c)	WARN_ON(c)
static inline void strscpy(char *to, const char *from, size_t n) { snprintf(to, n, "%s", from); }

static inline int kstrtouint(const char *text, unsigned int base, unsigned int *number)
{
	char *end;

	*number = strtoul(text, &end, base);
	return *text && !*end ? 0 : -EINVAL;
}

/*
 * Atomics, with the kernel's orderings: operations that return a value and have no suffix are full
 * barriers.
 */

#define barrier()	__asm__ __volatile__("" ::: "memory")

#ifdef __SANITIZE_THREAD__
extern int native_fence;
#define READ_ONCE(x)	__atomic_load_n(&(x), __ATOMIC_RELAXED)
#define WRITE_ONCE(x, v)	__atomic_store_n(&(x), v, __ATOMIC_RELAXED)
#define smp_mb()	((void)__atomic_fetch_add(&native_fence, 0, __ATOMIC_SEQ_CST))
#define smp_rmb()	barrier()
#else
#define READ_ONCE(x)	(*(const volatile typeof(x) *)&(x))
#define WRITE_ONCE(x, v)	(*(volatile typeof(x) *)&(x) = (v))
#define smp_mb()	__atomic_thread_fence(__ATOMIC_SEQ_CST)
#define smp_rmb()	__atomic_thread_fence(__ATOMIC_ACQUIRE)
#endif
#define smp_load_acquire(p)	__atomic_load_n(p, __ATOMIC_ACQUIRE)
#define smp_store_release(p, v)	__atomic_store_n(p, v, __ATOMIC_RELEASE)
#define smp_mb__after_atomic()	smp_mb()
#define smp_store_mb(x, v)	do { WRITE_ONCE(x, v); smp_mb(); } while (0)

/* As in the kernel for arm64 without LSE, a full barrier follows the operation. */
#if defined(__x86_64__) || defined(__SANITIZE_THREAD__)
#define native_after_rmw()	((void)0)
#else
#define native_after_rmw()	smp_mb()
#endif
#define native_rmw(op, p, v)	\
	({ __auto_type r_ = op(p, v, __ATOMIC_SEQ_CST); native_after_rmw(); r_; })
#define xchg(p, v)	native_rmw(__atomic_exchange_n, p, v)
#define try_cmpxchg(p, old, new)	\
	({ bool ok_ = __atomic_compare_exchange_n(p, old, new, false, __ATOMIC_SEQ_CST,	\
						  __ATOMIC_RELAXED);			\
	   if (ok_)									\
		native_after_rmw();							\
	   ok_; })
#define cmpxchg(p, old, new)	\
	({ typeof(*(p)) was_ = (old); try_cmpxchg(p, &was_, new); was_; })

typedef struct { int counter; } atomic_t;
typedef struct { s64 counter __attribute__((aligned(8))); } atomic64_t;
typedef struct { long counter; } atomic_long_t;
typedef atomic_t refcount_t;
#define atomic_read(a)	READ_ONCE((a)->counter)
#define atomic_set(a, v)	WRITE_ONCE((a)->counter, v)
#define atomic_inc(a)	((void)__atomic_fetch_add(&(a)->counter, 1, __ATOMIC_RELAXED))
#define atomic_dec(a)	((void)__atomic_fetch_sub(&(a)->counter, 1, __ATOMIC_RELAXED))
#define atomic_add(n, a)	((void)__atomic_fetch_add(&(a)->counter, n, __ATOMIC_RELAXED))
#define atomic_sub(n, a)	((void)__atomic_fetch_sub(&(a)->counter, n, __ATOMIC_RELAXED))
#define atomic_inc_return(a)	native_rmw(__atomic_add_fetch, &(a)->counter, 1)
#define atomic_dec_and_test(a)	(!native_rmw(__atomic_sub_fetch, &(a)->counter, 1))
#define refcount_set	atomic_set
#define refcount_inc	atomic_inc
#define refcount_dec_and_test	atomic_dec_and_test
#define atomic_long_read	atomic_read
#define atomic_read_acquire(a)	smp_load_acquire(&(a)->counter)
#define atomic_long_set	atomic_set
#define atomic_long_inc	atomic_inc
#define atomic_long_add	atomic_add
#define atomic_try_cmpxchg(a, old, new)	try_cmpxchg(&(a)->counter, old, new)
#define atomic_long_try_cmpxchg	atomic_try_cmpxchg
#define atomic_xchg(a, new)	xchg(&(a)->counter, new)
#define atomic64_read	atomic_read
#define atomic64_set	atomic_set
#define atomic64_read_acquire(a)	smp_load_acquire(&(a)->counter)
#define atomic64_xchg(a, v)	xchg(&(a)->counter, v)
#define atomic64_try_cmpxchg(a, old, new)	try_cmpxchg(&(a)->counter, old, (s64)(new))
#define atomic64_andnot(v, a)	\
	((void)__atomic_fetch_and(&(a)->counter, ~(s64)(v), __ATOMIC_RELAXED))
#define atomic64_fetch_or(v, a)	native_rmw(__atomic_fetch_or, &(a)->counter, (s64)(v))

static inline int atomic_dec_if_positive(atomic_t *a)
{
	int was = atomic_read(a);

	while (was > 0 && !atomic_try_cmpxchg(a, &was, was - 1))
		;
	return was - 1;
}

/*
 * Used by one CPU and its interrupts. On x86, an instruction without a lock prefix, which would add
 * a barrier that the kernel's local_t does not have.
 */
typedef struct { long counter; } local_t;
#define local_read(l)	READ_ONCE((l)->counter)
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)
static inline void local_inc(local_t *l) { __asm__ __volatile__("incq %0" : "+m" (l->counter)); }
static inline void local_dec(local_t *l) { __asm__ __volatile__("decq %0" : "+m" (l->counter)); }
static inline void local_add(long n, local_t *l)
{
	__asm__ __volatile__("addq %1, %0" : "+m" (l->counter) : "er" (n));
}

static inline long local_inc_return(local_t *l)
{
	long n = 1;

	__asm__ __volatile__("xaddq %0, %1" : "+r" (n), "+m" (l->counter) : : "memory");
	return n + 1;
}
#else
#define local_inc(l)	((void)__atomic_fetch_add(&(l)->counter, 1, __ATOMIC_RELAXED))
#define local_dec(l)	((void)__atomic_fetch_sub(&(l)->counter, 1, __ATOMIC_RELAXED))
#define local_add(n, l)	((void)__atomic_fetch_add(&(l)->counter, n, __ATOMIC_RELAXED))
#define local_inc_return(l)	native_rmw(__atomic_add_fetch, &(l)->counter, 1)
#endif
typedef local_t local64_t;
#define local64_add	local_add

/* the kernel's lists and logarithms */
#include <linux/list.h>
#include <linux/llist.h>
#include <linux/log2.h>

/* Bitmaps, used by one thread at a time. */
static inline void __set_bit(unsigned int n, unsigned long *map)
{
	map[n / 64] |= BIT(n % 64);
}

static inline void __clear_bit(unsigned int n, unsigned long *map)
{
	map[n / 64] &= ~BIT(n % 64);
}

static inline bool test_bit(unsigned int n, const unsigned long *map)
{
	return map[n / 64] & BIT(n % 64);
}

static inline bool __test_and_clear_bit(unsigned int n, unsigned long *map)
{
	bool was = test_bit(n, map);

	__clear_bit(n, map);
	return was;
}

static inline unsigned long find_next_bit(const unsigned long *map, unsigned long size,
					  unsigned long from)
{
	unsigned long word;

	while (from < size) {
		word = map[from / 64] >> from % 64;
		if (word)
			return min(from + __builtin_ctzl(word), size);
		from += 64 - from % 64;
	}
	return size;
}

/* CPUs and what interrupts them. */

#define NATIVE_CPUS	64
extern unsigned int nr_cpu_ids;
struct cpumask;
#define cpumask_first(m)	0U
#define cpumask_next(n, m)	((unsigned int)(n) + 1)
#define for_each_possible_cpu(cpu)	for ((cpu) = 0; (unsigned int)(cpu) < nr_cpu_ids; (cpu)++)
/* As in the kernel, what is allocated for two CPUs shares no cache line. */
#define NATIVE_PERCPU	256
#define per_cpu_ptr(p, cpu)	((typeof(p))((char *)(p) + (size_t)NATIVE_PERCPU * (cpu)))
#define raw_smp_processor_id()	(current->cpu)
#define get_cpu()	({ preempt_disable(); current->cpu; })
#define put_cpu()	preempt_enable()
#define cpumask_of(cpu)	((void)(cpu), NULL)
/* It runs nothing elsewhere, as if each CPU was offline. */
#define smp_call_function_single(cpu, fn, arg, wait)	((void)(cpu), -ENXIO)
#define this_cpu_ptr(p)	per_cpu_ptr(p, native_cpu_id())
#define raw_cpu_ptr(p)	per_cpu_ptr(p, current->cpu)
#define num_possible_cpus()	nr_cpu_ids
#define for_each_cpu_wrap(cpu, mask, start)	\
	for (unsigned int i_ = ((cpu) = (start), 0); i_ < nr_cpu_ids;	\
	     i_++, (cpu) = ((cpu) + 1) % (int)nr_cpu_ids)
#define CONFIG_NR_CPUS	NATIVE_CPUS
#define alloc_percpu(t)	({ _Static_assert(sizeof(t) <= NATIVE_PERCPU, #t);	\
	(t *)native_alloc(NATIVE_PERCPU * nr_cpu_ids); })
#define free_percpu(p)	kfree(p)

#define TASK_RUNNING	0
#define TASK_INTERRUPTIBLE	1
#define TASK_UNINTERRUPTIBLE	2
#define TASK_IDLE	0x402

/**
 * struct task_struct - a thread
 * @state: TASK_*; a sleeping thread waits for it to change
 * @cpu: the CPU that it is
 * @preempt: preempt_disable() depth
 * @hardirq: in an interrupt
 * @irqs_off: interrupts are off
 * @irq_missed: an interrupt arrived while they were off
 * @step_random: random numbers for hwtimer_step()
 * @sleeps: number of sleeps
 * @until: end of the sleep; 0 if awake; U64_MAX if until it is woken
 * @stop: kthread_should_stop()
 * @usage: references
 * @fn: function of a kthread
 * @data: argument of @fn
 * @thread: joined by kthread_stop()
 * @flags: no PF_KTHREAD
 */
struct task_struct {
	int		state;
	unsigned int	cpu;
	int		preempt;
	bool		hardirq;
	bool		irqs_off;
	bool		irq_missed;
	u64		step_random;
	u64		sleeps;
	u64		until;
	int		stop;
	atomic_t	usage;
	int		(*fn)(void *data);
	void		*data;
	pthread_t	thread;
	unsigned int	flags;
};

#define PF_KTHREAD	1

/* Odd while the CPU is inside a read-side critical section. */
struct native_section {
	local_t		n;
} ____cacheline_aligned;

extern __thread struct task_struct *native_current;
extern struct native_section native_sections[NATIVE_CPUS];
extern int native_grace;
#define current	native_current

void native_enter(void);
void native_leave(void);
void native_assert_sleep(const char *where);
void native_irq(void);
extern void (*native_irq_handler)(void);

static inline void native_section_step(void)
{
#ifdef __SANITIZE_THREAD__
	__atomic_fetch_add(&native_sections[current->cpu].n.counter, 1, __ATOMIC_ACQ_REL);
	__atomic_load_n(&native_grace, __ATOMIC_ACQUIRE);
#else
	local_inc(&native_sections[current->cpu].n);
#endif
}

static inline void preempt_disable(void)
{
	/* In this order, an interrupt in between is a critical section of its own. */
	if (!current->preempt++)
		native_section_step();
	barrier();
}

static inline void preempt_enable(void)
{
	barrier();
	if (current->preempt == 1)
		native_section_step();
	barrier();
	current->preempt--;
}

#define preempt_count()		(current->preempt)
#define preempt_count_set(n)	(current->preempt = (n))
#define irqs_disabled()		false
#define softirq_count()		0
#define local_bh_enable()	((void)0)
#define local_irq_enable()	((void)0)

static inline unsigned int native_cpu_id(void)
{
	if (unlikely(!current->preempt))
		native_fail("this_cpu_ptr() where one may be preempted");
	return current->cpu;
}

#define local_irq_save(flags)	\
	do { (flags) = current->irqs_off; current->irqs_off = true; barrier(); } while (0)
#define local_irq_restore(flags)	native_irq_restore(flags)
static inline void native_irq_restore(bool off)
{
	barrier();
	current->irqs_off = off;
	barrier();
	if (unlikely(!off && current->irq_missed))
		native_irq();
}

#define rcu_read_lock	preempt_disable
#define rcu_read_unlock	preempt_enable
void synchronize_rcu(void);
void cpu_relax(void);
static inline int cond_resched(void) { return 0; }
#define might_sleep()	native_assert_sleep(__func__)

/* Lockdep is not emulated. */
struct lock_class_key { int unused; };
struct lockdep_map { int unused; };
#define lockdep_register_key(k)	((void)(k))
#define lockdep_unregister_key(k)	((void)(k))
#define lockdep_init_map(m, n, k, s)	((void)(n), (void)(k))
#define lock_map_acquire(m)	((void)(m))
#define lock_map_release(m)	((void)(m))
#define lockdep_assert_held(l)	((void)(l))

/* Locks. */

typedef struct { int locked; } spinlock_t;
typedef spinlock_t raw_spinlock_t;
#define DEFINE_SPINLOCK(name)	spinlock_t name = { 0 }
#define spin_lock_init(l)	((l)->locked = 0)
#define raw_spin_lock_init	spin_lock_init
#define __RAW_SPIN_LOCK_UNLOCKED(name)	{ 0 }
void spin_lock(spinlock_t *lock);
void spin_unlock(spinlock_t *lock);
#define spin_lock_irqsave(l, f)	do { local_irq_save(f); spin_lock(l); } while (0)
#define spin_unlock_irqrestore(l, f)	do { spin_unlock(l); local_irq_restore(f); } while (0)
#define raw_spin_lock_irqsave	spin_lock_irqsave
#define raw_spin_unlock_irqrestore	spin_unlock_irqrestore
#define raw_spin_lock		spin_lock
#define raw_spin_unlock		spin_unlock

struct mutex { pthread_mutex_t m; };
#define DEFINE_MUTEX(name)	struct mutex name = { PTHREAD_MUTEX_INITIALIZER }
#define mutex_init(l)	pthread_mutex_init(&(l)->m, NULL)
#define mutex_lock(l)	do { might_sleep(); pthread_mutex_lock(&(l)->m); } while (0)
#define mutex_unlock(l)	pthread_mutex_unlock(&(l)->m)
#define mutex_trylock(l)	(!pthread_mutex_trylock(&(l)->m))
#define mutex_lock_killable(l)	({ mutex_lock(l); 0; })
#define mutex_lock_interruptible	mutex_lock_killable

/* Time. */

u64 ktime_get_ns(void);
#define ktime_get_boottime_ns	ktime_get_ns
/* There are no time namespaces. */
struct timespec64 { long tv_sec, tv_nsec; };
#define timens_add_monotonic(ts)	((void)(ts))
#define timens_add_boottime(ts)		((void)(ts))
#define timespec64_to_ns(ts)		((s64)(ts)->tv_nsec)
/* timer.c in the benchmark; elsewhere these stand still. */
extern volatile unsigned long jiffies
	__asm__("jiffies_64");
#define TICK_NSEC	(NSEC_PER_SEC / HZ)
#define time_after(a, b)	((long)((b) - (a)) < 0)
#define ns_to_ktime(ns)	((ktime_t)(ns))
#define ktime_get()	((ktime_t)ktime_get_ns())
#define ktime_get_boottime	ktime_get
#define ktime_to_ns(t)	((s64)(t))
#define KTIME_MAX	S64_MAX
#define ktime_add_ns(t, ns)	((t) + (ktime_t)(ns))
void udelay(unsigned int us);

/* A thread of its own plays the interrupts. */
enum hrtimer_restart { HRTIMER_NORESTART };
struct hrtimer {
	enum hrtimer_restart	(*function)(struct hrtimer *timer);
	struct list_head	node;
	u64			expires;
	bool			queued;
};

#define HRTIMER_MODE_ABS	0
#define hrtimer_init(timer, clock, mode)	(*(timer) = (struct hrtimer){ })
#define hrtimer_start_range_ns(timer, time, range, mode)	\
	((void)(range), native_hrtimer_start(timer, time))
#define hrtimer_is_queued(timer)	READ_ONCE((timer)->queued)
void native_hrtimer_start(struct hrtimer *timer, u64 expires);
int hrtimer_try_to_cancel(struct hrtimer *timer);
void hrtimer_cancel(struct hrtimer *timer);

#define usleep_range(min_us, max_us)	native_usleep(min_us)

/* Tasks. */

#define set_current_state(s)	smp_store_mb(current->state, s)
#define __set_current_state(s)	WRITE_ONCE(current->state, s)
int wake_up_process(struct task_struct *task);
void native_sleep(u64 until);
#define schedule()	native_sleep(U64_MAX)
#define schedule_hrtimeout(t, mode)	native_sleep(*(t))
static inline void schedule_hrtimeout_range_clock(const ktime_t *until, u64 slack, int mode,
						  int clock)
{
	native_sleep(until ? *until : U64_MAX);
}

struct task_struct *kthread_create(int (*fn)(void *data), void *data, const char *name, ...);
#define kthread_run(...)	\
	({ struct task_struct *new_ = kthread_create(__VA_ARGS__); wake_up_process(new_); new_; })
int kthread_stop(struct task_struct *task);
#define kthread_should_stop()	READ_ONCE(current->stop)
struct task_struct *get_task_struct(struct task_struct *task);
void put_task_struct(struct task_struct *task);
#define sched_set_normal(t, n)	((void)(n))
#define sched_set_fifo_low(t)	((void)(t))
#define sched_set_fifo(t)	((void)(t))
#define set_cpus_allowed_ptr(t, c)	0
#define MIN_NICE	-20
#define MAX_NICE	19
#define signal_pending(t)	false
#define fatal_signal_pending(t)	false
#define task_tgid_nr(t)	1
#define capable(c)	true
struct user_namespace { struct user_namespace *parent; kuid_t owner; };
struct pid_namespace { int dummy; };
static struct user_namespace init_user_ns __maybe_unused;
static struct pid_namespace init_pid_ns __maybe_unused;
#define current_user_ns()	(&init_user_ns)
#define current_euid()	((kuid_t)0)
#define uid_eq(a, b)	((a) == (b))
void native_usleep(unsigned int us);

/* Waiting. */

typedef struct {
	spinlock_t		lock;		/* protects the following fields */
	int			sleepers;
	struct list_head	list;
} wait_queue_head_t;

struct native_epoll;
struct native_wait {
	struct task_struct	*task;
	struct native_epoll	*epoll;		/* that gets ready, or NULL: @task is woken */
	wait_queue_head_t	*queue;
	struct list_head	list;
};

void init_waitqueue_head(wait_queue_head_t *wq);
void native_wait_add(wait_queue_head_t *wq, struct native_wait *wait);
void native_wait_end(struct native_wait *wait);
void native_wake(wait_queue_head_t *wq);
#define wake_up_all(wq)	native_wake(wq)
#define wake_up_poll(wq, events)	native_wake(wq)
#define wait_event(wq, cond)					\
	do {							\
		struct native_wait wait_ = { };			\
								\
		might_sleep();					\
		if (cond)					\
			break;					\
		native_wait_add(&(wq), &wait_);			\
		for (;;) {					\
			set_current_state(TASK_UNINTERRUPTIBLE);	\
			if (cond)				\
				break;				\
			schedule();				\
		}						\
		__set_current_state(TASK_RUNNING);		\
		native_wait_end(&wait_);			\
	} while (0)
#define wait_event_idle	wait_event
#define wait_event_interruptible(wq, cond)	({ wait_event(wq, cond); 0; })

struct completion { int done; wait_queue_head_t wait; };
void init_completion(struct completion *c);
void complete(struct completion *c);
void wait_for_completion(struct completion *c);
#define wait_for_completion_killable(c)	({ wait_for_completion(c); 0; })
/* The timeout is ignored: no caller here uses one. */
#define wait_for_completion_timeout(c, timeout)	({ wait_for_completion(c); timeout; })
#define MAX_SCHEDULE_TIMEOUT	LONG_MAX
#define DECLARE_COMPLETION_ONSTACK(name)	\
	struct completion name; init_completion(&(name))

/* Memory. Interrupts are disabled during malloc(), which is not async-signal-safe. */

#define GFP_KERNEL	0
#define GFP_KERNEL_ACCOUNT	0
#define GFP_ATOMIC	0
#define __GFP_NOWARN	0
#define __GFP_RETRY_MAYFAIL	0
void *native_alloc(size_t size);
void kfree(const void *p);
#define kzalloc(n, gfp)	native_alloc(n)
#define kmalloc(n, gfp)	((void)(gfp), native_alloc(n))
#define kvmalloc(n, gfp)	((void)(gfp), memset(native_alloc(n), 0xa5, n))
#define alloc_pages_exact	kvmalloc
#define free_pages_exact(p, n)	((void)(n), kvfree(p))
#define kvcalloc(n, size, gfp)	native_alloc((size_t)(n) * (size))
#define kvfree	kfree

/*
 * Pages shared with the program, which gets the kernel's addresses; or, by vm_insert_page(), a
 * second mapping of those of get_zeroed_page(), which are pages of a file.
 */
struct page { void *at; unsigned long private; struct page *next; };
struct vm_area_struct {
	unsigned long	vm_flags, vm_start, vm_end, vm_pgoff;
};

static inline void vm_flags_set(struct vm_area_struct *vma, unsigned long flags)
{
	vma->vm_flags |= flags;
}

#define VM_SHARED	1
#define VM_DONTEXPAND	2
#define VM_DONTCOPY	4
void put_page(struct page *page);
#define NATIVE_PAGES	32768UL
extern struct page native_pages[NATIVE_PAGES];
extern char *native_memory;
unsigned long get_zeroed_page(gfp_t gfp);
int vm_insert_page(struct vm_area_struct *vma, unsigned long at, struct page *page);
#define virt_to_page(p)	(&native_pages[((char *)(p) - native_memory) / PAGE_SIZE])
#define set_page_private(p, n)	((void)((p)->private = (n)))
#define page_private(p)	((p)->private)
#define totalram_pages()	(8 * NATIVE_PAGES)

/* Workqueues. */

struct workqueue_struct;
struct work_struct {
	void			(*fn)(struct work_struct *work);
	struct list_head	list;
	int			pending;
	struct workqueue_struct	*wq;
	struct lockdep_map	lockdep_map;
};

#define INIT_WORK(w, f)	\
	do { *(w) = (struct work_struct){ .fn = (f) }; INIT_LIST_HEAD(&(w)->list); } while (0)
struct workqueue_struct *native_workqueue(unsigned int workers);
#define __acquires(lock)
#define __releases(lock)
void flush_workqueue(struct workqueue_struct *wq);
void destroy_workqueue(struct workqueue_struct *wq);
bool queue_work(struct workqueue_struct *wq, struct work_struct *work);
bool cancel_work_sync(struct work_struct *work);
struct work_struct *current_work(void);
/* No program uses work items. */
static struct workqueue_struct *const system_unbound_wq, *const system_dfl_wq;

/* For debugfs alone: nothing is ever looked up. */
struct xarray { void *unused; };
#define DEFINE_XARRAY_ALLOC1(name)	struct xarray name
#define xa_alloc_cyclic(xa, id, entry, limit, next, gfp) \
	((void)(entry), *(id) = ++*(next), 0)
#define xa_erase(xa, id)	((void)(id))
#define TASK_COMM_LEN	16
#define get_task_comm(buf, task)	strscpy(buf, "native", TASK_COMM_LEN)
#define perfmon_capable()	true

/* Files. */

#define O_NONBLOCK	04000
#define FMODE_WRITE	1
#define FMODE_NOWAIT	2
#define IOCB_NOWAIT	1
#define IOCSIZE_MASK	(_IOC_SIZEMASK << _IOC_SIZESHIFT)
#define MISC_DYNAMIC_MINOR	255
struct inode;
struct seq_file;
struct module;
struct file_operations;
struct file {
	void				*private_data;
	const struct file_operations	*f_op;
	struct native_epoll		*epoll;		/* which it has entered first, or NULL */
	unsigned int			f_flags;
	fmode_t				f_mode;
};

struct kiocb { struct file *ki_filp; int ki_flags; };
struct iov_iter { char *at; size_t left; };
typedef struct native_poll { struct native_wait wait; bool queued; } poll_table;
struct file_operations {
	struct module	*owner;
	int		(*open)(struct inode *inode, struct file *file);
	int		(*release)(struct inode *inode, struct file *file);
	ssize_t		(*read_iter)(struct kiocb *iocb, struct iov_iter *to);
	__poll_t	(*poll)(struct file *file, poll_table *wait);
	int		(*mmap)(struct file *file, struct vm_area_struct *vma);
	long		(*unlocked_ioctl)(struct file *file, unsigned int cmd, unsigned long arg);
	long		(*compat_ioctl)(struct file *file, unsigned int cmd, unsigned long arg);
	void		(*show_fdinfo)(struct seq_file *m, struct file *file);
};

struct miscdevice {
	int				minor;
	const char			*name;
	const struct file_operations	*fops;
	unsigned int			mode;
};

#define compat_ptr_ioctl	NULL
#define stream_open(inode, file)	0
int misc_register(struct miscdevice *misc);
void misc_deregister(struct miscdevice *misc);
void poll_wait(struct file *file, wait_queue_head_t *wq, poll_table *wait);
#define poll_requested_events(wait)	((void)(wait), EPOLLIN | EPOLLRDNORM)
#define iov_iter_count(i)	((i)->left)
size_t copy_to_iter(const void *from, size_t n, struct iov_iter *to);
static inline unsigned long copy_to_user(void *to, const void *from, size_t n)
{
	if (n)
		memcpy(to, from, n);
	return 0;
}

#define clear_user(to, n)	(memset(to, 0, n), 0UL)
#define u64_to_user_ptr(n)	((void *)(uintptr_t)(n))
int copy_struct_from_user(void *to, size_t size, const void *from, size_t from_size);
static inline void seq_printf(struct seq_file *m, const char *fmt, ...) { }
struct dentry;

/* Tracepoints: none. */
#define TP_PROTO(...)	__VA_ARGS__
#define TP_ARGS(...)
#define TRACE_EVENT(name, proto, ...)	\
	static inline __maybe_unused void trace_##name(proto) { }	\
	static inline __maybe_unused bool trace_##name##_enabled(void) { return false; }
#define DECLARE_EVENT_CLASS(...)
#define DEFINE_EVENT(class, name, proto, ...)	TRACE_EVENT(name, PARAMS(proto))
#define PARAMS(...)	__VA_ARGS__
#define TP_STRUCT__entry(...)
#define TP_fast_assign(...)
#define TP_printk(...)

#endif /* NATIVE_H */
