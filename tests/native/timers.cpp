// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimer.hpp: what the functions of timers may do, and how long delays are.
 */
#include <cmath>
#include <string>
#include <unistd.h>

#include <libhwtimer.h>

extern "C" {
#include "shim.h"
}

static uint64_t delay;

/* What hwtimer.hpp calls, to note the delay. */
static int schedule(hwtimer *h, uint64_t delay_ns, uint64_t user_data, hwtimer_id *id)
{
	delay = delay_ns;
	return hwtimer_schedule(h, delay_ns, user_data, id);
}

#undef hwtimer_schedule
#define hwtimer_schedule schedule
#include "hwtimer.hpp"

using namespace std::chrono_literals;
using seconds_in_float = std::chrono::duration<float>;
using seconds_in_double = std::chrono::duration<double>;

static void must(bool good, const char *what)
{
	if (!good)
		native_fail("%s", what);
}

/* Dispatch until so many functions were called, or threw. */
static void dispatch(hwt::context &context, int wanted)
{
	int n = 0, ms;

	for (ms = 0; n < wanted && ms < 20000; ms++) {
		try {
			n += context.dispatch();
		} catch (const std::string &) {
			n++;
		}
		usleep(1000);
	}
	must(n >= wanted, "not called");
}

/* A function keeps what it changes in itself, and may destroy its timer. */
static __u64 has_state()
{
	hwt::context context;
	std::unique_ptr<hwt::timer> timer;
	int seen = 0;

	timer = std::make_unique<hwt::timer>(context, [&, n = 0, text = std::string(99, 'x')]() mutable {
		text += 'y';
		seen = ++n;
		if (n < 3)
			timer->start(0ms);
		else
			timer.reset();
		must(text.size() == 99U + n, "another state");
	});
	timer->start(1ms);
	dispatch(context, 3);
	must(seen == 3 && !timer, "the function has lost its state");
	return 3;
}

/* What cannot be copied any more, as if there were no memory. */
struct fragile {
	fragile() = default;
	fragile(const fragile &)
	{
		if (broken)
			throw std::bad_alloc();
	}
	void operator()() const { calls++; }

	static bool broken;
	static int calls;
};

bool fragile::broken;
int fragile::calls;

/* An expiry takes no memory that there may not be. */
static __u64 is_not_copied()
{
	hwt::context context;
	hwt::timer timer(context, fragile());

	fragile::broken = true;
	timer.start(0ms);
	dispatch(context, 1);
	must(fragile::calls == 1 && !timer.pending(), "lost");
	timer.start(0ms);
	dispatch(context, 1);
	must(fragile::calls == 2, "lost");
	return 2;
}

/* What a function throws reaches the caller. Its timer, and others, can be used on. */
static __u64 throws()
{
	hwt::context context;
	int others = 0;
	hwt::timer first(context, [] { throw std::string("meant"); });
	hwt::timer second(context, [&] { others++; });

	first.start(0ms);
	second.start(0ms);
	dispatch(context, 2);
	must(others == 1 && !first.pending(), "an expiry is lost");
	first.start(0ms);
	dispatch(context, 1);
	return 3;
}

/* A timer that is always due again does not keep dispatch() from returning. */
static __u64 returns()
{
	hwt::context context;
	int calls = 0;
	hwt::timer timer(context, [&] {
		timer.start(0ms);
		native_usleep(5000);
		must(++calls < 100, "it does not return");
		if (calls >= 100)
			timer.cancel();
	});

	timer.start(0ms);
	dispatch(context, 3);
	return calls;
}

template <class Delay> static void delays(hwt::context &context, Delay asked, long double ns)
{
	hwt::timer timer(context, [] { });

	timer.start(asked);
	if (ns > 9e18L ? delay != HWTIMER_NEVER : delay < ns || delay > ns + 1)
		native_fail("a delay of %.0Lf ns has become %llu ns", ns,
			    static_cast<unsigned long long>(delay));
}

/* No delay is shorter than what was asked for, in whatever unit; what is no number never ends. */
static __u64 rounds_up()
{
	hwt::context context;
	int i;

	for (i = 1; i <= 100; i++) {
		delays(context, seconds_in_float(1e5f * i), 1e5f * i * 1e9L);
		delays(context, seconds_in_double(1e4 / i), 1e4 / i * 1e9L);
		delays(context, std::chrono::duration<long long, std::pico>(1000 * i - 1), i);
	}
	delays(context, -1s, 0);
	delays(context, std::chrono::hours::max(), 1e19L);
	delays(context, std::chrono::nanoseconds::max(), 1e19L);
	delays(context, seconds_in_double(1e300), 1e19L);
	delays(context, seconds_in_float(NAN), 1e19L);
	return 5 + 300;
}

/* A timer that hwtimer_stop() has ended is not pending, and its function is not called. */
static __u64 stopped()
{
	hwt::context context;
	bool called = false;
	hwt::timer timer(context, [&] { called = true; });

	timer.start(1h);
	must(!hwtimer_stop(context.get()), "no stop");
	try {
		context.dispatch();
		must(false, "not stopped");
	} catch (const std::system_error &e) {
		must(e.code().value() == ESHUTDOWN, "another error");
	}
	must(!called && !timer.pending(), "called before its time");
	return 1;
}

template <__u64 (*test)()> static __u64 run()
try {
	return test();
} catch (const std::exception &e) {
	native_fail("%s", e.what());
	return 0;
}

int main(int argc, char **argv)
{
	static const struct test tests[] = {
		{ "has_state", run<has_state> },
		{ "is_not_copied", run<is_not_copied> },
		{ "throws", run<throws> },
		{ "returns", run<returns> },
		{ "rounds_up", run<rounds_up> },
		{ "stopped", run<stopped> },
	};

	return native_main(argc, argv, tests, sizeof(tests) / sizeof(*tests));
}
