"""Kinds of figure that are drawn once per campaign, for any workload family."""

from __future__ import annotations

from storlab.contracts.figure import Drawn, FigureKind

ROUNDS = FigureKind(
    "rounds",
    "campaign",
    "Tracked metric by round",
    "Shaded: the measurement window. Dashed: half of the allowed excursion around its mean. Black: "
    "best fit.",
    place="storlab.figures.rounds:draw",
)
COST_STACK = FigureKind(
    "cost_stack",
    "campaign",
    "Cost",
    "Servers, network and storage of each configuration, as the study declares them.",
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
    "Plain: measured here. Hatched: as published, not repeated here. Logarithmic scale.",
    place="storlab.figures.published_mixes:draw",
)
COST_CAPACITY = FigureKind(
    "cost_capacity",
    "campaign",
    "Cost against capacity",
    "Cost of each configuration against its capacity, as the study declares them.",
    place="storlab.figures.cost_capacity:draw",
)
WORTH = FigureKind(
    "worth",
    "campaign",
    "Work for the money",
    "Measured work over the declared price, and declared cost over work.",
    place="storlab.figures.work_per_cost:draw_money",
)
DENSITY = FigureKind(
    "density",
    "campaign",
    "Work per terabyte",
    "Measured work at the last point of each sweep over the declared capacity.",
    place="storlab.figures.work_per_cost:draw_density",
)
CLIENT_RATES = FigureKind(
    "client_rates",
    "campaign",
    "Operations of all clients",
    "All clients together. {mean}; each dot is a run.",
    place="storlab.figures.throughput_vs_jobs:draw_clients",
)
CLIENT_THROUGHPUT = FigureKind(
    "client_throughput",
    "campaign",
    "Throughput by clients",
    "All clients together, at the last point of other sweeps.",
    place="storlab.figures.throughput_vs_jobs:draw",
)
CLIENT_LATENCY = FigureKind(
    "client_latency",
    "campaign",
    "Latency by clients",
    "{mean}; tick: 99th percentile.",
    place="storlab.figures.latency_points:draw",
    main=False,
)
CLIENT_BALANCE = FigureKind(
    "client_balance",
    "campaign",
    "Balance of the clients",
    "Throughput of each client over the mean of all; line: lowest to highest repeat.",
    parts=(Drawn("storlab.figures.clients:draw"),),
)
EVERY = (
    ROUNDS,
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
