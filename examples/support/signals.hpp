// Interrupting a run: it finishes its step and saves.
#pragma once

namespace attune {

/// From now on Ctrl-C and SIGTERM are noted, and SIGHUP and SIGPIPE, which follow when a terminal
/// is closed; but signals that the program was started to ignore (nohup) stay ignored. Ctrl-C more
/// than a second after the first signal ends the program at once.
void catch_signals();
bool interrupted();

/// 128 + the number of the signal, as a shell has it.
int interrupted_status();

/// Ends what may be left unfinished. It is no error, and so no std::exception.
struct Interrupted {};
/// Throws Interrupted where there was a signal.
void stop_if_interrupted();

}  // namespace attune
