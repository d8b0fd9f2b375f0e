// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimer_idle: close the idle connections of TCP servers that do not do it themselves.
 *
 * A rule names a local port and a span (uapi/linux/hwtimer_idle.h). Each connection to that port
 * gets a watch, with a timeout on a wheel, when it is established. No message touches it: at its
 * deadline the callback reads the time stamps that TCP keeps anyway, and arms the timeout for the
 * rest of the span. So the work is one or two looks per connection and span, however many messages
 * there are, and nothing is scanned. docs/idle.rst is the manual.
 *
 * Watches
 * -------
 *
 * The tracepoint inet_sock_set_state is the hook. Its probe runs where TCP runs, in softirqs and in
 * system calls, with preemption disabled, also on PREEMPT_RT. So it takes no lock that may sleep
 * there, and does not allocate: it takes a watch from a pool, which a work item fills. If the pool
 * is empty, the work item looks for the connections that were missed, as it does for those that
 * exist when a rule is added.
 *
 * A watch holds a reference on its socket. Whoever takes it out of the table releases it: the probe
 * when the connection is closed, the callback when there is no more to do, or who deletes the
 * rule. The wheel then calls watch_released(), when no callback runs or will run for it; that
 * puts the reference. Who deletes a rule waits until all of its watches are released.
 *
 *	                  protected by              read without by
 *	rules             rules_lock                RCU (probe)
 *	watches, buckets  one of bucket_locks       RCU (watch_find())
 *	the pool          pool.lock                 its count
 *	rule->ended       rules_lock                RCU (probe)
 *	rule->missed      -                         all, by READ_ONCE and WRITE_ONCE
 *	a watch's socket  the reference; its fields are TCP's, read once each, and again under the
 *	                  lock of the socket before anything is done to it
 *
 * A connection cannot be missed by both the probe and a walk. The probe is called before the new
 * state is stored, so the walk takes what is about to be established, too. And it holds the lock of
 * the bucket of TCP's table, from which a socket is removed before the probe hears that it was
 * closed, and to which it was added before it was established.
 */
#define pr_fmt(fmt) "hwtimer_idle: " fmt

#include <linux/hashtable.h>
#include <linux/inet.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/tracepoint.h>
#include <linux/workqueue.h>
#include <net/genetlink.h>
#include <net/inet_hashtables.h>
#include <net/mptcp.h>
#include <net/net_namespace.h>
#include <net/tcp.h>

#include "../hwtimer.h"
#include "hwtimer_idle.h"

/* The wheel's tick: the worker wakes up no more than 250 times a second. */
#define IDLE_TICK_NS	(4 * NSEC_PER_MSEC)
/* The longest time between two looks at a socket that a task owns. */
#define IDLE_BUSY_NS	NSEC_PER_SEC
#define POOL_SIZE	2048
#define WATCH_BITS	16
#define WATCH_LOCKS	256

struct idle_rule {
	struct hlist_node	node;
	struct rcu_head		rcu;
	struct net		*net;		/* no reference: rules end before it does */
	struct in6_addr		address;	/* IPv4 as mapped; any: holds for all */
	struct idle_config	config;
	bool			ended;		/* nobody finds it any more */
	bool			missed;		/* a connection got no watch: walk */
	atomic_long_t		watched;
	atomic64_t		closed;
	atomic64_t		looks;
	atomic64_t		refused;
	atomic64_t		spared;
};

struct idle_watch {
	struct hwtimer_timeout	timeout;
	struct hlist_node	node;		/* in a bucket, or in the pool */
	struct rcu_head		rcu;
	struct sock		*sk;
	struct idle_rule	*rule;
	u32			wait_ns;	/* the last wait for the socket's owner; 0: none */
};

static char *rules_param;
module_param_named(rules, rules_param, charp, 0);	/* not readable: it is parsed in place */
MODULE_PARM_DESC(rules, "rules of the initial network namespace: PORT:SECONDS[:ACTION[:any]],...");

static struct hwtimer_wheel *wheel;
static struct tracepoint *state_tracepoint;
static struct genl_family idle_family;

static DEFINE_MUTEX(rules_lock);
static DEFINE_HASHTABLE(rules, 8);
static unsigned int rules_changes = 1;	/* for dumps that take several messages */
static bool rules_closed;		/* the module goes away */

static struct hlist_head buckets[1 << WATCH_BITS];
static raw_spinlock_t bucket_locks[WATCH_LOCKS];

