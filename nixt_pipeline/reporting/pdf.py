"""A report as PDF, printed by a browser that is on the machine."""

import os
import shutil
import subprocess
from pathlib import Path

from nixt_pipeline.errors import NixtError

# As the distributions and the vendors call them.
_BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "microsoft-edge")
_TIMEOUT_S = 120


class PdfError(NixtError):
    """The page could not be printed; the message says why and what to do instead."""


def print_pdf(page: Path) -> Path:
    """Print `page` into a PDF beside it and return its path. Raises `PdfError` without a browser, or when it fails."""
    browser = next((path for name in _BROWSERS if (path := shutil.which(name))), None)
    if browser is None:
        raise PdfError(
            f"a PDF needs Chromium or Chrome, and none of {', '.join(_BROWSERS)} is on the path; "
            f"install one, or print {page} from any browser"
        )
    target = page.with_suffix(".pdf")
    target.unlink(missing_ok=True)
    arguments = ["--headless", "--disable-gpu", "--no-pdf-header-footer", f"--print-to-pdf={target}"]
    if os.geteuid() == 0:
        arguments.append("--no-sandbox")  # Chromium's sandbox refuses root
    try:
        subprocess.run(
            [browser, *arguments, page.resolve().as_uri()],
            check=True,
            capture_output=True,
            timeout=_TIMEOUT_S,
        )
    except (subprocess.SubprocessError, OSError) as error:
        raise PdfError(f"{browser} could not print {page}: {error}; print it from any browser instead") from error
    if not target.exists():
        raise PdfError(f"{browser} wrote no PDF of {page}; print it from any browser instead")
    return target
