// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimer: a rival of hwtimer_idle, without a module from outside: walk all TCP sockets of a
 * network namespace, and reset the connections of a server that are idle, by hwtimer_idle's
 * definition.
 *
 * tests/story/run compiles it for SERVER_PORT, SECONDS and the kernel's HZ; story.c reads the
 * iterator at fixed intervals. The types have only the fields that are used; libbpf finds where the
 * kernel has them.
 */
#include <linux/bpf.h>
#include <linux/types.h>
#include <stdbool.h>

#include <bpf/bpf_helpers.h>

#define TCP_ESTABLISHED	1
#define TCP_FIN_WAIT2	5

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct sock_common {
	__u16			skc_num;
	volatile unsigned char	skc_state;
};

struct sock {
	struct socket		*sk_socket;
};

struct inet_sock {
	struct sock		sk;
};

struct inet_connection_sock {
	struct inet_sock	icsk_inet;
	struct {
		__u32		lrcvtime;
	} icsk_ack;
};

struct rb_root {
	struct rb_node		*rb_node;
};

struct tcp_sock {
	struct inet_connection_sock inet_conn;
	__u32			rcv_nxt, copied_seq, write_seq, snd_una, snd_wl1, lsndtime;
	__u64			bytes_received, bytes_sent;
	struct rb_root		out_of_order_queue;
};

struct bpf_iter__tcp {
	struct sock_common	*sk_common;
};

#pragma clang attribute pop

int bpf_sock_destroy(struct sock_common *sk) __ksym;

char _license[] SEC("license") = "GPL";
__u64 looks;

static bool clients_turn(const struct tcp_sock *tp, __u32 since_sent, __u32 since_received)
{
	if (tp->rcv_nxt != tp->copied_seq || tp->out_of_order_queue.rb_node ||
	    tp->write_seq != tp->snd_una)
		return false;
	if (!tp->bytes_sent)
		return !tp->bytes_received;
	if (since_sent != since_received)
		return since_sent < since_received;
	return tp->snd_wl1 == tp->rcv_nxt;
}

SEC("iter/tcp")
int close_idle(struct bpf_iter__tcp *ctx)
{
	__u32 now = bpf_jiffies64(), sent, received;
	struct sock_common *sk = ctx->sk_common;
	struct tcp_sock *tp;

	if (!sk || sk->skc_num != SERVER_PORT ||
	    (sk->skc_state != TCP_ESTABLISHED && sk->skc_state != TCP_FIN_WAIT2))
		return 0;
	tp = bpf_skc_to_tcp_sock(sk);
	if (!tp)
		return 0;
	looks++;
	sent = now - tp->lsndtime;
	received = now - tp->inet_conn.icsk_ack.lrcvtime;
	/* A jiffy more, since the time stamps are rounded down. */
	if (sent <= SECONDS * HZ || received <= SECONDS * HZ ||
	    !tp->inet_conn.icsk_inet.sk.sk_socket || !clients_turn(tp, sent, received))
		return 0;
	bpf_sock_destroy(sk);
	return 0;
}
