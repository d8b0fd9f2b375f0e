// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
/*
 * The main loop. Once a second (five times per window if the window is shorter than 5 s) it reads
 * the jobs whose next due time is within the window. One transaction makes a planned row of the
 * due time and sets the job's next due time. Each job has one timeout, for its first planned row.
 *
 *	late by more than the window	a misfire: missed, or run now; but not if it is late
 *					because this scheduler was held up, as by the database
 *	late by less			run now; later due times that have passed are missed
 *	not late			scheduled
 *
 * The database is written before each step is done. What the next scheduler does if this one is
 * killed:
 *
 *	before a due time is planned	the job's next due time is unchanged: plans it
 *	before "started" is committed	the row is planned: runs it
 *	before or while the command	the row is started: marks it interrupted. It cannot know how
 *	runs				far the command got, and does not start it again
 *
 * So no due time is lost without a row that says so, and none is started twice.
 *
 * In PostgreSQL the next scheduler is any other one, as soon as the lease of this one has ended.
 * The window is longer than the lease and the time between two readings together, so that what is
 * due meanwhile is late, but no misfire. If this one loses the database, it forgets all runs except
 * those whose commands were started, and reads them again when it has found the database again. If
 * it finds that another scheduler took over, it kills these commands.
 *
 * Due times are on the wall clock, or on PostgreSQL's, timeouts on CLOCK_MONOTONIC. Each turn of
 * the loop and each reading compare the two. If the former was set, or the machine was suspended,
 * all timeouts are touched. No run starts before the clock shows its due time. If the clock was
 * set in either direction, or the machine's time zone was changed, next due times are calculated
 * again: of what is due every so often, so that the elapsed time counts; of cron, by the new time.
 * What was planned and is not due yet is planned again.
 */
#include <err.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "lanes.h"

#define EVENTS		64
#define SCAN_MAX	NS_PER_S
/* Due times planned, or jobs claimed, in one transaction, which must be shorter than a lease. */
#define PLAN_MAX	256
/* Runs that an executor reads before it starts them. */
#define TAKE_MAX	64
/* If the clock is set back by less, nothing is due again. */
#define SET_BACK	(60 * NS_PER_S)
#define FORGET_PERIOD	(3600 * NS_PER_S)
/* The measured difference of two clocks varies by less, unless one of them was set. */
#define CLOCK_NOISE	(10 * NS_PER_MS)

static __s64 window, keep;
static struct hwtimer *timers;
static int epoll_fd;
static bool executes;		/* this is an executor */
static volatile sig_atomic_t signals;	/* how many there were that end it */
static sigset_t waiting_mask;		/* they come while it waits */
static bool stopping;
static bool lost;		/* the database, or the lease of this scheduler */
static __s64 clock_offset;	/* clock of due times minus CLOCK_MONOTONIC */
static __s64 scanned;		/* CLOCK_MONOTONIC when the last complete scan began; 0: none did */
static unsigned int reading;	/* number of the last one of what executors hold */
static __s64 steps = NEVER;	/* of the clock, for which due times were calculated */
static char *zone;		/* name of the machine's time zone then */

/* Jobs that have runs, by id. */
static GHashTable *jobs;

/* Exit if a call failed that must not fail. Otherwise return its result, @ret. */
static int must(int ret, const char *what)
{
	if (ret < 0)
		errx(1, "%s: %s", what, strerror(-ret));
	return ret;
}

/* Free what job_read() has read. */
static void free_definition(struct job *job)
{
	g_strfreev(job->argv);
	g_free(job->script);
	g_free((char *)job->row.name);
	schedule_clear(&job->schedule);
}

void job_put(struct job *job)
{
	if (job->planned.length || job->waiting.length || job->running || job->timeout ||
	    job->limit)
		return;
	/* Others may have it. */
	if (!executes)
		store_write(RELEASE, N(job->row.id));
	g_hash_table_remove(jobs, &job->row.id);
	free_definition(job);
	g_free(job);
}

