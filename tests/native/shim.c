// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimer: the parts of the kernel declared in native.h.
 */
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <native.h>

#include "core/hwtimer_driver.h"
#include "shim.h"

/* further failures are only counted */
#define LOGGED	20
/* in ns */
#define SHORTEST_SLEEP	5000

int native_failures;
#ifdef __SANITIZE_THREAD__
int native_fence;

/* The fences of the library. */
void native_full_fence(int order)
{
	smp_mb();
}

/*
 * native_alloc() and kfree() disable interrupts, so no interrupt runs inside malloc(). TSan cannot
 * know that, and would report each call of malloc() in a signal handler.
 */
const char *__tsan_default_options(void)
{
	return "report_signal_unsafe=0";
}
#endif

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>

#define page_forbid	__asan_poison_memory_region
#define page_allow	__asan_unpoison_memory_region
#else
#define page_forbid(at, size)	((void)(at))
#define page_allow(at, size)	((void)(at))
#endif

static void log_line(const char *what, const char *fmt, va_list args)
{
	char line[300];

	vsnprintf(line, sizeof(line), fmt, args);
	line[strcspn(line, "\n")] = '\0';
	printf("# %s%s\n", what, line);
	fflush(stdout);
}

void native_fail(const char *fmt, ...)
{
	va_list args;

	if (__atomic_add_fetch(&native_failures, 1, __ATOMIC_RELAXED) > LOGGED)
		return;
	va_start(args, fmt);
	log_line("FAILURE: ", fmt, args);
	va_end(args);
}

void native_log(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	log_line("", fmt, args);
	va_end(args);
}

/* CPUs. */

unsigned int nr_cpu_ids = NATIVE_CPUS;
__thread struct task_struct *native_current;
struct native_section native_sections[NATIVE_CPUS];
int native_grace;
static u64 cpus_taken;
static atomic_t generation;	/* how many threads have been CPUs */

static void enter(struct task_struct *task)
{
	u64 taken = READ_ONCE(cpus_taken);
	unsigned int cpu;

	do {
		cpu = ~taken ? __builtin_ctzll(~taken) : NATIVE_CPUS;
		if (cpu >= nr_cpu_ids) {
			fprintf(stderr, "more threads than CPUs\n");
			abort();
		}
	} while (!try_cmpxchg(&cpus_taken, &taken, taken | BIT_ULL(cpu)));
	task->cpu = cpu;
	/* a stream that no test uses, and another one for each thread that becomes this CPU */
	task->step_random = seeded(1ULL << 63 | (u64)atomic_inc_return(&generation) << 8 | cpu);
	native_current = task;
}

void native_enter(void)
{
	struct task_struct *task = calloc(1, sizeof(*task));

	atomic_set(&task->usage, 1);
	enter(task);
}

static void leave(void)
{
	struct task_struct *task = current;

	/* a signal may still arrive, and does nothing then */
	native_current = NULL;
	__atomic_fetch_and(&cpus_taken, ~BIT_ULL(task->cpu), __ATOMIC_RELEASE);
	put_task_struct(task);
}

void native_leave(void)
{
	leave();
}

static pthread_key_t arrived;

static void depart(void *task)
{
	if (current == task)
		leave();
}

/*
 * A thread of a program that knows nothing of this, such as a JVM, becomes a CPU with its first
 * system call, until it ends.
 */
static void arrive(void)
{
	if (likely(current))
		return;
	native_enter();
	pthread_setspecific(arrived, current);
}

void native_assert_sleep(const char *where)
{
	const struct task_struct *task = current;

	if (unlikely(task->preempt || task->hardirq || task->irqs_off))
		native_fail("%s may sleep, and must not", where);
}

/* For busy-wait loops: yield now and then, as the other thread may need this CPU. */
void cpu_relax(void)
{
	static __thread unsigned int n;

	if (!(++n % 256))
		sched_yield();
	barrier();
}

void udelay(unsigned int us)
{
	u64 end = ktime_get_ns() + us * NSEC_PER_USEC;

	while (ktime_get_ns() < end)
		cpu_relax();
}

void native_usleep(unsigned int us)
{
	struct timespec ts = { .tv_nsec = us * 1000L };

	nanosleep(&ts, NULL);
}

static void membarrier_all(void)
{
	if (syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) &&
	    syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0)) {
		perror("membarrier");
		abort();
	}
}

/*
 * Read-side critical sections have no barriers of their own; membarrier() executes one on every
 * CPU. A thread not seen in a section has completed its last one, or its next one sees all stores
 * made before.
 */
