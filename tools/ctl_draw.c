// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimerctl draw: an SVG picture of a wheel. Levels are rings, the lowest one innermost, with a
 * mark for each slot, or group of slots, that holds timeouts, and a hand that points to now. The
 * lateness of expiries and the time from now to the deadlines are histograms.
 *
 * The timeouts of a slot expire or cascade when the hand reaches its mark. "now" is read before the
 * buckets, so that what expires meanwhile is missing, and not behind the hand.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "ctl.h"

#define MAX_LEVELS	16
#define MAX_BITS	16
/* More marks on a ring could not be told apart. */
#define MAX_SECTORS	512

#define CENTRE		300u	/* of the rings, in both directions */
#define INNER		90.0	/* radius */
#define OUTER		230.0
#define COLUMN		620u	/* where the text begins, x */
#define WIDTH		1000u
#define ROW		18u

/* The time axis, from left to right, and the height of the bars on it */
#define AXIS_LEFT	40u
#define AXIS_RIGHT	960u
#define AXIS_BARS	100u

/* The buckets of a wheel, added up by sectors of adjacent slots. */
struct picture {
	const char *name;
	char state[32];
	uint64_t tick_ns, pending;
	unsigned int bits[MAX_LEVELS], levels;	/* of each level: it has 1 << bits slots */
	__u64 late[HWTIMER_LATE];
	uint64_t filed[MAX_LEVELS][MAX_SECTORS];
	uint64_t in_level[MAX_LEVELS], used[MAX_LEVELS];	/* timeouts; slots that hold some */
	uint64_t most;		/* in a sector */
	uint64_t now_ns, start_ns;	/* by the wheel's clock */
	uint64_t *left, n_left, room;	/* how long until the listed timeouts expire, sorted */
	uint64_t cut, never;	/* buckets that are not listed whole; timeouts that never expire */
};

static uint64_t level_slots(const struct picture *p, unsigned int level)
{
	return (uint64_t)1 << p->bits[level];
}

static uint64_t level_sectors(const struct picture *p, unsigned int level)
{
	return level_slots(p, level) < MAX_SECTORS ? level_slots(p, level) : MAX_SECTORS;
}

/* "bits 6 6 5" */
static void take_bits(struct picture *p, const char *path, const char *line)
{
	const char *at;
	int len;

	for (at = line + strlen("bits"); p->levels < MAX_LEVELS; at += len)
		if (sscanf(at, "%u%n", &p->bits[p->levels], &len) != 1 ||
		    p->bits[p->levels++] > MAX_BITS)
			break;
	if (*at != '\n')
		ctl_die(CTL_FAILED, "%s: not the levels of a wheel: '%.*s'", path,
			(int)strcspn(line, "\n"), line);
}

/* The bounds are those of HWTIMER_IOC_WHEELS. */
static void take_late(struct picture *p, const char *line)
{
	unsigned int bin = 0;
	uint64_t below, n;

	if (sscanf(line, "late_above %" SCNu64, &n) == 1) {
		bin = HWTIMER_LATE - 1;
	} else if (sscanf(line, "late_below_%" SCNu64 "us %" SCNu64, &below, &n) == 2) {
		while (bin < HWTIMER_LATE - 1 && below > 1ULL << bin)
			bin++;
	} else {
		return;
	}
	p->late[bin] = n;
}

static void take_stat(void *arg, const char *path, const char *line)
{
	struct picture *p = arg;

	if (!strncmp(line, "bits ", 5))
		take_bits(p, path, line);
	else if (sscanf(line, "tick_ns %" SCNu64, &p->tick_ns) != 1 &&
		 sscanf(line, "state %31s", p->state) != 1 &&
		 sscanf(line, "start_ns %" SCNu64, &p->start_ns) != 1 &&
		 sscanf(line, "now_ns %" SCNu64, &p->now_ns) != 1 &&
		 sscanf(line, "pending %" SCNu64, &p->pending) != 1)
		take_late(p, line);
}

static void take_bucket(void *arg, const char *path, const char *line)
{
	struct picture *p = arg;
	uint64_t level, slot, n, *filed;
	char more;

	if (sscanf(line, "bucket never 0 %" SCNu64 "%c", &n, &more) == 2 && more == '\n')
		return;
	if (sscanf(line, "bucket %" SCNu64 " %" SCNu64 " %" SCNu64 "%c", &level, &slot, &n,
		   &more) != 4 || more != '\n' || level >= p->levels ||
	    slot >= level_slots(p, level))
		ctl_die(CTL_FAILED, "%s: not a bucket of this wheel: '%.*s'", path,
			(int)strcspn(line, "\n"), line);
	filed = &p->filed[level][slot * level_sectors(p, level) / level_slots(p, level)];
	*filed += n;
	p->in_level[level] += n;
	p->used[level]++;
	if (*filed > p->most)
		p->most = *filed;
}

