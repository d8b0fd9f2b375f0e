// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
/*
 * _hwtimer: libhwtimer for Python, as far as the module hwtimer calls it for each timeout.
 *
 *	timers = _hwtimer.Timers()
 *	timer = timers.schedule(time.monotonic() + 30, object)
 *	timer.touch(time.monotonic() + 30)
 *	timer.cancel()
 *	objects = list(timers)	# that have expired, when timers.fileno() is readable
 *
 * A timer that is pending is in the array of its Timers, which has a reference to it, and it has
 * one to its object. So the garbage collector, which does not see timers, finds the objects, which
 * may have references to the Timers.
 *
 * The place in the array is the index in the id of the timeout. Of an event, this is all that is
 * used: whoever else has the descriptor can write the user_data and the rest of the id, but not
 * make the library return an event for an index that is not in use.
 *
 * The GIL protects all of it: no function of the library that is called here waits. In a child of
 * fork(), which may not use the parent's handle, timers can be cancelled and closed, without effect
 * on the parent.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <errno.h>
#include <math.h>

#include "libhwtimer.h"

#define NEVER_S		1e10	/* from this time on, it is never */
#define INDEX_MASK	0xffffffU	/* of an id */

struct timers;

/**
 * struct timer - a timeout
 * @timers: the Timers; valid while it is pending
 * @id: of the library
 * @object: what is returned when it expires; NULL: it is not pending
 */
struct timer {
	PyObject_HEAD
	struct timers	*timers;
	hwtimer_id	id;
	PyObject	*object;
};

/**
 * struct timers - the timeouts of a handle
 * @h: the handle; NULL: closed
 * @timer: those that are pending, by index; NULL: there is none
 * @size: the size of @timer
 * @pending: how many are pending
 */
struct timers {
	PyObject_HEAD
	struct hwtimer	*h;
	struct timer	**timer;
	size_t		size;
	size_t		pending;
};

/* Is this a child of the process that has opened the handle? No timeout has the id 0. */
static bool inherited(const struct timers *timers)
{
	struct hwtimer_state state;

	return hwtimer_query(timers->h, 0, &state) == -EPERM;
}

/* Raise an exception for -errno. */
static PyObject *failure(const struct timers *timers, int err)
{
	if (err == -EPERM && inherited(timers)) {
		PyErr_SetString(PyExc_RuntimeError, "the timers are the parent's");
		return NULL;
	}
	errno = -err;
	return PyErr_SetFromErrno(PyExc_OSError);
}

/* Otherwise an exception is set. */
static bool is_open(const struct timers *timers)
{
	if (!timers->h)
		PyErr_SetString(PyExc_RuntimeError, "the timers are closed");
	return timers->h;
}

/* A time of time.monotonic() in ns, such that time.monotonic() shows no less than it then. */
static bool to_ns(PyObject *when, uint64_t *ns)
{
	double seconds = PyFloat_AsDouble(when), exact;

	if (seconds == -1.0 && PyErr_Occurred())
		return false;
	if (isnan(seconds)) {
		PyErr_SetString(PyExc_ValueError, "the time is not a number");
		return false;
	}
	*ns = HWTIMER_NEVER;
	if (seconds >= NEVER_S)
		return true;
	exact = rint(fmax(seconds, 0) * 1e9);
	if (exact / 1e9 < seconds)
		exact = ceil(nextafter(exact, INFINITY));
	*ns = exact;
	return true;
}

/* A timer is no longer pending. Returns its object. */
static PyObject *timer_end(struct timer *t)
{
	struct timers *timers = t->timers;
	PyObject *object = t->object;

	t->object = NULL;
	timers->timer[t->id & INDEX_MASK] = NULL;
	timers->pending--;
	Py_DECREF(t);
	return object;
}

static PyObject *timer_cancel(struct timer *t, PyObject *unused)
{
	(void)unused;
	if (!t->object)
		Py_RETURN_FALSE;
	/*
	 * There is no handle while timers_clear() frees objects, of which one may call this. An
	 * error means that this is a child, or that another holder of the descriptor has ended it.
	 */
	if (t->timers->h)
		hwtimer_cancel(t->timers->h, t->id);
	Py_DECREF(timer_end(t));
	Py_RETURN_TRUE;
}

