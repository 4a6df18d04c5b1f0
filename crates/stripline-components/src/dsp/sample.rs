//! The sample types of filters and noise.

use num_complex::Complex;

mod sealed {
    pub trait Sealed {}
    impl Sealed for f32 {}
    impl Sealed for num_complex::Complex<f32> {}
}

/// A sample with one (`f32`) or two (`Complex<f32>`) `f32` components. The trait is sealed, because
/// filters rely on the memory layout.
pub trait Sample:
    bytemuck::Pod + Default + PartialEq + Send + Sync + std::fmt::Debug + sealed::Sealed
{
    /// The number of `f32` in a sample: 1 or 2.
    const COMPONENTS: usize;
}

impl Sample for f32 {
    const COMPONENTS: usize = 1;
}

impl Sample for Complex<f32> {
    const COMPONENTS: usize = 2;
}

/// Returns the samples as plain `f32`. Complex samples are interleaved I, Q.
pub(crate) fn components<T: Sample>(samples: &[T]) -> &[f32] {
    bytemuck::cast_slice(samples)
}

/// Returns the same as [`components`], for writing.
pub(crate) fn components_mut<T: Sample>(samples: &mut [T]) -> &mut [f32] {
    bytemuck::cast_slice_mut(samples)
}

/// Adds samples to the sums, pair by pair. Surplus elements of the longer slice are ignored.
pub(crate) fn add<T: Sample>(sums: &mut [T], samples: &[T]) {
    for (sum, x) in components_mut(sums).iter_mut().zip(components(samples)) {
        *sum += x;
    }
}
