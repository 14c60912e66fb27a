"""Negative controls: deliberately broken builds must be caught by the tests that are named for them.

Each control replaces one passage of ``src`` in a copy of the checkout and runs its tests there. The
control holds when at least one of them fails; the unbroken build passes the same tests in ``./check``.
A passage that is no longer in the source fails loudly: a control that changes nothing proves nothing.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
WITHIN_S = 300


class Control(NamedTuple):
    """One breakage: ``old`` becomes ``new`` in ``file``, and ``tests`` must notice."""

    name: str
    file: str
    old: str
    new: str
    tests: str


SERVICE = "tests/service/test_outcomes.py"
HOOKS = "tests/service/test_hooks.py"
ODD = "tests/service/test_odd_answers.py"
CONTROLS = [
    Control(
        "unknown treated as failed",
        "src/amends/core/attempt.py",
        "    return unknown(operation, terms, now=now, end=end)\n\n\ndef _refused_for_now",
        "    return [Event(Kind.DESTINATION_REJECTED, operation.id, {}, content)]\n\n\ndef _refused_for_now",
        SERVICE,
    ),
    Control(
        "early absent trusted, without fence or bound",
        "src/amends/core/reconcile.py",
        "    if terms.contract.mechanism is not Mechanism.IDEMPOTENCY_KEY:\n        return False",
        "    if terms.contract.mechanism is not Mechanism.IDEMPOTENCY_KEY:\n        return True",
        SERVICE,
    ),
    Control(
        "what made a repeat harmless not judged again at the claim",
        "src/amends/core/matrix.py",
        "    if step.do is Do.CLAIM and not repeat_harmless(operation, terms, now=now):",
        "    if False:",
        "tests/core/test_attempt.py",
    ),
    Control(
        "incomplete read taken for absent",
        "src/amends/core/reconcile.py",
        "    if not absent.complete:",
        "    if False:",
        SERVICE,
    ),
    Control(
        "key per attempt",
        "src/amends/service/driver.py",
        "            key=operation.key,",
        '            key=f"{operation.key}{number}",',
        SERVICE,
    ),
    Control(
        "first match taken",
        "src/amends/core/reconcile.py",
        "    if len(found.matches) > 1:",
        "    if False:",
        SERVICE,
    ),
    Control(
        "claim after the call",
        "src/amends/service/driver.py",
        "        answer = await self._recorder().claimed(self._handle.decide(decision))\n",
        "        import asyncio\n"
        "        claiming = asyncio.ensure_future(self._handle.decide(decision))\n"
        "        await asyncio.sleep(0)\n"
        "        call = self._call(0, ends_at)\n"
        "        await self._effect.function(call, **call.arguments)\n"
        "        answer = await self._recorder().claimed(claiming)\n",
        SERVICE,
    ),
    Control(
        "a lost claim calls all the same",
        "src/amends/service/attempts.py",
        "    return isinstance(answer, Applied) and any(",
        "    return any(",
        SERVICE,
    ),
    Control(
        "a refusal after an earlier send believed",
        "src/amends/service/attempts.py",
        "        case CallEnded() if really_sent(call.sends[:-1]) and",
        "        case CallEnded() if False and",
        SERVICE,
    ),
    Control(
        "answered before the append is durable",
        "src/amends/service/run.py",
        "                if handle.durable(name) and (step.do is Do.NOTHING or left_ms <= 0):",
        "                if step.do is Do.NOTHING or left_ms <= 0:",
        SERVICE,
    ),
    Control(
        "response stored after verification",
        "src/amends/service/attempts.py",
        "        await _responded(call, recorder, receipt)\n\n\nasync def _responded",
        "        if effect.verify_function is not None:\n"
        "            await effect.verify_function(call, receipt)\n"
        "        await _responded(call, recorder, receipt)\n\n\nasync def _responded",
        "tests/service/test_verification.py",
    ),
    Control(
        "attempt counted at its end",
        "src/amends/core/model.py",
        '        "attempts": event.facts["attempt"],\n',
        "",
        SERVICE,
    ),
    Control(
        "what was found not compared with what was intended",
        "src/amends/core/reconcile.py",
        "    wrong = mismatches(receipt, expected)",
        "    wrong: list[str] = []",
        "tests/core/test_reconcile.py",
    ),
    Control(
        "a truthy word taken for a complete read",
        "src/amends/core/evidence.py",
        '        told.flag("Absent.complete", self.complete)\n',
        "",
        ODD,
    ),
    Control(
        "a policy's odd answer allows",
        "src/amends/service/services.py",
        '            told.flag("Verdict.allowed", said.allowed)\n',
        "",
        ODD,
    ),
    Control(
        "after a rename the first revision alone looked for",
        "src/amends/service/run.py",
        "        for revision in range(REVISIONS_MAX + 1):",
        "        for revision in range(1):",
        HOOKS,
    ),
    Control(
        "the version that a decision rests on not compared",
        "src/amends/service/preparing.py",
        "    if wanted is not None and wanted != prepared.resource_version:",
        "    if False:",
        HOOKS,
    ),
    Control(
        "sensitive values recorded in clear",
        "src/amends/service/blotting.py",
        "        return _cut(pattern.sub(BLOT, value), max(len(value), ROOM))",
        "        return value",
        HOOKS,
    ),
]


def holds(control: Control) -> bool:
    """Whether the broken build fails its tests."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        for part in ("src", "tests"):
            shutil.copytree(ROOT / part, copy / part, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(ROOT / "pyproject.toml", copy)
        broken = copy / control.file
        text = broken.read_text()
        if text.count(control.old) != 1:
            sys.exit(f"control {control.name!r}: its passage stands {text.count(control.old)} times in {control.file}")
        broken.write_text(text.replace(control.old, control.new))
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-x",
            "-q",
            "-p",
            "no:cacheprovider",
            "--timeout",
            "60",
            control.tests,
        ]
        environment = {**os.environ, "PYTHONPATH": str(copy / "src")}
        ran = subprocess.run(
            command, cwd=copy, env=environment, capture_output=True, text=True, timeout=WITHIN_S, check=False
        )
        caught = ran.returncode == 1 and "failed" in ran.stdout
        print(f"{'caught' if caught else 'MISSED'}: {control.name}", flush=True)
        if not caught:
            print(ran.stdout[-2000:], ran.stderr[-2000:])
        return caught


if __name__ == "__main__":
    results = [holds(control) for control in CONTROLS]
    print(f"negative controls: {sum(results)} caught, {len(results) - sum(results)} missed")
    sys.exit(0 if all(results) else 1)
