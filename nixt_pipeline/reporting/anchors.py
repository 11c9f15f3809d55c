"""Ids of findings, kernels and hosts in a page. They come from what a thing is, not from its place in a table, so that
a link still leads there after the report was made again."""

import hashlib
import re
from collections.abc import Mapping
from typing import Any

from nixt_pipeline.diagnosis.findings import Finding

_OTHER = re.compile(r"[^a-z0-9]+")
_CHARACTERS = 60
_DIGEST_BYTES = 4


def slug(text: str) -> str:
    """`text` in lower-case letters, digits and hyphens; with a digest of the whole where that loses more than case."""
    plain = _OTHER.sub("-", text.lower()).strip("-")
    if plain == text.lower() and len(plain) <= _CHARACTERS:
        return plain
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=_DIGEST_BYTES).hexdigest()
    return f"{plain[:_CHARACTERS].rstrip('-')}-{digest}".lstrip("-")


def host_anchor(hostname: str | None) -> str:
    """The id of a host's row."""
    return f"host-{slug('(not named)' if hostname is None else hostname)}"


def kernel_anchor(row: Mapping[str, Any]) -> str:
    """The id of a hot kernel's row."""
    shape = f"{row['coll_type']}-{row['n_ranks']}r-{row['nnodes']}n-{row['coll_msg_size_bytes']}b"
    return f"kernel-{slug(str(row['coll']))}-{shape}"


def finding_anchor(finding: Finding) -> str:
    """The id of a finding: what and where."""
    by_process = finding.level == "rank" and finding.processes
    names = finding.processes if by_process else finding.hosts or finding.communicators
    return f"finding-{finding.kind}-{slug('-'.join(names) or finding.level)}"
