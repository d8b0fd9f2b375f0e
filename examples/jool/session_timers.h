/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A timer for each of jool's sessions, instead of lists that are searched every two seconds: on
 * hwtimer or, with JOOL_TIMER_LIST, a struct timer_list of the kernel. "move" includes this twice
 * in jool's db/bib/db.c: before its structures, and, with JOOL_SESSION_TIMERS, after them.
 *
 * A packet only stores the time, as it did before. The callback looks at it under the lock of the
 * table, for one session, and arms the timer again for the rest.
 *
 * A session goes under the lock that its callback may be waiting for, so nobody can wait for the
 * callback there. A session that has left its table has no bib, and a callback that gets the lock
 * after that does nothing. The memory of a session, and that of a database after its sessions, is
 * freed behind such callbacks: by hwtimer_release(), or by RCU, as a timer_list runs in a softirq.
 */
#ifndef JOOL_SESSION_TIMERS
#include "mod/common/xlator.h"

#ifdef JOOL_TIMER_LIST
#include <linux/rcupdate.h>
#include <linux/timer.h>
#define session_timer timer_list
#define bib_end rcu_head
#else
#include <hwtimer.h>
#define session_timer hwtimer_timeout
#define bib_end hwtimer_timeout	/* never armed, only released */
#endif

#else /* JOOL_SESSION_TIMERS */

static bool decide_fate(struct xlator *jool, struct collision_cb *cb, struct bib_table *table,
			struct tabled_session *session, struct list_head *probes);
static void post_fate(struct xlator *jool, struct list_head *probes);
static void session_expired(struct session_timer *expired);

#ifdef JOOL_TIMER_LIST

static void session_init(struct tabled_session *session)
{
	timer_setup(&session->timer, session_expired, 0);
}

static void session_arm(struct tabled_session *session, unsigned long delay)
{
	mod_timer(&session->timer, jiffies + delay);
}

/* The node is unused: the session has left the tree, or the tree goes as a whole. */
static void session_freed(struct rcu_head *head)
{
	free_session(container_of((struct rb_node *)head, struct tabled_session, tree_hook));
}

static void session_free(struct tabled_session *session)
{
	BUILD_BUG_ON(sizeof(struct rcu_head) > sizeof(session->tree_hook));
	timer_shutdown(&session->timer);
	call_rcu((struct rcu_head *)&session->tree_hook, session_freed);
}

static void bib_freed(struct rcu_head *end)
{
	wkfree(struct bib, container_of(end, struct bib, end));
}

static void bib_free(struct bib *db)
{
	call_rcu(&db->end, bib_freed);
}

int bib_timers_setup(void)
{
	return 0;
}

void bib_timers_teardown(void)
{
	synchronize_rcu();	/* callbacks that drop the last reference to a database */
	rcu_barrier();
}

#else

static struct hwtimer_wheel *wheel;

static void session_init(struct tabled_session *session)
{
	hwtimer_init(&session->timer, wheel, session_expired);
}

static void session_arm(struct tabled_session *session, unsigned long delay)
{
	/* It only fails once the session was released. */
	hwtimer_schedule(&session->timer, (u64)delay * TICK_NSEC);
}

static void session_freed(struct hwtimer_timeout *timeout)
{
	free_session(container_of(timeout, struct tabled_session, timer));
}

static void session_free(struct tabled_session *session)
{
	hwtimer_release(&session->timer, session_freed);
}

static void bib_freed(struct hwtimer_timeout *end)
{
	wkfree(struct bib, container_of(end, struct bib, end));
}

static void bib_free(struct bib *db)
{
	hwtimer_init(&db->end, wheel, NULL);
	hwtimer_release(&db->end, bib_freed);
}

int bib_timers_setup(void)
{
	wheel = hwtimer_wheel_create(&(struct hwtimer_wheel_params){
			.name = "jool", .tick_ns = 20 * NSEC_PER_MSEC, .slots = 512 });
	return PTR_ERR_OR_ZERO(wheel);
}

void bib_timers_teardown(void)
{
	hwtimer_wheel_destroy(wheel);
}

#endif /* JOOL_TIMER_LIST */

