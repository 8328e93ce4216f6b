"""Kinds of figure that are drawn once per campaign, for any workload family."""

from __future__ import annotations

from storlab.contracts.figure import Drawn, FigureKind

COST_STACK = FigureKind(
    "cost_stack",
    "campaign",
    "Cost",
    "Servers, network and storage of each configuration, as the study declares them; hatched, "
    "because nothing of it is measured.",
    place="storlab.figures.cost_stack:draw",
)
PUBLISHED_BARS = FigureKind(
    "published_bars",
    "campaign",
    "Throughput at the published points",
    "Solid: measured here. Hatched: as published, not repeated here.",
    place="storlab.figures.published_bars:draw",
)
PUBLISHED_MIXES = FigureKind(
    "published_mixes",
    "campaign",
    "By mix, as published",
    "Plain: measured here, with its 95 % interval. Hatched: as published, not repeated here. "
    "Logarithmic scale.",
    place="storlab.figures.published_mixes:draw",
)
COST_CAPACITY = FigureKind(
    "cost_capacity",
    "campaign",
    "Cost against capacity",
    "Total declared cost of each configuration against its capacity; hatched, because nothing "
    "of it is measured.",
    place="storlab.figures.cost_capacity:draw",
)
WORTH = FigureKind(
    "worth",
    "campaign",
    "Work for the money",
    "Work divided by the declared price of the storage, and declared cost divided by work. The "
    "95 % intervals are those of the measured work.",
    place="storlab.figures.work_per_cost:draw_money",
)
DENSITY = FigureKind(
    "density",
    "campaign",
    "Work per terabyte",
    "Work divided by the declared capacity, with the 95 % interval of the measured work.",
    place="storlab.figures.work_per_cost:draw_density",
)
CLIENT_RATES = FigureKind(
    "client_rates",
    "campaign",
    "Operations of all clients",
    "Small blocks, all clients together. Mean of the repeats with its 95 % interval; every dot is "
    "one run.",
    place="storlab.figures.throughput_vs_jobs:draw_clients",
)
CLIENT_THROUGHPUT = FigureKind(
    "client_throughput",
    "campaign",
    "Throughput by clients",
    "Total of all clients against their number, at the last point of the other swept parameters.",
    place="storlab.figures.throughput_vs_jobs:draw",
)
CLIENT_LATENCY = FigureKind(
    "client_latency",
    "campaign",
    "Latency by clients",
    "Marker: mean, with its 95 % interval. Tick: 99th percentile. Logarithmic scale.",
    place="storlab.figures.latency_points:draw",
    main=False,
)
CLIENT_BALANCE = FigureKind(
    "client_balance",
    "campaign",
    "Balance of the clients",
    "Throughput of each client divided by the mean of all clients: mean of the repeats, and a line "
    "from the lowest to the highest repeat.",
    parts=(Drawn("storlab.figures.clients:draw"),),
)
EVERY = (
    DENSITY,
    WORTH,
    COST_STACK,
    COST_CAPACITY,
    PUBLISHED_BARS,
    PUBLISHED_MIXES,
    CLIENT_RATES,
    CLIENT_THROUGHPUT,
    CLIENT_LATENCY,
    CLIENT_BALANCE,
)
