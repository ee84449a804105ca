"""pyarrow on Parquet. Modes: default (as written by default), plain (neither compressed nor with dictionaries)."""
import common

args = common.arguments("default", "plain")
import numpy as np
import pyarrow
import pyarrow.compute as pc
import pyarrow.dataset
import pyarrow.parquet

TIMES, LABEL = (450_000, 550_000), 3
pyarrow.set_cpu_count(args.threads)
pyarrow.set_io_thread_count(args.threads)


def parquet():
    """The same rows as a Parquet file; made once."""
    path = args.data / f"rows-{args.mode}.parquet"
    if not path.exists():
        values, labels = np.load(args.data / "values.npy"), np.load(args.data / "labels.npy")
        columns = {"time": np.arange(len(labels)), "label": labels.astype(np.int32)}
        columns |= {f"c{i}": values[:, i] for i in range(values.shape[1])}
        settings = {} if args.mode == "default" else dict(compression="none", use_dictionary=False)
        beside = path.with_suffix(".part")
        pyarrow.parquet.write_table(pyarrow.table(columns), beside, row_group_size=65_536, **settings)
        beside.rename(path)
    return path


def scan():
    path, found = parquet(), {}
    time, label = pc.field("time"), pc.field("label")
    wanted = (time >= TIMES[0]) & (time < TIMES[1]) & (label == LABEL)

    def call():
        rows = pyarrow.dataset.dataset(path).to_table(filter=wanted, use_threads=args.threads > 1)
        sums = [pc.sum(rows[name]).as_py() for name in rows.column_names[2:]]
        found.update(matches=len(rows), total=sum(sums))

    common.calls(args, "pyarrow", pyarrow.__version__, call, samples=1_000_000, more=found)


{"record-scan": scan}.get(args.workload, lambda: common.unsupported(args))()