static struct {
	raw_spinlock_t		lock;
	struct hlist_head	watches;
	unsigned int		count;
} pool = { .lock = __RAW_SPIN_LOCK_UNLOCKED(pool.lock) };

static void pool_work_fn(struct work_struct *work);
static DECLARE_WORK(pool_work, pool_work_fn);

/*
 * Rules
 */

static u32 rule_key(const struct net *net, u16 port)
{
	return port ^ net_hash_mix(net);
}

static void sk_addresses(const struct sock *sk, struct in6_addr *local, struct in6_addr *peer)
{
#if IS_ENABLED(CONFIG_IPV6)
	if (sk->sk_family == AF_INET6) {
		*local = sk->sk_v6_rcv_saddr;
		*peer = sk->sk_v6_daddr;
		return;
	}
#endif
	ipv6_addr_set_v4mapped(sk->sk_rcv_saddr, local);
	ipv6_addr_set_v4mapped(sk->sk_daddr, peer);
}

/* The rule of exactly this port and address, under RCU or rules_lock. */
static struct idle_rule *rule_find(const struct net *net, u16 port, const struct in6_addr *address)
{
	struct idle_rule *rule;

	hash_for_each_possible_rcu(rules, rule, node, rule_key(net, port),
				   lockdep_is_held(&rules_lock))
		if (!READ_ONCE(rule->ended) && rule->net == net && rule->config.port == port &&
		    ipv6_addr_equal(&rule->address, address))
			return rule;
	return NULL;
}

/*
 * The rule for a connection, under RCU: that of its address comes before that of all addresses.
 * Subflows of MPTCP have none.
 */
static struct idle_rule *rule_of_sk(const struct sock *sk)
{
	struct in6_addr local, peer;
	struct idle_rule *rule;

	if (sk_is_mptcp(sk))
		return NULL;
	sk_addresses(sk, &local, &peer);
	rule = rule_find(sock_net(sk), sk->sk_num, &local);
	return rule ?: rule_find(sock_net(sk), sk->sk_num, &in6addr_any);
}

static u64 rule_span_ns(const struct idle_rule *rule)
{
	return rule->config.span_ms * (u64)NSEC_PER_MSEC;
}

/*
 * The pool
 */

/* With interrupts off. */
static struct idle_watch *pool_get(void)
{
	struct idle_watch *watch;

	raw_spin_lock(&pool.lock);
	watch = hlist_entry_safe(pool.watches.first, struct idle_watch, node);
	if (watch) {
		hlist_del(&watch->node);
		pool.count--;
	}
	raw_spin_unlock(&pool.lock);
	return watch;
}

static int pool_fill(void)
{
	struct idle_watch *watch;

	while (READ_ONCE(pool.count) < POOL_SIZE) {
		watch = kmalloc(sizeof(*watch), GFP_KERNEL | __GFP_NOWARN);
		if (!watch)
			return -ENOMEM;
		raw_spin_lock_irq(&pool.lock);
		hlist_add_head(&watch->node, &pool.watches);
		pool.count++;
		raw_spin_unlock_irq(&pool.lock);
	}
	return 0;
}

static void pool_empty(void)
{
	struct idle_watch *watch;
	struct hlist_node *next;

	hlist_for_each_entry_safe(watch, next, &pool.watches, node)
		kfree(watch);
}

/*
 * Watches
 */

static void idle_expired(struct hwtimer_timeout *timeout);

static u32 watch_bucket(const struct sock *sk)
{
	return hash_ptr(sk, WATCH_BITS);
}

static raw_spinlock_t *bucket_lock(u32 bucket)
{
	return &bucket_locks[bucket % WATCH_LOCKS];
}

/* Under RCU, or with the lock of the bucket. */
static struct idle_watch *watch_find(const struct sock *sk)
{
	struct idle_watch *watch;

	hlist_for_each_entry_rcu(watch, &buckets[watch_bucket(sk)], node, true)
		if (watch->sk == sk)
			return watch;
	return NULL;
}

/* The wheel does not hold the watch any more, and it is in no bucket. */
static void watch_released(struct hwtimer_timeout *timeout)
{
	struct idle_watch *watch = container_of(timeout, struct idle_watch, timeout);

	sock_put(watch->sk);
	kfree_rcu(watch, rcu);	/* the probe may have found it a moment ago */
}