/* Call @what for each job, which it may free. */
static void each_job(void (*what)(struct job *job))
{
	GList *all = g_hash_table_get_values(jobs), *at;

	for (at = all; at; at = at->next)
		what(at->data);
	g_list_free(all);
}

/* Returns false if the row is invalid. */
static bool row_schedule(const struct job_row *row, struct schedule *s)
{
	char why[128];

	*s = (struct schedule){ .first = row->first };
	s->once = !row->cron && row->every == NEVER;
	s->from_end = row->from_end;
	s->every = row->cron || s->once ? 0 : row->every;
	if (row->cron && !schedule_parse(s, row->cron, row->zone, why, sizeof(why))) {
		warnx("job '%s' is not run: '%s': %s", row->name, row->cron, why);
		return false;
	}
	s->cron.by_clock |= row->by_clock;
	return true;
}

static struct job *job_find(__s64 id)
{
	return g_hash_table_lookup(jobs, &id);
}

/* Forget runs whose commands were not started. */
static void job_forget(struct job *job)
{
	struct run *run;

	while ((run = g_queue_pop_head(&job->planned)) || (run = g_queue_pop_head(&job->waiting)))
		g_free(run);
	job->missed = 0;
	/* It may be for a due time that is far off, by a clock that was set since. */
	if (job->timeout)
		must(hwtimer_touch(timers, job->timeout, 0), "hwtimer_touch");
}

/* Returns false if the row is invalid, or the connection was lost. */
static bool job_read(struct job *job, const struct job_row *row)
{
	struct job read = { };

	/* An executor has no schedules, and perhaps not their time zones. */
	if (!executes && !row_schedule(row, &read.schedule))
		return false;
	read.row = *row;
	read.row.name = g_strdup(row->name);
	read.argv = store_argv(row->id, &read.script);
	/* All jobs have commands, but this one could not be read. */
	if (!read.argv[0]) {
		free_definition(&read);
		return false;
	}
	free_definition(job);
	job->row = read.row;
	job->argv = read.argv;
	job->script = read.script;
	job->schedule = read.schedule;
	/* What an executor gets, its scheduler has decided already. */
	if (executes) {
		job->row.misfire = MISFIRE_ALL;
		job->row.block = BLOCK_SERIAL;
	}
	job->routed = row->route && !executes;
	return true;
}

/* Returns the job as it is now; NULL if its row is invalid, or the connection was lost. */
static struct job *job_of(const struct job_row *row)
{
	struct job *job = job_find(row->id);

	if (job && job->row.version == row->version)
		return job;
	if (job) {
		job_forget(job);
		return job_read(job, row) ? job : NULL;
	}
	job = g_new0(struct job, 1);
	job->row.id = row->id;
	if (!job_read(job, row)) {
		g_free(job);
		return NULL;
	}
	g_hash_table_insert(jobs, &job->row.id, job);
	return job;
}

static void job_plan(struct job *job, struct run *run)
{
	if (run->why == WHY_SCHEDULE)
		run->start += jitter_of(job->row.id, run->due, job->row.jitter);
	runs_insert(&job->planned, run);
}

/* Returns how long it is until the first planned run starts; 0: now; NEVER: there is none. */
static __s64 job_delay(const struct job *job)
{
	const struct run *first = g_queue_peek_head((GQueue *)&job->planned);
	__s64 delay;

	if (!first)
		return NEVER;
	delay = first->start - db->now();
	return MAX(delay, 0);
}

/* Start the runs that are due, and schedule a timeout for the others. */
static void job_go_on(struct job *job)
{
	__s64 delay;

	while (!(delay = job_delay(job)))
		lanes_due(job, g_queue_pop_head(&job->planned));
	if (delay != NEVER && !job->timeout)
		must(hwtimer_schedule(timers, delay, (uintptr_t)job, &job->timeout),
		     "hwtimer_schedule");
	job_put(job);
}

/* How late a due time may be without being a misfire. */
static __s64 tolerance(void)
{
	return window + (scanned ? clock_ns(CLOCK_MONOTONIC) - scanned : 0);
}

