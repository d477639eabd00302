"""The server in the cluster: Deployment, Service and what keeps them up and to themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from webhook.manifests.place import ENTRY, OWNER_RUN_AS

if TYPE_CHECKING:
    from webhook.manifests.place import Object, Place

COMPONENT = "webhook"
# Seconds at the end: out of the Service; hand open connections over; finish what runs; and some to spare
PRE_STOP, DRAIN, GRACE, MARGIN = 5, 5, 15, 10
_DNS: Object = {"ports": [{"port": 53, "protocol": "UDP"}, {"port": 53, "protocol": "TCP"}]}
FIRST_CERTIFICATE = 300  # seconds: kubelet brings a Secret that came late within two minutes
_APART = ("kubernetes.io/hostname", "topology.kubernetes.io/zone")
_TLS, _CALLERS = "/etc/rankfix/tls", "/etc/rankfix/callers"
_PRIORITY = 1_000_000_000  # the most that isn't the system's own: training pods wait for us, never we for them


def namespace(place: Place) -> Object:
    """The namespace, which lets no pod in that asks for more than ours need."""
    level = "privileged" if place.values.host_network else "restricted"
    labels = {f"pod-security.kubernetes.io/{mode}": level for mode in ("enforce", "audit", "warn")}
    made = place.make("v1", "Namespace", COMPONENT, wide=True)
    made["metadata"] = {"name": place.namespace, "labels": {**made["metadata"]["labels"], **labels}}
    return made


def account(place: Place) -> Object:
    """The server's ServiceAccount; its pods ask for the token themselves."""
    return place.make("v1", "ServiceAccount", COMPONENT, automountServiceAccountToken=False)


def priority_class(place: Place) -> Object:
    """Our own PriorityClass: the system's are refused outside kube-system where a quota says so (GKE)."""
    return place.make(
        "scheduling.k8s.io/v1", "PriorityClass", COMPONENT, wide=True, value=_PRIORITY, globalDefault=False,
        preemptionPolicy="PreemptLowerPriority", description="The rankfix webhook, which jobs wait for.",
    )  # fmt: skip


def service(place: Place) -> Object:
    """The Service, in both address families where the cluster has both."""
    spec: Object = {
        "selector": place.selector(COMPONENT),
        "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": "https"}],
        "ipFamilyPolicy": place.values.service.ip_family_policy,
    }
    if place.values.service.ip_families:
        spec["ipFamilies"] = list(place.values.service.ip_families)
    return place.make("v1", "Service", COMPONENT, spec=spec)


def disruption_budget(place: Place) -> Object:
    """Node drains take one replica at a time."""
    return place.make(
        "policy/v1", "PodDisruptionBudget", COMPONENT,
        spec={"maxUnavailable": 1, "selector": {"matchLabels": place.selector(COMPONENT)},
              "unhealthyPodEvictionPolicy": "AlwaysAllow"},
    )  # fmt: skip


def network_policy(place: Place) -> Object:
    """In: anybody, to our ports. Out: to the API server, which no selector can name: an address of no pod."""
    return place.make(
        "networking.k8s.io/v1", "NetworkPolicy", COMPONENT,
        spec={
            "podSelector": {"matchLabels": place.selector(COMPONENT)},
            "policyTypes": ["Ingress", "Egress"],
            "ingress": [{"ports": [{"port": port, "protocol": "TCP"} for port in _ports(place).values()]}],
            "egress": [{"ports": [{"port": port, "protocol": "TCP"} for port in _dialled(place)]}, _DNS],
        },
    )  # fmt: skip


def _ports(place: Place) -> dict[str, int]:
    """The container's ports by name."""
    values = place.values
    return {"https": values.port} | ({"metrics": values.metrics_port} if values.metrics_port else {})


def _dialled(place: Place) -> list[int]:
    # A server that keeps the certificate asks the other replicas what they serve
    others = [place.values.port] if place.values.certs.mode == "serve" else []
    return list(dict.fromkeys([*place.values.api_server_ports, *others]))


def deployment(place: Place) -> Object:
    """The Deployment: never fewer replicas than asked for while it rolls, except where host ports leave no room."""
    values = place.values
    labels = {**values.pod_labels, **place.selector(COMPONENT), "app.kubernetes.io/version": place.version}
    metadata: Object = {"labels": labels}
    if values.pod_annotations:
        metadata["annotations"] = dict(values.pod_annotations)
    rolling = {"maxSurge": 0, "maxUnavailable": 1} if values.host_network else {"maxSurge": 1, "maxUnavailable": 0}
    return place.make(
        "apps/v1", "Deployment", COMPONENT,
        spec={
            "replicas": values.replicas,
            "minReadySeconds": 5,
            "revisionHistoryLimit": 3,
            "selector": {"matchLabels": place.selector(COMPONENT)},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": rolling},
            "template": {"metadata": metadata, "spec": _pod(place)},
        },
    )  # fmt: skip


