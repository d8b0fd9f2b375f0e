/* SPDX-License-Identifier: LGPL-2.1-or-later OR MIT */
/* memcached's timeouts of idle connections, by libhwtimer; memcached.h includes it. */
#ifndef IDLE_TIMERS_H
#define IDLE_TIMERS_H

/* A worker begins and ends. */
void idle_begin(struct event_base *base);
void idle_end(void);

/* A connection was opened, or sent a command: its idle time begins. */
void idle_heard(conn *c);

/* A connection is closed. */
void idle_forget(conn *c);

#endif /* IDLE_TIMERS_H */
