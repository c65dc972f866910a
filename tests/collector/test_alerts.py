"""What leaves the collector for others' ears, with a real Alertmanager."""

from __future__ import annotations

import queue
import shutil
import time
from dataclasses import replace
from email.message import Message
from http.client import BadStatusLine
from pathlib import Path
from urllib.error import HTTPError

import pytest

pytest.importorskip("chdb", reason="the collector needs pilotlight[server]")

from tests.collector.conftest import free_port, get, program, until

from pilotlight.collector.config import Alerts
from pilotlight.collector.watch.alerts import Announcer, slack
from pilotlight.collector.watch.opened import Opened
from pilotlight.insights.finding import Finding

FINDING = Finding(
    rule="C02", cause="hang", title="The job hangs", rank=None, place="", evidence=("no step",),
    fix="look", gain_low_ratio=1.0, gain_high_ratio=1.0, confidence="high",
)  # fmt: skip


def opened(job: str = "job") -> Opened:
    now_ns = time.time_ns()
    return Opened(
        key=("default", job, "C02", "hang", -1, ""), attempt=0, id="f1", finding=FINDING, ranks=(),
        nodes=("node1",), opened_ns=now_ns, updated_ns=now_ns, seen_ns=now_ns,
    )  # fmt: skip


def closed(one: Opened) -> Opened:
    return replace(one, closed_ns=one.opened_ns + 1)


class Told(Announcer):
    """Notes what it would send instead of sending it."""

    def __init__(self, config: Alerts) -> None:
        self.sent: queue.SimpleQueue[tuple[str, bool]] = queue.SimpleQueue()
        super().__init__(config)

    def _send(self, kind: str, one: Opened) -> None:
        self.sent.put((kind, one.is_open))

    def told(self) -> list[tuple[str, bool]]:
        """By receiver, in the order in which each was told."""
        self.close()
        sent = [self.sent.get_nowait() for _ in range(self.sent.qsize())]
        return sorted(sent, key=lambda one: one[0])


def test_people_are_told_once_and_alertmanager_again_each_minute() -> None:
    announcer = Told(Alerts(webhook="x", alertmanager="x", repeat_s=3600))
    one = opened()
    for now_s in (0, 30, 61, 90, 122):
        announcer.tell(one, now_s)
    announcer.tell(closed(one), 130)
    announcer.tell(closed(one), 135)
    assert announcer.told() == [
        *[("alertmanager", True)] * 3,
        ("alertmanager", False),
        ("webhook", True),
        ("webhook", False),
    ]


def test_what_the_last_collector_announced_is_not_announced_again_but_its_end_is() -> None:
    announcer = Told(Alerts(webhook="x"))
    one = opened()
    announcer.recall(one, 0)
    announcer.tell(one, 5)
    announcer.tell(closed(one), 6)
    assert announcer.told() == [("webhook", False)]


class Faulty(Told):
    """Fails as often as it is told to, by receiver."""

    def __init__(self, config: Alerts, faults: dict[str, list[Exception]]) -> None:
        self.faults = faults
        super().__init__(config)

    def _send(self, kind: str, one: Opened) -> None:
        if self.faults.get(kind):
            raise self.faults[kind].pop()
        super()._send(kind, one)


def test_a_receiver_that_is_away_for_a_while_hears_of_it_in_order_and_holds_up_nobody() -> None:
    away: list[Exception] = [ConnectionRefusedError() for _ in range(4)]
    announcer = Faulty(Alerts(webhook="x", slack="x"), {"webhook": away})
    one = opened()
    announcer.tell(one, 0)
    announcer.tell(closed(one), 1)
    until(lambda: announcer.counts["slack sent"] == 2)
    assert announcer.counts["webhook sent"] < 2
    until(lambda: announcer.counts["webhook sent"] == 2)
    assert announcer.counts["webhook failed"] == 4 and not announcer.counts["dropped"]
    assert [is_open for kind, is_open in announcer.told() if kind == "webhook"] == [True, False]


def test_what_a_receiver_refuses_does_not_hold_up_what_comes_after_it() -> None:
    refusal = HTTPError("http://x", 400, "no", Message(), None)
    announcer = Faulty(Alerts(slack="x"), {"slack": [refusal] * 3})
    one = opened()
    announcer.tell(one, 0)
    announcer.tell(closed(one), 1)
    until(lambda: announcer.counts["slack sent"] == 1)
    assert announcer.counts["dropped"] == 1
    assert announcer.told() == [("slack", False)]


def test_a_receiver_that_never_answers_does_not_keep_the_collector_from_ending() -> None:
    announcer = Faulty(Alerts(webhook="x"), {"webhook": [TimeoutError() for _ in range(1000)]})
    for number in range(1200):
        announcer.tell(replace(opened(), id=f"f{number}"), 0)
    began_s = time.monotonic()
    announcer.close()
    assert time.monotonic() - began_s < 5
    assert announcer.counts["dropped"] >= 1000


def test_a_job_cannot_call_a_whole_channel_by_its_name() -> None:
    text = str(slack(opened("<!channel> & co"))["text"])
    assert "<" not in text and "&lt;!channel&gt; &amp; co" in text


@pytest.mark.skipif(
    not shutil.which("prometheus-alertmanager"), reason="needs Debian's prometheus-alertmanager"
)
def test_a_real_alertmanager_has_a_finding_as_long_as_it_is_open(tmp_path: Path) -> None:
    config = tmp_path / "alertmanager.yml"
    config.write_text("route: {receiver: nobody}\nreceivers: [{name: nobody}]\n")
    url = f"http://127.0.0.1:{free_port()}"
    with program(
        "prometheus-alertmanager", f"--config.file={config}", f"--storage.path={tmp_path}",
        f"--web.listen-address={url.removeprefix('http://')}", "--cluster.listen-address=",
    ):  # fmt: skip
        until(lambda: get(f"{url}/api/v2/status"), 60)
        announcer = Announcer(Alerts(alertmanager=url))
        one = opened("train <7b>")
        announcer.tell(one)
        (alert,) = until(lambda: get(f"{url}/api/v2/alerts"), 60)
        assert alert["labels"]["job_name"] == "train <7b>"
        assert alert["labels"]["severity"] == "critical"
        announcer.tell(closed(one))
        until(lambda: get(f"{url}/api/v2/alerts") == [], 60)
        announcer.close()
        assert announcer.counts == {"alertmanager sent": 2}


def test_a_receiver_that_speaks_something_else_than_http_is_tried_again() -> None:
    strange: list[Exception] = [BadStatusLine("SSH-2.0-OpenSSH")]
    announcer = Faulty(Alerts(webhook="x"), {"webhook": strange})
    announcer.tell(opened(), 0)
    until(lambda: announcer.counts["webhook sent"] == 1)
    assert announcer.counts["webhook failed"] == 1
