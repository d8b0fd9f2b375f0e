// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
/*
 * libhwtimer: handles as a whole.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/epoll.h>

#include "process.h"

/* hwtimer_options.flags that exclude each other. */
#define WHERE	(HWTIMER_OPEN_DEVICE | HWTIMER_OPEN_PROCESS | HWTIMER_OPEN_VIRTUAL)
/* Slot 0 is not used. */
#define HANDLE_MOST	(HWTIMER_MAX_SLOTS - 1)

static int options_copy(struct hwtimer_options *to, const struct hwtimer_options *from)
{
	unsigned int where;
	size_t i;

	memset(to, 0, sizeof(*to));
	if (from) {
		if (from->size < sizeof(from->size))
			return -EINVAL;
		for (i = sizeof(*to); i < from->size; i++)
			if (((const char *)from)[i])
				return -E2BIG;
		memcpy(to, from, from->size < sizeof(*to) ? from->size : sizeof(*to));
	}
	to->timeouts = to->timeouts ?: HWTIMER_FREE_SLOTS - 1;
	where = to->flags & WHERE;
	if (to->flags & ~(HWTIMER_OPEN_THREADS | HWTIMER_OPEN_BOOTTIME | WHERE) ||
	    where & (where - 1) || to->timeouts > HANDLE_MOST)
		return -EINVAL;
	return 0;
}

/* What a handle needs besides its table. */
static int handle_complete(struct hwtimer *h)
{
	struct epoll_event event = { .events = EPOLLIN };

	if (madvise(h, OWN_SIZE, MADV_WIPEONFORK))
		return -errno;
	if (!h->threads)
		return 0;
	h->epfd = epoll_create1(EPOLL_CLOEXEC);
	if (h->epfd < 0 || epoll_ctl(h->epfd, EPOLL_CTL_ADD, h->t.fd, &event))
		return -errno;
	return 0;
}

static int device_open(struct hwtimer *h, const struct hwtimer_options *o)
{
	struct hwtimer_setup setup = {
		.tick_ns = o->tick_ns,
		.slack_ns = o->slack_ns,
		.clockid = h->clockid,
		.flags = HWTIMER_SETUP_TABLE,
	};

	h->t.fd = open(o->device ?: "/dev/hwtimer", O_RDWR | O_CLOEXEC);
	if (h->t.fd < 0 || ioctl(h->t.fd, HWTIMER_IOC_SETUP, &setup))
		return -errno;
	h->tick_ns = setup.tick_ns;
	return table_map(&h->t);
}

/* Is there no device for this program, as opposed to one that does not do what was asked for? */
static bool device_missing(int error)
{
	return error == -ENOENT || error == -ENXIO || error == -ENODEV || error == -EACCES ||
	       error == -EPERM || error == -EOPNOTSUPP;
}

static int handle_setup(struct hwtimer *h, const struct hwtimer_options *o)
{
	bool device = o->device || o->flags & HWTIMER_OPEN_DEVICE;
	int ret = -ENOENT;

	if (!(o->flags & (HWTIMER_OPEN_PROCESS | HWTIMER_OPEN_VIRTUAL)))
		ret = device_open(h, o);
	if (!device && device_missing(ret)) {
		if (h->t.fd >= 0)
			close(h->t.fd);
		h->t.fd = -1;
		ret = hwtimer_process_open(h, o);
	}
	return ret;
}

/* The most slots that may be mapped. @info: of a table that there is, or NULL. */
static uint32_t handle_most(const struct hwtimer_options *o, const struct hwtimer_info *info)
{
	/* GROW adds as many slots as fill a page of nodes of two pointers each, in the kernel. */
	uint32_t step = sysconf(_SC_PAGESIZE) / 8, most = (o->timeouts + step) / step * step;

	/* GROW may have made a ring, and then not all slots. */
	while (info && info->rings >> 1 && most < step << (31 - __builtin_clz(info->rings)))
		most *= 2;
	return most;
}

