"""The values that each way of rendering is tried with."""

from __future__ import annotations

from typing import Any

from webhook.manifests.render import PROFILES

DIGEST = "sha256:" + "0a" * 32
TERM = {"matchExpressions": [{"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]}]}
CASES: dict[str, dict[str, Any]] = {
    **{f"profile {name}": values for name, values in PROFILES.items()},
    "image": {"image": {"repository": "r.example/rankfix", "tag": "1.10", "pullPolicy": "Always"}},
    "digest": {"image": {"digest": DIGEST, "pullSecrets": ["regcred", "other"]}},
    "private GKE": {"port": 10250},
    "metrics": {"metricsPort": 9090, "settings": {"workers": 2, "max-connections": 500}},
    "callers": {"callers": {"configMap": "admission-ca", "names": ["kube-apiserver", "spiffe://x/api: server"]}},
    "any caller of a CA": {"callers": {"configMap": "admission-ca"}, "certs": {"mode": "serve"}, "metricsPort": 9090},
    "EKS overlay": {"hostNetwork": True, "port": 10260, "replicas": 3},
    "AKS": {"webhookAnnotations": {"admissions.enforcer/disabled": "true"}},
    "AKS and cert-manager": {"webhookAnnotations": {"a/b": "c"}, "certs": {"mode": "cert-manager"}},
    "own issuer": {"certs": {"mode": "cert-manager", "issuerRef": {"name": "corp", "kind": "ClusterIssuer"}}},
    "own CA": {"certs": {"mode": "files", "caBundle": "QUJD", "secretName": "mine"}},
    "API server elsewhere": {"apiServerPorts": [7443]},
    "IPv6": {"service": {"ipFamilyPolicy": "RequireDualStack", "ipFamilies": ["IPv6", "IPv4"]}},
    "shortest timeout": {"timeoutSeconds": 1},
    "longest timeout": {"timeoutSeconds": 30},
    "guard denies": {"failurePolicy": "Ignore", "guard": "deny"},
    "no guard": {"failurePolicy": "Ignore", "guard": "off"},
    "policy fails open": {"serverless": True, "failurePolicy": "Ignore"},
    "namespaces": {"excludedNamespaces": ["gatekeeper-system", "istio-system"]},
    "settings": {"settings": {"default-mode": "audit", "keep-alive": 100, "max-body": "8MiB"}},
    "placement": {
        "nodeSelector": {"kubernetes.io/os": "linux"},
        "tolerations": [{"key": "dedicated", "operator": "Exists", "effect": "NoSchedule"}],
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [TERM]}}},
        "podAnnotations": {"a": "b"},
        "podLabels": {"team": "ml", "app.kubernetes.io/name": "can't be changed"},
        "priorityClassName": "system-cluster-critical",
        "networkPolicy": False,
        "resources": {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "2", "memory": "1Gi"}},
    },
    "jobs": {"certs": {"schedule": "7 * * * *", "extraDnsNames": ["rankfix.example.org"], "secretName": "other"}},
    "a server that asks the others": {"certs": {"mode": "serve"}, "port": 10250},
    "jobs of a server": {"certs": {"mode": "serve", "extraDnsNames": ["rankfix.example.org"]}},
}
