//! Descriptions of a plan: text for people, JSON for programs, pictures, and suggestions of sampler
//! hosts.

pub mod facts;
pub mod json;
pub mod picture;
pub mod sections;
pub mod suggest;
pub mod text;
