"""Profiles: counting accesses with a half-life, smoothing, merging, and bounded memory."""

import io

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unstale.errors import InvalidInput, NoAnswer
from unstale.estimation import Profile, UserProfiles

ACCESSES = st.lists(st.tuples(st.sampled_from("abcdef"), st.floats(0.0, 100.0)), min_size=1, max_size=40)
HALF_LIVES = st.sampled_from([0.5, 7.0, 1000.0, np.inf])


def counted(accesses, half_life=np.inf, **options):
    profile = Profile(half_life, **options)
    profile.count([key for key, _ in accesses], [time for _, time in accesses])
    return profile


def plainly(accesses, half_life):
    """Count by the definition."""
    latest = max(time for _, time in accesses)
    out = {}
    for key, time in accesses:
        out[key] = out.get(key, 0.0) + 2.0 ** ((time - latest) / half_life)
    return out


# --- counting -----------------------------------------------------------------------------------------------


@given(accesses=ACCESSES, half_life=HALF_LIVES, cut=st.integers(0, 40))
def test_counts_are_those_of_the_definition_in_any_order_and_in_any_parts(accesses, half_life, cut):
    truth = plainly(accesses, half_life)
    profile = Profile(half_life)
    for part in (accesses[cut:], accesses[:cut]):
        profile.count([key for key, _ in part], [time for _, time in part])
    assert set(profile.keys) == set(truth)
    for key, amount in truth.items():
        assert profile[key] == pytest.approx(amount, rel=1e-9)
    assert profile.total == pytest.approx(sum(truth.values()), rel=1e-9)
    assert profile["never"] == 0.0
    assert "never" not in profile


@given(accesses=ACCESSES, half_life=HALF_LIVES, cut=st.integers(0, 40))
def test_parts_joined_are_the_whole(accesses, half_life, cut):
    parts = [
        counted(part, half_life) if part else Profile(half_life) for part in (accesses[:cut], accesses[cut:])
    ]
    joined, whole = Profile.joined(parts), counted(accesses, half_life)
    assert {key: pytest.approx(joined[key], rel=1e-9) for key in joined.keys} == {
        key: whole[key] for key in whole.keys
    }
    assert joined.span == whole.span
    keys = [*"abcdefghij"]
    np.testing.assert_allclose(joined.weights(keys), whole.weights(keys), rtol=1e-9)


@given(accesses=ACCESSES, half_life=HALF_LIVES, factor=st.floats(1e-3, 1e3))
def test_the_unit_of_time_is_irrelevant(accesses, half_life, factor):
    here = counted(accesses, half_life)
    there = counted([(key, time * factor) for key, time in accesses], half_life * factor)
    keys = list("abcdefgh")
    np.testing.assert_allclose(there.weights(keys), here.weights(keys), rtol=1e-6, atol=1e-12)
    if here.span > 1e-3:
        np.testing.assert_allclose(there.frequencies * factor, here.frequencies, rtol=1e-6, atol=1e-12)


def test_counts_and_places_are_short_for_repeated_accesses():
    long, short = Profile(5.0), Profile(5.0)
    long.count(["a", "a", "a", "b"], [1.0, 1.0, 1.0, 2.0])
    short.count(["a", "b"], [1.0, 2.0], [3.0, 1.0], places=[0, 1])
    assert {key: long[key] for key in "ab"} == {key: short[key] for key in "ab"}
    assert long.seen_once.tolist() == short.seen_once.tolist() == [False, True]


def test_very_long_times_do_not_overflow():
    profile = Profile(half_life=1.0)
    for time in (0.0, 1e3, 1e6, 5e8):
        profile.count(["a", "b"], [time, time + 0.5])
    assert profile["b"] == pytest.approx(1.0)
    assert profile["a"] == pytest.approx(2.0**-0.5)
    profile.count(["old"], [-1e9])
    assert profile["old"] == 0.0
    profile.until(5e8 + 10.5)
    assert profile["b"] == pytest.approx(2.0**-10)


def test_frequencies_of_a_steady_stream_are_its_rate_whatever_the_half_life():
    rng = np.random.default_rng(1)
    times = np.sort(rng.uniform(0.0, 400.0, 40_000))
    for half_life in (np.inf, 200.0, 20.0):
        profile = Profile(half_life, start=0.0)
        profile.count(["a"] * times.size, times)
        assert profile.frequencies[0] == pytest.approx(100.0, rel=0.05)


def test_a_short_half_life_follows_a_change_of_interest():
    times = np.arange(0.0, 100.0, 0.1)
    keys = ["old" if time < 80 else "new" for time in times]
    slow, quick = Profile(np.inf), Profile(5.0)
    for profile in (slow, quick):
        profile.count(keys, times)
    assert slow["old"] > 3 * slow["new"]
    assert quick["new"] > 10 * quick["old"]


