"""Two or more pipeline stages of two hosts each; a block lasts a second, and waiting is given as a share of it."""

from dataclasses import replace

from nixt_pipeline.diagnosis.evidence.observations import Communicator, Edge, Observations, Transfer
from nixt_pipeline.diagnosis.evidence.processes import Process
from nixt_pipeline_tests.diagnosis.examples import SECOND_US, collective, communicator, observations

A, B, C, D = (tuple((host, pid) for pid in (1, 2)) for host in "abcd")
EVERYBODY = (*A, *B, *C, *D)
# Tensor parallelism within each host, data parallelism between a and b, and between c and d.
TENSOR = [communicator(number, *members) for number, members in enumerate((A, B, C, D))]
DATA = [communicator(4 + n, *members) for n, members in enumerate(zip((*A, *C), (*B, *D), strict=True))]


def launch(
    more: list[Communicator],
    shares: dict[str, float],
    *,
    small: tuple[int, ...] = (),
    rare: tuple[int, ...] = (),
    edges: tuple[Edge, ...] = (),
    without: tuple[int, ...] = (),
) -> Observations:
    """`shares`: what the processes of each host spend in communication. Communicators that are `small` carry 16 kB,
    those that are `rare` work in half of the blocks, those `without` collectives only send."""
    transfers: list[Transfer] = []
    for comm in (*TENSOR, *DATA, *more):
        if comm.number not in without:
            size = 16_384 if comm.number in small else 10_000_000
            transfers += collective(comm, [100.0] * (5 if comm.number in rare else 10), size)
    return observations(
        [*TENSOR, *DATA, *more],
        wait_us={process: [shares[process[0]] * SECOND_US] * 10 for process in EVERYBODY},
        transfers=transfers,
        edges=edges,
    )


def hosts_of_stages(seen: Observations) -> list[str]:
    return sorted("".join(sorted({process[0] for process in stage})) for stage in seen.stages())


def test_control_messages_across_stages_join_nobody() -> None:
    model = [communicator(8, *A, *C), communicator(9, *B, *D)]
    alike = dict.fromkeys("abcd", 0.3)
    assert hosts_of_stages(launch(model, alike, small=(8, 9))) == ["ab", "cd"]
    assert hosts_of_stages(launch(model, alike)) == ["abcd"]


def test_gradients_that_first_and_last_stage_share_do_not_join_them_when_one_has_more_work() -> None:
    embedding = [communicator(8 + n, *pair) for n, pair in enumerate(zip((*A, *B), (*C, *D), strict=True))]
    rare = (8, 9, 10, 11)
    unequal = {"a": 0.4, "b": 0.41, "c": 0.2, "d": 0.21}
    assert hosts_of_stages(launch(embedding, unequal, rare=rare)) == ["ab", "cd"]
    # A slow host in the lighter stage changes nothing, and neither does one in the other.
    assert hosts_of_stages(launch(embedding, {**unequal, "a": 0.1}, rare=rare)) == ["ab", "cd"]
    assert hosts_of_stages(launch(embedding, {**unequal, "c": 0.05}, rare=rare)) == ["ab", "cd"]


def test_a_slow_host_is_no_stage_of_its_own() -> None:
    replicas = [communicator(8 + n, *pair) for n, pair in enumerate(zip((*A, *B), (*C, *D), strict=True))]
    slow = {"a": 0.1, "b": 0.4, "c": 0.4, "d": 0.4}
    assert hosts_of_stages(launch(replicas, slow, rare=(8, 9, 10, 11))) == ["abcd"]


def test_a_late_machine_whose_containers_have_a_host_name_each_is_no_stage_of_its_own() -> None:
    one, other = tuple((f"c{n}", 1) for n in range(4)), tuple((f"c{n}", 1) for n in range(4, 8))
    tensor = [communicator(0, *one), communicator(1, *other)]
    data = [communicator(2 + n, *pair) for n, pair in enumerate(zip(one, other, strict=True))]
    shares = {**dict.fromkeys(one, 0.4), **dict.fromkeys(other, 0.1)}
    seen = observations(
        [*tensor, *data], wait_us={process: [share * SECOND_US] * 10 for process, share in shares.items()}
    )
    assert seen.stages() == (frozenset({*one, *other}),)


def test_a_fault_that_begins_makes_no_stage() -> None:
    replicas = [communicator(8 + n, *pair) for n, pair in enumerate(zip((*A, *B), (*C, *D), strict=True))]
    shares = {"a": 0.2, "b": 0.2, "c": 0.4, "d": 0.4}
    seen = launch(replicas, shares, rare=(8, 9, 10, 11))
    assert hosts_of_stages(seen) == ["ab", "cd"]
    earlier = seen.communicating.copy()
    earlier[:, :4] = 0.3 * SECOND_US
    assert hosts_of_stages(replace(seen, communicating=earlier)) == ["abcd"]


def test_processes_that_send_activations_to_one_another_are_different_stages() -> None:
    pipeline = [communicator(8 + n, *pair) for n, pair in enumerate(zip((*A, *B), (*C, *D), strict=True))]
    embedding = [communicator(12 + n, *pair) for n, pair in enumerate(zip((*A, *B), (*C, *D), strict=True))]
    edges = tuple(_edge(comm.number, *comm.members) for comm in pipeline)
    seen = launch([*pipeline, *embedding], dict.fromkeys("abcd", 0.3), edges=edges, without=(8, 9, 10, 11))
    assert hosts_of_stages(seen) == ["ab", "cd"]


def test_an_all_to_all_of_sends_is_no_pipeline() -> None:
    experts = [communicator(8, A[0], B[0], C[0], D[0]), communicator(9, A[1], B[1], C[1], D[1])]
    replicas = [communicator(10 + n, *pair) for n, pair in enumerate(zip((*A, *B), (*C, *D), strict=True))]
    edges = tuple(
        _edge(comm.number, one, other)
        for comm in experts
        for one in comm.members
        for other in comm.members
        if one != other
    )
    seen = launch([*experts, *replicas], dict.fromkeys("abcd", 0.3), edges=edges, without=(8, 9))
    assert hosts_of_stages(seen) == ["abcd"]


def test_where_stages_are_hosts_only_first_and_last_are_tied_and_stay_apart() -> None:
    tied = [communicator(n, first, last) for n, (first, last) in enumerate(zip(A, C, strict=True))]
    inside = [communicator(2 + n, *members) for n, members in enumerate((A, B, C))]
    assert hosts_of_stages(observations([*tied, *inside])) == ["a", "b", "c"]


def test_where_two_stages_are_hosts_what_ties_them_comes_once_a_step_beside_two_groups_inside() -> None:
    tensor = [communicator(n, *members) for n, members in enumerate((A, B))]
    data = [communicator(2 + n, *members) for n, members in enumerate((A, B))]
    tied = [communicator(4 + n, *pair) for n, pair in enumerate(zip(A, B, strict=True))]

    def seen(times_a_block: int) -> Observations:
        transfers = [t for comm in (*tensor, *data) for t in collective(comm, [100.0] * 10) * 4]
        transfers += [t for comm in tied for t in collective(comm, [100.0] * 10) * times_a_block]
        transfers += collective(communicator(6, *A, *B), [30.0] * 10, size=4)
        return observations([*tensor, *data, *tied, communicator(6, *A, *B)], transfers=transfers)

    assert hosts_of_stages(seen(1)) == ["a", "b"]
    assert hosts_of_stages(seen(2)) == ["ab"]


def _edge(comm: int, source: Process, target: Process) -> Edge:
    return Edge(comm, source, target, 10, 10, 1.0, 1.0)