def _pod(place: Place) -> Object:
    values = place.values
    pod: Object = {
        **pod_base(place, place.name),
        "priorityClassName": values.priority_class_name or place.wide,
        "terminationGracePeriodSeconds": PRE_STOP + DRAIN + GRACE + MARGIN,
        "topologySpreadConstraints": [_spread(place, key) for key in _APART],
        "containers": [_container(place)],
        "volumes": [_tls(place)],
    }  # fmt: skip
    if values.callers.config_map:
        pod["volumes"].append({"name": "callers", "configMap": {"name": values.callers.config_map}})
    if values.host_network:
        pod |= {"hostNetwork": True, "dnsPolicy": "ClusterFirstWithHostNet"}
    if values.affinity:
        pod["affinity"] = values.affinity
    return pod


def _tls(place: Place) -> Object:
    # By name: the Secret may hold the authority's key too, and a server has no business with that
    items = [{"key": name, "path": name} for name in ("tls.crt", "tls.key")]
    secret: Object = {"secretName": place.secret, "defaultMode": 0o440, "items": items}
    if place.values.certs.mode == "serve":
        secret["optional"] = True
    return {"name": "tls", "secret": secret}


def pod_base(place: Place, service_account: str) -> Object:
    """What server and certificate pods have in common: placement, user and the restricted pod security profile."""
    values = place.values
    pod: Object = {
        "serviceAccountName": service_account,
        "automountServiceAccountToken": True,
        "enableServiceLinks": False,
        "securityContext": {
            "runAsNonRoot": True, "runAsUser": OWNER_RUN_AS, "runAsGroup": OWNER_RUN_AS, "fsGroup": OWNER_RUN_AS,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
    }  # fmt: skip
    if values.image.pull_secrets:
        pod["imagePullSecrets"] = [{"name": name} for name in values.image.pull_secrets]
    if values.node_selector:
        pod["nodeSelector"] = dict(values.node_selector)
    if values.tolerations:
        pod["tolerations"] = values.tolerations
    return pod


def container_base(place: Place) -> Object:
    """What their containers have in common."""
    return {
        "name": "rankfix",
        "image": place.image,
        "imagePullPolicy": place.values.image.pull_policy,
        "securityContext": {
            "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]},
        },
    }  # fmt: skip


def _container(place: Place) -> Object:
    values = place.values
    container = {
        **container_base(place),
        "args": _args(place),
        "ports": [{"name": name, "containerPort": port, "protocol": "TCP"} for name, port in _ports(place).items()],
        "startupProbe": {
            **_probe("/healthz"),
            "failureThreshold": FIRST_CERTIFICATE,
            "periodSeconds": 1,
        },
        "readinessProbe": {**_probe("/readyz"), "failureThreshold": 2, "periodSeconds": 2},
        "livenessProbe": {**_probe("/healthz"), "failureThreshold": 3, "periodSeconds": 10},
        "lifecycle": {"preStop": {"sleep": {"seconds": PRE_STOP}}},
        "resources": {"requests": dict(values.resources.requests), "limits": dict(values.resources.limits)},
        "volumeMounts": [{"name": "tls", "mountPath": _TLS, "readOnly": True}],
    }
    if values.callers.config_map:
        container["volumeMounts"].append({"name": "callers", "mountPath": _CALLERS, "readOnly": True})
    if values.settings:
        container["env"] = [
            {"name": _variable(key), "value": _text(values.settings[key])} for key in sorted(values.settings)
        ]
    return container


def _args(place: Place) -> list[str]:
    args = ["serve", f"--port={place.values.port}", f"--cert-dir={_TLS}", f"--drain={DRAIN}", f"--grace={GRACE}"]
    # Whoever makes certificates may write the authority first: the Secret is there, and its certificate isn't yet.
    args += [f"--cert-wait={FIRST_CERTIFICATE}", *where(place)]
    if place.values.metrics_port:
        args.append(f"--metrics-port={place.values.metrics_port}")
    if place.values.callers.config_map:
        args += [f"--client-ca={_CALLERS}/ca.crt", f"--client-name={','.join(place.values.callers.names)}"]
    if place.values.certs.mode == "serve":
        args += ["--manage-certs", *cert_flags(place)]
    return args


def where(place: Place) -> list[str]:
    """Where Service and webhook configuration are, for server and certificate jobs."""
    return [
        f"--namespace={place.namespace}",
        f"--service={place.name}",
        f"--webhook-config={place.wide}",
        f"--webhook={ENTRY}",
    ]


def cert_flags(place: Place) -> list[str]:
    """What those who make certificates are told beside that."""
    return [f"--secret={place.secret}", *(f"--dns-name={name}" for name in place.values.certs.extra_dns_names)]


def _probe(path: str) -> Object:
    return {"httpGet": {"path": path, "port": "https", "scheme": "HTTPS"}, "timeoutSeconds": 2}


def _variable(setting: str) -> str:
    return "RANKFIX_" + setting.replace("-", "_").upper()


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _spread(place: Place, key: str) -> Object:
    return {
        "maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": place.selector(COMPONENT)}, "matchLabelKeys": ["pod-template-hash"],
    }  # fmt: skip
