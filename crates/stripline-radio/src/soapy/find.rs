//! The devices that SoapySDR finds.

use super::library;
use crate::devices::{DeviceList, FoundDevice};

/// Keys that are for users, and do not select a device.
const LABELS: [&str; 2] = ["label", "product"];

/// Returns the devices that fit the arguments.
pub(crate) fn find_devices(arguments: &str) -> Result<DeviceList, String> {
    let found = library::find(arguments)?;
    let devices = found.iter().map(|device| FoundDevice {
        driver: value(device, "driver").unwrap_or_default().to_owned(),
        label: value(device, "label").unwrap_or_default().to_owned(),
        name: name(device, &found),
    });
    let devices = devices.collect();
    Ok(DeviceList {
        devices,
        drivers: library::modules(),
        library: format!("SoapySDR {}", library::version()),
    })
}

type Pairs = [(String, String)];

fn value<'a>(device: &'a Pairs, key: &str) -> Option<&'a str> {
    device.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str())
}

/// Returns the shortest arguments that select the device: the driver with the serial number, or all
/// keys, as for a device of a server.
fn name(device: &Pairs, all: &[Vec<(String, String)>]) -> String {
    let key = |device: &Pairs| {
        let serial = value(device, "serial").filter(|serial| !serial.is_empty())?;
        Some(format!("driver={},serial={serial}", value(device, "driver")?))
    };
    let short = key(device)
        .filter(|_| value(device, "remote").is_none())
        .filter(|short| all.iter().filter(|other| key(other).as_ref() == Some(short)).count() == 1);
    short.unwrap_or_else(|| {
        let is_name =
            |(name, value): &&(String, String)| !LABELS.contains(&name.as_str()) && !value.contains(',');
        let pairs: Vec<String> =
            device.iter().filter(is_name).map(|(name, value)| format!("{name}={value}")).collect();
        pairs.join(",")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_has_the_shortest_unique_name() {
        let device = |pairs: &[(&str, &str)]| -> Vec<(String, String)> {
            pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
        };
        let one = device(&[
            ("driver", "rtlsdr"),
            ("label", "Generic, of a kind"),
            ("serial", "1"),
            ("tuner", "R820T"),
        ]);
        let two = device(&[("driver", "rtlsdr"), ("index", "1"), ("serial", "1")]);
        let bare = device(&[("driver", "audio"), ("device_id", "0"), ("label", "Line in")]);
        assert_eq!(name(&one, &[one.clone(), bare.clone()]), "driver=rtlsdr,serial=1");
        assert_eq!(name(&one, &[one.clone(), two.clone()]), "driver=rtlsdr,serial=1,tuner=R820T");
        let remote = [("driver", "remote"), ("label", "A"), ("remote", "tcp://b:1"), ("serial", "1")];
        let remote = device(&remote);
        assert_eq!(name(&remote, std::slice::from_ref(&remote)), "driver=remote,remote=tcp://b:1,serial=1");
        assert_eq!(name(&bare, &[one, bare.clone()]), "driver=audio,device_id=0");
    }
}
