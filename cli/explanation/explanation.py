"""Explanation of a pod of a world, asked of an offline engine."""

from __future__ import annotations

from cli.command import CommandError
from cli.world import World
from engine.cache.cluster_copy import NamedPod
from engine.errors import BadObjectError, EngineError
from engine.explanation.analysis import Analyst, PodQuestion
from engine.explanation.document import PodExplanation
from engine.explanation.explanation import Asker, explain, undecided
from engine.explanation.value_text import Values
from engine.offline import offline_engine

NOBODY = Asker()


def explained(
    world: World,
    pod: NamedPod,
    *,
    node: str | None = None,
    every_node: bool = False,
    asker: Asker = NOBODY,
) -> PodExplanation:
    """The explanation of a pod on every node, as if it had none.

    Raises UserError for a malformed pod. Of a pod that waits for a policy which is not in force the
    explanation has only the `problem`.
    """
    extender = offline_engine(world.policies.registry, world.cluster, world.codec)
    analyst = Analyst(extender, world.policies, world.schema)
    question = PodQuestion(pod, node, every_node=every_node, offers=True)
    with world.cluster.asking(pod):
        try:
            found = analyst.at_once(question)
        except BadObjectError as error:
            raise CommandError(str(error), "fix the pod") from None
        except EngineError as error:
            return undecided(pod, world.cluster.now, world.policies, str(error), asker)
        return explain(found, Values(world.schema), asker)


def decided(found: PodExplanation) -> PodExplanation:
    """The explanation. Raises CommandError if nothing is decided about the pod."""
    if not found.is_decided:
        raise CommandError(found.problem or "nothing is decided", "correct the policy")
    return found
