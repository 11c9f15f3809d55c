"""A job of four GPUs on two hosts with its truth, and what was found in it."""

from typing import Any

from evaluation.independent.clocks import EPOCH_US

GPUS = [{"rank": rank, "host": "ab"[rank // 2], "process": f"{'ab'[rank // 2]}-pid{rank}"} for rank in range(4)]


def truth(*ranks: int, possible: tuple[int, ...] = (), level: str = "exact", cost: float = 0.2, **changes: Any) -> Any:
    fault = {
        "what": "late",
        "link": None,
        "ranks": list(ranks),
        "answers": ["late-arrival"],
        "cost_share": cost,
        "ideal": {"level": level, "ranks": list(possible or ranks), "communicators": ["0x1"]},
        **changes,
    }
    return {
        "name": "late-gpu-1",
        "kind": "late-gpu",
        "workload": "ddp",
        "wall_s": [100.0],
        "gpus": [dict(gpu) for gpu in GPUS],
        "communicators": {"0x1": [1, 3]},
        "faults": [fault] if ranks else [],
    }


def finding(**changes: Any) -> dict[str, Any]:
    plain: dict[str, Any] = {
        "onset_us": EPOCH_US + 50_000_000,
        "until_us": None,
        "kind": "late-arrival",
        "severity": "P1",
        "level": "rank",
        "hosts": [],
        "processes": [],
        "ambiguous": False,
    }
    return {**plain, "communicators": [], "effect": {"cost_share": 0.3}, **changes}
