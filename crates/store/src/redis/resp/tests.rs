//! Any split of the bytes gives the same values, and garbage gives an error.
