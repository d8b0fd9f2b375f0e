// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
/*
 * _hwtimer: libhwtimer for Python, as far as the module hwtimer calls it for each timeout.
 *
 *	timers = _hwtimer.Timers()
 *	timer = timers.schedule(time.monotonic() + 30, object)
 *	timer.touch(time.monotonic() + 30)
 *	timer.cancel()
 *	objects = timers.expired()	# when timers.fileno() is readable
 *
 * A timer that is pending is in the list of its Timers, which has a reference to it. It has one to
 * its object. The event of its timeout has its address as user_data, and is the only one, and there
 * is none after a cancel; so the address is valid.
 *
 * The list lets the garbage collector see the objects, which may have references to the Timers. It
 * does not see timers: only the list and the user of a timer have references to these.
 *
 * The GIL protects all of it: no function of the library that is called here waits. In a child of
 * fork(), which may not use the parent's handle, timers can be cancelled and closed, without effect
 * on the parent.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <errno.h>
#include <math.h>
#include <pthread.h>

#include <libhwtimer.h>

#define NEVER_S	1e10	/* from this time on, it is never */
#define BATCH	64

struct timers;

/**
 * struct timer - a timeout
 * @next: the next one in the list
 * @link: what points to this one
 * @timers: the Timers; valid while it is pending
 * @id: of the library
 * @object: what expired() returns; NULL: it is not pending
 */
struct timer {
	PyObject_HEAD
	struct timer	*next;
	struct timer	**link;
	struct timers	*timers;
	hwtimer_id	id;
	PyObject	*object;
};

/**
 * struct timers - the timeouts of a handle
 * @h: the handle; NULL: closed
 * @forks: the value of forks when it was opened
 * @pending: the list
 */
struct timers {
	PyObject_HEAD
	struct hwtimer	*h;
	unsigned int	forks;
	struct timer	*pending;
};

/* How many times fork() has made this process or an ancestor. */
static unsigned int forks;

static void forked(void)
{
	forks++;
}

/* Raise OSError for -errno. */
static PyObject *failure(int err)
{
	errno = -err;
	return PyErr_SetFromErrno(PyExc_OSError);
}

/* May the library be called? Otherwise an exception is set. */
static bool usable(const struct timers *timers)
{
	if (timers->h && timers->forks == forks)
		return true;
	PyErr_SetString(PyExc_RuntimeError,
			timers->h ? "the timers are the parent's" : "the timers are closed");
	return false;
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
	exact = ceil(fmax(seconds, 0) * 1e9);
	if (exact / 1e9 < seconds)
		exact = ceil(nextafter(exact, INFINITY));
	*ns = exact;
	return true;
}

/* A timer is no longer pending. Returns its object. */
static PyObject *end(struct timer *t)
{
	PyObject *object = t->object;

	t->object = NULL;
	*t->link = t->next;
	if (t->next)
		t->next->link = t->link;
	Py_DECREF(t);
	return object;
}

