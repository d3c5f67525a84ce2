"""Results and changes as HTML pages of one file each, and every figure as SVG and PNG."""
