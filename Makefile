# SPDX-License-Identifier: GPL-2.0-only
#
# The targets for users and developers. The kernel's build system reads Kbuild.

KDIR ?= /lib/modules/$(shell uname -r)/build
DESTDIR ?=
PREFIX ?= /usr/local
DOCDIR ?= $(PREFIX)/share/doc/hwtimer
UNITDIR ?= $(PREFIX)/lib/systemd/system
INSTALL_MOD_PATH ?= $(DESTDIR)
INSTALL ?= install
DEPMOD ?= depmod
SYSUSERS ?= systemd-sysusers
# The key that signs the module for Secure Boot. The default is the one that DKMS creates.
SIGN_KEY ?= /var/lib/dkms/mok.key
SIGN_CERT ?= /var/lib/dkms/mok.pub
# The kernel-doc that makes the man pages: of the kernel to build against, or of Debian's headers.
KERNEL_DOC ?= $(lastword $(wildcard $(KDIR)/scripts/kernel-doc \
	/usr/lib/linux-kbuild-*/scripts/kernel-doc))
SECTIONS ?= 3 4 9

version := $(shell sed -n 's/^PACKAGE_VERSION="\(.*\)"/\1/p' dkms.conf)

# The headers of Debian's 6.1 have its full release name in no other file.
release = $(shell awk -F'"' '/UTS_RELEASE/ { print $$2 }' $(KDIR)/include/generated/utsrelease.h)

mandir = $(DESTDIR)$(or $(MANDIR),$(PREFIX)/share/man)

kbuild = $(MAKE) -C $(KDIR) M=$(CURDIR)

.PHONY: all modules install modules_install modules_sign clean help check test test-all \
	from-nothing demo demo-here \
	fuzz torture bench story mutants kdir lib install-lib tools install-tools \
	install-conf install-dkms install-all uninstall modules_uninstall uninstall-lib \
	uninstall-tools uninstall-conf uninstall-dkms uninstall-all deb docs man html install-man \
	uninstall-man python jobs install-jobs uninstall-jobs

all: modules

modules: kdir
	$(kbuild) modules

install: modules_install

modules_install: kdir
	$(kbuild) INSTALL_MOD_PATH=$(INSTALL_MOD_PATH) modules_install
	$(if $(INSTALL_MOD_PATH),,$(DEPMOD) -a $(release))

# Where modules_install puts it: extra until 6.2, updates since then.
modlib = $(INSTALL_MOD_PATH)/lib/modules/$(release)
installed = $(foreach dir,extra updates $(INSTALL_MOD_DIR), \
	$(addprefix $(modlib)/$(dir)/,hwtimer.ko* modules/hwtimer_idle.ko* \
		tests/kunit/hwtimer_kunit.ko*))
# Version 1.0.0 installed the KUnit suites elsewhere.
installed += $(foreach dir,extra updates,$(modlib)/$(dir)/tests/hwtimer_kunit.ko*)

uninstall: modules_uninstall

modules_uninstall: kdir
	$(RM) $(installed)
	$(if $(INSTALL_MOD_PATH),,$(DEPMOD) -a $(release))

# objcopy removes an existing signature. A kernel without TCP has no hwtimer_idle.
modules_sign: modules
	for module in hwtimer.ko modules/hwtimer_idle.ko; do \
		[ -e $$module ] || continue; \
		objcopy $$module && \
		$(KDIR)/scripts/sign-file $(sign_hash) $(SIGN_KEY) $(SIGN_CERT) $$module || exit; \
	done

sign_hash = $(shell sed -n 's/^CONFIG_MODULE_SIG_HASH=//p' $(KDIR)/include/config/auto.conf)

install-all: install install-lib install-tools install-conf
	@$(if $(makes_man),$(MAKE) install-man,$(info $(no_man)))

uninstall-all: uninstall uninstall-lib uninstall-tools uninstall-conf
	@$(if $(makes_man),$(MAKE) uninstall-man,$(info $(no_man)))

clean: kdir
	$(kbuild) clean
	$(MAKE) -C lib clean
	$(RM) -r out

lib:
	$(MAKE) -C lib

install-lib uninstall-lib:
	$(MAKE) -C lib $(@:-lib=)

check:
	@scripts/test check

test:
	@scripts/test $(T)

test-all:
	@scripts/test -a

from-nothing:
	@scripts/tests/from-nothing $(if $(SUITE),-s $(SUITE))

demo:
	@scripts/demo

demo-here:
	@scripts/demo --here

tools:
	$(MAKE) -C tools OUT=$(CURDIR)/out/tools

jobs:
	$(MAKE) -C jobs OUT=$(CURDIR)/out/jobs

