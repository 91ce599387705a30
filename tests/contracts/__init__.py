"""Contracts: test classes with every promise of an interface. An implementation is tested by a short subclass."""

import pytest

pytest.register_assert_rewrite("tests.contracts.candidate_index")
