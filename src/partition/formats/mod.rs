//! Files of other samplers: the lid files of the LDMS sampler `ibnet`.

pub mod adopt;
pub mod ldms;
