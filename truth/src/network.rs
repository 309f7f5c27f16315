//! Packets that move through a fabric, and credits that stop them.
//!
//! All packets have the same size. A device stores a packet before it forwards it. Each input port
//! has a buffer for each virtual lane (VL), and a packet is sent only if the buffer at the other
//! end of the cable has space for it: a *credit*. A packet keeps its place in the buffer until it
//! was sent. The order of packets of one input, lane and output does not change.
//!
//! Time is counted in ticks; nothing here depends on the clock of the machine.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use ibnet_record::types::NodeKind;

use crate::fabric::{Fabric, Host, Way};

/// Ticks for which a link is busy with one packet.
pub const PACKET: u64 = 1000;

/// Number of virtual lanes.
pub const LANES: usize = 2;

/// A packet. Packets without a job are background traffic.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Packet {
    /// Its destination.
    pub to: Host,
    /// Index of the job that sent it.
    pub job: u16,
    /// Virtual lane.
    pub lane: u8,
}

/// Which packets of an input buffer can leave it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Queueing {
    /// Only the first one of each lane. It blocks all others behind it.
    Fifo,
    /// The first one for each output port (virtual output queues, as switches have them).
    ByOutput,
}

/// How the devices work.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Packets for which an input buffer has space, for each lane.
    pub buffer: u16,
    /// Queues of the input buffers.
    pub queueing: Queueing,
    /// Whether a packet that goes up takes the port with the fewest packets before it.
    pub adaptive: bool,
}

/// What a port did since the beginning.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Totals {
    /// Packets sent.
    pub sent: u64,
    /// Packets received.
    pub received: u64,
    /// Ticks in which the port had packets but no credit for any of them (PortXmitWait).
    pub waited: u64,
}

/// What happened, for the program that makes the traffic.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Happened {
    /// A host took a packet out of its buffer.
    Delivered(Packet),
    /// A time that was set has come.
    Timer(u32),
}

/// Packets of one message that its host has not sent yet.
#[derive(Clone, Copy, Debug)]
struct Message {
    packet: Packet,
    left: u32,
}

/// One of the inputs of an output port that has a packet for it, as a bit.
type Inputs = u64;

#[derive(Clone, Debug)]
struct PortState {
    /// The packet that is being sent, with the input it came from.
    sending: Option<(Packet, usize)>,
    /// Free places in the buffer at the other end.
    credits: [u16; LANES],
    /// The inputs that have a packet for this port.
    requests: [Inputs; LANES],
    /// Number of packets for this port.
    queued: [u32; LANES],
    /// The lane, and in each lane the input, whose turn it is.
    lane_turn: usize,
    input_turn: [u32; LANES],
    waits_since: Option<u64>,
    totals: Totals,
    /// Messages of a host that wait to be sent. Each sends a packet in turn.
    messages: [VecDeque<Message>; LANES],
    /// Ticks in which a host takes one packet out of its buffer; `None`: it takes none.
    drain: Option<u64>,
    /// Packets in the buffer of a host.
    received: VecDeque<Packet>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Event {
    Sent(usize),
    Drained(usize),
    Timer(u32),
}

/// The moving packets of a fabric.
pub struct Network<'a> {
    fabric: &'a Fabric,
    settings: Settings,
    ports: Vec<PortState>,
    /// Queues of the switches: see [`Self::queue`].
    queues: Vec<VecDeque<Packet>>,
    /// Index of the first queue of each device.
    first_queue: Vec<usize>,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    count: u64,
    now: u64,
}