# --- weights and smoothing ----------------------------------------------------------------------------------


@given(accesses=ACCESSES, half_life=HALF_LIVES, others=st.integers(0, 30))
def test_weights_sum_to_1_and_the_unseen_keep_a_little(accesses, half_life, others):
    profile = counted(accesses, half_life)
    keys = [*profile.keys, *(f"other {i}" for i in range(others))]
    weights = profile.weights(keys)
    assert weights.sum() == pytest.approx(1.0)
    seen, unseen = weights[: len(profile)], weights[len(profile) :]
    np.testing.assert_allclose(seen / seen.sum(), profile.accesses / profile.accesses.sum(), rtol=1e-9)
    assert (unseen > 0).all()
    if profile.seen_once.any() and others:
        assert unseen[0] <= seen[profile.seen_once].mean() * (1 + 1e-9)


def test_the_unseen_get_the_share_that_the_next_accesses_give_them():
    """Good's estimate, against what new accesses do."""
    rng = np.random.default_rng(2)
    popularity = 1.0 / np.arange(1, 20_001)
    popularity /= popularity.sum()
    keys = list(map(str, range(20_000)))
    draws = rng.choice(20_000, 30_000, p=popularity)
    profile = Profile()
    profile.count(keys, np.arange(30_000.0), places=draws)
    unseen = np.ones(20_000, bool)
    unseen[draws] = False
    assert profile.weights(keys)[unseen].sum() == pytest.approx(popularity[unseen].sum(), rel=0.05)


def test_a_share_for_the_unseen_can_be_given():
    profile = counted([("a", 0.0), ("a", 1.0), ("b", 2.0)])
    np.testing.assert_allclose(profile.weights(["a", "b", "c", "d"], unseen=0.1), [0.6, 0.3, 0.05, 0.05])
    np.testing.assert_allclose(profile.weights(["a", "b"], unseen=0.1), [2 / 3, 1 / 3])
    np.testing.assert_allclose(profile.weights(["x", "y"]), [0.5, 0.5])
    assert profile.weights([]).size == 0
    np.testing.assert_allclose(Profile().weights(["x", "y"]), [0.5, 0.5])


# --- users --------------------------------------------------------------------------------------------------


def test_the_master_profile_is_that_of_the_paper():
    """Each user's profile is normalised and counts with the weight of the user."""
    rng = np.random.default_rng(3)
    keys = list("abcd")
    users, weights = [], np.array([1.0, 5.0, 0.0, 2.5])
    for size in (3, 400, 50, 7):
        user = Profile(30.0)
        user.count([*keys, *rng.choice(keys, size)], np.full(size + 4, 10.0))
        users.append(user)
    expected = sum(w * user.weights(keys) for w, user in zip(weights, users, strict=True)) / weights.sum()
    master = Profile.merge(users, weights)
    np.testing.assert_allclose(master.weights(keys), expected, rtol=1e-12)
    assert master.accesses.sum() == pytest.approx(sum(user.total for user in users))


@given(
    accesses=st.lists(
        st.tuples(st.sampled_from("xyz"), st.sampled_from("abcd"), st.floats(0.0, 50.0)),
        min_size=1,
        max_size=40,
    ),
    half_life=HALF_LIVES,
)
def test_users_counted_together_are_users_counted_apart(accesses, half_life):
    together, apart = UserProfiles(half_life), {user: Profile(half_life) for user, _, _ in accesses}
    users, keys, times = zip(*accesses, strict=True)
    together.count(users, keys, times)
    for user, key, time in accesses:
        apart[user].count([key], [time])
    weights = {"x": 3.0, "y": 1.0, "z": 0.5}
    one = together.master(weights)
    other = Profile.merge(apart.values(), [weights[user] for user in apart])
    assert len(together) == len(apart)
    for key in "abcd":
        assert one[key] == pytest.approx(other[key], rel=1e-6, abs=1e-12)
    coded = UserProfiles(half_life)
    who, what = sorted(set(users)), sorted(set(keys))
    coded.count(
        who, what, times, user_places=[who.index(u) for u in users], places=[what.index(k) for k in keys]
    )
    assert {pair: coded.pairs[pair] for pair in coded.pairs.keys} == {
        pair: pytest.approx(together.pairs[pair]) for pair in together.pairs.keys
    }


# --- bounded memory -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("half_life", [np.inf, 5000.0])
def test_memory_is_bounded_and_errors_are_as_stated(half_life):
    rng = np.random.default_rng(4)
    small, exact = Profile(half_life, most=1000), Profile(half_life)
    for part in range(40):
        keys = [f"{i}" for i in np.minimum(rng.zipf(1.2, 2000), 10**9)]
        times = part * 2000 + np.arange(2000.0)
        for profile in (small, exact):
            profile.count(keys, times)
        assert len(small) <= 1000
        assert small._amounts.size <= 1000 + 2000
    assert len(exact) > 5000
    assert 0 < small.error <= 2.0 / 1000 * exact.total
    assert small.total == pytest.approx(exact.total)
    for key, accesses in exact.top(2000):
        assert accesses - small.error - 1e-6 <= small[key] <= accesses + 1e-6
    assert [key for key, _ in small.top(20)][:5] == [key for key, _ in exact.top(20)][:5]