# They need more packages than the rest, so install-all leaves them out.
install-jobs uninstall-jobs:
	$(MAKE) -C jobs OUT=$(CURDIR)/out/jobs $(@:-jobs=)

# The extension of the package python3-hwtimer; to install it elsewhere: pip install ./python
python:
	cd python && /usr/bin/python3 setup.py -q build_ext --build-lib $(CURDIR)/out/python \
		--build-temp $(CURDIR)/out/python/temp

# hwtimerctl goes below PREFIX, with its man page.
install-tools uninstall-tools:
	$(MAKE) -C tools OUT=$(CURDIR)/out/tools $(@:-tools=)

# The files that load the module at boot and give its device to a group, and the unit of hwtimer_idle.
# udev reads its rule without a reload.
conf := lib/udev/rules.d/60-hwtimer.rules lib/sysusers.d/hwtimer.conf \
	lib/modules-load.d/hwtimer.conf
install-conf:
	$(INSTALL) -D -m 644 dist/60-hwtimer.rules $(DESTDIR)$(PREFIX)/$(word 1,$(conf))
	$(INSTALL) -D -m 644 dist/sysusers.conf $(DESTDIR)$(PREFIX)/$(word 2,$(conf))
	$(INSTALL) -D -m 644 dist/modules-load.conf $(DESTDIR)$(PREFIX)/$(word 3,$(conf))
	$(INSTALL) -D -m 644 dist/hwtimer-idle.service $(DESTDIR)$(UNITDIR)/hwtimer-idle.service
	$(INSTALL) -D -m 644 dist/modprobe.conf $(DESTDIR)$(DOCDIR)/examples/modprobe.conf
	$(if $(DESTDIR),,$(SYSUSERS) $(PREFIX)/lib/sysusers.d/hwtimer.conf)

# The group stays, because files may belong to it.
uninstall-conf:
	$(RM) $(addprefix $(DESTDIR)$(PREFIX)/,$(conf)) $(DESTDIR)$(DOCDIR)/examples/modprobe.conf \
		$(DESTDIR)$(UNITDIR)/hwtimer-idle.service

