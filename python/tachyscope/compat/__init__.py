"""Names that users of other kernel packages know, based on `tachyscope.ops`: `tachyscope.compat.wan_kernels`."""
