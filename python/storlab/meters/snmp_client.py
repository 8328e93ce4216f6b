"""Read numeric values of SNMP objects with pysnmp, by SNMP v2c or v3."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from pysnmp.error import PySnmpError  # type: ignore[import-untyped]
from pysnmp.hlapi.v3arch import asyncio as hlapi  # type: ignore[import-untyped]
from pysnmp.proto import errind  # type: ignore[import-untyped]

from storlab.base.errors import MeterError
from storlab.base.secrets import hide

MOST_OBJECTS = 20  # objects per request; an answer must fit into one packet
AUTH: dict[str, Any] = {
    "md5": hlapi.USM_AUTH_HMAC96_MD5,
    "sha": hlapi.USM_AUTH_HMAC96_SHA,
    "sha224": hlapi.USM_AUTH_HMAC128_SHA224,
    "sha256": hlapi.USM_AUTH_HMAC192_SHA256,
    "sha384": hlapi.USM_AUTH_HMAC256_SHA384,
    "sha512": hlapi.USM_AUTH_HMAC384_SHA512,
}
PRIV: dict[str, Any] = {
    "des": hlapi.USM_PRIV_CBC56_DES,
    "aes128": hlapi.USM_PRIV_CFB128_AES,
    "aes192": hlapi.USM_PRIV_CFB192_AES,
    "aes256": hlapi.USM_PRIV_CFB256_AES,
}
WRAPS = {"Counter32": 2.0**32, "Counter64": 2.0**64}


@dataclass(frozen=True, slots=True)
class Agent:
    """Address and credentials of an SNMP agent: ``community`` for v2c or ``user`` for v3."""

    host: str
    port: int = 161
    community: str | None = field(default=None, repr=False)
    user: str | None = None
    auth: str = "sha"
    auth_password: str | None = field(default=None, repr=False)
    priv: str = "aes128"
    priv_password: str | None = field(default=None, repr=False)
    timeout_s: float = 2.0
    retries: int = 1

    @property
    def where(self) -> str:
        """Location of the agent for messages."""
        return f"SNMP agent {self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Answer:
    """Value of an SNMP object; ``wraps_at`` is the modulus if its type is a counter."""

    number: float
    text: str
    wraps_at: float | None


class Client:
    """Client of one SNMP agent, with its own event loop; errors are MeterErrors."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._engine = hlapi.SnmpEngine()
        self._loop = asyncio.new_event_loop()
        self._transport: Any = None
        try:
            self._identity = _identity(agent)
        except PySnmpError as error:  # such as a v3 password that is too short
            self.close()
            secrets = (agent.community, agent.auth_password, agent.priv_password)
            reason = hide(str(error), [value or "" for value in secrets])
            what = f"the credentials are not valid: {reason}"
            fix = "check the secrets that the study names; a v3 password may be too short"
            raise MeterError(agent.where, what, fix) from None

    def get(self, names: Sequence[str]) -> list[Answer]:
        """Return the values of objects, in the given order.

        Raises:
            MeterError: The agent does not answer, or an object is missing or not numeric.
        """
        answers: list[Answer] = []
        for start in range(0, len(names), MOST_OBJECTS):
            part = names[start : start + MOST_OBJECTS]
            answers += self._loop.run_until_complete(self._ask(part))
        return answers

    def close(self) -> None:
        """Close the socket to the agent and the event loop."""
        if not self._loop.is_closed():
            self._engine.close_dispatcher()
            # The transport is closed by the event loop, so let it run once.
            self._loop.run_until_complete(asyncio.sleep(0))
            self._loop.close()

    async def _ask(self, names: Sequence[str]) -> list[Answer]:
        agent = self._agent
        try:
            if self._transport is None:
                kind = hlapi.Udp6TransportTarget if ":" in agent.host else hlapi.UdpTransportTarget
                address = (agent.host, agent.port)
                self._transport = await kind.create(address, agent.timeout_s, agent.retries)
            indication, status, index, rows = await hlapi.get_cmd(
                self._engine,
                self._identity,
                self._transport,
                hlapi.ContextData(),
                *(hlapi.ObjectType(hlapi.ObjectIdentity(name)) for name in names),
                lookupMib=False,
            )
        except (PySnmpError, OSError) as error:
            raise MeterError(agent.where, f"cannot be reached: {error}", "check host") from error
        if indication:
            raise _refusal(agent, indication)
        if status:
            name = names[int(index) - 1] if index else names[0]
            what = f"the agent answers with the error {status.prettyPrint()}"
            raise MeterError(f"{agent.where} {name}", what, "check mib, oid, outlets and pdu")
        return [_answer(agent, name, row[1]) for name, row in zip(names, rows, strict=True)]


def _identity(agent: Agent) -> Any:
    if agent.user is None:
        return hlapi.CommunityData(agent.community, mpModel=1)  # noqa: S508 - the study's choice
    return hlapi.UsmUserData(
        agent.user,
        authKey=agent.auth_password,
        privKey=agent.priv_password,
        authProtocol=AUTH[agent.auth] if agent.auth_password else hlapi.USM_AUTH_NONE,
        privProtocol=PRIV[agent.priv] if agent.priv_password else hlapi.USM_PRIV_NONE,
    )


def _refusal(agent: Agent, indication: Any) -> MeterError:
    """Build the error for a failed request, with a fix.

    No answer may also mean a wrong community, which an agent ignores silently.
    """
    if isinstance(indication, errind.RequestTimedOut):
        wait_s = agent.timeout_s * (agent.retries + 1)
        cause = "community" if agent.user is None else "user or password"
        return MeterError(
            agent.where,
            f"no answer within {wait_s:g} s: there is no agent, or the {cause} is wrong",
            "check host, port, the secrets that the study names, and the agent's access list",
        )
    if isinstance(indication, (errind.UnknownUserName, errind.UnknownSecurityName)):
        return MeterError(agent.where, "the agent does not know this user", "check user")
    if isinstance(indication, (errind.WrongDigest, errind.AuthenticationFailure)):
        return MeterError(
            agent.where,
            "the authentication password or its algorithm is wrong",
            "check auth and the secret that auth_password_env names",
        )
    if isinstance(indication, (errind.DecryptionError, errind.CipheringError)):
        return MeterError(
            agent.where,
            "the privacy password or its algorithm is wrong",
            "check priv and the secret that priv_password_env names",
        )
    return MeterError(agent.where, f"the request failed: {indication}", "check host and user")


def _answer(agent: Agent, name: str, value: Any) -> Answer:
    kind = type(value).__name__
    if kind in ("NoSuchObject", "NoSuchInstance", "EndOfMibView"):
        raise MeterError(
            f"{agent.where} {name}",
            "the agent has no such object",
            "check mib, oid, outlets and pdu",
        )
    text = value.prettyPrint()
    try:
        number = float(text)
    except ValueError as error:
        what = f"is not a number: {text[:80]!r}"
        raise MeterError(f"{agent.where} {name}", what, "check mib and oid") from error
    return Answer(number, text, WRAPS.get(kind))
