"""rpsim sweep on a SLURM cluster by dask-jobqueue: the arguments are those of `rpsim sweep`.

Dask asks SLURM for eight jobs of sixteen worker processes each; a run starts as soon as there is a worker.
"""

import subprocess
import sys

from dask_jobqueue import SLURMCluster

with SLURMCluster(cores=16, processes=16, memory="32 GB", walltime="04:00:00") as cluster:
    cluster.scale(jobs=8)
    sweep = ["rpsim", "sweep", *sys.argv[1:], "--dask", cluster.scheduler_address]
    sys.exit(subprocess.run(sweep, check=False).returncode)