/* Handle one due time of a job: see the table at the top. */
static void plan_job(const struct job_row *row, __s64 now)
{
	struct job *job = job_of(row);
	struct plan plan;
	struct run *run;

	if (!job) {
		store_write(NEXT, N(NEVER), N(row->id));
		return;
	}
	plan = plan_due(&job->schedule, job->row.misfire, row->next, now,
			tolerance() + jitter_of(row->id, row->next, row->jitter));
	if (plan.run) {
		run = g_new0(struct run, 1);
		*run = (struct run){ .due = row->next, .start = row->next, .shards = 1 };
		run->id = store_number(PLAN, N(row->id), N(row->next),
				       N(plan.missed == NEVER ? plan.next : plan.missed),
				       S(plan.cause));
		job_plan(job, run);
	}
	if (plan.missed != NEVER)
		store_write(MISSED, N(job->row.id), N(plan.missed), N(plan.next));
	store_write(NEXT, N(plan.next), N(job->row.id));
	job_go_on(job);
}

static void touch_job(struct job *job)
{
	__s64 delay = job_delay(job);

	/* A job with a timeout but no planned run gets its event soon. */
	if (job->timeout && delay != NEVER)
		must(hwtimer_touch(timers, job->timeout, delay), "hwtimer_touch");
}

/* Adjust all timeouts if the clock of due times was set. */
static void follow_clock(void)
{
	__s64 offset = db->now() - clock_ns(CLOCK_MONOTONIC), change = offset - clock_offset;

	if (change > -CLOCK_NOISE && change < CLOCK_NOISE)
		return;
	clock_offset = offset;
	each_job(touch_job);
}

static void forget_job(struct job *job)
{
	job_forget(job);
	if (lanes_is_held(job))
		lanes_let_go(job);
	if (stopping && !job->running)
		store_write(RELEASE, N(job->row.id));
	job_put(job);	/* keeps it if it has a timeout, which expires now */
}

/* Forget all runs except those whose commands were started. The database has them. */
static void forget_runs(void)
{
	lanes_forget();
	each_job(forget_job);
}

static void lose(void)
{
	lost = true;
	forget_runs();
	/* What was calculated may be lost, too. */
	g_free(zone);
	zone = NULL;
}

/* Schedule a run that the database has. Returns false if that is not possible, or was done. */
static bool take_planned(struct run *run)
{
	struct job_row row;
	struct job *job = store_job(run->job, &row) ? job_of(&row) : NULL;
	bool known = !job || runs_have(&job->planned, run->id) || lanes_have(job, run->id);

	/* Of one that is held, hold_runs() learns. */
	if (known || run->held)
		g_free(run);
	else
		job_plan(job, run);
	if (known)
		return false;
	if (job->timeout)
		must(hwtimer_touch(timers, job->timeout, 0), "hwtimer_touch");
	else
		must(hwtimer_schedule(timers, 0, (uintptr_t)job, &job->timeout),
		     "hwtimer_schedule");
	return true;
}

/*
 * Schedule what other schedulers left. @first: also what this one had forgotten. Returns true if
 * there may be more.
 */
static bool recover(bool first)
{
	int interrupted = store_take_over(first, db->now() - tolerance()), planned = 0;
	struct run *found;

	while ((found = store_each_planned(first ? EACH_PLANNED : EACH_ORPHAN)))
		planned += take_planned(found);
	if (!first && !planned && !interrupted)
		return false;
	/* Its last scheduler may not have noticed that the clock was set. */
	if (!first)
		steps = NEVER;
	if (!store_commit()) {
		lose();
		return false;
	}
	printf("%s; found %d planned, %d interrupted\n",
	       first ? "running" : "another one ended", planned, interrupted);
	fflush(stdout);
	return planned >= PLAN_MAX;
}

