"""Pods that no policy decides about: of namespaces that must always schedule, and by annotation."""

from __future__ import annotations

from dataclasses import dataclass

from engine.asked import AskedPod

# Nothing in it may wait for policies: without it nobody could repair them.
SYSTEM_NAMESPACES = frozenset({"kube-system"})


@dataclass(frozen=True, slots=True)
class Exemptions:
    """The namespaces, and whether a pod may say by its annotation that it is exempt."""

    namespaces: frozenset[str] = frozenset()
    by_annotation: bool = False

    def of(self, asked: AskedPod) -> str:
        """Why the pod is exempt, empty if it is not."""
        if asked.namespace in self.namespaces:
            return f"namespace `{asked.namespace}` is exempt from policies"
        return "the pod bypasses policies" if self.bypasses(asked) else ""

    def bypasses(self, asked: AskedPod) -> bool:
        """Whether it is so by its annotation alone, which people should hear of."""
        return self.by_annotation and bool(asked.bypass) and asked.namespace not in self.namespaces


NOBODY = Exemptions()
