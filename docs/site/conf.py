# SPDX-License-Identifier: GPL-2.0-only
# scripts/docs runs Sphinx with this.

import re
import sys
from pathlib import Path

import furo

here = Path(__file__).parent
sys.path[:0] = [str(here / "ext"), str(here / "python")]

project = "hwtimer"
html_title = "hwtimer"
html_show_copyright = False
html_show_sphinx = False
html_copy_source = False
html_theme = "furo"
# Debian 12's furo is dark only if the reader chooses it on the page: its style sheet lacks the rule
# for those whose system is dark. Variables that are set here apply to both.
style = Path(furo.__file__).parent / "theme/furo/static/styles/furo.css"
dark = dict(re.findall(r"--([\w-]+): ([^;]+);", re.search(
    r'body\[data-theme="dark"\] \{([^}]+)', style.read_text(encoding="utf-8"))[1]))

# Colours of the pictures (style.css), and greys of the theme's that are too pale.
html_theme_options = {
    "light_css_variables": {
        "slot": "#f4f4f4", "now": "#fde9b8", "blue": "#1f5fa8", "pale": "#d6e6f5",
        "red": "#b03325", "line": "#777777", "shadow": "#00000055",
        "color-foreground-muted": "#5a5c68", "color-code-background": "#f4f6f8",
    },
    "dark_css_variables": {
        **dark,
        "slot": "#2b2d31", "now": "#5c4a15", "blue": "#8ab8ee", "pale": "#24405c",
        "red": "#f0907f", "line": "#999999", "shadow": "#ffffff55",
        "color-foreground-muted": "#a0a3ad",
    },
}
html_static_path = ["style.css"]
html_css_files = ["style.css"]
extensions = ["sphinx.ext.autodoc", "page"]
autodoc_mock_imports = ["_hwtimer"]
pygments_style = "xcode"
pygments_dark_style = "github-dark"
primary_domain = "c"
highlight_language = "none"
smartquotes = False