/* Calculate the next due time of a job again. */
static void recalculate(const struct job_row *row, __s64 now, __s64 total)
{
	__s64 change = total - row->steps, next, first = row->first;
	struct schedule s;

	if (!row_schedule(row, &s))
		return;
	if (change)
		store_write(SHIFT, N(change), N(row->id), N(!!s.every));
	if (s.every && change && s.first)
		first = s.first += change;
	store_write(UNPLAN, N(row->id), N(now));
	next = plan_again(&s, row->next, now, store_number(LAST_DUE, N(row->id), N(now + SET_BACK)),
			  change);
	if (next != row->next || change)
		store_write(RECALCULATED, N(next), N(first), N(total), N(row->id));
	if (next != row->next)
		store_write(LINK, N(next), N(row->id));
	schedule_clear(&s);
}

/*
 * Calculate next due times again if the clock was set, or the time zone was changed, or if that may
 * have been before this scheduler began. Returns whether that was so.
 */
static bool follow_time(void)
{
	bool changed = false;
	GTimeZone *local = g_time_zone_new_local();
	bool all = !zone || strcmp(zone, g_time_zone_get_identifier(local));
	__s64 total = store_steps(), now = db->now();
	struct job_row row;

	if (total == NEVER || (total == steps && !all))
		goto out;
	if (zone && all)
		warnx("the time zone is now %s", g_time_zone_get_identifier(local));
	forget_runs();
	while (store_each(EACH_STALE, N(all), N(total))) {
		store_read_job(EACH_STALE, &row);
		recalculate(&row, now, total);
	}
	g_free(zone);
	zone = g_strdup(g_time_zone_get_identifier(local));
	steps = total;
	changed = true;
out:
	g_time_zone_unref(local);
	return changed;
}

static void end_stopped(void)
{
	struct job *job;

	while (store_each(EACH_STOPPED)) {
		job = job_find(store_int(EACH_STOPPED, 0));
		if (job && store_int(EACH_STOPPED, 1))
			lanes_cover(job);
		else if (job)
			lanes_end(job, "stopped");
	}
}

static void let_go_of_ended(struct job *job)
{
	if (!lanes_is_held(job) || job->seen == reading)
		return;
	lanes_let_go(job);
	job_put(job);
}

/* Read which jobs have runs that executors hold, and assign those that nobody holds. */
static void hold_runs(void)
{
	struct run *held;
	struct job *job;

	dispatch();
	reading++;
	while ((held = store_each_planned(EACH_HELD))) {
		job = job_find(held->job);
		if (!job) {
			g_free(held);
			continue;
		}
		job->seen = reading;
		lanes_hold(job, held);
	}
	/* If that could not be read, nothing has ended. */
	if (db->owned())
		each_job(let_go_of_ended);
}

/*
 * What an executor does instead of planning: take the runs that are assigned to it. Returns false
 * if there may be more.
 */
static bool take_runs(void)
{
	struct run *mine;
	struct job_row row;
	struct job *job;
	int n = 0;

	if (stopping) {
		store_write(NO_PLACES);
		if (store_write(HAND_BACK))
			db->wake(SCHEDULERS);
	}
	while (!stopping && n < TAKE_MAX && (mine = store_each_planned(EACH_ASSIGNED))) {
		job = job_find(mine->job);
		if (job && lanes_have(job, mine->id)) {
			g_free(mine);
			continue;
		}
		job = store_job(mine->job, &row) ? job_of(&row) : NULL;
		if (job)
			lanes_due(job, mine);
		else
			g_free(mine);
		n++;
	}
	return n < TAKE_MAX;
}

static int take_asked(void)
{
	struct run *asked;
	int n = 0;

	while ((asked = store_each_planned(EACH_ASKED)))
		n += take_planned(asked);
	return n;
}

/* Plan what is due within the window. Returns false if there may be more. */
static bool plan_jobs(void)
{
	__s64 now = db->now();
	struct job_row row;
	int n;

	for (n = 0; n < PLAN_MAX; n++) {
		if (!store_first_due(now + window, &row))
			return true;
		plan_job(&row, now);
	}
	return false;
}