/* With the lock of its bucket. */
static void watch_unlink(struct idle_watch *watch)
{
	if (hlist_unhashed(&watch->node))
		return;
	hlist_del_init_rcu(&watch->node);
	atomic_long_dec(&watch->rule->watched);
	hwtimer_release(&watch->timeout, watch_released);
}

static void watch_drop(struct idle_watch *watch)
{
	raw_spinlock_t *lock = bucket_lock(watch_bucket(watch->sk));
	unsigned long flags;

	raw_spin_lock_irqsave(lock, flags);
	watch_unlink(watch);
	raw_spin_unlock_irqrestore(lock, flags);
}

/* Let the rule watch a connection that cannot be closed meanwhile, unless it is watched. */
static void watch_add(struct sock *sk, struct idle_rule *rule)
{
	u32 bucket = watch_bucket(sk);
	struct idle_watch *watch;
	unsigned long flags;

	raw_spin_lock_irqsave(bucket_lock(bucket), flags);
	if (watch_find(sk))
		goto unlock;
	if (!atomic_long_add_unless(&rule->watched, 1, rule->config.limit)) {
		atomic64_inc(&rule->refused);
		goto unlock;
	}
	watch = pool_get();
	if (!watch) {
		atomic_long_dec(&rule->watched);
		WRITE_ONCE(rule->missed, true);
		goto unlock;
	}
	sock_hold(sk);
	watch->sk = sk;
	watch->rule = rule;
	watch->wait_ns = 0;
	hwtimer_init(&watch->timeout, wheel, idle_expired);
	hlist_add_head_rcu(&watch->node, &buckets[bucket]);
	hwtimer_schedule(&watch->timeout, rule_span_ns(rule));
unlock:
	raw_spin_unlock_irqrestore(bucket_lock(bucket), flags);
	if (READ_ONCE(pool.count) < POOL_SIZE / 2)
		schedule_work(&pool_work);
}

static void idle_state_probe(void *data, const struct sock *csk, const int old, const int new)
{
	struct sock *sk = (struct sock *)csk;
	struct idle_watch *watch;
	struct idle_rule *rule;

	if (sk->sk_protocol != IPPROTO_TCP)
		return;
	rcu_read_lock();
	if (new == TCP_ESTABLISHED && old == TCP_SYN_RECV) {
		rule = rule_of_sk(sk);
		if (rule)
			watch_add(sk, rule);
	} else if (new == TCP_CLOSE) {	/* Its port was put already: sk_num is 0. */
		watch = watch_find(sk);
		if (watch)
			watch_drop(watch);
	}
	rcu_read_unlock();
}

/* Watch all connections that the rule should watch, and does not. With rules_lock. */
static void rule_walk(struct idle_rule *rule)
{
	struct inet_hashinfo *info = rule->net->ipv4.tcp_death_row.hashinfo;
	struct hlist_nulls_node *node;
	unsigned int slot;
	struct sock *sk;

	for (slot = 0; slot <= info->ehash_mask; slot++) {
		if (hlist_nulls_empty(&info->ehash[slot].chain))
			continue;
		if (pool_fill()) {
			atomic64_inc(&rule->refused);
			return;
		}
		spin_lock_bh(inet_ehash_lockp(info, slot));
		sk_nulls_for_each(sk, node, &info->ehash[slot].chain)
			if (sk->sk_state != TCP_TIME_WAIT && sk->sk_state != TCP_NEW_SYN_RECV &&
			    sk->sk_state != TCP_SYN_SENT && sk->sk_shutdown != SHUTDOWN_MASK &&
			    rule_of_sk(sk) == rule)
				watch_add(sk, rule);
		spin_unlock_bh(inet_ehash_lockp(info, slot));
		cond_resched();
	}
}

static void pool_work_fn(struct work_struct *work)
{
	struct idle_rule *rule;
	int bucket;

	pool_fill();
	mutex_lock(&rules_lock);
	hash_for_each(rules, bucket, rule, node) {
		if (READ_ONCE(rule->missed)) {
			WRITE_ONCE(rule->missed, false);
			rule_walk(rule);
		}
	}
	mutex_unlock(&rules_lock);
}

/*
 * Drop the watches of rules that have ended, wait until they are released, and free the rules. With
 * rules_lock: a new rule for these connections finds them without a watch.
 */