impl<'a> Network<'a> {
    /// Makes a network without packets.
    pub fn new(fabric: &'a Fabric, settings: Settings) -> Self {
        let mut queues = 0;
        let first_queue = fabric
            .nodes
            .iter()
            .map(|node| {
                let first = queues;
                if node.kind == NodeKind::Switch {
                    queues += node.len * node.len * LANES;
                }
                first
            })
            .collect();
        let port = PortState {
            sending: None,
            credits: [settings.buffer; LANES],
            requests: [0; LANES],
            queued: [0; LANES],
            lane_turn: 0,
            input_turn: [0; LANES],
            waits_since: None,
            totals: Totals::default(),
            messages: [const { VecDeque::new() }; LANES],
            drain: Some(0),
            received: VecDeque::new(),
        };
        Self {
            fabric,
            settings,
            ports: vec![port; fabric.ports.len()],
            queues: vec![VecDeque::new(); queues],
            first_queue,
            events: BinaryHeap::new(),
            count: 0,
            now: 0,
        }
    }

    /// Returns the time in ticks.
    pub fn now(&self) -> u64 {
        self.now
    }

    /// Returns what the port did until now.
    pub fn totals(&self, port: usize) -> Totals {
        let state = &self.ports[port];
        let open = state.waits_since.map_or(0, |since| self.now - since);
        let waited = state.totals.waited + open;
        Totals {
            waited,
            ..state.totals
        }
    }