static void take_pending(void *arg, const char *path, const char *line)
{
	struct picture *p = arg;
	uint64_t deadline;

	if (!strncmp(line, "more ", 5)) {
		p->cut++;
		return;
	}
	if (sscanf(line, "timeout %*s %*u %" SCNu64, &deadline) != 1)
		ctl_die(CTL_FAILED, "%s: not a pending timeout: '%.*s'", path,
			(int)strcspn(line, "\n"), line);
	if (deadline == UINT64_MAX) {
		p->never++;
		return;
	}
	if (p->n_left == p->room) {
		p->room = p->room ? 2 * p->room : 1024;
		p->left = realloc(p->left, p->room * sizeof(*p->left));
		if (!p->left)
			ctl_die(CTL_FAILED, "out of memory");
	}
	p->left[p->n_left++] = deadline > p->now_ns ? deadline - p->now_ns : 0;
}

static int by_time(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* A name that a user chose, escaped for XML. */
static void put_text(const char *text)
{
	char *safe = NULL, *at;
	FILE *to = open_memstream(&safe, &(size_t){ 0 });

	if (!to)
		ctl_die(CTL_FAILED, "out of memory");
	ctl_print_safe(to, text);
	fclose(to);
	for (at = safe; *at; at++) {
		switch (*at) {
		case '&':
			fputs("&amp;", stdout);
			break;
		case '<':
			fputs("&lt;", stdout);
			break;
		case '>':
			fputs("&gt;", stdout);
			break;
		default:
			putchar(*at);
		}
	}
	free(safe);
}

/* "16.8 ms", "4.66 h". */
static void put_span(uint64_t ns)
{
	static const struct { uint64_t s; const char *name; } units[] = {
		{ 86400, "d" }, { 3600, "h" }, { 60, "min" },
	};
	double value;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(units); i++) {
		value = (double)ns / NSEC_PER_SEC / units[i].s;
		if (value >= 1) {
			printf("%.*f %s", value < 10 ? 2 : value < 100, value, units[i].name);
			return;
		}
	}
	ctl_print_ns(stdout, ns);
}

/* The binary logarithm, plus 1 so that 1 is visible, too. */
static unsigned int doublings(uint64_t n)
{
	return 64 - __builtin_clzll(n | 1);
}

static const char *plural(uint64_t n)
{
	return n == 1 ? "" : "s";
}

/* The width of @n slots of @level in ns. A slot is half as wide as the level below it reaches. */
static uint64_t slots_ns(const struct picture *p, unsigned int level, uint64_t n)
{
	unsigned int shift = 0, i;

	for (i = 0; i < level; i++)
		shift += p->bits[i] - 1;
	if (shift > 63 || __builtin_mul_overflow(n, (uint64_t)1 << shift, &n) ||
	    __builtin_mul_overflow(n, p->tick_ns, &n))
		return UINT64_MAX;
	return n;
}

/*
 * The time axis around the rings, for the outermost: now, and what the hand reaches after each
 * quarter of a turn of @turn ns. The hand is at @degrees.
 */
static void draw_turn(uint64_t turn, double degrees)
{
	const char *class = "now m";
	unsigned int i;

	for (i = 0; i < 4; i++) {
		/* Beside the rings it must not reach into them. */
		if (i && (degrees < 15 || degrees > 345 || (degrees > 165 && degrees < 195)))
			class = "note m";
		else if (i)
			class = degrees < 180 ? "note" : "note count";
		printf("<text class=\"%s\" y=\"%d\" ", class,
		       degrees > 90 && degrees < 270 ? 8 : 0);
		printf("transform=\"rotate(%.4f) translate(0 %.2f) rotate(%.4f)\">", degrees,
		       -OUTER - 10, -degrees);
		if (i) {
			fputs("+", stdout);
			put_span(turn / 4 * i);
		} else {
			fputs("now", stdout);
		}
		puts("</text>");
		degrees = degrees < 270 ? degrees + 90 : degrees - 270;
	}
}

