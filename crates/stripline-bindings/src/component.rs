//! Component types of a program in another language, and the requests to their components.

use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::Arc;

use stripline::Result;
use stripline::component::{
    Change, ComponentSpec, ControlRequests, Direction, Ports, Properties, Registry, Request, Test,
    main_with_args,
};
use stripline::node::{PacketView, Subscriber};
use stripline::payload::Dynamic;

/// The exit code of a program that was called with wrong arguments.
pub const USAGE: u8 = 2;

/// A component type of a program: the functions that check properties and create components. The
/// functions run on threads of the library.
///
/// ```
/// use std::sync::Arc;
/// use stripline::Result;
/// use stripline::component::{Change, ComponentSpec, Ports, Properties, Registry, Test};
/// use stripline::component::harness::Harness;
/// use stripline_bindings::{Class, Instance, Requests, add_class};
///
/// struct Idle;
///
/// impl Class for Idle {
///     type Instance = Self;
///     fn create(_: &Arc<Self>, _: &Properties) -> Result<Self> {
///         Ok(Self)
///     }
/// }
///
/// impl Instance for Idle {
///     fn takes_requests(&self) -> bool {
///         false
///     }
///     fn run(self: Arc<Self>, _: Ports, _: Option<Arc<Requests<Self>>>) -> Result<()> {
///         Ok(())
///     }
///     fn change(&self, change: Change) {
///         change.accept();
///     }
///     fn test(&self, test: Test) {
///         test.pass("nothing to test");
///     }
/// }
///
/// let spec = ComponentSpec::new("idle", "Does nothing.");
/// let registry = add_class(Registry::new(), spec, Arc::new(Idle));
/// Harness::of_type(&registry, "idle").start()?.finish()?;
/// # Ok::<(), stripline::Error>(())
/// ```
pub trait Class: Send + Sync + 'static {
    /// A component of this type.
    type Instance: Instance;

    /// Checks the properties together; called if the specification has
    /// [`validates`](ComponentSpec::validates).
    ///
    /// # Errors
    /// The reason why the component refuses them.
    fn validate(&self, _values: &Properties) -> Result<()> {
        Ok(())
    }

    /// Creates a component of these properties.
    ///
    /// # Errors
    /// The failure of the program's function.
    fn create(class: &Arc<Self>, values: &Properties) -> Result<Self::Instance>;
}

/// A component that was created. See [`Class`] for an example.
pub trait Instance: Send + Sync + Sized + 'static {
    /// Returns whether the component has functions for requests.
    fn takes_requests(&self) -> bool;

    /// Runs the component to its end. `requests` is `None` for a component that takes none.
    ///
    /// # Errors
    /// The failure of the program's function.
    fn run(self: Arc<Self>, ports: Ports, requests: Option<Arc<Requests<Self>>>) -> Result<()>;

    /// Takes new values, or refuses them.
    fn change(&self, change: Change);

    /// Runs a self-test, and answers it.
    fn test(&self, test: Test);
}

/// The requests to a running component. See [`Class`] for an example.
pub struct Requests<I> {
    waiting: ControlRequests,
    instance: Arc<I>,
}

impl<I: Instance> Requests<I> {
    /// Runs the component's functions for the requests that wait. Without requests, it costs one
    /// load.
    pub fn serve(&self) {
        while let Some(request) = self.waiting.request() {
            match request {
                Request::Change(change) => self.instance.change(change),
                Request::Test(test) => self.instance.test(test),
            }
        }
    }
}

/// Adds a component type to a registry. See [`Class`] for an example.
#[must_use]
pub fn add_class<C: Class>(registry: Registry, mut spec: ComponentSpec, class: Arc<C>) -> Registry {
    if spec.validates {
        let of = Arc::clone(&class);
        spec = spec.validated(move |values: &Properties| of.validate(values));
    }
    registry.with_value(spec, move |values: &Properties| {
        let instance = Arc::new(C::create(&class, values)?);
        Ok(move |ports: Ports| {
            let waiting = instance.takes_requests().then(|| ports.requests());
            let requests = waiting.map(|waiting| Requests { waiting, instance: Arc::clone(&instance) });
            instance.run(ports, requests.map(Arc::new))
        })
    })
}

/// Returns the name of the only input, or of the only output, of a component with a handler.
///
/// ```
/// use stripline::component::{ComponentSpec, Direction, PortTypes};
///
/// let gain = ComponentSpec::new("gain", "Multiplies.").input("in", PortTypes::of::<f32>(), "samples");
/// assert_eq!(stripline_bindings::only_port(&gain, Direction::Input), Some("in"));
/// assert_eq!(stripline_bindings::only_port(&gain, Direction::Output), None);
/// ```
pub fn only_port(spec: &ComponentSpec, direction: Direction) -> Option<&str> {
    spec.ports.iter().find(|port| port.direction == direction).map(|port| port.name.as_str())
}

/// Runs a handler for each packet of an input, on the threads that the waveform selects. Requests
/// are served before each packet, and while no packet arrives. `send` gets the results one at a
/// time, in order.
///
/// # Errors
/// The first failure of a handler or of `send`, and the errors of the input.
///
/// ```no_run
/// # fn input() -> stripline::node::Subscriber<stripline::payload::Dynamic> { unimplemented!() }
/// # use stripline_bindings::{Instance, Requests};
/// # fn count<I: Instance>(requests: Option<std::sync::Arc<Requests<I>>>) -> stripline::Result<usize> {
/// let mut bytes = 0;
/// stripline_bindings::run_handler(input(), requests, |packet| Ok(packet.len()), |_, length| {
///     bytes += length;
///     Ok(())
/// })?;
/// # Ok(bytes)
/// # }
/// ```
pub fn run_handler<I: Instance, R>(
    mut input: Subscriber<Dynamic>,
    requests: Option<Arc<Requests<I>>>,
    handle: impl Fn(PacketView<'_, Dynamic>) -> Result<R> + Sync,
    send: impl FnMut(PacketView<'_, Dynamic>, R) -> Result<()> + Send,
) -> Result<()> {
    if let Some(requests) = requests.clone() {
        input.on_request(move || requests.serve());
    }
    let handle = |packet: PacketView<'_, Dynamic>| {
        requests.iter().for_each(|requests| requests.serve());
        handle(packet)
    };
    input.serve_then(input.dispatch(), handle, send)
}

/// Runs the component types of a registry as the `main` of a program, and returns the exit code: 0,
/// 1 for a failure, or [`USAGE`].
///
/// ```no_run
/// let registry = stripline::component::Registry::new();
/// let code = stripline_bindings::main(&registry, std::env::args_os().skip(1).collect());
/// std::process::exit(code.into());
/// ```
pub fn main(registry: &Registry, arguments: Vec<OsString>) -> u8 {
    match main_with_args(registry, arguments) {
        code if code == ExitCode::SUCCESS => 0,
        code if code == ExitCode::from(USAGE) => USAGE,
        _ => 1,
    }
}
