# The front door. Each target installs what it lacks (Debian packages, see tools/install_deps) and builds first.
#   make demo [PROMPT="…"] [MODEL=FOLDER]   generate a video with the model that ships (or another), into out/
#   make demo-talk          the talking photo that ships says what its example says, into out/
#   make demo-edit          a clip that follows a depth video, and one in which something becomes something else, into out/
#   make demo-world         the world that ships as a page on this machine: http://127.0.0.1:8190/, arrows, keys and mouse steer it
#   make serve [SERVE="--port 8000"]   builds and starts the server: videos over HTTP, at http://127.0.0.1:8190/v1 (docs/server.md)
#   make build               the binary at build/tachyscope
#   make test                all tests (make build-tests: only builds them)
#   make test-arm64          cross-compiles for 64-bit Arm and runs the tests under qemu
#   make test-reference      fresh random inputs against PyTorch, diffusers and transformers (makes a virtual environment)
#   make test-browser        the page of a world, and that of the server, in a headless browser (makes a virtual environment)
#   make test-page           the page of the server, every part of it, in the same browser
#   make test-python         the Python package against PyTorch, and the other tests written in Python (the same environment)
#   make test-ray            tachyscope.ray on a cluster of two nodes, one of which is killed (makes a virtual environment of 800 MB)
#   make test-isa            the tests of ops, models and runs under every lesser instruction set (make test does it, too)
#   make test-qemu           runs on emulated CPUs with AVX2 and with SSE4.2: no bit depends on threads, weights or resuming
#   make test-serve          the server with the openai client, under load, under kills and against hostile clients
#   make test-hosts          several hosts on one queue: many clients, an upgrade, kills, restarts of the database, cuts of the network (root, PostgreSQL)
#   make test-leaks          300 runs of an engine and of a world with the models that ship: whether memory stays
#   make test-ranks          every kind of video, and the VAE by rows, divided among 1 to 8 ranks of a CPU: the bits of one;
#                            several processes for one video: launchers, hosts, ranks that die, strangers (root, Open MPI)
#   make judge               the shipped model on the held-out captions, judged by a program
#   make package             two .debs and two relocatable tars in out/: tachyscope, and where nvcc is tachyscope-cuda13, which has the kernels for GPUs
#                            (tools/build_release, tools/build_kernels; tools/check_package tries them)
#   make wheel [PYTHON=python3.12]   a wheel in dist/ with the program, its model and its libraries (tools/check_wheel tries it)
#   make wheels              the wheels tachyscope (for PYTHON), tachyscope-models and, where nvcc is, tachyscope-cuda13
#   make format, check-format, check-layers (C, C++ and CUDA sources)
PROMPT ?= a red circle moves right over hills at day
BUILD ?= build
PACKAGE_BUILD ?= build-package
KERNELS_BUILD ?= build-kernels
JOBS ?= $(shell nproc)
# Most tests use a processor and a half; those that keep time run alone.
TEST_JOBS ?= $(shell n=$$(nproc); echo $$((n < 8 ? n : 8)))
# sse4, avx2 or avx512: tests under lesser instruction sets run under this one alone.
TEST_ISA ?=
OTHER_ISAS = $(filter-out $(TEST_ISA),sse4 avx2 avx512)
ONLY_ISA = $(if $(TEST_ISA),-E '_($(shell echo $(OTHER_ISAS) | tr ' ' '|'))$$')
# A fresh build folder that nothing but a demo is asked of has kernels for this machine's CPU alone, which takes a tenth less time; what a
# folder has, a demo leaves. Everything else is made of kernels for every CPU, which then are compiled anew if a demo came before.
CPU_TARGETS = $(if $(filter-out demo demo-talk demo-edit demo-world serve build-serve,$(MAKECMDGOALS)),all,$(if $(wildcard $(BUILD)/CMakeCache.txt),,native))
CPU_OPTION = $(addprefix -DTACHY_CPU_TARGETS=,$(CPU_TARGETS))
CLANG_FORMAT ?= clang-format
SOURCES = $(shell git ls-files '*.h' '*.cpp' '*.c' '*.cu' '*.cuh')

.PHONY: package wheel wheels demo demo-talk demo-edit demo-world serve build-serve test-serve test-hosts build build-tests test test-browser test-page test-arm64 test-reference test-python test-ray test-isa test-qemu test-ranks test-leaks judge deps configure check-layers format check-format install clean

deps:
	@tools/install_deps

configure: deps
	@cmake --preset cpu -B $(BUILD) $(CPU_OPTION) $(CMAKE_FLAGS) > $(BUILD).configure.log 2>&1 || { cat $(BUILD).configure.log; exit 1; }
	@sed -n -e 's/^-- \(CUDA kernels are left out:.*\)/\1/p' -e '/NO GPU KERNELS ARE BUILT/,/^$$/p' $(BUILD).configure.log
	@rm -f $(BUILD).configure.log

build: configure
	@cmake --build $(BUILD) -j $(JOBS) --target tachyscope
	@echo "built $(BUILD)/tachyscope"

