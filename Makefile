# SPDX-License-Identifier: GPL-2.0-only
#
# For people; what the kernel's build system reads is Kbuild.

KDIR ?= /lib/modules/$(shell uname -r)/build
DESTDIR ?=
INSTALL_MOD_PATH ?= $(DESTDIR)
DEPMOD ?= depmod

# Debian's 6.1 has its full name nowhere else.
release = $(shell awk -F'"' '/UTS_RELEASE/ { print $$2 }' $(KDIR)/include/generated/utsrelease.h)

kbuild = $(MAKE) -C $(KDIR) M=$(CURDIR)

.PHONY: all modules install modules_install clean help check test demo demo-here fuzz torture \
	bench bench-full coverage mutants kdir lib install-lib tools install-tools

all: modules

modules: kdir
	$(kbuild) modules

install: modules_install

modules_install: kdir
	$(kbuild) INSTALL_MOD_PATH=$(INSTALL_MOD_PATH) modules_install
	$(if $(INSTALL_MOD_PATH),,$(DEPMOD) -a $(release))

clean: kdir
	$(kbuild) clean
	$(MAKE) -C lib clean
	$(RM) -r out

lib:
	$(MAKE) -C lib

install-lib:
	$(MAKE) -C lib install

check:
	@scripts/test check

test:
	@scripts/test $(T)

coverage:
	@scripts/coverage

demo:
	@scripts/demo

demo-here:
	@scripts/demo --here

tools:
	$(MAKE) -C tools OUT=$(CURDIR)/out/tools

# With its man page and what bash completes, below PREFIX.
install-tools:
	$(MAKE) -C tools OUT=$(CURDIR)/out/tools install

fuzz:
	@scripts/fuzz -t $(or $(SECONDS),600) $(if $(SEED),-s $(SEED)) $(KERNEL)

torture:
	@scripts/torture -m $(or $(MINUTES),10) $(if $(SEED),-s $(SEED)) $(KERNEL)

bench:
	@scripts/bench -o $(or $(OUT),out/bench) $(if $(ROUNDS),-r $(ROUNDS))

bench-full:
	@scripts/bench -f -o $(or $(OUT),out/bench) $(if $(ROUNDS),-r $(ROUNDS))

mutants:
	@scripts/mutants $(M)

kdir:
	@test -e $(KDIR)/include/generated/utsrelease.h || { \
		echo "No build directory of a kernel: $(KDIR)"; \
		echo "Install the kernel's headers (Debian: apt install linux-headers-$$(uname -r))"; \
		echo "or say where it is: make KDIR=..."; \
		exit 1; \
	} >&2

help:
	@echo 'Targets:'
	@echo '  all, modules     build hwtimer.ko (the default)'
	@echo '  install, modules_install'
	@echo '                   install it below /lib/modules, or below DESTDIR/lib/modules'
	@echo '  lib              build libhwtimer, for programs, in lib/out'
	@echo '  install-lib      install it, its headers and its pkg-config file below PREFIX'
	@echo '  clean            remove what was built'
	@echo '  tools            build hwtimerctl, in out/tools'
	@echo '  install-tools    install it below DESTDIR/PREFIX [/usr/local]'
	@echo '  check            warnings, sparse, checkpatch, coccinelle, cppcheck, kernel-doc,'
	@echo '                   shellcheck, codespell'
	@echo '  test             all tests; T="PART..." runs some of them, scripts/test -l lists them'
	@echo '  coverage         which lines and branches the tests reach, as HTML in out/coverage'
	@echo '  fuzz             fuzz /dev/hwtimer in a guest; SECONDS=600, SEED=, KERNEL=6.12,'
	@echo '                   6.1, rt or 6.12-debug'
	@echo '  torture          all of the API for modules from all contexts at once, in guests;'
	@echo '                   MINUTES=10, SEED=, KERNEL="6.12 6.1 rt kasan kcsan rt-debug"'
	@echo '  bench            measure it beside timer_list, hrtimer and delayed_work, in guests:'
	@echo '                   tables, CSV and plots in out/bench; OUT=DIR, ROUNDS=5'
	@echo '  bench-full       the same with up to 10 million timeouts, and more rounds'
	@echo '  mutants          break the module in some fifty ways, to see that tests catch each;'
	@echo '                   M="NAME..." only those'
	@echo '  demo             watch a stock kernel close idle connections, in a guest'
	@echo '  demo-here        the same on this machine, which loads the module'
	@echo ''
	@echo 'Variables:'
	@echo '  KDIR=DIR         the kernel to build against'
	@echo '                   [$(KDIR)]'
	@echo '  PREFIX=DIR, LIBDIR=DIR, INCLUDEDIR=DIR, DESTDIR=DIR'
	@echo '                   where libhwtimer goes [PREFIX=/usr/local]'
	@echo '  W=1, C=1, V=1    more warnings, sparse, the commands: as in the kernel'
	@echo ''
	@echo 'check, test, demo, fuzz, torture, bench, coverage and mutants need no more than'
	@echo 'Debian 12: they install packages when run by root, or say which, and keep kernels in'
	@echo '~/.cache/hwtimer.'
