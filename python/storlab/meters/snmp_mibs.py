"""Names (OIDs) of the SNMP objects for the outlets of power distribution units.

Sources: PowerNet-MIB (APC, Schneider Electric), rPDU2OutletMeteredStatusTable; PDU2-MIB (Raritan,
Legrand), outletSensorMeasurementsTable and outletSensorConfigurationTable, sensor activePower(5).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Unit = Literal["W", "kW", "J", "Wh", "kWh"]
FACTORS: dict[Unit, float] = {"W": 1, "kW": 1e3, "J": 1, "Wh": 3.6e3, "kWh": 3.6e6}
"""Factors that convert units of power to W, and of energy to J."""


@dataclass(frozen=True, slots=True)
class Mib:
    """OIDs of an outlet's SNMP objects, with placeholders ``{outlet}`` and ``{pdu}``."""

    title: str
    power: str  # reading in W times 10 ** digits
    digits: str | None = None  # number of decimal places
    available: str | None = None  # 1: the reading is valid; other values: invalid
    stamp: str | None = None  # time of the reading

    def at(self, template: str, pdu: int, outlet: int) -> str:
        """Return the OID of one outlet's object, by filling in the placeholders of a template."""
        return template.format(pdu=pdu, outlet=outlet)


_PDU2 = "1.3.6.1.4.1.13742.6"
MIBS: dict[str, Mib] = {
    "apc-rpdu2": Mib(
        title="PowerNet-MIB rPDU2OutletMeteredStatusPower",
        power="1.3.6.1.4.1.318.1.1.26.9.4.3.1.7.{outlet}",
    ),
    "raritan-pdu2": Mib(
        title="PDU2-MIB measurementsOutletSensorValue activePower",
        power=f"{_PDU2}.5.4.3.1.4.{{pdu}}.{{outlet}}.5",
        digits=f"{_PDU2}.3.5.4.1.7.{{pdu}}.{{outlet}}.5",
        available=f"{_PDU2}.5.4.3.1.2.{{pdu}}.{{outlet}}.5",
        stamp=f"{_PDU2}.5.4.3.1.5.{{pdu}}.{{outlet}}.5",
    ),
}