static void rules_reap(void)
{
	struct idle_watch *watch;
	struct idle_rule *rule;
	struct hlist_node *next;
	unsigned long flags;
	u32 bucket;

	lockdep_assert_held(&rules_lock);
	synchronize_rcu();	/* for probes that found them */
	for (bucket = 0; bucket < ARRAY_SIZE(buckets); bucket++) {
		raw_spin_lock_irqsave(bucket_lock(bucket), flags);
		hlist_for_each_entry_safe(watch, next, &buckets[bucket], node)
			if (watch->rule->ended)
				watch_unlink(watch);
		raw_spin_unlock_irqrestore(bucket_lock(bucket), flags);
		cond_resched();
	}
	hwtimer_wheel_barrier(wheel);	/* callbacks may still use the rules */
	hash_for_each_safe(rules, bucket, next, rule, node) {
		if (rule->ended) {
			hash_del_rcu(&rule->node);
			kfree_rcu(rule, rcu);
		}
	}
	rules_changes++;
}

/*
 * End the rules of @net; NULL: all, for good. When a namespace ends, sockets of users are gone, but
 * the kernel's own, which hold no namespace, may be here.
 */
static void rules_end_of(struct net *net)
{
	struct idle_rule *rule;
	bool found = false;
	int bucket;

	mutex_lock(&rules_lock);
	rules_closed |= !net;
	hash_for_each(rules, bucket, rule, node) {
		if (!net || rule->net == net) {
			WRITE_ONCE(rule->ended, true);
			found = true;
		}
	}
	if (found)
		rules_reap();
	mutex_unlock(&rules_lock);
}

static struct pernet_operations idle_net_ops = { .exit = rules_end_of };

/*
 * Looks
 */

struct idle_look {
	u64	now;
	u64	due;		/* when the connection is idle, if no more data passes */
	bool	clients_turn;
};

/*
 * What TCP knows of the last data. Without the lock of the socket it may not fit together, and
 * serves to decide whether it is worth the lock.
 *
 * TCP keeps the time at which it sent the segment that was acknowledged last, for its estimate of
 * the rate; and, for RACK, of the one that was sent last of those acknowledged, if SACK is used.
 * They differ if a segment was overtaken by a later one. With pacing, they may be in the future.
 */
static struct idle_look sk_look(const struct sock *sk, const struct idle_rule *rule)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	u32 jiffy = tcp_jiffies32;	/* before the clock, or idle_times.jiffy would be early */
	u64 now = ktime_get_ns();
	u64 sent_us = max(READ_ONCE(tp->first_tx_mstamp), READ_ONCE(tp->rack.mstamp));
	bool gap = !RB_EMPTY_ROOT(&tp->out_of_order_queue);
	u32 next = READ_ONCE(tp->rcv_nxt);
	struct idle_facts facts = {
		.since_sent = jiffy - READ_ONCE(tp->lsndtime),
		.since_received = jiffy - READ_ONCE(inet_csk(sk)->icsk_ack.lrcvtime),
		.received = READ_ONCE(tp->bytes_received) || gap,
		.sent = READ_ONCE(tp->bytes_sent),
		.sent_again = READ_ONCE(tp->bytes_retrans),
		.gap = gap,
		.unread = next != READ_ONCE(tp->copied_seq) || gap,
		.unacked = READ_ONCE(tp->write_seq) != READ_ONCE(tp->snd_una),
		.acked_last = READ_ONCE(tp->snd_wl1) == next,
	};
	struct idle_times times = {
		.sent = (sent_us + 1) * NSEC_PER_USEC,
		.segment = (READ_ONCE(tp->tcp_mstamp) + 1) * NSEC_PER_USEC,
		.jiffy = now - min(facts.since_sent, facts.since_received) * (u64)TICK_NSEC,
	};

	return (struct idle_look){
		.now = now,
		.due = min(idle_since_ns(&facts, &times), now) + rule_span_ns(rule),
		.clients_turn = idle_clients_turn(&facts),
	};
}

/* Is the connection one that may be closed after a silence? With the lock of the socket. */
static bool sk_may_end(const struct sock *sk, bool any_silence, bool clients_turn)
{
	if (tcp_sk(sk)->repair || !sk->sk_socket)
		return false;
	switch (sk->sk_state) {
	case TCP_ESTABLISHED:
	case TCP_FIN_WAIT2:
		return any_silence || clients_turn;
	case TCP_CLOSE_WAIT:	/* The client has sent a FIN: the server has to end it. */
		return any_silence;
	default:		/* It has begun to. */
		return false;
	}
}

