"""What we know of programs, as data: interpreters, set-up, launchers and their flags. No rule is in here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Flags and names that say where a node stands and how many there are; dashes, underscores and case don't matter.
NODE_RANK = _names("node_rank machine_rank")
NODE_COUNT = _names("nnodes nnode num_machines num_nodes node_count")
# As names of variables also torchrun's own environment.
NODE_RANK_NAMES = NODE_RANK | {"pet_node_rank"}
NODE_COUNT_NAMES = NODE_COUNT | {"pet_nnodes"}
# As names in the env of a template: what the operator itself writes isn't among them.
TEMPLATE_NAMES = frozenset(spelled for name in NODE_RANK | NODE_COUNT for spelled in (name, name.upper()))


@dataclass(frozen=True, slots=True)
class Launcher:
    """A program that starts the processes of one node. `switches` are its flags that take no value (normalised
    names).
    """

    name: str
    switches: frozenset[str]


_TORCH = _names("standalone m module no_python run_path use_env help h")
_ACCELERATE = _names(
    "cpu multi_gpu tpu ipex use_xpu use_deepspeed use_fsdp use_parallelism_config use_megatron_lm use_mps_device "
    "debug quiet q m module no_python same_network enable_cpu_affinity downcast_bf16 tpu_use_cluster no_tpu_cluster "
    "tpu_use_sudo fp8_override_linear_precision dynamo_use_fullgraph dynamo_use_dynamic "
    "dynamo_use_regional_compilation h help"
)

TORCHRUN = Launcher("torchrun", _TORCH)
DISTRIBUTED_RUN = Launcher("torch.distributed.run", _TORCH)
DISTRIBUTED_LAUNCH = Launcher("torch.distributed.launch", _TORCH)
ACCELERATE = Launcher("accelerate launch", _ACCELERATE)
TUNE = Launcher("tune run", _TORCH)

LAUNCHERS: Mapping[str, Launcher] = {"torchrun": TORCHRUN, "accelerate-launch": ACCELERATE}
LAUNCHER_COMMANDS: Mapping[tuple[str, str], Launcher] = {("accelerate", "launch"): ACCELERATE, ("tune", "run"): TUNE}
LAUNCHER_MODULES: Mapping[str, Launcher] = {
    "torch.distributed.run": DISTRIBUTED_RUN,
    "torch.distributed.launch": DISTRIBUTED_LAUNCH,
    "accelerate.commands.launch": ACCELERATE,
}
OWN_LAUNCHERS = _names("composer")
OWN_LAUNCHER_MODULES = _names("composer composer.cli composer.cli.launcher")
DEEPSPEED = _names("deepspeed deepspeed.launcher.runner ds")

# Interpreters by the start of their name: python, python3, python3.11, pypy3, ipython.
INTERPRETERS = ("python", "pypy", "ipython")
# Their options that say what to run (c, m) or take a value.
INTERPRETER_TELLING = "cmWX"
SETUP_MODULES = _names(
    "pip pip3 venv virtualenv ensurepip compileall py_compile wheel build site sysconfig pipx conda uv poetry "
    "nltk.downloader spacy wandb huggingface_hub.commands.huggingface_cli torch.utils.collect_env "
    "torch.utils.bottleneck json.tool zipfile tarfile gdown"
)
SETUP_SCRIPTS = _names("setup.py ez_setup.py get-pip.py pip pip3")

# Programs that read what they are given only to show it or to name files and folders.
NEUTRAL = _names("mkdir logger tee touch rmdir sleep date tput clear reset stty sync true false wait usleep")
# Programs that prepare, look or tidy up; none of them trains.
SETUP = NEUTRAL | _names(
    "pip pip2 pip3 pipx conda mamba micromamba uv poetry pipenv pixi pdm easy_install virtualenv apt apt-get "
    "apt-key dpkg yum dnf rpm apk microdnf add-apt-repository update-alternatives ldconfig git git-lfs svn hg gh "
    "wget curl aria2c axel scp sftp rsync rclone aws gsutil gcloud az azcopy s5cmd s3cmd mc ossutil ossutil64 oss2 "
    "hdfs hadoop dvc kaggle gdown huggingface-cli hf modelscope wandb mlflow kubectl helm oc ls cp mv rm ln cat tac "
    "touch stat file find chmod chown chgrp dd df du mount umount mountpoint tar unzip zip gzip gunzip zcat bzip2 "
    "bunzip2 xz unxz zstd pigz unpigz 7z install mktemp readlink realpath basename dirname pwd truncate split cksum "
    "md5sum sha1sum sha256sum sha512sum base64 od xxd hexdump sed awk gawk mawk grep egrep fgrep rg cut sort uniq "
    "head tail tr wc paste join comm diff patch rev nl fold column xmllint jq yq envsubst m4 strings iconv dos2unix "
    "expr seq shuf yes env printenv export set id whoami who groups hostname hostnamectl uname arch nproc lscpu "
    "lsblk lspci lsmod free uptime vmstat ps pgrep pkill kill killall top htop lsof fuser ulimit sysctl modprobe "
    "dmesg nvidia-smi nvidia-debugdump nvcc nvtop rocm-smi rocminfo hl-smi npu-smi neuron-ls neuron-top ibstat "
    "ibv_devinfo ibv_devices ibdev2netdev show_gids ip ifconfig route netstat ss ping ping6 nc ncat netcat nslookup "
    "dig host getent telnet arp traceroute openssl ssh-keygen ssh-keyscan ssh-add ssh-agent service systemctl sshd "
    "useradd usermod groupadd passwd chpasswd adduser addgroup locale-gen test [ which whereis command type man "
    "info help history alias inotifywait cmake ninja gcc g++ cc c++ clang cargo rustup go npm node-gyp java javac "
    "ds_report accelerate-config accelerate-estimate echo printf unset source ."
)
# Set-up whose output is what it was given: with its output in a file, the value is in the file.
PRINTING = _names(
    "cat tac sed awk gawk mawk grep egrep fgrep cut sort uniq head tail tr paste join rev nl fold column jq yq "
    "envsubst m4 iconv expr seq tee env printenv echo printf base64 column"
)
# Set-up that brings or moves files: named by the pair, it brings each pod its own.
FETCHING = _names(
    "wget curl aria2c axel scp sftp rsync rclone aws gsutil gcloud az azcopy s5cmd s3cmd mc ossutil ossutil64 hdfs "
    "hadoop dvc kaggle gdown huggingface-cli hf modelscope git git-lfs cp mv ln tar unzip"
)
# Sub-commands of programs that else start something.
SETUP_COMMANDS: Mapping[str, frozenset[str]] = {
    "accelerate": _names("config env test estimate-memory merge-weights tpu-config to-fsdp2"),
    "tune": _names("download ls cp validate cat"),
    "ray": _names("stop status --version"),
    "torchrun": _names("--help -h --version"),
}
# Never ends by itself: what follows isn't reached.
ENDLESS: Mapping[str, frozenset[str]] = {"sleep": _names("infinity inf")}
