/* SPDX-License-Identifier: LGPL-2.1-or-later OR MIT */
/*
 * dispatch: assign runs that are offered to executors.
 */
#ifndef DISPATCH_H
#define DISPATCH_H

/* Assign each run that nobody holds, if there is an executor for it. Otherwise it waits. */
void dispatch(void);

#endif /* DISPATCH_H */
