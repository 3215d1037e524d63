# make, make run, make test; `make help` lists the rest. Each variant has a folder of its own:
# build/ is the release; VARIANT=asan, tsan or fuzz builds in build/asan and so on.
VERSION := 0.1.0
VARIANT :=
B       := build$(if $(VARIANT),/$(VARIANT))
PREFIX  := /usr/local
LISTEN  := 127.0.0.1:8080
NETWORK ?= $(or $(AIO_NETWORK),auto)

# --- flags -------------------------------------------------------------------------------------
ifeq ($(origin CC),default)
CC := $(if $(filter fuzz,$(VARIANT)),clang,gcc)
endif
WARN := -Wall -Wextra -Wshadow -Wmissing-prototypes -Wstrict-prototypes -Wold-style-definition \
	-Wvla -Wpointer-arith -Wformat=2 -Wundef -Wwrite-strings -Wimplicit-fallthrough \
	-Wno-missing-field-initializers $(if $(WERROR)$(filter true,$(CI)),-Werror)
SANITIZE   := -O1 -fno-omit-frame-pointer -U_FORTIFY_SOURCE
FLAGS_     := -O2 -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2
FLAGS_asan := $(SANITIZE) -fsanitize=address,undefined -fno-sanitize-recover=undefined
FLAGS_tsan := $(SANITIZE) -fsanitize=thread
FLAGS_fuzz := $(FLAGS_asan) -fsanitize=fuzzer-no-link

