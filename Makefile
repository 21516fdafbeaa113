# SPDX-License-Identifier: Apache-2.0
# The front door. The build is Meson's (meson.build); this only saves typing and installs what is missing.
BUILD ?= build
PREFIX ?= /usr/local
LIBDIR ?= lib
export BUILD

.PHONY: build demo test quick bench install clean help
build: ## compile into build/
	@scripts/install-deps build
	@test -f $(BUILD)/build.ninja || meson setup $(BUILD) -Dtests=false --prefix="$(PREFIX)" --libdir="$(LIBDIR)"
	@ninja -C $(BUILD)

demo: build ## make synthetic sets, train a network that labels and one that restores, and write reports (two minutes)
	@scripts/demo

test: ## build and pass every test; the last line counts them
	@scripts/install-deps build test
	@scripts/test --build $(BUILD) $(TESTFLAGS)

quick: ## build and pass what takes a second each, and the lint: before each commit (under a minute after a build)
	@scripts/install-deps build test
	@scripts/test --build $(BUILD) --suite quick $(TESTFLAGS)

bench: build ## run the benchmark programs
	@scripts/bench

install: build ## install library, headers, command and manual pages (PREFIX=/usr/local, LIBDIR=lib, DESTDIR=)
	@PREFIX="$(PREFIX)" LIBDIR="$(LIBDIR)" DESTDIR="$(DESTDIR)" scripts/install

clean: ## remove build folders and demo data
	@scripts/clean

help: ## this list
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1\t\2/p' Makefile
