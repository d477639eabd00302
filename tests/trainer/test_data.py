"""`trainer.data`, `trainer.model`, `trainer.verify` and what of `trainer.dist` needs no second process."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING

import pytest

from tests.trainer.support import needs_torch
from trainer import corpus, plan
from trainer.errors import LaunchError, PeerLost
from trainer.world import Seat

if TYPE_CHECKING:
    from trainer.data import Digits

pytestmark = needs_torch

if importlib.util.find_spec("torch") is not None:
    import torch
    from torch import nn

    from trainer import data, dist, model, verify

    CPU = torch.device("cpu")


@pytest.fixture(scope="module", name="sample")
def _sample() -> tuple[Digits, Digits]:
    return data.load(corpus.load(None), CPU)


def test_order_is_a_function_of_seed_and_epoch() -> None:
    """The same again for the same, another for another, and every image once; distortions likewise."""
    one, again = (data.draw_epoch(1, 0, 500, CPU, augment=True) for _ in range(2))
    assert torch.equal(one.order, again.order)
    assert one.distortion is not None
    assert again.distortion is not None
    assert torch.equal(one.distortion, again.distortion)
    assert sorted(one.order.tolist()) == list(range(500))
    for other in (data.draw_epoch(2, 0, 500, CPU, augment=True), data.draw_epoch(1, 1, 500, CPU, augment=True)):
        assert not torch.equal(one.order, other.order)
    assert torch.equal(data.draw_epoch(1, 0, 500, CPU, augment=False).order, one.order)


@pytest.mark.parametrize("world", [2, 3, 4, 7])
@pytest.mark.parametrize("augment", [True, False])
def test_ranks_together_take_what_one_would(world: int, augment: bool, sample: tuple[Digits, Digits]) -> None:
    """The batches of all ranks, one after the other, are the batch of a world of one, distortions included."""
    train, _ = sample
    epoch = data.draw_epoch(1, 0, len(train), CPU, augment=augment)
    images, labels = data.take(train, epoch, 256, 512)
    parts = [data.take(train, epoch, *plan.share(256, 512, rank, world)) for rank in range(world)]
    assert torch.equal(torch.cat([part for _, part in parts]), labels)
    torch.testing.assert_close(torch.cat([part for part, _ in parts]), images)


def test_data_stay_bytes_on_the_device(sample: tuple[Digits, Digits]) -> None:
    """A quarter of the memory, normalised batch by batch to mean 0 and deviation 1."""
    train, test = sample
    assert (train.images.dtype, train.labels.dtype) == (torch.uint8, torch.int64)
    assert (len(train), len(test)) == (5000, 1000)
    values = data.normalise(train.images)
    assert values.shape == (5000, 1, 28, 28)
    assert abs(float(values.mean())) < 0.05
    assert abs(float(values.std()) - 1) < 0.05


def test_distortions_are_small(sample: tuple[Digits, Digits]) -> None:
    """The identity changes nothing, and what is drawn keeps the ink of a digit on the image."""
    images = data.normalise(sample[0].images[:200])
    identity = torch.tensor([[1.0, 0, 0], [0, 1, 0]]).expand(200, 2, 3)
    torch.testing.assert_close(data.distort(images, identity), images, atol=1e-3, rtol=0)
    drawn = data.draw_epoch(3, 0, 200, CPU, augment=True).distortion
    assert drawn is not None
    before, after = ((some - some.min()).sum((1, 2, 3)) for some in (images, data.distort(images, drawn)))
    assert 0.6 < float((after / before).min()) < float((after / before).max()) < 1.6


@pytest.mark.parametrize(("name", "weights"), [("convnet", 215_194), ("linear", 7_850)])
def test_weights_depend_on_the_seed_alone(name: str, weights: int) -> None:
    """All ranks start equal, whatever else has drawn random numbers before, and draw on undisturbed."""
    recipe = model.recipe_of(name)
    torch.manual_seed(0)
    before = torch.random.get_rng_state()
    one = model.build(recipe, 1)
    assert torch.equal(torch.random.get_rng_state(), before)
    torch.rand(5)
    assert verify.checksum(one) == verify.checksum(model.build(recipe, 1))
    assert verify.checksum(one) != verify.checksum(model.build(recipe, 2))
    assert sum(parameter.numel() for parameter in one.parameters()) == weights
    assert one(torch.zeros(3, 1, 28, 28)).shape == (3, 10)


def test_linear_has_a_constant_rate() -> None:
    """As in the common tutorial: SGD at 0.01."""
    recipe = model.recipe_of("linear")
    assert [recipe.rate(step, 10, recipe.peak) for step in (0, 9)] == [0.01, 0.01]
    assert isinstance(recipe.optimizer(model.build(recipe, 1)), torch.optim.SGD)


def test_checksum_sees_every_bit_and_no_layout() -> None:
    """One ulp in one weight is another checksum; another memory format of the same weights is not."""
    network = nn.Conv2d(3, 4, 3)
    before = verify.checksum(network)
    assert verify.checksum(network.to(memory_format=torch.channels_last)) == before
    with torch.no_grad():
        network.weight[1, 1, 1, 1] = torch.nextafter(network.weight[1, 1, 1, 1], torch.tensor(9.0))
    assert verify.checksum(network) != before
    assert 0 <= before < 2**63


SEAT = Seat(1, 2, 1, 2, 0, None, "test")


def test_device_is_refused_where_it_is_not() -> None:
    """A GPU or NCCL asked for on a machine without one; the CPU otherwise."""
    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    with pytest.raises(LaunchError, match="--device cuda: no GPU is visible"):
        dist.choose_device(SEAT, "cuda", "auto")
    with pytest.raises(LaunchError, match="--backend nccl needs a GPU"):
        dist.choose_device(SEAT, "auto", "nccl")
    assert dist.choose_device(SEAT, "auto", "auto").backend == "gloo"
    assert not dist.choose_device(SEAT, "auto", "auto").on_gpu


def test_only_lost_peers_are_peer_lost() -> None:
    """What torch says of a broken connection becomes one sentence; an error of our own stays what it is."""
    said = (
        "[/build/gloo/tcp/pair.cc:1] Read error [10.0.0.1]:5: Connection reset by peer. This is typically caused by x"
    )
    with pytest.raises(PeerLost) as caught, dist.peers(lambda: "after step 3"):
        raise RuntimeError(said)
    assert str(caught.value).startswith("lost another rank after step 3, ")
    assert str(caught.value).endswith("Read error [10.0.0.1]:5: Connection reset by peer")
    with pytest.raises(RuntimeError, match="shapes"), dist.peers(lambda: ""):
        raise RuntimeError("shapes cannot be multiplied")
    with pytest.raises(PeerLost), dist.peers(lambda: ""):
        raise torch.distributed.DistStoreError("anything")


def test_threads_are_shared_unless_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two processes on four CPUs take two each; OMP_NUM_THREADS goes first."""
    before = torch.get_num_threads()
    try:
        monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
        dist.set_threads(SEAT, 4)
        assert torch.get_num_threads() == 2
        dist.set_threads(SEAT, 1)
        assert torch.get_num_threads() == 1
        monkeypatch.setenv("OMP_NUM_THREADS", "7")
        dist.set_threads(SEAT, 8)
        assert torch.get_num_threads() == 1
    finally:
        torch.set_num_threads(before)