void synchronize_rcu(void)
{
	unsigned int cpu;
	long n;

	might_sleep();
	__atomic_fetch_add(&native_grace, 1, __ATOMIC_RELEASE);
	membarrier_all();
	for (cpu = 0; cpu < nr_cpu_ids; cpu++) {
		n = smp_load_acquire(&native_sections[cpu].n.counter);
		while (n % 2 && smp_load_acquire(&native_sections[cpu].n.counter) == n)
			cpu_relax();
	}
	membarrier_all();
}

/* Interrupts. */

void (*native_irq_handler)(void);

/* Run an interrupt on top of the current thread. */
void native_irq(void)
{
	struct task_struct *task = current;
	int saved = errno;
	void (*handler)(void);
	bool inside;

	if (!task || task->hardirq)
		return;
	if (task->irqs_off) {
		task->irq_missed = true;
		return;
	}
	task->irq_missed = false;
	task->hardirq = true;
	/* the interrupted code may just be entering or leaving a critical section */
	inside = READ_ONCE(native_sections[task->cpu].n.counter) % 2;
	if (!inside)
		native_section_step();
	task->preempt++;
	barrier();
	handler = smp_load_acquire(&native_irq_handler);
	if (handler)
		handler();
	barrier();
	task->hardirq = false;
	task->preempt--;
	if (!inside)
		native_section_step();
	errno = saved;
}

static void on_signal(int signal)
{
	native_irq();
}

static pthread_t irq_thread;
static pthread_t irq_targets[NATIVE_CPUS];
static unsigned int nr_irq_targets;
static bool irq_stop;

static void *send_irqs(void *arg)
{
	unsigned int i = 0;

	while (!READ_ONCE(irq_stop)) {
		native_usleep(20 + i * 37 % 200);
		pthread_kill(irq_targets[i++ % nr_irq_targets], SIGUSR1);
	}
	return NULL;
}

/* Interrupt these threads now and then, until native_irqs_end(). */
void native_irqs_begin(const pthread_t *threads, unsigned int n)
{
	struct sigaction sa = { .sa_handler = on_signal, .sa_flags = SA_RESTART };

	sigaction(SIGUSR1, &sa, NULL);
	memcpy(irq_targets, threads, n * sizeof(*threads));
	nr_irq_targets = n;
	irq_stop = false;
	pthread_create(&irq_thread, NULL, send_irqs, NULL);
}

void native_irqs_end(void)
{
	WRITE_ONCE(irq_stop, true);
	pthread_join(irq_thread, NULL);
}

/* Locks. */

void spin_lock(spinlock_t *lock)
{
	preempt_disable();
	while (__atomic_exchange_n(&lock->locked, 1, __ATOMIC_ACQUIRE))
		while (READ_ONCE(lock->locked))
			cpu_relax();
}

void spin_unlock(spinlock_t *lock)
{
	__atomic_store_n(&lock->locked, 0, __ATOMIC_RELEASE);
	preempt_enable();
}

/* Time. */

/* timer.c in the benchmark defines it, too. */
__attribute__((weak)) u64 jiffies_64;

u64 ktime_get_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000ULL + ts.tv_nsec;
}

static void futex_wait(int *word, int value, u64 until)
{
	struct timespec ts = { until / 1000000000ULL, until % 1000000000ULL };

	syscall(SYS_futex, word, FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG, value,
		until == U64_MAX ? NULL : &ts, NULL, FUTEX_BITSET_MATCH_ANY);
}

static void futex_wake(int *word)
{
	syscall(SYS_futex, word, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, INT_MAX, NULL, NULL, 0);
}

/* Tasks. */

int wake_up_process(struct task_struct *task)
{
	int state;

	smp_mb();
	state = READ_ONCE(task->state);
	if (state == TASK_RUNNING || cmpxchg(&task->state, state, TASK_RUNNING) != state)
		return 0;
	futex_wake(&task->state);
	return 1;
}

void native_sleep(u64 until)
{
	struct task_struct *task = current;
	int state;

	native_assert_sleep(__func__);
	WRITE_ONCE(task->sleeps, task->sleeps + 1);
	smp_store_release(&task->until, until);
	while ((state = smp_load_acquire(&task->state)) != TASK_RUNNING) {
		if (until != U64_MAX && ktime_get_ns() >= until) {
			cmpxchg(&task->state, state, TASK_RUNNING);
			break;
		}
		/* futex_wait() takes longer than so short a sleep */
		if (until == U64_MAX || (s64)(until - ktime_get_ns()) > SHORTEST_SLEEP)
			futex_wait(&task->state, state, until);
	}
	smp_store_release(&task->until, 0);
}

