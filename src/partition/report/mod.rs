//! Describes a plan as text, JSON and picture, and suggests sampler hosts.

pub mod facts;
pub mod json;
pub mod picture;
pub mod sections;
pub mod suggest;
pub mod text;
