"""Preparation: what is read and checked before an attempt is claimed (R10).

Facts that need I/O — the resource's version, the state before — are read first and carry their age into
the claim. Everything else is judged in the claim's own decision, on the newest state.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from amends.core import told
from amends.core.canonical import encode
from amends.core.failures import CallEnded, clip
from amends.core.matrix import Do
from amends.core.model import Operation, RunState
from amends.core.money import Money
from amends.core.terms import Recovery, Terms
from amends.service.blotting import Blotter
from amends.service.call import Call
from amends.service.registry import Effect
from amends.service.revisions import happened_before
from amends.service.services import Services
from amends.service.threads import begin

OK: Final = "ok"


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """What was read before a claim, and when."""

    resource_version: str | None = None
    pre_state: Mapping[str, Any] | None = None
    read_at: int | None = None
    failed: str = ""


NOTHING_READ: Final = Prepared()


async def read(effect: Effect, operation: Operation, call: Call, blotter: Blotter, *, now: int) -> Prepared:
    """Ask the hooks that are registered. The state before is captured once per operation, never on a retry."""
    version: str | None = None
    pre_state: Mapping[str, Any] | None = None
    try:
        async with asyncio.timeout(call.remaining_s):
            if effect.version_function is not None:
                version = told.text("the version that was read", await begin(effect.version_function, call))
                if not version:
                    return Prepared(read_at=now, failed="the version read returned no version")
            if effect.capture_function is not None and not operation.attempts:
                pre_state = {"state": blotter.clean(encode(await begin(effect.capture_function, call)))}
    except TimeoutError:
        return Prepared(read_at=now, failed="a hook did not answer within its time budget")
    except told.ToldError as error:
        return Prepared(read_at=now, failed=str(error))
    except CallEnded as end:
        return Prepared(read_at=now, failed=blotter.clean(end.reason))
    except Exception as error:  # noqa: BLE001 — the boundary to user code
        return Prepared(read_at=now, failed=clip(f"it raised {type(error).__name__}"))
    return Prepared(resource_version=version, pre_state=pre_state, read_at=now)


def checks(
    services: Services,
    state: RunState,
    operation: Operation,
    terms: Terms,
    prepared: Prepared,
    *,
    now: int,
    amount: Money | None,
    if_version: str | None,
) -> dict[str, str]:
    """Each check of R10 with its result: ``ok``, ``ok: what``, or ``no: why``."""
    return {
        "intent_current": _intent(services, state, operation, now),
        "authority_valid": _authority(services, state, operation, amount),
        "state_fresh": _freshness(operation, terms, prepared, if_version),
        "schema_unchanged": _schema(operation, terms),
        "competence_sufficient": _competence(state, terms),
        "verifier_available": "ok: read" if terms.has_verify else "ok: receipt",
        "resources_available": f"ok: lock {operation.lock}" if operation.lock else OK,
        "key_assigned": OK,
        "operation_id_assigned": OK,
        "compensation_known": _compensation(terms),
        "commitments_understood": "ok: none declared",
    }


def policy_facts(state: RunState, *, verb: Do | str, action: str, target: str | None, terms: Terms) -> dict[str, Any]:
    """What policy is asked about."""
    return {
        "verb": str(verb),
        "tenant": state.tenant,
        "principal": state.principal,
        "run": state.id,
        "run_type": state.type,
        "intent": state.intent,
        "operations": len(state.operations),
        "action": action,
        "target": target,
        "recovery": terms.recovery.value,
    }


def _intent(services: Services, state: RunState, operation: Operation, now: int) -> str:
    if state.deadline_at is not None and now >= state.deadline_at:
        return "no: the run's deadline has passed"
    if operation.previous and (before := happened_before(services, state, operation)):
        return f"no: what it revises happened after all ({before})"
    return OK


def _authority(services: Services, state: RunState, operation: Operation, amount: Money | None) -> str:
    terms = services.sealed_as(operation.action).terms
    facts = policy_facts(state, verb="commit", action=operation.action, target=operation.target, terms=terms)
    verdict = services.judged({**facts, "amount": amount})
    if not verdict.allowed:
        return f"no: policy {verdict.policy} {verdict.policy_version} denies it"
    return f"ok: policy {verdict.policy} {verdict.policy_version}"


def _freshness(operation: Operation, terms: Terms, prepared: Prepared, if_version: str | None) -> str:
    if prepared.failed:
        return f"no: {prepared.failed}"
    if not terms.has_version:
        return "no: a version was demanded and no version read is registered" if if_version else "ok: no version read"
    wanted = if_version or operation.resource_version
    if wanted is not None and wanted != prepared.resource_version:
        return "no: the resource has another version than the decision rests on"
    return OK


def _schema(operation: Operation, terms: Terms) -> str:
    """An operation that was sent before is held to its version by the matrix; a first send runs the newest."""
    return OK if operation.effect_version == terms.version else "ok: proposed under another version, nothing was sent"


def _competence(state: RunState, terms: Terms) -> str:
    if terms.principals is not None and state.principal not in terms.principals:
        return "no: this principal is not admitted to this kind of action"
    return OK


def _compensation(terms: Terms) -> str:
    if terms.recovery.treated_as is Recovery.IRREVERSIBLE:
        return "ok: irreversible, escalates"
    return "ok: registered" if terms.has_compensation else "ok: none registered, escalates"
