// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
/*
 * The native methods of hwtimer/HwTimer.java: each is one call of libhwtimer. None but await,
 * which waits for many events at once, takes anything but numbers.
 */
#include <errno.h>
#include <jni.h>
#include <libhwtimer.h>
#include <string.h>

#include "hwtimer_HwTimer.h"

#define HANDED_BACK (1LL << 62)

static __thread int last_error;

static struct hwtimer *handle_of(jlong handle)
{
	return (struct hwtimer *)(intptr_t)handle;
}

JNIEXPORT jlong JNICALL Java_hwtimer_HwTimer_open(JNIEnv *env, jclass class)
{
	struct hwtimer_options options = {
		.size = sizeof(options),
		.flags = HWTIMER_OPEN_THREADS,
		.timeouts = HWTIMER_MAX_SLOTS - 2,
	};
	struct hwtimer *h;

	(void)env;
	(void)class;
	last_error = -hwtimer_open(&h, &options);
	return (intptr_t)h;
}

JNIEXPORT void JNICALL Java_hwtimer_HwTimer_close(JNIEnv *env, jclass class, jlong handle)
{
	(void)env;
	(void)class;
	hwtimer_close(handle_of(handle));
}

JNIEXPORT jlong JNICALL Java_hwtimer_HwTimer_now(JNIEnv *env, jclass class, jlong handle)
{
	(void)env;
	(void)class;
	return (jlong)hwtimer_now(handle_of(handle));
}

JNIEXPORT jlong JNICALL Java_hwtimer_HwTimer_schedule(JNIEnv *env, jclass class, jlong handle,
						      jlong deadline, jlong cookie)
{
	hwtimer_id id;

	(void)env;
	(void)class;
	last_error = -hwtimer_schedule_at(handle_of(handle), (uint64_t)deadline, (uint64_t)cookie,
					  &id);
	return last_error ? 0 : (jlong)id;
}

JNIEXPORT jint JNICALL Java_hwtimer_HwTimer_touch(JNIEnv *env, jclass class, jlong handle, jlong id,
						  jlong deadline)
{
	(void)env;
	(void)class;
	return hwtimer_touch_at(handle_of(handle), (hwtimer_id)id, (uint64_t)deadline);
}

JNIEXPORT jint JNICALL Java_hwtimer_HwTimer_cancel(JNIEnv *env, jclass class, jlong handle,
						   jlong id)
{
	(void)env;
	(void)class;
	return hwtimer_cancel(handle_of(handle), (hwtimer_id)id);
}

JNIEXPORT jint JNICALL Java_hwtimer_HwTimer_await(JNIEnv *env, jclass class, jlong handle,
						  jlongArray cookies)
{
	struct hwtimer_event event;
	jlong found[256];
	int n = 0, ret;

	(void)class;
	do {
		ret = hwtimer_wait(handle_of(handle), &event, n ? 0 : -1);
		if (ret > 0)
			found[n++] = (jlong)event.user_data |
				     (event.kind == HWTIMER_KIND_HANDED_BACK ? HANDED_BACK : 0);
	} while (ret == -EINTR || (ret > 0 && n < (int)(sizeof(found) / sizeof(*found))));
	if (n)
		(*env)->SetLongArrayRegion(env, cookies, 0, n, found);
	return n ?: ret;
}

JNIEXPORT jint JNICALL Java_hwtimer_HwTimer_shutdown(JNIEnv *env, jclass class, jlong handle)
{
	(void)env;
	(void)class;
	return hwtimer_stop(handle_of(handle));
}

JNIEXPORT jint JNICALL Java_hwtimer_HwTimer_lastError(JNIEnv *env, jclass class)
{
	(void)env;
	(void)class;
	return last_error;
}

JNIEXPORT jboolean JNICALL Java_hwtimer_HwTimer_isShutdown(JNIEnv *env, jclass class, jint error)
{
	(void)env;
	(void)class;
	return error == ESHUTDOWN;
}

JNIEXPORT jstring JNICALL Java_hwtimer_HwTimer_text(JNIEnv *env, jclass class, jint error)
{
	(void)class;
	return (*env)->NewStringUTF(env, strerror(error));
}