    /// Returns what each port did until now.
    pub fn all_totals(&self) -> impl Iterator<Item = Totals> + '_ {
        (0..self.ports.len()).map(|port| self.totals(port))
    }

    /// Lets a host send a number of equal packets.
    pub fn send(&mut self, from: Host, packet: Packet, packets: u32) {
        let port = self.fabric.port_of(from);
        let message = Message {
            packet,
            left: packets,
        };
        if packets > 0 {
            self.ports[port].messages[usize::from(packet.lane)].push_back(message);
            self.try_send(port);
        }
    }

    /// Sets the time that a host needs to take a packet out of its buffer; `None`: it takes none.
    /// The packet that it takes at the moment needs the time that was set before.
    pub fn set_drain(&mut self, host: Host, ticks: Option<u64>) {
        let port = self.fabric.port_of(host);
        let had = std::mem::replace(&mut self.ports[port].drain, ticks);
        if had.is_none() && !self.ports[port].received.is_empty() {
            self.schedule(ticks.unwrap_or(0), Event::Drained(port));
        }
    }

    /// Sets a timer.
    pub fn set_timer(&mut self, ticks: u64, token: u32) {
        self.schedule(ticks, Event::Timer(token));
    }

    /// Lets time pass until something happens for the traffic, at most until this time.
    pub fn run_until(&mut self, end: u64) -> Option<Happened> {
        while let Some(Reverse((at, _, event))) = self.events.peek().copied()
            && at <= end
        {
            self.events.pop();
            self.now = at;
            let happened = match event {
                Event::Sent(port) => self.sent(port).map(Happened::Delivered),
                Event::Drained(port) => self.drained(port).map(Happened::Delivered),
                Event::Timer(token) => Some(Happened::Timer(token)),
            };
            if happened.is_some() {
                return happened;
            }
        }
        self.now = end;
        None
    }

    /// Returns the lanes in which the port has packets but no credit.
    pub fn lanes_without_credit(&self, port: usize) -> impl Iterator<Item = usize> + '_ {
        let state = &self.ports[port];
        (0..LANES).filter(|lane| state.has_packets(*lane) && state.credits[*lane] == 0)
    }

    /// Returns whether the port is waiting: it has packets, but no credit for any of them.
    pub fn waits(&self, port: usize) -> bool {
        self.ports[port].waits_since.is_some()
    }

    /// Returns the number of packets for each output of the switch, in one input buffer.
    pub fn buffered(&self, input: usize, lane: usize) -> impl Iterator<Item = (usize, usize)> + '_ {
        let node = self.fabric.ports[input].node;
        let first = self.fabric.nodes[node].first;
        (0..self.fabric.nodes[node].len).filter_map(move |output| {
            let sending = self.ports[first + output].sending;
            let moving = sending.is_some_and(|(packet, from)| {
                from == input - first && usize::from(packet.lane) == lane
            });
            let waiting = self.queues[self.queue(node, input - first, lane, output)].len();
            (waiting + usize::from(moving) > 0)
                .then_some((first + output, waiting + usize::from(moving)))
        })
    }

    /// Calls `each` for the packets that wait to be sent by the port.
    pub fn for_each_waiting(&self, port: usize, mut each: impl FnMut(Packet)) {
        let node = self.fabric.ports[port].node;
        let at = &self.fabric.nodes[node];
        for lane in 0..LANES {
            if at.kind == NodeKind::Switch {
                (0..at.len)
                    .flat_map(|input| &self.queues[self.queue(node, input, lane, port - at.first)])
                    .for_each(|packet| each(*packet));
            } else {
                self.ports[port].messages[lane]
                    .iter()
                    .for_each(|message| each(message.packet));
            }
        }
    }

    /// Returns the index of the queue of an input, a lane and an output of a switch.
    fn queue(&self, node: usize, input: usize, lane: usize, output: usize) -> usize {
        let output = if self.settings.queueing == Queueing::Fifo {
            0
        } else {
            output
        };
        let ports = self.fabric.nodes[node].len;
        self.first_queue[node] + (input * LANES + lane) * ports + output
    }

    fn schedule(&mut self, ticks: u64, event: Event) {
        self.count += 1;
        self.events
            .push(Reverse((self.now + ticks, self.count, event)));
    }

    /// Sends a packet if the port is idle, and has a packet and a credit in the same lane.
    fn try_send(&mut self, port: usize) {
        let state = &self.ports[port];
        if state.sending.is_some() {
            return;
        }
        let lanes = (0..LANES).map(|turn| (state.lane_turn + turn) % LANES);
        let (mut has_packets, mut chosen) = (false, None);
        for lane in lanes.filter(|lane| state.has_packets(*lane)) {
            has_packets = true;
            if state.credits[lane] > 0 {
                chosen = Some(lane);
                break;
            }
        }
        let waits = has_packets && chosen.is_none();
        self.set_waiting(port, waits);
        let Some(lane) = chosen else { return };
        let (packet, input) = self.take(port, lane);
        let state = &mut self.ports[port];
        state.lane_turn = (lane + 1) % LANES;
        state.credits[lane] -= 1;
        state.sending = Some((packet, input));
        self.schedule(PACKET, Event::Sent(port));
    }

    /// Takes the packet whose turn it is.
    fn take(&mut self, port: usize, lane: usize) -> (Packet, usize) {
        let node = self.fabric.ports[port].node;
        let state = &mut self.ports[port];
        if let Some(mut message) = state.messages[lane].pop_front() {
            message.left -= 1;
            if message.left > 0 {
                state.messages[lane].push_back(message);
            }
            return (message.packet, 0);
        }
        // The first input from the one whose turn it is.
        let turned = state.requests[lane].rotate_right(state.input_turn[lane]);
        let input = (turned.trailing_zeros() + state.input_turn[lane]) % Inputs::BITS;
        state.input_turn[lane] = (input + 1) % Inputs::BITS;
        state.queued[lane] -= 1;
        let output = port - self.fabric.nodes[node].first;
        let queue = self.queue(node, input as usize, lane, output);
        let packet = self.queues[queue]
            .pop_front()
            .expect("an input that asks has a packet");
        if self.settings.queueing == Queueing::Fifo || self.queues[queue].is_empty() {
            self.ports[port].requests[lane] &= !(1 << input);
        }
        (packet, input as usize)
    }

    fn set_waiting(&mut self, port: usize, waits: bool) {
        let state = &mut self.ports[port];
        match state.waits_since {
            Some(since) if !waits => {
                state.totals.waited += self.now - since;
                state.waits_since = None;
            }
            None if waits => state.waits_since = Some(self.now),
            _ => {}
        }
    }

    /// The port has sent its packet. Returns the packet if its host takes it at once.
    fn sent(&mut self, port: usize) -> Option<Packet> {
        let (packet, input) = self.ports[port].sending.take()?;
        let lane = usize::from(packet.lane);
        self.ports[port].totals.sent += 1;
        let node = self.fabric.ports[port].node;
        let at = &self.fabric.nodes[node];
        if at.kind == NodeKind::Switch {
            if self.settings.queueing == Queueing::Fifo {
                self.request_next(node, input, lane);
            }
            self.return_credit(at.first + input, lane);
        }
        let delivered = self.arrive(self.fabric.ports[port].peer, packet);
        self.try_send(port);
        delivered
    }

    /// An input buffer has one more free place.
    fn return_credit(&mut self, input: usize, lane: usize) {
        let sender = self.fabric.ports[input].peer;
        self.ports[sender].credits[lane] += 1;
        self.try_send(sender);
    }

    fn arrive(&mut self, input: usize, packet: Packet) -> Option<Packet> {
        self.ports[input].totals.received += 1;
        let lane = usize::from(packet.lane);
        let node = self.fabric.ports[input].node;
        let at = &self.fabric.nodes[node];
        if at.kind != NodeKind::Switch {
            let state = &mut self.ports[input];
            if state.drain == Some(0) && state.received.is_empty() {
                self.return_credit(input, lane);
                return Some(packet);
            }
            state.received.push_back(packet);
            if let (1, Some(ticks)) = (state.received.len(), state.drain) {
                self.schedule(ticks, Event::Drained(input));
            }
            return None;
        }
        let output = match self.fabric.way(node, packet.to) {
            Way::Down(port) => usize::from(port),
            Way::Up(ports, position) if self.settings.adaptive => {
                // The ports in the order of the static route, so that equal ones share the load.
                let load = |port: &u8| {
                    let state = &self.ports[at.first + usize::from(*port)];
                    state.queued[lane] + u32::from(self.settings.buffer - state.credits[lane])
                };
                let (after, first) = (&ports[..position], &ports[position..]);
                let port = first.iter().chain(after).min_by_key(|port| load(port));
                usize::from(*port.unwrap_or(&ports[position]))
            }
            Way::Up(ports, position) => usize::from(ports[position]),
        };
        let index = input - at.first;
        let queue = self.queue(node, index, lane, output);
        let was_empty = self.queues[queue].is_empty();
        self.queues[queue].push_back(packet);
        match self.settings.queueing {
            Queueing::ByOutput => self.request(at.first + output, index, lane),
            Queueing::Fifo if was_empty && !self.is_moving(node, index, lane) => {
                self.request(at.first + output, index, lane);
            }
            Queueing::Fifo => {}
        }
        None
    }

    /// Returns whether the packet that was the first of the buffer is being sent.
    fn is_moving(&self, node: usize, input: usize, lane: usize) -> bool {
        let at = &self.fabric.nodes[node];
        self.ports[at.first..at.first + at.len].iter().any(|state| {
            state
                .sending
                .is_some_and(|(packet, from)| from == input && usize::from(packet.lane) == lane)
        })
    }

    /// The first packet of a buffer was sent: the next one asks for its output.
    fn request_next(&mut self, node: usize, input: usize, lane: usize) {
        let queue = self.queue(node, input, lane, 0);
        if let Some(packet) = self.queues[queue].front()
            && let Way::Down(output) = self.fabric.way(node, packet.to)
        {
            let output = self.fabric.nodes[node].first + usize::from(output);
            self.request(output, input, lane);
        }
    }

    fn request(&mut self, output: usize, input: usize, lane: usize) {
        self.ports[output].requests[lane] |= 1 << input;
        self.ports[output].queued[lane] += 1;
        self.try_send(output);
    }

    fn drained(&mut self, port: usize) -> Option<Packet> {
        let state = &mut self.ports[port];
        let ticks = state.drain?;
        let packet = state.received.pop_front()?;
        if !state.received.is_empty() {
            self.schedule(ticks, Event::Drained(port));
        }
        self.return_credit(port, usize::from(packet.lane));
        Some(packet)
    }
}

impl PortState {
    fn has_packets(&self, lane: usize) -> bool {
        self.requests[lane] != 0 || !self.messages[lane].is_empty()
    }
}
