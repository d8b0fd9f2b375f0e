// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
/*
 * libhwtimer for C++17: timers that call a function, and that are cancelled by their destructor.
 *
 *	using namespace std::chrono_literals;
 *
 *	hwt::context context;
 *	hwt::timer idle(context, [] { std::puts("nothing came for 30 s"); });
 *
 *	idle.start(30s);		// on every message: pushes it back
 *	idle.cancel();
 *	context.dispatch();		// when context.fd() is readable
 *
 * A timer that was destroyed or cancelled does not call its function. A timer may be destroyed,
 * started or cancelled in callbacks, including its own. It cannot be moved; keep it as a member
 * or in a std::unique_ptr. The context must outlive it, and the call of dispatch(). One thread at a
 * time may use a context and its timers. A child of fork(2) can only destroy those of its parent,
 * which does not affect the parent.
 */
#ifndef HWTIMER_HPP
#define HWTIMER_HPP

#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <system_error>
#include <utility>

#include <libhwtimer.h>

namespace hwt {

inline int check(int ret, const char *what)
{
	if (ret < 0)
		throw std::system_error(-ret, std::generic_category(), what);
	return ret;
}

/* A handle for up to @timeouts pending timers; 0: HWTIMER_FREE_SLOTS - 1. @flags: HWTIMER_OPEN_*. */
class context {
public:
	explicit context(std::uint32_t timeouts = 0, unsigned int flags = 0)
	{
		hwtimer_options options = {};
		hwtimer *h;

		options.size = sizeof(options);
		options.timeouts = timeouts;
		options.flags = flags;
		check(hwtimer_open(&h, &options), "hwtimer_open");
		handle.reset(h);
	}

	int fd() const noexcept { return hwtimer_fd(handle.get()); }
	hwtimer *get() const noexcept { return handle.get(); }

	/*
	 * Call the functions of up to @most expired timers. Does not wait; returns how many. Timers
	 * that become due meanwhile may remain for the next call.
	 */
	int dispatch(int most = std::numeric_limits<int>::max());

private:
	struct closer {
		void operator()(hwtimer *h) const noexcept { hwtimer_close(h); }
	};
	std::unique_ptr<hwtimer, closer> handle;
};

class timer {
public:
	timer(context &where, std::function<void()> callback)
		: h(where.get()),
		  function(std::make_shared<const std::function<void()>>(std::move(callback))) { }
	~timer() { cancel(); }
	timer(const timer &) = delete;
	timer &operator=(const timer &) = delete;

	/* Call the function after @delay. If the timer is pending, it is touched. */
	template <class Rep, class Period>
	void start(std::chrono::duration<Rep, Period> delay)
	{
		const std::uint64_t wait = ns_of(delay);

		if (pending())
			check(hwtimer_touch(h, id, wait), "hwtimer_touch");
		else
			check(hwtimer_schedule(h, wait, reinterpret_cast<std::uintptr_t>(this),
					       &id), "hwtimer_schedule");
	}

	/* Returns true if the timer was pending: its function will not be called. */
	bool cancel() noexcept
	{
		return id && !hwtimer_cancel(h, std::exchange(id, 0));
	}

	bool pending() const noexcept { return id; }

private:
	/* Delays of more than 63 bits, such as hours::max(), never end, nor does NaN. */
	template <class Rep, class Period>
	static std::uint64_t ns_of(std::chrono::duration<Rep, Period> delay)
	{
		const std::chrono::duration<double, std::nano> about = delay;

		if (about.count() <= 0)
			return 0;
		if (!(about.count() < 9.2e18))
			return HWTIMER_NEVER;
		/* Not in float, which is rounded, perhaps to less. */
		if constexpr (std::chrono::treat_as_floating_point_v<Rep>)
			return static_cast<std::uint64_t>(std::ceil(about.count()));
		else
			return std::chrono::ceil<std::chrono::nanoseconds>(delay).count();
	}

	friend class context;
	hwtimer *h;
	hwtimer_id id = 0;
	/* Shared with dispatch(), because the callback may destroy the timer. */
	std::shared_ptr<const std::function<void()>> function;
};

inline int context::dispatch(int most)
{
	const std::uint64_t began = hwtimer_now(get());
	hwtimer_event event;
	int n = 0;

	/*
	 * A timer can be cancelled until its event was returned, so we hold no event of a timer
	 * that a callback destroys.
	 */
	while (n < most && check(hwtimer_wait(get(), &event, 0), "hwtimer_wait")) {
		timer *t = reinterpret_cast<timer *>(static_cast<std::uintptr_t>(event.user_data));
		const auto function = t->function;

		t->id = 0;
		/* hwtimer_stop() ended it. */
		if (event.kind != HWTIMER_KIND_EXPIRED)
			continue;
		(*function)();
		n++;
		/* Timers that callbacks start again and again do not keep us here. */
		if (event.deadline_ns > began)
			break;
	}
	return n;
}

} /* namespace hwt */

#endif /* HWTIMER_HPP */
