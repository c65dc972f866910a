"""The widest request counts; who asks for less takes nothing from the others."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pilotlight.tier import ASKED, Tier, TierRequest, coverage_of, tier_status, widest

_requests = st.lists(
    st.sampled_from(sorted(ASKED)).map(lambda name: TierRequest(name, ASKED[name])), max_size=8
)


@given(_requests)
def test_more_than_records_is_collected_if_and_only_if_somebody_asked_for_it(
    requests: list[TierRequest],
) -> None:
    asked = {request.tier for request in requests} - {Tier.LAUNCHES, Tier.RECORDS}
    assert widest(requests) == max(asked, default=Tier.DEFAULT)


@given(_requests, _requests)
def test_one_more_request_never_narrows(
    requests: list[TierRequest], more: list[TierRequest]
) -> None:
    assert widest([*requests, *more]) >= widest(requests)


def test_the_status_says_who_asked_for_what() -> None:
    requests = [TierRequest("recording", Tier.RECORDS), TierRequest("top 7", Tier.LAUNCHES)]
    assert tier_status(requests) == {
        "tier": "records",
        "asked": [
            {"client": "recording", "tier": "records"},
            {"client": "top 7", "tier": "launches"},
        ],
    }


def test_coverage_is_what_the_provider_counted() -> None:
    told = coverage_of(0, 4711, 3, {"tier": 3.0, "duty": 0.2, "launches_duty": 1.0})
    assert told is not None
    assert (told.tier, told.records_ratio, told.launches_ratio) == ("nodes", 0.2, 1.0)
    assert told.spent_ratio is None


def test_a_process_without_a_gpu_has_no_coverage_and_nonsense_is_survived() -> None:
    assert coverage_of(0, 4711, None, {}) is None
    strange = coverage_of(0, 4711, None, {"tier": 99.0})
    assert strange is not None and strange.tier == "unknown"


@given(st.floats(), st.floats())
def test_counters_of_any_values_are_no_fault_of_the_agent(tier: float, duty: float) -> None:
    found = coverage_of(0, 1, None, {"tier": tier, "duty": duty, "pc_samples": duty})
    assert found is None or found.records_ratio == found.records_ratio
