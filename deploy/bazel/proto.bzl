"""kiln_proto_library: protoc and grpc_cpp_plugin from Debian, as a genrule, then a cc_library."""

def kiln_proto_library(name, srcs, services = [], deps = [], visibility = None):
    """C++ for .proto files of one package, included as "<package>/<file>.pb.h".

    Args:
      name: the cc_library.
      srcs: .proto files; they may import each other, by paths relative to the workspace root.
      services: those of srcs that declare a service; these also get <file>.grpc.pb.h.
      deps: other kiln_proto_library targets whose files are imported.
      visibility: of the library and of the .proto files.
    """
    for f in services:
        if f not in srcs:
            fail("services: %s is not among srcs" % f)
    bases = [f[:-len(".proto")] for f in srcs]
    grpc_bases = [f[:-len(".proto")] for f in services]
    hdrs = [b + ".pb.h" for b in bases] + [b + ".grpc.pb.h" for b in grpc_bases]
    ccs = [b + ".pb.cc" for b in bases] + [b + ".grpc.pb.cc" for b in grpc_bases]

    # name_protos: the transitive .proto files, for whoever imports them.
    native.filegroup(
        name = name + "_protos",
        srcs = srcs + [d + "_protos" for d in deps],
        visibility = visibility,
    )

    # Paths in the generated #includes are relative to the workspace root.
    cmd = "/usr/bin/protoc -I. --cpp_out=$(GENDIR) " + " ".join(["$(location %s)" % f for f in srcs])
    if services:
        cmd += (" && /usr/bin/protoc -I. --grpc_out=$(GENDIR) --plugin=protoc-gen-grpc=/usr/bin/grpc_cpp_plugin " +
                " ".join(["$(location %s)" % f for f in services]))
    native.genrule(
        name = name + "_gen",
        srcs = srcs + [d + "_protos" for d in deps],
        outs = hdrs + ccs,
        cmd = cmd,
    )
    native.cc_library(
        name = name,
        srcs = ccs,
        hdrs = hdrs,
        copts = ["-w"],  # generated code
        linkstatic = True,
        visibility = visibility,
        deps = deps + ["//deploy/bazel/deps:protobuf"] + (["//deploy/bazel/deps:grpc++"] if services else []),
    )
