"""Lines of access logs in the common and combined log format, read by compiled code.

    192.0.2.7 - ann [31/Jan/2026:12:00:00 +0100] "GET /page?id=7 HTTP/1.1" 200 5120 "referrer" "agent"

A line that is not exactly so is left to Python, which knows variants and says what is wrong.
"""

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

_SPACE, _QUOTE, _BACKSLASH, _OPEN, _CLOSE, _NEWLINE, _RETURN = 32, 34, 92, 91, 93, 10, 13
_COLON, _SLASH, _PLUS, _MINUS, _QUESTION = 58, 47, 43, 45, 63
_HTTP = np.frombuffer(b" HTTP/", np.uint8)
_MONTHS = np.frombuffer(b"JanFebMarAprMayJunJulAugSepOctNovDec", np.uint8)
_BAD = np.iinfo(np.int64).min


class Scan(NamedTuple):
    """What is in a block of lines."""

    times: NDArray[np.int64]
    """Of each access, in seconds from 1970."""
    places: NDArray[np.int32]
    """Of each access, which of the keys it went to."""
    keys: NDArray[np.int64]
    """Where each of the keys stands for the first time, and where it ends."""
    user_places: NDArray[np.int32]
    users: NDArray[np.int64]
    """Likewise; only if asked for."""
    odd: NDArray[np.int64]
    """Lines for Python: number in the block, where it starts and ends."""
    lines: int
    passed: int
    """Lines with requests that do not count."""


@njit(cache=True, nogil=True, error_model="numpy")
def _digits(data, at, count):
    """Return a whole number; negative if it is none."""
    value = np.int64(0)
    for i in range(at, at + count):
        digit = np.int64(data[i]) - 48
        if digit < 0 or digit > 9:
            return -1
        value = 10 * value + digit
    return value


@njit(cache=True, nogil=True, error_model="numpy")
def _moment(data, at):
    """Return the seconds from 1970 to ``31/Jan/2026:12:00:00 +0100``."""
    day, year = _digits(data, at, 2), _digits(data, at + 7, 4)
    hour, minute, second = _digits(data, at + 12, 2), _digits(data, at + 15, 2), _digits(data, at + 18, 2)
    ahead, past = _digits(data, at + 22, 2), _digits(data, at + 24, 2)
    month = 0
    for i in range(12):
        if (
            data[at + 3] == _MONTHS[3 * i]
            and data[at + 4] == _MONTHS[3 * i + 1]
            and data[at + 5] == _MONTHS[3 * i + 2]
        ):
            month = i + 1
    sign = data[at + 21]
    if (
        min(day, year, hour, minute, second, ahead, past) < 0
        or month == 0
        or day < 1
        or day > 31
        or hour > 23
        or minute > 59
        or second > 60
        or year < 1
        or ahead > 23
        or past > 59
        or data[at + 2] != _SLASH
        or data[at + 6] != _SLASH
        or data[at + 11] != _COLON
        or data[at + 14] != _COLON
        or data[at + 17] != _COLON
        or data[at + 20] != _SPACE
        or sign not in (_PLUS, _MINUS)
    ):
        return _BAD
    if day > 28:  # Python knows how long months are
        long = 31 if month in (1, 3, 5, 7, 8, 10, 12) else 30
        if month == 2:
            long = 29 if year % 4 == 0 and (year % 100 != 0 or year % 400 == 0) else 28
        if day > long:
            return _BAD
    # days since 1970 in the Gregorian calendar, years starting in March
    y = year - (1 if month <= 2 else 0)
    era = y // 400
    of_era = y - 400 * era
    of_year = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5 + day - 1
    days = era * 146097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719468
    zone = 60 * (60 * ahead + past)
    return 86400 * days + 3600 * hour + 60 * minute + second - (zone if sign == _PLUS else -zone)


@njit(cache=True, nogil=True, error_model="numpy")
def _code(data, span, table, spans, count):
    """Return the number of some text among all that differ, of which there are ``count`` so far."""
    start, end = span
    mask = table.size - 1
    value = np.uint64(14695981039346656037)
    for i in range(start, end):
        value = (value ^ np.uint64(data[i])) * np.uint64(1099511628211)
    slot = np.int64((value ^ (value >> np.uint64(32))) & np.uint64(mask))
    while table[slot] >= 0:
        known = table[slot]
        first = spans[known, 0]
        if spans[known, 1] - first == end - start:
            same = True
            for i in range(end - start):
                if data[first + i] != data[start + i]:
                    same = False
                    break
            if same:
                return known
        slot = (slot + 1) & mask
    table[slot] = count
    spans[count, 0], spans[count, 1] = start, end
    return np.int32(count)


@njit(cache=True, nogil=True, error_model="numpy")
def _user(data, start, end):
    """Return where the user stands before the time: the name or, if there is none, the address."""
    stop = end
    for left in range(3):
        begin = stop
        while begin > start and data[begin - 1] != _SPACE:
            begin -= 1
        if begin == start or (left == 0 and not (stop - begin == 1 and data[begin] == _MINUS)) or left == 2:
            return begin, stop
        stop = begin - 1
    return start, end


