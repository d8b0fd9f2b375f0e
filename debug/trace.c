// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimer: definitions of the tracepoints.
 */
#define CREATE_TRACE_POINTS
#include "trace.h"
