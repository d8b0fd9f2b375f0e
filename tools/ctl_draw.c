// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimerctl draw: an SVG picture of a wheel. Levels are rings, the lowest one innermost, with a
 * mark for each slot, or group of slots, that holds timeouts. The lateness of expiries is a
 * histogram.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "ctl.h"

#define MAX_LEVELS	64
/* More marks on a ring could not be told apart. */
#define MAX_SECTORS	512

#define CENTRE		300u	/* of the rings, in both directions */
#define INNER		90.0	/* radius */
#define OUTER		280.0
#define COLUMN		630u	/* where the text begins, x */
#define WIDTH		1000u
#define ROW		18u

/* The buckets of a wheel, added up by sectors of adjacent slots. */
struct picture {
	const struct hwtimer_wheel_stats *wheel;
	uint64_t tick_ns;
	uint64_t slots, sectors;
	uint64_t levels;
	uint64_t filed[MAX_LEVELS][MAX_SECTORS];
	uint64_t in_level[MAX_LEVELS], used[MAX_LEVELS];	/* timeouts; slots that hold some */
	uint64_t most;		/* in a sector */
};

static void take_bucket(struct picture *p, const char *path, const char *line)
{
	uint64_t level, slot, n, *filed;
	char more;

	if (sscanf(line, "bucket %" SCNu64 " %" SCNu64 " %" SCNu64 "%c", &level, &slot, &n,
		   &more) != 4 || more != '\n' || level >= MAX_LEVELS || slot >= p->slots)
		ctl_die(CTL_FAILED, "%s: not a bucket of this wheel: '%.*s'", path,
			(int)strcspn(line, "\n"), line);
	/* The wheel may have grown since its stats were read. */
	if (level >= p->levels)
		p->levels = level + 1;
	filed = &p->filed[level][slot / (p->slots / p->sectors)];
	*filed += n;
	p->in_level[level] += n;
	p->used[level]++;
	if (*filed > p->most)
		p->most = *filed;
}

static void read_buckets(struct picture *p, const char *debugfs)
{
	char path[8192], *line = NULL;
	size_t room = 0;
	FILE *file;

	snprintf(path, sizeof(path), "%s/hwtimer/%s/buckets", debugfs, p->wheel->name);
	file = fopen(path, "re");
	if (!file)
		ctl_die(errno == EACCES || errno == EPERM ? CTL_NO_RIGHTS : CTL_FAILED,
			"%s: %s", path, strerror(errno));
	errno = 0;
	while (getline(&line, &room, file) > 0)
		take_bucket(p, path, line);
	if (!feof(file))
		ctl_die(CTL_FAILED, "%s: %s", path, strerror(errno));
	free(line);
	fclose(file);
}

