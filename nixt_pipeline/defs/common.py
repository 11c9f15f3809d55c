"""What all assets share: owner, groups, and the decorator for assets that exist once per run."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import dagster as dg

from nixt_pipeline.defs.metadata import column_schema, flat_numbers
from nixt_pipeline.defs.partitions import runs
from nixt_pipeline.inspector.taxonomy import Column
from nixt_pipeline.pipeline import reads

OWNERS = ("team:nixt",)

# The boxes of the lineage page, from left to right.
INGEST, ANALYSES, REPORTS, FLEET = "ingest", "analyses", "reports", "fleet"

# Everything that the result of a stage carries; there is no value, the data are in the store.
Result = dg.MaterializeResult[None]


def run_asset(
    *,
    group: str,
    kinds: set[str],
    code_version: str,
    columns: Sequence[Column],
    name: str | None = None,
    description: str | None = None,
) -> Callable[[Callable[..., Result]], dg.AssetsDefinition]:
    """An asset with one partition per run, which depends on what its step reads, described by its docstring (or
    `description`) and the taxonomy's `columns`.

    Changing `code_version` marks every run's result as stale in the UI; it starts nothing by itself.
    """

    def decorate(compute: Callable[..., Result]) -> dg.AssetsDefinition:
        return dg.asset(
            name=name,
            description=description,
            partitions_def=runs,
            group_name=group,
            kinds=kinds,
            code_version=code_version,
            deps=reads(name or compute.__name__),
            owners=list(OWNERS),
            metadata={"dagster/column_schema": column_schema(columns)},
        )(compute)

    return decorate


def result(
    path: Path,
    rows: int | None,
    shown: Mapping[str, Any],
    numbers: Mapping[str, object] | None = None,
    *,
    data_version: dg.DataVersion | None = None,
    counted: str = "dagster/partition_row_count",
) -> Result:
    """What the UI records of one run's partition: the place, the rows written, what is `shown` of them, and `numbers`,
    which it plots over runs and time. `counted` is Dagster's name for the number of rows."""
    metadata: dict[str, Any] = {} if rows is None else {counted: rows}
    metadata |= {"dagster/uri": path.resolve().as_uri(), **shown, **flat_numbers(numbers or {})}
    return dg.MaterializeResult(metadata=metadata, data_version=data_version)


# The same of an asset of the fleet.
fleet_result = partial(result, counted="dagster/row_count")
