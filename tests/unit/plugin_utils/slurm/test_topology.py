from ansible_collections.muster.cluster.plugins.plugin_utils.slurm.slurm_topology import Member, block_lines, tree_lines


def members(*places: tuple[str | None, str | None]) -> list[Member]:
    """Return two nodes in each of the places (pod, rack)."""
    nodes = [place for place in places for _ in range(2)]
    return [Member(f"n{number}", f"10.0.0.{number}", "a", *place) for number, place in enumerate(nodes, start=1)]


def test_racks_are_leaves_below_pods_below_a_root() -> None:
    nodes = members(("p1", "r1"), ("p1", "r2"), ("p2", "r3"), ("p2", "r4"))
    assert tree_lines(nodes, 2000) == [
        "SwitchName=r1 Nodes=n[1-2]",
        "SwitchName=r2 Nodes=n[3-4]",
        "SwitchName=r3 Nodes=n[5-6]",
        "SwitchName=r4 Nodes=n[7-8]",
        "SwitchName=p1 Switches=r[1-2]",
        "SwitchName=p2 Switches=r[3-4]",
        "SwitchName=fabric Switches=p[1-2]",
    ]


def test_one_pod_is_the_root_itself() -> None:
    assert tree_lines(members(("p1", "r1"), ("p1", "r2")), 2000)[2:] == ["SwitchName=p1 Switches=r[1-2]"]


def test_racks_without_pods_hang_below_the_root() -> None:
    assert tree_lines(members((None, "r1"), (None, "r2")), 2000)[2:] == ["SwitchName=fabric Switches=r[1-2]"]


def test_pods_without_racks_are_leaves() -> None:
    assert tree_lines(members(("p1", None), ("p2", None)), 2000) == [
        "SwitchName=p1 Nodes=n[1-2]",
        "SwitchName=p2 Nodes=n[3-4]",
        "SwitchName=fabric Switches=p[1-2]",
    ]


def test_one_rack_or_none_says_nothing() -> None:
    assert tree_lines(members(("p1", "r1")), 2000) == []
    assert tree_lines(members((None, None)), 2000) == []
    assert block_lines(members(("p1", "r1")), True) == []


def test_too_many_racks_make_pods_the_leaves() -> None:
    nodes = members(("p1", "r1"), ("p1", "r2"), ("p2", "r3"))
    assert len(tree_lines(nodes, 3)) == 6
    assert tree_lines(nodes, 2) == [
        "SwitchName=p1 Nodes=n[1-4]",
        "SwitchName=p2 Nodes=n[5-6]",
        "SwitchName=fabric Switches=p[1-2]",
    ]


def test_too_many_racks_without_pods_stay() -> None:
    assert len(tree_lines(members((None, "r1"), (None, "r2"), (None, "r3")), 2)) == 4


def test_every_node_is_below_a_switch_and_every_switch_has_one_name() -> None:
    nodes = members(("a", "a"), ("a", None), (None, None), ("b", "fabric"))
    lines = tree_lines(nodes, 2000)
    assert lines == [
        "SwitchName=a Nodes=n[1-2]",
        "SwitchName=a.above Nodes=n[3-4]",
        "SwitchName=unplaced Nodes=n[5-6]",
        "SwitchName=fabric Nodes=n[7-8]",
        "SwitchName=a.above.above Switches=a,a.above",
        "SwitchName=b Switches=fabric",
        "SwitchName=fabric.above Switches=unplaced,a.above.above,b",
    ]


def test_blocks_are_racks_sized_by_the_smallest_and_by_equal_pods() -> None:
    nodes = members(("p1", "r1"), ("p1", "r2"), ("p2", "r3"), ("p2", "r4"))
    assert block_lines(nodes, True) == [
        "BlockName=r1 Nodes=n[1-2]",
        "BlockName=r2 Nodes=n[3-4]",
        "BlockName=r3 Nodes=n[5-6]",
        "BlockName=r4 Nodes=n[7-8]",
        "BlockSizes=2,4",
    ]
    assert block_lines(nodes[:-1], True)[-1] == "BlockSizes=1,2"
    # 23.11 has blocks, and no key for their sizes.
    assert block_lines(nodes, False)[-1].startswith("BlockName=r4")


def test_pods_of_three_racks_or_of_different_numbers_are_no_block_size() -> None:
    three = [("p1", f"r{number}") for number in range(3)] + [("p2", f"s{number}") for number in range(3)]
    assert block_lines(members(*three), True)[-1] == "BlockSizes=2"
    assert block_lines(members(("p1", "r1"), ("p1", "r2"), ("p2", "r3")), True)[-1] == "BlockSizes=2"
