"""Disjoint sets (union-find): what is joined, directly or through others, is one set."""

from typing import Generic, TypeVar

_Item = TypeVar("_Item")


class DisjointSets(Generic[_Item]):
    """Each item is a set of its own until it is joined with another."""

    def __init__(self) -> None:
        self._parent: dict[_Item, _Item] = {}

    def find(self, item: _Item) -> _Item:
        """What stands for the set of `item`."""
        while (parent := self._parent.setdefault(item, item)) != item:
            self._parent[item] = item = self._parent[parent]
        return item

    def join(self, one: _Item, other: _Item) -> None:
        """Put both into one set, for which the one that stands for `other` stands."""
        self._parent[self.find(one)] = self.find(other)
