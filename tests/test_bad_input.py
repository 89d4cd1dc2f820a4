"""What cannot be used is refused with an error that names it; what is merely extreme gets an answer."""

import inspect
import math

import numpy as np
import pytest

import unstale
from unstale import (
    estimation,
    objectives,
    penalties,
    planning,
    poisson,
    polling,
    processes,
    renewal,
    schedule,
    simulation,
)
from unstale.errors import InvalidInput, MissingExtra, NoAnswer, UnstaleError
from unstale.processes import (
    Empirical,
    Gamma,
    Lognormal,
    Pareto,
    Periodic,
    Poisson,
    RandomOrder,
    UncertainPoisson,
    Weibull,
)

POISSON = Poisson(1.0)
SUPERPOSED = processes.Superposed(Gamma(2.0, 1.0), 2)
NOT_NUMBERS = {
    "text": "abc",
    "None": None,
    "complex": 1 + 2j,
    "bool": True,
    "object": object(),
    "dict": {},
    "ragged": [[1.0, 2.0], [3.0]],
    "texts": ["1", "2"],
    "bools": [True, False],
    "hole": [1.0, None],
    "beyond float": 10**400,
}


class Case:
    """A function with good arguments, one of which is to be spoilt."""

    def __init__(self, function, argument, *, good, **options):
        self.function, self.argument, self.good = function, argument, good
        self.negative, self.infinite, self.single, self.listed = (
            options.get(name, False) for name in ("negative", "infinite", "single", "listed")
        )
        self.none = options.get("none")
        self.named = options.get("named", argument)
        self.place = f"{self.named}[0]" if self.listed else self.named
        self.fine = 1.5 if function is Pareto else 0.5

    def __repr__(self):
        return f"{self.function.__qualname__}-{self.argument}"

    def spoilt(self, value):
        return self.function(**{**self.good, self.argument: value})

    def spoilt_by(self, number):
        """Put a number where one belongs: in a list, if there must be a list."""
        return self.spoilt([number, number] if self.listed else number)


def cases(function, good, **options):
    """One case for each of the numbers among the arguments."""
    numeric = [name for name, value in good.items() if isinstance(value, float | list)]
    return [Case(function, name, good=good, **options.get(name, {})) for name in numeric]


INFINITE, NEGATIVE, SINGLE = {"infinite": True}, {"negative": True}, {"single": True}
LISTED, OPTIONAL = {"listed": True}, {"none": "taken"}
PAIR = {"changes": POISSON, "polls": POISSON}
COLUMNS = {
    "rates": [1.0, 2.0],
    "weights": [1.0, 1.0],
    "sizes": [1.0, 1.0],
    "change_sizes": [0.0, 0.0],
    "min_frequency": [0.0, 0.0],
    "max_frequency": [3.0, 3.0],
}
KINDS = {
    "rates": LISTED,
    "weights": OPTIONAL,
    "sizes": OPTIONAL,
    "change_sizes": OPTIONAL,
    "max_frequency": INFINITE,
}
EITHER = SINGLE | {"none": "give either freshness or age"}


def over_a_shard(budget):
    return planning.plan_shards([{"rates": [1.0]}], budget)


def drawn_until(end):
    return schedule.Schedule([1.0, 2.0], start=-5.0).until(end)


def swapped(frequencies):
    one = schedule.Schedule([1.0, 2.0])
    one.swap(frequencies)
    return one


def added(frequencies):
    return schedule.Schedule([1.0, 2.0]).add(frequencies)


def first_of_two(frequencies, start):
    return schedule.replicas(frequencies, 2, start=start)[0]


def expected(frequencies):
    return simulation.expect(simulation.World([1.0, 2.0]), frequencies).elements["age"]


def recorded(times, end):
    return simulation.World.recorded([0, 1], times, end=end)


def simulated(**options):
    return simulation.simulate(**options, policies=["uniform"], batches=2)


def lag_of(shares):
    return simulated(rates=[1.0], budget=1.0, horizon=5.0)["uniform"].lag(shares)


def within(lags):
    return simulated(rates=[1.0], budget=1.0, horizon=5.0)["uniform"].within(lags)


