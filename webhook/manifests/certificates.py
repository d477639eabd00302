"""Who makes the server's certificate: a Job and a CronJob of ours, or cert-manager."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

from webhook.manifests import access
from webhook.manifests.server import cert_flags, container_base, pod_base, where

if TYPE_CHECKING:
    from webhook.manifests.place import Object, Place

_CERT_MANAGER = "cert-manager.io/v1"
_DEADLINE = 600
_KEEP = 600  # seconds: an upgrade finds no Job of that name in its way, and its log can still be read


def self_signed(place: Place) -> list[Object]:
    """Rights, a Job that makes the first certificate at once, a CronJob that keeps it."""
    return [*access.for_jobs(place), _job(place), _cron_job(place)]


def _spec(place: Place, command: str) -> Object:
    container = {
        **container_base(place),
        "command": ["rankfix-certs"],
        "args": [command, *where(place), *cert_flags(place)],
        "resources": {"requests": {"cpu": "50m", "memory": "64Mi"}, "limits": {"memory": "128Mi"}},
    }
    pod = {
        **pod_base(place, f"{place.name}-certs"),
        "restartPolicy": "OnFailure",
        "containers": [container],
    }
    return {
        "activeDeadlineSeconds": _DEADLINE,
        "backoffLimit": 10,
        "ttlSecondsAfterFinished": _KEEP,
        "template": {"metadata": {"labels": place.selector("certs")}, "spec": pod},
    }


def _job(place: Place) -> Object:
    # A Job can't be changed, so one that does something else has another name. Argo CD makes its hooks anew each time.
    spec = _spec(place, "issue")
    digest = hashlib.sha256(json.dumps(spec, sort_keys=True).encode()).hexdigest()[:8]
    job = place.make("batch/v1", "Job", "certs", suffix=f"-certs-{digest}", spec=spec)
    job["metadata"]["annotations"] = {
        "argocd.argoproj.io/hook": "Sync",
        "argocd.argoproj.io/hook-delete-policy": "BeforeHookCreation",
    }
    return job


def _cron_job(place: Place) -> Object:
    return place.make(
        "batch/v1", "CronJob", "certs", suffix="-certs",
        spec={
            "schedule": place.values.certs.schedule,
            "concurrencyPolicy": "Forbid",
            "startingDeadlineSeconds": 3600,
            "successfulJobsHistoryLimit": 1,
            "failedJobsHistoryLimit": 2,
            "jobTemplate": {"spec": _spec(place, "rotate")},
        },
    )  # fmt: skip


def cert_manager(place: Place) -> list[Object]:
    """A Certificate for the server, from the issuer that was named, else from a CA of our own."""
    issuer = place.values.certs.issuer_ref
    own = [] if issuer else _own_issuer(place)
    service = [place.name, f"{place.name}.{place.namespace}", f"{place.name}.{place.namespace}.svc"]
    names = [*service, f"{service[2]}.cluster.local", *place.values.certs.extra_dns_names]
    leaf = place.make(
        _CERT_MANAGER, "Certificate", "certs",
        spec={
            "secretName": place.secret,
            "duration": "2160h0m0s", "renewBefore": "720h0m0s",
            "dnsNames": names,
            "usages": ["digital signature", "server auth"],
            "privateKey": {"algorithm": "ECDSA", "size": 256, "rotationPolicy": "Always"},
            "issuerRef": dict(issuer) or {"group": "cert-manager.io", "kind": "Issuer", "name": f"{place.name}-ca"},
        },
    )  # fmt: skip
    return [*own, leaf]


def _own_issuer(place: Place) -> list[Object]:
    root = f"{place.name}-root"
    authority = {
        "isCA": True,
        "commonName": f"{place.wide} CA",
        "secretName": f"{place.name}-cm-ca",
        "duration": "43800h0m0s", "renewBefore": "14600h0m0s",
        "privateKey": {"algorithm": "ECDSA", "size": 256, "rotationPolicy": "Never"},
        "issuerRef": {"group": "cert-manager.io", "kind": "Issuer", "name": root},
    }  # fmt: skip
    return [
        place.make(_CERT_MANAGER, "Issuer", "certs", suffix="-root", spec={"selfSigned": {}}),
        place.make(_CERT_MANAGER, "Certificate", "certs", suffix="-ca", spec=authority),
        place.make(_CERT_MANAGER, "Issuer", "certs", suffix="-ca", spec={"ca": {"secretName": f"{place.name}-cm-ca"}}),
    ]
