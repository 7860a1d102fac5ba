"""A Kubernetes cluster on this machine for tests: its programs built from source, a control plane, and nodes.

Three kinds of nodes can join: process nodes, whose pods are processes of this machine; kwok nodes, which are only objects;
and real ones, whose pods are containers. Standard library only, but for a device plugin's gRPC, and nothing of the package
that is tested with it.
"""
