"""GitHub, REST API. No endpoint takes an idempotency key, and how long a read may lag is not published.

What there is are names and heads: a ref exists once, and a merge takes the head it was decided on.
"""

from typing import Final

from amends.core.contract import Contract, Lookup, Mechanism
from amends.destinations.contracts._citing import cited

_OPENAPI = "https://docs.rs/crate/openapi-github/latest/source/docs/"
_MERGE = ("GitHub OpenAPI description, pulls/merge", f"{_OPENAPI}PullsMergeRequest.md")
_CREATE_REF = ("GitHub OpenAPI description, git/create-ref", f"{_OPENAPI}GitCreateRefRequest.md")
_REF_EXISTS = (
    "a recorded answer of git/create-ref, quoted in an issue",
    "https://github.com/renovatebot/renovate/issues/20281",
)
_HEAD_MOVED = (
    "a recorded answer of pulls/merge, quoted in an issue",
    "https://github.com/dlang/dlang-bot/issues/77",
)
_SECOND_PULL = (
    "a report of 422 for a second pull request of one head and base (2014)",
    "https://qiita.com/kyanny/items/9d1f738b500b500aca1b",
)

CREATE_REF: Final = Contract(
    name="github.git.refs.create",
    endpoint="POST /repos/{owner}/{repo}/git/refs",
    mechanism=Mechanism.CONDITIONAL_CREATE,
    lookup=Lookup.EVENTUAL,
    already_exists=((422, "Reference already exists"),),
    error_code_at=("message",),
    source=cited(_CREATE_REF, _REF_EXISTS),
    note="The answer has no code but its message. The fence holds while the ref exists: "
    "a late original can create a deleted branch again.",
)

MERGE_PULL: Final = Contract(
    name="github.pulls.merge",
    endpoint="PUT /repos/{owner}/{repo}/pulls/{number}/merge",
    mechanism=Mechanism.COMPARE_AND_SET,
    lookup=Lookup.EVENTUAL,
    precondition_failed=((409, ""),),
    source=cited(_MERGE, _HEAD_MOVED),
    note="Only with sha, the head that was decided on; without it nothing is compared.",
)

CREATE_PULL: Final = Contract(
    name="github.pulls.create",
    endpoint="POST /repos/{owner}/{repo}/pulls",
    lookup=Lookup.EVENTUAL,
    source=cited(_SECOND_PULL),
    note="One open pull request for a head and a base, but a second one once the first is closed: no fence. "
    "Look up by the list, state=all, filtered by head, and never through search.",
)

ALL: Final = (CREATE_REF, MERGE_PULL, CREATE_PULL)
