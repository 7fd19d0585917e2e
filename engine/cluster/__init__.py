"""Cluster: where the API server is, our identity, requests within limits, and all that we write.

Belongs here: kubeconfig, service account, tokens, connections, bindings, the Lease, the Secret of a
serving certificate, the caBundle of webhooks, statuses,
events and requeuing. Must not: the state of the cluster (`engine.cache`), decisions. The only
importer of kubernetes_asyncio, whose models and watch are not used.
"""
