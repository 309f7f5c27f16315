//! Descriptions of a plan: text, JSON, pictures, and suggestions of sampler hosts.

pub mod facts;
pub mod picture;
pub mod sections;
pub mod suggest;
pub mod text;
