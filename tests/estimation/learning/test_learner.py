"""The learner: what it makes of polls, and that it bets well."""

import io

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, special

from unstale.errors import InvalidInput
from unstale.estimation.learning.compiled.learner import gamma_law, slopes
from unstale.estimation.learning.learner import Learner
from unstale.estimation.rates.posterior import GammaPrior

POSITIVE = st.floats(0.01, 100.0)


def exact(shape: float, time: float, changes: float, busy: float, quiet: float) -> tuple[float, float]:
    """Mean and variance of the law that `gamma_law` is near to, by quadrature over log(rate)."""
    back = busy / changes

    def density(place: float, power: int) -> float:
        rate = np.exp(place)
        log = shape * place - rate * (time + quiet) + changes * np.log(-np.expm1(-rate * back)) - top
        return float(np.exp(log) * rate**power)

    grid = np.linspace(-15.0, 12.0, 4001)
    rates = np.exp(grid)
    logs = shape * grid - rates * (time + quiet) + changes * np.log(-np.expm1(-rates * back))
    top, centre = float(logs.max()), float(grid[np.argmax(logs)])
    mass, first, second = (
        integrate.quad(density, centre - 15.0, centre + 5.0, args=(k,), points=[centre], limit=200)[0]
        for k in range(3)
    )
    return first / mass, second / mass - (first / mass) ** 2


@given(POSITIVE, POSITIVE, POSITIVE)
def test_without_changes_the_law_is_exact(shape: float, time: float, quiet: float) -> None:
    assert gamma_law(shape, time, 0.0, 0.0, quiet) == (shape, time + quiet)


@given(st.floats(0.05, 20.0), POSITIVE, st.floats(0.01, 50.0), POSITIVE)
def test_changes_seen_at_once_are_counted_exactly(
    shape: float, time: float, changes: float, quiet: float
) -> None:
    back = 1e-9 * (time + quiet) / (shape + changes)
    found, spent = gamma_law(shape, time, changes, changes * back, quiet)
    assert found == pytest.approx(shape + changes, rel=1e-6)
    assert spent == pytest.approx(time + quiet, rel=1e-6)


@pytest.mark.parametrize(
    ("known", "error"),
    [
        ((1.0, 1.0, 20.0, 20.0, 0.0), 0.08),  # every poll saw a change: little is known of how fast it is
        ((0.5, 1.0, 5.0, 10.0, 3.0), 0.05),
        ((2.0, 0.1, 1.0, 0.01, 5.0), 0.01),
        ((0.3, 10.0, 50.0, 5.0, 100.0), 0.01),
        ((3.0, 1.0, 12.0, 12.0, 6.0), 0.02),
    ],
)
def test_the_law_is_near_to_the_exact_one(known: tuple[float, ...], error: float) -> None:
    shape, time = gamma_law(*known)
    mean, variance = exact(*known)
    assert shape / time == pytest.approx(mean, rel=error)
    assert np.sqrt(shape) / time == pytest.approx(np.sqrt(variance), rel=2.0 * error)


@given(st.floats(0.05, 20.0), POSITIVE, st.floats(0.0, 50.0), POSITIVE, POSITIVE)
def test_a_change_raises_the_rate_and_quiet_lowers_it(
    shape: float, time: float, changes: float, back: float, quiet: float
) -> None:
    def rate(changes: float, quiet: float) -> float:
        found = gamma_law(shape, time, changes, changes * back, quiet)
        return float(found[0] / found[1])

    before = rate(changes, quiet)
    assert rate(changes + 1.0, quiet) >= before * (1.0 - 1e-3)
    assert rate(changes, 1.5 * quiet) <= before * (1.0 + 1e-3)


def polled(rates: np.ndarray, every: float, rounds: int, rng: np.random.Generator, learner: Learner) -> float:
    """Poll everything every so often; return the mean loss of the bets in the second half."""
    n, lost, count = rates.size, 0.0, 0
    for k in range(rounds):
        changed = rng.random(n) < -np.expm1(-rates * every)
        if k >= rounds // 2:
            law = learner.law(every)
            quiet = np.asarray(law.residual_survival(every))
            lost -= float(np.log(np.where(changed, 1.0 - quiet, quiet)).sum())
            count += n
        learner.learn(np.arange(n), np.full(n, every), changed)
    return lost / count