CASES = [
    *cases(poisson.freshness, {"rate": 1.0, "frequency": 1.0}),
    *cases(poisson.age, {"rate": 1.0, "frequency": 1.0}),
    *cases(poisson.freshness_after, {"rate": 1.0, "elapsed": 1.0}),
    *cases(poisson.age_after, {"rate": 1.0, "elapsed": 1.0}),
    *cases(poisson.frequency_for, {"rate": 1.0, "freshness": 0.5}),
    *cases(poisson.database_freshness, {"mean_rate": 1.0, "spread": 0.5, "frequency": 1.0}),
    *cases(poisson.database_age, {"mean_rate": 1.0, "spread": 0.5, "frequency": 1.0}),
    *cases(poisson.curve_frequency, {"rate": 1.0, "price": 0.5}),
    *cases(poisson.curve_peak, {"price": 0.5}, price=SINGLE),
    *cases(poisson.curve_cutoff, {"price": 0.5}, price=SINGLE),
    *cases(poisson.discrete_freshness, {"change_probability": 0.5, "poll_probability": 0.5}),
    *cases(poisson.burn_in, {"change_probability": 0.5, "error": 0.5}, error=SINGLE),
    *cases(poisson.decaying_freshness, {"decay": 0.5, "frequency": 1.0}),
    *cases(poisson.discrete_decaying_freshness, {"decay": 0.5, "poll_probability": 0.5}),
    *cases(poisson.perceived_freshness, {"profile": [1.0], "rate": 1.0, "frequency": 1.0}),
    # plain numbers in place of a law are the rates of Poisson changes
    *cases(polling.mean_cost, {"objective": "age", "law": 1.0, "frequency": 1.0}, law={"named": "rate"}),
    *cases(
        polling.worth,
        {"objective": "age", "law": 1.0, "interval": 1.0},
        law={"named": "rate"},
        interval=INFINITE,
    ),
    *cases(
        polling.interval,
        {"objective": "age", "law": 1.0, "price": 1.0},
        law={"named": "rate"},
        price=INFINITE,
    ),
    *cases(polling.average_cost, {"objective": "age", "law": 1.0, "polls": POISSON}, law={"named": "rate"}),
    *cases(objectives.currency, {"tau": 1.0}, tau=SINGLE),
    *cases(penalties.power, {"k": 1.0}, k=SINGLE),
    *cases(penalties.decay, {"rate": 1.0}, rate=SINGLE),
    *cases(penalties.beyond, {"tau": 1.0}, tau=SINGLE),
    *cases(penalties.scaled, {"penalty": penalties.beyond(1.0), "unit": 1.0}, unit=SINGLE),
    *cases(penalties.custom, {"function": np.sqrt, "kinks": [1.0]}, kinks=NEGATIVE),
    *cases(Poisson, {"rate": 1.0}),
    *cases(Pareto, {"shape": 2.0, "scale": 1.0}),
    *cases(UncertainPoisson, {"shape": 2.0, "scale": 1.0}),
    *cases(Weibull, {"shape": 2.0, "scale": 1.0}),
    *cases(Gamma, {"shape": 2.0, "scale": 1.0}),
    *cases(Lognormal, {"log_mean": 0.0, "log_sd": 1.0}, log_mean=NEGATIVE),
    *cases(Periodic, {"period": 1.0}),
    *cases(RandomOrder, {"interval": 1.0}),
    *cases(Empirical, {"gaps": [1.0, 2.0]}),
    *cases(Empirical.from_times, {"times": [1.0, 2.0]}),
    *cases(POISSON.survival, {"gap": 1.0}, gap=INFINITE),
    *cases(POISSON.residual_survival, {"t": 1.0}, t=INFINITE),
    *cases(POISSON.residual_cdf, {"t": 1.0}, t=INFINITE),
    *cases(POISSON.moment, {"k": 1, "t": 1.0}, t=INFINITE),
    *cases(POISSON.at_rate, {"rate": 1.0}),
    *cases(SUPERPOSED.survival, {"gap": 1.0}, gap=INFINITE),
    *cases(SUPERPOSED.residual_survival, {"t": 1.0}, t=INFINITE),
    *cases(SUPERPOSED.residual_cdf, {"t": 1.0}, t=INFINITE),
    *cases(SUPERPOSED.moment, {"k": 1, "t": 1.0}, t=INFINITE),
    *cases(SUPERPOSED.at_rate, {"rate": 1.0}),
    *cases(renewal.share_within, {**PAIR, "tau": 1.0}),
    *cases(renewal.lag_cdf, {**PAIR, "lag": 1.0}),
    *cases(renewal.some_fresh, {"staleness": [0.5]}),
    *cases(planning.plan, {**COLUMNS, "budget": 1.0}, **KINDS, budget=SINGLE),
    *cases(planning.summary_of, COLUMNS, **KINDS),
    *cases(planning.budget_for, {**COLUMNS, "freshness": 0.5}, **KINDS, freshness=EITHER),
    *cases(planning.budget_for, {"rates": [1.0, 2.0], "age": 0.5}, rates=LISTED, age=EITHER),
    *cases(over_a_shard, {"budget": 1.0}, budget=SINGLE),
    *cases(planning.plan([1.0, 2.0], 1.0).outlook, {"budget": 1.0}, budget=SINGLE),
    *cases(planning.plan_shards([{"rates": [1.0]}], 1.0).outlook, {"budget": 1.0}, budget=SINGLE),
    *cases(planning.Partitioning, {"frequency": 1.0}, frequency=SINGLE),
    *cases(
        planning.random_optimal,
        {"rates": [1.0, 2.0], "weights": [1.0, 1.0], "sizes": [1.0, 1.0], "budget": 1.0},
        budget=SINGLE,
    ),
    *cases(
        planning.plan_within,
        {
            "rates": [1.0, 2.0],
            "budget": 1.0,
            "room": [1.0, 2.0],
            "space": 2.0,
            "weights": [1.0, 1.0],
            "sizes": [1.0, 1.0],
        },
        budget=SINGLE,
        rates=LISTED,
        space=SINGLE,
        weights=OPTIONAL,
        sizes=OPTIONAL,
    ),
    *cases(
        planning.share_budget,
        {"curves": (planning.DemandCurve([2.0, 1.0], [1.0, 2.0]),), "budget": 1.0},
        budget=SINGLE,
    ),
    *cases(planning.random_optimal_slots, {"changes": [0.5, 0.5], "weights": [1.0, 1.0]}),
    *cases(
        schedule.Schedule,
        {"frequencies": [1.0, 2.0], "jitter": 0.5, "phases": [0.5, 0.0], "start": 0.0},
        frequencies=LISTED,
        jitter=SINGLE,
        phases=OPTIONAL,
        start=SINGLE | NEGATIVE,
    ),
    *cases(drawn_until, {"end": 1.0}, end=SINGLE | NEGATIVE),
    *cases(swapped, {"frequencies": [1.0, 2.0]}, frequencies=LISTED),
    *cases(added, {"frequencies": [1.0, 2.0]}, frequencies=LISTED),
    *cases(
        first_of_two,
        {"frequencies": [1.0, 2.0], "start": 0.0},
        frequencies=LISTED,
        start=SINGLE | NEGATIVE,
    ),
    *cases(
        schedule.EarliestDeadline,
        {"frequencies": [1.0, 2.0], "start": 0.0},
        frequencies=LISTED,
        start=SINGLE | NEGATIVE,
    ),
    *cases(
        schedule.Index,
        {"rates": [1.0, 2.0], "budget": 1.0, "weights": [1.0, 1.0], "sizes": [1.0, 1.0], "start": 0.0},
        rates=LISTED,
        budget=SINGLE,
        weights=OPTIONAL,
        sizes=OPTIONAL,
        start=SINGLE | NEGATIVE,
    ),
    *cases(
        simulation.World,
        {
            "rates": [1.0, 2.0],
            "weights": [1.0, 1.0],
            "sizes": [1.0, 1.0],
            "change_sizes": [0.0, 0.0],
            "accesses": 1.0,
        },
        **KINDS,
        accesses=SINGLE,
    ),
    *cases(recorded, {"times": [1.0, 2.0], "end": 3.0}, times=LISTED, end=SINGLE | {"none": "taken"}),
    *cases(
        simulation.Conditions,
        {"late": 0.5, "takes": 0.5, "fails": 0.5},
        late=SINGLE,
        takes=SINGLE,
        fails=SINGLE,
    ),
    *cases(simulation.zipf, {"count": 2, "skew": 1.0}, skew=SINGLE),
    *cases(
        simulation.align,
        {"profile": [0.5, 0.5], "rates": [1.0, 2.0], "alignment": "aligned"},
        profile=LISTED,
        rates=LISTED,
    ),
    *cases(expected, {"frequencies": [1.0, 2.0]}, frequencies=LISTED),
    *cases(
        simulated,
        {
            "rates": [1.0, 2.0],
            "budget": 1.0,
            "horizon": 5.0,
            "weights": [1.0, 1.0],
            "sizes": [1.0, 1.0],
            "accesses": 1.0,
            "jitter": 0.5,
            "burn_in": 1.0,
        },
        rates=LISTED,
        budget=SINGLE,
        horizon=SINGLE | {"none": "horizon must be given"},
        weights=OPTIONAL,
        sizes=OPTIONAL,
        accesses=SINGLE,
        jitter=SINGLE,
        burn_in=SINGLE | OPTIONAL,
    ),
    *cases(lag_of, {"shares": 0.5}),
    *cases(within, {"lags": 0.5}),
]