MODEL ?=
demo: build
	@mkdir -p out
	$(BUILD)/tachyscope generate "$(PROMPT)" $(if $(MODEL),--model $(MODEL)) -o out/demo.mp4
	@echo "the video is out/demo.mp4 (open it in any browser); its settings are out/demo.json"

TALKER = models/talker/example
demo-talk: build
	@mkdir -p out
	$(BUILD)/tachyscope talk "a person talks and nods" --photo $(TALKER)/photo.png --audio $(TALKER)/speech.wav -o out/talk.mp4
	@echo "the video with its sound is out/talk.mp4; try --photo and --audio of your own (the model knows drawn faces only)"

EDIT = models/sprites-edit
demo-edit: build
	@mkdir -p out
	$(BUILD)/tachyscope generate "An orange ring moves up by the sea by night" --model $(EDIT) \
	  --control-video $(EDIT)/example/depth.mp4 -o out/depth.mp4
	$(BUILD)/tachyscope generate "An orange ring moves up by the sea by night" --model $(EDIT) --seed 1 \
	  --control-video $(EDIT)/example/clip.mp4 --mask-video $(EDIT)/example/mask.mp4 -o out/inpainted.mp4
	@echo "out/depth.mp4 follows $(EDIT)/example/depth.mp4; out/inpainted.mp4 is clip.mp4 beside it, with a ring where mask.mp4 is white"

WORLD = models/world
demo-world: build
	$(BUILD)/tachyscope world --model $(WORLD) --image $(WORLD)/example/start.png

SERVE ?=
build-serve: configure
	@cmake --build $(BUILD) -j $(JOBS) --target tachyscope tachyscope-serve

serve: build-serve
	$(BUILD)/tachyscope serve $(SERVE)

test-serve: build-serve
	@tests/serve/run $(BUILD)

test-hosts: build-serve
	@tools/install_deps postgresql "iproute2 network namespaces"
	@python3 tests/serve/pollers.py $(BUILD)
	@python3 tests/serve/upgrade.py $(BUILD)
	@python3 tests/serve/full.py $(BUILD)
	@python3 tests/serve/hosts.py $(BUILD)

build-tests: configure
	@cmake --build $(BUILD) -j $(JOBS)

test: build-tests
	@ctest --test-dir $(BUILD) --output-on-failure -j $(TEST_JOBS) $(ONLY_ISA)

test-arm64: build
	@tools/test_arm64 $(BUILD)

test-reference: build
	@cmake --build $(BUILD) -j $(JOBS) --target op_call text_lines
	@tests/reference/run $(BUILD)/tachyscope

test-browser: build-serve
	@cmake --build $(BUILD) -j $(JOBS) --target drawn_world
	@tests/page/run $(BUILD)
	@tests/page_server/run $(BUILD) --short

test-page: build-serve
	@tests/page_server/run $(BUILD)

test-python: deps
	@tests/python/run $(BUILD) $(CPU_OPTION) $(CMAKE_FLAGS)

test-ray: deps
	@tests/ray/run $(BUILD) $(CPU_OPTION) $(CMAKE_FLAGS)

test-isa: build-tests
	@ctest --test-dir $(BUILD) --output-on-failure -j $(TEST_JOBS) -L isa

test-qemu: configure
	@tools/install_deps qemu-user
	@cmake --build $(BUILD) -j $(JOBS) --target tachyscope pipelines_test cli_test
	@tools/test_qemu --all $(BUILD)

test-leaks: configure
	@cmake --build $(BUILD) -j $(JOBS) --target leaks_test
	@TACHY_LEAK_RUNS=300 $(BUILD)/tests/unit/api/leaks_test

test-ranks: build
	@cmake --build $(BUILD) -j $(JOBS) --target wan_vae_test pipelines_test
	@$(BUILD)/tests/unit/pipelines/pipelines_test --gtest_also_run_disabled_tests --gtest_filter='Rank*'
	@TACHY_ALL_RANKS=1 $(BUILD)/tests/unit/models/wan_vae_test --gtest_filter='*Ranks*'
	@tools/install_deps openmpi-bin "iproute2 network namespaces"
	@tests/ranks/run $(BUILD)

judge: build
	@tests/reference/run --judge $(BUILD)/tachyscope

check-layers:
	@tools/check_layers

format:
	@$(CLANG_FORMAT) -i $(SOURCES)

check-format:
	@$(CLANG_FORMAT) --dry-run --Werror $(SOURCES)

package: deps
	@tools/build_release $(PACKAGE_BUILD) $(JOBS) $(CMAKE_FLAGS)
	@tools/build_kernels $(KERNELS_BUILD) $(JOBS)
	@tools/package $(PACKAGE_BUILD) out $(KERNELS_BUILD)/lib

PYTHON ?= python3
wheel: deps
	@tools/install_deps python3-venv python3-dev
	@tools/make_wheel --python $(PYTHON) $(CMAKE_FLAGS)

wheels: wheel
	@tools/build_kernels $(KERNELS_BUILD) $(JOBS)
	@tools/make_data_wheels $(KERNELS_BUILD)/lib dist

install: build
	@cmake --install $(BUILD)

clean:
	rm -rf $(BUILD) build-wheel dist out
