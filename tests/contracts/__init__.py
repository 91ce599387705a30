"""Contracts: test classes that hold every promise of an interface; an implementation joins with a short subclass."""

import pytest

pytest.register_assert_rewrite("tests.contracts.candidate_index")
