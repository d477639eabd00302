"""Stand-in for a task of flytekit's PyTorch plug-in (`pyflyte-execute ...`): launches inside its own process.

The number of processes comes from the task, the rendezvous from PET_RDZV_ENDPOINT; PET_NNODES only says that there are
several nodes. The launcher itself is torch's own `elastic_launch`.
"""

import os
import uuid

import report
from torch.distributed.launcher.api import LaunchConfig, elastic_launch

if __name__ == "__main__":
    endpoint = os.environ.get("PET_RDZV_ENDPOINT", "localhost:0")
    nodes = 2 if "PET_NNODES" in os.environ else 1
    config = LaunchConfig(
        min_nodes=nodes,
        max_nodes=nodes,
        nproc_per_node=report.gpus(),
        run_id=os.environ.get("FLYTE_EXECUTION", uuid.uuid4().hex),
        rdzv_endpoint=endpoint,
        rdzv_backend="c10d",
        max_restarts=0,
        start_method="fork",
    )
    elastic_launch(config, report.train)()