static PyObject *timer_cancel(struct timer *t, PyObject *unused)
{
	int ret;

	(void)unused;
	if (!t->object)
		Py_RETURN_FALSE;
	/* There is no handle while clear() frees objects, of which one may call this. */
	ret = t->timers->h && t->timers->forks == forks ? hwtimer_cancel(t->timers->h, t->id) : 0;
	if (ret)
		return failure(ret);
	Py_DECREF(end(t));
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
	if (!usable(t->timers))
		return NULL;
	ret = hwtimer_touch_at(t->timers->h, t->id, ns);
	if (ret)
		return failure(ret);
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

static PyObject *timers_schedule(struct timers *timers, PyObject *const *args, Py_ssize_t nr)
{
	struct timer *t;
	uint64_t ns;
	int ret;

	if (nr != 2)
		return PyErr_Format(PyExc_TypeError, "schedule() takes 2 arguments, not %zd", nr);
	if (!to_ns(args[0], &ns) || !usable(timers))
		return NULL;
	t = PyObject_New(struct timer, &timer_type);
	if (!t)
		return NULL;
	t->object = NULL;
	ret = hwtimer_schedule_at(timers->h, ns, (uintptr_t)t, &t->id);
	if (ret) {
		Py_DECREF(t);
		return failure(ret);
	}
	t->timers = timers;
	t->object = Py_NewRef(args[1]);
	t->next = timers->pending;
	if (t->next)
		t->next->link = &t->next;
	t->link = &timers->pending;
	timers->pending = t;
	return Py_NewRef(t);
}

static PyObject *timers_expired(struct timers *timers, PyObject *const *args, Py_ssize_t nr)
{
	struct hwtimer_event events[BATCH];
	long most = nr ? PyLong_AsLong(args[0]) : BATCH;
	PyObject *list;
	int n, i;

	if (PyErr_Occurred())
		return NULL;
	if (most < 1 || most > BATCH)
		most = BATCH;
	/* The memory comes first: no event may be lost for lack of it. */
	list = PyList_New(most);
	if (!list)
		return NULL;
	/* Only now: the garbage collector may have run what closes them. */
	if (!usable(timers)) {
		Py_DECREF(list);
		return NULL;
	}
	n = hwtimer_wait(timers->h, events, most, 0);
	for (i = 0; i < n; i++)
		PyList_SET_ITEM(list, i, end((struct timer *)(uintptr_t)events[i].user_data));
	Py_SET_SIZE(list, n > 0 ? n : 0);
	if (n >= 0)
		return list;
	Py_DECREF(list);
	return failure(n);
}

static PyObject *timers_fileno(struct timers *timers, PyObject *unused)
{
	(void)unused;
	return usable(timers) ? PyLong_FromLong(hwtimer_fd(timers->h)) : NULL;
}

static PyObject *timers_shrink(struct timers *timers, PyObject *unused)
{
	int ret;

	(void)unused;
	if (!usable(timers))
		return NULL;
	ret = hwtimer_shrink(timers->h);
	if (ret)
		return failure(ret);
	Py_RETURN_NONE;
}

/* Also tp_clear */
static int clear(struct timers *timers)
{
	struct hwtimer *h = timers->h;

	timers->h = NULL;
	hwtimer_close(h);
	/* An object that is freed may do anything, but it cannot schedule any more. */
	while (timers->pending)
		Py_DECREF(end(timers->pending));
	return 0;
}

static PyObject *timers_close(struct timers *timers, PyObject *unused)
{
	(void)unused;
	clear(timers);
	Py_RETURN_NONE;
}

static PyObject *timers_usable(struct timers *timers, void *unused)
{
	(void)unused;
	return PyBool_FromLong(timers->h && timers->forks == forks);
}

static PyObject *timers_pending(struct timers *timers, void *unused)
{
	const struct timer *t;
	long n = 0;

	(void)unused;
	for (t = timers->pending; t; t = t->next)
		n++;
	return PyLong_FromLong(n);
}

static int timers_traverse(struct timers *timers, visitproc visit, void *arg)
{
	struct timer *t;

	for (t = timers->pending; t; t = t->next)
		Py_VISIT(t->object);
	return 0;
}

static void timers_dealloc(struct timers *timers)
{
	PyObject_GC_UnTrack(timers);
	clear(timers);
	Py_TYPE(timers)->tp_free((PyObject *)timers);
}

static PyObject *timers_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
	static char *names[] = { "timeouts", "device", NULL };
	struct hwtimer_options options = { .size = sizeof(options) };
	struct timers *timers;
	long long timeouts = 0;
	int ret;

	if (!PyArg_ParseTupleAndKeywords(args, keywords, "|Lz", names, &timeouts, &options.device))
		return NULL;
	options.timeouts = timeouts;
	if (options.timeouts != timeouts) {
		PyErr_SetString(PyExc_OverflowError, "timeouts: below 0, or too many");
		return NULL;
	}
	timers = (struct timers *)type->tp_alloc(type, 0);
	if (!timers)
		return NULL;
	timers->forks = forks;
	ret = hwtimer_open(&timers->h, &options);
	if (!ret)
		return (PyObject *)timers;
	Py_DECREF(timers);
	errno = -ret;
	return PyErr_SetFromErrnoWithFilename(PyExc_OSError, options.device ?: "/dev/hwtimer");
}

static PyMethodDef timers_methods[] = {
	{ "schedule", (PyCFunction)(void (*)(void))timers_schedule, METH_FASTCALL,
	  "schedule(when, object) -> Timer, which expires at when, a time of time.monotonic()" },
	{ "expired", (PyCFunction)(void (*)(void))timers_expired, METH_FASTCALL,
	  "expired(most=64) -> the objects of timers that have expired" },
	{ "fileno", (PyCFunction)timers_fileno, METH_NOARGS,
	  "fileno() -> a descriptor that is readable when expired() may return objects" },
	{ "shrink", (PyCFunction)timers_shrink, METH_NOARGS,
	  "Give back memory that is not in use." },
	{ "close", (PyCFunction)timers_close, METH_NOARGS,
	  "Cancel all timers." },
	{ NULL }
};

static PyGetSetDef timers_properties[] = {
	{ "usable", (getter)timers_usable, NULL,
	  "False if it is closed, or was opened before fork().", NULL },
	{ "pending", (getter)timers_pending, NULL,
	  "How many timers are pending; they are counted one by one.", NULL },
	{ NULL }
};

static PyTypeObject timers_type = {
	PyVarObject_HEAD_INIT(NULL, 0)
	.tp_name	= "_hwtimer.Timers",
	.tp_doc		= "Timers(timeouts=0, device=None): at most so many; 0: the system's limit",
	.tp_basicsize	= sizeof(struct timers),
	.tp_flags	= Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
	.tp_new		= timers_new,
	.tp_dealloc	= (destructor)timers_dealloc,
	.tp_traverse	= (traverseproc)timers_traverse,
	.tp_clear	= (inquiry)clear,
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

	if (!m)
		return NULL;
	if (!pthread_atfork(NULL, NULL, forked) && !PyModule_AddType(m, &timer_type) &&
	    !PyModule_AddType(m, &timers_type))
		return m;
	Py_DECREF(m);
	return NULL;
}
