"""A kubelet whose pods are processes of this machine: no images, no root, no limits; everything else as a kubelet has it.

It stands for a Node under a certificate of its own, keeps the Node's lease, runs the pods bound to it and reports what becomes
of them. A pod's address is one of 127.77.0.0/16. Volumes of a pod are folders, and the environment that names their mount
paths is rewritten. Liveness probes, side cars, exec and attach are not there.
"""
