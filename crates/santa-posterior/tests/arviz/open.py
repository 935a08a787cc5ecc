"""Opens a store as InferenceData; prints its shapes, attributes and diagnostics as JSON."""

import json
import sys
import warnings

warnings.simplefilter("ignore")

import arviz
import zarr

path = sys.argv[1]
if zarr.__version__.startswith("2."):
    data = arviz.from_zarr(path)
else:  # which ArviZ itself refers to xarray
    import xarray

    data = arviz.InferenceData.from_datatree(xarray.open_datatree(path, engine="zarr"))

summary = arviz.summary(data, round_to="none")
json.dump(
    {
        "groups": sorted(data.groups()),
        "dims": {name: list(v.dims) for name, v in data.posterior.data_vars.items()},
        "indices": data.posterior["w_dim_0"].values.tolist(),
        "seed": int(data.posterior.attrs["seed"]),
        "lp": data.sample_stats["lp"].values.tolist(),
        "summary": {
            name: {column: float(row[column]) for column in summary.columns}
            for name, row in summary.iterrows()
        },
    },
    sys.stdout,
)