def test_quiet_times_do_not_make_bursts_forgotten() -> None:
    """Elements wake and fall asleep; while all of them sleep, nothing speaks for another half-life."""
    rng, n = np.random.default_rng(5), 50
    learner, every, awake = Learner(n, round=1.0), np.arange(50), np.zeros(50, bool)
    for _ in range(100):
        awake = np.where(rng.random(n) < 0.2, rng.random(n) < 0.2, awake)
        learner.learn(every, np.ones(n), awake & (rng.random(n) < 0.95))
    found = learner.half_life[0]
    assert found <= 2.0
    for _ in range(150):
        learner.learn(every, np.ones(n), np.zeros(n, bool))
    assert learner.half_life[0] == found


def having_lost(*losses: float) -> Learner:
    """Return a learner whose half-lives have bet so badly: four by level, and four by time."""
    learner = Learner(2, round=1.0)
    learner.learn([0, 1], [1.0, 1.0], [True, False])
    return Learner.resume({**learner.state(), "surprise": np.array([losses])})


def test_of_half_lives_that_are_about_as_good_the_longest_is_used() -> None:
    assert having_lost(200.0, 200.0, 200.0, 200.0, 100.0, 101.9, 102.1, 150.0).half_life[0] == 8.0
    learner = having_lost(200.0, 200.0, 200.0, 200.0, 98.0, 101.9, 102.1, 150.0)
    assert learner.half_life[0] == 2.0
    assert not learner.by_level[0]


def test_levels_are_followed_if_they_are_well_ahead() -> None:
    near = having_lost(200.0, 97.0, 200.0, 200.0, 98.0, 101.9, 102.1, 150.0)  # less than 4 nats
    assert not near.by_level[0]
    ahead = having_lost(200.0, 93.0, 200.0, 200.0, 98.0, 101.9, 102.1, 150.0)
    assert ahead.by_level[0]
    assert ahead.half_life[0] == 8.0
    ahead.may_follow = False
    assert not ahead.by_level[0]
    assert ahead.half_life[0] == 2.0


@given(
    st.floats(-2.0, 2.0), st.floats(-2.0, 2.0), st.floats(0.0, 10.0), st.sampled_from([0.0, 0.5, 5.0]),
    st.floats(0.1, 10.0), st.floats(0.0, 10.0),
)  # fmt: skip
def test_how_a_law_depends_on_its_prior(p, q, counted, changes, back, quiet) -> None:  # noqa: PLR0917
    """The slopes are those of differences."""
    seen = np.array([counted, changes, changes * back, quiet, 0.0])

    def law(p: float, q: float) -> np.ndarray:
        shape, time = gamma_law(np.exp(p) + counted, np.exp(p - q), *seen[1:4])
        return np.array([shape, np.log(time)])

    a, b = gamma_law(np.exp(p) + counted, np.exp(p - q), *seen[1:4])
    shape_p, shape_q, time_p, time_q = slopes(np.exp(p), np.exp(p - q), seen, a, b)
    step = 0.02  # the law is found up to 1e-4
    by_p = (law(p + step, q) - law(p - step, q)) / (2.0 * step)
    by_q = (law(p, q + step) - law(p, q - step)) / (2.0 * step)
    assert np.array([shape_p, time_p]) == pytest.approx(by_p, rel=0.02, abs=0.01 * (1.0 + a))
    assert np.array([shape_q, time_q]) == pytest.approx(by_q, rel=0.02, abs=0.01 * (1.0 + a))


@pytest.mark.parametrize("shape", [0.4, 2.0])
def test_what_is_typical_and_the_half_life_are_found(shape: float) -> None:
    rng = np.random.default_rng(7)
    rates = rng.gamma(shape, 1.0 / shape, 3000)
    learner = Learner(rates.size, round=1.0)
    loss = polled(rates, 1.0, 40, rng, learner)
    assert learner.half_life[0] >= 64.0  # as rates are constant
    assert 0.8 < float(learner.prior.rate[0]) < 1.6  # two changes that are counted as one are made up for
    assert float(learner.prior.shape[0]) == pytest.approx(shape, rel=0.4)
    known = -np.exp(-rates)
    ideal = float(np.mean(-(special.xlogy(-known, -known) + special.xlogy(1.0 + known, 1.0 + known))))
    assert ideal < loss < ideal + 0.03  # about what one parameter each costs


def test_told_times_say_how_fast_elements_are_where_every_poll_sees_a_change() -> None:
    """Elements change six times between two polls: blind polls cannot tell that from three times."""
    rng, n = np.random.default_rng(11), 1000
    rates = rng.gamma(2.0, 3.0, n)
    told, blind = Learner(n, round=1.0), Learner(n, round=1.0)
    for _ in range(30):
        ages = rng.exponential(size=n) / rates
        changed = ages < 1.0
        told.learn(np.arange(n), np.ones(n), changed, modified=np.where(changed, ages, np.nan))
        blind.learn(np.arange(n), np.ones(n), changed)
    known, guessed = (float(np.mean(one.law(0.0).rate)) for one in (told, blind))
    assert known == pytest.approx(rates.mean(), rel=0.05)
    assert guessed < 0.8 * rates.mean()