static size_t handle_size(uint32_t most)
{
	return sizeof(struct hwtimer) + most * sizeof(uint64_t);
}

/* A handle for which nothing is open yet; NULL: no memory. */
static struct hwtimer *handle_new(const struct hwtimer_options *o, const struct hwtimer_info *info)
{
	uint32_t most = handle_most(o, info);
	struct hwtimer *h = memory_map(handle_size(most));

	if (!h)
		return NULL;
	h->own.alive = 1;
	h->own.latest_ns = TABLE_NEVER;
	/* Whatever others write to slot 0, it is not in use. */
	h->link[0] = ~0ULL;
	h->threads = o->flags & HWTIMER_OPEN_THREADS;
	h->clockid = o->flags & HWTIMER_OPEN_VIRTUAL ? CLOCK_VIRTUAL :
		     o->flags & HWTIMER_OPEN_BOOTTIME ? CLOCK_BOOTTIME : CLOCK_MONOTONIC;
	h->max = o->timeouts + 1;
	h->fresh = 1;
	h->shard_mask = h->threads ? SHARDS - 1 : 0;
	h->epfd = -1;
	h->t.fd = -1;
	h->t.page = sysconf(_SC_PAGESIZE);
	h->t.max = most;
	pthread_mutex_init(&h->lock, NULL);
	pthread_mutex_init(&h->repeat_lock, NULL);
	return h;
}

/*
 * Take over the slots of a handle that is gone. Its program may have been killed in the middle of
 * anything, and the kernel may be in the middle of a list that it has pushed. So all that is armed
 * is pushed anew, and then taken by the kernel, to which the other slots are unknown. How far the
 * generations of free slots have come is not known: they go on with the next tag.
 */
static void slots_adopt(struct hwtimer *h)
{
	struct table *t = &h->t;
	uint64_t word, tag;
	uint32_t i;

	for (i = 0; i < t->slots; i++)
		table_store(&t->slot[i].next, HWTIMER_LINK_NONE);
	table_store(&t->head->pushed, HWTIMER_LINK_END);
	if (t->slots)
		h->fresh = t->slots < h->max ? t->slots : h->max;
	for (i = h->fresh; --i;) {
		word = table_load(&t->slot[i].word);
		tag = table_load(&t->slot[i].tag) + !word;
		h->link[i] = tag << 32 | (uint32_t)(word | ALWAYS) << INDEX_BITS | i;
		table_store(&t->slot[i].visit, word ? 0 : ~0ULL);
		if (word)
			table_push(t, i);
		else
			hwtimer_slot_free(h, i);
	}
	/* What the kernel publishes then is right, whatever was written there. */
	table_enter(t);
}

static void counts_adopt(struct hwtimer *h)
{
	struct shard *s = &h->own.shard[0];

	s->armed = table_load(&h->t.head->armed);
	s->touched = table_load(&h->t.head->touched);
	s->cancelled = table_load(&h->t.head->cancelled);
	s->expired = table_load(&h->t.head->expired);
}

/* Map the table of a handle that is gone. */
static int handle_resume(struct hwtimer *h, int fd, const struct hwtimer_info *info)
{
	h->clockid = info->clockid;
	h->tick_ns = info->tick_ns;
	h->t.fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	return h->t.fd < 0 ? -errno : table_map(&h->t);
}

/* @info: of the table of @fd; NULL: make one. */
static int handle_open(struct hwtimer **to, const struct hwtimer_options *o, int fd,
		       const struct hwtimer_info *info)
{
	struct hwtimer *h = handle_new(o, info);
	int ret, state;

	if (!h)
		return -ENOMEM;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	ret = info ? handle_resume(h, fd, info) : handle_setup(h, o);
	if (!ret)
		ret = handle_complete(h);
	if (!ret && info) {
		counts_adopt(h);
		slots_adopt(h);
		ret = hwtimer_map(h);
	}
	if (ret)
		hwtimer_close(h);
	else
		*to = h;
	pthread_setcancelstate(state, NULL);
	return ret;
}