static void draw_level(const struct picture *p, unsigned int level)
{
	double band = (OUTER - INNER) / p->levels, r = INNER + level * band, degrees;
	uint64_t sectors = level_sectors(p, level), each = level_slots(p, level) / sectors;
	double width = 2 * 3.14159265 * r / sectors, length;
	uint64_t n, now, turn;
	unsigned int i;

	printf("<circle class=\"ring\" r=\"%.2f\" stroke-width=\"%.2f\"/>\n", r + band * 0.45,
	       band * 0.9);
	for (i = 0; i < sectors; i++) {
		n = p->filed[level][i];
		if (!n)
			continue;
		length = band * 0.9 * doublings(n) / doublings(p->most);
		printf("<rect class=\"mark\" x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\"",
		       -width * 0.45, -r - length, width * 0.9, length);
		printf(" transform=\"rotate(%.4f)\"><title>level %u, slot",
		       360.0 * i / sectors, level);
		if (each > 1)
			printf("s %" PRIu64 " to %" PRIu64, i * each, (i + 1) * each - 1);
		else
			printf(" %u", i);
		printf(": %" PRIu64 " timeout%s</title></rect>\n", n, plural(n));
	}
	/* A level whose turn is longer than 2^64 ns has not got far. */
	turn = slots_ns(p, level, level_slots(p, level));
	now = (p->now_ns - p->start_ns) % turn;
	degrees = 360.0 * now / turn;
	printf("<g class=\"hand\" transform=\"rotate(%.4f)\"><title>level %u: now is slot %" PRIu64
	       "</title>\n<path class=\"hand\" d=\"M0 %.2f V%.2f\"/></g>\n", degrees, level,
	       now / slots_ns(p, level, 1), -r + 4, -r - band * 0.9 - 4);
	if (level + 1 == p->levels)
		draw_turn(turn, degrees);
}

/* The bins from the first to the last that is not empty. */
static void draw_late(const struct picture *p, unsigned int y)
{
	unsigned int first = HWTIMER_LATE, last = 0, i;
	uint64_t all = 0, most = 1, bound;

	for (i = 0; i < HWTIMER_LATE; i++) {
		if (!p->late[i])
			continue;
		first = first < i ? first : i;
		last = i;
		all += p->late[i];
		most = p->late[i] > most ? p->late[i] : most;
	}
	printf("<text class=\"head\" x=\"%u\" y=\"%u\">%" PRIu64 " expired%s</text>\n", COLUMN,
	       y, all, all ? ", after their deadlines by" : "");
	for (i = first; i <= last; i++) {
		y += ROW;
		bound = ctl_late_bound(i);
		printf("<text x=\"%u\" y=\"%u\">%s ", COLUMN, y, bound ? "below" : "above");
		put_span(bound ?: ctl_late_bound(i - 1));
		printf("</text><text class=\"count\" x=\"%u\" y=\"%u\">%" PRIu64 "</text>\n",
		       COLUMN + 195, y, (uint64_t)p->late[i]);
		if (!p->late[i])
			continue;
		printf("<rect class=\"late\" x=\"%u\" y=\"%u\" width=\"%.2f\" ", COLUMN + 205,
		       y - ROW + 6, 1 + 150.0 * p->late[i] / most);
		printf("height=\"%u\"/>\n", ROW - 4);
	}
}

static unsigned int draw_legend(const struct picture *p, unsigned int y)
{
	bool grouped = false;
	unsigned int i;

	printf("<text class=\"head\" x=\"%u\" y=\"%u\">", COLUMN, y);
	puts("Timeouts in the levels, from the inside</text>");
	for (i = 0; i < p->levels; i++) {
		y += ROW;
		printf("<text x=\"%u\" y=\"%u\">level %u: %" PRIu64 " in %" PRIu64 " slot%s of ",
		       COLUMN, y, i, p->in_level[i], p->used[i], plural(p->used[i]));
		put_span(slots_ns(p, i, 1));
		fputs("; a turn: ", stdout);
		put_span(slots_ns(p, i, level_slots(p, i)));
		puts("</text>");
		grouped |= level_slots(p, i) > MAX_SECTORS;
	}
	y += ROW + ROW / 2;
	printf("<text class=\"note\" x=\"%u\" y=\"%u\">A mark: ", COLUMN, y);
	puts(grouped ? "a group of slots, not all of them empty</text>" :
	     "a slot that is not empty</text>");
	y += ROW;
	printf("<text class=\"note\" x=\"%u\" y=\"%u\">Its length: the ", COLUMN, y);
	printf("logarithm of the number; the longest: %" PRIu64 "</text>\n", p->most);
	y += ROW;
	printf("<text class=\"now\" x=\"%u\" y=\"%u\">", COLUMN, y);
	puts("The hands point to now</text>");
	return y;
}