/*
 * Returns false if the wheel's worker is awake; else sets the end of its sleep and a number of the
 * sleep.
 */
static bool asleep(struct hwtimer_driven *driven, u64 *until, u64 *which)
{
	struct task_struct *task = driven->task;

	*which = READ_ONCE(task->sleeps);
	*until = smp_load_acquire(&task->until);
	return *until && smp_load_acquire(&task->state) != TASK_RUNNING &&
	       READ_ONCE(task->sleeps) == *which;
}

/* Does the worker sleep beyond the tick of this timeout? @which: the number of the sleep. */
static bool overslept(struct hwtimer_timeout *t, u64 *which)
{
	struct hwtimer_driven *driven = to_driven(t->wheel);
	u64 until, tick = t->wheel->tick_ns, deadline, next, again;

	if (!asleep(driven, &until, which) || !hwtimer_is_pending(t))
		return false;
	deadline = hwtimer_deadline(t);
	/* it may have run in between, and @t expired */
	if (!asleep(driven, &until, &again) || again != *which)
		return false;
	if (deadline == U64_MAX || READ_ONCE(t->wheel->state) >= QUEUE_SHUTDOWN)
		return false;
	deadline = DIV_ROUND_UP(deadline - driven->start_ns, tick) * tick;
	/* a timeout that was due when it was armed expires at the next tick */
	next = (hwtimer_driven_now(driven) / tick + 1) * tick;
	return until > driven->start_ns + max(deadline, next);
}

/*
 * Is this timeout lost, that is armed while the worker sleeps past its tick? The caller makes sure
 * that no other thread changes it. A thread that is still about to push it, or to wake the worker,
 * is in a read-side critical section, for whose end the grace period waits. No time is measured, so
 * a busy machine changes nothing.
 */
bool native_lost(struct hwtimer_timeout *t)
{
	u64 before, after;

	if (!overslept(t, &before))
		return false;
	synchronize_rcu();
	return overslept(t, &after) && before == after;
}

struct task_struct *get_task_struct(struct task_struct *task)
{
	atomic_inc(&task->usage);
	return task;
}

void put_task_struct(struct task_struct *task)
{
	if (atomic_dec_and_test(&task->usage))
		free(task);
}

static void *kthread(void *arg)
{
	struct task_struct *task = arg;

	enter(task);
	native_sleep(U64_MAX);
	task->fn(task->data);
	leave();
	return NULL;
}

struct task_struct *kthread_create(int (*fn)(void *data), void *data, const char *name, ...)
{
	struct task_struct *task = calloc(1, sizeof(*task));

	task->fn = fn;
	task->data = data;
	task->state = TASK_UNINTERRUPTIBLE;
	/* one for the thread, one for the caller of kthread_stop() */
	atomic_set(&task->usage, 2);
	if (pthread_create(&task->thread, NULL, kthread, task)) {
		perror("pthread_create");
		abort();
	}
	return task;
}

int kthread_stop(struct task_struct *task)
{
	WRITE_ONCE(task->stop, 1);
	wake_up_process(task);
	pthread_join(task->thread, NULL);
	put_task_struct(task);
	return 0;
}

/* Timers. One thread plays their interrupts. */

static DEFINE_SPINLOCK(timers_lock);
static LIST_HEAD(timers);
static struct task_struct *timers_task;
static struct hrtimer *timer_runs;
static u64 timers_until;	/* when the thread looks again */

/* Under the lock: the one that is due first. */
static struct hrtimer *timer_first(void)
{
	struct hrtimer *timer, *first = NULL;

	list_for_each_entry(timer, &timers, node)
		if (!first || timer->expires < first->expires)
			first = timer;
	return first;
}

static void timers_expire(void)
{
	struct hrtimer *timer;

	spin_lock(&timers_lock);
	while ((timer = timer_first()) && timer->expires <= ktime_get_ns()) {
		list_del(&timer->node);
		WRITE_ONCE(timer->queued, false);
		timer_runs = timer;
		spin_unlock(&timers_lock);
		current->hardirq = true;
		timer->function(timer);
		current->hardirq = false;
		spin_lock(&timers_lock);
		timer_runs = NULL;
	}
	timers_until = timer ? timer->expires : U64_MAX;
	spin_unlock(&timers_lock);
}

