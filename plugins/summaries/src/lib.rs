//! The rolling summary of each session: what left the window, in short.