/*
 * As lock_sock(), but fail where that would sleep: another task owns the socket for as long as it
 * likes, say in sendmsg() on memory that it serves by userfaultfd.
 */
static bool sk_trylock(struct sock *sk)
{
	bool owned;

	spin_lock_bh(&sk->sk_lock.slock);
	owned = sock_owned_by_user_nocheck(sk);
	if (!owned) {
		sk->sk_lock.owned = 1;
		mutex_acquire(&sk->sk_lock.dep_map, 0, 1, _RET_IP_);
	}
	spin_unlock_bh(&sk->sk_lock.slock);
	return !owned;
}

/* As shutdown(2) of both directions. */
static void sk_shut_down(struct sock *sk)
{
	WRITE_ONCE(sk->sk_shutdown, sk->sk_shutdown | SHUTDOWN_MASK);
	sk->sk_prot->shutdown(sk, SHUTDOWN_MASK);
	sk->sk_state_change(sk);
}

/*
 * As connect(2) with AF_UNSPEC, which sends a RST; tcp_abort() would sleep on the lock. As after
 * tcp_abort(), the server reads the error, and then an end of file. TLS in the kernel refuses to
 * be disconnected, and is shut down instead.
 */
static void sk_reset(struct sock *sk)
{
	if (sk->sk_prot->disconnect(sk, 0)) {
		sk_shut_down(sk);
		return;
	}
	sk->sk_disconnects++;	/* who sleeps in a call compares it when it has the lock again */
	sk->sk_socket->state = SS_UNCONNECTED;
	WRITE_ONCE(sk->sk_err, ETIMEDOUT);
	WRITE_ONCE(sk->sk_shutdown, SHUTDOWN_MASK);
	sk->sk_state_change(sk);
}

static int address_put(struct sk_buff *skb, int attr, const struct in6_addr *address)
{
	if (ipv6_addr_any(address))
		return 0;
	if (ipv6_addr_v4mapped(address))
		return nla_put_in_addr(skb, attr, address->s6_addr32[3]);
	return nla_put_in6_addr(skb, attr, address);
}

/* Tell who listens; before the connection is closed, which forgets the addresses. */
static void event_send(const struct sock *sk, const struct idle_rule *rule)
{
	struct net *net = sock_net(sk);
	struct in6_addr local, peer;
	struct sk_buff *skb;
	void *header;

	if (!genl_has_listeners(&idle_family, net, 0))
		return;
	skb = genlmsg_new(NLMSG_DEFAULT_SIZE, GFP_ATOMIC | __GFP_NOWARN);
	if (!skb)
		return;
	sk_addresses(sk, &local, &peer);
	header = genlmsg_put(skb, 0, 0, &idle_family, 0, HWTIMER_IDLE_CMD_EVENT);
	if (!header || address_put(skb, HWTIMER_IDLE_ATTR_ADDRESS, &local) ||
	    nla_put_u16(skb, HWTIMER_IDLE_ATTR_PORT, rule->config.port) ||
	    address_put(skb, HWTIMER_IDLE_ATTR_PEER, &peer) ||
	    nla_put_u16(skb, HWTIMER_IDLE_ATTR_PEER_PORT, ntohs(sk->sk_dport)) ||
	    nla_put_u8(skb, HWTIMER_IDLE_ATTR_ACTION, rule->config.action)) {
		nlmsg_free(skb);
		return;
	}
	genlmsg_end(skb, header);
	genlmsg_multicast_netns(&idle_family, net, skb, 0, 0, GFP_ATOMIC | __GFP_NOWARN);
}

/*
 * With the lock of the socket: close the connection if it is idle. Return when to look again; 0:
 * not any more.
 */
static u64 watch_judge(struct idle_watch *watch)
{
	struct idle_rule *rule = watch->rule;
	struct sock *sk = watch->sk;
	struct idle_look look = sk_look(sk, rule);

	if (sk->sk_state == TCP_CLOSE)
		return 0;
	if (look.due > look.now)
		return look.due;
	if (!sk_may_end(sk, rule->config.any_silence, look.clients_turn)) {
		atomic64_inc(&rule->spared);
		return look.now + rule_span_ns(rule);
	}
	atomic64_inc(&rule->closed);
	event_send(sk, rule);
	switch (rule->config.action) {
	case HWTIMER_IDLE_SHUTDOWN:
		sk_shut_down(sk);
		return 0;
	case HWTIMER_IDLE_RESET:
		sk_reset(sk);
		return 0;
	default:
		return look.now + rule_span_ns(rule);
	}
}