int hwtimer_open(struct hwtimer **to, const struct hwtimer_options *options)
{
	struct hwtimer_options o;
	int ret = options_copy(&o, options);

	*to = NULL;
	return ret ?: handle_open(to, &o, -1, NULL);
}

int hwtimer_open_fd(struct hwtimer **to, int fd, const struct hwtimer_options *options)
{
	struct hwtimer_options o;
	struct hwtimer_info info;
	int ret = options_copy(&o, options);

	*to = NULL;
	if (ret)
		return ret;
	if (o.device || o.tick_ns || o.slack_ns ||
	    o.flags & (HWTIMER_OPEN_BOOTTIME | HWTIMER_OPEN_PROCESS | HWTIMER_OPEN_VIRTUAL))
		return -EINVAL;
	if (ioctl(fd, HWTIMER_IOC_INFO, &info))
		return -errno;
	if (!(info.flags & HWTIMER_SETUP_TABLE))
		return -EOPNOTSUPP;
	if (info.offset_ns)
		return -EXDEV;
	if (o.timeouts < info.slots)
		o.timeouts = info.slots - 1;
	return handle_open(to, &o, fd, &info);
}

void hwtimer_close(struct hwtimer *h)
{
	int state;

	if (!h)
		return;
	/* close(2) must not be the end of a thread that is to be cancelled. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	/* A child does not have the kernel's table; at its place there may be something else. */
	if (handle_alive(h) || h->process)
		table_close(&h->t);
	if (h->epfd >= 0)
		close(h->epfd);
	if (h->t.fd >= 0)
		close(h->t.fd);
	if (h->repeat)
		munmap(h->repeat, h->t.max * sizeof(*h->repeat));
	pthread_mutex_destroy(&h->repeat_lock);
	pthread_mutex_destroy(&h->lock);
	hwtimer_process_free(h);
	munmap(h, handle_size(h->t.max));
	pthread_setcancelstate(state, NULL);
}

int hwtimer_fd(const struct hwtimer *h)
{
	return h->t.fd;
}

bool hwtimer_in_process(const struct hwtimer *h)
{
	return h->process;
}

uint64_t hwtimer_tick_ns(const struct hwtimer *h)
{
	return h->tick_ns;
}

uint64_t hwtimer_now(const struct hwtimer *h)
{
	return handle_now(h);
}

int hwtimer_advance(struct hwtimer *h, uint64_t ns)
{
	if (!handle_alive(h))
		return -EPERM;
	return h->clockid == CLOCK_VIRTUAL ? hwtimer_process_advance(h, ns) : -EINVAL;
}

/* Stop the handle if it was not known to be, with @lock held. */
int hwtimer_ended(struct hwtimer *h)
{
	if (h->ended)
		return 0;
	if (h->process)
		hwtimer_process_stop(h);
	else if (ioctl(h->t.fd, HWTIMER_IOC_STOP))
		return -errno;
	h->ended = true;
	table_store(&h->own.slots, 0);
	if (!h->threads)
		h->own.usual = 0;
	return 0;
}

int hwtimer_stop(struct hwtimer *h)
{
	int ret;

	if (!handle_alive(h))
		return -EPERM;
	pthread_mutex_lock(&h->lock);
	ret = hwtimer_ended(h);
	pthread_mutex_unlock(&h->lock);
	return ret;
}

int hwtimer_stats(struct hwtimer *h, struct hwtimer_stats *stats, size_t size)
{
	if (!handle_alive(h))
		return -EPERM;
	if (size > _IOC_SIZEMASK)
		return -E2BIG;
	if (h->process && size < sizeof(*stats))
		return -EINVAL;
	memset(stats, 0, size);
	if (h->process) {
		hwtimer_process_stats(h, stats);
		return 0;
	}
	return ioctl(h->t.fd, _IOC(_IOC_READ, HWTIMER_IOC_MAGIC, _IOC_NR(HWTIMER_IOC_STATS), size),
		     stats) ? -errno : 0;
}
