"""Names that users of other kernel packages know, made of `tachyscope.ops`: `tachyscope.compat.wan_kernels`."""
