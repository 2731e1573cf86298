// Package bench compares what the library does with what it is to replace: the standard library, and go-redis. It needs
// no rival's code, so that every binary of millrace carries it (`millrace bench`). The rivals that have libraries of
// their own are in the module bench/ of the repository.
//
// All contenders of a case run in one process, or in one run of it, in turns, so that nobody always follows the same
// neighbour (internal/crossover). A machine that is shared, or warms up, is not the same from one minute to the next; the
// ratio of two turns of the same round is. What is reported is the median of the rounds, with the smallest and the largest
// value.
//
// Servers under load are child processes of the same binary, so that their CPU time is theirs alone. While they are loaded
// once more, beyond the rounds, internal/observe records the load here and the server's runtime and kernel there; the
// report puts them on one time axis.
package bench
