"""The fixture that gives a law a fresh copy of a sample."""

from __future__ import annotations

import pytest

from tests.laws.cases import Case, case_of


@pytest.fixture
def case(request: pytest.FixtureRequest) -> Case:
    """One sample of one op."""
    op, index = request.param
    return case_of(op, index)
