"""What is joined through others is one set; what is not joined stays apart."""

from nixt_pipeline.disjoint_sets import DisjointSets


def test_what_is_joined_through_others_is_one_set() -> None:
    sets: DisjointSets[str] = DisjointSets()
    for one, other in ("ab", "cd", "bc"):
        sets.join(one, other)
    assert {sets.find(item) for item in "abcd"} == {"d"}
    assert sets.find("e") == "e"
