// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
/*
 * timeouts: requests that are repeated if no answer comes in time, in C++. Each request has a timer
 * (hwtimer.hpp) as a member. It is sent again if there is no answer after 50 ms, and again after
 * 100 ms, and given up after 200 ms more. An answer destroys the request, and with it the timer.
 *
 * The service, at the other end of a pair of sockets, is unreliable: depending on the request's
 * number, it answers the first, the second or the third try, or none. So the expected result of
 * each request is known, and checked.
 *
 * One epoll loop has the sockets and the timers. It reads the sockets before each timer, so an
 * answer that has arrived is never too late, however busy the machine is.
 */
#include <algorithm>
#include <array>
#include <cstdio>
#include <unordered_map>

#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "hwtimer.hpp"

using namespace std::chrono_literals;
using hwt::check;
using clock_type = std::chrono::steady_clock;

/* So few that the sockets' buffers can hold all their messages. */
constexpr unsigned int max_open = 64;
constexpr int max_tries = 3;
constexpr std::array<std::chrono::milliseconds, max_tries> patience = { 50ms, 100ms, 200ms };

struct message {
	unsigned int	number;
	int		tries;
};

/* Must not fail: a lost message would be repeated, but then results would not be predictable. */
static void post(int fd, const message &m)
{
	check(send(fd, &m, sizeof(m), 0) == sizeof(m) ? 0 : -errno, "send");
}

static bool fetch(int fd, message &m)
{
	const ssize_t n = recv(fd, &m, sizeof(m), MSG_DONTWAIT);

	if (n < 0 && errno != EAGAIN)
		check(-errno, "recv");
	return n == sizeof(m);
}

class requests {
public:
	requests(hwt::context &context, int fd) : timers(context), socket(fd) { }

	void make(unsigned int number)
	{
		auto &r = open.try_emplace(number, *this, number).first->second;

		r.attempt();
	}

	void answered(const message &m)
	{
		/* Not open: it was given up, or the answer to another try came before. */
		if (open.erase(m.number))
			answered_at[m.tries - 1]++;
	}

	std::size_t left() const { return open.size(); }

	std::array<unsigned int, max_tries> answered_at = {};
	unsigned int given_up = 0, early = 0;
	clock_type::duration soonest = clock_type::duration::max();

private:
	struct request {
		request(requests &whose, unsigned int n)
			: all(whose), number(n), timer(all.timers, [this] { expired(); }) { }

		void attempt()
		{
			began = clock_type::now();
			post(all.socket, { number, ++tries });
			timer.start(patience[tries - 1]);
		}

		void expired()
		{
			const auto waited = clock_type::now() - began;

			all.early += waited < patience[tries - 1];
			sum += waited;
			if (tries < max_tries)
				return attempt();
			all.soonest = std::min(all.soonest, sum);
			all.given_up++;
			all.open.erase(number);		/* destroys this request */
		}

		requests &all;
		const unsigned int number;
		int tries = 0;
		clock_type::time_point began;
		clock_type::duration sum{};
		hwt::timer timer;
	};

	hwt::context &timers;
	const int socket;
	std::unordered_map<unsigned int, request> open;
};

/* The unreliable service: request n is answered at try n % 4; 0: never. */
static void serve(int fd)
{
	message m;

	while (fetch(fd, m))
		if (m.tries == static_cast<int>(m.number % (max_tries + 1)))
			post(fd, m);
}

static int run(unsigned int number)
{
	int pair[2];
	hwt::context timers;

	check(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) ? -errno : 0, "socketpair");
	const int loop = check(epoll_create1(EPOLL_CLOEXEC), "epoll_create1");
	for (const int fd : { pair[0], pair[1], timers.fd() }) {
		epoll_event e = {};

		e.events = EPOLLIN;
		check(epoll_ctl(loop, EPOLL_CTL_ADD, fd, &e) ? -errno : 0, "epoll_ctl");
	}

	requests all(timers, pair[0]);
	unsigned int made = 0;

	while (made < number || all.left()) {
		epoll_event e;
		message m;

		while (made < number && all.left() < max_open)
			all.make(made++);
		if (epoll_wait(loop, &e, 1, -1) < 0 && errno != EINTR)
			check(-errno, "epoll_wait");
		serve(pair[1]);
		while (fetch(pair[0], m))
			all.answered(m);
		timers.dispatch(1);
	}
	close(loop);
	close(pair[0]);
	close(pair[1]);

	const unsigned int share = number / (max_tries + 1);
	const auto &at = all.answered_at;
	const bool fine = !all.early && all.given_up == share &&
		std::all_of(at.begin(), at.end(), [&](unsigned int n) { return n == share; });

	std::printf("%u requests, answered at the first try: %u, second: %u, third: %u, given up: %u\n",
		    number, at[0], at[1], at[2], all.given_up);
	std::printf("timers that came early: %u; none was given up before %.3f ms\n", all.early,
		    std::chrono::duration<double, std::milli>(all.soonest).count());
	std::puts(fine ? "each as it had to be" : "that is wrong");
	return !fine;
}

int main()
try {
	return run(400);
} catch (const std::exception &e) {
	std::fprintf(stderr, "timeouts: %s\n", e.what());
	return 1;
}
