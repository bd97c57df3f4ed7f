//! The program `skymem`.

fn main() -> std::process::ExitCode {
    skymem::cli::main()
}
