//! The bytes of the receiver's buffer that a datagram takes, by the kernel's count. The kernel
//! counts the memory that holds the datagram. This memory is larger than the datagram, and grows in
//! steps.

use super::DATAGRAM_HEADER;

/// The smallest datagram with a separate step, as a power of two.
const FIRST_BITS: u32 = 6;
/// The number of steps from one power of two to the next, as a power of two.
const STEP_BITS: u32 = 3;
/// The steps of datagrams of up to 65,535 bytes.
const STEPS: usize = (16 - FIRST_BITS as usize) << STEP_BITS;

/// The count in addition to twice the bytes, if nothing is measured.
const LEAST: u64 = 1024;
/// Bounds of this count if a probe was measured. An interface may count a page for each datagram.
const MEASURED_LEAST: [u64; 2] = [1536, 4096];

/// The charges for datagrams of each size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DatagramCharges {
    /// The charge of each step. If empty, nothing is measured, and a datagram counts twice the
    /// payload plus `least`.
    steps: Vec<u32>,
    least: u64,
}

impl Default for DatagramCharges {
    fn default() -> Self {
        Self { steps: Vec::new(), least: LEAST }
    }
}

impl DatagramCharges {
    /// Returns the bytes of the largest datagram of each step.
    pub(crate) fn sizes() -> impl Iterator<Item = usize> {
        (0..STEPS).map(|step| {
            let (power, part) = (FIRST_BITS as usize + (step >> STEP_BITS), step & ((1 << STEP_BITS) - 1));
            (((1 << STEP_BITS) + part + 1) << (power - STEP_BITS as usize)) - 1
        })
    }

    /// Returns the charges that were measured for each of [these sizes](DatagramCharges::sizes). An
    /// empty slice means that nothing was measured.
    ///
    /// # Errors
    /// A description of the fault in the charges, for the peer.
    pub(crate) fn measured(steps: &[u32]) -> Result<Self, String> {
        let is_likely =
            |(size, charge): (usize, &u32)| (size / 2..=2 * size + 4096).contains(&(*charge as usize));
        match steps.len() {
            0 => Ok(Self::default()),
            STEPS if Self::sizes().zip(steps).all(is_likely) => {
                Ok(Self { steps: steps.to_vec(), ..Self::default() })
            }
            STEPS => Err("the charges of datagrams are not likely".into()),
            count => Err(format!("the charges of {count} sizes of datagrams in place of {STEPS}")),
        }
    }

    /// Counts at least the charge of a probe, which is the smallest datagram; 0: not measured.
    /// Charges that were measured for each size stay as they are.
    pub(crate) fn set_least(&mut self, probe: u64) {
        let [low, high] = MEASURED_LEAST;
        if probe > 0 {
            self.least = probe.clamp(low, high);
        }
    }

    /// Raises the charge of each size to the larger of both.
    pub(crate) fn raise(&mut self, other: &Self) {
        self.least = self.least.max(other.least);
        if self.steps.is_empty() || other.steps.is_empty() {
            self.steps.clear();
        }
        self.steps.iter_mut().zip(&other.steps).for_each(|(own, other)| *own = *other.max(own));
    }

    /// Returns the greatest charge of a datagram with a payload of `payload` bytes.
    #[inline]
    pub(crate) fn of(&self, payload: usize) -> u64 {
        let bytes = payload + DATAGRAM_HEADER;
        let power = bytes.max(1 << FIRST_BITS).ilog2();
        let part = (bytes.max(1 << FIRST_BITS) >> (power - STEP_BITS)) - (1 << STEP_BITS);
        let step = ((power - FIRST_BITS) << STEP_BITS) as usize + part;
        self.steps.get(step).map_or(2 * payload as u64 + self.least, |charge| u64::from(*charge))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_size_has_the_charge_of_its_step() {
        let sizes: Vec<usize> = DatagramCharges::sizes().collect();
        assert_eq!((sizes[0], sizes[1], *sizes.last().unwrap()), (71, 79, 65_535));
        assert!(sizes.is_sorted());
        let steps: Vec<u32> = sizes.iter().map(|size| *size as u32 + 100).collect();
        let charges = DatagramCharges::measured(&steps).unwrap();
        for bytes in DATAGRAM_HEADER..=65_535 {
            let step = sizes.partition_point(|size| *size < bytes);
            assert_eq!(charges.of(bytes - DATAGRAM_HEADER), u64::from(steps[step]), "{bytes}");
        }
        // This payload is larger than one datagram: it stands for several datagrams at once.
        assert_eq!(charges.of(100_000), 201_024);
    }

    #[test]
    fn what_is_not_measured_counts_twice() {
        let mut charges = DatagramCharges::measured(&[]).unwrap();
        assert_eq!((charges.of(0), charges.of(1000)), (1024, 3024));
        for (charge, least) in [(0, 1024), (832, 1536), (2304, 2304), (1 << 40, 4096)] {
            charges.set_least(charge);
            assert_eq!(charges.of(1000), 2000 + least);
        }
    }

    #[test]
    fn charges_that_lie_are_refused() {
        let honest: Vec<u32> = DatagramCharges::sizes().map(|size| size as u32).collect();
        assert!(DatagramCharges::measured(&honest).is_ok());
        for (index, lie) in [(0, 0), (0, 10_000), (79, 1), (79, u32::MAX)] {
            let mut steps = honest.clone();
            steps[index] = lie;
            assert!(DatagramCharges::measured(&steps).unwrap_err().contains("not likely"));
        }
        assert!(DatagramCharges::measured(&honest[1..]).unwrap_err().contains("79 sizes"));
    }

    #[test]
    fn a_group_counts_the_larger_charges() {
        let of = |more: u32| {
            let steps: Vec<u32> = DatagramCharges::sizes().map(|size| size as u32 + more).collect();
            DatagramCharges::measured(&steps).unwrap()
        };
        let mut charges = of(100);
        charges.raise(&of(50));
        assert_eq!(charges, of(100));
        charges.raise(&of(200));
        assert_eq!(charges, of(200));
        charges.raise(&DatagramCharges::default());
        assert_eq!(charges, DatagramCharges::default());
        charges.raise(&of(100));
        assert_eq!(charges, DatagramCharges::default());
    }
}
