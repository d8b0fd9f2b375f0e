// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimer: the commands of /dev/hwtimer by io_uring, IORING_OP_URING_CMD.
 *
 * They are the short ioctls, which take no mutex whose holder may fault in a page of the program.
 * dev/ioctl.c executes them, and all complete within the call. They run in the submitting task, in
 * an io-wq worker, or in the thread of IORING_SETUP_SQPOLL. The latter two are threads of a
 * program: workers of the one that submits, SQPOLL of the one that set up the io_uring. They have
 * its memory, namespaces and cgroups, and its credentials when it submitted or set up, unless the
 * entry names a personality. So "current" is right for whatever an ioctl asks of it: memory, and
 * CAP_SYS_RESOURCE. The user and the clock of a context are those of open(2).
 *
 * None of them returns -EAGAIN to be executed in an io-wq worker instead (IO_URING_F_NONBLOCK), not
 * even a SCHEDULE that has to make a wheel or wait for a RESIZE. From Linux 6.8 to 6.13, io_uring
 * keeps no copy of the entry for that: the worker would read the program's entry again, which by
 * then may be another one. A program that does not want to wait sets IOSQE_ASYNC.
 */
#include <linux/errno.h>
#include <linux/kernel.h>

#include "../hwtimer_compat.h"
#include "../uapi/linux/hwtimer.h"
#include "ioctl.h"
#include "uring.h"

/* The payload is at the end of the entry. */
static_assert(sizeof(struct hwtimer_uring_cmd) <=
	      sizeof(struct io_uring_sqe) - offsetof(struct io_uring_sqe, cmd));

/**
 * hwtimer_dev_uring_cmd - execute a command of io_uring
 * @cmd: the command; its payload, which may be in memory shared with the program, is a struct
 *	hwtimer_uring_cmd
 * @issue_flags: to be passed to io_uring_cmd_done()
 *
 * Return: the result for the completion, which is that of the ioctl; -EIOCBQUEUED: it has been
 * completed here.
 */
int hwtimer_dev_uring_cmd(struct io_uring_cmd *cmd, unsigned int issue_flags)
{
	const struct hwtimer_uring_cmd *payload = hwtimer_uring_payload(cmd);
	u64 arg = READ_ONCE(payload->arg);
	long ret;

	if (cmd->flags & IORING_URING_CMD_MASK || READ_ONCE(payload->pad))
		return -EINVAL;
	ret = hwtimer_dev_command(cmd->file, cmd->cmd_op, u64_to_user_ptr(arg), true);
	if (ret != -EAGAIN)
		return ret;
	/* The context is at its cap. If this were returned, io_uring would try again. */
	io_uring_cmd_done(cmd, ret, issue_flags);
	return -EIOCBQUEUED;
}