# The source for dkms(8), as hwtimer/$(version), without the tests.
dkms_dir = $(DESTDIR)/usr/src/hwtimer-$(version)
install-dkms:
	$(INSTALL) -d $(addprefix $(dkms_dir)/,core dev debug modules uapi/linux dist)
	$(INSTALL) -m 644 Kbuild dkms.conf $(wildcard hwtimer*.[ch]) $(dkms_dir)
	$(INSTALL) -m 644 $(wildcard dev/*.[ch]) $(dkms_dir)/dev
	$(INSTALL) -m 644 $(wildcard core/*.[ch]) $(dkms_dir)/core
	$(INSTALL) -m 644 $(wildcard debug/*.[ch]) $(dkms_dir)/debug
	$(INSTALL) -m 644 $(wildcard modules/*.[ch]) $(dkms_dir)/modules
	$(INSTALL) -m 644 $(wildcard uapi/linux/*.h) $(dkms_dir)/uapi/linux
	$(INSTALL) -m 755 dist/dkms-post-build $(dkms_dir)/dist

uninstall-dkms:
	$(RM) -r $(dkms_dir)

deb:
	@scripts/package -o out/deb

docs:
	@scripts/docs

# The man pages of sections 3, 4 and 9 are generated; that of hwtimerctl is not. These targets,
# unlike scripts/docs, install no packages.
makes_man = $(and $(wildcard $(KERNEL_DOC)),$(shell command -v perl),$(shell command -v python3))
no_man = The man pages of sections 3, 4 and 9 are left out: they need perl, python3 and the \
	kernel-doc of a kernel's headers (Debian: linux-headers-generic; or KERNEL_DOC=FILE)

man:
	@$(if $(makes_man),KERNEL_DOC=$(KERNEL_DOC) XDG_CACHE_HOME=$(CURDIR)/out/cache \
		scripts/docs man,$(error $(no_man)))

# Man pages and the site, for debian/rules; the packages needed for it have to be installed.
html:
	@KERNEL_DOC=$(KERNEL_DOC) XDG_CACHE_HOME=$(CURDIR)/out/cache scripts/docs

install-man: man
	for section in $(SECTIONS); do \
		$(INSTALL) -d $(mandir)/man$$section && \
		$(INSTALL) -m 644 out/docs/man/man$$section/* $(mandir)/man$$section || exit; \
	done

uninstall-man: man
	for section in $(SECTIONS); do \
		(cd out/docs/man/man$$section && ls) | sed "s,^,$(mandir)/man$$section/," | \
			xargs $(RM) || exit; \
	done

fuzz:
	@scripts/fuzz -t $(or $(SECONDS),600) $(if $(SEED),-s $(SEED)) $(KERNEL)

torture:
	@scripts/torture -t $$(($(or $(MINUTES),10) * 60)) $(if $(SEED),-s $(SEED)) $(KERNEL)

bench:
	@scripts/bench $(if $(ROUNDS),-r $(ROUNDS)) $(GROUND)

story:
	@tests/story/run -n $(or $(CONNECTIONS),200000)

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
	@echo '  all, modules     build hwtimer.ko and modules/hwtimer_idle.ko (the default)'
	@echo '  install, modules_install'
	@echo '                   install them below /lib/modules, or below DESTDIR/lib/modules'
	@echo '  modules_sign     sign them for Secure Boot, by SIGN_KEY and SIGN_CERT'
	@echo '  lib              build libhwtimer, for programs, in lib/out'
	@echo '  install-lib      install it, its headers and its pkg-config file below PREFIX'
	@echo '  clean            remove what was built'
	@echo '  jobs             build hwtimer-jobs, a scheduler of jobs, in out/jobs'
	@echo '  install-jobs     install it, its pages and its units below PREFIX'
	@echo '  tools            build hwtimerctl, in out/tools'
	@echo '  install-tools    install it below DESTDIR/PREFIX [/usr/local]'
	@echo '  docs             the manuals: man pages in out/docs/man, a site in out/docs/html'
	@echo '  install-man      install the man pages of sections 3, 4 and 9 below PREFIX'
	@echo '  install-conf     load the module at boot, and give /dev/hwtimer to group hwtimer'
	@echo '  install-all      install the module, library, tools, man pages and configuration'
	@echo '  uninstall, uninstall-lib, uninstall-tools, uninstall-man, uninstall-conf, uninstall-jobs,'
	@echo '  uninstall-all    remove what install... with the same variables installed'
	@echo '  install-dkms, uninstall-dkms'
	@echo '                   install or remove its source in /usr/src, for DKMS'
	@echo '  deb              build Debian packages of all of this, in out/deb'
	@echo '  check            warnings, sparse, checkpatch, coccinelle, cppcheck, kernel-doc,'
	@echo '                   shellcheck, codespell'
	@echo '  test             run the tests; T="PART..." runs other parts, scripts/test -l lists them'
	@echo '  test-all         run all parts: other kernels and machines, checkers in the kernel,'
	@echo '                   what is built on the module, and the mutants: several hours'
	@echo '  from-nothing     run demo and test in a clean minimal Debian, and time them;'
	@echo '                   SUITE=trixie or bookworm'
	@echo '  fuzz             fuzz /dev/hwtimer in a guest; SECONDS=600, SEED=, KERNEL=6.12,'
	@echo '                   6.1, rt or 6.12-debug'
	@echo '  torture          stress all of the API for modules from all contexts, in guests;'
	@echo '                   MINUTES=10, SEED=, KERNEL="6.12 6.1 backports rt kasan"'
	@echo '  bench            compare it with timer_list, libevent, timerfd and a wheel in the'
	@echo '                   program: GROUND="native icount mix", ROUNDS=5'
	@echo '  story            200,000 TCP connections, and what it costs to close the idle ones, by'
	@echo '                   several ways: a table and a picture; CONNECTIONS=200000'
	@echo '  mutants          break the module in the ways that tests/mutants lists; tests have to'
	@echo '                   catch each; M="NAME..." only those'
	@echo '  demo             watch a stock kernel close idle connections, in a guest'
	@echo '  demo-here        the same on this machine; loads the module'
	@echo ''
	@echo 'Variables:'
	@echo '  KDIR=DIR         the kernel to build against'
	@echo '                   [$(KDIR)]'
	@echo '  PREFIX=DIR, LIBDIR=DIR, INCLUDEDIR=DIR, DESTDIR=DIR'
	@echo '                   where libhwtimer and man pages go [PREFIX=/usr/local]'
	@echo '  SIGN_KEY=FILE, SIGN_CERT=FILE'
	@echo '                   what signs the module [DKMS: /var/lib/dkms/mok.key, mok.pub]'
	@echo '  KERNEL_DOC=FILE  what makes man pages [that of the headers of a kernel]'
	@echo '  W=1, C=1, V=1    more warnings, sparse, the commands: as in the kernel'
	@echo ''
	@echo 'check, test, test-all, from-nothing, demo, fuzz, torture, bench, story and mutants'
	@echo 'need no more than Debian 12 or 13: they install packages when run by root, or say'
	@echo 'which are missing, and keep kernels in ~/.cache/hwtimer.'
