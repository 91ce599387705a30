"""Makes filters shorter: the values of a field that are joined by OR become one list, which is compared at once."""

from index.filters.conditions import And, Compare, FilterNode, In, Not, Or, Value


def merged(node: FilterNode) -> FilterNode:
    """Return an equivalent filter, in which each disjunction has at most one condition of equality for a field."""
    if isinstance(node, Not):
        return Not(merged(node.node))
    if isinstance(node, And):
        return And(tuple(map(merged, node.nodes)))
    if not isinstance(node, Or):
        return node
    values: dict[str, list[Value]] = {}
    others: list[FilterNode] = []
    for one in map(merged, node.nodes):
        if isinstance(one, In):
            values.setdefault(one.field, []).extend(one.values)
        elif isinstance(one, Compare) and one.op == "=":
            values.setdefault(one.field, []).append(one.value)
        else:
            others.append(one)
    lists = [In(field, tuple(dict.fromkeys(of_field))) for field, of_field in values.items()]
    parts = (*lists, *others)
    return parts[0] if len(parts) == 1 else Or(parts)
