"""What the manifests say, field by field where a field is a promise; public bugs carry their numbers."""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING, Any

import pytest

from tests.support_deploy import Objects, chart, hooks, needs_helm, one, profile, rendered, without_digest
from webhook.manifests.render import PROFILES
from webhook.settings import Settings

if TYPE_CHECKING:
    from pathlib import Path

WITH_SERVER = [name for name in PROFILES if name != "policy"]


def entry(objects: Objects) -> dict[str, Any]:
    """The webhook in its configuration."""
    (found,) = one(objects, "MutatingWebhookConfiguration")["webhooks"]
    return dict(found)


def pod(objects: Objects) -> dict[str, Any]:
    """The spec of the server's pods."""
    return dict(one(objects, "Deployment")["spec"]["template"]["spec"])


def pods(objects: Objects) -> list[dict[str, Any]]:
    """The specs of all pods there will be."""
    specs = {"Deployment": lambda o: o, "Job": lambda o: o, "CronJob": lambda o: o["jobTemplate"]["spec"]}
    return [specs[kind](item["spec"])["template"]["spec"] for (kind, _), item in objects.items() if kind in specs]


def test_the_configuration_asks_for_as_little_as_it_can() -> None:
    """Created pods only, soon answered, nothing else touched."""
    made = entry(profile("self-signed"))
    apart = {"name", "clientConfig", "matchConditions", "namespaceSelector"}
    assert {key: made[key] for key in made if key not in apart} == {
        "admissionReviewVersions": ["v1"],
        "failurePolicy": "Fail",
        "matchPolicy": "Equivalent",
        "reinvocationPolicy": "IfNeeded",
        "rules": [
            {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"],
             "scope": "Namespaced"}
        ],
        "sideEffects": "None",
        "timeoutSeconds": 3,
    }  # fmt: skip


def test_bug_9_no_manifest_has_a_ca_bundle() -> None:
    """Bug 9: what isn't in the manifests, no apply takes away."""
    for name in WITH_SERVER:
        assert "caBundle" not in entry(profile(name))["clientConfig"]


def test_bug_11_two_installations_share_no_name() -> None:
    """Bug 11: cluster-wide names carry release and namespace, so neither two releases nor two namespaces clash."""
    wide: list[set[tuple[str, str]]] = []
    for names in ({"name": "a"}, {"name": "b"}, {"name": "a", "namespace": "elsewhere"}):
        objects = rendered({"failurePolicy": "Ignore"}, **names)
        wide.append(
            {key for key, item in objects.items() if "namespace" not in item["metadata"] and key[0] != "Namespace"}
        )
    assert not wide[0] & wide[1]
    assert not wide[0] & wide[2]
    assert len(wide[0]) == 8


def test_bug_11_a_right_is_for_one_configuration() -> None:
    """Bug 11: an installation can't write another one's."""
    rules = [rule for (kind, _), item in rendered(name="a").items() if kind == "ClusterRole" for rule in item["rules"]]
    assert [rule["resourceNames"] for rule in rules] == [["a.rankfix-system"]] * len(rules)
    assert rules


@pytest.mark.parametrize("name", WITH_SERVER)
def test_bug_12_ready_means_trusted(name: str) -> None:
    """Bug 12: the kubelet asks /readyz, and the server knows by whose caBundle it has to be trusted."""
    container = pod(profile(name))["containers"][0]
    assert container["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": "https", "scheme": "HTTPS"}
    assert "--webhook-config=rankfix.rankfix-system" in container["args"]
    assert container["livenessProbe"]["httpGet"]["path"] == "/healthz"


@pytest.mark.parametrize("name", WITH_SERVER)
def test_bug_13_nothing_of_ours_waits_for_us(name: str) -> None:
    """Bug 13: our namespace and the cluster's own are left out, whatever the labels of pods there."""
    names, label = entry(profile(name))["namespaceSelector"]["matchExpressions"]
    assert (names["key"], names["operator"]) == ("kubernetes.io/metadata.name", "NotIn")
    assert names["values"] == ["kube-system", "kube-node-lease", "rankfix-system"]
    assert label == {"key": "rankfix/inject", "operator": "NotIn", "values": ["disabled"]}


