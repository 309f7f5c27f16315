//! Files of other samplers: the lid files of LDMS.

pub mod adopt;
pub mod ldms;
