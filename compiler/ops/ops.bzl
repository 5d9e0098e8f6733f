"""The table of op records, from the KILN_OP lines of defs/*.cc."""

def kiln_op_table(name, srcs):
    """Generates handles.h (op::exp()), op_builder_methods.inc and op_table.cc (AllOps).

    Args:
      name: a filegroup of the generated files.
      srcs: the files with KILN_OP records.
    """
    outs = ["handles.h", "op_builder_methods.inc", "op_table.cc"]
    native.genrule(
        name = name,
        srcs = srcs,
        outs = outs,
        cmd = "$(location generate.sh) $(RULEDIR) $(SRCS)",
        tools = ["generate.sh"],
    )