/* On the time axis: up to a tick from now, up to 2, 4, 8 ticks and so on, each as wide. */
static unsigned int axis_bin(const struct picture *p, uint64_t left)
{
	unsigned int bin = 0;

	/* No deadline is more than HWTIMER_HORIZON, 2^60 ns, after the start. */
	while (bin < 63 && p->tick_ns << bin < left)
		bin++;
	return bin;
}

static double axis_x(const struct picture *p, uint64_t left, unsigned int bins)
{
	unsigned int bin = axis_bin(p, left);
	double above = bin ? p->tick_ns << (bin - 1) : 0, below = p->tick_ns << bin;
	double at = bin + (left - above) / (below - above);

	return AXIS_LEFT + (AXIS_RIGHT - AXIS_LEFT) * at / bins;
}

/* The time within which @percent of the listed timeouts expire. */
static uint64_t time_left(const struct picture *p, unsigned int percent)
{
	uint64_t rank = (p->n_left * percent + 99) / 100;

	return p->left[rank ? rank - 1 : 0];
}

static const unsigned int percents[] = { 50, 90, 99, 100 };

static void draw_bars(const struct picture *p, unsigned int bins, unsigned int y)
{
	double width = (double)(AXIS_RIGHT - AXIS_LEFT) / bins, height;
	uint64_t in_bin[64] = { 0 }, most = 1, i;

	for (i = 0; i < p->n_left; i++)
		in_bin[axis_bin(p, p->left[i])]++;
	for (i = 0; i < bins; i++)
		most = in_bin[i] > most ? in_bin[i] : most;
	for (i = 0; i < bins; i++) {
		if (!in_bin[i])
			continue;
		height = 1 + (AXIS_BARS - 1.0) * in_bin[i] / most;
		printf("<rect class=\"due\" x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" ",
		       AXIS_LEFT + width * i + 1, y - height, width - 2);
		printf("height=\"%.2f\"><title>%" PRIu64 " timeout%s within ", height, in_bin[i],
		       plural(in_bin[i]));
		put_span(p->tick_ns << i);
		puts("</title></rect>");
	}
	for (i = 0; i <= bins; i += (bins + 11) / 12) {
		printf("<text class=\"%s\" x=\"%.2f\" y=\"%u\">", i ? "note m" : "now m",
		       AXIS_LEFT + width * i, y + ROW);
		if (i)
			put_span(p->tick_ns << (i - 1));
		else
			fputs("now", stdout);
		puts("</text>");
	}
}

/* When the timeouts expire, on an axis that begins now. */
static void draw_due(const struct picture *p, unsigned int y)
{
	unsigned int bins, i;
	bool right;
	double x;

	printf("<text class=\"head\" x=\"%u\" y=\"%u\">Time from now to the deadlines of ",
	       AXIS_LEFT, y);
	printf("%" PRIu64 " timeout%s</text>\n", p->n_left, plural(p->n_left));
	if (p->cut || p->never)
		printf("<text class=\"note count\" x=\"%u\" y=\"%u\">not counted: the rest of %"
		       PRIu64 " long bucket%s, %" PRIu64 " that never expire</text>\n",
		       AXIS_RIGHT, y, p->cut, plural(p->cut), p->never);
	if (!p->n_left)
		return;
	bins = axis_bin(p, time_left(p, 100)) + 1;
	bins = bins < 4 ? 4 : bins;
	/* The farthest on top, so that no line crosses the words of another. */
	for (i = ARRAY_SIZE(percents); i > 0; i--) {
		y += ROW;
		x = axis_x(p, time_left(p, percents[i - 1]), bins);
		right = x > AXIS_LEFT + 130;
		printf("<path class=\"percent\" d=\"M%.2f %u V%u\"/>\n", x, y - 11,
		       y + ROW * i + AXIS_BARS - 10);
		printf("<text class=\"note%s\" x=\"%.2f\" y=\"%u\">%u %% within ",
		       right ? " count" : "", x + (right ? -4 : 4), y, percents[i - 1]);
		put_span(time_left(p, percents[i - 1]));
		puts("</text>");
	}
	y += ROW + AXIS_BARS - 10;
	draw_bars(p, bins, y);
	printf("<path class=\"axis\" d=\"M%u %u H%u\"/>\n", AXIS_LEFT, y, AXIS_RIGHT);
}

