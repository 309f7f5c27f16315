//! The words of the records: roles, results of checks, and names of events. [`Status`] has the
//! words of `status`, and [`NodeKind`] those of `kind`.
//!
//! [`Status`]: crate::status::Status
//! [`NodeKind`]: crate::types::NodeKind

words! {
    /// Role of a sampler for a port.
    pub enum Role {
        /// The sampler that the port is assigned to.
        Primary = "primary",
        /// The second sampler of the port, half an interval later.
        Secondary = "secondary",
    }
}

impl Role {
    /// Returns the role of a secondary sampler, or of a primary one.
    pub const fn of(is_secondary: bool) -> Self {
        if is_secondary {
            Self::Secondary
        } else {
            Self::Primary
        }
    }
}

words! {
    /// Result of the check of a device's identity.
    pub enum Identity {
        /// NodeInfo confirmed the device.
        Ok = "ok",
        /// The device was not verified.
        Unverified = "unverified",
    }
}

words! {
    /// Source of a link's width and speed.
    pub enum LinkSource {
        /// The net file.
        File = "file",
        /// A recent PortInfo of the device.
        Live = "live",
        /// The record was imported from LDMS, which does not store width and speed.
        Imported = "imported",
    }
}

words! {
    /// Values of `kind` in a `histogram` record.
    pub enum HistogramKind {
        /// Round-trip times.
        Rtt = "rtt",
        /// Service times.
        Service = "service",
        /// Durations of sweeps.
        Sweep = "sweep",
        /// Times that single readings of the clock take.
        Clock = "clock",
    }
}

words! {
    /// Values of `table` in a `routes` record.
    pub enum RoutesTable {
        /// A block of the linear forwarding table.
        Linear = "linear",
        /// Mapping of SLs to VLs.
        SlToVl = "sl_to_vl",
        /// The end of a round.
        Round = "round",
    }
}

words! {
    /// Name of an event of a sampler. `docs/records.md` explains the events.
    pub enum EventName {
        /// Counters are cleared from now on.
        Clear = "clear",
        /// A device does not clear its counters.
        ClearRefused = "clear_refused",
        /// The wall clock was set.
        ClockStep = "clock_step",
        /// A device does not support a counter group.
        GroupUnsupported = "group_unsupported",
        /// More data than the link can carry.
        Implausible = "implausible",
        /// A device demands a management key.
        KeyDemanded = "key_demanded",
        /// A device has another LID.
        LidChange = "lid_change",
        /// Lines are missing in an output.
        LinesLost = "lines_lost",
        /// A link has another width or speed.
        LinkChange = "link_change",
        /// A link is down.
        LinkDown = "link_down",
        /// Why a link went down.
        LinkDownReason = "link_down_reason",
        /// A link went down and came up again between two reads of its state.
        LinkFlapped = "link_flapped",
        /// A link is up again.
        LinkUp = "link_up",
        /// The HCA port of the sampler changed.
        LocalChange = "local_change",
        /// No known route leads to a device any more.
        NoRoute = "no_route",
        /// Another port is at the other end of a link.
        PeerChanged = "peer_changed",
        /// A device answers again.
        Reachable = "reachable",
        /// Registers of the physical layer cannot be read as often as configured.
        PhysicalLate = "physical_late",
        /// Registers of the physical layer are read as often as configured again.
        PhysicalOnTime = "physical_on_time",
        /// A device does not give registers of the physical layer.
        PhysicalUnsupported = "physical_unsupported",
        /// A device redirects its queries.
        Redirected = "redirected",
        /// The configuration or the plan was read again.
        Reload = "reload",
        /// A counter decreased.
        Reset = "reset",
        /// The right device is at its LID again.
        RightDevice = "right_device",
        /// The forwarding table of a switch changed.
        RoutesChanged = "routes_changed",
        /// MADs could not be sent.
        SendError = "send_error",
        /// Slots could not start in time.
        SlotMissed = "slot_missed",
        /// A subnet manager has another state.
        Sm = "sm",
        /// Another subnet manager is the master.
        SmChange = "sm_change",
        /// The file of a socket was made again.
        SocketRestored = "socket_restored",
        /// A trap.
        Trap = "trap",
        /// The subscription for traps changed.
        Traps = "traps",
        /// The HCA is there again.
        UmadBack = "umad_back",
        /// The HCA disappeared.
        UmadLost = "umad_lost",
        /// A device does not answer.
        Unreachable = "unreachable",
        /// Fewer MADs are in flight.
        WindowHalved = "window_halved",
        /// As many MADs as configured are in flight again.
        WindowRestored = "window_restored",
        /// Another device answers at a LID.
        WrongDevice = "wrong_device",
    }
}

/// Subject of an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Of {
    /// The sampler. `guid`, `lid` and `port` are null.
    Sampler,
    /// A device. `guid` and `lid` are the same as in the port records of the device, or are those
    /// of a subnet manager, whose device can be outside of the plan. `port` is null.
    Device,
    /// A port. `guid`, `lid` and `port` are set.
    Port,
}

impl EventName {
    /// Returns the subject.
    pub const fn of(self) -> Of {
        match self {
            Self::Implausible
            | Self::LinkChange
            | Self::LinkDown
            | Self::LinkDownReason
            | Self::LinkFlapped
            | Self::LinkUp
            | Self::PeerChanged
            | Self::Reset => Of::Port,
            Self::Clear
            | Self::ClockStep
            | Self::LinesLost
            | Self::LocalChange
            | Self::PhysicalLate
            | Self::PhysicalOnTime
            | Self::Reload
            | Self::SendError
            | Self::SlotMissed
            | Self::SocketRestored
            | Self::Traps
            | Self::UmadBack
            | Self::UmadLost
            | Self::WindowHalved
            | Self::WindowRestored => Of::Sampler,
            Self::ClearRefused
            | Self::GroupUnsupported
            | Self::KeyDemanded
            | Self::LidChange
            | Self::NoRoute
            | Self::PhysicalUnsupported
            | Self::Reachable
            | Self::Redirected
            | Self::RightDevice
            | Self::RoutesChanged
            | Self::Sm
            | Self::SmChange
            | Self::Trap
            | Self::Unreachable
            | Self::WrongDevice => Of::Device,
        }
    }
}