def test_bug_14_everything_can_be_found() -> None:
    """Bug 14: each object says whose it is, so that what is left can be deleted by label."""
    for name in PROFILES:
        for item in profile(name).values():
            labels = item["metadata"]["labels"]
            assert (labels["app.kubernetes.io/name"], labels["app.kubernetes.io/instance"]) == ("rankfix", "rankfix")


def test_bug_15_failing_open_is_guarded() -> None:
    """Bug 15: with Ignore comes the guard, which speaks to the creator of a pod and to the audit log."""
    objects = profile("fail-open")
    assert entry(objects)["failurePolicy"] == "Ignore"
    assert one(objects, "ValidatingAdmissionPolicyBinding")["spec"]["validationActions"] == ["Warn", "Audit"]
    assert one(objects, "ValidatingAdmissionPolicy")["spec"]["matchConditions"] == entry(objects)["matchConditions"]
    assert not [key for key in profile("self-signed") if "Policy" in key[0] and key[0] != "NetworkPolicy"]


def test_bug_42_private_gke() -> None:
    """Bug 42: port 10250, which the control plane may reach, wherever a port is named; the Service stays at 443."""
    objects = rendered({"port": 10250})
    container = pod(objects)["containers"][0]
    assert container["ports"] == [{"name": "https", "containerPort": 10250, "protocol": "TCP"}]
    assert "--port=10250" in container["args"]
    assert one(objects, "NetworkPolicy")["spec"]["ingress"][0]["ports"] == [{"port": 10250, "protocol": "TCP"}]
    port = one(objects, "Service")["spec"]["ports"][0]
    assert (port["port"], port["targetPort"]) == (443, "https")


def test_bug_43_eks_with_an_overlay_network() -> None:
    """Bug 43: on the host's network, with the cluster's DNS, on a free port, and with room to roll."""
    objects = rendered({"hostNetwork": True, "port": 10260})
    made = pod(objects)
    assert (made["hostNetwork"], made["dnsPolicy"]) == (True, "ClusterFirstWithHostNet")
    assert made["containers"][0]["ports"][0]["containerPort"] == 10260
    assert one(objects, "Deployment")["spec"]["strategy"]["rollingUpdate"] == {"maxSurge": 0, "maxUnavailable": 1}
    labels = one(objects, "Namespace")["metadata"]["labels"]
    assert labels["pod-security.kubernetes.io/enforce"] == "privileged"


def test_bug_44_aks() -> None:
    """Bug 44: the enforcer is told to leave the selectors alone; and an own set of excluded namespaces can be given."""
    annotations = {"admissions.enforcer/disabled": "true"}
    objects = rendered({"webhookAnnotations": annotations, "excludedNamespaces": ["gatekeeper-system"]})
    made = one(objects, "MutatingWebhookConfiguration")
    assert made["metadata"]["annotations"] == annotations
    assert "gatekeeper-system" in made["webhooks"][0]["namespaceSelector"]["matchExpressions"][0]["values"]


def test_bug_45_both_address_families() -> None:
    """Bug 45: the Service takes both where there are both, and the server listens on every address of both."""
    spec = one(profile("self-signed"), "Service")["spec"]
    assert (spec["ipFamilyPolicy"], "ipFamilies" in spec) == ("PreferDualStack", False)
    container = pod(profile("self-signed"))["containers"][0]
    assert not [word for word in container["args"] if word.startswith("--host")]
    assert Settings.model_fields["host"].default == "*"
    only = one(rendered({"service": {"ipFamilyPolicy": "SingleStack", "ipFamilies": ["IPv6"]}}), "Service")["spec"]
    assert (only["ipFamilyPolicy"], only["ipFamilies"]) == ("SingleStack", ["IPv6"])
    assert not any(_is_address(word) for word in container["args"])


def _is_address(word: str) -> bool:
    try:
        ipaddress.ip_address(word.rpartition("=")[2])
    except ValueError:
        return False
    return True