def refused(call, *words):
    """Assert that a call is refused with a message that contains these words, and return it."""
    with pytest.raises(InvalidInput) as caught:
        call()
    message = str(caught.value)
    for word in words:
        assert word in message, message
    return message


@pytest.mark.parametrize("case", CASES, ids=repr)
def test_good_arguments_are_taken(case):
    assert case.function(**case.good) is not None


@pytest.mark.parametrize("case", CASES, ids=repr)
@pytest.mark.parametrize("kind", NOT_NUMBERS)
def test_what_is_no_number_is_refused(case, kind):
    if kind == "None" and case.none == "taken":
        assert case.spoilt(None) is not None
        return
    if kind == "None" and case.none is not None:
        refused(lambda: case.spoilt(None), case.none)
        return
    message = refused(lambda: case.spoilt(NOT_NUMBERS[kind]), f"{case.named} must be")
    if kind in {"text", "None", "complex", "bool", "dict"}:
        assert message.endswith(f"; {case.named} is {NOT_NUMBERS[kind]!r}")
    if kind == "hole":
        assert message.endswith(f"; {case.named}[1] is None")
    if kind in {"texts", "bools"}:
        assert message.endswith(f"; {case.named}[0] is {NOT_NUMBERS[kind][0]!r}")


@pytest.mark.parametrize("case", CASES, ids=repr)
def test_nan_is_refused(case):
    refused(lambda: case.spoilt_by(math.nan), f"{case.named} must be", f"; {case.place} is nan")
    if not case.single:
        refused(lambda: case.spoilt([case.fine, math.nan]), f"; {case.named}[1] is nan")


