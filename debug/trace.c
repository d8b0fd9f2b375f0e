// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimer: what tracepoints are made of.
 */
#define CREATE_TRACE_POINTS
#include "trace.h"