static int timers_run(void *unused)
{
	for (;;) {
		set_current_state(TASK_IDLE);
		if (kthread_should_stop())
			return 0;
		timers_expire();
		native_sleep(timers_until);
	}
}

void native_hrtimer_start(struct hrtimer *timer, u64 expires)
{
	spin_lock(&timers_lock);
	if (timer->queued)
		list_del(&timer->node);
	timer->expires = expires;
	list_add(&timer->node, &timers);
	WRITE_ONCE(timer->queued, true);
	if (expires < timers_until)
		wake_up_process(timers_task);
	spin_unlock(&timers_lock);
}

int hrtimer_try_to_cancel(struct hrtimer *timer)
{
	int ret = 0;

	spin_lock(&timers_lock);
	if (timer->queued) {
		list_del(&timer->node);
		WRITE_ONCE(timer->queued, false);
		ret = 1;
	}
	if (timer_runs == timer)
		ret = -1;
	spin_unlock(&timers_lock);
	return ret;
}

void hrtimer_cancel(struct hrtimer *timer)
{
	while (hrtimer_try_to_cancel(timer) < 0)
		cpu_relax();
}

/* Waiting. */

void init_waitqueue_head(wait_queue_head_t *wq)
{
	*wq = (wait_queue_head_t){ };
	INIT_LIST_HEAD(&wq->list);
}

void native_wait_add(wait_queue_head_t *wq, struct native_wait *wait)
{
	unsigned long flags;

	wait->task = current;
	wait->queue = wq;
	spin_lock_irqsave(&wq->lock, flags);
	list_add_tail(&wait->list, &wq->list);
	WRITE_ONCE(wq->sleepers, wq->sleepers + 1);
	spin_unlock_irqrestore(&wq->lock, flags);
}

void native_wait_end(struct native_wait *wait)
{
	wait_queue_head_t *wq = wait->queue;
	unsigned long flags;

	spin_lock_irqsave(&wq->lock, flags);
	list_del(&wait->list);
	WRITE_ONCE(wq->sleepers, wq->sleepers - 1);
	spin_unlock_irqrestore(&wq->lock, flags);
}

static void epoll_ready(struct native_epoll *e);

void native_wake(wait_queue_head_t *wq)
{
	struct native_wait *wait;
	unsigned long flags;

	spin_lock_irqsave(&wq->lock, flags);
	list_for_each_entry(wait, &wq->list, list) {
		if (wait->epoll)
			epoll_ready(wait->epoll);
		else
			wake_up_process(wait->task);
	}
	spin_unlock_irqrestore(&wq->lock, flags);
}

void init_completion(struct completion *c)
{
	c->done = 0;
	init_waitqueue_head(&c->wait);
}

/* The completion may be freed as soon as the lock is released. */
void complete(struct completion *c)
{
	struct native_wait *wait;
	unsigned long flags;

	spin_lock_irqsave(&c->wait.lock, flags);
	c->done++;
	list_for_each_entry(wait, &c->wait.list, list)
		wake_up_process(wait->task);
	spin_unlock_irqrestore(&c->wait.lock, flags);
}

static bool completed(struct completion *c)
{
	unsigned long flags;
	bool done;

	spin_lock_irqsave(&c->wait.lock, flags);
	done = c->done;
	c->done -= done;
	spin_unlock_irqrestore(&c->wait.lock, flags);
	return done;
}

void wait_for_completion(struct completion *c)
{
	wait_event(c->wait, completed(c));
}

/* Memory. */

/* Like kmalloc(), it aligns memory whose size is a power of two to its size. */
void *native_alloc(size_t size)
{
	size_t align = size > 64 && size <= PAGE_SIZE && !(size & (size - 1)) ? size : 64;
	unsigned long flags;
	void *p;

	local_irq_save(flags);
	p = aligned_alloc(align, (size + 63) & ~63UL);
	local_irq_restore(flags);
	if (!p) {
		perror("malloc");
		abort();
	}
	return memset(p, 0, size);
}

void kfree(const void *p)
{
	unsigned long flags;

	local_irq_save(flags);
	free((void *)p);
	local_irq_restore(flags);
}

/* One file with the pages. It is mapped as a whole here, and its pages in programs. */
struct page native_pages[NATIVE_PAGES];
char *native_memory;
static DEFINE_SPINLOCK(pages_lock);
static struct page *pages_free;
static unsigned long pages_used;
static int pages_fd;