@pytest.mark.parametrize("case", CASES, ids=repr)
def test_infinity_is_refused_where_it_means_nothing(case):
    if case.infinite:
        answer = case.spoilt(math.inf)
        assert isinstance(answer, planning.Plan | planning.Summary) or not np.isnan(answer)
    else:
        refused(lambda: case.spoilt_by(math.inf), f"{case.named} must be finite", f"; {case.place} is inf")
    refused(lambda: case.spoilt_by(-math.inf), f"; {case.place} is -inf")


@pytest.mark.parametrize("case", CASES, ids=repr)
def test_a_negative_number_is_refused_where_it_means_nothing(case):
    if case.negative:
        assert case.spoilt(-1.5) is not None
    elif case.function == Empirical.from_times:
        refused(lambda: case.spoilt([-1.5, -2.5]), "times must increase; times[1] is -2.5 after -1.5")
    else:
        refused(lambda: case.spoilt_by(-1.5), f"{case.named} must be", f"; {case.place} is -1.5")
        if not case.single:
            refused(lambda: case.spoilt([case.fine, -1.5]), f"; {case.named}[1] is -1.5")


@pytest.mark.parametrize("case", CASES, ids=repr)
def test_nothing_gives_nothing_or_a_refusal(case):
    """Where elements are asked one by one, none give no answers; where one is needed, the message says so."""
    try:
        result = case.spoilt([])
    except InvalidInput as error:
        assert case.named in str(error)  # noqa: PT017  (both outcomes are right)
    else:
        empty = hasattr(result, "until") and len(result) == 0
        assert (
            empty
            or isinstance(result, penalties.Penalty)
            or 0 in getattr(result, "shape_of", np.shape(result))
        )


@pytest.mark.parametrize("case", [case for case in CASES if case.single], ids=repr)
def test_a_single_number_is_insisted_on(case):
    refused(lambda: case.spoilt([0.5, 0.5]), f"{case.named} must be a single number; it has shape (2,)")


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: poisson.freshness([1, 2], [1, 2, 3]), ("rate has shape (2,)", "frequency has shape (3,)")),
        (lambda: poisson.age([1, 2], [1, 2, 3]), ("rate has shape (2,)", "frequency has shape (3,)")),
        (lambda: poisson.age_after([1, 2], [1, 2, 3]), ("rate has shape (2,)", "elapsed has shape (3,)")),
        (
            lambda: poisson.frequency_for([1, 2], [0.1] * 3),
            ("rate has shape (2,)", "freshness has shape (3,)"),
        ),
        (
            lambda: poisson.database_age([1, 2], [1, 2, 3], 1),
            ("mean_rate has shape (2,)", "spread has shape (3,)"),
        ),
        (lambda: poisson.curve_frequency([1, 2], [1, 2, 3]), ("shape (2,)", "shape (3,)")),
        (lambda: poisson.discrete_freshness([0.1] * 2, [0.1] * 3), ("change_probability has shape (2,)",)),
        (lambda: poisson.discrete_freshness([0.1] * 2, 0.1, [1] * 3), ("steps has shape (3,)",)),
        (lambda: poisson.perceived_freshness([1] * 3, [1, 2], 1), ("profile has shape (3,)",)),
        (
            lambda: polling.mean_cost("age", [1, 2], [1, 2, 3]),
            ("law has shape (2,)", "frequency has shape (3,)"),
        ),
        (
            lambda: polling.worth("age", [1, 2], [1, 2, 3]),
            ("law has shape (2,)", "interval has shape (3,)"),
        ),
        (
            lambda: polling.interval("age", [1, 2], [1] * 3),
            ("law has shape (2,)", "price has shape (3,)"),
        ),
        (lambda: renewal.staleness(Gamma([1, 2], 1), Periodic([1, 2, 3])), ("changes has shape (2,)",)),
        (lambda: Gamma([1, 2], [1, 2, 3]), ("shape has shape (2,)", "scale has shape (3,)")),
    ],
)
def test_shapes_must_fit(call, words):
    refused(call, "shapes do not fit together", *words)


