//! The facts of a user as a graph: what is near, what links two, what matters to a question.