@njit(cache=True, nogil=True, error_model="numpy")
def _request(data, start, end, whole):
    """Return where the method ends, and where the key starts and ends; a negative start if there is none."""
    space = start
    while space < end and data[space] != _SPACE:
        space += 1
    stop = end
    for i in range(end - 6, space - 1, -1):
        if data[i] == _SPACE:
            same = True
            for j in range(6):
                if data[i + j] != _HTTP[j]:
                    same = False
                    break
            if same:
                stop = i
            break
    first = space + 1
    if not whole:
        for i in range(first, stop):
            if data[i] == _QUESTION:
                stop = i
                break
    return space, (first if first < stop else -1), stop


@njit(cache=True, nogil=True, error_model="numpy")
def _is_allowed(data, start, end, methods):
    """Tell whether a method is among those that count: rows of bytes, ended by 0; no rows for any."""
    if methods.shape[0] == 0:
        return True
    for row in range(methods.shape[0]):
        same = True
        for i in range(methods.shape[1]):
            letter = data[start + i] if start + i < end else 0
            if letter != methods[row, i]:
                same = False
                break
            if letter == 0:
                break
        if same:
            return True
    return False


@njit(cache=True, nogil=True, error_model="numpy")
def _scanned(data, lines, methods, statuses, options):
    whole, by_user = options
    size = 1024
    while size < 2 * lines + 2:
        size *= 2
    times, places, keys = np.empty(lines, np.int64), np.empty(lines, np.int32), np.empty((lines, 2), np.int64)
    table = np.full(size, -1, np.int32)
    extra = lines if by_user else 0
    user_places, users = np.empty(extra, np.int32), np.empty((extra, 2), np.int64)
    user_table = np.full(size if by_user else 1, -1, np.int32)
    odd = np.empty((lines, 3), np.int64)
    accesses = distinct = people = oddities = passed = number = start = 0
    while start < data.size:
        end = start
        bracket = -1
        while end < data.size and data[end] != _NEWLINE:
            if bracket < 0 and data[end] == _OPEN and end > start and data[end - 1] == _SPACE:
                bracket = end
            end += 1
        following = end + 1
        number += 1
        if end > start and data[end - 1] == _RETURN:
            end -= 1
        if end == start:  # an empty line is none
            start = following
            continue
        good = bracket >= 0 and bracket + 35 <= end and data[bracket + 27] == _CLOSE
        good = good and data[bracket + 28] == _SPACE and data[bracket + 29] == _QUOTE
        time = _moment(data, bracket + 1) if good else _BAD
        quote = bracket + 30
        if time != _BAD:
            while quote < end and data[quote] != _QUOTE:
                quote += 2 if data[quote] == _BACKSLASH else 1
        good = time != _BAD and quote + 4 < end and data[quote + 1] == _SPACE
        status = _digits(data, quote + 2, 3) if good else -1
        if status < 0 or (quote + 5 < end and data[quote + 5] != _SPACE):
            odd[oddities, 0], odd[oddities, 1], odd[oddities, 2] = number, start, end
            oddities += 1
            start = following
            continue
        first = bracket + 30
        space, key, stop = _request(data, first, quote, whole)
        if key < 0 or not statuses[status] or not _is_allowed(data, first, space, methods):
            passed += 1
            start = following
            continue
        code = _code(data, (key, stop), table, keys, distinct)
        distinct = max(distinct, code + 1)
        times[accesses], places[accesses] = time, code
        if by_user:
            begin, until = _user(data, start, bracket - 1)
            code = _code(data, (begin, until), user_table, users, people)
            people = max(people, code + 1)
            user_places[accesses] = code
        accesses += 1
        start = following
    return (
        times[:accesses],
        places[:accesses],
        keys[:distinct],
        user_places[: accesses if by_user else 0],
        users[:people],
        odd[:oddities],
        number,
        passed,
    )


def scan(
    block: bytes,
    methods: NDArray[np.uint8],
    statuses: NDArray[np.bool_],
    *,
    queries: bool = True,
    users: bool = False,
) -> Scan:
    """Read a block of whole lines; ``statuses`` are those that count, by number, below 1000.

    >>> line = b'192.0.2.7 - ann [31/Jan/2026:12:00:00 +0100] "GET /page?id=7 HTTP/1.1" 200 5120'
    >>> found = scan(line, np.zeros((0, 1), np.uint8), np.ones(1000, bool), users=True)
    >>> [line[a:b] for a, b in (*found.keys, *found.users)], found.times.tolist()
    ([b'/page?id=7', b'ann'], [1769857200])
    """
    data = np.frombuffer(block, np.uint8)
    lines = block.count(b"\n") + 1
    return Scan(*_scanned(data, lines, methods, statuses, (queries, users)))