@pytest.mark.parametrize(
    "call",
    [
        lambda: planning.plan([[1.0, 2.0]], 1.0),
        lambda: planning.plan(1.0, 1.0),
        lambda: Empirical([[1.0, 2.0]]),
        lambda: Empirical.from_times(1.0),
        lambda: Empirical.from_times([1.0]),
        lambda: Empirical([1.0, 2.0]).at_rate([1.0, 2.0]),
    ],
)
def test_dimensions_must_fit(call):
    refused(call, "shape")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: poisson.freshness([1, 2, 3, -0.2], 1), "rate must be finite and >= 0; rate[3] is -0.2"),
        (lambda: poisson.freshness([[1, 2], [3, -4]], 1), "rate must be finite and >= 0; rate[1, 1] is -4.0"),
        (lambda: Pareto(1.0, 1.0), "shape must be finite and > 1 and <= 1e+15; shape is 1.0"),
        (lambda: Gamma(0.0, 1.0), "shape must be finite and > 0; shape is 0.0"),
        (
            lambda: poisson.frequency_for(1.0, 1.5),
            "freshness must be finite and >= 0 and <= 1; freshness is 1.5",
        ),
        (
            lambda: poisson.burn_in(0.0, 0.1),
            "change_probability must be finite and > 0 and <= 1; change_probability is 0.0",
        ),
        (lambda: poisson.burn_in(0.1, 1.0), "error must be finite and > 0 and < 1; error is 1.0"),
        (lambda: poisson.curve_peak(0.0), "price must be finite and > 0; price is 0.0"),
        (lambda: Empirical([]), "gaps must not be empty; give at least one number"),
        (
            lambda: renewal.replicas(POISSON, 0, coordinated=True),
            "count must be a whole number >= 1; count is 0",
        ),
        (
            lambda: renewal.replicas(POISSON, 1.5, coordinated=True),
            "count must be a whole number; count is 1.5",
        ),
        (
            lambda: renewal.replicas(POISSON, True, coordinated=True),
            "count must be a whole number >= 1; count is True",
        ),
        (
            lambda: renewal.phase_lock(POISSON, POISSON, denominator=0),
            "denominator must be a whole number >= 1; denominator is 0",
        ),
        (lambda: POISSON.moment(3, 1.0), "k must be 0, 1 or 2; k is 3"),
        (lambda: SUPERPOSED.moment(3, 1.0), "k must be 0, 1 or 2; k is 3"),
        (lambda: penalties.custom(3), "function must be a function of the lag; it is 3"),
        (
            lambda: poisson.perceived_freshness([0, 0], 1, 1),
            "profile must have at least one access; it sums to 0",
        ),
        (lambda: planning.plan([1, 2], 1, weights=[0, 0]), "weights must not all be 0"),
        (
            lambda: planning.plan([0, 0], 1, policy="proportional"),
            "rates must not all be 0 for the proportional policy; use policy='uniform'",
        ),
    ],
)
def test_message(call, message):
    assert refused(call) == message


@pytest.mark.parametrize(
    ("argument", "allowed", "call"),
    [
        ("order", ("'fixed'", "'random'", "'purely-random'"), lambda word: poisson.freshness(1, 1, word)),
        (
            "order",
            ("'fixed'", "'random'", "'purely-random'"),
            lambda word: polling.mean_cost("age", 1, 1, word),
        ),
        (
            "order",
            ("'fixed'", "'random'", "'purely-random'"),
            lambda word: polling.worth("age", 1, 1, word),
        ),
        (
            "order",
            ("'fixed'", "'random'", "'purely-random'"),
            lambda word: polling.interval("age", 1, 1, word),
        ),
        ("order", ("'fixed'", "'random'", "'purely-random'"), lambda word: planning.plan([1], 1, order=word)),
        *(
            ("order", ("'fixed'", "'random'", "'purely-random'"), call)
            for call in (
                lambda word: schedule.Schedule([1], order=word),
                lambda word: simulation.expect(simulation.World([1]), [1], word),
                lambda word: simulation.simulate([1], 1, horizon=1, order=word),
            )
        ),
        (
            "alignment",
            ("'aligned'", "'reverse'", "'shuffled'"),
            lambda word: simulation.align([1], [1], word),
        ),
        (
            "objective",
            ("'freshness'", "'age'"),
            lambda word: simulation.simulate([1], 1, horizon=1, objective=word),
        ),
        ("policies", simulation.NAMES, lambda word: simulation.simulate([1], 1, horizon=1, policies=[word])),
        ("allocation", ("'uniform'", "'proportional'"), lambda word: poisson.database_age(1, 1, 1, word)),
        ("policy", planning.POLICIES, lambda word: planning.plan([1], 1, policy=word)),
        (
            "objective",
            ("'freshness'", "'age'", "'missed-updates'", "'harmonic'"),
            lambda word: polling.worth(word, 1, 1),
        ),
        ("objective", ("'freshness'", "'age'"), lambda word: planning.plan([1], 1, objective=word)),
        ("penalty", ("'1'", "'x'", "'log(1+x)'", "'1/(1+x)'"), penalties.named),
        (
            "penalty",
            ("'1'", "'x'", "'log(1+x)'", "'1/(1+x)'"),
            lambda word: renewal.source_penalty(POISSON, POISSON, word),
        ),
        (
            "penalty",
            ("'1'", "'x'", "'log(1+x)'", "'1/(1+x)'"),
            lambda word: renewal.update_penalty(POISSON, POISSON, word),
        ),
    ],
)
def test_a_wrong_word_lists_the_allowed_ones(argument, allowed, call):
    refused(lambda: call("fixd"), f"{argument} must be one of", *allowed, f"{argument} is 'fixd'")
    for value in (None, 3, ["fixed"]):
        message = refused(lambda value=value: call(value), f"{argument} must be")
        assert repr(value) in message