/* What callbacks need: from session to table, and from there to the instance. */
static void bib_owned(struct bib *db, const struct xlator *jool)
{
	struct bib_table *tables[] = { &db->udp, &db->tcp, &db->icmp };

	for (int i = 0; i < ARRAY_SIZE(tables); i++) {
		tables[i]->db = db;
		tables[i]->est_timer.table = tables[i];
		tables[i]->trans_timer.table = tables[i];
		tables[i]->syn4_timer.table = tables[i];
	}
	db->ns = jool->ns;	/* only to compare */
	strscpy(db->iname, jool->iname, sizeof(db->iname));
}

/* A jiffy more, because its last packet may have come at the end of a jiffy. */
static void session_arm_rest(struct xlator *jool, struct tabled_session *session)
{
	long left = session->update_time + get_timeout(jool, session->expirer) - jiffies;

	session_arm(session, max(left, 0L) + 1);
}

static void session_set_expirer(struct xlator *jool, struct tabled_session *session,
				struct expire_timer *expirer)
{
	WRITE_ONCE(session->expirer, expirer);
	session_arm_rest(jool, session);
}

static void handle_fate_timer(struct xlator *jool, struct tabled_session *session,
			      struct expire_timer *expirer)
{
	session->update_time = jiffies;
	/* With the same timeout as before, what is armed is early enough. */
	if (session->expirer != expirer)
		session_set_expirer(jool, session, expirer);
}

static void attach_timer(struct xlator *jool, struct tabled_session *session,
			 struct expire_timer *expirer)
{
	session_init(session);
	session->update_time = jiffies;
	session_set_expirer(jool, session, expirer);
}

/* A session that another machine's jool has sent; @known: that is in the table already */
static int queue_unsorted_session(struct xlator *jool, struct bib_table *table,
				  struct tabled_session *session, session_timer_type type,
				  bool known)
{
	struct expire_timer *expirers[] = {
		[SESSION_TIMER_EST] = &table->est_timer,
		[SESSION_TIMER_TRANS] = &table->trans_timer,
		[SESSION_TIMER_SYN4] = &table->syn4_timer,
	};

	if (type >= ARRAY_SIZE(expirers))
		return -EINVAL;
	if (!known)
		session_init(session);
	session_set_expirer(jool, session, expirers[type]);
	return 0;
}

static void session_expired(struct session_timer *expired)
{
	struct tabled_session *session = container_of(expired, struct tabled_session, timer);
	struct bib_table *table = READ_ONCE(session->expirer)->table;
	struct bib *db = table->db;
	struct collision_cb cb = { NULL };
	struct xlator jool;
	LIST_HEAD(probes);

	local_bh_disable();	/* jool expects to be in a softirq */
	if (xlator_find(db->ns, XF_ANY | XT_NAT64, db->iname, &jool)) {
		/* It is being replaced, or goes with all its sessions. */
		session_arm(session, HZ);
		goto out;
	}
	spin_lock(&table->lock);
	/* Another instance may have taken its name. */
	if (session->bib && jool.nat64.bib == db) {
		cb.cb = session->expirer->decide_fate_cb;
		if (time_before(jiffies, session->update_time +
					 get_timeout(&jool, session->expirer)))
			session_arm_rest(&jool, session);
		else
			decide_fate(&jool, &cb, table, session, &probes);
	}
	spin_unlock(&table->lock);
	post_fate(&jool, &probes);
	xlator_put(&jool);
out:
	local_bh_enable();
}

/* The configuration was changed: timeouts may have become shorter. */
void bib_rearm(struct xlator *jool)
{
	struct bib *db = jool->nat64.bib;
	struct bib_table *tables[] = { &db->udp, &db->tcp, &db->icmp };
	struct tabled_session *session, *next;
	struct rb_node *node;

	for (int i = 0; i < ARRAY_SIZE(tables); i++) {
		spin_lock_bh(&tables[i]->lock);
		for (node = rb_first(&tables[i]->tree4); node; node = rb_next(node))
			rbtree_foreach(session, next, &bib4_entry(node)->sessions, tree_hook)
				session_arm_rest(jool, session);
		spin_unlock_bh(&tables[i]->lock);
	}
}

#endif /* JOOL_SESSION_TIMERS */