/* Look at a connection. Return when to look again; 0: not any more. */
static u64 watch_look(struct idle_watch *watch)
{
	struct idle_look look = sk_look(watch->sk, watch->rule);
	u32 waited = watch->wait_ns;
	u64 again;

	atomic64_inc(&watch->rule->looks);
	watch->wait_ns = 0;
	if (look.due > look.now)
		return look.due;
	/*
	 * Not accepted yet, or closed by the server. The former must not be owned:
	 * inet_csk_listen_stop() warns of that.
	 */
	if (!READ_ONCE(watch->sk->sk_socket)) {
		atomic64_inc(&watch->rule->spared);
		return look.now + rule_span_ns(watch->rule);
	}
	if (!sk_trylock(watch->sk)) {
		watch->wait_ns = clamp(2 * waited, IDLE_TICK_NS, IDLE_BUSY_NS);
		return look.now + watch->wait_ns;
	}
	again = watch_judge(watch);
	release_sock(watch->sk);
	return again;
}

static void idle_expired(struct hwtimer_timeout *timeout)
{
	struct idle_watch *watch = container_of(timeout, struct idle_watch, timeout);
	u64 again = watch_look(watch);

	if (again)
		hwtimer_schedule_at(timeout, again);	/* fails if it was dropped meanwhile */
	else
		watch_drop(watch);
}

/*
 * Configuration
 */

static int rule_add(struct net *net, const struct in6_addr *address,
		    const struct idle_config *config)
{
	struct idle_rule *rule;
	int ret = 0;

	rule = kzalloc(sizeof(*rule), GFP_KERNEL_ACCOUNT);
	if (!rule)
		return -ENOMEM;
	rule->net = net;
	rule->address = *address;
	rule->config = *config;

	mutex_lock(&rules_lock);
	if (rules_closed) {
		ret = -ESHUTDOWN;
	} else if (rule_find(net, config->port, address)) {
		ret = -EEXIST;
	} else {
		hash_add_rcu(rules, &rule->node, rule_key(net, config->port));
		rules_changes++;
		rule_walk(rule);
	}
	mutex_unlock(&rules_lock);
	if (ret)
		kfree(rule);
	return ret;
}

/* The port and address of the rule that a request is about. */
static int rule_get(struct genl_info *info, u16 *port, struct in6_addr *address)
{
	struct nlattr *attr = info->attrs[HWTIMER_IDLE_ATTR_ADDRESS];

	if (GENL_REQ_ATTR_CHECK(info, HWTIMER_IDLE_ATTR_PORT))
		return -EINVAL;
	*port = nla_get_u16(info->attrs[HWTIMER_IDLE_ATTR_PORT]);
	*address = in6addr_any;
	if (!attr)
		return 0;
	if (nla_len(attr) == sizeof(struct in_addr))
		ipv6_addr_set_v4mapped(nla_get_in_addr(attr), address);
	else if (nla_len(attr) == sizeof(*address))
		*address = nla_get_in6_addr(attr);
	if (!ipv6_addr_any(address) && (!ipv6_addr_v4mapped(address) || address->s6_addr32[3]))
		return 0;
	NL_SET_ERR_MSG_ATTR(info->extack, attr, "no address; a rule for all addresses has none");
	return -EINVAL;
}

static int idle_add_doit(struct sk_buff *skb, struct genl_info *info)
{
	struct nlattr **attrs = info->attrs;
	struct idle_config config = { .limit = HWTIMER_IDLE_LIMIT };
	struct in6_addr address;

	if (rule_get(info, &config.port, &address) ||
	    GENL_REQ_ATTR_CHECK(info, HWTIMER_IDLE_ATTR_SPAN_MS))
		return -EINVAL;
	config.span_ms = nla_get_u32(attrs[HWTIMER_IDLE_ATTR_SPAN_MS]);
	if (attrs[HWTIMER_IDLE_ATTR_ACTION])
		config.action = nla_get_u8(attrs[HWTIMER_IDLE_ATTR_ACTION]);
	if (attrs[HWTIMER_IDLE_ATTR_LIMIT])
		config.limit = nla_get_u32(attrs[HWTIMER_IDLE_ATTR_LIMIT]);
	config.any_silence = attrs[HWTIMER_IDLE_ATTR_ANY_SILENCE];
	return rule_add(genl_info_net(info), &address, &config);
}