def test_rates_that_change_hands_are_forgotten() -> None:
    rng = np.random.default_rng(3)
    n = 2000
    learner = Learner(n, round=1.0)
    rates = rng.gamma(0.3, 1.0 / 0.3, n)
    for k in range(60):
        if k % 4 == 0:  # a quarter of them takes other rates
            new = rng.random(n) < 0.25
            rates = np.where(new, rng.gamma(0.3, 1.0 / 0.3, n), rates)
        learner.learn(np.arange(n), np.ones(n), rng.random(n) < -np.expm1(-rates))
    assert 2.0 <= learner.half_life[0] <= 16.0
    settled = Learner(n, round=1.0)
    polled(rates, 1.0, 60, rng, settled)
    assert settled.half_life[0] >= 64.0


def test_a_new_pace_of_changes_is_noticed_after_a_long_time() -> None:
    """Constant rates for long choose a long half-life; when elements begin to take turns, it is shortened."""
    rng = np.random.default_rng(8)
    n = 1000
    learner = Learner(n, round=1.0)
    rates = rng.gamma(0.3, 1.0 / 0.3, n)
    polled(rates, 1.0, 80, rng, learner)
    assert learner.half_life[0] >= 64.0
    for _ in range(60):
        rates = np.where(rng.random(n) < 0.2, rng.gamma(0.3, 1.0 / 0.3, n), rates)
        learner.learn(np.arange(n), np.ones(n), rng.random(n) < -np.expm1(-rates))
    assert learner.half_life[0] <= 8.0


def test_what_is_typical_follows_after_a_long_time() -> None:
    rng = np.random.default_rng(9)
    n = 1000
    learner = Learner(n, round=1.0, half_life=4.0)
    polled(np.full(n, 0.2), 1.0, 80, rng, learner)
    before = float(learner.prior.rate[0])
    polled(np.full(n, 2.0), 1.0, 60, rng, learner)
    assert before == pytest.approx(0.2, rel=0.3)
    assert float(learner.prior.rate[0]) > 0.65  # slowly, as each element has evidence of its own


def test_where_polls_say_nothing_the_prior_stays_in_reach() -> None:
    learner = Learner(50, round=1.0, half_life=1.0)
    for _ in range(3000):
        learner.learn(np.arange(50), np.ones(50), np.zeros(50, np.bool_))
    assert float(learner.prior.shape[0]) > 1e-3
    assert 1e-4 < float(learner.law(0.0).rate[0]) < 0.01


def test_a_page_that_always_changes_is_given_up_and_one_quiet_poll_brings_it_back() -> None:
    learner = Learner(100, round=1.0)
    rng = np.random.default_rng(4)
    for _ in range(400):  # often: within a hundredth of a round it has changed again
        places = np.r_[0, rng.integers(1, 100)]
        learner.learn(places, [0.01, 1.0], [True, bool(rng.random() < 0.5)])
    hope = learner.outlook(0.0)[1]
    assert hope[0] < 0.01
    assert hope[1:].min() > 0.99
    learner.learn([0], [0.01], [False])
    assert learner.outlook(0.0)[1][0] > 0.99


def test_another_round_before_any_poll_is_as_if_it_had_been_the_first() -> None:
    one, other = Learner(3, round=1.0), Learner(3, round=50.0)
    one.rescale(50.0)
    assert float(one.prior.rate[0]) == float(other.prior.rate[0]) == pytest.approx(1.0 / 50.0)
    assert (one.half_life == other.half_life).all()


def test_another_round_keeps_what_is_known() -> None:
    rng = np.random.default_rng(6)
    learner = Learner(300, round=1.0)
    rates = rng.gamma(0.5, 2.0, 300)
    polled(rates, 1.0, 40, rng, learner)
    before = np.asarray(learner.law(0.0).rate)
    learner.rescale(4.0)
    assert learner.round == 4.0
    assert np.asarray(learner.law(0.0).rate) == pytest.approx(before, rel=0.02)
    assert learner.half_life[0] in 4.0 * 2.0 ** np.arange(8)


