"""cc_* with the project's warnings. linkstatic: no .so is made per library.

A package says who may depend on it by `package(default_visibility = [...])`.
"""

_COPTS = ["-Wall", "-Wextra", "-Werror"]

def kiln_cc_library(name, copts = [], **kw):
    native.cc_library(name = name, copts = _COPTS + copts, linkstatic = True, **kw)

def kiln_cc_binary(name, copts = [], **kw):
    native.cc_binary(name = name, copts = _COPTS + copts, **kw)

def kiln_cc_test(name, copts = [], size = "small", **kw):
    native.cc_test(name = name, copts = _COPTS + copts, size = size, **kw)

def kiln_cc_fuzz_test(name, srcs, deps = [], corpus = [], copts = [], tags = [], **kw):
    """A file that defines LLVMFuzzerTestOneInput.

    Under --config=fuzz a libFuzzer binary; otherwise a test that replays `corpus` (files) and fixed mutations of it.
    """
    native.cc_test(
        name = name,
        srcs = srcs,
        args = ["$(rootpath %s)" % f for f in corpus],
        copts = _COPTS + copts,
        data = corpus,
        linkopts = select({
            "//deploy/bazel:fuzz": ["-fsanitize=fuzzer"],
            "//conditions:default": [],
        }),
        size = "small",
        tags = tags + ["fuzz"],
        deps = deps + select({
            "//deploy/bazel:fuzz": [],
            "//conditions:default": ["//deploy/bazel:fuzz_replay"],
        }),
        **kw
    )