# llhttp is a library since Debian 13; before, its C source was packaged, and joins our archive.
LLHTTP   := $(shell pkg-config --exists libllhttp 2>/dev/null || ls /usr/share/llhttp/*.c 2>/dev/null)
PKGS     := jansson openssl libpcre2-8 yaml-0.1 $(if $(LLHTTP),,libllhttp)
# Small libraries become part of the program where that can be had: boxes are forks of it, and each
# library that it maps makes a fork dearer.
inside    = $(or $(filter /%,$(shell $(CC) -print-file-name=lib$1.a)),-l$1)
LIBS     := -lwslay $(foreach l,jansson pcre2-8 yaml jpeg z,$(call inside,$l)) $(if $(LLHTTP),,-lllhttp) -lssl -lcrypto -lm
BASE     := -std=gnu17 -D_GNU_SOURCE -DAIO_VERSION='"$(VERSION)"' -Isrc \
	$(if $(LLHTTP),-isystem /usr/share/include/llhttp) $(shell pkg-config --cflags $(PKGS) 2>/dev/null)
CCACHE   := $(shell command -v ccache)
COMPILE   = $(CC) $(BASE) -g -pthread -fPIE -fstack-protector-strong $(FLAGS_$(VARIANT)) $(CFLAGS)
LINK      = $(CC) -pthread -pie -Wl,--as-needed,-z,relro,-z,now $(FLAGS_$(VARIANT)) $(CFLAGS) $(LDFLAGS)
say       = $(if $(V),,@printf '  %-5s %s\n' '$1' '$2';)# V=1 shows whole commands

# --- what is built -----------------------------------------------------------------------------
objects = $(patsubst %.c,$(B)/%.o,$1)
SRC     := $(sort $(shell find src -name '*.c' 2>/dev/null))
OBJ     := $(call objects,$(filter-out src/main.c,$(SRC))) $(patsubst /usr/share/%.c,$(B)/%.o,$(LLHTTP))
FIXTURE := $(call objects,$(wildcard tests/fixture/*.c))
DRIVER  := $(call objects,tests/escape/driver.c)
UNIT    := $(patsubst %.c,%,$(wildcard tests/unit/*.c))
FUZZ    := $(patsubst fuzz/%.c,%,$(wildcard fuzz/*.c))
OWN     := $(shell find src tests fuzz bench -name '*.[ch]' 2>/dev/null)

all: $(B)/aio ## build build/aio
$(B)/aio: $(B)/src/main.o $(B)/libaio.a
$(B)/fixture: $(FIXTURE) $(B)/libaio.a
$(B)/driver: $(DRIVER) $(B)/libaio.a
$(UNIT:%=$(B)/%): $(B)/%: $(B)/%.o $(B)/libaio.a
$(FUZZ:%=$(B)/%): $(B)/%: $(B)/fuzz/%.o $(B)/libaio.a
$(FUZZ:%=$(B)/%): LDFLAGS += -fsanitize=fuzzer
# One runs inside boxes, the other is what boxes are measured by: without sanitizers.
$(B)/probe: tests/escape/probe.c
$(B)/floor: bench/floor.c
$(B)/probe $(B)/floor:
	@mkdir -p $(@D)
	$(call say,cc,$<)$(CC) -std=gnu17 -D_GNU_SOURCE -O1 $(WARN) -o $@ $<
$(B)/aio $(B)/fixture $(B)/driver $(UNIT:%=$(B)/%) $(FUZZ:%=$(B)/%):
	$(call say,link,$@)$(LINK) -o $@ $^ $(LIBS)
$(B)/libaio.a: $(OBJ) $(B)/objects
	$(call say,ar,$@)rm -f $@ && $(AR) rcs $@ $(OBJ)
$(B)/%.o: %.c $(B)/flags
	@mkdir -p $(@D)
	$(call say,cc,$<)$(CCACHE) $(COMPILE) $(WARN) -MMD -MP -c -o $@ $<
$(B)/llhttp/%.o: /usr/share/llhttp/%.c $(B)/flags
	@mkdir -p $(@D)
	$(call say,cc,$<)$(CCACHE) $(COMPILE) -w -DLLHTTP_STRICT_MODE=1 -c -o $@ $<
-include $(patsubst %.o,%.d,$(OBJ) $(B)/src/main.o $(FIXTURE) $(DRIVER) $(UNIT:%=$(B)/%.o) $(FUZZ:%=$(B)/fuzz/%.o))

# Files that change only when their text does: new flags rebuild all, a removed source the archive.
write = mkdir -p $(@D); echo '$(subst ','\'',$1)' | cmp -s - $@ || echo '$(subst ','\'',$1)' >$@
$(B)/flags: FORCE
	@pkg-config --exists $(PKGS) || { echo "Libraries are missing: run 'make deps' first." >&2; exit 1; }
	@$(call write,$(filter-out -Werror,$(COMPILE) $(WARN) $(LIBS)))
$(B)/objects: FORCE
	@$(call write,$(OBJ))

# --- run and install ---------------------------------------------------------------------------
SUB   = $(MAKE) --no-print-directory $(if $(findstring jobserver,$(MAKEFLAGS)),,-j$(shell nproc))
SHARE = $(DESTDIR)$(PREFIX)/share/aiobox
# Where bash, zsh and fish look.
COMPLETIONS = $(addprefix $(DESTDIR)$(PREFIX)/share/,bash-completion/completions/aio zsh/site-functions/_aio fish/vendor_completions.d/aio.fish)

deps: ## install what building and running need (apt, pip into .venv, npm into node_modules)
	@tools/deps product
test-deps: deps ## install what testing needs too (apt, pip into build/venv)
	@tools/deps test
run: deps ## build and start the host on LISTEN=127.0.0.1:8080 (as root, or with sudo); NETWORK=none: a new default box has none
	+@$(SUB) all
	@echo "'aio' in other terminals: export PATH=\"$(CURDIR)/build:\$$PATH\", or 'sudo make install' once"
	@exec $(if $(filter 0,$(shell id -u)),,sudo -E) build/aio up --listen $(LISTEN) --network $(NETWORK)
install: deps ## install under PREFIX=/usr/local (staged into DESTDIR)
	+@$(SUB) all
	install -D -m 755 build/aio $(DESTDIR)$(PREFIX)/bin/aio
	@mkdir -p $(dir $(COMPLETIONS))
	build/aio completion bash >$(word 1,$(COMPLETIONS))
	build/aio completion zsh >$(word 2,$(COMPLETIONS))
	build/aio completion fish >$(word 3,$(COMPLETIONS))
	rm -rf $(SHARE)/web $(SHARE)/share $(SHARE)/node_modules
	mkdir -p $(SHARE)
	cp -R $(wildcard web share) node_modules $(SHARE)
	tools/deps venv $(SHARE)/.venv requirements.txt
	$(if $(DESTDIR),grep -rlIZ '$(DESTDIR)' $(addprefix $(SHARE)/.venv/,bin pyvenv.cfg .deps) | xargs -0r sed -i 's|$(DESTDIR)||g')
uninstall: ## remove what install installed
	rm -rf $(DESTDIR)$(PREFIX)/bin/aio $(SHARE) $(COMPLETIONS)
clean: ## remove build/
	rm -rf build
help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /\1|/p' $(firstword $(MAKEFILE_LIST)) | awk -F '|' '{ printf "make %-13s %s\n", $$1, $$2 }'

# --- test --------------------------------------------------------------------------------------
STEPS  := check-format layers unit api serial tsan tsan-serial
BESIDE := old warnings tidy fuzz coverage docs-check
# The release before this one: the boxes that it has made must go on under this one.
OLD := c96c4d5
# Tests that run at the same time: most of a test is waiting.
WORKERS := $(shell expr 2 \* $$(nproc))
# The sanitizers' memory maps and a kernel's widest address randomization do not go together.
FIXED := $(shell setarch -R true 2>/dev/null && echo setarch -R)
export UBSAN_OPTIONS ?= print_stacktrace=1
export TSAN_OPTIONS  ?= second_deadlock_stack=1
# $(call pytest,VARIANT,OPTIONS): AGAIN=1 runs only the tests that failed before, one after the other.
pytest = AIO=$(CURDIR)/build/$1/aio FIXTURE=$(CURDIR)/build/$1/fixture $(FIXED) build/venv/bin/python \
	-m pytest -ra -o cache_dir=$(CURDIR)/build/pytest --results build/test/$@$(if $(AGAIN),.again).jsonl \
	$(if $(AGAIN),--only build/test/$@.again,$2) tests $(ARGS)
parallel = -n $(WORKERS) --dist loadfile

test: test-deps ## everything below: those that need nothing but processors, beside the others
	+@tools/steps "$(SUB) WERROR=1" $(STEPS) -- $(BESIDE)
one: ## one test, with the release build: T=unit/url, T=api/test_bash_exec.py::test_heredoc_and_bang
	@[ '$(T)' ] || { echo "make one T=unit/url, or T=api/test_bash_exec.py::test_heredoc_and_bang" >&2; exit 2; }
	+@$(SUB) $(if $(filter unit/%,$(T)),build/tests/$(T),all fixture $(if $(filter host/test_upgrade%,$(T)),old))
	@$(if $(filter unit/%,$(T)),tools/tap 'build/tests/$(T)',[ -x build/venv/bin/pytest ] || tools/deps test; \
		AIO=build/aio FIXTURE=build/fixture build/venv/bin/python -m pytest 'tests/$(T)' $(ARGS))
check-format: ## our C is formatted as .clang-format says
	@build/venv/bin/clang-format --dry-run -Werror $(OWN)
format: ## make it so
	@build/venv/bin/clang-format -i $(OWN)
layers: ## includes point downwards only, in the order of docs/architecture.md; names mean one thing
	@tools/layers
warnings: ## gcc and clang compile without a warning
	+@$(SUB) -k WERROR=1 all fixture
	+@$(SUB) -k WERROR=1 VARIANT=fuzz all fixture
tidy: build/changed ## clang-tidy has nothing to say; its slow half looks at what changed since the last merge
	+@$(SUB) -k $(SRC:%.c=build/tidy/%)
build/changed: FORCE
	@mkdir -p $(@D)
	@tools/changed >$@
build/tidy/%: build/%.o .clang-tidy
	@mkdir -p $(@D)
	$(call say,tidy,$*.c)echo .clang-tidy | cat - build/$*.d | grep -qFf build/changed || quick=--checks=-clang-analyzer-*; \
		clang-tidy --quiet $$quick $*.c -- $(BASE) 2>$@.err || { cat $@.err; exit 1; }
	@touch $@
unit: ## unit tests, under ASan and UBSan
	+@$(SUB) VARIANT=asan $(UNIT:%=build/asan/%)
	@RESULTS=build/test/$@.jsonl $(FIXED) tools/tap $(UNIT:%=build/asan/%)
api: ## tests from outside that run beside others, under ASan and UBSan (ARGS='-k shell' picks some)
	+@$(SUB) VARIANT=asan all fixture
	@$(call pytest,asan,$(parallel) -m 'not serial')
serial: old ## those that want the machine to themselves: hosts, escapes, measures
	+@$(SUB) VARIANT=asan all fixture
	@$(call pytest,asan,-m serial)
old: ## the release before this one, in build/old
	@tools/old $(OLD)
MINUTES := 20
soak: ## clients on many boxes while these and the host are killed: MINUTES=20 SEED=7 WITHOUT=makers,maker
	+@$(SUB) all
	@AIO=build/aio PYTHONPATH=tests build/venv/bin/python -m soak --minutes $(MINUTES) \
		$(if $(SEED),--seed $(SEED)) $(if $(WITHOUT),--without $(WITHOUT))
tsan: ## the tests marked concurrency, under ThreadSanitizer
	+@$(SUB) VARIANT=tsan all fixture
	@$(call pytest,tsan,$(parallel) -m 'concurrency and not serial')
tsan-serial: ## likewise, those that want the machine to themselves
	+@$(SUB) VARIANT=tsan all fixture
	@$(call pytest,tsan,-m 'concurrency and serial')
fuzz: ## every fuzzer: FUZZ_SECONDS=20 where its parser changed since the last merge, else SMOKE_SECONDS=2
	+@$(SUB) VARIANT=fuzz $(FUZZ:%=build/fuzz/%)
	@RESULTS=build/test/$@.jsonl $(FIXED) tools/fuzz $(FUZZ:%=build/fuzz/%)
CONTRACT := ../shared/tools/contract-coverage
coverage: all ## how much of the API's contract is there
	@if [ -x $(CONTRACT) ]; then build/aio openapi | $(CONTRACT) || true; else echo "SKIP: no $(CONTRACT)"; fi
docs-check: all ## docs/configuration.md says what the program says
	@build/aio serve --help-markdown | diff -u docs/configuration.md -
	@build/aio up --help-markdown | diff -u docs/configuration-host.md -
# What attacks a box, or is attacked from one.
ATTACKS := tests/escape $(patsubst %,tests/host/test_%.py,browser_attacks code credentials hostile hostile_server \
	import_hostile jwt inside logs makers mounts neighbours network pages rootless_attacks sockets view)
escape-report: test-deps ## attack boxes, and write what held into docs/security.md
	+@$(SUB) VARIANT=asan all fixture
	@AIO=$(CURDIR)/build/asan/aio FIXTURE=$(CURDIR)/build/asan/fixture $(FIXED) build/venv/bin/python \
		-m pytest -q --results build/test/$@.jsonl $(ATTACKS) $(ARGS)
	@tools/escape-report build/test/$@.jsonl docs/security.md
bench: test-deps ## measure, and compare
	@tools/deps bench
	+@$(SUB) all fixture build/floor
	@build/venv/bin/python bench/run.py $(ARGS)

AGAINST := HEAD~1
bench-compare: test-deps ## the rows of bench beside those of AGAINST=REVISION, in turns
	@tools/deps bench
	+@$(SUB) all fixture build/floor
	@tools/old $$(git rev-parse $(AGAINST))
	@build/venv/bin/python bench/compare.py build/old/$$(git rev-parse $(AGAINST))/build/aio $(ARGS)

.PHONY: all fixture deps test-deps run install uninstall clean help test one soak $(STEPS) $(BESIDE) format escape-report bench bench-compare FORCE
fixture: $(B)/fixture $(B)/driver $(B)/probe
.DELETE_ON_ERROR:
