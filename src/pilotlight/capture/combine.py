"""The captures of several nodes as one: a manifest that names the traces of all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pilotlight.capture.examine import common_steps, skew_ns
from pilotlight.capture.examine import same_steps as steps_are_same
from pilotlight.capture.manifest import Captured, CaptureManifest, read_capture


@dataclass(frozen=True)
class NodePart:
    """What one node brought: `folder` has its capture.json, `offset_ns` is added to its clock."""

    node: str
    folder: Path
    offset_ns: int


def combine(
    parts: Sequence[NodePart],
    within: Path,
    same_steps: bool | None,
    request: Mapping[str, object],
    problems: Sequence[str],
) -> CaptureManifest:
    """`same_steps` is what the collector says of captures by steps. FormatError: one of the parts
    cannot be read."""
    manifests = [read_capture(part.folder) for part in parts]
    processes = [
        _moved(process, part, within)
        for part, manifest in zip(parts, manifests, strict=True)
        for process in manifest.processes
    ]
    firsts = {manifest.first_step for manifest in manifests}
    first_step = firsts.pop() if len(firsts) == 1 else None
    if first_step is None:
        # By time: they end in the midst of a step, and not all of them in the same one.
        processes = common_steps(processes)
        same_steps = steps_are_same(processes)
    return CaptureManifest(
        job=manifests[0].job,
        created_ns=max(manifest.created_ns for manifest in manifests),
        request=request,
        first_step=first_step,
        processes=tuple(processes),
        skew_ns=skew_ns(processes),
        same_steps=same_steps,
        problems=(
            *problems,
            *(
                f"{part.node}: {problem}"
                for part, manifest in zip(parts, manifests, strict=True)
                for problem in manifest.problems
            ),
        ),
    )


def _moved(process: Captured, part: NodePart, within: Path) -> Captured:
    """To the collector's clock, and to a path from the folder of all."""
    by_ns = part.offset_ns
    window_ns = process.window_ns
    file = process.file
    return replace(
        process,
        node=part.node,
        file=str((part.folder / file).relative_to(within)) if file is not None else None,
        offset_ns=process.offset_ns + by_ns,
        window_ns=(window_ns[0] + by_ns, window_ns[1] + by_ns) if window_ns else None,
        steps=tuple(replace(step, start_ns=step.start_ns + by_ns) for step in process.steps),
    )
