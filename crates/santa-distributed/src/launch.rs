//! What a launcher such as `mpirun` tells the processes that it starts.

use std::env;

/// How this process was started, by the environment alone: nothing here needs MPI.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launch {
    /// The launcher.
    pub by: &'static str,
    /// How many processes it started.
    pub size: usize,
    /// Which of them this is, if it says so.
    pub rank: Option<usize>,
    /// How many of them on this machine, if it says so.
    pub here: Option<usize>,
}

/// A launcher, and the variables in which it says how many processes there are, which this one is, and
/// how many there are here.
const LAUNCHERS: [(&str, [&str; 3]); 4] = [
    (
        "Open MPI's mpirun",
        ["OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"],
    ),
    ("MPICH's mpiexec", ["PMI_SIZE", "PMI_RANK", "MPI_LOCALNRANKS"]),
    (
        "MVAPICH's mpirun",
        ["MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_LOCAL_SIZE"],
    ),
    ("Slurm's srun", ["SLURM_STEP_NUM_TASKS", "SLURM_PROCID", "SLURM_NTASKS_PER_NODE"]),
];

impl Launch {
    /// The launcher of this process, if it was one of those that are known.
    pub fn detect() -> Option<Launch> {
        Self::from(|name| env::var(name).ok())
    }

    fn from(variable: impl Fn(&str) -> Option<String>) -> Option<Launch> {
        let number = |name: &str| variable(name)?.trim().parse::<usize>().ok();
        LAUNCHERS.iter().find_map(|(by, [size, rank, here])| {
            let size = number(size).filter(|size| *size > 0)?;
            let here = number(here).filter(|here| *here > 0);
            Some(Launch { by, size, rank: number(rank), here })
        })
    }

    /// How many threads each process should use, on a machine of so many cores of which it may use those
    /// that are `available`.
    pub fn threads(&self, available: usize, cores: usize) -> usize {
        self.here.map_or(available, |here| (cores / here).clamp(1, available))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn launched(variables: &[(&str, &str)]) -> Option<Launch> {
        Launch::from(|name| {
            variables.iter().find(|(n, _)| *n == name).map(|(_, value)| value.to_string())
        })
    }

    #[test]
    fn launchers_are_known_by_their_variables() {
        assert_eq!(launched(&[("PATH", "/bin")]), None);
        let open = [("OMPI_COMM_WORLD_SIZE", "8"), ("OMPI_COMM_WORLD_LOCAL_SIZE", "4")];
        let launch = launched(&open).unwrap();
        assert_eq!((launch.size, launch.here), (8, Some(4)));
        assert_eq!(launched(&[("PMI_SIZE", "2")]).unwrap().by, "MPICH's mpiexec");
        assert_eq!(launched(&[("PMI_SIZE", "no number")]), None);
    }

    #[test]
    fn processes_on_a_machine_divide_its_cores() {
        let launch = Launch { by: "", size: 8, rank: None, here: Some(4) };
        assert_eq!((launch.threads(16, 16), launch.threads(2, 2)), (4, 1));
        // Bound to two cores by the launcher, or to half of them all.
        assert_eq!((launch.threads(2, 16), launch.threads(8, 16)), (2, 4));
    }
}
