// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "output.h"
#include "store.h"

int output_open(struct output *o, int epoll_fd, void *data)
{
	struct epoll_event readable = { .events = EPOLLIN, .data.ptr = data };
	int ends[2];

	*o = (struct output){ .fd = -1, .epoll_fd = epoll_fd };
	if (pipe2(ends, O_CLOEXEC)) {
		warn("pipe");
		return -1;
	}
	o->fd = ends[0];
	/* Only this end: a command may not expect that. */
	fcntl(o->fd, F_SETFL, O_NONBLOCK);
	if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, o->fd, &readable))
		err(1, "epoll_ctl");
	return ends[1];
}

static void stop_reading(struct output *o)
{
	if (o->fd < 0)
		return;
	/* close() does not suffice: a child that was just forked may have it, too. */
	if (epoll_ctl(o->epoll_fd, EPOLL_CTL_DEL, o->fd, NULL))
		err(1, "epoll_ctl");
	close(o->fd);
	o->fd = -1;
}

/* Is this a later byte of a character in UTF-8? */
static bool continues(char byte)
{
	return (byte & 0xc0) == 0x80;
}

void output_read(struct output *o)
{
	char text[OUTPUT_KEPT];
	ssize_t n, room;
	gsize most, extra;

	/* As much as a pipe has, unless somebody goes on writing. */
	n = o->fd < 0 ? 0 : read(o->fd, text, sizeof(text));
	if (n <= 0) {
		if (!n || errno != EAGAIN)
			stop_reading(o);
		return;
	}
	if (!o->head) {
		o->head = g_string_new(NULL);
		o->tail = g_string_new(NULL);
	}
	room = CLAMP(OUTPUT_KEPT - (ssize_t)o->head->len, 0, n);
	/* The rest of a character that begins there; a character has at most four bytes. */
	while (!o->tail->len && room < n && o->head->len + room < OUTPUT_KEPT + 3 &&
	       continues(text[room]))
		room++;
	g_string_append_len(o->head, text, room);
	g_string_append_len(o->tail, text + room, n - room);
	most = 2 * OUTPUT_KEPT - MAX(o->head->len, OUTPUT_KEPT);
	if (o->tail->len > most) {
		extra = o->tail->len - most;
		while (extra < o->tail->len - most + 3 && continues(o->tail->str[extra]))
			extra++;
		g_string_erase(o->tail, 0, extra);
	}
	o->size += n;
	o->changed = true;
}

void output_write(struct output *o, __s64 run)
{
	char *head, *tail;

	if (!o->changed)
		return;
	/* Databases take text only. */
	head = g_utf8_make_valid(o->head->str, o->head->len);
	tail = g_utf8_make_valid(o->tail->str, o->tail->len);
	store_write(OUTPUT, N(db->now()), N(o->size), S(head), S(tail), N(run));
	g_free(head);
	g_free(tail);
	o->changed = false;
}

void output_close(struct output *o)
{
	stop_reading(o);
	if (o->head) {
		g_string_free(o->head, true);
		g_string_free(o->tail, true);
	}
	*o = (struct output){ .fd = -1 };
}