/* A name that a user chose, escaped for XML. */
static void put_text(const char *text)
{
	for (; *text; text++) {
		switch (*text) {
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
			putchar((unsigned char)*text < 0x20 || (unsigned char)*text >= 0x7f ?
				'?' : *text);
		}
	}
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

/* The width of a slot of @level in ns. */
static uint64_t slot_ns(const struct picture *p, unsigned int level)
{
	uint64_t ns = p->tick_ns;

	while (level--)
		if (__builtin_mul_overflow(ns, p->slots, &ns))
			return UINT64_MAX;
	return ns;
}

static void draw_level(const struct picture *p, unsigned int level)
{
	double band = (OUTER - INNER) / p->levels, r = INNER + level * band;
	double width = 2 * 3.14159265 * r / p->sectors, length;
	uint64_t each = p->slots / p->sectors, n;
	unsigned int i;

	printf("<circle class=\"ring\" r=\"%.2f\" stroke-width=\"%.2f\"/>\n", r + band * 0.45,
	       band * 0.9);
	for (i = 0; i < p->sectors; i++) {
		n = p->filed[level][i];
		if (!n)
			continue;
		length = band * 0.9 * doublings(n) / doublings(p->most);
		printf("<rect class=\"mark\" x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\"",
		       -width * 0.45, -r - length, width * 0.9, length);
		printf(" transform=\"rotate(%.4f)\"><title>level %u, slot",
		       360.0 * i / p->sectors, level);
		if (each > 1)
			printf("s %" PRIu64 " to %" PRIu64, i * each, (i + 1) * each - 1);
		else
			printf(" %u", i);
		printf(": %" PRIu64 " timeout%s</title></rect>\n", n, plural(n));
	}
}

/* The bins from the first to the last that is not empty. Returns the y where they end. */
static unsigned int draw_late(const struct hwtimer_wheel_stats *wheel, unsigned int y)
{
	unsigned int first = wheel->late_bins, last = 0, i;
	uint64_t all = 0, most = 1, bound;

	for (i = 0; i < wheel->late_bins; i++) {
		if (!wheel->late[i])
			continue;
		first = first < i ? first : i;
		last = i;
		all += wheel->late[i];
		most = wheel->late[i] > most ? wheel->late[i] : most;
	}
	printf("<text class=\"head\" x=\"%u\" y=\"%u\">%" PRIu64 " expired%s</text>\n", COLUMN,
	       y, all, all ? ", after their deadlines by" : "");
	for (i = first; i <= last && first < wheel->late_bins; i++) {
		y += ROW;
		printf("<text x=\"%u\" y=\"%u\">", COLUMN, y);
		bound = ctl_late_bound(wheel, i);
		if (!bound && !i) {
			fputs("any time", stdout);
		} else {
			fputs(bound ? "below " : "above ", stdout);
			put_span(bound ?: ctl_late_bound(wheel, i - 1));
		}
		printf("</text><text class=\"count\" x=\"%u\" y=\"%u\">%" PRIu64 "</text>\n",
		       COLUMN + 195, y, (uint64_t)wheel->late[i]);
		if (!wheel->late[i])
			continue;
		printf("<rect class=\"late\" x=\"%u\" y=\"%u\" width=\"%.2f\" ", COLUMN + 205,
		       y - ROW + 6, 1 + 150.0 * wheel->late[i] / most);
		printf("height=\"%u\"/>\n", ROW - 4);
	}
	return y;
}

static unsigned int draw_legend(const struct picture *p, unsigned int y)
{
	uint64_t each = p->slots / p->sectors;
	unsigned int i;

	printf("<text class=\"head\" x=\"%u\" y=\"%u\">", COLUMN, y);
	puts("Timeouts in the levels, from the inside</text>");
	for (i = 0; i < p->levels; i++) {
		y += ROW;
		printf("<text x=\"%u\" y=\"%u\">level %u: %" PRIu64 " in %" PRIu64 " slot%s of ",
		       COLUMN, y, i, p->in_level[i], p->used[i], plural(p->used[i]));
		put_span(slot_ns(p, i));
		puts("</text>");
	}
	y += ROW + ROW / 2;
	printf("<text class=\"note\" x=\"%u\" y=\"%u\">A mark: ", COLUMN, y);
	if (each > 1)
		printf("%" PRIu64 " slots, not all of them empty</text>\n", each);
	else
		puts("a slot that is not empty</text>");
	y += ROW;
	printf("<text class=\"note\" x=\"%u\" y=\"%u\">Its length: the ", COLUMN, y);
	printf("logarithm of the number; the longest: %" PRIu64 "</text>\n", p->most);
	return y;
}

static void draw(const struct picture *p)
{
	const struct hwtimer_wheel_stats *wheel = p->wheel;
	unsigned int rows = wheel->late_bins + p->levels + 9, height = 40 + rows * ROW, y, i;
	char state[32] = "";

	for (i = 0; i < ctl_n_fields; i++)
		if (!strcmp(ctl_fields[i].name, "state"))
			ctl_format_field(wheel, &ctl_fields[i], state, sizeof(state));
	if (height < 2 * CENTRE + 60)
		height = 2 * CENTRE + 60;
	printf("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %u %u\" ", WIDTH, height);
	printf("width=\"%u\" height=\"%u\" role=\"img\">\n<title>hwtimer: wheel ", WIDTH, height);
	put_text(wheel->name);
	puts("</title>\n"
	     "<style>\n"
	     "text { font: 13px sans-serif; fill: #222 }\n"
	     ".title { font-size: 20px } .head { font-weight: bold } .count { text-anchor: end }\n"
	     ".note { font-size: 11px; fill: #666 }\n"
	     ".ring { fill: none; stroke: #eee } .mark, .late { fill: #1f5fa8 }\n"
	     "</style>\n"
	     "<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>");
	fputs("<text class=\"title\" x=\"20\" y=\"32\">wheel ", stdout);
	put_text(wheel->name);
	fputs("</text>\n<text class=\"note\" x=\"20\" y=\"50\">tick ", stdout);
	put_span(p->tick_ns);
	printf(", %" PRIu64 " slots a level, ", p->slots);
	put_text(state);
	printf(", %" PRIu64 " pending</text>\n", (uint64_t)wheel->pending);

	printf("<g transform=\"translate(%u %u)\">\n", CENTRE, CENTRE + 50);
	for (i = 0; i < p->levels; i++)
		draw_level(p, i);
	puts("</g>");
	y = draw_legend(p, 70);
	draw_late(wheel, y + 2 * ROW);
	puts("</svg>");
}

static int run_draw(struct ctl_args *args)
{
	const char *word, *name = NULL, *debugfs = CTL_DEBUGFS, *device = CTL_DEVICE;
	const struct ctl_option options[] = {
		{ "debugfs", 0, CTL_TEXT, &debugfs, 0, 0 },
		{ "device", 0, CTL_TEXT, &device, 0, 0 },
	};
	struct picture *p = ctl_alloc(1, sizeof(*p));
	struct ctl_wheels wheels;

	args->options = options;
	args->n_options = ARRAY_SIZE(options);
	while ((word = ctl_next_word(args))) {
		if (name)
			ctl_misuse("unexpected argument: '%s' (one WHEEL)", word);
		name = word;
	}
	name = name ?: "dev";
	ctl_wheels_read(&wheels, device, (char **)&name, 1);
	p->wheel = ctl_wheels_find(&wheels, name);
	if (!p->wheel)
		ctl_no_wheel(name);
	p->tick_ns = p->wheel->tick_ns;
	p->slots = p->wheel->slots;
	p->levels = p->wheel->levels;
	/* A power of two, so that sectors have equal numbers of slots. */
	if (!p->slots || p->slots & (p->slots - 1) || !p->levels || p->levels > MAX_LEVELS)
		ctl_die(CTL_FAILED, "%s: impossible: slots %" PRIu64 ", levels %" PRIu64, name,
			p->slots, p->levels);
	p->sectors = p->slots < MAX_SECTORS ? p->slots : MAX_SECTORS;
	read_buckets(p, debugfs);
	draw(p);
	ctl_wheels_free(&wheels);
	free(p);
	return CTL_OK;
}

const struct ctl_command ctl_draw = {
	.name = "draw",
	.summary = "an SVG picture of a wheel: its slots and its lateness",
	.help = "draw [--debugfs DIR] [--device PATH] [WHEEL] >FILE\n\n"
		"Draw a wheel (default: \"dev\") as SVG: its levels as rings, the lowest one\n"
		"innermost, with marks where there are timeouts, and a histogram of the\n"
		"lateness of expiries. Requires root and debugfs.\n\n"
		"  --debugfs DIR  where debugfs is mounted (default: " CTL_DEBUGFS ")\n"
		"  --device PATH  the device (default: " CTL_DEVICE ")\n"
		"  -h, --help     print this help\n",
	.run = run_draw,
};
