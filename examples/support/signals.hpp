// How a run is interrupted: it comes to a step's end and saves.
#pragma once

namespace attune {

/// From now on Ctrl-C and SIGTERM are noted, and SIGHUP and SIGPIPE, which a terminal sends that is
/// closed; but not those that the program was told to ignore (nohup). Another Ctrl-C a second later
/// ends the program at once.
void catch_signals();
bool interrupted();

/// 128 + the number of the signal, as a shell has it.
int interrupted_status();

/// Ends what may be left unfinished. It is no error, and so no std::exception.
struct Interrupted {};
/// Throws Interrupted where there was a signal.
void stop_if_interrupted();

}  // namespace attune
