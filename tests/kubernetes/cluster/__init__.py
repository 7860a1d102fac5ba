"""A Kubernetes cluster on this machine for tests: its programs built from source, a control plane, and nodes.

Three kinds of nodes can join: process nodes, whose pods are processes of this machine; kwok nodes, which are only objects;
and, in a folder of their own, real ones. Standard library only, and nothing of the package that is tested with it.
"""