static PyObject *timer_touch(struct timer *t, PyObject *when)
{
	uint64_t ns;
	int ret;

	if (!to_ns(when, &ns))
		return NULL;
	if (!t->object)
		Py_RETURN_FALSE;
	if (!is_open(t->timers))
		return NULL;
	ret = hwtimer_touch_at(t->timers->h, t->id, ns);
	if (ret)
		return failure(t->timers, ret);
	Py_RETURN_TRUE;
}

static PyMethodDef timer_methods[] = {
	{ "cancel", (PyCFunction)timer_cancel, METH_NOARGS,
	  "cancel() -> was it pending?" },
	{ "touch", (PyCFunction)timer_touch, METH_O,
	  "touch(when) -> is it pending? It expires at when instead." },
	{ NULL }
};

static PyTypeObject timer_type = {
	PyVarObject_HEAD_INIT(NULL, 0)
	.tp_name	= "_hwtimer.Timer",
	.tp_doc		= "A timer of Timers.schedule(). It is true.",
	.tp_basicsize	= sizeof(struct timer),
	.tp_flags	= Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
	.tp_methods	= timer_methods,
};

/* Have a place for this index. */
static bool timers_grow(struct timers *timers, size_t index)
{
	size_t size = timers->size ?: 64;
	struct timer **timer;

	if (index < timers->size)
		return true;
	while (size <= index)
		size *= 2;
	timer = PyMem_Realloc(timers->timer, size * sizeof(*timer));
	if (!timer)
		return false;
	memset(timer + timers->size, 0, (size - timers->size) * sizeof(*timer));
	timers->timer = timer;
	timers->size = size;
	return true;
}

static PyObject *timers_schedule(struct timers *timers, PyObject *const *args, Py_ssize_t nr)
{
	struct timer *t;
	uint64_t ns;
	int ret;

	if (nr != 2)
		return PyErr_Format(PyExc_TypeError, "schedule() takes 2 arguments, not %zd", nr);
	if (!to_ns(args[0], &ns) || !is_open(timers))
		return NULL;
	t = PyObject_New(struct timer, &timer_type);
	if (!t)
		return NULL;
	t->object = NULL;
	ret = hwtimer_schedule_at(timers->h, ns, 0, &t->id);
	if (ret) {
		Py_DECREF(t);
		return failure(timers, ret);
	}
	if (!timers_grow(timers, t->id & INDEX_MASK)) {
		hwtimer_cancel(timers->h, t->id);
		Py_DECREF(t);
		return PyErr_NoMemory();
	}
	t->timers = timers;
	t->object = Py_NewRef(args[1]);
	timers->timer[t->id & INDEX_MASK] = t;
	timers->pending++;
	return Py_NewRef(t);
}

static PyObject *timers_next(struct timers *timers)
{
	struct hwtimer_event event;
	size_t index;
	int ret;

	if (!is_open(timers))
		return NULL;
	while ((ret = hwtimer_wait(timers->h, &event, 0)) > 0) {
		index = event.id & INDEX_MASK;
		/* What was cancelled after another holder had ended it may come back by him. */
		if (index < timers->size && timers->timer[index])
			return timer_end(timers->timer[index]);
	}
	return ret ? failure(timers, ret) : NULL;
}

static PyObject *timers_fileno(struct timers *timers, PyObject *unused)
{
	(void)unused;
	return is_open(timers) ? PyLong_FromLong(hwtimer_fd(timers->h)) : NULL;
}

/* Also tp_clear */
static int timers_clear(struct timers *timers)
{
	struct hwtimer *h = timers->h;
	size_t i;

	timers->h = NULL;
	hwtimer_close(h);
	/* An object that is freed may do anything, such as call this, but not schedule any more. */
	for (i = 0; i < timers->size; i++)
		if (timers->timer[i])
			Py_DECREF(timer_end(timers->timer[i]));
	PyMem_Free(timers->timer);
	timers->timer = NULL;
	timers->size = 0;
	return 0;
}

static PyObject *timers_close(struct timers *timers, PyObject *unused)
{
	(void)unused;
	timers_clear(timers);
	Py_RETURN_NONE;
}

static PyObject *timers_usable(struct timers *timers, void *unused)
{
	(void)unused;
	return PyBool_FromLong(timers->h && !inherited(timers));
}

static PyObject *timers_in_process(struct timers *timers, void *unused)
{
	(void)unused;
	return is_open(timers) ? PyBool_FromLong(hwtimer_in_process(timers->h)) : NULL;
}

