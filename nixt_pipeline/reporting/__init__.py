"""The HTML reports: figures (matplotlib) and pages (Jinja2). No Dagster."""
