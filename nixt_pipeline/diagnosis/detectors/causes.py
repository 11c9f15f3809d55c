"""Whether a late rank's CPU or its GPU was late, from verbose records.

A kernel that starts as soon after its launch as everywhere else was launched late; one that starts as much later as the
rank is late waited for the GPU.
"""

from dataclasses import replace

import numpy as np

from nixt_pipeline.diagnosis.detectors.lateness import Late, Launched
from nixt_pipeline.diagnosis.evidence.launch_lags import LaunchLags
from nixt_pipeline.diagnosis.evidence.processes import Process
from nixt_pipeline.settings import Thresholds

# Fewer collectives have no typical launch.
_LEAST_LAUNCHES = 20


def with_cause(late: Late, lags: LaunchLags, processes: tuple[Process, ...], limits: Thresholds) -> Late:
    """The same entity with what the launches in the collectives that waited for it tell; `processes` in their order."""
    numbers = [number for number, process in enumerate(processes) if process in late.processes]
    within = (lags.block >= late.window.first) & (lags.block <= late.window.last) & np.isin(lags.last, numbers)
    is_late = np.isin(lags.process, numbers)
    own, others = lags.lag_us[within & is_late], lags.lag_us[within & ~is_late]
    if min(len(own), len(others)) < _LEAST_LAUNCHES:
        return late
    _, first = np.unique(lags.collective[within], return_index=True)
    waited_us = float(np.median(lags.waited_us[within][first]))
    own_us, others_us = float(np.median(own)), float(np.median(others))
    later = own_us - others_us
    if later >= limits.diagnosis.gpu_launch_share * waited_us:
        return replace(late, launched=Launched("gpu", own_us, others_us))
    return replace(
        late,
        launched=Launched(
            "cpu" if later <= limits.diagnosis.cpu_launch_share * waited_us else "both", own_us, others_us
        ),
    )
