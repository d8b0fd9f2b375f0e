/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the parts of hwtimerctl share.
 *
 * On an error they print a message and exit: ctl_die() if something failed, ctl_misuse() if the
 * arguments are wrong. Messages are "WHAT: WHY". All arguments are checked before anything is done.
 */
#ifndef CTL_H
#define CTL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <libhwtimer.h>

#define CTL_DEVICE	"/dev/hwtimer"

#define NSEC_PER_USEC	1000ULL
#define NSEC_PER_MSEC	1000000ULL
#define NSEC_PER_SEC	1000000000ULL
/* For a wheel, anything later than this is never. */
#define CTL_MAX_NS	((1ULL << 60) - 1)

#define ARRAY_SIZE(a)	(sizeof(a) / sizeof((a)[0]))

/* Exit codes; hwtimerctl(1) lists them. */
enum ctl_status {
	CTL_OK = 0,
	CTL_FAILED = 1,
	CTL_USAGE = 2,
	CTL_NO_DEVICE = 3,
	CTL_NO_RIGHTS = 4,
};

enum ctl_option_kind {
	CTL_FLAG,	/* bool */
	CTL_NUMBER,	/* uint64_t, from min to max */
};

/* An option, --name and perhaps -l, and where its value goes. */
struct ctl_option {
	const char *name;
	char letter;
	enum ctl_option_kind kind;
	void *value;
	uint64_t min, max;
};

/* The command line after the name of the subcommand. */
struct ctl_args {
	char **argv;		/* getopt's optind is the index of the next argument */
	int argc;
	bool only_words;	/* after "--" there are no more options */
	const struct ctl_option *options;
	size_t n_options;
};

struct ctl_command {
	const char *name;
	const char *summary;	/* its line in the list of commands */
	const char *help;	/* follows "usage: hwtimerctl " */
	int (*run)(struct ctl_args *args);
};

extern const struct ctl_command ctl_sleep, ctl_stat, ctl_list, ctl_metrics, ctl_idle;

/* hwtimerctl.c */
extern const struct ctl_command *ctl_command;	/* the one that runs; NULL: none yet */
extern bool ctl_http;	/* a message is the answer to a request of HTTP */
_Noreturn void ctl_die(int status, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
_Noreturn void ctl_misuse(const char *format, ...) __attribute__((format(printf, 1, 2)));
void *ctl_alloc(size_t n, size_t size);
void ctl_flush(void);
_Noreturn void ctl_failed(int error, const char *what);
_Noreturn void ctl_denied(const char *what, const char *needs);
void ctl_add_name(char **names, const char *name);
struct hwtimer *ctl_open(void);

/* ctl_args.c */
const char *ctl_next_word(struct ctl_args *args);
void ctl_must_end(struct ctl_args *args);
uint64_t ctl_parse_duration(const char *what, const char *text);
void ctl_print_ns(FILE *to, uint64_t ns);
const char *ctl_wall_time(char *text, size_t size);
uint64_t ctl_clock(int clockid);

/* ctl_json.c: the key is empty or NULL in an array and for a value that stands alone */
int ctl_print_safe(FILE *to, const char *text);
void ctl_json_open(const char *key, char bracket);
void ctl_json_close(char bracket);
void ctl_json_end(void);
void ctl_json_text(const char *key, const char *text);
void ctl_json_number(const char *key, uint64_t number);
void ctl_json_signed(const char *key, int64_t number);
void ctl_json_null(const char *key);

/* ctl_wheels.c: the wheels that HWTIMER_IOC_WHEELS lists, and contexts */
#define CTL_FIELDS	7
#define CTL_MAX_LINES	24

/* A number of struct hwtimer_wheel_info. */
struct ctl_field {
	const char *name;
	const char *metric;	/* its name as a metric; "_total": a counter, "_seconds": in s */
	const char *help;
	size_t offset;
};

extern const struct ctl_field ctl_fields[CTL_FIELDS];

struct ctl_wheels {
	struct hwtimer_wheel_info *wheels;	/* sorted by name */
	unsigned int n;
};

void ctl_wheels_read(struct ctl_wheels *wheels);
void ctl_wheels_free(struct ctl_wheels *wheels);
uint64_t ctl_value(const struct hwtimer_wheel_info *wheel, size_t offset);
uint64_t ctl_late_bound(unsigned int bin);

/* A context, and what the kernel says of it in fdinfo. */
struct ctl_context {
	int pid, fd;
	struct ctl_line {
		const char *name, *value;
	} lines[CTL_MAX_LINES];
	unsigned int n_lines;
};

struct ctl_context *ctl_contexts(uint64_t pid, unsigned int *n);

/* ctl_idle.c: the counters of the rules of hwtimer_idle, for ctl_metrics.c */
void ctl_idle_read(void);
void ctl_idle_metrics(void);

#endif /* CTL_H */
