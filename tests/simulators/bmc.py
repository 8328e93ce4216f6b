"""BMC simulator that speaks RMCP+ to the real ipmitool: DCMI power, SDR sensors, faults.

A separate program: ``python bmc.py PORT STATE``. STATE is a JSON file read before every answer:
watts, state (1 measuring), stamp (s), delay_s, dcmi (false: no such command), sensors (watts by
name), password. It is based on pyghmi's server side of the protocol.
"""

from __future__ import annotations

import json
import struct
import sys
import time
from pathlib import Path
from typing import Any

from pyghmi.ipmi import bmc
from pyghmi.ipmi.private import constants, serversession

USER = "metering"
DCMI_GROUP, POWER_READING = 0x2C, 0x02
STORAGE, SDR_INFO, SDR_RESERVE, SDR_GET = 0x0A, 0x20, 0x22, 0x23
SENSOR_EVENT, SENSOR_READING = 0x04, 0x2D
INVALID_COMMAND, NOT_PRESENT, UNAUTHORIZED_NAME = 0xC1, 0xCB, 0x0D
WATTS, POWER_SUPPLY, OTHER_UNITS, TOLERANCE = 6, 0x0A, 0x0B, 4  # TOLERANCE in halves of a step


def sensor_record(number: int, name: str) -> bytes:
    """Return a full sensor record (IPMI 2.0, 43.1): unsigned watts, 2 W a step, +/- 4 W."""
    key = bytes([0x20, 0, number])
    kind = bytes([POWER_SUPPLY, number, 0x7F, 0x68, OTHER_UNITS, 0x01])
    masks = bytes(6)
    units = bytes([0x00, WATTS, 0, 0])
    factors = bytes([2, TOLERANCE, 0, 0, 0, 0])  # M = 2, tolerance, B, accuracy, exponents
    ranges = bytes([0, 0, 0, 0, 255, 0]) + bytes(6) + bytes([1, 1, 0, 0, 0])
    text = name.encode("ascii")
    body = key + kind + masks + units + factors + ranges + bytes([0xC0 | len(text)]) + text
    return struct.pack("<HBBB", number, 0x51, 0x01, len(body)) + body


class Session(serversession.ServerSession):
    """Login session that rejects unknown users as BMCs do; pyghmi would not answer."""

    def _got_rakp1(self, data: Any) -> None:
        if bytes(data[28:]).decode() != USER:
            answer = bytearray([data[0], UNAUTHORIZED_NAME, 0, 0]) + self.clientsessionid
            self.send_payload(answer, constants.payload_types["rakp2"], retry=False)
            return
        super()._got_rakp1(data)


class Simulator(bmc.Bmc):
    """Server side of the requests that ipmitool sends to a BMC."""

    def __init__(self, port: int, state: Path) -> None:
        self._state = state
        super().__init__({USER: self.state()["password"]}, port=port, address="127.0.0.1")
        self.additionaldevices = 0x02  # has an SDR repository

    def state(self) -> dict[str, Any]:
        """Return the current state file."""
        loaded: dict[str, Any] = json.loads(self._state.read_text())
        return loaded

    def handle_raw_request(self, request: dict[str, Any], session: Any) -> None:
        """Answer one request within a session."""
        state, data = self.state(), bytes(request["data"])
        command = (request["netfn"], request["command"])
        time.sleep(state["delay_s"])
        if command == (DCMI_GROUP, POWER_READING) and state["dcmi"]:
            watts = state["watts"]
            answer = struct.pack("<BHHHHIIB", 0xDC, watts, 1, 500, watts, state["stamp"], 1000, 0)
            session.send_ipmi_response(data=[*answer[:-1], 0x40 * state["state"]])
        elif command == (SENSOR_EVENT, SENSOR_READING):
            self._sensor_reading(data[0], list(state["sensors"].values()), session)
        elif request["netfn"] == STORAGE:
            records = [sensor_record(i, n) for i, n in enumerate(state["sensors"])]
            self._sdr(request["command"], data, records, session)
        elif request["netfn"] == DCMI_GROUP:
            session.send_ipmi_response(code=INVALID_COMMAND)
        else:
            super().handle_raw_request(request, session)

    def _sensor_reading(self, number: int, watts: list[float | None], session: Any) -> None:
        if number >= len(watts):
            return session.send_ipmi_response(code=NOT_PRESENT)
        value = watts[number]
        if value is None:  # reading unavailable
            return session.send_ipmi_response(data=[0, 0x60, 0, 0])
        return session.send_ipmi_response(data=[round(value / 2), 0xC0, 0, 0])

    def _sdr(self, command: int, data: bytes, records: list[bytes], session: Any) -> None:
        if command == SDR_INFO:
            info = struct.pack("<BHHIIB", 0x51, len(records), 1024, 1, 1, 0x02)
            session.send_ipmi_response(data=list(info))
        elif command == SDR_RESERVE:
            session.send_ipmi_response(data=[1, 0])
        elif command == SDR_GET:
            number, offset, count = struct.unpack_from("<HBB", data, 2)
            if number >= len(records):
                return session.send_ipmi_response(code=NOT_PRESENT)
            following = number + 1 if number + 1 < len(records) else 0xFFFF
            part = records[number][offset : None if count == 0xFF else offset + count]
            session.send_ipmi_response(data=[*struct.pack("<H", following), *part])
        else:
            session.send_ipmi_response(code=INVALID_COMMAND)
        return None


if __name__ == "__main__":
    serversession.ServerSession = Session
    simulator = Simulator(int(sys.argv[1]), Path(sys.argv[2]))
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    simulator.listen()
