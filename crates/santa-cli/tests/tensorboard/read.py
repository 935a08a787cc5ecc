"""What TensorBoard reads in a folder of event files, as JSON: {tag: [[step, wall time, value], ...]}.

    python read.py FOLDER

Runs under any Python that has the package `tensorboard`.
"""

import json
import sys

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

accumulator = EventAccumulator(sys.argv[1])
accumulator.Reload()
scalars = {
    tag: [[event.step, event.wall_time, event.value] for event in accumulator.Scalars(tag)]
    for tag in accumulator.Tags()["scalars"]
}
print(json.dumps(scalars))
