"""Table of the capabilities of a server: the only list of them."""

from __future__ import annotations

from server.capabilities.audit import AUDIT
from server.capabilities.cards import CARDS
from server.capabilities.data import DATA
from server.capabilities.drift import DRIFT
from server.capabilities.gangs import GANGS
from server.capabilities.missed_pods import MISSED_PODS
from server.capabilities.policy_first import POLICY_FIRST
from server.capabilities.portable import PORTABLE
from server.capabilities.scales import SCALES

CAPABILITIES = (POLICY_FIRST, MISSED_PODS, GANGS, CARDS, DATA, DRIFT, AUDIT, PORTABLE, SCALES)
CAPABILITY_ROUTES = [route for each in CAPABILITIES for route in each.routes]
CAPABILITY_METRICS = {row: text for each in CAPABILITIES for row, text in each.metrics.items()}
