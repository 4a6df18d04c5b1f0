//! The devices that are connected to this machine.

use stripline::{Error, Result};

/// A device that a component can open.
///
/// ```
/// let device = stripline_radio::FoundDevice {
///     driver: "rtlsdr".into(),
///     label: "Generic RTL2832U".into(),
///     name: "driver=rtlsdr,serial=00000001".into(),
/// };
/// assert!(device.name.starts_with("driver="));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundDevice {
    /// The name of the driver.
    pub driver: String,
    /// The label for users; empty if the driver gives none.
    pub label: String,
    /// The value of the property `device` of `soapy-source` and `soapy-sink`.
    pub name: String,
}

/// The devices, and the drivers that searched for them.
///
/// ```
/// let list = stripline_radio::DeviceList::default();
/// assert!(list.devices.is_empty() && list.drivers.is_empty());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceList {
    /// The devices, in the order of the drivers.
    pub devices: Vec<FoundDevice>,
    /// The files of the drivers.
    pub drivers: Vec<String>,
    /// The library with its version.
    pub library: String,
}

/// Searches for the devices of SoapySDR that fit the arguments, for example `driver=rtlsdr`. With
/// empty arguments, finds all devices. Blocks until all drivers have searched, which may take
/// seconds.
///
/// # Errors
/// This build lacks the feature `soapy`; a driver fails.
///
/// ```
/// match stripline_radio::find_devices("driver=none") {
///     Ok(list) => assert!(list.devices.is_empty()),
///     Err(error) => println!("{error}"),
/// }
/// ```
pub fn find_devices(arguments: &str) -> Result<DeviceList> {
    #[cfg(feature = "soapy")]
    return crate::soapy::find_devices(arguments).map_err(Error::failed);
    #[cfg(not(feature = "soapy"))]
    {
        let _ = arguments;
        Err(Error::failed(format!("SoapySDR is not in this program: {}", crate::SOAPY_REMEDY)))
    }
}
