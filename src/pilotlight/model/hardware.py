"""Peak figures of GPUs, dense, each with the mark of its source.

TFLOP/s (TOP/s for int8), GB/s, GB, MHz, MB and W. Marks: `r` read in a public repository, `p` read
on a public page, `m` from memory and unconfirmed, none: not sourced one by one. Most pages are
secondary: replace a value with the vendor's before relying on it. A card of two dies (MI250X) is
two devices to its driver and to every trace: its row is of one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

COLUMNS = (
    "fp64", "fp64_matrix", "fp32", "tf32", "bf16", "fp16", "fp8", "int8", "fp4", "memory_gb_per_s",
    "memory_gb", "units", "clock_mhz", "l2_mb", "link_gb_per_s", "power_w",
)  # fmt: skip

_TABLE = """
V100-SXM2    | 7.8r  | -     | 15.7r | -      | -      | 125r   | -     | 62.8m | -      | 900r  | 32   | 80r  | 1530m | 6r   | 300m  | 300m
V100-PCIe    | 7r    | -     | 14r   | -      | -      | 112r   | -     | 62r   | -      | 900r  | 32   | 80r  | 1380m | 6r   | -     | 250m
A100-40-SXM  | 9.7p  | 19.5p | 19.5r | 156r   | 312r   | 312r   | -     | 624p  | -      | 1555r | 40   | 108r | 1410r | 40r  | 600p  | 400p
A100-80-SXM  | 9.7p  | 19.5p | 19.5r | 156r   | 312r   | 312r   | -     | 624   | -      | 2039r | 80   | 108  | 1410  | 40   | 600   | 400
A100-80-PCIe | 9.7p  | 19.5p | 19.5r | 156r   | 312r   | 312r   | -     | 624   | -      | 1935r | 80   | 108r | 1410r | 40r  | 600m  | 300m
A10          | 0.98p | -     | 31.2r | 62.5r  | 125r   | 125r   | -     | 250m  | -      | 600p  | 24   | 72p  | 1695p | 6p   | -     | 150m
A30          | 5.2m  | 10.3m | 10.3m | 82m    | 165m   | 165p   | -     | 330m  | -      | 933m  | 24p  | 56m  | 1440m | 24m  | 200m  | 165m
T4           | 0.25m | -     | 8.1r  | -      | -      | 65r    | -     | 130r  | -      | 320r  | 16   | 40r  | 1590r | 4r   | -     | 70m
A40          | 1.17p | -     | 37.4p | 74.8m  | 149.7r | 149.7r | -     | 299.3r| -      | 696r  | 48r  | 84p  | 1740p | 6p   | -     | 300p
RTX-A6000    | 1.21p | -     | 38.7p | 77.4m  | 154.8m | 154.8m | -     | 309.7m| -      | 768p  | 48p  | 84p  | 1800p | 6p   | -     | 300p
RTX-3090     | 0.56p | -     | 35.6p | 35.6m  | 71m    | 71m    | -     | 284m  | -      | 936p  | 24p  | 82p  | 1695p | 6p   | -     | 350p
L4           | 0.47p | -     | 30.3p | 60p    | 121p   | 121p   | 242p  | 242p  | -      | 300p  | 24   | 58   | 2040p | 48p  | -     | 72p
L40S         | 1.43p | -     | 91.6p | 183p   | 362r   | 362r   | 733p  | 733p  | -      | 864p  | 48   | 142p | 2520p | 96m  | -     | 350p
RTX-4090     | 1.29p | -     | 82.6p | 82.6p  | 165p   | 165p   | 330p  | 661m  | -      | 1008p | 24   | 128p | 2520p | 72m  | -     | 450p
RTX-5090     | 1.64m | -     | 104.8m| 104.8m | 209.5m | 209.5m | 419m  | 838m  | 1676m  | 1792m | 32m  | 170m | 2407m | 96m  | -     | 575m
RTX-6000-Ada | 1.42m | -     | 91.1m | 182m   | 364m   | 364m   | 728m  | 728m  | -      | 960m  | 48p  | 142p | 2505m | 96m  | -     | 300p
H100-SXM     | 34m   | 67r   | 67r   | 494.5r | 989.5r | 989.5r | 1979r | 1979r | -      | 3350p | 80   | 132r | 1980r | 50r  | 900m  | 700p
H100-PCIe    | 26m   | 51r   | 51r   | 378r   | 756.5r | 756.5r | 1513r | 1513r | -      | 2000m | 80   | 114m | 1755m | 50m  | 600m  | 350m
H100-NVL     | 30m   | 60m   | 60m   | 417m   | 835r   | 835r   | 1671m | 1671m | -      | 3938m | 94m  | 132m | 1785m | 50m  | 600m  | 400m
H200-SXM     | 34m   | 67r   | 67r   | 494.5r | 989.5r | 989.5r | 1979r | 1979r | -      | 4800m | 141m | 132m | 1980m | 50m  | 900m  | 700m
GH200        | 34m   | 67m   | 67m   | 494.5m | 989.5m | 989.5m | 1979m | 1979m | -      | 4000m | 96m  | 132m | 1980m | 60m  | 900m  | 900m
H20          | 1m    | -     | 44m   | 74m    | 148r   | 148r   | 296m  | 296r  | -      | 4022r | 96r  | 78m  | 1980m | 60m  | 900r  | 400m
B100         | 30p   | 27p   | 60.6p | 875p   | 1750p  | 1750p  | 3500p | 3500p | 7000p  | 8000p | 192p | 148p | 1600p | 126m | 1800p | 700p
B200         | 40p   | -     | 80p   | 1100p  | 2250p  | 2250p  | 4500p | 4500p | 9000p  | 8000p | 180  | 148p | 1980p | 126m | 1800p | 1000p
GB200        | 45p   | -     | 90p   | 1250p  | 2500p  | 2500p  | 5000p | 5000p | 10000p | 8000p | 186  | 148p | 2110p | 126m | 1800p | 1200p
MI250X       | 23.9m | 47.9m | 23.9m | -      | 191.5r | 191.5r | -     | 191.5m| -      | 1640r | 64m  | 110m | 1700r | 8m   | 800m  | 500m
MI300X       | 81.7m | 163.4m| 163.4m| 653.7m | 1307m  | 1307m  | 2615m | 2615m | -      | 5300p | 192p | 304p | 2100m | 32m  | 896m  | 750p
MI325X       | 81.7m | 163.4m| 163.4m| 653.7m | 1307m  | 1307m  | 2615m | 2615m | -      | 6000r | 256r | 304m | 2100m | 32m  | 896m  | 1000m
MI355X       | 78.6m | -     | 157.3m| -      | 2517m  | 2517m  | 5033  | 5033m | 10066m | 8000p | 288p | 256p | 2400p | 32m  | 1075m | 1400p
"""  # noqa: E501

# Measured by others with real kernels; for NVIDIA nobody publishes such a table.
_ACHIEVABLE = {
    "MI300X": {"bf16": 708.0, "fp16": 654.0, "fp8": 1273.0},
    "MI325X": {"bf16": 843.0, "fp16": 794.0, "fp8": 1519.0},
}
ASSUMED_COMPUTE_RATIO = 0.78
ASSUMED_MEMORY_RATIO = 0.90

# How drivers spell the names; the first that matches counts. Those of laptops run far slower than
# cards of the same number.
_SPELLINGS: tuple[tuple[str, str], ...] = (
    (r"laptop|max-q", ""),
    (r"GB200", "GB200"),
    (r"GH200", "GH200"),
    (r"H20\b", "H20"),
    (r"H800", "H100-SXM"),
    (r"A800", "A100-80-SXM"),
    (r"B200", "B200"),
    (r"B100", "B100"),
    (r"H200", "H200-SXM"),
    (r"H100.*NVL", "H100-NVL"),
    (r"H100.*PCIe", "H100-PCIe"),
    (r"H100", "H100-SXM"),
    (r"A100.*80GB.*PCIe", "A100-80-PCIe"),
    (r"A100.*80", "A100-80-SXM"),
    (r"A100", "A100-40-SXM"),
    (r"A10G?\b", "A10"),
    (r"A40\b", "A40"),
    (r"RTX A6000", "RTX-A6000"),
    (r"3090\b(?! Ti)", "RTX-3090"),
    (r"5090\b(?! D)", "RTX-5090"),
    (r"A30\b", "A30"),
    (r"V100.*PCIe", "V100-PCIe"),
    (r"V100", "V100-SXM2"),
    (r"T4\b", "T4"),
    (r"L40S", "L40S"),
    (r"\bL4\b", "L4"),
    (r"4090", "RTX-4090"),
    (r"6000 Ada", "RTX-6000-Ada"),
    (r"MI355X", "MI355X"),
    (r"MI325X", "MI325X"),
    (r"MI300X", "MI300X"),
    (r"MI250", "MI250X"),
)


# What pinned copies reach over PCIe, by generation: about 0.8 of the link.
_PINNED_GB_PER_S = {3: 12.0, 4: 25.0, 5: 50.0}
_PCIE_3 = ("V100-SXM2", "V100-PCIe", "T4")
_PCIE_5 = (
    "H100", "H20", "GH200", "B100", "B200", "GB200", "RTX-5090", "MI300X", "MI325X", "MI355X",
)  # fmt: skip


@dataclass(frozen=True)
class Figure:
    value: float
    mark: str


@dataclass(frozen=True)
class Gpu:
    name: str
    figures: dict[str, Figure]

    @property
    def pinned_gb_per_s(self) -> float:
        if self.name in _PCIE_3:
            return _PINNED_GB_PER_S[3]
        return _PINNED_GB_PER_S[5 if self.name.startswith(_PCIE_5) else 4]

    def peak(self, column: str) -> float | None:
        found = self.figures.get(column)
        return found.value if found else None

    def achievable(self, column: str) -> float | None:
        """TFLOP/s or GB/s that good kernels reach: measured if known, else an assumed part."""
        measured = _ACHIEVABLE.get(self.name, {}).get(column)
        if measured is not None:
            return measured
        peak = self.peak(column)
        if peak is None:
            return None
        memory = column == "memory_gb_per_s"
        return peak * (ASSUMED_MEMORY_RATIO if memory else ASSUMED_COMPUTE_RATIO)


@cache
def gpus() -> dict[str, Gpu]:
    return {gpu.name: gpu for gpu in map(_parse, _TABLE.strip().splitlines())}


def find_gpu(text: str) -> Gpu | None:
    """By our name or by that of a driver, such as "NVIDIA H100 80GB HBM3"."""
    for name, gpu in gpus().items():
        if name.lower() == text.lower():
            return gpu
    for pattern, name in _SPELLINGS:
        if re.search(pattern, text, re.IGNORECASE):
            return gpus().get(name)
    return None


def _parse(line: str) -> Gpu:
    name, *cells = (cell.strip() for cell in line.split("|"))
    figures = {
        column: Figure(float(cell.rstrip("rpm")), cell[-1] if cell[-1] in "rpm" else "")
        for column, cell in zip(COLUMNS, cells, strict=True)
        if cell != "-"
    }
    return Gpu(name, figures)