static int idle_del_doit(struct sk_buff *skb, struct genl_info *info)
{
	struct in6_addr address;
	struct idle_rule *rule;
	u16 port;

	if (rule_get(info, &port, &address))
		return -EINVAL;
	mutex_lock(&rules_lock);
	rule = rule_find(genl_info_net(info), port, &address);
	if (rule) {
		WRITE_ONCE(rule->ended, true);
		rules_reap();
	}
	mutex_unlock(&rules_lock);
	return rule ? 0 : -ENOENT;
}

static int counter_put(struct sk_buff *skb, int attr, u64 count)
{
	return nla_put_u64_64bit(skb, attr, count, HWTIMER_IDLE_ATTR_PAD);
}

static int rule_dump(struct sk_buff *skb, struct netlink_callback *cb, const struct idle_rule *rule)
{
	const struct idle_config *config = &rule->config;
	void *header = genlmsg_put(skb, NETLINK_CB(cb->skb).portid, cb->nlh->nlmsg_seq,
				   &idle_family, NLM_F_MULTI, HWTIMER_IDLE_CMD_GET);

	if (!header || address_put(skb, HWTIMER_IDLE_ATTR_ADDRESS, &rule->address) ||
	    nla_put_u16(skb, HWTIMER_IDLE_ATTR_PORT, config->port) ||
	    nla_put_u32(skb, HWTIMER_IDLE_ATTR_SPAN_MS, config->span_ms) ||
	    nla_put_u8(skb, HWTIMER_IDLE_ATTR_ACTION, config->action) ||
	    (config->any_silence && nla_put_flag(skb, HWTIMER_IDLE_ATTR_ANY_SILENCE)) ||
	    nla_put_u32(skb, HWTIMER_IDLE_ATTR_LIMIT, config->limit) ||
	    counter_put(skb, HWTIMER_IDLE_ATTR_WATCHED, atomic_long_read(&rule->watched)) ||
	    counter_put(skb, HWTIMER_IDLE_ATTR_CLOSED, atomic64_read(&rule->closed)) ||
	    counter_put(skb, HWTIMER_IDLE_ATTR_LOOKS, atomic64_read(&rule->looks)) ||
	    counter_put(skb, HWTIMER_IDLE_ATTR_REFUSED, atomic64_read(&rule->refused)) ||
	    counter_put(skb, HWTIMER_IDLE_ATTR_SPARED, atomic64_read(&rule->spared))) {
		genlmsg_cancel(skb, header);
		return -EMSGSIZE;
	}
	genl_dump_check_consistent(cb, header);
	genlmsg_end(skb, header);
	return 0;
}

static int idle_get_dumpit(struct sk_buff *skb, struct netlink_callback *cb)
{
	struct net *net = sock_net(skb->sk);
	struct idle_rule *rule;
	int bucket;
	long n = 0;

	mutex_lock(&rules_lock);
	cb->seq = rules_changes;
	hash_for_each(rules, bucket, rule, node) {
		if (rule->net != net || n++ < cb->args[0])
			continue;
		if (rule_dump(skb, cb, rule))
			break;
		cb->args[0] = n;
	}
	mutex_unlock(&rules_lock);
	return skb->len;
}

/* Not const: 6.1 has no const there. */
static struct netlink_range_validation idle_spans = {
	.min = HWTIMER_IDLE_MIN_MS,
	.max = HWTIMER_IDLE_MAX_MS,
};

static const struct nla_policy idle_policy[HWTIMER_IDLE_ATTR_LIMIT + 1] = {
	[HWTIMER_IDLE_ATTR_ADDRESS] = NLA_POLICY_RANGE(NLA_BINARY, sizeof(struct in_addr),
						       sizeof(struct in6_addr)),
	[HWTIMER_IDLE_ATTR_PORT] = NLA_POLICY_MIN(NLA_U16, 1),
	[HWTIMER_IDLE_ATTR_SPAN_MS] = NLA_POLICY_FULL_RANGE(NLA_U32, &idle_spans),
	[HWTIMER_IDLE_ATTR_ACTION] = NLA_POLICY_MAX(NLA_U8, HWTIMER_IDLE_NOTIFY),
	[HWTIMER_IDLE_ATTR_ANY_SILENCE] = { .type = NLA_FLAG },
	[HWTIMER_IDLE_ATTR_LIMIT] = NLA_POLICY_MIN(NLA_U32, 1),
};

