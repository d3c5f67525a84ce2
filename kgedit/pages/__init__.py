"""Results and changes as pages: one HTML file each, and every figure as SVG and PNG."""