static PyObject *timers_pending(struct timers *timers, void *unused)
{
	(void)unused;
	return PyLong_FromSize_t(timers->pending);
}

static int timers_traverse(struct timers *timers, visitproc visit, void *arg)
{
	size_t i;

	for (i = 0; i < timers->size; i++)
		if (timers->timer[i])
			Py_VISIT(timers->timer[i]->object);
	return 0;
}

static void timers_dealloc(struct timers *timers)
{
	PyObject_GC_UnTrack(timers);
	timers_clear(timers);
	Py_TYPE(timers)->tp_free((PyObject *)timers);
}

static PyObject *timers_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
	static char *names[] = { "timeouts", "in_process", NULL };
	struct hwtimer_options options = { .size = sizeof(options) };
	PyObject *in_process = Py_None;
	struct timers *timers;
	long long timeouts = 0;
	int ret;

	if (!PyArg_ParseTupleAndKeywords(args, keywords, "|LO", names, &timeouts, &in_process))
		return NULL;
	options.timeouts = timeouts;
	if (options.timeouts != timeouts) {
		PyErr_SetString(PyExc_OverflowError, "timeouts: below 0, or too many");
		return NULL;
	}
	if (in_process != Py_None) {
		ret = PyObject_IsTrue(in_process);
		if (ret < 0)
			return NULL;
		options.flags = ret ? HWTIMER_OPEN_PROCESS : HWTIMER_OPEN_DEVICE;
	}
	timers = (struct timers *)type->tp_alloc(type, 0);
	if (!timers)
		return NULL;
	ret = hwtimer_open(&timers->h, &options);
	if (!ret)
		return (PyObject *)timers;
	Py_DECREF(timers);
	errno = -ret;
	return options.flags == HWTIMER_OPEN_DEVICE ?
	       PyErr_SetFromErrnoWithFilename(PyExc_OSError, "/dev/hwtimer") :
	       PyErr_SetFromErrno(PyExc_OSError);
}

static PyMethodDef timers_methods[] = {
	{ "schedule", (PyCFunction)(void (*)(void))timers_schedule, METH_FASTCALL,
	  "schedule(when, object) -> Timer, which expires at when, a time of time.monotonic()" },
	{ "fileno", (PyCFunction)timers_fileno, METH_NOARGS,
	  "fileno() -> a descriptor that is readable when a timer may have expired" },
	{ "close", (PyCFunction)timers_close, METH_NOARGS,
	  "Cancel all timers." },
	{ NULL }
};

static PyGetSetDef timers_properties[] = {
	{ "usable", (getter)timers_usable, NULL,
	  "False if it is closed, or was opened before fork().", NULL },
	{ "in_process", (getter)timers_in_process, NULL,
	  "Are the timers in the process, not on the device?", NULL },
	{ "pending", (getter)timers_pending, NULL,
	  "How many timers are pending.", NULL },
	{ NULL }
};

static PyTypeObject timers_type = {
	PyVarObject_HEAD_INIT(NULL, 0)
	.tp_name	= "_hwtimer.Timers",
	.tp_doc		= "Timers(timeouts=0, in_process=None): at most so many; 0: 2^20 - 1.\n"
			  "In the process, on the device, or None: on the device if it can be opened.\n"
			  "Iterators: the objects of timers that have expired.",
	.tp_basicsize	= sizeof(struct timers),
	.tp_flags	= Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
	.tp_new		= timers_new,
	.tp_dealloc	= (destructor)timers_dealloc,
	.tp_traverse	= (traverseproc)timers_traverse,
	.tp_clear	= (inquiry)timers_clear,
	.tp_iter	= PyObject_SelfIter,
	.tp_iternext	= (iternextfunc)timers_next,
	.tp_methods	= timers_methods,
	.tp_getset	= timers_properties,
};

static struct PyModuleDef module = {
	PyModuleDef_HEAD_INIT,
	.m_name	= "_hwtimer",
	.m_doc	= "libhwtimer, for the module hwtimer.",
	.m_size	= -1,
};

PyMODINIT_FUNC PyInit__hwtimer(void)
{
	PyObject *m = PyModule_Create(&module);

	if (m && !PyModule_AddType(m, &timer_type) && !PyModule_AddType(m, &timers_type))
		return m;
	Py_XDECREF(m);
	return NULL;
}
