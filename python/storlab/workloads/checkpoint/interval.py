"""Models of the optimal checkpoint interval, and of the training time that checkpoints cost.

All times are in seconds. ``cost`` is the time for which a checkpoint stops the training. ``mtbf``
is the mean time between failures of the whole job. An interval is the time between the end of one
checkpoint and the start of the next.

Sources: J. W. Young, "A first order approximation to the optimum checkpoint interval",
Communications of the ACM 17 (9), 1974, pp. 530-531, doi:10.1145/361147.361115. J. T. Daly, "A
higher order estimate of the optimum checkpoint interval for restart dumps", Future Generation
Computer Systems 22 (3), 2006, pp. 303-312, doi:10.1016/j.future.2004.11.016.
"""

from __future__ import annotations

import math


def of_whole(seconds: float, scale: float) -> float:
    """Convert the time of a scaled-down checkpoint to that of a full-size one, at an equal rate.

    The part of the time that does not depend on the size is scaled up as well, so the result is an
    upper estimate.
    """
    return seconds / scale


def share_lost(cost: float, interval: float) -> float:
    """Return the fraction of time (0 to 1) that checkpoints take if the training never fails."""
    return cost / (interval + cost)


def young_interval(cost: float, mtbf: float) -> float:
    """Return Young's optimal interval, sqrt(2 C M), for checkpoints much shorter than the MTBF."""
    return math.sqrt(2 * cost * mtbf)


def daly_interval(cost: float, mtbf: float) -> float:
    """Return Daly's optimal interval (higher order), which is the MTBF itself if C >= 2 M."""
    if cost >= 2 * mtbf:
        return mtbf
    x = cost / (2 * mtbf)
    return math.sqrt(2 * cost * mtbf) * (1 + math.sqrt(x) / 3 + x / 9) - cost


def share_lost_with_failures(cost: float, interval: float, mtbf: float, restart: float) -> float:
    """Return the fraction of time (0 to 1) lost to checkpoints, restarts and repeated work.

    This is Daly's complete model, in which failures occur at random with a constant rate, even
    during checkpoints and restarts. ``restart`` is the time from a failure until work continues.
    """
    rate = (interval + cost) / mtbf + restart / mtbf
    if rate > 700:  # exp() overflows above 709; the job would never finish
        return 1.0
    wall = mtbf * math.exp(restart / mtbf) * math.expm1((interval + cost) / mtbf) / interval
    return 1 - 1 / wall