def test_each_class_has_its_own() -> None:
    rng = np.random.default_rng(5)
    rates = np.concatenate([np.full(500, 0.05), rng.gamma(0.5, 6.0, 500)])
    learner = Learner(1000, round=1.0, classes=np.repeat([0, 1], 500))
    polled(rates, 1.0, 30, rng, learner)
    slow, fast = learner.prior.rate
    assert slow == pytest.approx(0.05, rel=0.3)
    assert fast == pytest.approx(3.0, rel=0.4)
    assert learner.prior.shape[0] > learner.prior.shape[1]


@pytest.mark.parametrize("unit", [1e-6, 86400.0])
def test_the_unit_of_time_does_not_matter(unit: float) -> None:
    rng = np.random.default_rng(1)
    rates = rng.gamma(0.5, 2.0, 300)
    one, other = Learner(300, round=1.0), Learner(300, round=unit)
    for _ in range(20):
        changed = rng.random(300) < -np.expm1(-rates)
        one.learn(np.arange(300), np.ones(300), changed)
        other.learn(np.arange(300), np.full(300, unit), changed)
    assert np.asarray(other.law(unit).rate) * unit == pytest.approx(np.asarray(one.law(1.0).rate), rel=1e-6)
    assert other.half_life / unit == pytest.approx(one.half_life)


def test_never_and_always_changed_stay_finite() -> None:
    for outcome in (True, False):
        learner = Learner(50, round=1.0)
        for _ in range(500):
            learner.learn(np.arange(50), np.ones(50), np.full(50, outcome))
        rate = np.asarray(learner.law(0.0).rate)
        assert np.isfinite(rate).all()
        assert (rate > 3.0).all() if outcome else (rate < 0.01).all()
        assert (rate > 0.0).all()


def test_evidence_fades_to_what_is_typical() -> None:
    learner = Learner(2, round=1.0, half_life=2.0)
    for _ in range(30):
        learner.learn([0, 1], [1.0, 1.0], [True, False])
    fast, slow = learner.law(0.0).rate
    assert fast > 5.0 * slow
    fast, slow = learner.law(200.0).rate
    assert fast == pytest.approx(slow, rel=1e-6)
    assert fast == pytest.approx(float(learner.prior.rate[0]), rel=1e-6)


def test_it_goes_on_from_a_file() -> None:
    rng = np.random.default_rng(2)
    learner = Learner(20, round=2.0, classes=np.arange(20) % 3)
    learner.learn(rng.integers(20, size=200), rng.random(200) * 3.0, rng.random(200) < 0.4)
    file = io.BytesIO()
    np.savez(file, **learner.state())
    file.seek(0)
    again = Learner.resume(np.load(file))
    for one in (learner, again):
        one.learn([3, 4, 5], [1.0, 0.5, 2.0], [True, False, True])
    assert (np.asarray(again.law(1.0).rate) == np.asarray(learner.law(1.0).rate)).all()
    assert (again.half_life == learner.half_life).all()


def test_new_elements_are_typical_ones() -> None:
    learner = Learner(100, round=1.0)
    for _ in range(20):
        learner.learn(np.arange(100), np.ones(100), np.arange(100) % 10 == 0)
    learner.add(5)
    assert len(learner) == 105
    assert np.asarray(learner.law(0.0).rate)[100:] == pytest.approx(float(learner.prior.rate[0]))
    learner.learn([104], [1.0], [True])
    assert learner.law(0.0).rate[104] > learner.law(0.0).rate[103]


BAD = [
    (lambda: Learner(-1, round=1.0), "n must be"),
    (lambda: Learner(2, round=0.0), "round must be"),
    (lambda: Learner(2, round=1.0, half_life=-1.0), "half_life must be"),
    (lambda: Learner(2, round=1.0, classes=[0]), "classes must be"),
    (lambda: Learner(2, round=1.0, classes=[0, -1]), "classes must be"),
    (lambda: Learner(2, round=1.0).learn([0], [1.0, 2.0], [True]), "equal length"),
    (lambda: Learner(2, round=1.0).learn([2], [1.0], [True]), "from 0 to 1"),
    (lambda: Learner(2, round=1.0).learn([0], [-1.0], [True]), "elapsed must be"),
    (lambda: Learner(2, round=1.0).learn([0], [np.nan], [True]), "elapsed must be"),
    (lambda: Learner(2, round=1.0).law(-1.0), "since must be"),
    (lambda: Learner(2, round=1.0).add(1, classes=[0]), "if and only if"),
    (lambda: Learner(2, round=1.0, classes=[0, 1]).add(1, classes=[2]), "classes must be below 2"),
    (lambda: Learner(2, round=1.0).learn([0], [1.0], ["no"]), "changed must be"),
    (lambda: Learner(2, round=1.0).learn([0], [1.0], [2]), "changed must be"),
    (lambda: Learner(2, round=1.0).learn([0], [1e300], [True]), "elapsed must be at most"),
    (lambda: Learner(2, round=1.0, classes=[0, 10**9]), "classes must be"),
    (lambda: Learner(2, round=1.0).rescale(0.0), "round must be"),
    (lambda: Learner.resume({}), "Learner.state"),
    (
        lambda: Learner.resume({**Learner(2, round=1.0).state(), "evidence": np.zeros((2, 8))}),
        "'evidence' has",
    ),
]