static const struct genl_small_ops idle_ops[] = {
	{ .cmd = HWTIMER_IDLE_CMD_ADD, .flags = GENL_ADMIN_PERM, .doit = idle_add_doit },
	{ .cmd = HWTIMER_IDLE_CMD_DEL, .flags = GENL_ADMIN_PERM, .doit = idle_del_doit },
	{ .cmd = HWTIMER_IDLE_CMD_GET, .dumpit = idle_get_dumpit },
};

static const struct genl_multicast_group idle_groups[] = {
	/* Not for all: each event is copied for each listener. */
	{ .name = HWTIMER_IDLE_EVENTS, .flags = GENL_MCAST_CAP_NET_ADMIN },
};

static struct genl_family idle_family = {
	.name = HWTIMER_IDLE_FAMILY,
	.version = HWTIMER_IDLE_VERSION,
	.maxattr = ARRAY_SIZE(idle_policy) - 1,
	.policy = idle_policy,
	.netnsok = true,
	.parallel_ops = true,
	.module = THIS_MODULE,
	.small_ops = idle_ops,
	.n_small_ops = ARRAY_SIZE(idle_ops),
	.resv_start_op = HWTIMER_IDLE_CMD_EVENT + 1,
	.mcgrps = idle_groups,
	.n_mcgrps = ARRAY_SIZE(idle_groups),
};

/* The rules of the module parameter. */
static int rules_init(void)
{
	struct idle_config config;
	int ret, n = 1;
	char *word;

	if (!rules_param || !*rules_param)
		return 0;
	for (; (word = strsep(&rules_param, ",")); n++) {
		ret = idle_config_parse(word, &config) ?:
		      rule_add(&init_net, &in6addr_any, &config);
		if (ret) {
			pr_err("rules: number %d is not PORT:SECONDS[:ACTION[:any]], or not new\n",
			       n);
			return ret;
		}
	}
	return 0;
}

static void tracepoint_find(struct tracepoint *tracepoint, void *data)
{
	if (!strcmp(tracepoint->name, "inet_sock_set_state"))
		state_tracepoint = tracepoint;
}

static int hook_init(void)
{
	for_each_kernel_tracepoint(tracepoint_find, NULL);
	if (!state_tracepoint) {
		pr_err("this kernel has no tracepoint inet_sock_set_state\n");
		return -EOPNOTSUPP;
	}
	return tracepoint_probe_register(state_tracepoint, idle_state_probe, NULL);
}

static void hook_exit(void)
{
	tracepoint_probe_unregister(state_tracepoint, idle_state_probe, NULL);
	tracepoint_synchronize_unregister();
	cancel_work_sync(&pool_work);
}

static void idle_exit(void)
{
	rules_end_of(NULL);	/* before the family, to which callbacks send events */
	genl_unregister_family(&idle_family);
	unregister_pernet_subsys(&idle_net_ops);
	hook_exit();
	hwtimer_wheel_destroy(wheel);
	pool_empty();
}
module_exit(idle_exit);

static int __init idle_init(void)
{
	int i, ret;

	for (i = 0; i < WATCH_LOCKS; i++)
		raw_spin_lock_init(&bucket_locks[i]);
	wheel = hwtimer_wheel_create(&(struct hwtimer_wheel_params){
			.name = "hwtimer_idle", .tick_ns = IDLE_TICK_NS, .slots = 64 });
	if (IS_ERR(wheel))
		return PTR_ERR(wheel);
	pool_fill();
	ret = hook_init();
	if (ret)
		goto wheel;
	ret = register_pernet_subsys(&idle_net_ops);
	if (ret)
		goto hook;
	ret = genl_register_family(&idle_family);
	if (ret)
		goto net;
	ret = rules_init();
	if (ret)
		idle_exit();
	return ret;

net:
	unregister_pernet_subsys(&idle_net_ops);
hook:
	hook_exit();
wheel:
	hwtimer_wheel_destroy(wheel);
	pool_empty();
	return ret;
}
module_init(idle_init);

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Close idle connections of TCP servers");
MODULE_AUTHOR("The hwtimer authors");
