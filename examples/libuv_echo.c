// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
/*
 * libuv_echo: an echo server on libuv that closes idle connections by libhwtimer. The event loop
 * needs one uv_poll_t for this, of hwtimer_fd().
 *
 * Calls of libuv, and their replacements:
 *
 *	uv_timer_init(), uv_timer_start()	hwtimer_schedule()
 *	uv_timer_again(), uv_timer_start()	hwtimer_touch()
 *	uv_timer_stop(), uv_close()		hwtimer_cancel()
 *	the callback				an event of hwtimer_wait()
 */
#define _GNU_SOURCE
#include <signal.h>

#include <uv.h>

#include "echo_common.h"
#include "options.h"

#define READ_SIZE	65536

struct conn {
	uv_tcp_t	tcp;
	__s64		heard;		/* time of the last message */
	hwtimer_id	timeout;	/* 0: its event was returned */
};

struct reply {
	uv_write_t	write;
	char		data[];
};

static struct {
	__u64 opened, closed_idle, closed_peer, open_at_end, messages;
	__u64 armed, touched, cancelled, expired;	/* timeouts */
	__u64 overtaken;		/* a message came after the expiry */
	__u64 early, wrong;
} counts;

static struct samples lateness;
static uv_loop_t *loop;
static __s64 idle_ns = 30000 * NS_PER_MS;

static int uv_must(int ret, const char *what)
{
	if (ret < 0)
		errx(1, "%s: %s", what, uv_strerror(ret));
	return ret;
}

/* Something was received: start or restart the timeout. */
static void conn_heard(struct conn *c)
{
	c->heard = now_ns();
	if (c->timeout) {
		must(hwtimer_touch(timers, c->timeout, idle_ns), "hwtimer_touch");
		counts.touched++;
	} else {
		must(hwtimer_schedule(timers, idle_ns, (uintptr_t)c, &c->timeout),
		     "hwtimer_schedule");
		counts.armed++;
	}
}

static void handle_closed(uv_handle_t *handle)
{
	free(handle->data);
}

static void conn_close(struct conn *c, __u64 *count)
{
	if (uv_is_closing((uv_handle_t *)&c->tcp))
		return;
	if (c->timeout) {
		must(hwtimer_cancel(timers, c->timeout), "hwtimer_cancel");
		counts.cancelled++;
	}
	uv_close((uv_handle_t *)&c->tcp, handle_closed);
	++*count;
}

/* The timeout of a connection has expired. */
static void conn_expired(struct conn *c)
{
	char byte;
	int fd;

	counts.expired++;
	sample(&lateness, now_ns() - (c->heard + idle_ns));
	uv_must(uv_fileno((uv_handle_t *)&c->tcp, &fd), "uv_fileno");
	/* Close only if there is nothing to read. Otherwise reading starts a new timeout. */
	if (recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) >= 0)
		counts.overtaken++;
	else
		conn_close(c, &counts.closed_idle);
}

/* hwtimer_fd() is readable. */
static void timers_readable(uv_poll_t *poll, int status, int what)
{
	struct hwtimer_event event;
	struct conn *c;

	uv_must(status, "uv_poll");
	while (must(hwtimer_wait(timers, &event, 0), "hwtimer_wait")) {
		c = (struct conn *)(uintptr_t)event.user_data;
		if (event.kind != HWTIMER_KIND_EXPIRED || c->timeout != event.id)
			counts.wrong++;
		if (now_ns() < c->heard + idle_ns)
			counts.early++;
		c->timeout = 0;
		conn_expired(c);
	}
}

static void give_buffer(uv_handle_t *handle, size_t suggested, uv_buf_t *buffer)
{
	static char data[READ_SIZE];

	*buffer = uv_buf_init(data, sizeof(data));
}

static void sent(uv_write_t *write, int status)
{
	free(write->data);
}

static void conn_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buffer)
{
	struct conn *c = stream->data;
	struct reply *reply;
	uv_buf_t data;

	if (n < 0)
		conn_close(c, &counts.closed_peer);
	if (n <= 0)
		return;
	counts.messages++;
	conn_heard(c);
	reply = malloc(sizeof(*reply) + n);
	if (!reply)
		err(1, "a reply");
	memcpy(reply->data, buffer->base, n);
	reply->write.data = reply;
	data = uv_buf_init(reply->data, n);
	if (uv_write(&reply->write, stream, &data, 1, sent))
		free(reply);
}