@pytest.mark.parametrize(
    ("argument", "call"),
    [
        ("polls", lambda law: polling.average_cost("age", 1.0, law)),
        ("changes", lambda law: renewal.staleness(law, POISSON)),
        ("polls", lambda law: renewal.staleness(POISSON, law)),
        ("changes", lambda law: renewal.share_within(law, POISSON, 1.0)),
        ("polls", lambda law: renewal.lag_cdf(POISSON, law, 1.0)),
        ("polls", lambda law: renewal.source_penalty(POISSON, law)),
        ("polls", lambda law: renewal.update_penalty(POISSON, law)),
        ("polls", lambda law: renewal.missed_updates(POISSON, law)),
        ("first", lambda law: renewal.dominates(law, POISSON)),
        ("second", lambda law: renewal.dominates(POISSON, law)),
        ("changes", lambda law: renewal.phase_lock(law, POISSON)),
        ("polls", lambda law: renewal.phase_lock(POISSON, law)),
        ("each", lambda law: renewal.replicas(law, 2, coordinated=False)),
    ],
)
@pytest.mark.parametrize("value", [None, "Poisson", object()], ids=["None", "text", "object"])
def test_what_is_no_process_is_refused(argument, call, value):
    refused(lambda: call(value), f"{argument} must be", repr(value))


@pytest.mark.parametrize(
    "call",
    [
        lambda law: renewal.dominates(law, POISSON),
        lambda law: renewal.dominates(POISSON, law),
        lambda law: renewal.phase_lock(law, POISSON),
        lambda law: renewal.replicas(law, 2, coordinated=True),
    ],
)
def test_one_process_that_happens_is_needed(call):
    refused(lambda: call(Poisson([1.0, 2.0])), "shape (2,)")
    refused(lambda: call(Poisson(0.0)), "must have a rate > 0")


LAWS = [
    POISSON,
    Pareto(3.0, 1.0),
    UncertainPoisson(3.0, 1.0),
    Weibull(2.0, 1.0),
    Gamma(2.0, 1.0),
    Lognormal(0.0, 1.0),
    Periodic(1.0),
    RandomOrder(1.0),
    Empirical([1.0, 2.0]),
    SUPERPOSED,
]


@pytest.mark.parametrize("law", LAWS, ids=lambda law: type(law).__name__)
def test_sampling_insists_on_a_generator(law):
    for rng in (None, 1, np.random, np.random.RandomState(1)):
        for draw in (law.sample, law.sample_residual):
            refused(lambda draw=draw, rng=rng: draw(rng), "rng must be a numpy", "default_rng", "; rng is ")


@pytest.mark.parametrize("law", LAWS, ids=lambda law: type(law).__name__)
def test_sampling_refuses_sizes_that_are_none(law):
    for size in (-1, 2.5, "ab", (2, -3), True):
        for draw in (law.sample, law.sample_residual):
            refused(lambda draw=draw, size=size: draw(np.random.default_rng(1), size), "size must be")


def test_sampling_many_elements_refuses_sizes_that_do_not_fit():
    for law in (Poisson([1.0, 2.0]), Gamma([1.0, 2.0], 1.0), UncertainPoisson([1.0, 2.0], 1.0)):
        assert law.sample(np.random.default_rng(1)).shape == (2,)
        assert law.sample_residual(np.random.default_rng(1)).shape == (2,)
        assert law.sample(np.random.default_rng(1), (5, 2)).shape == (5, 2)
        refused(
            lambda law=law: law.sample(np.random.default_rng(1), 3),
            "size must end in the shape of the parameters",
        )


# --- extremes that have an answer ---------------------------------------------------------------

ORDERS = ("fixed", "random", "purely-random")


@pytest.mark.parametrize("order", ORDERS)
def test_never_polled_and_never_changing(order):
    rates, frequencies = [0.0, 0.0, 1.0, 1.0], [0.0, 1.0, 0.0, 1e300]
    assert poisson.freshness(rates, frequencies, order).tolist() == [1, 1, 0, 1]
    assert poisson.age(rates, frequencies, order)[:3].tolist() == [0, 0, math.inf]
    for objective, never in (
        ("freshness", 1.0),
        ("age", math.inf),
        ("missed-updates", math.inf),
        ("harmonic", math.inf),
    ):
        cost = polling.mean_cost(objective, rates, frequencies, order)
        assert cost[:3].tolist() == [0, 0, never]
        assert cost[3] < 1e-200


@pytest.mark.parametrize("law", [*LAWS[1:6], LAWS[8]], ids=lambda law: type(law).__name__)
def test_never_polled_whatever_the_law(law):
    assert polling.mean_cost("freshness", law, [0.0, 1.0])[0] == 1
    assert polling.mean_cost("age", law, [0.0, 1.0])[0] == math.inf
    assert polling.mean_cost("missed-updates", law, [0.0, 1.0])[0] == math.inf
    assert polling.mean_cost("harmonic", law, [0.0, 1.0])[0] == math.inf
    # polls that never happen
    assert renewal.staleness(law, Poisson(0.0)) == 1
    assert renewal.share_within(law, Poisson(0.0), 2.0) == 0
    assert renewal.source_penalty(law, Poisson(0.0)) == math.inf
    assert renewal.missed_updates(law, Poisson(0.0)) == math.inf


