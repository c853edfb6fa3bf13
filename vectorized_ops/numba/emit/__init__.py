"""What emits code: vectors, flow of control, threads and memory in LLVM's terms."""
