"""Speaks to the API server: finds it, proves who we are, asks within limits, hands out raw bytes.

Belongs here: kubeconfig, service account, tokens, connections, and what is written to the cluster.
Must not: what is known of the cluster (`engine.cache`), decisions. The only importer of
kubernetes_asyncio, whose models and watch are not used.
"""