/* Forget old outputs, a few at a time. */
static void forget_output(void)
{
	static __s64 next;
	__s64 now = clock_ns(CLOCK_MONOTONIC);

	if (now >= next && store_forget_output(db->now() - keep))
		next = now + FORGET_PERIOD;
}

/* Do what other processes want, or have left to do. Returns false if there may be more to plan. */
static bool look(void)
{
	bool all = true;

	db->begin();
	follow_clock();
	end_stopped();
	if (executes) {
		all = take_runs();
	} else if (!stopping) {
		all = take_asked() < PLAN_MAX && plan_jobs();
		hold_runs();
	}
	return all;
}

/*
 * Somebody else wants something, which often is little, for which no lease needs to be renewed.
 * Returns why to call this again.
 */
static unsigned int follow_wake(unsigned int why)
{
	bool all = true;

	if (why & WOKEN_TO_LOOK)
		all = look();
	else if (executes)
		all = take_runs();
	else if (!stopping)
		hold_runs();
	return all ? 0 : why;
}

/* The same, now and then. */
static bool scan(void)
{
	__s64 began = clock_ns(CLOCK_MONOTONIC);
	bool again, all;

	db->begin();
	each_job(lanes_write);
	if (executes || stopping)
		return look();
	forget_output();
	follow_clock();
	again = follow_time();
	/* Before other jobs are taken over, which is told. */
	if (!again)
		take_asked();
	all = !recover(again);
	if (!look() || !all)
		return false;
	scanned = began;
	return true;
}

static void scan_later(bool now)
{
	__s64 delay = now ? 0 : window / 5;

	if (delay > SCAN_MAX)
		delay = SCAN_MAX;
	must(hwtimer_schedule(timers, delay, 0, NULL), "hwtimer_schedule");
}

static void watch(int fd, void *data)
{
	struct epoll_event event = { .events = EPOLLIN, .data.ptr = data };

	if (fd < 0 || epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event))
		err(1, "epoll_ctl");
}

static void watch_wakes(void)
{
	if (db->fd && db->fd() >= 0)
		watch(db->fd(), NULL);
}

/* Try to connect to the database again, and schedule what was forgotten. */
static void try_again(void)
{
	GString *running = g_string_new("{");
	enum resumed resumed;
	GHashTableIter iter;
	struct job *job;

	g_hash_table_iter_init(&iter, jobs);
	while (g_hash_table_iter_next(&iter, NULL, (void **)&job))
		if (job->running && !lanes_is_held(job))
			g_string_append_printf(running, "%s%lld", running->len > 1 ? "," : "",
					       job->row.id);
	g_string_append_c(running, '}');
	resumed = db->resume(running->str);
	g_string_free(running, true);
	if (resumed == NOT_YET)
		return;
	lost = false;
	if (resumed == TAKEN_OVER)
		each_job(lanes_kill);
	watch_wakes();
	if (!stopping && !executes)
		recover(true);
}

static void scan_due(void)
{
	if (lost)
		try_again();
	scan_later(!lost && !scan());
}

/* One transaction has what these events lead to, so they are few, and a scan is the last one. */
static void timers_readable(void)
{
	struct hwtimer_event event;
	struct job *job;
	int i;

	for (i = 0; i < EVENTS && must(hwtimer_wait(timers, &event, 0), "hwtimer_wait"); i++) {
		/* A pointer, as nobody else has got the handle. */
		job = (struct job *)(uintptr_t)event.user_data;
		if (!job) {
			scan_due();
			break;
		}
		if (event.user_data & LANES_LIMIT) {
			job = (struct job *)(uintptr_t)(event.user_data & ~(__u64)LANES_LIMIT);
			lanes_limit(job);
			job_put(job);
			continue;
		}
		job->timeout = 0;
		if (!lost && !stopping)
			job_go_on(job);
		else
			job_put(job);
	}
}

/* Was this machine's clock set, or the machine suspended, since the last call? */
static bool clock_was_set(void)
{
	static __s64 before;
	__s64 offset = wall_now() - clock_ns(CLOCK_MONOTONIC), change = offset - before;

	before = offset;
	return llabs(change) > CLOCK_NOISE;
}

