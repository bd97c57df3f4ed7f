//! What files of other programs are read with: line by line, and the times they write down.

mod lines;
mod times;

pub use lines::{Line, next_line};
pub use times::written_moment;
