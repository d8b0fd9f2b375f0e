/* SPDX-License-Identifier: LGPL-2.1-or-later OR MIT */
/* nginx's timers, by libhwtimer; ngx_event_timer.h includes it. */
#ifndef NGX_HWTIMER_H
#define NGX_HWTIMER_H

/* Let @ev expire @timer ms from now, whether it has a timeout or not. False: use the tree. */
ngx_uint_t ngx_hwtimer_add(ngx_event_t *ev, ngx_msec_t timer);

/* Cancel the timeout of @ev. False: it has none, and may be in the tree. */
ngx_uint_t ngx_hwtimer_del(ngx_event_t *ev);

/* The number of pending timeouts of this process. */
ngx_uint_t ngx_hwtimer_pending(void);

#endif /* NGX_HWTIMER_H */