static void note_signal(int number __attribute__((unused)))
{
	signals++;
}

static void follow_signals(void)
{
	if (signals > 1)
		errx(1, "ended before what was running");
	if (!signals || stopping)
		return;
	stopping = true;
	/* Planned runs are left for other schedulers, which may have them before this one ends. */
	if (!lost)
		forget_runs();
}

static void open_all(const struct options *options)
{
	const struct sigaction note = { .sa_handler = note_signal };
	sigset_t blocked;

	window = options->window;
	keep = options->keep;
	executes = options->executes;
	jobs = g_hash_table_new(g_int64_hash, g_int64_equal);
	must(hwtimer_open(&timers, NULL), "hwtimer_open");
	/* If SIGCHLD were ignored, there would be no children to wait for. */
	signal(SIGCHLD, SIG_DFL);
	/* Messages that nobody reads must not end the scheduler. */
	signal(SIGPIPE, SIG_IGN);
	sigemptyset(&blocked);
	sigaddset(&blocked, SIGTERM);
	sigaddset(&blocked, SIGINT);
	sigprocmask(SIG_BLOCK, &blocked, &waiting_mask);
	sigdelset(&waiting_mask, SIGTERM);
	sigdelset(&waiting_mask, SIGINT);
	sigaction(SIGTERM, &note, NULL);
	sigaction(SIGINT, &note, NULL);
	epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	watch(hwtimer_fd(timers), &timers);
	watch_wakes();
	clock_offset = db->now() - clock_ns(CLOCK_MONOTONIC);
	clock_was_set();
	lanes_setup(options, epoll_fd, timers);
}

/* Commit the results of the events, and start the runs that may start now. */
static void carry_out(void)
{
	int offered, failed = 0;

	do {
		offered = stopping ? 0 : lanes_fill();
		if (offered)
			dispatch();
		failed = store_commit() ? lanes_launch() : -1;
	} while (failed > 0 || (offered && !failed));
	if (failed < 0)
		lose();
}

void sched_run(const struct options *options)
{
	struct epoll_event events[EVENTS];
	__s64 began, ready = 0;
	unsigned int woken = 0;
	struct job *job;
	int i, n, wait;

	open_all(options);
	if (executes) {
		puts("running");
		fflush(stdout);
	}
	scan_later(!scan());
	carry_out();
	/* When stopping, try to record the results of all commands. */
	while (!stopping || lanes_running() || lost) {
		/* What woke it may have been read together with an answer. */
		woken = lost || !db->woken ? 0 : woken | db->woken();
		began = clock_ns(CLOCK_MONOTONIC);
		wait = !woken ? -1 : began < ready ? (ready - began) / NS_PER_MS + 1 : 0;
		n = epoll_pwait(epoll_fd, events, EVENTS, wait, &waiting_mask);
		if (n < 0 && errno != EINTR)
			err(1, "epoll_pwait");
		follow_signals();
		/* What waits must not start by the clock of before. */
		if (clock_was_set() && !lost)
			scan();
		/* Jobs may be gone after the other events. */
		for (i = 0; i < n; i++) {
			job = (void *)((char *)events[i].data.ptr - LANES_OUTPUT);
			if (events[i].data.u64 & LANES_OUTPUT)
				output_read(&job->output);
		}
		for (i = 0; i < n; i++) {
			void *data = events[i].data.ptr;

			if (events[i].data.u64 & LANES_OUTPUT)
				continue;
			if (data == &timers)
				timers_readable();
			else if (data)
				lanes_reap(data);
		}
		/* At most a fifth of the time goes to reading what executors hold. */
		began = clock_ns(CLOCK_MONOTONIC);
		if (woken && !lost && began >= ready) {
			woken = follow_wake(woken);
			if (!executes)
				ready = clock_ns(CLOCK_MONOTONIC) * 5 - began * 4;
		}
		carry_out();
	}
	hwtimer_close(timers);
}
