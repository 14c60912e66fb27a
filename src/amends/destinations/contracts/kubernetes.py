"""Kubernetes: names are unique and versions are compared; a read without ``resourceVersion`` is the most recent.

``generateName`` gives each repeat a name of its own: it is never safe to repeat.
"""

from typing import Final

from amends.core.contract import Contract, Lookup, Mechanism
from amends.destinations.contracts._citing import cited

_CONCEPTS = ("Kubernetes API concepts", "https://kubernetes.io/docs/reference/using-api/api-concepts/")
_REASONS = (
    "apimachinery, StatusReason",
    "https://pkg.go.dev/k8s.io/apimachinery/pkg/apis/meta/v1#StatusReason",
)
_APPLY = ("Kubernetes, Server-side apply", "https://kubernetes.io/docs/reference/using-api/server-side-apply/")
_GENERATE = ("Kubernetes enhancement 4420", "https://www.kubernetes.dev/resources/keps/4420/")
_NAMESPACED = "/apis/{group}/{version}/namespaces/{namespace}/{plural}"

CREATE: Final = Contract(
    name="kubernetes.create",
    endpoint=f"POST {_NAMESPACED}",
    mechanism=Mechanism.CONDITIONAL_CREATE,
    lookup=Lookup.STRONG,
    already_exists=((409, "AlreadyExists"),),
    error_code_at=("reason",),
    source=cited(_CONCEPTS, _REASONS),
    note="With a fixed metadata.name. Look up by name without resourceVersion. A deleted object no longer fences.",
)
CREATE_CORE: Final = CREATE.with_(
    name="kubernetes.core.create", endpoint="POST /api/v1/namespaces/{namespace}/{plural}"
)
REPLACE: Final = Contract(
    name="kubernetes.replace",
    endpoint=f"PUT {_NAMESPACED}/{{name}}",
    mechanism=Mechanism.COMPARE_AND_SET,
    lookup=Lookup.STRONG,
    precondition_failed=((409, "Conflict"),),
    error_code_at=("reason",),
    source=cited(_CONCEPTS, _REASONS),
    note="With metadata.resourceVersion as it was read; without it nothing is compared.",
)
REPLACE_CORE: Final = REPLACE.with_(
    name="kubernetes.core.replace", endpoint="PUT /api/v1/namespaces/{namespace}/{plural}/{name}"
)
APPLY: Final = Contract(
    name="kubernetes.apply",
    endpoint=f"PATCH {_NAMESPACED}/{{name}}",
    lookup=Lookup.STRONG,
    precondition_failed=((409, "Conflict"),),
    error_code_at=("reason",),
    source=cited(_APPLY, _CONCEPTS, _REASONS),
    note="Server-side apply compares owners of fields, not versions: a late original can undo a newer apply of "
    "the same field manager, so it is no fence.",
)
CREATE_GENERATED: Final = Contract(
    name="kubernetes.create.generate_name",
    endpoint=f"POST {_NAMESPACED}",
    lookup=Lookup.STRONG,
    error_code_at=("reason",),
    source=cited(_CONCEPTS, _GENERATE),
    note="With metadata.generateName. Each repeat makes another object; look up by a label with the key.",
)

ALL: Final = (CREATE, CREATE_CORE, REPLACE, REPLACE_CORE, APPLY, CREATE_GENERATED)
