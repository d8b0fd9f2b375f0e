// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
/*
 * nginx's timers, by libhwtimer. The script "edit" inserts the calls.
 *
 * Each process of nginx that has an event loop opens a handle of its own, after the fork. Only one
 * of its threads uses timers. The user data of a timeout is the address of nginx's event. The
 * handle is open until the process ends, because nginx may delete timers until then.
 *
 * A timer is in nginx's red-black tree if there is no handle, because the process has just started
 * or the device cannot be opened; if there is no memory for a timeout; or if the event is
 * cancelable, because a worker that shuts down asks whether any other timers are left. No timeout
 * belongs to a cancelable event, because nginx sets that flag when it creates the event.
 *
 * The descriptor is in the epoll set, level triggered. When it is readable, expire() is posted
 * behind the events of this round, so that a message that came in time is handled before the
 * timeout. expire() takes one event at a time, because the handler of an expired timer may delete
 * other timers, and free their events; after hwtimer_cancel(), hwtimer_wait() does not return the
 * event of that timeout. After MOST events expire() returns to the loop; while there are more, the
 * descriptor stays readable.
 */
#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>

#include <libhwtimer.h>

#define MOST		512
#define NS_PER_MS	1000000ULL

static struct hwtimer *timers;	/* NULL: all timers are in the tree */
static ngx_uint_t pending;
static ngx_connection_t connection;
static ngx_event_t readable, writable, due;

ngx_uint_t ngx_hwtimer_pending(void)
{
	return pending;
}

ngx_uint_t ngx_hwtimer_add(ngx_event_t *ev, ngx_msec_t timer)
{
	if (!timers || ev->cancelable)
		return 0;
	if (ev->hwtimer) {
		hwtimer_touch(timers, ev->hwtimer, timer * NS_PER_MS);
		return 1;
	}
	if (hwtimer_schedule(timers, timer * NS_PER_MS, (uintptr_t)ev, &ev->hwtimer)) {
		ev->hwtimer = 0;
		return 0;
	}
	pending++;
	return 1;
}

ngx_uint_t ngx_hwtimer_del(ngx_event_t *ev)
{
	if (!ev->hwtimer)
		return 0;
	hwtimer_cancel(timers, ev->hwtimer);
	ev->hwtimer = 0;
	pending--;
	return 1;
}

static void expire(ngx_event_t *unused)
{
	struct hwtimer_event event;
	ngx_event_t *ev;

	for (int i = 0; i < MOST && hwtimer_wait(timers, &event, 1, 0) == 1; i++) {
		ev = (ngx_event_t *)(uintptr_t)event.user_data;
		ev->hwtimer = 0;
		pending--;
		ev->timer_set = 0;
		ev->timedout = 1;
		ev->handler(ev);
	}
}

static void wake(ngx_event_t *unused)
{
	ngx_post_event(&due, &ngx_posted_events);
}

static ngx_int_t begin(ngx_cycle_t *cycle)
{
	int ret = hwtimer_open(&timers, NULL);

	if (ret) {
		ngx_log_error(NGX_LOG_WARN, cycle->log, -ret,
			      "no /dev/hwtimer: timers are in a tree");
		return NGX_OK;
	}
	connection.fd = hwtimer_fd(timers);
	connection.log = cycle->log;
	readable.log = cycle->log;
	due.log = cycle->log;
	connection.read = &readable;
	connection.write = &writable;
	readable.data = &connection;
	readable.handler = wake;
	due.handler = expire;
	return ngx_add_event(&readable, NGX_READ_EVENT, NGX_LEVEL_EVENT);
}

static ngx_core_module_t context = { .name = ngx_string("hwtimer") };

ngx_module_t ngx_hwtimer_module = {
	NGX_MODULE_V1,
	.ctx = &context,
	.type = NGX_CORE_MODULE,
	.init_process = begin,
	NGX_MODULE_V1_PADDING
};