@pytest.mark.parametrize(("call", "words"), BAD)
def test_bad_input_is_named(call: object, words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        call()  # type: ignore[operator]


@given(st.floats(0.1, 10.0), st.floats(1e-4, 1e4), st.integers(0, 2**32 - 1))
def test_rows_that_were_saved_under_another_round_are_read_as_if_rescaled_with_the_others(
    before, ratio, seed
):
    rng = np.random.default_rng(seed)
    learner = Learner(5, round=before)
    learner.learn(rng.integers(0, 5, 40), rng.exponential(before, 40), rng.random(40) < 0.5)
    every = np.arange(5)
    saved, evidence = learner.rows(every), learner.evidence.copy()
    learner.rescale(before * ratio)
    for rows in (saved, learner.rows(every)):
        again = Learner.resume(learner.state())
        again.write(every, rows)
        assert np.array_equal(again.evidence, learner.evidence)
    # What an older version wrote says no round: it is that of the state that it wrote, whatever came after.
    # It had eight half-lives by time, of which every second one is kept, for both clocks.
    twice = [np.repeat(row[:4], 2, axis=0).astype(kind) for row in evidence for kind in (np.float32, float)]
    upgraded = Learner.resume({**learner.state(), "unsaid_round": before})
    for kind in (0, 1):
        upgraded.write(every, [row.tobytes() for row in twice[kind::2]])
        assert np.array_equal(upgraded.evidence, learner.evidence)
    upgraded.write(every, [row.tobytes() + np.float64(before).tobytes() for row in twice[::2]])
    assert np.array_equal(upgraded.evidence, learner.evidence)


def test_what_an_earlier_version_learned_is_taken_over() -> None:
    learner = Learner(3, round=2.0)
    learner.learn([0, 1, 2], [1.0, 2.0, 3.0], [True, False, True])
    state = learner.state()
    twice = {
        name: np.repeat(state[name][:, :4], 2, axis=1)
        for name in ("priors", "surprise", "information", "evidence")
    }
    former = {**state, **twice, "half_lives": 2.0 * 2.0 ** np.arange(8)}
    again = Learner.resume(former)
    assert again.half_life.tolist() == learner.half_life.tolist()
    assert np.array_equal(again.evidence, learner.evidence)
    assert np.array_equal(again.law(1.0).rate, learner.law(1.0).rate)


@pytest.mark.parametrize("rate", [0.02, 0.5])
def test_what_a_prior_leaves_in_doubt_shrinks(rate):
    """Before any poll the rate of a class may be off by a factor of twelve; polls say more and more of it."""
    learner, everyone = Learner(100, round=1.0), np.arange(100)
    rng, ones = np.random.default_rng(1), np.ones(100)

    def doubt():
        """How far the mean of freshness may be off, a round after all polls, over itself."""
        return learner.prior_slopes(ones, everyone).mean() * np.sqrt(learner.prior_variances[0])

    assert learner.prior_variances[0] == pytest.approx(1.5**2)
    doubts = [doubt()]
    for rounds in (1, 5, 30):
        for _ in range(rounds):
            learner.learn(everyone, ones, rng.random(100) < -np.expm1(-rate))
        doubts.append(doubt())
    assert doubts[0] > doubts[1] > doubts[2]
    assert max(doubts[2:]) < 0.1 * doubts[0]


def test_a_prior_matters_less_the_more_is_known_of_an_element():
    learner = Learner(2, round=1.0)
    for _ in range(20):
        learner.learn([0], [1.0], [False])
    known, unknown = learner.prior_slopes(np.ones(2), np.arange(2)).tolist()
    assert 0.0 < known < 0.2 * unknown
    assert learner.prior_slopes(np.zeros(2), np.arange(2)).tolist() == [0.0, 0.0]  # just polled


def test_a_prior_that_is_given_is_not_doubted():
    learner = Learner(3, round=1.0, prior=GammaPrior(2.0, 1.0))
    assert learner.prior_variances.tolist() == [0.0]
