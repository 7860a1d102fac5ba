"""examples/kubernetes, as far as no cluster is needed to see that it is whole; tests/kubernetes applies it."""

from __future__ import annotations

import re

import yaml
from suites import TESTS

from lancegpu_sql.placement.gpu_class_file import load_gpu_classes
from lancegpu_sql.placement.kubernetes.config import KubernetesConfig
from lancegpu_sql.placement.kubernetes.names import database_labels

ROOT = TESTS.parent
EXAMPLE = ROOT / "examples" / "kubernetes"
CONTAINERFILE = (EXAMPLE / "Containerfile").read_text()


def test_its_gpu_classes_are_read():
    names = {one.name for one in load_gpu_classes(EXAMPLE / "base" / "gpu_classes.yaml")}
    assert "default" in names


def test_what_the_image_copies_is_there():
    copied = re.findall(r"^COPY (?!--from)(.+) \S+$", CONTAINERFILE, re.MULTILINE)
    names = [name for line in copied for name in line.split()]
    assert names
    assert all((ROOT / name).exists() for name in names)


def test_the_agent_runs_as_the_user_of_the_image():
    user = int(re.findall(r"^USER (\d+)", CONTAINERFILE, re.MULTILINE)[-1])
    deployment = yaml.safe_load((EXAMPLE / "base" / "agent.yaml").read_text())
    assert deployment["spec"]["template"]["spec"]["securityContext"]["runAsUser"] == user


def test_every_file_beside_the_kustomization_is_part_of_it():
    kustomization = yaml.safe_load((EXAMPLE / "base" / "kustomization.yaml").read_text())
    named = {*kustomization["resources"], *kustomization["configMapGenerator"][0]["files"], "kustomization.yaml"}
    assert {path.name for path in (EXAMPLE / "base").iterdir()} == named


def test_the_policy_is_for_the_pods_and_the_port_of_workers():
    policy = yaml.safe_load((EXAMPLE / "base" / "network_policy.yaml").read_text())["spec"]
    assert policy["podSelector"]["matchLabels"].items() <= database_labels("any").items()
    assert policy["ingress"][0]["ports"][0]["port"] == KubernetesConfig("any").worker_port