static void pages_begin(void)
{
	const size_t size = NATIVE_PAGES * PAGE_SIZE;

	pages_fd = memfd_create("pages", MFD_CLOEXEC);
	native_memory = ftruncate(pages_fd, size) ? MAP_FAILED :
			mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, pages_fd, 0);
	if (native_memory == MAP_FAILED) {
		perror("memfd");
		abort();
	}
	page_forbid(native_memory, size);
}

unsigned long get_zeroed_page(gfp_t gfp)
{
	struct page *page;
	char *at;

	might_sleep();
	spin_lock(&pages_lock);
	page = pages_free;
	if (page)
		pages_free = page->next;
	else if (pages_used < NATIVE_PAGES)
		page = &native_pages[pages_used++];
	spin_unlock(&pages_lock);
	if (!page)
		return 0;
	at = native_memory + (page - native_pages) * PAGE_SIZE;
	page_allow(at, PAGE_SIZE);
	return (unsigned long)memset(at, 0, PAGE_SIZE);
}

void put_page(struct page *page)
{
	if (page < native_pages || page >= native_pages + NATIVE_PAGES) {
		kfree(page);
		return;
	}
	page_forbid(native_memory + (page - native_pages) * PAGE_SIZE, PAGE_SIZE);
	spin_lock(&pages_lock);
	page->next = pages_free;
	pages_free = page;
	spin_unlock(&pages_lock);
}

/* To ThreadSanitizer, this is other memory than what the kernel accesses. */
int vm_insert_page(struct vm_area_struct *vma, unsigned long at, struct page *page)
{
	return mmap((void *)at, PAGE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, pages_fd,
		    (page - native_pages) * PAGE_SIZE) == MAP_FAILED ? -ENOMEM : 0;
}

/* Workqueues. A queued item waits while a run of it goes on. */

struct workqueue_struct {
	spinlock_t		lock;
	struct list_head	list;
	wait_queue_head_t	more;
	unsigned int		workers;
	bool			stop;
	struct work_struct	*running[4];
	pthread_t		threads[4];
};

static __thread struct work_struct *running;

static struct work_struct *take_work(struct workqueue_struct *wq, unsigned int self)
{
	struct work_struct *work, *found = NULL;
	unsigned long flags;
	unsigned int i;

	spin_lock_irqsave(&wq->lock, flags);
	wq->running[self] = NULL;
	list_for_each_entry(work, &wq->list, list) {
		for (i = 0; i < wq->workers && wq->running[i] != work; i++)
			;
		if (i == wq->workers) {
			found = work;
			break;
		}
	}
	if (found) {
		list_del_init(&found->list);
		wq->running[self] = found;
		/* from here on it may be queued again; a full barrier, as in the kernel */
		xchg(&found->pending, 0);
	}
	spin_unlock_irqrestore(&wq->lock, flags);
	return found;
}

struct work_arg {
	struct workqueue_struct	*wq;
	unsigned int		self;
};

static void *run_works(void *data)
{
	struct work_arg arg = *(struct work_arg *)data;
	struct workqueue_struct *wq = arg.wq;
	struct work_struct *work;

	free(data);
	native_enter();
	for (;;) {
		wait_event(wq->more, (work = take_work(wq, arg.self)) || READ_ONCE(wq->stop));
		if (!work)
			break;
		running = work;
		work->fn(work);
		running = NULL;
		/* the other workers could not take items queued during the run */
		native_wake(&wq->more);
	}
	native_leave();
	return NULL;
}

struct workqueue_struct *native_workqueue(unsigned int workers)
{
	struct workqueue_struct *wq = native_alloc(sizeof(*wq));
	struct work_arg *arg;

	INIT_LIST_HEAD(&wq->list);
	init_waitqueue_head(&wq->more);
	wq->workers = workers;
	while (workers--) {
		arg = malloc(sizeof(*arg));
		*arg = (struct work_arg){ wq, workers };
		pthread_create(&wq->threads[workers], NULL, run_works, arg);
	}
	return wq;
}

/* Unlike the kernel's, it also waits for what is queued meanwhile. */
void flush_workqueue(struct workqueue_struct *wq)
{
	unsigned int i;
	bool busy;

	for (;;) {
		spin_lock(&wq->lock);
		busy = !list_empty(&wq->list);
		for (i = 0; i < wq->workers; i++)
			busy |= !!wq->running[i];
		spin_unlock(&wq->lock);
		if (!busy)
			return;
		native_usleep(100);
	}
}

void destroy_workqueue(struct workqueue_struct *wq)
{
	unsigned int i;

	flush_workqueue(wq);
	WRITE_ONCE(wq->stop, true);
	native_wake(&wq->more);
	for (i = 0; i < wq->workers; i++)
		pthread_join(wq->threads[i], NULL);
	kfree(wq);
}

