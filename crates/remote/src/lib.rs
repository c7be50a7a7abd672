//! An engine elsewhere: what a page says to the worker that computes for it.
//!
//! | module | what it holds |
//! |---|---|
//! | [`message`] | the messages and their bytes |
//! | [`client`] | [`RemoteEngine`]: an engine of [`lanthorn_session`] that writes messages and never waits |
//! | [`server`] | [`Server`]: carries the messages out on an engine that has storages |
//!
//! Messages are carried out in order, and only reads are answered. A run that fails poisons its results, so the error
//! comes with the first read that depends on it. How bytes travel between the two is not known here.

pub mod client;
pub mod message;
pub mod server;

pub use client::{RemoteEngine, RemoteTensor};
pub use server::{Reply, Server};
