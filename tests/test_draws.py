"""Random numbers by place: reproducible for ever, uniform, and independent of their neighbours."""

import numpy as np
import pytest
from numba import njit
from scipy import stats

from unstale.draws import CHANGES, FATES, PHASES, POLLS, REPLICAS, REQUESTS, generator_of, key_of, uniform

MASK = 2**64 - 1
PURPOSES = (POLLS, CHANGES, REQUESTS, FATES, PHASES, REPLICAS)


@njit
def grid(key, first, elements, counts):
    out = np.empty((elements, counts))
    for i in range(elements):
        for k in range(counts):
            out[i, k] = uniform(key, first + i, k)
    return out


def mixed(z):
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


def by_hand(key, element, count):
    """Return the same number in whole numbers of Python."""
    z = mixed((key + element * 0x9E3779B97F4A7C15) & MASK)
    z = mixed((z + count * 0xD1342543DE82EF95) & MASK)
    return ((z >> 12) + 0.5) / 2**52


def test_numbers_are_those_of_the_recipe():
    key = key_of(7, 1)
    ours = grid(key, 5, 3, 40)
    assert ours.tolist() == [[by_hand(int(key), 5 + i, k) for k in range(40)] for i in range(3)]
    far = 2**40
    assert grid(key, far, 1, 1)[0, 0] == by_hand(int(key), far, 0)


def test_numbers_stay_what_they_are():
    """A run can be repeated with a later version only if these never change."""
    assert [int(key_of(*words)) for words in ((0,), (1, 2), (2**40, 3, 0))] == KEYS
    assert grid(key_of(0, POLLS), 0, 2, 2).tolist() == NUMBERS


KEYS = [15793235383387715774, 9155961368508526270, 4791624440009992819]
NUMBERS = [[0.8775706806169327, 0.46618714281830564], [0.5500695003114658, 0.144907448940934]]


def test_each_purpose_has_its_own_numbers():
    words = [()]
    for _ in range(3):
        words += [(*word, i) for word in words for i in range(6)]
    for seed in (0, 1, 2**31, 2**32, 2**64 + 1):
        keys = {int(key_of(seed, *word)) for word in words}
        assert len(keys) == len(set(words))
    assert len({int(key_of(seed, p)) for seed in range(1000) for p in PURPOSES}) == 6000
    assert len(set(PURPOSES)) == 6


def test_seeds_of_any_size_are_told_apart():
    seeds = [0, 1, 2**32, 2**32 + 1, 2**64, 2**64 + 2**32, 2**200]
    assert len({int(key_of(seed, 1)) for seed in seeds}) == len(seeds)
    assert len({generator_of(seed, 1).random() for seed in seeds}) == len(seeds)
    assert generator_of(3, 1).random() == generator_of(3, 1).random()


@pytest.mark.parametrize("shape", [(1000, 1000), (1, 1_000_000), (1_000_000, 1)], ids=str)
def test_numbers_are_uniform_and_never_repeat(shape):
    numbers = grid(key_of(11, 2), 0, *shape).ravel()
    assert 0.0 < numbers.min() < numbers.max() < 1.0
    assert stats.kstest(numbers[::7], "uniform").pvalue > 1e-3
    assert np.unique(numbers).size == numbers.size
    seen = np.histogram(numbers, 256, (0.0, 1.0))[0]
    assert stats.chisquare(seen).pvalue > 1e-3


@pytest.mark.parametrize("lag", [(0, 1), (0, 2), (0, 3), (1, 0), (2, 0), (1, 1), (1, -1), (64, 0), (0, 64)])
def test_neighbours_do_not_depend_on_each_other(lag):
    """In pairs: by element, by count, or both."""
    numbers = grid(key_of(12, 1), 0, 1000, 1000)
    di, dk = lag
    one = numbers[: 1000 - di, max(0, -dk) : 1000 - max(0, dk)].ravel()
    other = numbers[di:, max(0, dk) : 1000 + min(0, dk)].ravel()
    assert abs(np.corrcoef(one, other)[0, 1]) < 4.0 / np.sqrt(one.size)
    pairs = np.histogram2d(one, other, 16, [(0, 1), (0, 1)])[0].ravel()
    assert stats.chisquare(pairs).pvalue > 1e-3


def test_keys_do_not_depend_on_each_other():
    one, other = (grid(key_of(13, purpose), 0, 1000, 1000).ravel() for purpose in (POLLS, CHANGES))
    for shift in (0, 1, 2):
        assert abs(np.corrcoef(one[shift:], other[: one.size - shift])[0, 1]) < 4.0 / np.sqrt(one.size)
    seeds = np.array([grid(key_of(seed, POLLS), 0, 1, 1)[0, 0] for seed in range(5000)])
    assert stats.kstest(seeds, "uniform").pvalue > 1e-3
    assert abs(np.corrcoef(seeds[1:], seeds[:-1])[0, 1]) < 4.0 / np.sqrt(seeds.size)


def test_all_bits_are_used():
    bits = (grid(key_of(14), 0, 200, 500).ravel() * 2.0**52).astype(np.uint64)
    ones = np.array([np.mean((bits >> np.uint64(b)) & np.uint64(1)) for b in range(52)])
    assert np.all(np.abs(ones - 0.5) < 5.0 * 0.5 / np.sqrt(bits.size))