@pytest.mark.parametrize("polls", [*LAWS[:8], SUPERPOSED], ids=lambda law: type(law).__name__)
def test_changes_that_never_happen(polls):
    still = Poisson(0.0)
    assert renewal.staleness(still, polls) == 0
    assert renewal.share_within(still, polls, 0.0) == 1
    assert renewal.lag_cdf(still, polls, 1.0) == 1
    assert renewal.source_penalty(still, polls, "log(1+x)") == 0
    assert renewal.missed_updates(still, polls) == 0


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("objective", ["freshness", "age", "missed-updates", "harmonic"])
def test_worth_and_interval_at_the_ends(objective, order):
    first = 0.5 if objective == "freshness" else math.inf  # what the first poll is worth, at rate 2
    assert polling.worth(objective, [0.0, 2.0], 0.0, order).tolist() == [0, 0]
    assert polling.worth(objective, [0.0, 2.0], math.inf, order).tolist() == [0, first]
    # nothing is worth polling what never changes; what costs nothing is polled without end
    assert polling.interval(objective, [0.0, 2.0], 0.0, order).tolist() == [0, 0]
    assert polling.interval(objective, [0.0, 2.0], math.inf, order).tolist() == [math.inf, math.inf]
    assert polling.interval(objective, 0.0, 1.0, order) == math.inf


def test_frequency_for_the_ends():
    assert poisson.frequency_for([0, 0, 1, 1], [0, 1, 0, 1]).tolist() == [0, 0, 0, math.inf]


def test_databases_never_polled_or_never_changing():
    for allocation in ("uniform", "proportional"):
        assert poisson.database_freshness([0, 1], 0.5, 0, allocation).tolist() == [1, 0]
        assert poisson.database_age([0, 1], 0.5, 0, allocation).tolist() == [0, math.inf]


def test_a_process_that_never_happens():
    still = Poisson(0.0)
    assert still.residual_survival([0.0, 1.0, 1e300]).tolist() == [1, 1, 1]
    for k in range(3):
        assert still.moment(k, [0.0, 1.0, 1e300, math.inf]).tolist() == [0, 0, 0, 0]
    assert np.isinf(still.sample(np.random.default_rng(1), 3)).all()
    refused(lambda: still.at_rate(1.0), "rate 0")


def test_slots_at_the_ends():
    assert poisson.discrete_freshness([0, 0, 1, 1], [0, 1, 0, 1]).tolist() == [1, 1, 0, 1]
    assert poisson.discrete_decaying_freshness([0, 0, 5], [0, 1, 0]).tolist() == [1, 1, 0]
    assert poisson.burn_in(1.0, 0.1) == 1


def test_a_penalty_that_falls_has_no_interval():
    falling = objectives.SourcePenalty(penalties.decay(1.0))
    refused(lambda: polling.interval(falling, 1.0, 0.1), "falls as lags grow")


def test_a_penalty_must_not_be_negative():
    refused(
        lambda: renewal.source_penalty(Gamma(2.0, 1.0), Periodic(1.0), lambda x: x - 1),
        "penalty(custom) must be",
    )


def test_an_integral_that_diverges_is_no_number():
    with pytest.raises(NoAnswer):
        renewal.source_penalty(Gamma(2.0, 1.0), Periodic(1.0), lambda x: 1 / np.maximum(x, 1e-300) ** 2)


# --- errors and names ---------------------------------------------------------------------------


def test_the_tree_of_errors():
    assert issubclass(UnstaleError, Exception)
    for error, builtin in (
        (InvalidInput, ValueError),
        (NoAnswer, ArithmeticError),
        (MissingExtra, ImportError),
    ):
        assert issubclass(error, UnstaleError)
        assert issubclass(error, builtin)
        assert getattr(unstale, error.__name__) is error


def test_a_missing_extra_says_how_to_get_it():
    error = MissingExtra("lab", needed_for="plots")
    assert str(error) == "plots need an optional part: pip install 'unstale[lab]'"
    assert error.extra == "lab"


def test_public_names():
    assert unstale.__all__ == sorted(set(unstale.__all__))
    for name in unstale.__all__:
        assert getattr(unstale, name) is not None
    assert set(unstale.__all__) <= set(dir(unstale))
    assert "__version__" in dir(unstale)
    assert unstale.__version__.count(".") == 2
    with pytest.raises(AttributeError, match="module 'unstale' has no attribute 'freshnes'"):
        unstale.freshnes  # noqa: B018


@pytest.mark.parametrize(
    "module",
    [estimation, objectives, penalties, planning, poisson, processes, renewal, schedule, simulation],
    ids=lambda m: m.__name__,
)
def test_every_public_name_is_there_and_documented(module):
    for name in module.__all__:
        value = getattr(module, name)
        assert not callable(value) or inspect.getdoc(value), name


