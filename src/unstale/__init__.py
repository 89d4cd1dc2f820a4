"""Keep local copies of other people's data as fresh as a polling budget allows, and know how fresh they are.

Names are loaded on first use, so that importing the package costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from .kernel_cache import keep_kernels

if TYPE_CHECKING:
    from .errors import InvalidInput as InvalidInput
    from .errors import MissingExtra as MissingExtra
    from .errors import NoAnswer as NoAnswer
    from .errors import Trouble as Trouble
    from .errors import UnstaleError as UnstaleError
    from .estimation import GammaPrior as GammaPrior
    from .estimation import HintedChanges as HintedChanges
    from .estimation import Learner as Learner
    from .estimation import Profile as Profile
    from .estimation import estimate_hints as estimate_hints
    from .estimation import estimate_rate as estimate_rate
    from .estimation import estimate_rates as estimate_rates
    from .fetcher import AsyncFetcher as AsyncFetcher
    from .fetcher import Fetcher as Fetcher
    from .mirror.mirror import Mirror as Mirror
    from .objectives import Harmonic as Harmonic
    from .objectives import Objective as Objective
    from .objectives import SourcePenalty as SourcePenalty
    from .objectives import UpdatePenalty as UpdatePenalty
    from .objectives import currency as currency
    from .planning import Partitioning as Partitioning
    from .planning import Plan as Plan
    from .planning import budget_for as budget_for
    from .planning import plan as plan
    from .planning import plan_shards as plan_shards
    from .poisson import age as age
    from .poisson import frequency_for as frequency_for
    from .poisson import freshness as freshness
    from .poisson import perceived_freshness as perceived_freshness
    from .policy import Learning as Learning
    from .polling import interval as interval
    from .polling import mean_cost as mean_cost
    from .polling import worth as worth
    from .processes import Empirical as Empirical
    from .processes import Gamma as Gamma
    from .processes import Lognormal as Lognormal
    from .processes import Pareto as Pareto
    from .processes import Periodic as Periodic
    from .processes import Poisson as Poisson
    from .processes import Process as Process
    from .processes import RandomOrder as RandomOrder
    from .processes import UncertainPoisson as UncertainPoisson
    from .processes import Weibull as Weibull
    from .schedule import EarliestDeadline as EarliestDeadline
    from .schedule import Index as Index
    from .schedule import Schedule as Schedule
    from .schedule import Windows as Windows
    from .simulation import Conditions as Conditions
    from .simulation import World as World
    from .simulation import simulate as simulate

_HOME = {
    "errors": ("InvalidInput", "MissingExtra", "NoAnswer", "Trouble", "UnstaleError"),
    "estimation": (
        "GammaPrior",
        "HintedChanges",
        "Learner",
        "Profile",
        "estimate_hints",
        "estimate_rate",
        "estimate_rates",
    ),
    "fetcher": ("AsyncFetcher", "Fetcher"),
    "mirror.mirror": ("Mirror",),
    "objectives": (
        "Harmonic",
        "Objective",
        "SourcePenalty",
        "UpdatePenalty",
        "currency",
    ),
    "planning": ("Partitioning", "Plan", "budget_for", "plan", "plan_shards"),
    "poisson": ("age", "freshness", "frequency_for", "perceived_freshness"),
    "policy": ("Learning",),
    "polling": ("interval", "mean_cost", "worth"),
    "processes": (
        "Empirical",
        "Gamma",
        "Lognormal",
        "Pareto",
        "Periodic",
        "Poisson",
        "Process",
        "RandomOrder",
        "UncertainPoisson",
        "Weibull",
    ),
    "schedule": ("EarliestDeadline", "Index", "Schedule", "Windows"),
    "simulation": ("Conditions", "World", "simulate"),
}
_MODULE = {name: module for module, names in _HOME.items() for name in names}
_SUBMODULES = (
    "errors",
    "estimation",
    "fetcher",
    "mirror",
    "objectives",
    "operational_time",
    "penalties",
    "planning",
    "poisson",
    "policy",
    "polling",
    "processes",
    "renewal",
    "schedule",
    "simulation",
)

__all__ = sorted([*_MODULE, *_SUBMODULES])  # noqa: PLE0605  (one list, checked by a test)

keep_kernels()


def __getattr__(name: str) -> object:
    if name in _MODULE:
        value = getattr(import_module(f".{_MODULE[name]}", __name__), name)
        globals()[name] = value
        return value
    if name in _SUBMODULES:
        return import_module(f".{name}", __name__)
    if name == "__version__":
        from importlib.metadata import version  # slow to import, rarely asked

        return version("unstale")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
