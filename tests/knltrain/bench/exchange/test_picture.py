"""The report as a picture."""

from knltrain.bench.exchange.picture import draw_bandwidths


def test_picture_has_a_curve_for_everyone_who_exchanges(report, tmp_path, saved):
    path = tmp_path / "speed.png"
    draw_bandwidths(report, path)
    assert path.read_bytes().startswith(b"\x89PNG")
    axes = saved[0].axes[0]
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    curves = {line.get_label(): line for line in axes.lines}
    assert list(curves) == ["sync_easgd", "gloo"]
    assert list(curves["sync_easgd"].get_xdata()) == [4096, 28_000_000]
    assert list(curves["gloo"].get_ydata()) == [4096 / 5e-4 / 1e9, 28e6 / 2.4e-2 / 1e9]
    assert curves["gloo"].get_color() != curves["sync_easgd"].get_color()
