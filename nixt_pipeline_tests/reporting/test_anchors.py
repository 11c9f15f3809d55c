from nixt_pipeline.reporting.anchors import finding_anchor, host_anchor, kernel_anchor, slug
from nixt_pipeline_tests.reporting import examples


def test_a_plain_name_is_its_own_anchor_and_two_that_look_alike_differ() -> None:
    assert slug("gpu-120") == "gpu-120"
    assert slug("gpu.120") != slug("gpu-120")
    assert slug("../../x") != slug("x")


def test_an_anchor_is_made_of_letters_digits_and_hyphens_whatever_the_name() -> None:
    for name in (examples.HOSTILE, "x" * 300, "漢字", "", "=cmd()", '"', "\u202e"):
        anchor = slug(name)
        assert anchor.replace("-", "").isalnum() or anchor == ""
        assert anchor.isascii()
        assert len(anchor) <= 70


def _anchor(**changes: object) -> str:
    (finding,) = examples.diagnosis(examples.finding(**changes)).findings
    return finding_anchor(finding)


def test_links_to_hosts_kernels_and_findings_do_not_depend_on_their_place() -> None:
    assert host_anchor("gpu-120") == "host-gpu-120"
    assert kernel_anchor(examples.kernel(1, "any", 0.5, 0.5)) == "kernel-allreduce-nic-only-2r-2n-4000000b"
    assert _anchor() == "finding-slow-transfer-gpu-1"
    assert _anchor(onset_us=None, severity="P0") == "finding-slow-transfer-gpu-1"
