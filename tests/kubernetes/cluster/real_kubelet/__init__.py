"""A real node in namespaces of its own: kubelet, containerd, runc, a CNI bridge, and a device plugin with simulated GPUs.

What runs here is the first process of a PID namespace and lives in its own mount and network namespaces: when it ends, the
kernel ends all containers and takes all mounts, bridges and addresses along, however the end came. The other side, which
holds the node, is `cluster.real_node`.
"""
