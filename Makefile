# Every target works from a fresh clone: it installs packages (as root), configures and builds first.
JOBS ?= $(shell nproc)
SOURCES = $(shell git ls-files '*.cc' '*.h')

.PHONY: all deps deps-test run test quick bench package fmt lint clean

all: build/release/build.ninja
	cmake --build --preset release -j $(JOBS)

deps:
	@tools/install_deps.sh

deps-test: deps
	@tools/install_deps.sh packages_test.txt

build/%/build.ninja: | deps
	cmake --preset $*

run: all
	build/release/antiphond

test: deps-test all
	ctest --preset release -j $(JOBS)

# The tests that take seconds: no sanitizer builds, no browser.
quick: all
	ctest --preset release -j $(JOBS) -LE 'sanitizer|e2e'

# Round trips and tick times on this machine.
bench: all
	build/release/echo_round_trip_test
	build/release/web_server_test --gtest_filter='*RoundTrip*:*Echo*'
	build/release/antiphon talk models/embedded/samples/user_0.wav --duration 60

package: all
	cd build/release && cpack -G DEB
	@ls build/release/*.deb

fmt:
	clang-format-14 -i $(SOURCES)

lint: all
	clang-format-14 --dry-run --Werror $(SOURCES)
	git ls-files '*.cc' | grep -v '^tests/' | xargs -P $(JOBS) -n 4 clang-tidy-14 --quiet -p build/release

clean:
	rm -rf build