bool queue_work(struct workqueue_struct *wq, struct work_struct *work)
{
	unsigned long flags;

	if (xchg(&work->pending, 1))
		return false;
	spin_lock_irqsave(&wq->lock, flags);
	WRITE_ONCE(work->wq, wq);
	list_add_tail(&work->list, &wq->list);
	native_wake(&wq->more);
	spin_unlock_irqrestore(&wq->lock, flags);
	return true;
}

static bool cancel_work(struct work_struct *work)
{
	struct workqueue_struct *wq = READ_ONCE(work->wq);
	unsigned long flags;
	bool queued;

	if (!wq)
		return false;
	spin_lock_irqsave(&wq->lock, flags);
	queued = !list_empty(&work->list) && work->wq == wq;
	if (queued) {
		list_del_init(&work->list);
		xchg(&work->pending, 0);
	}
	spin_unlock_irqrestore(&wq->lock, flags);
	return queued;
}

bool cancel_work_sync(struct work_struct *work)
{
	bool queued = cancel_work(work), runs;
	struct workqueue_struct *wq = READ_ONCE(work->wq);
	unsigned int i;

	do {
		runs = false;
		if (!wq)
			break;
		spin_lock(&wq->lock);
		for (i = 0; i < wq->workers; i++)
			runs |= wq->running[i] == work;
		spin_unlock(&wq->lock);
		cpu_relax();
	} while (runs);
	return queued;
}

struct work_struct *current_work(void)
{
	return running;
}

/* The file, and the functions that a program calls. */

static const struct miscdevice *device;
#define FILES	900	/* and as many sets for epoll */

static struct file files[FILES];
static bool file_taken[FILES];

int misc_register(struct miscdevice *misc)
{
	device = misc;
	return 0;
}

void misc_deregister(struct miscdevice *misc)
{
	device = NULL;
}

/* file descriptors that do not collide with real ones */
#define FIRST_FD	1000

struct file *native_file(int fd)
{
	return fd >= FIRST_FD && fd < FIRST_FD + FILES ? &files[fd - FIRST_FD] : NULL;
}

int (*native_before)(int fd, unsigned long command, const void *arg);

int native_open(const char *path, int flags, ...)
{
	unsigned int i = 0;
	int ret;

	arrive();
	errno = native_before ? native_before(-1, 0, NULL) : 0;
	if (errno)
		return -1;
	while (i < FILES && __atomic_exchange_n(&file_taken[i], true, __ATOMIC_SEQ_CST))
		i++;
	if (i == FILES)
		abort();
	files[i] = (struct file){
		.f_op = device->fops, .f_flags = flags, .f_mode = FMODE_WRITE,
	};
	ret = device->fops->open(NULL, &files[i]);
	if (!ret)
		return FIRST_FD + i;
	errno = -ret;
	return -1;
}

/* Sets of files for epoll; a set only grows. */
#define FIRST_EPOLL	2000

static struct native_epoll {
	struct epoll_event	events[16];
	int			fds[16];
	unsigned int		nr;
	wait_queue_head_t	added;
	struct mutex		lock;		/* held by one who looks whether it is ready */
	wait_queue_head_t	waiters;	/* its lock protects @ready */
	poll_table		on;
	bool			ready;
} *epolls[FILES];

__u64 native_last_sleep;
unsigned int native_sleeps;

static u64 poll_until(const struct timespec *ts)
{
	u64 ns = ts ? ts->tv_sec * NSEC_PER_SEC + ts->tv_nsec : U64_MAX;

	WRITE_ONCE(native_last_sleep, ns);
	WRITE_ONCE(native_sleeps, READ_ONCE(native_sleeps) + 1);
	return ts ? ktime_get_ns() + ns : U64_MAX;
}

static struct native_epoll *native_epoll(int fd)
{
	return fd >= FIRST_EPOLL && fd < FIRST_EPOLL + FILES ?
	       READ_ONCE(epolls[fd - FIRST_EPOLL]) : NULL;
}

int native_epoll_create1(int flags)
{
	struct native_epoll *e, *none;
	unsigned int i;

	arrive();
	e = native_alloc(sizeof(*e));
	init_waitqueue_head(&e->added);
	init_waitqueue_head(&e->waiters);
	mutex_init(&e->lock);
	for (i = 0; i < FILES; i++) {
		none = NULL;
		if (try_cmpxchg(&epolls[i], &none, e))
			return FIRST_EPOLL + i;
	}
	abort();
}

int native_epoll_ctl(int epfd, int op, int fd, struct epoll_event *event)
{
	struct native_epoll *e = native_epoll(epfd);

	arrive();
	e->events[e->nr] = *event;
	e->fds[e->nr] = fd;
	/* The first file wakes one of those in epoll_pwait2(). */
	if (!e->nr) {
		e->ready = true;
		e->on.wait.epoll = e;
		native_file(fd)->f_op->poll(native_file(fd), &e->on);
		native_file(fd)->epoll = e;
	}
	smp_store_release(&e->nr, e->nr + 1);
	native_wake(&e->added);
	return 0;
}

/* As in the kernel, the first waiter looks at the files, and leaves the queue for that. */
static void epoll_ready(struct native_epoll *e)
{
	struct native_wait *wait;
	unsigned long flags;

	spin_lock_irqsave(&e->waiters.lock, flags);
	e->ready = true;
	if (!list_empty(&e->waiters.list)) {
		wait = list_first_entry(&e->waiters.list, struct native_wait, list);
		list_del_init(&wait->list);
		wake_up_process(wait->task);
	}
	spin_unlock_irqrestore(&e->waiters.lock, flags);
}

static bool epoll_take(struct native_epoll *e, bool take)
{
	unsigned long flags;
	bool ready;

	spin_lock_irqsave(&e->waiters.lock, flags);
	ready = e->ready;
	e->ready = ready && !take;
	spin_unlock_irqrestore(&e->waiters.lock, flags);
	return ready;
}

static bool epoll_look(struct native_epoll *e, struct epoll_event *event)
{
	struct file *file = native_file(e->fds[0]);
	poll_table none = { .queued = true };

	*event = e->events[0];
	event->events = 0;
	mutex_lock(&e->lock);
	if (epoll_take(e, true))
		event->events = file->f_op->poll(file, &none);
	/* It is ready as long as it is. */
	if (event->events)
		epoll_ready(e);
	mutex_unlock(&e->lock);
	return event->events;
}

/* For a set with one file. */
int native_epoll_pwait2(int epfd, struct epoll_event *event, int max, const struct timespec *ts,
			const void *mask)
{
	struct native_epoll *e = native_epoll(epfd);
	struct native_wait wait = { };
	u64 until;

	arrive();
	until = poll_until(ts);
	while (!epoll_look(e, event)) {
		if (ktime_get_ns() >= until)
			return 0;
		/* Who is woken leaves the queue, and must not sleep after that. */
		set_current_state(TASK_INTERRUPTIBLE);
		native_wait_add(&e->waiters, &wait);
		if (!epoll_take(e, false))
			native_sleep(until);
		__set_current_state(TASK_RUNNING);
		native_wait_end(&wait);
	}
	return 1;
}

int native_epoll_wait(int epfd, struct epoll_event *events, int max, int timeout)
{
	struct native_epoll *e = native_epoll(epfd);
	unsigned int nr = smp_load_acquire(&e->nr), i;
	poll_table none = { .queued = true };
	int n = 0;

	arrive();
	for (i = 0; i < nr && n < max; i++) {
		events[n] = e->events[i];
		events[n].events = native_file(e->fds[i])->f_op->poll(native_file(e->fds[i]),
								      &none);
		n += !!events[n].events;
	}
	return n;
}

static bool any_ready(struct native_epoll *e, poll_table *waits)
{
	unsigned int nr = smp_load_acquire(&e->nr), i;
	bool ready = false;

	for (i = 0; i < nr; i++)
		ready |= !!native_file(e->fds[i])->f_op->poll(native_file(e->fds[i]), &waits[i]);
	return ready;
}

static int poll_epoll(struct native_epoll *e, struct pollfd *p, u64 until)
{
	poll_table waits[16] = { };
	struct native_wait added = { };
	unsigned int i;

	native_wait_add(&e->added, &added);
	for (;;) {
		set_current_state(TASK_INTERRUPTIBLE);
		p->revents = any_ready(e, waits) ? POLLIN : 0;
		if (p->revents || ktime_get_ns() >= until)
			break;
		native_sleep(until);
	}
	__set_current_state(TASK_RUNNING);
	native_wait_end(&added);
	for (i = 0; i < 16; i++)
		if (waits[i].queued)
			native_wait_end(&waits[i].wait);
	return !!p->revents;
}

/* A file leaves the set when either is closed. */
static void epoll_leave(struct file *file)
{
	native_wait_end(&file->epoll->on.wait);
	file->epoll->on.queued = false;
	file->epoll = NULL;
}

int native_close(int fd)
{
	struct native_epoll *e = native_epoll(fd);

	arrive();
	if (e) {
		if (e->on.queued)
			epoll_leave(native_file(e->fds[0]));
		kfree(xchg(&epolls[fd - FIRST_EPOLL], NULL));
		return 0;
	}
	if (!native_file(fd))
		return close(fd);
	if (native_file(fd)->epoll)
		epoll_leave(native_file(fd));
	native_file(fd)->f_op->release(NULL, native_file(fd));
	__atomic_store_n(&file_taken[fd - FIRST_FD], false, __ATOMIC_SEQ_CST);
	return 0;
}

int native_ioctl(int fd, unsigned long command, ...)
{
	unsigned long arg;
	va_list args;
	long ret;

	arrive();
	va_start(args, command);
	arg = va_arg(args, unsigned long);
	va_end(args);
	ret = native_before ? -native_before(fd, command, (void *)arg) : 0;
	if (!ret)
		ret = native_file(fd)->f_op->unlocked_ioctl(native_file(fd), command, arg);
	if (ret >= 0)
		return ret;
	errno = -ret;
	return -1;
}

void *native_mmap(void *at, size_t size, int prot, int flags, int fd, off_t offset)
{
	struct vm_area_struct vma = { .vm_flags = VM_SHARED, .vm_pgoff = offset / PAGE_SIZE };
	void *place = at;
	int ret;

	arrive();
	if (!native_file(fd))
		return mmap(at, size, prot, flags, fd, offset);
	if (!at)
		place = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	vma.vm_start = (unsigned long)place;
	vma.vm_end = vma.vm_start + PAGE_ALIGN(size);
	ret = native_file(fd)->f_op->mmap(native_file(fd), &vma);
	if (!ret)
		return place;
	if (!at)
		munmap(place, size);
	errno = -ret;
	return (void *)-1;
}

void poll_wait(struct file *file, wait_queue_head_t *wq, poll_table *wait)
{
	if (wait->queued)
		return;
	native_wait_add(wq, &wait->wait);
	wait->queued = true;
}

int native_ppoll(struct pollfd *fds, unsigned long n, const struct timespec *ts, const void *mask)
{
	poll_table wait = { };
	u64 until;

	arrive();
	until = poll_until(ts);
	if (native_epoll(fds->fd))
		return poll_epoll(native_epoll(fds->fd), fds, until);
	for (;;) {
		set_current_state(TASK_INTERRUPTIBLE);
		fds->revents = native_file(fds->fd)->f_op->poll(native_file(fds->fd), &wait);
		if (fds->revents || ktime_get_ns() >= until)
			break;
		native_sleep(until);
	}
	__set_current_state(TASK_RUNNING);
	native_wait_end(&wait.wait);
	return !!fds->revents;
}

size_t copy_to_iter(const void *from, size_t n, struct iov_iter *to)
{
	memcpy(to->at, from, n);
	to->at += n;
	to->left -= n;
	return n;
}

int copy_struct_from_user(void *to, size_t size, const void *from, size_t from_size)
{
	memset(to, 0, size);
	memcpy(to, from, min(size, from_size));
	return from_size > size ? -E2BIG : 0;
}

ssize_t native_read(int fd, void *to, size_t n)
{
	struct kiocb iocb = { .ki_filp = native_file(fd) };
	struct iov_iter iter = { to, n };
	ssize_t ret;

	arrive();
	ret = iocb.ki_filp->f_op->read_iter(&iocb, &iter);
	if (ret >= 0)
		return ret;
	errno = -ret;
	return -1;
}

/* Stubs for a part of the module that is not built: debugfs. */

void hwtimer_debugfs_init(void) { }
void hwtimer_debugfs_exit(void) { }
void hwtimer_debugfs_add(struct hwtimer_driven *driven) { }
void hwtimer_debugfs_remove(struct hwtimer_driven *driven) { }

/* Start everything, with this thread as the first CPU. */
void native_begin(void)
{
	/* inherited by all threads that this one creates */
	prctl(PR_SET_TIMERSLACK, 1);
	syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0);
	pthread_key_create(&arrived, depart);
	native_enter();
	pages_begin();
	timers_task = kthread_run(timers_run, NULL, "timers");
	if (native_module_init()) {
		fprintf(stderr, "the module does not start\n");
		abort();
	}
}

void native_end(void)
{
	native_module_exit();
	kthread_stop(timers_task);
}