def test_joined_profiles_keep_their_errors():
    parts = [Profile(most=10) for _ in range(2)]
    for part in parts:
        part.count([f"{i}" for i in range(8)] * 4 + [f"{i}" for i in range(8, 20)], np.arange(44.0))
    joined = Profile.joined(parts)
    assert joined.error >= sum(part.error for part in parts) > 0
    assert len(joined) <= 10


# --- to be continued ----------------------------------------------------------------------------------------


def test_a_profile_survives_being_saved():
    profile = Profile(10.0, most=100)
    profile.count(["a", "ü", "", "a"], [0.0, 3.0, 4.0, 5.0])
    file = io.BytesIO()
    np.savez(file, **profile.state())
    file.seek(0)
    again = Profile.resume(np.load(file))
    for one in (profile, again):
        one.count(["ü", "b"], [7.0, 8.0])
    assert again.keys == profile.keys
    assert again.accesses.tolist() == profile.accesses.tolist()
    assert again.seen_once.tolist() == profile.seen_once.tolist()
    assert (again.span, again.total, again.most) == (profile.span, profile.total, profile.most)
    assert Profile.resume(Profile().state()).total == 0.0


# --- bad input ----------------------------------------------------------------------------------------------

GOOD = counted([("a", 0.0)])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Profile(0.0), "half_life must be a number and > 0; half_life is 0.0"),
        (lambda: Profile(most=1), "most must be a whole number >= 2; most is 1"),
        (lambda: Profile(start=np.nan), "start must be finite; start is nan"),
        (lambda: Profile().count("abc", [1.0, 2.0, 3.0]), "keys must be a list of keys; it is 'abc'"),
        (
            lambda: Profile().count(["a"], [1.0, 2.0]),
            r"times must be one for each of the 1 keys; its shape is \(2,\)",
        ),
        (lambda: Profile().count(["a"], [np.inf]), r"times must be finite; times\[0\] is inf"),
        (
            lambda: Profile().count(["a"], [1.0], [-1.0]),
            r"counts must be finite and >= 0; counts\[0\] is -1.0",
        ),
        (
            lambda: Profile().count(["a"], [1.0], [1.0, 1.0]),
            "counts must be one number or one for each access",
        ),
        (
            lambda: Profile().count(["a"], [1.0], places=[1]),
            "places must be from 0 to 0; they are from 1 to 1",
        ),
        (lambda: Profile().count(["a"], [1.0], places=[0.0]), "places must be whole numbers"),
        (lambda: Profile().count(["a"], [1.0], places=[0, 0]), "places must be one for each access"),
        (lambda: Profile().until(np.nan), "time must be finite; time is nan"),
        (lambda: GOOD.weights("ab"), "keys must be a list of keys; it is 'ab'"),
        (lambda: GOOD.weights(["a"], unseen=2.0), "unseen must be finite and >= 0 and <= 1; unseen is 2.0"),
        (lambda: GOOD.top(-1), "count must be a whole number >= 0; count is -1"),
        (lambda: Profile.merge([]), "profiles must not be empty"),
        (lambda: Profile.merge([3]), "profiles must be profiles; one is 3"),
        (lambda: Profile.merge([GOOD], [1.0, 2.0]), "weights must be one for each of the 1 profiles"),
        (lambda: Profile.merge([GOOD], [0.0]), "weights must not be 0 for all profiles that have accesses"),
        (
            lambda: Profile.joined([GOOD, Profile(3.0)]),
            "profiles must have one half-life; they have inf and 3.0",
        ),
        (lambda: Profile.resume({}), "state must be what Profile.state returned; it has no 'keys'"),
        (lambda: counted([(1, 0.0)]).state(), "keys must be text to be kept; 1 is not"),
        (
            lambda: UserProfiles().count(["u"], ["a", "b"], [1.0, 2.0]),
            "users must be one for each of the 2 keys",
        ),
        (
            lambda: UserProfiles().count(["u"], ["a"], [1.0], places=[0]),
            "places and user_places must be given together",
        ),
        (lambda: UserProfiles().master({"u": -1.0}), r"weights\['u'\] must be finite and >= 0"),
        (lambda: UserProfiles().master(), "weights must not be 0 for all users"),
    ],
)
def test_what_cannot_be_is_refused(call, message):
    with pytest.raises(InvalidInput, match=message):
        call()


def test_frequencies_need_time():
    with pytest.raises(NoAnswer, match="accesses at one moment only have no frequency"):
        _ = GOOD.frequencies
