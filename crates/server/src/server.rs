//! Listens, serves, drains, stops.