@pytest.mark.parametrize("seconds", [1, 3, 30])
@pytest.mark.parametrize("policy", ["Fail", "Ignore"])
def test_bug_46_timeout_and_failure_policy_are_values(seconds: int, policy: str) -> None:
    """Bug 46: from one extreme to the other; test_renderings.py has what is refused."""
    made = entry(rendered({"timeoutSeconds": seconds, "failurePolicy": policy}))
    assert (made["timeoutSeconds"], made["failurePolicy"]) == (seconds, policy)


@pytest.mark.parametrize("name", WITH_SERVER)
def test_all_pods_are_restricted(name: str) -> None:
    """Non-root by number, read-only root, no capability, no privilege to gain, a seccomp profile: all of ours."""
    for spec in pods(profile(name)):
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert spec["securityContext"]["runAsUser"] > 0
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        for container in spec["containers"]:
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]},
            }  # fmt: skip
            assert container["resources"]["limits"]["memory"]
            assert container["resources"]["requests"]["cpu"]
    labels = one(profile(name), "Namespace")["metadata"]["labels"]
    assert labels["pod-security.kubernetes.io/enforce"] == "restricted"


def test_a_roll_drops_nobody() -> None:
    """Bug 39: never fewer than asked for, and the time to end is longer than all that has to happen in it."""
    deployment = one(profile("self-signed"), "Deployment")["spec"]
    made = pod(profile("self-signed"))
    container = made["containers"][0]
    times = [int(word.rpartition("=")[2]) for word in container["args"] if word.startswith(("--drain=", "--grace="))]
    assert deployment["strategy"]["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": 0}
    assert len(times) == 2
    assert container["lifecycle"]["preStop"]["sleep"]["seconds"] + sum(times) < made["terminationGracePeriodSeconds"]
    assert one(profile("self-signed"), "PodDisruptionBudget")["spec"]["maxUnavailable"] == 1


def test_the_authoritys_key_stays_out_of_the_server() -> None:
    """The Secret may hold it; the server's pods get the leaf's two files and no more."""
    for name in WITH_SERVER:
        (volume,) = pod(profile(name))["volumes"]
        assert [item["key"] for item in volume["secret"]["items"]] == ["tls.crt", "tls.key"]


def test_a_jobs_name_changes_with_what_it_does() -> None:
    """A Job can't be changed: an upgrade makes another one instead of failing."""
    names = {
        next(name for kind, name in rendered(values) if kind == "Job")
        for values in ({}, {"image": {"tag": "9"}}, {"certs": {"extraDnsNames": ["a.b"]}}, {"replicas": 5})
    }
    assert len(names) == 3


@needs_helm
@pytest.mark.parametrize(
    ("mode", "after"),
    [
        ("self-signed", {("Secret", "rankfix-tls")}),
        ("serve", {("Secret", "rankfix-tls"), ("Lease", "rankfix-certs")}),
        ("cert-manager", set()),
        ("files", set()),
    ],
)
def test_bug_14_helm_takes_the_configuration_first(mode: str, after: set[tuple[str, str]], tmp_path: Path) -> None:
    """Bug 14: before all else at an uninstall; afterwards what our own jobs made, never somebody else's Secret."""
    found = hooks(tmp_path, {"certs": {"mode": mode}})
    when = {key: item["metadata"]["annotations"]["helm.sh/hook"] for key, item in found.items()}
    first = ("MutatingWebhookConfiguration", "rankfix.rankfix-system")
    assert when == {first: "pre-delete", **dict.fromkeys(after, "post-delete")}
    assert found[first]["webhooks"] == []


@needs_helm
def test_helm_has_no_hook_that_could_hang(tmp_path: Path) -> None:
    """`helm install --wait` waits for pods that wait for the certificate: its Job must not come after the wait."""
    assert ("Job", "rankfix-certs") in without_digest(chart(tmp_path, {}))
    assert not {"Job", "Pod"} & {kind for kind, _ in hooks(tmp_path, {})}