def test_every_public_function_is_tested_here():
    """A new public function must be spoilt as well."""
    spoilt = {case.function.__name__ for case in CASES} | {
        "average_cost",
        "dominates",
        "expect",  # by another name
        "missed_updates",
        "named",
        "objective_named",
        "one_by_one",  # takes a stream only
        "phase_lock",
        "plan_shards",  # what shards may be is in its own tests
        "replicas",
        "simulate",  # by another name
        "some",  # takes a stream only
        "source_penalty",
        "staleness",
        "update_penalty",
    }
    public = {
        name
        for module in (objectives, penalties, planning, poisson, renewal, schedule, simulation)
        for name in module.__all__
        if inspect.isfunction(getattr(module, name))
    }
    assert public <= spoilt


def test_what_is_no_objective_is_refused():
    for value in (None, 3, object()):
        refused(
            lambda value=value: objectives.objective_named(value), "objective must be one of", repr(value)
        )


def test_small_slips_are_caught():
    refused(lambda: Periodic([1.0, 2.0]).span, "one process", "shape (2,)")
    refused(lambda: POISSON.moment(True, 1.0), "k must be 0, 1 or 2; k is True")
    refused(lambda: renewal.replicas(POISSON, 2, coordinated="no"), "coordinated must be True or False")
    assert Poisson(0.0).residual_survival(math.inf) == 1


@pytest.mark.parametrize(
    ("rates", "weights"), [([1, 2], [1, 2, 3]), ([1], [1, 1]), ([1, 1], [[1, 1], [1, 1]])]
)
def test_weights_fit_the_rates(rates, weights):
    shape = np.shape(weights)
    refused(lambda: planning.plan(rates, 1, weights=weights), "weights must be", f"weights has shape {shape}")


def test_masked_entries_are_named():
    rates = np.ma.array([1.0, 2.0, 1e9], mask=[0, 0, 1])
    refused(lambda: planning.plan(rates, 1), "rates must be unmasked; rates[2] is")
    assert planning.plan(np.ma.array([1.0, 2.0]), 1).spent == pytest.approx(1.0)


def test_objectives_and_penalties_that_are_none():
    for wrong in (objectives.SourcePenalty, objectives.Harmonic, object(), 3):
        refused(lambda wrong=wrong: polling.mean_cost(wrong, 1.0, 1.0), "objective must be")
    refused(lambda: objectives.SourcePenalty(3), "penalty must be", "penalty is 3")
    refused(lambda: objectives.SourcePenalty("y"), "penalty must be one of", "penalty is 'y'")
    refused(lambda: renewal.source_penalty(POISSON, POISSON, math.sqrt), "must take an array of lags")
    bounded = objectives.SourcePenalty(lambda x: x / (1.0 + x))
    with np.errstate(invalid="ignore"):
        refused(lambda: polling.worth(bounded, 1.0, math.inf), "its limit at an infinite lag")


EVERY_PENALTY = [
    penalties.named("log(1+x)"),
    penalties.named("1/(1+x)"),
    penalties.decay(1.0),
    penalties.beyond(0.5),
    penalties.power(2.5),
]


@pytest.mark.parametrize("order", ["fixed", "random"])
@pytest.mark.parametrize("penalty", EVERY_PENALTY, ids=lambda penalty: penalty.name)
def test_rate_0_has_an_answer_for_every_penalty(penalty, order):
    objective = objectives.UpdatePenalty(penalty)
    assert polling.worth(objective, [0.0, 2.0], [[0.3], [math.inf]], order)[:, 0].tolist() == [0, 0]
    assert polling.interval(objective, [0.0, 2.0], 1e-3, order)[0] == math.inf
    assert polling.mean_cost(objective, [0.0, 2.0], [0.0, 1.0], order)[0] == 0
    assert polling.interval(objectives.currency(1.0), [0.0, 2.0], 0.1, order)[0] == math.inf


def test_a_price_that_no_representable_interval_reaches():
    """The worth grows without bound, but as the logarithm of the interval."""
    law = Pareto(2.0, 1.0)
    assert polling.interval("freshness", law, [800.0, 1e10]).tolist() == [math.inf, math.inf]
    assert polling.worth("freshness", law, polling.interval("freshness", law, 600.0)) == pytest.approx(600.0)


def test_extremes_are_quiet_and_right():
    assert poisson.freshness(1e10, 1e-300) == 0
    assert poisson.age(1e300, 1e-300) == pytest.approx(5e299)
    assert poisson.freshness_after(1e300, 1e300) == 0
    assert poisson.age_after(1e300, 1e300) == pytest.approx(1e300)
    assert poisson.frequency_for(1.0, 1e-310) < 1e-300
    assert polling.mean_cost("freshness", 1.0, 5e-324) == 1
    assert polling.interval("age", 1.0, 5e-324, "random") < 1e-100
    assert poisson.perceived_freshness([1e308, 1e308], [1, 1], [1, 1]) == pytest.approx(1 - math.exp(-1))
    assert poisson.database_freshness(1, 1e300, 1) == pytest.approx(1.0)
    assert planning.plan([1, 1], 2, weights=[8e307, 8e307]).freshness == pytest.approx(1 - math.exp(-1))
