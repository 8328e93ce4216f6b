from hypothesis import given
from hypothesis import strategies as st

from storlab.base.seeds import derive_seed


@given(st.integers(0, 2**63 - 1), st.text(), st.integers(0, 1000))
def test_neighbours_share_no_seed(seed: int, purpose: str, number: int) -> None:
    here = derive_seed(seed, purpose, number)
    assert here == derive_seed(seed, purpose, number)
    assert 0 <= here < 2**63
    assert here not in (
        derive_seed(seed + 1, purpose, number),
        derive_seed(seed, purpose, number + 1),
    )
    assert here != derive_seed(seed, purpose + "x", number)