static void draw(const struct picture *p)
{
	unsigned int rows = HWTIMER_LATE + p->levels + 10, due = 40 + rows * ROW, y, i;

	if (due < 2 * CENTRE + 60)
		due = 2 * CENTRE + 60;
	y = due + ROW * 6 + AXIS_BARS + 40;
	printf("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %u %u\" ", WIDTH, y);
	printf("width=\"%u\" height=\"%u\" role=\"img\">\n<title>hwtimer: wheel ", WIDTH, y);
	put_text(p->name);
	printf("</title>\n<desc>%" PRIu64 " pending", p->pending);
	for (i = 0; p->n_left && i < ARRAY_SIZE(percents); i++) {
		printf("%s %u %% within ", i ? "," : "; from now, they expire:", percents[i]);
		put_span(time_left(p, percents[i]));
	}
	puts("</desc>\n"
	     "<style>\n"
	     "text { font: 13px sans-serif; fill: #222 } .back { fill: #fff }\n"
	     ".title { font-size: 20px } .head { font-weight: bold } .count { text-anchor: end }\n"
	     ".m { text-anchor: middle } .note { font-size: 11px; fill: #555 }\n"
	     ".ring { fill: none; stroke: #eee } .mark, .late, .due { fill: #1f5fa8 }\n"
	     ".now { font-weight: bold; fill: #b3261e } path { fill: none }\n"
	     ".hand { stroke: #b3261e; stroke-width: 2 } .axis, .percent { stroke: #777 }\n"
	     ".percent { stroke-dasharray: 3 3 }\n"
	     "@media (prefers-color-scheme: dark) {\n"
	     "text { fill: #ddd } .back { fill: #16181b } .note { fill: #aaa }\n"
	     ".ring { stroke: #2a2e33 } .mark, .late, .due { fill: #6aa9f0 }\n"
	     ".now { fill: #ff8a80 } .hand { stroke: #ff8a80 }\n"
	     "}\n"
	     "</style>\n"
	     "<rect class=\"back\" width=\"100%\" height=\"100%\"/>");
	fputs("<text class=\"title\" x=\"20\" y=\"32\">wheel ", stdout);
	put_text(p->name);
	fputs("</text>\n<text class=\"note\" x=\"20\" y=\"50\">tick ", stdout);
	put_span(p->tick_ns);
	fputs(", ", stdout);
	put_text(p->state);
	printf(", %" PRIu64 " pending</text>\n", p->pending);

	printf("<g transform=\"translate(%u %u)\">\n", CENTRE, CENTRE + 50);
	for (i = 0; i < p->levels; i++)
		draw_level(p, i);
	puts("</g>");
	y = draw_legend(p, 70);
	draw_late(p, y + 2 * ROW);
	draw_due(p, due + ROW);
	puts("</svg>");
}

static int run_draw(struct ctl_args *args)
{
	const char *word, *debugfs = CTL_DEBUGFS;
	const struct ctl_option options[] = {
		{ "debugfs", 0, CTL_TEXT, &debugfs, 0, 0 },
	};
	struct picture *p = ctl_alloc(1, sizeof(*p));

	args->options = options;
	args->n_options = ARRAY_SIZE(options);
	p->name = ctl_next_word(args);
	word = p->name ? ctl_next_word(args) : NULL;
	if (word)
		ctl_misuse("unexpected argument: '%s' (one WHEEL)", word);
	p->name = ctl_debugfs_wheel(debugfs, p->name);
	ctl_debugfs_read(debugfs, p->name, "stats", take_stat, p);
	if (!p->levels || !p->tick_ns || p->now_ns < p->start_ns)
		ctl_die(CTL_FAILED, "%s: impossible: levels %u, tick_ns %" PRIu64 ", now_ns %"
			PRIu64 ", start_ns %" PRIu64, p->name, p->levels, p->tick_ns, p->now_ns,
			p->start_ns);
	ctl_debugfs_read(debugfs, p->name, "buckets", take_bucket, p);
	ctl_debugfs_read(debugfs, p->name, "pending", take_pending, p);
	if (p->n_left)
		qsort(p->left, p->n_left, sizeof(*p->left), by_time);
	draw(p);
	free(p->left);
	free(p);
	return CTL_OK;
}

const struct ctl_command ctl_draw = {
	.name = "draw",
	.summary = "an SVG picture of a wheel: its slots, its lateness, and what is due when",
	.help = "draw [--debugfs DIR] [WHEEL] >FILE\n\n"
		"Draw a wheel of a kernel module as SVG, by default that of which the most\n"
		"timeouts are pending: its levels as rings, the lowest one innermost, with marks where there are timeouts, and hands that point to now;\n"
		"a histogram of the lateness of expiries; and the time from now to the\n"
		"deadlines, with percentiles. Requires root and debugfs.\n\n"
		"  --debugfs DIR  where debugfs is mounted (default: " CTL_DEBUGFS ")\n"
		"  -h, --help     print this help\n",
	.run = run_draw,
};
