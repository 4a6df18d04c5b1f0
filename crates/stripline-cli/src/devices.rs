//! `stripline devices`: the receivers and transmitters of this machine.

use serde_json::json;
use stripline_radio::{FoundDevice, find_devices};

use crate::arguments::DevicesArguments;
use crate::control::print_json;
use crate::failure::{Failure, Outcome};
use crate::format::printable;
use crate::show::print;
use crate::table::Table;

/// The longest text of a device, in characters.
const TEXT_MAX: usize = 300;

pub(crate) fn devices(arguments: &DevicesArguments) -> Outcome {
    let list = find_devices(&arguments.filter).map_err(Failure::new)?;
    if arguments.json {
        let devices = list.devices.iter().map(
            |FoundDevice { driver, label, name }| json!({ "driver": driver, "label": label, "device": name }),
        );
        return Ok(print_json(&json!({
            "devices": devices.collect::<Vec<_>>(),
            "drivers": list.drivers,
            "library": list.library,
        })));
    }
    if list.devices.is_empty() {
        let drivers = match list.drivers.len() {
            0 => {
                "no driver is installed: install one, for example soapysdr-module-rtlsdr (Debian)".to_owned()
            }
            1 => "1 driver has searched".to_owned(),
            count => format!("{count} drivers have searched"),
        };
        return Ok(print(&format!("no devices ({}; {drivers})\n", list.library)));
    }
    let mut table = Table::new(&["DRIVER", "LABEL", "DEVICE"]);
    for FoundDevice { driver, label, name } in &list.devices {
        table.add([driver, label, name].map(|text| printable(text, TEXT_MAX)));
    }
    let first = list.devices.first().map_or("", |device| &device.name);
    let file = format!("type = \"soapy-source\"\nproperties = {{ device = {first:?} }}");
    Ok(print(&format!("{}\nIn a waveform file:\n\n[component.source]\n{file}\n", table.render())))
}
