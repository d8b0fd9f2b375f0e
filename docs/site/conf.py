# SPDX-License-Identifier: GPL-2.0-only
# scripts/docs runs Sphinx with this.

project = "hwtimer"
html_title = "hwtimer"
html_show_copyright = False
html_copy_source = False
html_theme = "alabaster"
html_theme_options = {"page_width": "1100px", "sidebar_width": "230px"}
html_static_path = ["style.css"]
html_css_files = ["style.css"]
extensions = ["sphinx.ext.graphviz"]
graphviz_output_format = "svg"
primary_domain = "c"
highlight_language = "none"
