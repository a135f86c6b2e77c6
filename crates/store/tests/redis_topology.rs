//! Which server has which counters: on real servers that are killed, frozen and resharded, and on fakes that answer what real ones rarely do.

mod servers;

mod redis_topology {
    mod cluster;
    mod fakes;
    mod kit;
    mod resharding;
    mod sentinel;
    mod single;
    mod traffic;
    mod wrong;
}
