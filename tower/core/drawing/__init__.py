"""Drawing graphs: our own layered layout, and what it draws as SVG and Mermaid. Pure, as all of the core."""
