// Package host measures what two parameters of the Linux kernel change for programs that write: how much may be written and
// not yet be on the disk (vm.dirty_ratio and vm.dirty_background_ratio), and how many requests of asynchronous I/O all
// programs together may set up (fs.aio-max-nr).
//
// The parameters are the machine's, not the program's. They are changed only with a [Keeper], a process that has seen the
// former values and puts them back whichever way this one ends. The files have no name, so that they go with the process.
package host
