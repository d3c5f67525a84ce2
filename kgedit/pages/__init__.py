"""Results and changes as self-contained HTML pages, and all figures as SVG and PNG."""