static void conn_open(uv_stream_t *listener, int status)
{
	struct conn *c = calloc(1, sizeof(*c));

	uv_must(status, "listen");
	if (!c)
		err(1, "a connection");
	uv_must(uv_tcp_init(loop, &c->tcp), "uv_tcp_init");
	c->tcp.data = c;
	uv_must(uv_accept(listener, (uv_stream_t *)&c->tcp), "uv_accept");
	uv_tcp_nodelay(&c->tcp, 1);
	counts.opened++;
	conn_heard(c);
	uv_must(uv_read_start((uv_stream_t *)&c->tcp, give_buffer, conn_read), "uv_read_start");
}

static void stop(uv_signal_t *signal, int number)
{
	uv_stop(loop);
}

/* Close a connection that is open at the end. */
static void end_conn(uv_handle_t *handle, void *listener)
{
	if (handle->type == UV_TCP && handle != listener)
		conn_close(handle->data, &counts.open_at_end);
}

static void write_stats(const char *name)
{
	FILE *f = open_stats(name);

	write_count(f, "opened", counts.opened);
	write_count(f, "closed_idle", counts.closed_idle);
	write_count(f, "closed_peer", counts.closed_peer);
	write_count(f, "open_at_end", counts.open_at_end);
	write_count(f, "messages", counts.messages);
	write_count(f, "armed", counts.armed);
	write_count(f, "touched", counts.touched);
	write_count(f, "cancelled", counts.cancelled);
	write_count(f, "expired", counts.expired);
	write_count(f, "overtaken", counts.overtaken);
	write_count(f, "early", counts.early);
	write_count(f, "wrong", counts.wrong);
	write_count(f, "wrong_books", wrong_books);
	sort_samples(&lateness);
	write_samples(f, "late", &lateness);
	close_stats(f, name);
}

static const char usage[] =
	"usage: libuv_echo [OPTION]...\n"
	"An echo server on 127.0.0.1, on libuv, that closes idle connections. At SIGTERM\n"
	"it says what it did, and fails if a timeout of libhwtimer's was early or lost.\n\n"
	"  --port N           port to listen on; 0: any that is free [7007]\n"
	"  --idle-ms N        close a connection after so many ms of silence [30000]\n"
	"  --max-conns N      the limit of open files to ask for [100000]\n"
	"  --stats-file FILE  write the statistics there, not to standard output\n"
	"  -h, --help         this text\n";

int main(int argc, char **argv)
{
	long port = 7007, max_conns = 100000;
	const char *stats_file = NULL;
	const struct program_option options[] = {
		{ "port", .number = &port, .max = 65535 },
		{ "idle-ms", .ns = &idle_ns, .min = 1, .max = 1000000000 },
		{ "max-conns", .number = &max_conns, .min = 1, .max = 10000000 },
		{ "stats-file", .text = &stats_file },
		{ }
	};
	uv_poll_t poll;
	uv_tcp_t listener;
	uv_signal_t term;

	parse_options(argc, argv, options, usage);
	setvbuf(stdout, NULL, _IOLBF, 0);
	raise_nofile(max_conns + 16);
	loop = uv_default_loop();
	timers = open_timers(NULL);
	uv_must(uv_poll_init(loop, &poll, hwtimer_fd(timers)), "uv_poll_init");
	uv_must(uv_poll_start(&poll, UV_READABLE, timers_readable), "uv_poll_start");
	uv_must(uv_signal_init(loop, &term), "uv_signal_init");
	uv_must(uv_signal_start(&term, stop, SIGTERM), "uv_signal_start");
	uv_must(uv_tcp_init(loop, &listener), "uv_tcp_init");
	uv_must(uv_tcp_open(&listener, open_listener(port)), "uv_tcp_open");
	uv_must(uv_listen((uv_stream_t *)&listener, BACKLOG, conn_open), "uv_listen");

	uv_run(loop, UV_RUN_DEFAULT);
	uv_walk(loop, end_conn, &listener);
	check("timeouts scheduled, and ended", counts.armed, counts.cancelled + counts.expired);
	write_stats(stats_file);
	hwtimer_close(timers);
	return counts.early || counts.wrong || wrong_books;
}
