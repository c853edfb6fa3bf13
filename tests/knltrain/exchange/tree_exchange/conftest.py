from ...communication.gaspi.conftest import no_thread_is_left  # noqa: F401 (a fixture)
