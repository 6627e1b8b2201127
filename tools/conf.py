"""How Sphinx builds the site: one theme, Markdown, nothing from any network."""

from pathlib import Path

HERE = Path(__file__).parent

project = "covgame"
extensions = ["myst_parser"]
myst_heading_anchors = 4
html_theme = "furo"
html_title = "covgame"
smartquotes = False
html_static_path = [str(HERE / "theme" / "static")]
templates_path = [str(HERE / "theme")]
html_css_files = ["site.css"]
html_copy_source = False
html_show_copyright = False
html_show_sphinx = False
html_show_search_summary = False  # excerpts are fetched, which no browser does from disk
html_permalinks_icon = "#"
pygments_style = "default"
pygments_dark_style = "monokai"
suppress_warnings = ["misc.highlighting_failure"]
html_theme_options = {
    "light_css_variables": {
        "color-brand-primary": "#0b6e75",
        "color-brand-content": "#0b6e75",
        "color-brand-visited": "#0b6e75",
    },
    "dark_css_variables": {
        "color-brand-primary": "#5cc8cf",
        "color-brand-content": "#5cc8cf",
        "color-brand-visited": "#5cc8cf",
    },
}
