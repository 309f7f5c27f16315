//! The second reader of a device: libibmad or, on the simulated fabric, a second client of ibnet.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use std::time::Duration;

use ibnet_record::types::Lid;

use crate::mad::Mad;
use crate::mad::exchange::{Completion, Target};
use crate::mad::libibmad::LibibmadClient;
use crate::mad::pma::Data;
use crate::mad::query::Query;
use crate::mad::transport::{Locator, Transport, TransportError};
use crate::sweep::driver::{Clock, DeviceClient, TRIES};
use crate::sweep::query::{Client, NoAnswer};
use crate::time::Instant;

/// Reads attributes of a device independently of ibnet's own reader.
pub trait Reference {
    /// Directs the next queries to the device at this LID.
    fn turn_to(&mut self, lid: Lid);

    /// Reads an attribute. Returns the bytes of the reply from octet 64 of the MAD.
    ///
    /// # Errors
    /// Returns the reason why there is no answer.
    fn read(&mut self, query: &Query) -> Result<Data, Unread>;

    /// Returns the destination of the next query of performance management.
    fn agent(&self) -> Target;

    /// Returns the number of MADs sent. A redirection that libibmad followed counts as one more
    /// MAD.
    fn mads(&self) -> u64;
}

/// Reason why the second reader has no answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Unread {
    /// No reply.
    #[error("no reply")]
    Silent,
    /// The agent refused the query, or the MAD was not sent, which libibmad does not distinguish.
    #[error("refused or not sent: {}", io::Error::from_raw_os_error(*.0))]
    Failed(i32),
}

/// libibmad, with the number of its queries.
#[derive(Debug)]
pub struct Libibmad {
    client: LibibmadClient,
    lid: Lid,
    mads: u64,
}

impl Libibmad {
    /// Creates a reader that has sent nothing yet.
    pub fn new(client: LibibmadClient) -> Self {
        Self {
            client,
            lid: Lid(0),
            mads: 0,
        }
    }
}

impl Reference for Libibmad {
    fn turn_to(&mut self, lid: Lid) {
        self.lid = lid;
        self.client.turn_to(lid);
    }

    fn read(&mut self, query: &Query) -> Result<Data, Unread> {
        let mut reason = Unread::Silent;
        for _ in 0..TRIES {
            let before = self.client.agent().lid;
            let read = self.client.read(query);
            self.mads += 1 + u64::from(self.client.agent().lid != before);
            match read {
                Ok(data) => return Ok(data),
                Err(error) if error.kind() == io::ErrorKind::TimedOut => reason = Unread::Silent,
                Err(error) => reason = Unread::Failed(error.raw_os_error().unwrap_or(0)),
            }
        }
        Err(reason)
    }

    fn agent(&self) -> Target {
        self.client.agent()
    }

    fn mads(&self) -> u64 {
        self.mads
    }
}

/// A transport that two clients of one thread use in turn.
pub struct Shared<T>(Rc<RefCell<T>>);

impl<T> Shared<T> {
    /// Returns two handles to a transport.
    pub fn pair(transport: T) -> [Self; 2] {
        let one = Rc::new(RefCell::new(transport));
        [Self(Rc::clone(&one)), Self(one)]
    }
}

impl<T: Transport> Transport for Shared<T> {
    fn send(&mut self, target: &Target, mad: &Mad, now: Instant) -> Result<(), TransportError> {
        self.0.borrow_mut().send(target, mad, now)
    }

    fn recv(
        &mut self,
        mad: &mut Mad,
        wait: Duration,
        now: Instant,
    ) -> Result<Option<Completion>, TransportError> {
        self.0.borrow_mut().recv(mad, wait, now)
    }

    fn locator(&self) -> Locator {
        self.0.borrow().locator()
    }
}

/// A second client of ibnet, for a fabric that libibmad cannot reach. libibmad still decodes the
/// replies.
pub struct SecondClient<T, C> {
    client: DeviceClient<T, C>,
    /// LID of the device, and of the subnet manager.
    lid: Lid,
    manager: Lid,
    mads: u64,
}

impl<T: Transport, C: Clock> SecondClient<T, C> {
    /// Creates a reader that has sent nothing yet.
    pub fn new(client: DeviceClient<T, C>, manager: Lid) -> Self {
        Self {
            client,
            lid: Lid(0),
            manager,
            mads: 0,
        }
    }
}

impl<T: Transport, C: Clock> Reference for SecondClient<T, C> {
    fn turn_to(&mut self, lid: Lid) {
        self.lid = lid;
        self.client.turn_to(lid);
    }

    fn read(&mut self, query: &Query) -> Result<Data, Unread> {
        let is_for_manager = matches!(query, Query::Sa(_));
        if is_for_manager {
            self.client.turn_to(self.manager);
        }
        let response = self
            .client
            .request(query)
            .map_err(|error| Unread::Failed(error.errno()))?;
        if is_for_manager {
            self.client.turn_to(self.lid);
        }
        self.mads += u64::from(response.mads);
        match response.answer {
            Ok((_, data)) => Ok(data),
            Err(NoAnswer::Silent) => Err(Unread::Silent),
            Err(NoAnswer::NotSent(errno)) => Err(Unread::Failed(errno)),
            // libibmad reports EIO for the first two. The last one concerns registers only.
            Err(NoAnswer::BadReply(_) | NoAnswer::Refused(_) | NoAnswer::OtherVendor(_)) => {
                Err(Unread::Failed(rustix::io::Errno::IO.raw_os_error()))
            }
        }
    }

    fn agent(&self) -> Target {
        self.client.target(&super::CLASS_PORT_INFO_QUERY)
    }

    fn mads(&self) -> u64 {
        self.mads
    }
}
